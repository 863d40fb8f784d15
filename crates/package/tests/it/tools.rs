//! Explaining, testing, comparing, starting and importing packages.

use std::path::Path;

use serde_json::json;
use slipway_package::{
    BuildInputs, EmitOptions, FileLayout, LoadOptions, LocalExtension, Package, PackageFiles, import,
    scaffold, template::parse_path,
};

use crate::support::{Kit, errors};

fn layered() -> Kit {
    Kit::web("replicas: 3\nprofile: {production: false}\n")
        .patch("00-base", "[deployment.web]\nspec.replicas: \"${replicas}\"\n")
        .patch("30-production", "[deployment.web]\nspec.replicas: \"${replicas}\"\n")
        .sidecar("30-production", "enabled: \"${profile.production}\"\n")
        .values("prod.yaml", "profile: {production: true}\nreplicas: 5\n")
}

/// Scenario A-35 of the specification.
#[test]
fn a_field_tells_its_story() {
    let build = layered().built();
    let story = build.explain("Deployment/apps/web.spec.replicas").unwrap();
    assert_eq!((story.value.clone(), story.base.clone()), (Some(json!(5)), Some(json!(1))));
    assert_eq!(
        story.to_string(),
        "Deployment apps/web  spec.replicas = 5\n\
         \x20 base       1  resources/deployment.yaml:5\n\
         \x20 set        5  patches/00-base.kpatch:2  ${replicas}\n\
         \x20 set        5  patches/30-production.kpatch:2  ${replicas}\n\
         \x20 parameter replicas = 5   values prod.yaml:2   (package default 3, parameters.yaml:2)\n\
         \x20 patch 00-base.kpatch always enabled\n\
         \x20 patch 30-production.kpatch profile.production=true (prod.yaml:1)\n"
    );
    let touched = build.trace_param(&parse_path("replicas").unwrap());
    assert_eq!(touched.len(), 2);
    assert!(touched.iter().all(|one| one.path == "spec.replicas" && one.object == "Deployment apps/web"));
    assert_eq!(build.trace_patch("30-production.kpatch").len(), 1);
    assert!(build.explain("Deployment/wbe").is_err());
    let whole = build.explain("deployment/web").unwrap();
    assert_eq!(whole.steps.len(), 2);
    let inside = layered()
        .patch("40", "[deployment.web.spec.template.spec]\ncontainers[-0]: {name: first, image: f}\ncontainers[name=app].image: new\n")
        .built();
    let image = inside.explain("Deployment/web.spec.template.spec.containers[name=app].image").unwrap();
    assert_eq!(
        (image.value, image.base),
        (Some(json!("new")), Some(json!("app:1"))),
        "elements keep their name"
    );
    assert_eq!(image.steps.len(), 1);
}

/// Scenario A-38 of the specification.
#[test]
fn two_sets_of_values_differ_field_by_field() {
    let mut kit = layered();
    let production = kit.built();
    kit.inputs.values.clear();
    let diff = kit.built().diff(&production);
    assert_eq!(diff.changed.len(), 1);
    let (id, fields) = &diff.changed[0];
    assert_eq!((id.kind.as_str(), fields.len()), ("Deployment", 1));
    assert_eq!(slipway_package::show_segs(&fields[0].path), "spec.replicas");
    assert_eq!((fields[0].old.clone(), fields[0].new.clone()), (Some(json!(3)), Some(json!(5))));
    assert!(production.diff(&production).is_empty());
}

/// Scenario A-37 of the specification.
#[test]
fn packages_test_themselves() {
    let test = |text: &str| {
        let kit = layered().file("tests/t.yaml", text);
        kit.package().test().unwrap().remove(0)
    };
    let passes = test(
        "name: good\nvalues: {replicas: 7}\nset: [profile.production=true]\nexpect:\n  resources: [Deployment/apps/web]\n  count: 3\n  absent: [Secret/x]\n  \
         fields:\n    Deployment/web spec.replicas: 7\n    Deployment/web spec.template.spec.containers[name=app].image: {matches: ^app}\n    Deployment/web spec.paused: {absent: true}\n  patches: {enabled: [30-production]}\n",
    );
    assert_eq!(passes.failures, Vec::<String>::new());
    let fails = test(
        "expect:\n  fields: {Deployment/web spec: {replicas: 4}}\n  count: 9\n  patches: {enabled: [30-production]}\n  errors: [KX001]\n",
    );
    assert!(
        fails.failures.iter().any(|line| line.contains("spec replicas: expected 4, found 3")),
        "{:?}",
        fails.failures
    );
    assert!(fails.failures.len() >= 4);
    let expected = test("values: {replicas: x}\nexpect: {errors: [KX033, KS010]}\n");
    assert!(expected.passed(), "{:?}", expected.failures);

    let golden = layered().file("tests/t.yaml", "snapshot: golden.yaml\n");
    let missing = golden.package().test().unwrap().remove(0);
    let update = missing.update.clone().unwrap();
    assert_eq!((missing.passed(), update.path.as_str()), (false, "tests/golden.yaml"));
    let kept = golden.clone().file("tests/golden.yaml", &update.text);
    assert!(kept.package().test().unwrap()[0].passed());
    let drifted = kept.file("tests/golden.yaml", &update.text.replace("replicas: 3", "replicas: 8"));
    let result = drifted.package().test().unwrap().remove(0);
    assert_eq!(result.failures, ["Deployment apps/web spec.replicas: expected 8, found 3"]);
    assert!(golden.file("tests/t.yaml", "nam: x\n").package().test().is_err());
}

#[test]
fn the_example_package_passes_its_own_tests() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/packages/demo.kurel");
    let package = Package::load(&directory, &LoadOptions::default()).unwrap();
    let results = package.test().unwrap();
    assert!(!results.is_empty());
    for result in results {
        assert_eq!(result.failures, Vec::<String>::new(), "{}", result.name);
    }
}

fn loaded(files: Vec<slipway_package::OutFile>) -> Package {
    let files = PackageFiles::of(files.into_iter().map(|file| (file.path, file.text)));
    Package::from_files(files, None, &LoadOptions::default())
}

#[test]
fn a_scaffold_builds_cleanly() {
    let new = scaffold("shop").unwrap();
    assert_eq!(new.directory, "shop.kurel");
    let package = loaded(new.files);
    let validation = package.validate(&BuildInputs::default());
    assert!(validation.problems.is_empty(), "{}", validation.problems);
    assert!(package.test().unwrap()[0].passed());
    assert!(scaffold("Not A Name").is_err());
}

#[test]
fn parameters_of_a_scaffold_name_their_schema() {
    let manifest = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 3}\n";
    let imported = import("web", &[("web.yaml".to_owned(), manifest.to_owned())]).unwrap();
    for new in [scaffold("shop").unwrap(), imported] {
        let text = |path: &str| {
            let file = new.files.iter().find(|file| file.path == path);
            file.unwrap_or_else(|| panic!("{path} of {}", new.directory)).text.clone()
        };
        let first = "# yaml-language-server: $schema=schemas/parameters.schema.json\n";
        assert!(text("parameters.yaml").starts_with(first), "{}", text("parameters.yaml"));
        let written = text("schemas/parameters.schema.json");
        assert_eq!(written, loaded(new.files.clone()).schema().unwrap().0.to_text());
    }
}

/// Scenario A-39 of the specification.
#[test]
fn imported_manifests_build_to_themselves() {
    let mut bundle = String::new();
    for number in 0..50 {
        let name = format!("app-{number}");
        bundle.push_str(&format!(
            "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}, namespace: apps}}\nspec:\n  replicas: {number}\n  selector: {{matchLabels: {{app: {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    spec: {{containers: [{{name: main, image: \"reg:5000/{name}:1.{number}\", ports: [{{name: http, containerPort: 80}}]}}]}}\n\
             ---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: apps}}\nspec: {{selector: {{app: {name}}}, ports: [{{port: 80, targetPort: http}}]}}\n\
             ---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: apps}}\ndata: {{text: \"a\\nb ${{x}}\\n\", n: \"1\"}}\n\
             ---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{name: {name}, namespace: apps}}\nspec: {{rules: [{{host: {name}.example.com, http: {{paths: [{{path: /, pathType: Prefix, backend: {{service: {{name: {name}, port: {{number: 80}}}}}}}}]}}}}]}}\n"
        ));
    }
    bundle.push_str("---\napiVersion: v1\nkind: Namespace\nmetadata: {name: apps}\n");
    let package = loaded(import("all", &[("bundle.yaml".to_owned(), bundle.clone())]).unwrap().files);
    let build = package.build(&BuildInputs::default()).unwrap_or_else(|problems| panic!("{problems}"));
    assert!(build.problems.is_empty(), "{}", build.problems);
    assert!(build.writes.len() >= 150, "parameters were proposed");
    let mut before: Vec<String> = slipway_yaml::parse(&bundle, "b")
        .unwrap()
        .iter()
        .filter(|node| !node.is_null())
        .map(slipway_yaml::YamlNode::to_json)
        .map(sorted)
        .collect();
    let mut after: Vec<String> = build.objects.iter().map(|object| sorted((*object.value).clone())).collect();
    before.sort();
    after.sort();
    assert_eq!(before, after);
    let changed = package
        .build(&BuildInputs {
            sets: vec![slipway_package::SetValue::yaml("app-7.replicas=70")],
            ..BuildInputs::default()
        })
        .unwrap();
    assert!(changed.stream(EmitOptions::default()).contains("replicas: 70"));
}

fn sorted(value: serde_json::Value) -> String {
    fn sort(value: serde_json::Value) -> serde_json::Value {
        match value {
            serde_json::Value::Object(map) => {
                let sorted: std::collections::BTreeMap<String, serde_json::Value> =
                    map.into_iter().map(|(key, value)| (key, sort(value))).collect();
                sorted.into_iter().collect()
            }
            serde_json::Value::Array(items) => items.into_iter().map(sort).collect(),
            other => other,
        }
    }
    sort(value).to_string()
}

#[test]
fn info_is_sorted_and_complete() {
    let kit = layered();
    let info = kit.package().info(&kit.inputs).unwrap();
    let names: Vec<&str> = info.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
    assert_eq!(names, ["profile.production", "replicas"]);
    assert_eq!(info.resources["apps"], ["Deployment/web", "Service/web"]);
    assert_eq!((info.patches.len(), info.phases["main"], info.metadata.name.as_str()), (2, 3, "p"));
}

/// Scenario A-48 of the specification.
#[test]
fn directories_are_read_with_their_local_extension_and_nothing_outside() {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("p.kurel/parameters.yaml", "kurel: {name: p, version: 1.0.0, appVersion: \"1\"}\na: package\n");
    write("p.kurel/resources/service.yaml", crate::support::SERVICE);
    write("p.kurel/patches/00.kpatch", "metadata.labels.a: \"${a}\"\n");
    write("p.kurel/.hidden/x.yaml", "not: read\n");
    write("p.kurel/examples/broken.yaml", "a: [\n");
    write("p.local.kurel/parameters.yaml", "a: local\n");
    let package = root.path().join("p.kurel");
    let label = |options: &LoadOptions| {
        let build = Package::load(&package, options).unwrap().build(&BuildInputs::default()).unwrap();
        crate::support::field(&build, "Service", "/metadata/labels/a")
    };
    assert_eq!(label(&LoadOptions::default()), "local");
    assert_eq!(label(&LoadOptions { local: LocalExtension::None, ..LoadOptions::default() }), "package");
    let stream = |order: &[&str]| {
        let other = tempfile::tempdir().unwrap();
        for name in order {
            let target = other.path().join(name);
            std::fs::create_dir_all(target.parent().unwrap()).unwrap();
            std::fs::copy(package.join(name), target).unwrap();
        }
        let package = Package::load(other.path(), &LoadOptions::default()).unwrap();
        package.build(&BuildInputs::default()).unwrap().stream(EmitOptions::default())
    };
    let files = ["parameters.yaml", "resources/service.yaml", "patches/00.kpatch"];
    assert_eq!(stream(&files), stream(&[files[2], files[1], files[0]]), "file order does not matter");
    assert!(Package::load(&root.path().join("gone"), &LoadOptions::default()).is_err());

    #[cfg(unix)]
    {
        write("secret.yaml", crate::support::NAMESPACE);
        std::os::unix::fs::symlink(root.path().join("secret.yaml"), package.join("resources/link.yaml"))
            .unwrap();
        let problems = || {
            Package::load(&package, &LoadOptions::default())
                .unwrap()
                .build(&BuildInputs::default())
                .unwrap_err()
        };
        assert_eq!(errors(&problems()), ["KR010"]);
        let said = crate::support::said(&problems(), "KR010");
        assert!(said.starts_with("resources/link.yaml:1:1: the link leads out of the package"), "{said}");
        std::fs::remove_file(package.join("resources/link.yaml")).unwrap();
        std::os::unix::fs::symlink("..", package.join("resources/up")).unwrap();
        assert_eq!(errors(&problems()), ["KR010"]);
        std::fs::remove_file(package.join("resources/up")).unwrap();
        std::os::unix::fs::symlink("service.yaml", package.join("resources/same.yaml")).unwrap();
        assert_eq!(errors(&problems()), ["KR020"], "a link inside is read like a file");
        std::fs::remove_file(package.join("resources/same.yaml")).unwrap();
        for (link, target) in [("patches/out", "../.."), ("patches/gone.kpatch", "nowhere"), ("tests", "/")] {
            std::os::unix::fs::symlink(target, package.join(link)).unwrap();
            assert_eq!(errors(&problems()), ["KR010"], "{link}");
            std::fs::remove_file(package.join(link)).unwrap();
        }
        write(r"p.kurel/patches/a\b.kpatch", "metadata.labels.b: c\n");
        let said = crate::support::said(&problems(), "KR011");
        assert!(said.starts_with(r"patches/a\b.kpatch:1:1: the file name has a backslash"), "{said}");
    }
}

/// Scenario A-48 of the specification.
#[test]
fn ids_and_output_have_forward_slashes_everywhere() {
    let kit = layered()
        .patch("features/deep/10-more", "[deployment.web]\nmetadata.labels.more: \"yes\"\n")
        .sidecar("features/deep/10-more", "requires: [00-base]\n")
        .local("patches/team/50-own.kpatch", "[service.web]\nmetadata.labels.own: \"yes\"\n");
    let build = kit.built();
    let ids: Vec<&str> = build.patches.iter().map(|patch| &*patch.id).collect();
    assert_eq!(
        ids,
        ["00-base.kpatch", "30-production.kpatch", "features/deep/10-more.kpatch", "team/50-own.kpatch"]
    );
    let mut all = build.report().join("\n") + &build.stream(EmitOptions::default());
    for layout in [FileLayout::Flat, FileLayout::Phases, FileLayout::ByKind, FileLayout::ByResource] {
        for file in build.files(layout, EmitOptions::default()) {
            all.push_str(&file.path);
            all.push_str(&file.text);
        }
    }
    all.push_str(&build.explain("Deployment/apps/web.metadata.labels.more").unwrap().to_string());
    all.push_str(&kit.package().patch_graph_dot());
    assert!(!all.contains('\\'), "{all}");
}
