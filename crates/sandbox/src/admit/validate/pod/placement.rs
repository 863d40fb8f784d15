//! Validation of where a pod may be placed: gates, spreading, affinity, tolerations.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::admit::meta;
use crate::admit::validate::{Causes, is_empty, label_selector, list, one_of, texts};
use crate::status::Cause;

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
        if constraint["maxSkew"].as_i64().unwrap_or(0) <= 0 {
            let shown =
                if constraint["maxSkew"].is_null() { json!(0) } else { constraint["maxSkew"].clone() };
            out.push(Cause::invalid(format!("{at}.maxSkew"), &shown, "must be greater than zero"));
        }
        if is_empty(&constraint["topologyKey"]) {
            out.push(Cause::required(format!("{at}.topologyKey"), "can not be empty"));
        }
        let unsatisfiable = &constraint["whenUnsatisfiable"];
        if !matches!(unsatisfiable.as_str(), Some("DoNotSchedule" | "ScheduleAnyway")) {
            out.push(Cause::not_supported(
                format!("{at}.whenUnsatisfiable"),
                &json!(unsatisfiable.as_str().unwrap_or("")),
                &["DoNotSchedule", "ScheduleAnyway"],
            ));
        }
        if constraint["minDomains"].as_i64().is_some_and(|n| n <= 0) {
            let why = "must be greater than zero";
            out.push(Cause::invalid(format!("{at}.minDomains"), &constraint["minDomains"], why));
        }
        for key in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if let Some(policy) = constraint[key].as_str().filter(|p| !matches!(*p, "Honor" | "Ignore")) {
                out.push(Cause::not_supported(format!("{at}.{key}"), &json!(policy), &["Honor", "Ignore"]));
            }
        }
        label_selector(&constraint["labelSelector"], &format!("{at}.labelSelector"), out);
    }
}

pub(super) fn affinity(affinity: &Value, field: &str, out: &mut Causes) {
    let required = &affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let at = format!("{field}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution");
    if required.is_object() && is_empty(&required["nodeSelectorTerms"]) {
        out.push(Cause::required(
            format!("{at}.nodeSelectorTerms"),
            "must have at least one node selector term",
        ));
    }
    for (i, term) in list(&required["nodeSelectorTerms"]) {
        for (j, expression) in list(&term["matchExpressions"]) {
            let at = format!("{at}.nodeSelectorTerms[{i}].matchExpressions[{j}]");
            let values = expression["values"].as_array().map_or(0, Vec::len);
            match expression["operator"].as_str().unwrap_or("") {
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
                _ => out.push(Cause::invalid(
                    format!("{at}.operator"),
                    &expression["operator"],
                    "not a valid selector operator",
                )),
            }
        }
    }
    let weight = |term: &Value, at: &str, out: &mut Causes| {
        if !term["weight"].as_i64().is_some_and(|w| (1..=100).contains(&w)) {
            let shown = if term["weight"].is_null() { json!(0) } else { term["weight"].clone() };
            out.push(Cause::invalid(format!("{at}.weight"), &shown, "must be in the range 1-100"));
        }
    };
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    for (i, term) in list(&affinity["nodeAffinity"][preferred]) {
        weight(term, &format!("{field}.nodeAffinity.{preferred}[{i}]"), out);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        for (i, term) in list(&affinity[kind][preferred]) {
            let at = format!("{field}.{kind}.{preferred}[{i}]");
            weight(term, &at, out);
            let at = format!("{at}.podAffinityTerm.topologyKey");
            let key = term["podAffinityTerm"]["topologyKey"].as_str().unwrap_or("");
            if key.is_empty() {
                out.push(Cause::required(&at, "can not be empty"));
            }
            texts(meta::qualified_problems(key), &json!(key), &at, out);
        }
        let terms = &affinity[kind]["requiredDuringSchedulingIgnoredDuringExecution"];
        for (i, term) in list(terms) {
            let at = format!("{field}.{kind}.requiredDuringSchedulingIgnoredDuringExecution[{i}]");
            if is_empty(&term["topologyKey"]) {
                out.push(Cause::required(format!("{at}.topologyKey"), "can not be empty"));
            }
            let key = term["topologyKey"].as_str().unwrap_or("");
            texts(meta::qualified_problems(key), &json!(key), &format!("{at}.topologyKey"), out);
            label_selector(&term["labelSelector"], &format!("{at}.labelSelector"), out);
        }
    }
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
            "" | "Equal" | "Lt" | "Gt" => {
                texts(meta::label_value_problems(value), &json!(value), &format!("{at}.operator"), out);
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
            _ => out.push(Cause::not_supported(
                format!("{at}.operator"),
                &json!(operator),
                &["Equal", "Exists"],
            )),
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
