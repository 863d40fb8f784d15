//! Defaults of the kinds that make pods.

use serde_json::{Value, json};

use super::{default, default_empty, items, pod, tidy};

fn spec(object: &mut Value) -> &mut Value {
    let spec = &mut object["spec"];
    if !spec.is_object() {
        *spec = json!({});
    }
    spec
}

pub(super) fn deployment(object: &mut Value) {
    let spec = spec(object);
    default(spec, "replicas", 1);
    if !spec["strategy"].is_object() {
        spec["strategy"] = json!({});
    }
    let strategy = &mut spec["strategy"];
    default_empty(strategy, "type", "RollingUpdate");
    if strategy["type"] == "RollingUpdate" {
        default(strategy, "rollingUpdate", json!({}));
        default(&mut strategy["rollingUpdate"], "maxUnavailable", "25%");
        default(&mut strategy["rollingUpdate"], "maxSurge", "25%");
    }
    default(spec, "revisionHistoryLimit", 10);
    default(spec, "progressDeadlineSeconds", 600);
    pod::template(&mut spec["template"]);
}

pub(super) fn replica_set(object: &mut Value) {
    let spec = spec(object);
    default(spec, "replicas", 1);
    pod::template(&mut spec["template"]);
}

pub(super) fn replication_controller(object: &mut Value) {
    let labels = object["spec"]["template"]["metadata"]["labels"].clone();
    let spec = spec(object);
    default(spec, "replicas", 1);
    if labels.is_object() {
        if spec["selector"].as_object().is_none_or(serde_json::Map::is_empty) {
            spec["selector"] = labels.clone();
        }
        pod::template(&mut spec["template"]);
        if object["metadata"]["labels"].as_object().is_none_or(serde_json::Map::is_empty) {
            object["metadata"]["labels"] = labels;
        }
    } else if spec["template"].is_object() {
        let template = &mut spec["template"];
        if template.get("metadata").is_some_and(Value::is_object) {
            tidy(&mut template["metadata"], "labels");
        }
        tidy(template, "metadata");
        pod::template(template);
    } else {
        spec["template"] = Value::Null;
        tidy(spec, "template");
    }
}

pub(super) fn stateful_set(object: &mut Value) {
    let spec = spec(object);
    default_empty(spec, "podManagementPolicy", "OrderedReady");
    if !spec["updateStrategy"].is_object() {
        spec["updateStrategy"] = json!({});
    }
    let strategy = &mut spec["updateStrategy"];
    if strategy["type"].as_str().is_none_or(str::is_empty) {
        // A strategy that is named gets no details of its own.
        default(strategy, "rollingUpdate", json!({}));
    }
    default_empty(strategy, "type", "RollingUpdate");
    if strategy["type"] == "RollingUpdate" && strategy["rollingUpdate"].is_object() {
        default(&mut strategy["rollingUpdate"], "partition", 0);
        default(&mut strategy["rollingUpdate"], "maxUnavailable", 1);
    }
    tidy(strategy, "rollingUpdate");
    default(spec, "persistentVolumeClaimRetentionPolicy", json!({}));
    default_empty(&mut spec["persistentVolumeClaimRetentionPolicy"], "whenDeleted", "Retain");
    default_empty(&mut spec["persistentVolumeClaimRetentionPolicy"], "whenScaled", "Retain");
    default(spec, "replicas", 1);
    default(spec, "revisionHistoryLimit", 10);
    for claim in items(&mut spec["volumeClaimTemplates"]) {
        if claim.is_object() {
            claim["kind"] = "PersistentVolumeClaim".into();
            claim["apiVersion"] = "v1".into();
            // What it is filled from is written once here, unlike in a claim itself.
            default_empty(&mut claim["status"], "phase", "Pending");
            default(&mut claim["spec"], "volumeMode", "Filesystem");
        }
    }
    tidy(spec, "volumeClaimTemplates");
    pod::template(&mut spec["template"]);
}

/// Where old clients keep the generation of a daemon set's template.
pub(crate) const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

pub(super) fn daemon_set(object: &mut Value) {
    let spec = spec(object);
    if !spec["updateStrategy"].is_object() {
        spec["updateStrategy"] = json!({});
    }
    let strategy = &mut spec["updateStrategy"];
    default_empty(strategy, "type", "RollingUpdate");
    if strategy["type"] == "RollingUpdate" {
        default(strategy, "rollingUpdate", json!({}));
        default(&mut strategy["rollingUpdate"], "maxUnavailable", 1);
        default(&mut strategy["rollingUpdate"], "maxSurge", 0);
    } else if strategy["rollingUpdate"].is_object() {
        // Numbers that are not used are there all the same.
        default(&mut strategy["rollingUpdate"], "maxUnavailable", 0);
        default(&mut strategy["rollingUpdate"], "maxSurge", 0);
    }
    tidy(strategy, "rollingUpdate");
    default(spec, "revisionHistoryLimit", 10);
    pod::template(&mut spec["template"]);
    if slipway_manifest::object::annotation(object, TEMPLATE_GENERATION).is_none() {
        slipway_manifest::object::set_annotation(object, TEMPLATE_GENERATION, "0");
    }
}

pub(super) fn job(object: &mut Value) {
    let spec = spec(object);
    let indexed = spec["completionMode"] == "Indexed";
    if spec["completions"].is_null() && spec["parallelism"].is_null() {
        spec["completions"] = json!(1);
        spec["parallelism"] = json!(1);
    }
    default(spec, "parallelism", 1);
    let per_index = spec["backoffLimitPerIndex"].is_number() && indexed;
    default(spec, "backoffLimit", if per_index { i32::MAX } else { 6 });
    default(spec, "completionMode", "NonIndexed");
    default(spec, "suspend", false);
    if let Some(rules) = spec.pointer_mut("/podFailurePolicy/rules") {
        for rule in items(rules) {
            for condition in rule.get_mut("onPodConditions").map(items).into_iter().flatten() {
                default_empty(condition, "status", "True");
            }
        }
    }
    let policy = if spec["podFailurePolicy"].is_object() { "Failed" } else { "TerminatingOrFailed" };
    default(spec, "podReplacementPolicy", policy);
    default(spec, "manualSelector", false);
    for key in ["completions", "backoffLimitPerIndex", "podFailurePolicy"] {
        tidy(spec, key);
    }
    pod::template(&mut spec["template"]);
}

pub(super) fn cron_job(object: &mut Value) {
    let spec = spec(object);
    default_empty(spec, "concurrencyPolicy", "Allow");
    default(spec, "suspend", false);
    default(spec, "successfulJobsHistoryLimit", 3);
    default(spec, "failedJobsHistoryLimit", 1);
    if !spec["jobTemplate"]["spec"].is_object() {
        spec["jobTemplate"]["spec"] = json!({});
    }
    pod::template(&mut spec["jobTemplate"]["spec"]["template"]);
}
