//! Validation of autoscalers: what they scale, by which metrics, how fast.

use serde_json::{Value, json};

use super::{Causes, is_empty, list};
use crate::status::Cause;

const SOURCES: &[&str] = &["ContainerResource", "External", "Object", "Pods", "Resource"];

pub(super) fn autoscaler(spec: &Value, out: &mut Causes) {
    let min = spec["minReplicas"].as_i64();
    let to_zero =
        list(&spec["metrics"]).any(|(_, m)| matches!(m["type"].as_str(), Some("Object" | "External")));
    if min == Some(0) && !to_zero {
        let why = "must specify at least one Object or External metric to support scaling to zero replicas";
        out.push(Cause::forbidden("spec.metrics", why));
    } else if min.is_some_and(|m| m < 0) {
        let why = "must be greater than or equal to 0";
        out.push(Cause::invalid("spec.minReplicas", &spec["minReplicas"], why));
    }
    let max = spec["maxReplicas"].as_i64().unwrap_or(0);
    if min.is_some_and(|m| max < m) {
        let why = "must be greater than or equal to `minReplicas`";
        out.push(Cause::invalid("spec.maxReplicas", &json!(max), why));
    }
    let target = &spec["scaleTargetRef"];
    reference(target, "spec.scaleTargetRef", out);
    let version = target["apiVersion"].as_str().unwrap_or("");
    let why = match version.split('/').collect::<Vec<_>>().as_slice() {
        [_] | ["", _] => "apiVersion must specify API group".to_owned(),
        [_, _] => String::new(),
        _ => format!("unexpected GroupVersion string: {version}"),
    };
    if !why.is_empty() {
        out.push(Cause::invalid("spec.scaleTargetRef.apiVersion", &json!(version), &why));
    }
    for (i, metric) in list(&spec["metrics"]) {
        source(metric, &format!("spec.metrics[{i}]"), out);
    }
    for side in ["scaleUp", "scaleDown"] {
        let rules = &spec["behavior"][side];
        if rules.is_object() {
            scaling(rules, &format!("spec.behavior.{side}"), out);
        }
    }
    if max == 0 {
        out.push(Cause::required("spec.maxReplicas", ""));
    } else if max < 0 {
        out.push(Cause::invalid("spec.maxReplicas", &json!(max), "must be greater than or equal to 1"));
    }
}

/// A name that is a segment of a path, and must be there.
fn segment(value: &Value, field: String, detail: &str, out: &mut Causes) {
    match value.as_str().unwrap_or("") {
        "" => out.push(Cause::required(field, detail)),
        text => {
            if text == "." || text == ".." {
                out.push(Cause::invalid(field, value, &format!("may not be '{text}'")));
                return;
            }
            for part in ["/", "%"] {
                if text.contains(part) {
                    let why = format!("may not contain '{part}'");
                    out.push(Cause::invalid(field.clone(), value, &why));
                }
            }
        }
    }
}

fn reference(object: &Value, field: &str, out: &mut Causes) {
    for key in ["kind", "name"] {
        segment(&object[key], format!("{field}.{key}"), "", out);
    }
}

fn source(metric: &Value, at: &str, out: &mut Causes) {
    let kind = metric["type"].as_str().unwrap_or("");
    if kind.is_empty() {
        out.push(Cause::required(format!("{at}.type"), "must specify a metric source type"));
    }
    if !SOURCES.contains(&kind) {
        out.push(Cause::not_supported(format!("{at}.type"), &json!(kind), SOURCES));
    }
    // The first source there is is looked at, whichever is meant.
    let present: Vec<&str> = ["Object", "External", "Pods", "Resource", "ContainerResource"]
        .into_iter()
        .filter(|kind| !metric[&member(kind)].is_null())
        .collect();
    if let Some(first) = present.first() {
        described(&metric[&member(first)], &format!("{at}.{}", member(first)), first, out);
    }
    if SOURCES.contains(&kind) && metric[&member(kind)].is_null() {
        let why = "must populate information for the given metric source";
        out.push(Cause::required(format!("{at}.{}", member(kind)), why));
    }
    if present.len() != 1 {
        for other in present.iter().filter(|other| **other != kind) {
            let why = "must populate the given metric source only";
            out.push(Cause::forbidden(format!("{at}.{}", member(other)), why));
        }
    }
}

/// One source of a metric, at `at`.
fn described(source: &Value, at: &str, kind: &str, out: &mut Causes) {
    match kind {
        "Object" => {
            reference(&source["describedObject"], &format!("{at}.describedObject"), out);
            segment(
                &source["metric"]["name"],
                format!("{at}.metric.name"),
                "must specify a metric name",
                out,
            );
        }
        "Pods" | "External" => {
            segment(
                &source["metric"]["name"],
                format!("{at}.metric.name"),
                "must specify a metric name",
                out,
            );
        }
        _ => {
            if is_empty(&source["name"]) {
                out.push(Cause::required(format!("{at}.name"), "must specify a resource name"));
            }
            if kind == "ContainerResource" && is_empty(&source["container"]) {
                out.push(Cause::required(format!("{at}.container"), "must specify a container"));
            }
        }
    }
    target(&source["target"], &format!("{at}.target"), kind, out);
}

/// The member a source of a type is described by.
fn member(kind: &str) -> String {
    let mut member = kind.to_owned();
    member[..1].make_ascii_lowercase();
    member
}

fn target(target: &Value, at: &str, kind: &str, out: &mut Causes) {
    let aim = target["type"].as_str().unwrap_or("");
    if aim.is_empty() {
        out.push(Cause::required(format!("{at}.type"), "must specify a metric target type"));
    }
    if !["Utilization", "Value", "AverageValue"].contains(&aim) {
        out.push(Cause::invalid(
            format!("{at}.type"),
            &json!(aim),
            "must be either Utilization, Value, or AverageValue",
        ));
    }
    let (value, average, share) = (&target["value"], &target["averageValue"], &target["averageUtilization"]);
    for (key, amount) in [("value", value), ("averageValue", average)] {
        if crate::write::admit::quota::amount(amount).is_some_and(|amount| amount <= 0) {
            out.push(Cause::invalid(format!("{at}.{key}"), amount, "must be positive"));
        }
    }
    if share.as_i64().is_some_and(|share| share < 1) {
        out.push(Cause::invalid(format!("{at}.averageUtilization"), share, "must be greater than 0"));
    }
    let (value, average, share) = (!value.is_null(), !average.is_null(), !share.is_null());
    match kind {
        "Pods" if !average => {
            let why = "must specify a positive target averageValue";
            out.push(Cause::required(format!("{at}.averageValue"), why));
        }
        "Object" if !value && !average => {
            let why = "must set either a target value or averageValue";
            out.push(Cause::required(format!("{at}.averageValue"), why));
        }
        "External" if value && average => {
            let why = "may not set both a target value for metric and a per-pod target";
            out.push(Cause::forbidden(format!("{at}.value"), why));
        }
        "External" if !value && !average => {
            let why = "must set either a target value for metric or a per-pod target";
            out.push(Cause::required(format!("{at}.averageValue"), why));
        }
        "Resource" | "ContainerResource" if share && average => {
            let why = "may not set both a target raw value and a target utilization";
            out.push(Cause::forbidden(format!("{at}.averageValue"), why));
        }
        "Resource" | "ContainerResource" if !share && !average => {
            let why = "must set either a target raw value or a target utilization";
            out.push(Cause::required(format!("{at}.averageUtilization"), why));
        }
        _ => {}
    }
}

fn scaling(rules: &Value, at: &str, out: &mut Causes) {
    let window = &rules["stabilizationWindowSeconds"];
    let why = match window.as_i64() {
        Some(seconds) if seconds < 0 => "must be greater than or equal to zero",
        Some(seconds) if seconds > 3600 => "must be less than or equal to 3600",
        _ => "",
    };
    if !why.is_empty() {
        out.push(Cause::invalid(format!("{at}.stabilizationWindowSeconds"), window, why));
    }
    let choice = &rules["selectPolicy"];
    if choice.as_str().is_some_and(|choice| !["Disabled", "Max", "Min"].contains(&choice)) {
        out.push(Cause::not_supported(format!("{at}.selectPolicy"), choice, &["Disabled", "Max", "Min"]));
    }
    if is_empty(&rules["policies"]) {
        out.push(Cause::required(format!("{at}.policies"), "must specify at least one Policy"));
    }
    for (i, policy) in list(&rules["policies"]) {
        let at = format!("{at}.policies[{i}]");
        let kind = policy["type"].as_str().unwrap_or("");
        if kind != "Percent" && kind != "Pods" {
            out.push(Cause::not_supported(format!("{at}.type"), &json!(kind), &["Percent", "Pods"]));
        }
        for (key, most) in [("value", i64::MAX), ("periodSeconds", 1800)] {
            let number = policy[key].as_i64().unwrap_or(0);
            if number <= 0 {
                out.push(Cause::invalid(format!("{at}.{key}"), &json!(number), "must be greater than zero"));
            } else if number > most {
                let why = format!("must be less than or equal to {most}");
                out.push(Cause::invalid(format!("{at}.{key}"), &json!(number), &why));
            }
        }
    }
    if crate::write::admit::quota::amount(&rules["tolerance"]).is_some_and(|amount| amount < 0) {
        let why = "must be greater than or equal to 0";
        out.push(Cause::invalid(format!("{at}.tolerance"), &rules["tolerance"], why));
    }
}
