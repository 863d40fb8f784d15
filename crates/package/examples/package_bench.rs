//! Measures building a package of many resources and patches; prints one JSON line per measurement.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use slipway_package::{BuildInputs, EmitOptions, LoadOptions, Package, PackageFiles};

/// A package whose patches each change a few objects, one in ten of them all Deployments of a name.
fn package(resources: usize, patches: usize) -> PackageFiles {
    let mut files: Vec<(String, String)> = Vec::new();
    let mut parameters =
        "kurel: {name: bench, version: 1.0.0, appVersion: \"1\"}\nglobal: {labels: {team: core}}\n"
            .to_owned();
    for number in 0..resources {
        let (name, namespace) = (format!("app-{number}"), format!("ns-{}", number % 10));
        let text = if number % 2 == 0 {
            format!(
                "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {name}\n  namespace: {namespace}\nspec:\n  replicas: 1\n  selector:\n    matchLabels:\n      app: {name}\n  template:\n    metadata:\n      labels:\n        app: {name}\n    spec:\n      containers:\n      - name: main\n        image: registry.example.com/{name}:1.0.0\n        env:\n        - name: PORT\n          value: \"8080\"\n        ports:\n        - name: http\n          containerPort: 8080\n        resources:\n          limits:\n            memory: 128Mi\n      - name: sidecar\n        image: registry.example.com/sidecar:2.0.0\n"
            )
        } else {
            let target = format!("app-{}", number - 1);
            format!(
                "apiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\n  namespace: ns-{}\nspec:\n  selector:\n    app: {target}\n  ports:\n  - name: http\n    port: 80\n    targetPort: http\n",
                (number - 1) % 10
            )
        };
        files.push((format!("resources/{number:05}.yaml"), text));
    }
    files.push(("patches/00-base.kpatch".to_owned(), "metadata.labels: \"${global.labels}\"\n".to_owned()));
    for number in 1..patches {
        let target = (number * 2) % resources.max(1) / 2 * 2;
        // A parameter file holds at most 10,000 values, so patches share some.
        let shared = number % 200;
        if number == shared {
            let _ = writeln!(
                parameters,
                "p{number}: {{replicas: {}, tag: \"{number}.0\", on: true}}",
                number % 9
            );
        } else if shared == 0 && number == 200 {
            parameters.push_str("p0: {replicas: 1, tag: \"1.0\", on: true}\n");
        }
        files.push((
            format!("patches/{number:05}.kpatch"),
            format!(
                "[deployment.app-{target}]\nspec.replicas: \"${{p{shared}.replicas}}\"\nmetadata.annotations[\"example.com/patch\"]: p{number}\n\n[deployment.app-{target}.spec.template.spec.containers[name=main]]\nimage: \"registry.example.com/app:${{p{shared}.tag}}\"\nenv[name=PORT].value: 9090\n"
            ),
        ));
        files.push((format!("patches/{number:05}.yaml"), format!("enabled: \"${{p{shared}.on}}\"\n")));
    }
    files.push(("parameters.yaml".to_owned(), parameters));
    PackageFiles::of(files)
}

fn report(name: &str, resources: usize, patches: usize, best: Duration) {
    let line = serde_json::json!({
        "name": name,
        "resources": resources,
        "patches": patches,
        "milliseconds": (best.as_secs_f64() * 100_000.0).round() / 100.0,
    });
    #[allow(clippy::print_stdout)]
    {
        println!("{line}");
    }
}

/// `package_bench [--short] [RESOURCES..]`: there are two patches for five resources.
fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let rounds = if words.iter().any(|word| word == "--short") { 1 } else { 9 };
    let mut sizes: Vec<usize> = words.iter().filter_map(|word| word.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = vec![500, 5000];
    }
    for resources in sizes {
        let patches = resources * 2 / 5;
        let files = package(resources, patches);
        let (mut load, mut build, mut emit) = (Duration::MAX, Duration::MAX, Duration::MAX);
        for _ in 0..rounds {
            let files = files.clone();
            let started = Instant::now();
            let package = Package::from_files(files, None, &LoadOptions::default());
            load = load.min(started.elapsed());
            let started = Instant::now();
            let built =
                package.build(&BuildInputs::default()).unwrap_or_else(|problems| panic!("{problems}"));
            build = build.min(started.elapsed());
            let started = Instant::now();
            assert!(!built.stream(EmitOptions::default()).is_empty());
            emit = emit.min(started.elapsed());
        }
        report("load", resources, patches, load);
        report("build", resources, patches, build);
        report("stream", resources, patches, emit);
        report("total", resources, patches, load + build + emit);
    }
}
