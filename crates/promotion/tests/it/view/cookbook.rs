//! The gates of the guide: each compiles, has cases, and does what the guide says.

use std::collections::BTreeMap;

use slipway_promotion::files::PromotionFiles;
use slipway_promotion::gate::{GateEvaluator, GateExpectation, GateTestVerdict, run_tests};

#[test]
fn every_gate_of_the_guide_passes_and_blocks_as_it_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/gates.md");
    let page = std::fs::read_to_string(path).expect("the guide is there");
    let mut read = PromotionFiles::default();
    for block in page.split("```yaml\n").skip(1) {
        let text = block.split("```").next().unwrap_or_default();
        read.read(text, "gates.md").unwrap_or_else(|problems| panic!("{problems}\n{text}"));
    }
    assert!(read.gates.len() >= 20, "{} gates", read.gates.len());
    assert!(read.warnings.is_empty(), "{}", read.warnings);
    let now = "2026-04-08T12:00:00Z".parse().expect("is a time");
    let results = run_tests(&GateEvaluator::new(), &read.gates, &read.tests, now);
    let wrong: Vec<_> = results.iter().filter(|result| result.verdict != GateTestVerdict::Ok).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let mut expected: BTreeMap<&str, Vec<GateExpectation>> = BTreeMap::new();
    for test in &read.tests {
        expected.entry(test.gate.as_str()).or_default().push(test.expect);
    }
    for gate in &read.gates {
        let cases = expected.get(gate.name()).map(Vec::as_slice).unwrap_or_default();
        let has = |wanted| cases.contains(&wanted);
        assert!(has(GateExpectation::Pass) && has(GateExpectation::Block), "{} lacks a case", gate.name());
    }
}
