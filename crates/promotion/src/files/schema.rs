//! Holds a document against the definition of its kind: fields that do not exist, are missing, or have the wrong form.

use serde_json::Value;
use slipway_problem::Problems;
use slipway_yaml::{Mapping, NodeValue, YamlNode};

use crate::kinds::{KindSpec, definitions};

/// Checks the spec of a document.
pub(super) fn check<S: KindSpec>(node: &YamlNode) -> Problems {
    let mut problems = Problems::new();
    for (key, _) in node.as_map().into_iter().flat_map(Mapping::iter) {
        let known = ["apiVersion", "kind", "metadata", "spec", "status"];
        let name = key.key_text();
        if !known.contains(&name.as_ref()) {
            problems.push(key.problem(format!("there is no field `{name}` here")).did_you_mean(&name, known));
        }
    }
    let definition = definitions().into_iter().find(|one| one["spec"]["names"]["kind"] == S::KIND);
    let schema = definition
        .map(|one| one["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clone());
    match (schema, node.get("spec")) {
        (Some(schema), Some(spec)) => check_node(spec, &schema, "spec", &mut problems),
        (_, None) => problems.push(node.problem(format!("a {} needs a `spec`", S::KIND))),
        (None, _) => {}
    }
    problems
}

fn check_node(node: &YamlNode, schema: &Value, path: &str, problems: &mut Problems) {
    if !has_type(node, schema) {
        let wanted = schema["type"].as_str().unwrap_or_default();
        let article = if wanted.starts_with(['a', 'i', 'o']) { "an" } else { "a" };
        let wanted = match wanted {
            "array" => "a list".to_owned(),
            "object" => "a mapping".to_owned(),
            other => format!("{article} {other}"),
        };
        problems.push(node.problem(format!("`{path}` takes {wanted}, not {}", node.kind_name())));
        return;
    }
    if let (Some(allowed), Some(text)) = (schema["enum"].as_array(), node.scalar_text()) {
        let words: Vec<&str> = allowed.iter().filter_map(Value::as_str).collect();
        if !words.is_empty() && !words.contains(&text.as_ref()) {
            let message = format!("`{path}` is one of {}, not `{text}`", words.join(", "));
            problems.push(node.problem(message).did_you_mean(&text, words));
        }
    }
    if let (Some(pattern), Some(text)) = (schema["pattern"].as_str(), node.scalar_text())
        && regex::Regex::new(pattern).is_ok_and(|regex| !regex.is_match(&text))
    {
        problems.push(node.problem(format!("`{path}`: `{text}` does not fit the pattern {pattern}")));
    }
    match &node.value {
        NodeValue::Seq(items) => {
            if let Some(least) = schema["minItems"].as_u64()
                && (items.len() as u64) < least
            {
                problems.push(node.problem(format!("`{path}` has at least {least} entry")));
            }
            for (index, item) in items.iter().enumerate() {
                check_node(item, &schema["items"], &format!("{path}[{index}]"), problems);
            }
        }
        NodeValue::Map(map) => {
            let Some(properties) = schema["properties"].as_object() else { return };
            let is_open = schema["x-kubernetes-preserve-unknown-fields"] == true
                || schema.get("additionalProperties").is_some();
            for (key, value) in map.iter() {
                let name = key.key_text();
                match properties.get(name.as_ref()) {
                    Some(schema) => check_node(value, schema, &format!("{path}.{name}"), problems),
                    None if is_open => {}
                    None => {
                        let known = properties.keys().map(String::as_str);
                        let message = format!("there is no field `{path}.{name}`");
                        problems.push(key.problem(message).did_you_mean(&name, known));
                    }
                }
            }
            for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                if map.get(name).is_none() {
                    problems.push(node.problem(format!("`{path}.{name}` is missing")));
                }
            }
        }
        _ => {}
    }
}

fn has_type(node: &YamlNode, schema: &Value) -> bool {
    if schema["x-kubernetes-int-or-string"] == true {
        return true;
    }
    match (schema["type"].as_str(), &node.value) {
        (_, NodeValue::Null) => true,
        (Some("object"), value) => matches!(value, NodeValue::Map(_)),
        (Some("array"), value) => matches!(value, NodeValue::Seq(_)),
        (Some("string"), value) => matches!(value, NodeValue::String(_)),
        (Some("integer"), value) => matches!(value, NodeValue::Int(_) | NodeValue::Uint(_)),
        (Some("number"), value) => {
            matches!(value, NodeValue::Int(_) | NodeValue::Uint(_) | NodeValue::Float(_))
        }
        (Some("boolean"), value) => matches!(value, NodeValue::Bool(_)),
        _ => true,
    }
}
