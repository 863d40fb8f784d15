//! Validation of autoscalers: what they scale, by which metrics, how fast.

use serde_json::{Value, json};

use super::{CauseList, indexed_items, is_empty};
use crate::status::StatusCause;

const SOURCES: &[&str] = &["ContainerResource", "External", "Object", "Pods", "Resource"];

pub(in crate::write) fn validate_autoscaler(spec: &Value, out: &mut CauseList) {
    let min = spec["minReplicas"].as_i64();
    let to_zero = indexed_items(&spec["metrics"])
        .any(|(_, m)| matches!(m["type"].as_str(), Some("Object" | "External")));
    if min == Some(0) && !to_zero {
        let why = "must specify at least one Object or External metric to support scaling to zero replicas";
        out.push(StatusCause::forbidden("spec.metrics", why));
    } else if min.is_some_and(|m| m < 0) {
        let why = "must be greater than or equal to 0";
        out.push(StatusCause::invalid("spec.minReplicas", &spec["minReplicas"], why));
    }
    let max = spec["maxReplicas"].as_i64().unwrap_or(0);
    if min.is_some_and(|m| max < m) {
        let why = "must be greater than or equal to `minReplicas`";
        out.push(StatusCause::invalid("spec.maxReplicas", &json!(max), why));
    }
    let target = &spec["scaleTargetRef"];
    validate_reference(target, "spec.scaleTargetRef", out);
    let version = target["apiVersion"].as_str().unwrap_or("");
    let why = match version.split('/').collect::<Vec<_>>().as_slice() {
        [_] | ["", _] => "apiVersion must specify API group".to_owned(),
        [_, _] => String::new(),
        _ => format!("unexpected GroupVersion string: {version}"),
    };
    if !why.is_empty() {
        out.push(StatusCause::invalid("spec.scaleTargetRef.apiVersion", &json!(version), &why));
    }
    for (i, metric) in indexed_items(&spec["metrics"]) {
        validate_metric(metric, &format!("spec.metrics[{i}]"), out);
    }
    for side in ["scaleUp", "scaleDown"] {
        let rules = &spec["behavior"][side];
        if rules.is_object() {
            validate_scaling_rules(rules, &format!("spec.behavior.{side}"), out);
        }
    }
    if max == 0 {
        out.push(StatusCause::required("spec.maxReplicas", ""));
    } else if max < 0 {
        out.push(StatusCause::invalid("spec.maxReplicas", &json!(max), "must be greater than or equal to 1"));
    }
}

/// A name that is a segment of a path, and must be there.
fn validate_segment(value: &Value, field: String, detail: &str, out: &mut CauseList) {
    match value.as_str().unwrap_or("") {
        "" => out.push(StatusCause::required(field, detail)),
        text => {
            if text == "." || text == ".." {
                out.push(StatusCause::invalid(field, value, &format!("may not be '{text}'")));
                return;
            }
            for part in ["/", "%"] {
                if text.contains(part) {
                    let why = format!("may not contain '{part}'");
                    out.push(StatusCause::invalid(field.clone(), value, &why));
                }
            }
        }
    }
}

fn validate_reference(object: &Value, field: &str, out: &mut CauseList) {
    for key in ["kind", "name"] {
        validate_segment(&object[key], format!("{field}.{key}"), "", out);
    }
}

fn validate_metric(metric: &Value, at: &str, out: &mut CauseList) {
    let kind = metric["type"].as_str().unwrap_or("");
    if kind.is_empty() {
        out.push(StatusCause::required(format!("{at}.type"), "must specify a metric source type"));
    }
    if !SOURCES.contains(&kind) {
        out.push(StatusCause::not_supported(format!("{at}.type"), &json!(kind), SOURCES));
    }
    // The first source there is is looked at, whichever is meant.
    let present: Vec<&str> = ["Object", "External", "Pods", "Resource", "ContainerResource"]
        .into_iter()
        .filter(|kind| !metric[&source_member(kind)].is_null())
        .collect();
    if let Some(first) = present.first() {
        validate_metric_source(
            &metric[&source_member(first)],
            &format!("{at}.{}", source_member(first)),
            first,
            out,
        );
    }
    if SOURCES.contains(&kind) && metric[&source_member(kind)].is_null() {
        let why = "must populate information for the given metric source";
        out.push(StatusCause::required(format!("{at}.{}", source_member(kind)), why));
    }
    if present.len() != 1 {
        for other in present.iter().filter(|other| **other != kind) {
            let why = "must populate the given metric source only";
            out.push(StatusCause::forbidden(format!("{at}.{}", source_member(other)), why));
        }
    }
}

/// One source of a metric, at `at`.
fn validate_metric_source(source: &Value, at: &str, kind: &str, out: &mut CauseList) {
    match kind {
        "Object" => {
            validate_reference(&source["describedObject"], &format!("{at}.describedObject"), out);
            validate_segment(
                &source["metric"]["name"],
                format!("{at}.metric.name"),
                "must specify a metric name",
                out,
            );
        }
        "Pods" | "External" => {
            validate_segment(
                &source["metric"]["name"],
                format!("{at}.metric.name"),
                "must specify a metric name",
                out,
            );
        }
        _ => {
            if is_empty(&source["name"]) {
                out.push(StatusCause::required(format!("{at}.name"), "must specify a resource name"));
            }
            if kind == "ContainerResource" && is_empty(&source["container"]) {
                out.push(StatusCause::required(format!("{at}.container"), "must specify a container"));
            }
        }
    }
    validate_target(&source["target"], &format!("{at}.target"), kind, out);
}

/// The member a source of a type is described by.
fn source_member(kind: &str) -> String {
    let mut member = kind.to_owned();
    member[..1].make_ascii_lowercase();
    member
}

fn validate_target(target: &Value, at: &str, kind: &str, out: &mut CauseList) {
    let aim = target["type"].as_str().unwrap_or("");
    if aim.is_empty() {
        out.push(StatusCause::required(format!("{at}.type"), "must specify a metric target type"));
    }
    if !["Utilization", "Value", "AverageValue"].contains(&aim) {
        out.push(StatusCause::invalid(
            format!("{at}.type"),
            &json!(aim),
            "must be either Utilization, Value, or AverageValue",
        ));
    }
    let (value, average, share) = (&target["value"], &target["averageValue"], &target["averageUtilization"]);
    for (key, amount) in [("value", value), ("averageValue", average)] {
        if crate::write::admit::amounts::nanos_of(amount).is_some_and(|amount| amount <= 0) {
            out.push(StatusCause::invalid(format!("{at}.{key}"), amount, "must be positive"));
        }
    }
    if share.as_i64().is_some_and(|share| share < 1) {
        out.push(StatusCause::invalid(format!("{at}.averageUtilization"), share, "must be greater than 0"));
    }
    let (value, average, share) = (!value.is_null(), !average.is_null(), !share.is_null());
    match kind {
        "Pods" if !average => {
            let why = "must specify a positive target averageValue";
            out.push(StatusCause::required(format!("{at}.averageValue"), why));
        }
        "Object" if !value && !average => {
            let why = "must set either a target value or averageValue";
            out.push(StatusCause::required(format!("{at}.averageValue"), why));
        }
        "External" if value && average => {
            let why = "may not set both a target value for metric and a per-pod target";
            out.push(StatusCause::forbidden(format!("{at}.value"), why));
        }
        "External" if !value && !average => {
            let why = "must set either a target value for metric or a per-pod target";
            out.push(StatusCause::required(format!("{at}.averageValue"), why));
        }
        "Resource" | "ContainerResource" if share && average => {
            let why = "may not set both a target raw value and a target utilization";
            out.push(StatusCause::forbidden(format!("{at}.averageValue"), why));
        }
        "Resource" | "ContainerResource" if !share && !average => {
            let why = "must set either a target raw value or a target utilization";
            out.push(StatusCause::required(format!("{at}.averageUtilization"), why));
        }
        _ => {}
    }
}

fn validate_scaling_rules(rules: &Value, at: &str, out: &mut CauseList) {
    let window = &rules["stabilizationWindowSeconds"];
    let why = match window.as_i64() {
        Some(seconds) if seconds < 0 => "must be greater than or equal to zero",
        Some(seconds) if seconds > 3600 => "must be less than or equal to 3600",
        _ => "",
    };
    if !why.is_empty() {
        out.push(StatusCause::invalid(format!("{at}.stabilizationWindowSeconds"), window, why));
    }
    let choice = &rules["selectPolicy"];
    if choice.as_str().is_some_and(|choice| !["Disabled", "Max", "Min"].contains(&choice)) {
        out.push(StatusCause::not_supported(
            format!("{at}.selectPolicy"),
            choice,
            &["Disabled", "Max", "Min"],
        ));
    }
    if is_empty(&rules["policies"]) {
        out.push(StatusCause::required(format!("{at}.policies"), "must specify at least one Policy"));
    }
    for (i, policy) in indexed_items(&rules["policies"]) {
        let at = format!("{at}.policies[{i}]");
        let kind = policy["type"].as_str().unwrap_or("");
        if kind != "Percent" && kind != "Pods" {
            out.push(StatusCause::not_supported(format!("{at}.type"), &json!(kind), &["Percent", "Pods"]));
        }
        for (key, most) in [("value", i64::MAX), ("periodSeconds", 1800)] {
            let number = policy[key].as_i64().unwrap_or(0);
            if number <= 0 {
                out.push(StatusCause::invalid(
                    format!("{at}.{key}"),
                    &json!(number),
                    "must be greater than zero",
                ));
            } else if number > most {
                let why = format!("must be less than or equal to {most}");
                out.push(StatusCause::invalid(format!("{at}.{key}"), &json!(number), &why));
            }
        }
    }
    if crate::write::admit::amounts::nanos_of(&rules["tolerance"]).is_some_and(|amount| amount < 0) {
        let why = "must be greater than or equal to 0";
        out.push(StatusCause::invalid(format!("{at}.tolerance"), &rules["tolerance"], why));
    }
}
