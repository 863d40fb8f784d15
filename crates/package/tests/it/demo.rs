//! The example package of the documentation, to the byte.

use std::path::Path;

use slipway_package::{Emit, Inputs, LoadOptions, Package, ValuesFile};

fn demo() -> Package {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/packages/demo.kurel");
    Package::load(&directory, &LoadOptions::default()).unwrap()
}

fn production() -> Inputs {
    let text = "replicas: 3\nmonitoring: {enabled: true}\n".to_owned();
    Inputs { values: vec![ValuesFile { name: "prod.yaml".to_owned(), text }], ..Inputs::default() }
}

const GOLDEN: &str = include_str!("../../../../examples/packages/demo.kurel/tests/golden/prod.yaml");

#[test]
fn the_stream_is_the_golden_one() {
    let build = demo().build(&production()).unwrap();
    assert_eq!(build.stream(Emit::default()), GOLDEN);
}

#[test]
fn a47_the_report_is_the_golden_one() {
    let build = demo().build(&production()).unwrap();
    assert_eq!(build.report().join("\n") + "\n", include_str!("demo_report.txt"));
    let validation = demo().validate(&production());
    assert_eq!(validation.report(&demo()).join("\n") + "\n", include_str!("demo_report.txt"));
}

/// The example with one file changed, in memory.
fn variant(path: &str, from: &str, to: &str) -> Package {
    use slipway_package::Files;
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
    Package::from_files(Files::of(files), None, &LoadOptions::default())
}

#[test]
fn variants_of_the_example_behave_as_documented() {
    use crate::support::{errors, said};
    let mut inputs = production();
    inputs.values[0].text.push_str("port: \"8080\"\n");
    assert_eq!(
        demo().build(&inputs).unwrap().stream(Emit::default()),
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
    assert_eq!(always.stream(Emit::default()), GOLDEN, "the order is the same");

    let conflict =
        variant("patches/features/10-monitoring.yaml", "requires:", "conflicts: [00-base.kpatch]\nrequires:");
    assert_eq!(errors(&conflict.build(&production()).unwrap_err()), ["KD022"]);
}
