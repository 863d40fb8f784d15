//! Validation of where a pod may be placed: gates, spreading, affinity, tolerations.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::containers::known;
use super::text;
use crate::status::Cause;
use crate::write::admit::meta;
use crate::write::admit::validate::{Causes, is_empty, label_selector, list, one_of, texts};

pub(super) fn gates(gates: &Value, field: &str, out: &mut Causes) {
    let mut seen = BTreeSet::new();
    for (i, gate) in list(gates) {
        let at = format!("{field}[{i}]");
        let name = gate["name"].as_str().unwrap_or("");
        texts(meta::qualified_problems(name), &json!(name), &at, out);
        if !seen.insert(name.to_owned()) {
            out.push(Cause::duplicate(at, &json!(name)));
        }
    }
}

pub(super) fn spread(constraints: &Value, field: &str, out: &mut Causes) {
    for (i, constraint) in list(constraints) {
        let at = format!("{field}[{i}]");
        let (key, action) = (text(constraint, "topologyKey"), text(constraint, "whenUnsatisfiable"));
        let skew = constraint["maxSkew"].as_i64().unwrap_or(0);
        if skew <= 0 {
            out.push(Cause::invalid(format!("{at}.maxSkew"), &json!(skew), "must be greater than zero"));
        }
        if key.is_empty() {
            out.push(Cause::required(format!("{at}.topologyKey"), "can not be empty"));
        }
        let actions = ["DoNotSchedule", "ScheduleAnyway"];
        known(&constraint["whenUnsatisfiable"], format!("{at}.whenUnsatisfiable"), &actions, out);
        let again = |(_, other): (usize, &Value)| {
            text(other, "topologyKey") == key && text(other, "whenUnsatisfiable") == action
        };
        if list(constraints).skip(i + 1).any(again) {
            let at = format!("{at}.{{topologyKey, whenUnsatisfiable}}");
            out.push(Cause::duplicate(at, &json!(format!("{{{key}, {action}}}"))));
        }
        let fewest = &constraint["minDomains"];
        if let Some(count) = fewest.as_i64() {
            let at = format!("{at}.minDomains");
            if count <= 0 {
                out.push(Cause::invalid(&at, fewest, "must be greater than zero"));
            }
            if action != "DoNotSchedule" {
                let why = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                out.push(Cause::invalid(at, fewest, &why));
            }
        }
        for key in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if !constraint[key].is_null() {
                known(&constraint[key], format!("{at}.{key}"), &["Honor", "Ignore"], out);
            }
        }
        label_keys(constraint, &at, out);
        label_selector(&constraint["labelSelector"], &format!("{at}.labelSelector"), out);
    }
}

/// Keys of labels whose values are taken from the pod itself.
fn label_keys(term: &Value, at: &str, out: &mut Causes) {
    let selector = &term["labelSelector"];
    for kind in ["matchLabelKeys", "mismatchLabelKeys"] {
        let at = format!("{at}.{kind}");
        if !is_empty(&term[kind]) && selector.is_null() {
            out.push(Cause::forbidden(at, "must not be specified when labelSelector is not set"));
            continue;
        }
        for (i, key) in list(&term[kind]) {
            let key = key.as_str().unwrap_or("");
            texts(meta::qualified_problems(key), &json!(key), &format!("{at}[{i}]"), out);
        }
    }
    let position =
        |key: &str| list(&term["matchLabelKeys"]).filter(|(_, k)| **k == key).map(|(i, _)| i).last();
    let mut selected: BTreeSet<&str> =
        selector["matchLabels"].as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
    for (_, expression) in list(&selector["matchExpressions"]) {
        let key = text(expression, "key");
        if let Some(i) = position(key).filter(|_| selected.contains(key)) {
            let why = "exists in both matchLabelKeys and labelSelector";
            out.push(Cause::invalid(format!("{at}[{i}]"), &json!(key), why));
        }
        selected.insert(key);
    }
    for (i, key) in list(&term["matchLabelKeys"]) {
        if list(&term["mismatchLabelKeys"]).any(|(_, other)| other == key) {
            let why = "exists in both matchLabelKeys and mismatchLabelKeys";
            out.push(Cause::invalid(format!("{at}.matchLabelKeys[{i}]"), key, why));
        }
    }
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn affinity(affinity: &Value, field: &str, out: &mut Causes) {
    let nodes = &affinity["nodeAffinity"];
    let at = format!("{field}.nodeAffinity.{REQUIRED}.nodeSelectorTerms");
    let required = &nodes[REQUIRED];
    if required.is_object() && is_empty(&required["nodeSelectorTerms"]) {
        out.push(Cause::required(&at, "must have at least one node selector term"));
    }
    for (i, term) in list(&required["nodeSelectorTerms"]) {
        node_term(term, true, &format!("{at}[{i}]"), out);
    }
    for (i, term) in list(&nodes[PREFERRED]) {
        let at = format!("{field}.nodeAffinity.{PREFERRED}[{i}]");
        weight(term, &at, out);
        node_term(&term["preference"], false, &format!("{at}.preference"), out);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        for (i, term) in list(&affinity[kind][REQUIRED]) {
            pod_term(term, &format!("{field}.{kind}.{REQUIRED}[{i}]"), out);
        }
        for (i, term) in list(&affinity[kind][PREFERRED]) {
            let at = format!("{field}.{kind}.{PREFERRED}[{i}]");
            weight(term, &at, out);
            pod_term(&term["podAffinityTerm"], &format!("{at}.podAffinityTerm"), out);
        }
    }
}

fn weight(term: &Value, at: &str, out: &mut Causes) {
    let weight = term["weight"].as_i64().unwrap_or(0);
    if !(1..=100).contains(&weight) {
        out.push(Cause::invalid(format!("{at}.weight"), &json!(weight), "must be in the range 1-100"));
    }
}

/// What selects nodes. Values that no label can have are let through where nothing depends on them.
pub(in crate::write::admit::validate) fn node_term(term: &Value, strict: bool, at: &str, out: &mut Causes) {
    const BAD: &str = "not a valid selector operator";
    for (j, expression) in list(&term["matchExpressions"]) {
        let at = format!("{at}.matchExpressions[{j}]");
        let values = expression["values"].as_array().map_or(0, Vec::len);
        match text(expression, "operator") {
            "In" | "NotIn" if values == 0 => out.push(Cause::required(
                format!("{at}.values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "Exists" | "DoesNotExist" if values > 0 => out.push(Cause::forbidden(
                format!("{at}.values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            "Gt" | "Lt" if values != 1 => out.push(Cause::required(
                format!("{at}.values"),
                "must be specified single value when `operator` is 'Lt' or 'Gt'",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => out.push(Cause::invalid(format!("{at}.operator"), &json!(other), BAD)),
        }
        let key = text(expression, "key");
        texts(meta::qualified_problems(key), &json!(key), &format!("{at}.key"), out);
        for (k, value) in list(&expression["values"]).filter(|_| strict) {
            let problems = meta::label_value_problems(value.as_str().unwrap_or(""));
            texts(problems, value, &format!("{at}.values[{k}]"), out);
        }
    }
    for (j, expression) in list(&term["matchFields"]) {
        let at = format!("{at}.matchFields[{j}]");
        match text(expression, "operator") {
            "In" | "NotIn" if expression["values"].as_array().map_or(0, Vec::len) != 1 => {
                let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                out.push(Cause::required(format!("{at}.values"), why));
            }
            "In" | "NotIn" => {}
            other => out.push(Cause::invalid(format!("{at}.operator"), &json!(other), BAD)),
        }
        if text(expression, "key") != "metadata.name" {
            let key = json!(text(expression, "key"));
            out.push(Cause::invalid(format!("{at}.key"), &key, "not a valid field selector key"));
            continue;
        }
        for (k, value) in list(&expression["values"]) {
            let problems = meta::subdomain_problems(value.as_str().unwrap_or(""));
            texts(problems, value, &format!("{at}.values[{k}]"), out);
        }
    }
}

/// What selects pods, and how near or far.
fn pod_term(term: &Value, at: &str, out: &mut Causes) {
    for key in ["labelSelector", "namespaceSelector"] {
        label_selector(&term[key], &format!("{at}.{key}"), out);
    }
    for (_, name) in list(&term["namespaces"]) {
        let problems = meta::label_problems(name.as_str().unwrap_or(""));
        texts(problems, name, &format!("{at}.namespace"), out);
    }
    label_keys(term, at, out);
    let key = text(term, "topologyKey");
    let at = format!("{at}.topologyKey");
    if key.is_empty() {
        out.push(Cause::required(&at, "can not be empty"));
    }
    texts(meta::qualified_problems(key), &json!(key), &at, out);
}

pub(crate) fn tolerations(tolerations: &Value, field: &str, out: &mut Causes) {
    for (i, toleration) in list(tolerations) {
        let at = format!("{field}[{i}]");
        let (key, operator, value, effect) = (
            toleration["key"].as_str().unwrap_or(""),
            toleration["operator"].as_str().unwrap_or(""),
            toleration["value"].as_str().unwrap_or(""),
            toleration["effect"].as_str().unwrap_or(""),
        );
        if !key.is_empty() {
            texts(meta::qualified_problems(key), &json!(key), &format!("{at}.key"), out);
        } else if operator != "Exists" {
            out.push(Cause::invalid(
                format!("{at}.operator"),
                &json!(operator),
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            ));
        }
        if toleration["tolerationSeconds"].is_number() && effect != "NoExecute" {
            out.push(Cause::invalid(
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
                    out.push(Cause::invalid(format!("{at}.operator"), &json!(value), &why));
                }
            }
            "Exists" => {
                if !value.is_empty() {
                    out.push(Cause::invalid(
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
                out.push(Cause::not_supported(format!("{at}.operator"), &json!(operator), all));
            }
        }
        if !effect.is_empty() {
            one_of(
                &toleration["effect"],
                format!("{at}.effect"),
                &["NoSchedule", "PreferNoSchedule", "NoExecute"],
                out,
            );
        }
    }
}
