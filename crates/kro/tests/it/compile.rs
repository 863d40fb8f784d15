//! Everything that is wrong with a spec, at once.

use serde_json::json;
use slipway_kro::{GraphSpec, SpecFault, check_spec};

fn problems(nodes: serde_json::Value) -> Vec<(SpecFault, String)> {
    let spec: GraphSpec = serde_json::from_value(json!({"nodes": nodes})).expect("can be read");
    match check_spec(&spec) {
        Ok(()) => Vec::new(),
        Err(error) => error.0.iter().map(|one| (one.fault, one.to_string())).collect(),
    }
}

fn step(id: &str, name: &str) -> serde_json::Value {
    json!({"id": id, "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {}}})
}

#[test]
fn every_problem_is_reported_with_its_place() {
    let mut wrong = step("b", "x-${dve.metadata.name}");
    wrong["readyWhen"] = json!(["${b.data.n == }", "plain", "${'text'}"]);
    wrong["recheckAfter"] = json!("1s");
    let found =
        problems(json!([step("dev", "a"), wrong, {"id": "in", "def": {}}, {"id": "x"}, step("B", "c")]));
    let texts: Vec<&str> = found.iter().map(|(_, text)| text.as_str()).collect();
    for expected in [
        "spec.nodes[1].template.metadata.name: 1:1: undeclared reference to 'dve'",
        "spec.nodes[1].readyWhen[0]: 1:",
        "spec.nodes[1].readyWhen[1]: must be one whole expression, `${…}`",
        "spec.nodes[1].readyWhen[2]: a condition is true or false, this is string",
        "spec.nodes[1].recheckAfter: `1s` is less than 5s",
        "spec.nodes[2].id: `in` is a word of the expression language",
        "spec.nodes[3]: one of `template`, `patch`, `ref`, `watch` and `def` is needed",
        "spec.nodes[4].id: `B` and `b` of spec.nodes[1] differ in nothing but case",
    ] {
        assert!(texts.iter().any(|text| text.starts_with(expected)), "{expected}\n in {texts:#?}");
    }
    assert!(texts.iter().any(|text| text.contains("did you mean `dev`?")), "{texts:#?}");
}

#[test]
fn cycles_are_named() {
    let a = step("a", "${b.metadata.name}");
    let b = step("b", "${a.metadata.name}");
    let found = problems(json!([a, b]));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].0, SpecFault::Dependency);
    assert!(found[0].1.contains("a → b → a") || found[0].1.contains("cycle"), "{found:?}");
}

#[test]
fn what_cannot_be_read_by_a_node_itself_is_refused() {
    let found = problems(json!([step("a", "${a.metadata.uid}")]));
    assert_eq!(found.first().map(|one| one.0), Some(SpecFault::Expression), "{found:?}");
    let mut ok = step("a", "x");
    ok["readyWhen"] = json!(["${a.metadata.uid != ''}"]);
    assert_eq!(problems(json!([ok])), []);
}

#[test]
fn types_are_checked_where_they_are_known() {
    let found = problems(json!([step("a", "x"), step("b", "${a.metadata.name + 1}")]));
    assert_eq!(found.first().map(|one| one.0), Some(SpecFault::Expression), "{found:?}");
}
