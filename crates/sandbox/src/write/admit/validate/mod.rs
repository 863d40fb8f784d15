//! Validation of built-in kinds, in the order and words of a real server.

mod address;
pub(in crate::write) mod autoscaler;
pub(in crate::write) mod cluster;
pub(in crate::write) mod config;
pub(in crate::write) mod device;
pub(in crate::write) mod flow;
pub(in crate::write) mod hooks;
pub(in crate::write) mod job;
pub(in crate::write) mod limits;
mod names;
pub(in crate::write) mod network;
pub(in crate::write) mod node;
pub(in crate::write) mod pod;
pub(in crate::write) mod policies;
pub(in crate::write) mod service;
pub(in crate::write) mod status;
pub(in crate::write) mod storage;
pub(in crate::write) mod volume;
pub(in crate::write) mod workload;

use serde_json::{Value, json};

use super::meta;
use crate::status::StatusCause;

pub(crate) use address::canonical_ip_problem;
pub(crate) use config::validate_newer_event;
pub(crate) use pod::port_name_problems;
pub(crate) use service::validate_cluster_ips;

/// A list of causes being collected.
pub(crate) type CauseList = Vec<StatusCause>;

/// A value as Go prints its internal type: every field by its Go name, `null` where it is not set.
pub(crate) fn go_internal(value: &Value, fields: &[(&str, &str)]) -> Value {
    Value::Object(fields.iter().map(|(go, json)| ((*go).to_owned(), value[*json].clone())).collect())
}

/// `must be greater than or equal to 0`.
pub(crate) fn check_non_negative(value: &Value, field: String, out: &mut CauseList) {
    if value.as_i64().is_some_and(|n| n < 0) {
        out.push(StatusCause::invalid(field, value, "must be greater than or equal to 0"));
    }
}

/// One of a fixed set of words.
pub(crate) fn check_one_of(value: &Value, field: String, supported: &[&str], out: &mut CauseList) {
    match value.as_str().unwrap_or("") {
        "" => out.push(StatusCause::required(field, "")),
        word if supported.contains(&word) => {}
        _ => out.push(StatusCause::not_supported(field, value, supported)),
    }
}

/// One of a fixed set of words, where there is one at all.
pub(crate) fn check_known(value: &Value, field: String, supported: &[&str], out: &mut CauseList) {
    if value.as_str().is_some_and(|word| !supported.contains(&word)) {
        out.push(StatusCause::not_supported(field, value, supported));
    }
}

pub(crate) fn indexed_items(value: &Value) -> impl Iterator<Item = (usize, &Value)> {
    value.as_array().into_iter().flatten().enumerate()
}

pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(s) => s.is_empty(),
        Value::Array(a) => a.is_empty(),
        Value::Object(o) => o.is_empty(),
        _ => false,
    }
}

/// A `LabelSelector`.
pub(crate) fn validate_label_selector(selector: &Value, field: &str, out: &mut CauseList) {
    meta::validate_labels(&selector["matchLabels"], &format!("{field}.matchLabels"), out);
    for (i, expression) in indexed_items(&selector["matchExpressions"]) {
        let field = format!("{field}.matchExpressions[{i}]");
        let values = expression["values"].as_array().map_or(0, Vec::len);
        match expression["operator"].as_str().unwrap_or("") {
            "In" | "NotIn" => {
                if values == 0 {
                    out.push(StatusCause::required(
                        format!("{field}.values"),
                        "must be specified when `operator` is 'In' or 'NotIn'",
                    ));
                }
            }
            "Exists" | "DoesNotExist" => {
                if values > 0 {
                    out.push(StatusCause::forbidden(
                        format!("{field}.values"),
                        "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                    ));
                }
            }
            _ => out.push(StatusCause::invalid(
                format!("{field}.operator"),
                &expression["operator"],
                "not a valid selector operator",
            )),
        }
        let key = expression["key"].as_str().unwrap_or("");
        add_problems(meta::qualified_problems(key), &json!(key), &format!("{field}.key"), out);
        for (j, value) in indexed_items(&expression["values"]) {
            for problem in meta::label_value_problems(value.as_str().unwrap_or("")) {
                out.push(StatusCause::invalid(format!("{field}.values[{j}]"), value, &problem));
            }
        }
    }
}

/// Returns true if a `LabelSelector` matches a set of labels. Null matches nothing, `{}` everything.
pub(crate) fn selector_matches(selector: &Value, labels: &Value) -> bool {
    if !selector.is_object() {
        return false;
    }
    let has = |key: &str| labels.get(key).and_then(Value::as_str);
    let exact = selector["matchLabels"]
        .as_object()
        .is_none_or(|all| all.iter().all(|(k, v)| has(k).is_some() && has(k) == v.as_str()));
    exact
        && indexed_items(&selector["matchExpressions"]).all(|(_, e)| {
            let value = has(e["key"].as_str().unwrap_or(""));
            let listed = || e["values"].as_array().is_some_and(|v| v.iter().any(|v| v.as_str() == value));
            match e["operator"].as_str().unwrap_or("") {
                "In" => value.is_some() && listed(),
                "NotIn" => value.is_none() || !listed(),
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
}

/// `must be between 1 and 65535, inclusive`.
pub(crate) fn check_port_number(value: &Value, field: String, out: &mut CauseList) {
    if !value.as_i64().is_some_and(|n| (1..=65535).contains(&n)) {
        let shown = if value.is_null() { json!(0) } else { value.clone() };
        out.push(StatusCause::invalid(field, &shown, "must be between 1 and 65535, inclusive"));
    }
}

/// A port number or the name of one.
pub(crate) fn check_port_or_name(value: &Value, field: String, out: &mut CauseList) {
    match value {
        Value::String(name) => {
            for problem in port_name_problems(name) {
                out.push(StatusCause::invalid(field.clone(), value, &problem));
            }
        }
        _ => check_port_number(value, field, out),
    }
}

/// Problems a check finds with a text, as causes at `field`.
pub(crate) fn add_problems(problems: Vec<String>, value: &Value, field: &str, out: &mut CauseList) {
    out.extend(problems.iter().map(|p| StatusCause::invalid(field, value, p)));
}
