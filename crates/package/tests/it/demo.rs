//! The example package of the documentation, to the byte.

use std::path::Path;

use slipway_package::{BuildInputs, EmitOptions, LoadOptions, Package, ValuesFile};

fn demo() -> Package {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/packages/demo.kurel");
    Package::load(&directory, &LoadOptions::default()).unwrap()
}

fn production() -> BuildInputs {
    let text = "replicas: 3\nmonitoring: {enabled: true}\n".to_owned();
    BuildInputs { values: vec![ValuesFile { name: "prod.yaml".to_owned(), text }], ..BuildInputs::default() }
}

const GOLDEN: &str = include_str!("../../../../examples/packages/demo.kurel/tests/golden/prod.yaml");

#[test]
fn the_stream_is_the_golden_one() {
    let build = demo().build(&production()).unwrap();
    assert_eq!(build.stream(EmitOptions::default()), GOLDEN);
}

/// Scenario A-47 of the specification.
#[test]
fn the_report_is_the_golden_one() {
    let build = demo().build(&production()).unwrap();
    assert_eq!(build.report().join("\n") + "\n", include_str!("demo_report.txt"));
    let validation = demo().validate(&production());
    assert_eq!(validation.report(&demo()).join("\n") + "\n", include_str!("demo_report.txt"));
}

/// The sample of the design: patches switched on, required and in conflict; three namespaces.
///
/// Scenario A-47 of the specification.
#[test]
fn the_report_has_the_layout_of_the_design() {
    let object = |kind: &str, api: &str, name: &str, namespace: &str, spec: &str| {
        format!(
            "apiVersion: {api}\nkind: {kind}\nmetadata: {{name: {name}, namespace: {namespace}}}\n{spec}---\n"
        )
    };
    let namespaces: String = ["apps", "data", "edge"]
        .map(|name| format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n---\n"))
        .concat();
    let services: String = ["apps", "data", "edge"]
        .map(|at| object("Service", "v1", "api", at, "spec: {ports: [{port: 80}]}\n"))
        .concat();
    let ingress =
        object("Ingress", "networking.k8s.io/v1", "api", "edge", "spec: {ingressClassName: nginx}\n");
    let kit = |simple: bool| {
        crate::support::Kit::bare(&format!(
            "monitoring: {{enabled: true}}\ningress: {{enabled: true}}\nsimple: {{enabled: {simple}}}\nlater: {{enabled: false}}\n"
        ))
        .file("resources/namespaces.yaml", &namespaces)
        .file("resources/services.yaml", &services)
        .file("resources/ingress.yaml", &ingress)
        .patch("00-base", "metadata.labels.managed: \"yes\"\n")
        .patch("features/05-metrics-base", "[service.*]\nmetadata.labels.metrics: \"yes\"\n")
        .sidecar("features/05-metrics-base", "enabled: false\n")
        .patch("features/10-monitoring", "[service.*]\nmetadata.labels.monitored: \"yes\"\n")
        .sidecar("features/10-monitoring", "enabled: \"${monitoring.enabled}\"\nrequires: [features/05-metrics-base.kpatch]\n")
        .patch("features/20-ingress", "[ingress.api]\nmetadata.labels.ingress: \"yes\"\n")
        .sidecar("features/20-ingress", "enabled: \"${ingress.enabled}\"\nconflicts: [features/25-simple-ingress.kpatch]\n")
        .patch("features/25-simple-ingress", "[ingress.api]\nmetadata.labels.ingress: simple\n")
        .sidecar("features/25-simple-ingress", "enabled: \"${simple.enabled}\"\nconflicts: [features/20-ingress.kpatch]\n")
        .patch("features/30-later", "[service.*]\nmetadata.labels.later: \"yes\"\n")
        .sidecar("features/30-later", "enabled: \"${later.enabled}\"\n")
    };
    let report = |kit: crate::support::Kit| {
        let package = kit.package();
        package.validate(&kit.inputs).report(&package).join("\n") + "\n"
    };
    assert_eq!(report(kit(false)), include_str!("layout_report.txt"));
    assert_eq!(report(kit(true)), include_str!("conflict_report.txt"));
}

/// The example with one file changed, in memory.
fn variant(path: &str, from: &str, to: &str) -> Package {
    use slipway_package::PackageFiles;
    let package = demo();
    let mut files: Vec<(String, String)> = ["parameters.yaml".to_owned()]
        .into_iter()
        .chain(package.files().below("resources/").map(str::to_owned))
        .chain(package.files().below("patches/").map(str::to_owned))
        .map(|path| {
            let text = String::from_utf8(package.files().get(&path).unwrap().to_vec()).unwrap();
            (path, text)
        })
        .collect();
    if to == "(gone)" {
        files.retain(|(known, _)| known != path);
    }
    for (known, text) in &mut files {
        if known == path {
            *text = text.replace(from, to);
        }
    }
    Package::from_files(PackageFiles::of(files), None, &LoadOptions::default())
}

#[test]
fn variants_of_the_example_behave_as_documented() {
    use crate::support::{errors, said};
    let mut inputs = production();
    inputs.values[0].text.push_str("port: \"8080\"\n");
    assert_eq!(
        demo().build(&inputs).unwrap().stream(EmitOptions::default()),
        GOLDEN,
        "a number in quotes is the same"
    );

    let other = variant("patches/00-base.kpatch", "name=app", "name=main").build(&production()).unwrap_err();
    assert_eq!(errors(&other), ["KX020"]);

    let mut inputs = production();
    inputs.values[0].text = "replicas: 3\nmonitoring: {enabled: true, port: x}\n".to_owned();
    let problems = demo().build(&inputs).unwrap_err();
    assert!(said(&problems, "KX033").starts_with("patches/features/05-metrics-port.kpatch:3:"), "{problems}");
    assert!(said(&problems, "KS010").starts_with("prod.yaml:2:"), "{problems}");

    let always = variant("patches/features/05-metrics-port.yaml", "", "(gone)").build(&production()).unwrap();
    assert_eq!(always.decision.order.len(), 3);
    assert_eq!(always.stream(EmitOptions::default()), GOLDEN, "the order is the same");

    let conflict =
        variant("patches/features/10-monitoring.yaml", "requires:", "conflicts: [00-base.kpatch]\nrequires:");
    assert_eq!(errors(&conflict.build(&production()).unwrap_err()), ["KD022"]);
}
