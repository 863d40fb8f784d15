//! Validation of where a pod may be placed: gates, spreading, affinity, tolerations.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::containers::check_known_or_empty;
use super::text_member;
use crate::status::StatusCause;
use crate::write::admit::meta;
use crate::write::admit::validate::{
    CauseList, add_problems, check_one_of, indexed_items, is_empty, validate_label_selector,
};

pub(super) fn validate_scheduling_gates(gates: &Value, field: &str, out: &mut CauseList) {
    let mut seen = BTreeSet::new();
    for (i, gate) in indexed_items(gates) {
        let at = format!("{field}[{i}]");
        let name = gate["name"].as_str().unwrap_or("");
        add_problems(meta::qualified_problems(name), &json!(name), &at, out);
        if !seen.insert(name.to_owned()) {
            out.push(StatusCause::duplicate(at, &json!(name)));
        }
    }
}

pub(super) fn validate_spread_constraints(constraints: &Value, field: &str, out: &mut CauseList) {
    for (i, constraint) in indexed_items(constraints) {
        let at = format!("{field}[{i}]");
        let (key, action) =
            (text_member(constraint, "topologyKey"), text_member(constraint, "whenUnsatisfiable"));
        let skew = constraint["maxSkew"].as_i64().unwrap_or(0);
        if skew <= 0 {
            out.push(StatusCause::invalid(
                format!("{at}.maxSkew"),
                &json!(skew),
                "must be greater than zero",
            ));
        }
        if key.is_empty() {
            out.push(StatusCause::required(format!("{at}.topologyKey"), "can not be empty"));
        }
        let actions = ["DoNotSchedule", "ScheduleAnyway"];
        check_known_or_empty(
            &constraint["whenUnsatisfiable"],
            format!("{at}.whenUnsatisfiable"),
            &actions,
            out,
        );
        let again = |(_, other): (usize, &Value)| {
            text_member(other, "topologyKey") == key && text_member(other, "whenUnsatisfiable") == action
        };
        if indexed_items(constraints).skip(i + 1).any(again) {
            let at = format!("{at}.{{topologyKey, whenUnsatisfiable}}");
            out.push(StatusCause::duplicate(at, &json!(format!("{{{key}, {action}}}"))));
        }
        let fewest = &constraint["minDomains"];
        if let Some(count) = fewest.as_i64() {
            let at = format!("{at}.minDomains");
            if count <= 0 {
                out.push(StatusCause::invalid(&at, fewest, "must be greater than zero"));
            }
            if action != "DoNotSchedule" {
                let why = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                out.push(StatusCause::invalid(at, fewest, &why));
            }
        }
        for key in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if !constraint[key].is_null() {
                check_known_or_empty(&constraint[key], format!("{at}.{key}"), &["Honor", "Ignore"], out);
            }
        }
        validate_label_keys(constraint, &at, out);
        validate_label_selector(&constraint["labelSelector"], &format!("{at}.labelSelector"), out);
    }
}

/// Keys of labels whose values are taken from the pod itself.
fn validate_label_keys(term: &Value, at: &str, out: &mut CauseList) {
    let selector = &term["labelSelector"];
    for kind in ["matchLabelKeys", "mismatchLabelKeys"] {
        let at = format!("{at}.{kind}");
        if !is_empty(&term[kind]) && selector.is_null() {
            out.push(StatusCause::forbidden(at, "must not be specified when labelSelector is not set"));
            continue;
        }
        for (i, key) in indexed_items(&term[kind]) {
            let key = key.as_str().unwrap_or("");
            add_problems(meta::qualified_problems(key), &json!(key), &format!("{at}[{i}]"), out);
        }
    }
    let position =
        |key: &str| indexed_items(&term["matchLabelKeys"]).filter(|(_, k)| **k == key).map(|(i, _)| i).last();
    let mut selected: BTreeSet<&str> =
        selector["matchLabels"].as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
    for (_, expression) in indexed_items(&selector["matchExpressions"]) {
        let key = text_member(expression, "key");
        if let Some(i) = position(key).filter(|_| selected.contains(key)) {
            let why = "exists in both matchLabelKeys and labelSelector";
            out.push(StatusCause::invalid(format!("{at}[{i}]"), &json!(key), why));
        }
        selected.insert(key);
    }
    for (i, key) in indexed_items(&term["matchLabelKeys"]) {
        if indexed_items(&term["mismatchLabelKeys"]).any(|(_, other)| other == key) {
            let why = "exists in both matchLabelKeys and mismatchLabelKeys";
            out.push(StatusCause::invalid(format!("{at}.matchLabelKeys[{i}]"), key, why));
        }
    }
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn validate_affinity(affinity: &Value, field: &str, out: &mut CauseList) {
    let nodes = &affinity["nodeAffinity"];
    let at = format!("{field}.nodeAffinity.{REQUIRED}.nodeSelectorTerms");
    let required = &nodes[REQUIRED];
    if required.is_object() && is_empty(&required["nodeSelectorTerms"]) {
        out.push(StatusCause::required(&at, "must have at least one node selector term"));
    }
    for (i, term) in indexed_items(&required["nodeSelectorTerms"]) {
        validate_node_term(term, true, &format!("{at}[{i}]"), out);
    }
    for (i, term) in indexed_items(&nodes[PREFERRED]) {
        let at = format!("{field}.nodeAffinity.{PREFERRED}[{i}]");
        validate_weight(term, &at, out);
        validate_node_term(&term["preference"], false, &format!("{at}.preference"), out);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        for (i, term) in indexed_items(&affinity[kind][REQUIRED]) {
            validate_pod_term(term, &format!("{field}.{kind}.{REQUIRED}[{i}]"), out);
        }
        for (i, term) in indexed_items(&affinity[kind][PREFERRED]) {
            let at = format!("{field}.{kind}.{PREFERRED}[{i}]");
            validate_weight(term, &at, out);
            validate_pod_term(&term["podAffinityTerm"], &format!("{at}.podAffinityTerm"), out);
        }
    }
}

fn validate_weight(term: &Value, at: &str, out: &mut CauseList) {
    let weight = term["weight"].as_i64().unwrap_or(0);
    if !(1..=100).contains(&weight) {
        out.push(StatusCause::invalid(format!("{at}.weight"), &json!(weight), "must be in the range 1-100"));
    }
}

/// Validates a term that selects nodes. Values no label can have are reported only where `strict`.
pub(in crate::write::admit::validate) fn validate_node_term(
    term: &Value,
    strict: bool,
    at: &str,
    out: &mut CauseList,
) {
    const BAD: &str = "not a valid selector operator";
    for (j, expression) in indexed_items(&term["matchExpressions"]) {
        let at = format!("{at}.matchExpressions[{j}]");
        let values = expression["values"].as_array().map_or(0, Vec::len);
        match text_member(expression, "operator") {
            "In" | "NotIn" if values == 0 => out.push(StatusCause::required(
                format!("{at}.values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "Exists" | "DoesNotExist" if values > 0 => out.push(StatusCause::forbidden(
                format!("{at}.values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            "Gt" | "Lt" if values != 1 => out.push(StatusCause::required(
                format!("{at}.values"),
                "must be specified single value when `operator` is 'Lt' or 'Gt'",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => out.push(StatusCause::invalid(format!("{at}.operator"), &json!(other), BAD)),
        }
        let key = text_member(expression, "key");
        add_problems(meta::qualified_problems(key), &json!(key), &format!("{at}.key"), out);
        for (k, value) in indexed_items(&expression["values"]).filter(|_| strict) {
            let problems = meta::label_value_problems(value.as_str().unwrap_or(""));
            add_problems(problems, value, &format!("{at}.values[{k}]"), out);
        }
    }
    for (j, expression) in indexed_items(&term["matchFields"]) {
        let at = format!("{at}.matchFields[{j}]");
        match text_member(expression, "operator") {
            "In" | "NotIn" if expression["values"].as_array().map_or(0, Vec::len) != 1 => {
                let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                out.push(StatusCause::required(format!("{at}.values"), why));
            }
            "In" | "NotIn" => {}
            other => out.push(StatusCause::invalid(format!("{at}.operator"), &json!(other), BAD)),
        }
        if text_member(expression, "key") != "metadata.name" {
            let key = json!(text_member(expression, "key"));
            out.push(StatusCause::invalid(format!("{at}.key"), &key, "not a valid field selector key"));
            continue;
        }
        for (k, value) in indexed_items(&expression["values"]) {
            let problems = meta::subdomain_problems(value.as_str().unwrap_or(""));
            add_problems(problems, value, &format!("{at}.values[{k}]"), out);
        }
    }
}

/// Validates a term that selects pods, and its topology.
fn validate_pod_term(term: &Value, at: &str, out: &mut CauseList) {
    for key in ["labelSelector", "namespaceSelector"] {
        validate_label_selector(&term[key], &format!("{at}.{key}"), out);
    }
    for (_, name) in indexed_items(&term["namespaces"]) {
        let problems = meta::label_problems(name.as_str().unwrap_or(""));
        add_problems(problems, name, &format!("{at}.namespace"), out);
    }
    validate_label_keys(term, at, out);
    let key = text_member(term, "topologyKey");
    let at = format!("{at}.topologyKey");
    if key.is_empty() {
        out.push(StatusCause::required(&at, "can not be empty"));
    }
    add_problems(meta::qualified_problems(key), &json!(key), &at, out);
}

pub(crate) fn validate_tolerations(tolerations: &Value, field: &str, out: &mut CauseList) {
    for (i, toleration) in indexed_items(tolerations) {
        let at = format!("{field}[{i}]");
        let (key, operator, value, effect) = (
            toleration["key"].as_str().unwrap_or(""),
            toleration["operator"].as_str().unwrap_or(""),
            toleration["value"].as_str().unwrap_or(""),
            toleration["effect"].as_str().unwrap_or(""),
        );
        if !key.is_empty() {
            add_problems(meta::qualified_problems(key), &json!(key), &format!("{at}.key"), out);
        } else if operator != "Exists" {
            out.push(StatusCause::invalid(
                format!("{at}.operator"),
                &json!(operator),
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            ));
        }
        if toleration["tolerationSeconds"].is_number() && effect != "NoExecute" {
            out.push(StatusCause::invalid(
                format!("{at}.effect"),
                &json!(effect),
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            ));
        }
        match operator {
            "" | "Equal" => {
                let problems = meta::label_value_problems(value);
                if !problems.is_empty() {
                    let why = problems.join(";");
                    out.push(StatusCause::invalid(format!("{at}.operator"), &json!(value), &why));
                }
            }
            "Exists" => {
                if !value.is_empty() {
                    out.push(StatusCause::invalid(
                        format!("{at}.operator"),
                        &json!(value),
                        "value must be empty when `operator` is 'Exists'",
                    ));
                }
            }
            _ => {
                let all: &[&str] = match operator {
                    "Lt" | "Gt" => &["Equal", "Exists", "Lt", "Gt"],
                    _ => &["Equal", "Exists"],
                };
                out.push(StatusCause::not_supported(format!("{at}.operator"), &json!(operator), all));
            }
        }
        if !effect.is_empty() {
            check_one_of(
                &toleration["effect"],
                format!("{at}.effect"),
                &["NoSchedule", "PreferNoSchedule", "NoExecute"],
                out,
            );
        }
    }
}
