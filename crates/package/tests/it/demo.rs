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
fn the_report_is_the_golden_one() {
    let build = demo().build(&production()).unwrap();
    assert_eq!(build.report().join("\n") + "\n", include_str!("demo_report.txt"));
    let validation = demo().validate(&production());
    assert_eq!(validation.report(&demo()).join("\n") + "\n", include_str!("demo_report.txt"));
}
