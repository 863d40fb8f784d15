//! Checking parameter values against their schema.

use serde_json::Value as Json;
use slipway_problem::Problems;

use super::generate::ParameterSchema;
use super::infer::{DemandedType, SchemaNode};
use crate::params::{ParamData, ParamValue, ResolvedParams};
use crate::report::coded_error;
use crate::template::{ParamPath, ParamStep};

/// Reports every value that does not fit, at the place it was given.
pub(crate) fn check_parameters(schema: &ParameterSchema, params: &ResolvedParams, problems: &mut Problems) {
    check_node(&schema.root, &params.root, &mut ParamPath(Vec::new()), params, problems);
}

fn check_node(
    node: &SchemaNode,
    param: &ParamValue,
    path: &mut ParamPath,
    params: &ResolvedParams,
    problems: &mut Problems,
) {
    match &param.data {
        ParamData::Broken | ParamData::Null => return,
        ParamData::Map(map) => {
            for (key, value) in map {
                if let Some(child) = node.properties.get(key).or(node.rest.as_deref()) {
                    path.0.push(ParamStep::Key(key.clone()));
                    check_node(child, value, path, params, problems);
                    path.0.pop();
                }
            }
        }
        ParamData::List(items) => {
            if let Some(child) = node.items.as_deref() {
                for (index, item) in items.iter().enumerate() {
                    path.0.push(ParamStep::Index(index));
                    check_node(child, item, path, params, problems);
                    path.0.pop();
                }
            }
        }
        _ => {}
    }
    let json = param.to_json();
    let wrong = type_mismatch(node, &json).or_else(|| rule_broken(node, &json));
    if let Some(wrong) = wrong {
        problems.push(coded_error("KS010", format!("`{path}` {wrong}")).at(params.location(param.pos)));
    }
}

/// A mismatch no cast can mend.
fn type_mismatch(node: &SchemaNode, value: &Json) -> Option<String> {
    let (wanted, usage) = match &node.demand {
        Some((demand, usage)) => (*demand, usage.as_str()),
        None if node.manual => return manual_type(node, value),
        None => return None,
    };
    let fits = match (wanted, value) {
        (DemandedType::Boolean, Json::Bool(_))
        | (DemandedType::Map, Json::Object(_))
        | (DemandedType::List, Json::Array(_)) => true,
        (DemandedType::Boolean, Json::String(text)) => text == "true" || text == "false",
        (DemandedType::Integer, Json::Number(number)) => !number.is_f64(),
        (DemandedType::Number, Json::Number(_)) => true,
        (DemandedType::Integer, Json::String(text)) => text.trim().parse::<i64>().is_ok(),
        (DemandedType::Number, Json::String(text)) => text.trim().parse::<f64>().is_ok(),
        _ => false,
    };
    (!fits)
        .then(|| format!("must be of type {}, not {} (used by {usage})", wanted.name(), shown_value(value)))
}

fn manual_type(node: &SchemaNode, value: &Json) -> Option<String> {
    let names: Vec<&str> = match node.keywords.get("type")? {
        Json::String(name) => vec![name],
        Json::Array(names) => names.iter().filter_map(Json::as_str).collect(),
        _ => return None,
    };
    let fits = names.iter().any(|name| match *name {
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "null" => value.is_null(),
        _ => true,
    });
    (!fits).then(|| format!("must be of type {}, not {}", names.join(" or "), shown_value(value)))
}

fn shown_value(value: &Json) -> String {
    match value {
        Json::Object(_) | Json::Array(_) => crate::val::type_name(value).to_owned(),
        other => format!("`{}`", other.as_str().map_or_else(|| other.to_string(), str::to_owned)),
    }
}

fn rule_broken(node: &SchemaNode, value: &Json) -> Option<String> {
    let text = match value {
        Json::String(text) => Some(text.clone()),
        Json::Number(number) => Some(number.to_string()),
        _ => None,
    };
    // An empty text is how packages say "not set".
    if text.as_deref() == Some("") {
        return None;
    }
    if let (Some(format), Some(text)) = (node.format, &text)
        && let Some(wrong) = format.check(text)
    {
        return Some(wrong);
    }
    let number = value.as_f64().or_else(|| text.as_ref()?.parse().ok());
    if let (Some(number), Some(least)) = (number, node.keywords.get("minimum").and_then(Json::as_f64))
        && number < least
    {
        return Some(format!("{number} is less than {least}"));
    }
    if let (Some(number), Some(most)) = (number, node.keywords.get("maximum").and_then(Json::as_f64))
        && number > most
    {
        return Some(format!("{number} is more than {most}"));
    }
    if let Some(words) = node.keywords.get("enum").and_then(Json::as_array)
        && !value.is_array()
        && !value.is_object()
        && !words.contains(value)
    {
        let all: Vec<String> =
            words.iter().map(|word| word.as_str().map_or_else(|| word.to_string(), str::to_owned)).collect();
        return Some(format!("{} is none of {}", shown_value(value), all.join(", ")));
    }
    if let (Some(pattern), Json::String(text)) = (node.keywords.get("pattern").and_then(Json::as_str), value)
        && node.manual
        && regex::RegexBuilder::new(pattern)
            .size_limit(1 << 20)
            .build()
            .is_ok_and(|pattern| !pattern.is_match(text))
    {
        return Some(format!("`{text}` does not match {pattern}"));
    }
    None
}
