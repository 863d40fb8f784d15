//! Autoscalers in their first version, which keeps what it has no fields for in annotations.
//!
//! Of the metrics only the target of the cpu fits; the others, the conditions and the behavior are
//! written to annotations in the form they had when they were first tried, and read back from there.

use serde_json::{Map, Value, json};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// The spelling of behavior's members in its annotation.
const BEHAVIOR_NAMES: &[(&str, &str)] = &[
    ("scaleUp", "ScaleUp"),
    ("scaleDown", "ScaleDown"),
    ("stabilizationWindowSeconds", "StabilizationWindowSeconds"),
    ("selectPolicy", "SelectPolicy"),
    ("policies", "Policies"),
    ("tolerance", "Tolerance"),
    ("type", "Type"),
    ("value", "Value"),
    ("periodSeconds", "PeriodSeconds"),
];

pub(super) fn to_v2(mut value: Value) -> Value {
    value["apiVersion"] = "autoscaling/v2".into();
    let mut kept = take_annotations(&mut value);
    let mut read = |name: &str| kept.shift_remove(name).and_then(|t| serde_json::from_str(t.as_str()?).ok());
    let (metrics, current): (Option<Value>, Option<Value>) = (read(METRICS), read(CURRENT));
    let (conditions, behavior): (Option<Value>, Option<Value>) = (read(CONDITIONS), read(BEHAVIOR));
    if let Some(spec) = value["spec"].as_object_mut() {
        let mut all = old_metrics(metrics.as_ref(), &new_target);
        if let Some(percent) = spec.shift_remove("targetCPUUtilizationPercentage")
            && percent.is_number()
        {
            all.push(json!({"type": "Resource", "resource": {
                "name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent},
            }}));
        }
        if !all.is_empty() {
            spec.insert("metrics".into(), all.into());
        }
        if let Some(behavior) = behavior.filter(Value::is_object) {
            spec.insert("behavior".into(), respell_behavior(&behavior, false));
        }
    }
    if let Some(status) = value["status"].as_object_mut() {
        let percent = status.shift_remove("currentCPUUtilizationPercentage");
        let mut all = old_metrics(current.as_ref(), &new_current);
        if all.is_empty()
            && let Some(percent) = percent.filter(Value::is_number)
        {
            all.push(json!({"type": "Resource", "resource": {
                "name": "cpu", "current": {"averageUtilization": percent},
            }}));
        }
        let all = if all.is_empty() { Value::Null } else { all.into() };
        status.insert("currentMetrics".into(), all);
        if let Some(Value::Array(conditions)) = conditions
            && !conditions.is_empty()
        {
            status.insert("conditions".into(), conditions.into());
        }
    }
    value
}

pub(super) fn to_v1(mut value: Value) -> Value {
    value["apiVersion"] = "autoscaling/v1".into();
    let mut kept = Map::new();
    let mut keep = |name: &str, value: Value| {
        kept.insert(name.into(), value.to_string().into());
    };
    if let Some(spec) = value["spec"].as_object_mut() {
        if let Some(behavior) = spec.shift_remove("behavior").filter(Value::is_object) {
            keep(BEHAVIOR, behavior_rules(&behavior));
        }
        if let Some(Value::Array(metrics)) = spec.shift_remove("metrics") {
            let percent = |m: &Value| cpu_utilization(m, "target").cloned();
            if let Some(percent) = metrics.iter().find_map(percent) {
                spec.insert("targetCPUUtilizationPercentage".into(), percent);
            }
            let others: Vec<Value> = metrics
                .iter()
                .filter(|m| percent(m).is_none())
                .filter_map(|m| old_metric(m, &old_target))
                .collect();
            if !others.is_empty() {
                keep(METRICS, others.into());
            }
        }
    }
    if let Some(status) = value["status"].as_object_mut() {
        if let Some(Value::Array(metrics)) = status.shift_remove("currentMetrics")
            && !metrics.is_empty()
        {
            if let Some(percent) = metrics.iter().find_map(|m| cpu_utilization(m, "current")) {
                status.insert("currentCPUUtilizationPercentage".into(), percent.clone());
            }
            keep(CURRENT, metrics.iter().filter_map(|m| old_metric(m, &old_current)).collect());
        }
        if let Some(Value::Array(conditions)) = status.shift_remove("conditions")
            && !conditions.is_empty()
        {
            keep(CONDITIONS, conditions.into());
        }
        if !status.contains_key("currentReplicas") {
            status.insert("currentReplicas".into(), 0.into());
        }
    }
    if !kept.is_empty()
        && let Some(metadata) = value["metadata"].as_object_mut()
    {
        let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.append(&mut kept);
            annotations.sort_keys();
        }
    }
    value
}

/// Takes the annotations that stand for fields off an object.
fn take_annotations(value: &mut Value) -> Map<String, Value> {
    let mut taken = Map::new();
    if let Some(metadata) = value["metadata"].as_object_mut()
        && let Some(Value::Object(annotations)) = metadata.get_mut("annotations")
    {
        for name in [METRICS, CURRENT, CONDITIONS, BEHAVIOR] {
            if let Some(value) = annotations.shift_remove(name) {
                taken.insert(name.into(), value);
            }
        }
        if annotations.is_empty() {
            metadata.shift_remove("annotations");
        }
    }
    taken
}

/// The share of the cpu a metric aims at or has.
fn cpu_utilization<'m>(metric: &'m Value, side: &str) -> Option<&'m Value> {
    let source = &metric["resource"];
    (metric["type"] == "Resource" && source["name"] == "cpu")
        .then(|| &source[side]["averageUtilization"])
        .filter(|percent| percent.is_number())
}

/// The member a metric of a type is described by.
fn metric_member(kind: &str) -> Option<&'static str> {
    ["resource", "pods", "object", "external", "containerResource"]
        .into_iter()
        .find(|member| member.eq_ignore_ascii_case(kind))
}

type Form<'f> = &'f dyn Fn(&str, &Value) -> Value;

fn old_metric(metric: &Value, form: Form<'_>) -> Option<Value> {
    let kind = metric["type"].as_str()?;
    let member = metric_member(kind)?;
    Some(json!({"type": kind, member: form(member, &metric[member])}))
}

fn old_metrics(metrics: Option<&Value>, form: Form<'_>) -> Vec<Value> {
    metrics.and_then(Value::as_array).into_iter().flatten().filter_map(|m| old_metric(m, form)).collect()
}

/// An object of the members that are there.
fn present_members<const N: usize>(members: [(&str, &Value); N]) -> Value {
    let present = members.into_iter().filter(|(_, value)| !value.is_null());
    Value::Object(present.map(|(name, value)| (name.to_owned(), value.clone())).collect())
}

/// Returns the old form of a metric's `target` or `current` amounts.
fn old_side(side: &str, member: &str, source: &Value) -> Value {
    let (metric, said) = (&source["metric"], &source[side]);
    let [value, average, share] =
        ["Value", "AverageValue", "AverageUtilization"].map(|amount| format!("{side}{amount}"));
    match member {
        "pods" => present_members([
            ("metricName", &metric["name"]),
            (&average, &said["averageValue"]),
            ("selector", &metric["selector"]),
        ]),
        "object" => {
            // An aim always has a value.
            let none = json!("0");
            let shown = if side == "target" && said["value"].is_null() { &none } else { &said["value"] };
            present_members([
                ("target", &source["describedObject"]),
                ("metricName", &metric["name"]),
                (&value, shown),
                ("selector", &metric["selector"]),
                ("averageValue", &said["averageValue"]),
            ])
        }
        "external" => present_members([
            ("metricName", &metric["name"]),
            ("metricSelector", &metric["selector"]),
            (&value, &said["value"]),
            (&average, &said["averageValue"]),
        ]),
        _ => present_members([
            ("name", &source["name"]),
            (&share, &said["averageUtilization"]),
            (&average, &said["averageValue"]),
            ("container", &source["container"]),
        ]),
    }
}

fn old_target(member: &str, source: &Value) -> Value {
    old_side("target", member, source)
}

fn old_current(member: &str, source: &Value) -> Value {
    old_side("current", member, source)
}

fn new_target(member: &str, source: &Value) -> Value {
    let target = |share: &Value, average: &Value, value: &Value| {
        let kind = match (share.is_null(), average.is_null()) {
            (false, _) => "Utilization",
            (true, false) => "AverageValue",
            (true, true) => "Value",
        };
        let value = if kind == "Value" { value } else { &Value::Null };
        present_members([
            ("type", &json!(kind)),
            ("value", value),
            ("averageValue", average),
            ("averageUtilization", share),
        ])
    };
    let metric =
        |selector: &str| present_members([("name", &source["metricName"]), ("selector", &source[selector])]);
    let none = &Value::Null;
    match member {
        "pods" => json!({
            "metric": metric("selector"),
            "target": {"type": "AverageValue", "averageValue": source["targetAverageValue"]},
        }),
        "object" => json!({
            "describedObject": source["target"],
            "target": target(none, &source["averageValue"], &source["targetValue"]),
            "metric": metric("selector"),
        }),
        "external" => json!({
            "metric": metric("metricSelector"),
            "target": target(none, &source["targetAverageValue"], &source["targetValue"]),
        }),
        _ => {
            let aim = target(&source["targetAverageUtilization"], &source["targetAverageValue"], none);
            present_members([
                ("name", &source["name"]),
                ("target", &aim),
                ("container", &source["container"]),
            ])
        }
    }
}

fn new_current(member: &str, source: &Value) -> Value {
    let metric =
        |selector: &str| present_members([("name", &source["metricName"]), ("selector", &source[selector])]);
    let current = |value: &str, average: &str| {
        present_members([
            ("value", &source[value]),
            ("averageValue", &source[average]),
            ("averageUtilization", &source["currentAverageUtilization"]),
        ])
    };
    match member {
        "pods" => json!({"metric": metric("selector"), "current": current("", "currentAverageValue")}),
        "object" => json!({
            "metric": metric("selector"),
            "current": current("currentValue", "averageValue"),
            "describedObject": source["target"],
        }),
        "external" => json!({
            "metric": metric("metricSelector"), "current": current("currentValue", "currentAverageValue"),
        }),
        _ => {
            let current = current("", "currentAverageValue");
            present_members([
                ("name", &source["name"]),
                ("current", &current),
                ("container", &source["container"]),
            ])
        }
    }
}

/// Behavior with every member it can have, spelled as in the annotation.
fn behavior_rules(behavior: &Value) -> Value {
    let of = |side: &str| match &behavior[side] {
        Value::Object(rules) => json!({
            "StabilizationWindowSeconds": rules.get("stabilizationWindowSeconds"),
            "SelectPolicy": rules.get("selectPolicy"),
            "Policies": rules.get("policies").map(|policies| respell_behavior(policies, true)),
            "Tolerance": rules.get("tolerance"),
        }),
        _ => Value::Null,
    };
    json!({"ScaleUp": of("scaleUp"), "ScaleDown": of("scaleDown")})
}

/// Behavior or a part of it in the other spelling, without what is not set.
fn respell_behavior(value: &Value, old: bool) -> Value {
    match value {
        Value::Array(items) => items.iter().map(|item| respell_behavior(item, old)).collect(),
        Value::Object(members) => {
            let members = members.iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| {
                let name = BEHAVIOR_NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(key));
                let name = name.map_or(&**key, |(new, first)| if old { first } else { new });
                (name.to_owned(), respell_behavior(value, old))
            });
            Value::Object(members.collect())
        }
        other => other.clone(),
    }
}
