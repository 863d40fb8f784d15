//! Validation of the kinds that make, scale and protect pods.

use serde_json::{Value, json};

use super::pod::{self, check_known_or_empty};
use super::{
    CauseList, add_problems, check_non_negative, indexed_items, is_empty, selector_matches,
    validate_label_selector,
};
use crate::status::StatusCause;
use crate::write::admit::meta;

pub(super) const MISMATCH: &str = "`selector` does not match template `labels`";

/// Validates the selector and template that several kinds have. Of a template whose selector cannot be
/// read nothing is reported.
fn validate_selector_and_template(spec: &Value, what: &str, out: &mut CauseList) -> bool {
    let selector = &spec["selector"];
    if selector.is_null() {
        out.push(StatusCause::required("spec.selector", ""));
    } else {
        validate_label_selector(selector, "spec.selector", out);
        if is_empty(&selector["matchLabels"]) && is_empty(&selector["matchExpressions"]) {
            out.push(StatusCause::invalid(
                "spec.selector",
                selector,
                &format!("empty selector is invalid for {what}"),
            ));
        }
    }
    if is_unreadable(selector) {
        if what == "statefulset" {
            let shown = format!("Invalid value: {selector}");
            out.push(StatusCause { message: shown, ..StatusCause::invalid_unshown("spec.selector", "") });
        } else {
            out.push(StatusCause::invalid("spec.selector", selector, "invalid label selector"));
        }
        return false;
    }
    check_template_matches(spec, out);
    true
}

/// Returns true if a selector cannot be converted.
fn is_unreadable(selector: &Value) -> bool {
    let mut problems = CauseList::new();
    validate_label_selector(selector, "", &mut problems);
    !problems.is_empty()
}

fn check_template_matches(spec: &Value, out: &mut CauseList) {
    let template = &spec["template"];
    let labels = &template["metadata"]["labels"];
    let selector = &spec["selector"];
    let everything =
        selector.is_object() && is_empty(&selector["matchLabels"]) && is_empty(&selector["matchExpressions"]);
    if !everything && !selector_matches(selector, labels) {
        out.push(StatusCause::invalid("spec.template.metadata.labels", labels, MISMATCH));
    }
    pod::validate_template(template, "spec.template", out);
}

fn check_always_restarts(spec: &Value, what: &str, out: &mut CauseList) {
    let template = &spec["template"]["spec"];
    if template["restartPolicy"] != "Always" {
        out.push(StatusCause::not_supported(
            "spec.template.spec.restartPolicy",
            &json!(template["restartPolicy"].as_str().unwrap_or("")),
            &["Always"],
        ));
    }
    if !template["activeDeadlineSeconds"].is_null() {
        out.push(StatusCause::forbidden(
            "spec.template.spec.activeDeadlineSeconds",
            &format!("activeDeadlineSeconds in {what} is not Supported"),
        ));
    }
}

pub(in crate::write) fn validate_deployment(spec: &Value, out: &mut CauseList) {
    check_non_negative(&spec["replicas"], "spec.replicas".into(), out);
    if validate_selector_and_template(spec, "deployment", out) {
        check_always_restarts(spec, "ReplicaSet", out);
    }
    let strategy = &spec["strategy"];
    match strategy["type"].as_str().unwrap_or("") {
        "" => out.push(StatusCause::required("spec.strategy.type", "")),
        "Recreate" => {
            if !strategy["rollingUpdate"].is_null() {
                out.push(StatusCause::forbidden(
                    "spec.strategy.rollingUpdate",
                    "may not be specified when strategy `type` is 'Recreate'",
                ));
            }
        }
        "RollingUpdate" => {
            if strategy["rollingUpdate"].is_null() {
                out.push(StatusCause::required(
                    "spec.strategy.rollingUpdate",
                    "this should be defaulted and never be nil",
                ));
            } else {
                validate_rolling_update(&strategy["rollingUpdate"], "spec.strategy.rollingUpdate", out);
            }
        }
        _ => out.push(StatusCause::not_supported(
            "spec.strategy",
            &super::go_internal(strategy, &[("Type", "type"), ("RollingUpdate", "rollingUpdate")]),
            &["Recreate", "RollingUpdate"],
        )),
    }
    for key in ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        check_non_negative(&spec[key], format!("spec.{key}"), out);
    }
    if let Some(deadline) = spec["progressDeadlineSeconds"].as_i64()
        && deadline <= spec["minReadySeconds"].as_i64().unwrap_or(0)
    {
        out.push(StatusCause::invalid(
            "spec.progressDeadlineSeconds",
            &spec["progressDeadlineSeconds"],
            "must be greater than minReadySeconds",
        ));
    }
}

/// A count or a percentage, not negative.
fn validate_count_or_percent(value: &Value, field: &str, out: &mut CauseList) {
    match value {
        Value::String(text) => {
            let digits = text.strip_suffix('%').unwrap_or("");
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                out.push(StatusCause::invalid(
                    field,
                    value,
                    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
                ));
            }
        }
        _ => check_non_negative(value, field.to_owned(), out),
    }
}

fn check_percent_over(value: &Value, field: &str, out: &mut CauseList) {
    let percent = value.as_str().and_then(|t| t.strip_suffix('%')).and_then(|t| t.parse::<i64>().ok());
    if percent.is_some_and(|p| p > 100) {
        out.push(StatusCause::invalid(field, value, "must not be greater than 100%"));
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Number(n) => n.as_i64() == Some(0),
        Value::String(s) => s.strip_suffix('%').and_then(|t| t.parse::<i64>().ok()) == Some(0),
        _ => value.is_null(),
    }
}

/// A count, or how many percent.
fn amount_of(value: &Value) -> i64 {
    match value {
        Value::String(text) => text.strip_suffix('%').and_then(|t| t.parse().ok()).unwrap_or(0),
        _ => value.as_i64().unwrap_or(0),
    }
}

fn validate_rolling_update(rolling: &Value, field: &str, out: &mut CauseList) {
    validate_count_or_percent(&rolling["maxUnavailable"], &format!("{field}.maxUnavailable"), out);
    validate_count_or_percent(&rolling["maxSurge"], &format!("{field}.maxSurge"), out);
    if is_zero(&rolling["maxUnavailable"]) && is_zero(&rolling["maxSurge"]) {
        out.push(StatusCause::invalid(
            format!("{field}.maxUnavailable"),
            &rolling["maxUnavailable"],
            "may not be 0 when `maxSurge` is 0",
        ));
    }
    check_percent_over(&rolling["maxUnavailable"], &format!("{field}.maxUnavailable"), out);
}

pub(in crate::write) fn validate_replica_set(spec: &Value, out: &mut CauseList) {
    check_non_negative(&spec["replicas"], "spec.replicas".into(), out);
    check_non_negative(&spec["minReadySeconds"], "spec.minReadySeconds".into(), out);
    // The text says so in every release.
    if validate_selector_and_template(spec, "deployment", out) {
        check_always_restarts(spec, "ReplicaSet", out);
    }
}

pub(in crate::write) fn validate_replication_controller(object: &Value, out: &mut CauseList) {
    let spec = &object["spec"];
    if is_empty(&spec["selector"]) {
        out.push(StatusCause::required("spec.selector", ""));
    }
    if spec["template"].is_null() {
        out.push(StatusCause::required("spec.template", ""));
    } else {
        let selector = json!({"matchLabels": spec["selector"]});
        let labels = &spec["template"]["metadata"]["labels"];
        if !is_empty(&spec["selector"]) && !selector_matches(&selector, labels) {
            out.push(StatusCause::invalid("spec.template.metadata.labels", labels, MISMATCH));
        }
        pod::validate_template(&spec["template"], "spec.template", out);
        check_always_restarts(spec, "ReplicationController", out);
    }
    // What the type itself says is looked at last.
    check_non_negative(&spec["replicas"], "spec.replicas".into(), out);
    check_non_negative(&spec["minReadySeconds"], "spec.minReadySeconds".into(), out);
}

pub(in crate::write) fn validate_stateful_set(spec: &Value, new: bool, out: &mut CauseList) {
    match spec["podManagementPolicy"].as_str().unwrap_or("") {
        "" => out.push(StatusCause::required("spec.podManagementPolicy", "")),
        "OrderedReady" | "Parallel" => {}
        _ => out.push(StatusCause::invalid(
            "spec.podManagementPolicy",
            &spec["podManagementPolicy"],
            "must be 'OrderedReady' or 'Parallel'",
        )),
    }
    let strategy = &spec["updateStrategy"];
    match strategy["type"].as_str().unwrap_or("") {
        "" => out.push(StatusCause::required("spec.updateStrategy", "")),
        "OnDelete" => {
            if !strategy["rollingUpdate"].is_null() {
                out.push(StatusCause::invalid(
                    "spec.updateStrategy.rollingUpdate",
                    &strategy["rollingUpdate"],
                    "only allowed for updateStrategy 'RollingUpdate'",
                ));
            }
        }
        "RollingUpdate" => {
            let rolling = &strategy["rollingUpdate"];
            check_non_negative(
                &rolling["partition"],
                "spec.updateStrategy.rollingUpdate.partition".into(),
                out,
            );
            if !rolling["maxUnavailable"].is_null() {
                let field = "spec.updateStrategy.rollingUpdate.maxUnavailable";
                validate_count_or_percent(&rolling["maxUnavailable"], field, out);
                // What is no percentage counts as none.
                if amount_of(&rolling["maxUnavailable"]) == 0 {
                    out.push(StatusCause::invalid(field, &rolling["maxUnavailable"], "cannot be 0"));
                }
                check_percent_over(&rolling["maxUnavailable"], field, out);
            }
        }
        _ => {
            let rolling = &strategy["rollingUpdate"];
            let names = [("Partition", "partition"), ("MaxUnavailable", "maxUnavailable")];
            let rolling = rolling.is_object().then(|| super::go_internal(rolling, &names));
            out.push(StatusCause::invalid(
                "spec.updateStrategy",
                &json!({"Type": strategy["type"], "RollingUpdate": rolling}),
                "must be 'RollingUpdate' or 'OnDelete'",
            ));
        }
    }
    for key in ["whenDeleted", "whenScaled"] {
        let policy = &spec["persistentVolumeClaimRetentionPolicy"];
        if !policy.is_null() {
            let at = format!("spec.persistentVolumeClaimRetentionPolicy.{key}");
            check_known_or_empty(&policy[key], at, &["Retain", "Delete"], out);
        }
    }
    for (i, claim) in indexed_items(&spec["volumeClaimTemplates"]).filter(|_| new) {
        super::storage::validate_claim(&claim["spec"], &format!("spec.volumeClaimTemplates[{i}].spec"), out);
    }
    check_non_negative(&spec["replicas"], "spec.replicas".into(), out);
    check_non_negative(&spec["minReadySeconds"], "spec.minReadySeconds".into(), out);
    check_non_negative(&spec["ordinals"]["start"], "spec.ordinals.start".into(), out);
    if let Some(name) = spec["serviceName"].as_str().filter(|name| new && !name.is_empty()) {
        add_problems(meta::label_problems(name), &spec["serviceName"], "spec.serviceName", out);
    }
    let mut whole = spec.clone();
    add_claim_volumes(&mut whole);
    let _ = validate_selector_and_template(&whole, "statefulset", out);
    check_always_restarts(spec, "StatefulSet", out);
}

/// Every claim template is a volume of each pod, in place of one of its name the template lists, and
/// the names pods have are not the template's to give.
fn add_claim_volumes(spec: &mut Value) {
    let mut volumes: Vec<Value> = Vec::new();
    for (_, claim) in indexed_items(&spec["volumeClaimTemplates"]) {
        let name = claim["metadata"]["name"].as_str().unwrap_or("");
        if !volumes.iter().any(|volume| volume["name"] == name) {
            volumes.push(json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
        }
    }
    let template = &mut spec["template"]["spec"];
    if let Some(members) = template.as_object_mut() {
        members.shift_remove("hostname");
        members.shift_remove("subdomain");
    }
    let own: Vec<Value> = indexed_items(&template["volumes"])
        .filter(|(_, own)| !volumes.iter().any(|v| v["name"] == own["name"].as_str().unwrap_or("")))
        .map(|(_, own)| own.clone())
        .collect();
    volumes.extend(own);
    template["volumes"] = Value::Array(volumes);
}

pub(in crate::write) fn validate_daemon_set(spec: &Value, out: &mut CauseList) {
    validate_label_selector(&spec["selector"], "spec.selector", out);
    let selector = &spec["selector"];
    let labels = &spec["template"]["metadata"]["labels"];
    if !is_unreadable(selector) && !selector_matches(selector, labels) {
        out.push(StatusCause::invalid("spec.template.metadata.labels", labels, MISMATCH));
    }
    if selector.is_object() && is_empty(&selector["matchLabels"]) && is_empty(&selector["matchExpressions"]) {
        out.push(StatusCause::invalid("spec.selector", selector, "empty selector is invalid for daemonset"));
    }
    pod::validate_template(&spec["template"], "spec.template", out);
    check_always_restarts(spec, "DaemonSet", out);
    check_non_negative(&spec["minReadySeconds"], "spec.minReadySeconds".into(), out);
    let strategy = &spec["updateStrategy"];
    match strategy["type"].as_str().unwrap_or("") {
        "OnDelete" => {}
        "RollingUpdate" => {
            let rolling = &strategy["rollingUpdate"];
            let field = "spec.updateStrategy.rollingUpdate";
            validate_count_or_percent(&rolling["maxUnavailable"], &format!("{field}.maxUnavailable"), out);
            validate_count_or_percent(&rolling["maxSurge"], &format!("{field}.maxSurge"), out);
            if !is_zero(&rolling["maxUnavailable"]) && !is_zero(&rolling["maxSurge"]) {
                out.push(StatusCause::invalid(
                    format!("{field}.maxSurge"),
                    &rolling["maxSurge"],
                    "may not be set when maxUnavailable is non-zero",
                ));
            }
            if is_zero(&rolling["maxUnavailable"]) && is_zero(&rolling["maxSurge"]) {
                out.push(StatusCause::required(
                    format!("{field}.maxUnavailable"),
                    "cannot be 0 when maxSurge is 0",
                ));
            }
        }
        _ => out.push(StatusCause::not_supported(
            "spec.updateStrategy",
            &super::go_internal(strategy, &[("Type", "type"), ("RollingUpdate", "rollingUpdate")]),
            &["RollingUpdate", "OnDelete"],
        )),
    }
    check_non_negative(&spec["revisionHistoryLimit"], "spec.revisionHistoryLimit".into(), out);
}

pub(in crate::write) fn validate_revision(object: &Value, new: bool, out: &mut CauseList) {
    check_non_negative(&object["revision"], "revision".into(), out);
    // Data cannot change, and is not checked again.
    if new && object["data"].is_null() {
        out.push(StatusCause::required("data", "data is mandatory"));
    } else if new && !object["data"].is_object() {
        out.push(StatusCause::required("data", "data must be a valid JSON object"));
    }
}

pub(in crate::write) fn validate_disruption_budget(spec: &Value, out: &mut CauseList) {
    if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
        let shown = super::go_internal(
            spec,
            &[
                ("MinAvailable", "minAvailable"),
                ("Selector", "selector"),
                ("MaxUnavailable", "maxUnavailable"),
                ("UnhealthyPodEvictionPolicy", "unhealthyPodEvictionPolicy"),
            ],
        );
        out.push(StatusCause::invalid("spec", &shown, "minAvailable and maxUnavailable cannot be both set"));
    }
    for key in ["minAvailable", "maxUnavailable"] {
        if !spec[key].is_null() {
            validate_count_or_percent(&spec[key], &format!("spec.{key}"), out);
            check_percent_over(&spec[key], &format!("spec.{key}"), out);
        }
    }
    validate_label_selector(&spec["selector"], "spec.selector", out);
    let policies = &["AlwaysAllow", "IfHealthyBudget"];
    super::check_known(
        &spec["unhealthyPodEvictionPolicy"],
        "spec.unhealthyPodEvictionPolicy".into(),
        policies,
        out,
    );
}
