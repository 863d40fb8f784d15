//! Defaults of the kinds that make pods.

use serde_json::{Value, json};

use super::{items_mut, pod, remove_null, set_default, set_default_if_empty};

fn spec_mut(object: &mut Value) -> &mut Value {
    let spec = &mut object["spec"];
    if !spec.is_object() {
        *spec = json!({});
    }
    spec
}

pub(in crate::write) fn default_deployment(object: &mut Value) {
    let spec = spec_mut(object);
    set_default(spec, "replicas", 1);
    if !spec["strategy"].is_object() {
        spec["strategy"] = json!({});
    }
    let strategy = &mut spec["strategy"];
    set_default_if_empty(strategy, "type", "RollingUpdate");
    if strategy["type"] == "RollingUpdate" {
        set_default(strategy, "rollingUpdate", json!({}));
        set_default(&mut strategy["rollingUpdate"], "maxUnavailable", "25%");
        set_default(&mut strategy["rollingUpdate"], "maxSurge", "25%");
    }
    set_default(spec, "revisionHistoryLimit", 10);
    set_default(spec, "progressDeadlineSeconds", 600);
    pod::default_template(&mut spec["template"]);
}

pub(in crate::write) fn default_replica_set(object: &mut Value) {
    let spec = spec_mut(object);
    set_default(spec, "replicas", 1);
    pod::default_template(&mut spec["template"]);
}

pub(in crate::write) fn default_replication_controller(object: &mut Value) {
    let labels = object["spec"]["template"]["metadata"]["labels"].clone();
    let spec = spec_mut(object);
    set_default(spec, "replicas", 1);
    if labels.is_object() {
        if spec["selector"].as_object().is_none_or(serde_json::Map::is_empty) {
            spec["selector"] = labels.clone();
        }
        pod::default_template(&mut spec["template"]);
        if object["metadata"]["labels"].as_object().is_none_or(serde_json::Map::is_empty) {
            object["metadata"]["labels"] = labels;
        }
    } else if spec["template"].is_object() {
        let template = &mut spec["template"];
        if template.get("metadata").is_some_and(Value::is_object) {
            remove_null(&mut template["metadata"], "labels");
        }
        remove_null(template, "metadata");
        pod::default_template(template);
    } else {
        spec["template"] = Value::Null;
        remove_null(spec, "template");
    }
}

pub(in crate::write) fn default_stateful_set(object: &mut Value) {
    let spec = spec_mut(object);
    set_default_if_empty(spec, "podManagementPolicy", "OrderedReady");
    if !spec["updateStrategy"].is_object() {
        spec["updateStrategy"] = json!({});
    }
    let strategy = &mut spec["updateStrategy"];
    if strategy["type"].as_str().is_none_or(str::is_empty) {
        // A named strategy gets no details.
        set_default(strategy, "rollingUpdate", json!({}));
    }
    set_default_if_empty(strategy, "type", "RollingUpdate");
    if strategy["type"] == "RollingUpdate" && strategy["rollingUpdate"].is_object() {
        set_default(&mut strategy["rollingUpdate"], "partition", 0);
        set_default(&mut strategy["rollingUpdate"], "maxUnavailable", 1);
    }
    remove_null(strategy, "rollingUpdate");
    set_default(spec, "persistentVolumeClaimRetentionPolicy", json!({}));
    set_default_if_empty(&mut spec["persistentVolumeClaimRetentionPolicy"], "whenDeleted", "Retain");
    set_default_if_empty(&mut spec["persistentVolumeClaimRetentionPolicy"], "whenScaled", "Retain");
    set_default(spec, "replicas", 1);
    set_default(spec, "revisionHistoryLimit", 10);
    for claim in items_mut(&mut spec["volumeClaimTemplates"]) {
        if claim.is_object() {
            claim["kind"] = "PersistentVolumeClaim".into();
            claim["apiVersion"] = "v1".into();
            // What it is filled from is written once here, unlike in a claim itself.
            set_default_if_empty(&mut claim["status"], "phase", "Pending");
            set_default(&mut claim["spec"], "volumeMode", "Filesystem");
        }
    }
    remove_null(spec, "volumeClaimTemplates");
    pod::default_template(&mut spec["template"]);
}

/// The annotation in which old clients keep the generation of a daemon set's template.
pub(crate) const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

pub(in crate::write) fn default_daemon_set(object: &mut Value) {
    let spec = spec_mut(object);
    if !spec["updateStrategy"].is_object() {
        spec["updateStrategy"] = json!({});
    }
    let strategy = &mut spec["updateStrategy"];
    set_default_if_empty(strategy, "type", "RollingUpdate");
    if strategy["type"] == "RollingUpdate" {
        set_default(strategy, "rollingUpdate", json!({}));
        set_default(&mut strategy["rollingUpdate"], "maxUnavailable", 1);
        set_default(&mut strategy["rollingUpdate"], "maxSurge", 0);
    } else if strategy["rollingUpdate"].is_object() {
        // Unused numbers are set all the same.
        set_default(&mut strategy["rollingUpdate"], "maxUnavailable", 0);
        set_default(&mut strategy["rollingUpdate"], "maxSurge", 0);
    }
    remove_null(strategy, "rollingUpdate");
    set_default(spec, "revisionHistoryLimit", 10);
    pod::default_template(&mut spec["template"]);
    if slipway_manifest::object::annotation(object, TEMPLATE_GENERATION).is_none() {
        slipway_manifest::object::set_annotation(object, TEMPLATE_GENERATION, "0");
    }
}

pub(in crate::write) fn default_job(object: &mut Value) {
    let spec = spec_mut(object);
    let indexed = spec["completionMode"] == "Indexed";
    if spec["completions"].is_null() && spec["parallelism"].is_null() {
        spec["completions"] = json!(1);
        spec["parallelism"] = json!(1);
    }
    set_default(spec, "parallelism", 1);
    let per_index = spec["backoffLimitPerIndex"].is_number() && indexed;
    set_default(spec, "backoffLimit", if per_index { i32::MAX } else { 6 });
    set_default(spec, "completionMode", "NonIndexed");
    set_default(spec, "suspend", false);
    if let Some(rules) = spec.pointer_mut("/podFailurePolicy/rules") {
        for rule in items_mut(rules) {
            for condition in rule.get_mut("onPodConditions").map(items_mut).into_iter().flatten() {
                set_default_if_empty(condition, "status", "True");
            }
        }
    }
    let policy = if spec["podFailurePolicy"].is_object() { "Failed" } else { "TerminatingOrFailed" };
    set_default(spec, "podReplacementPolicy", policy);
    set_default(spec, "manualSelector", false);
    for key in ["completions", "backoffLimitPerIndex", "podFailurePolicy"] {
        remove_null(spec, key);
    }
    pod::default_template(&mut spec["template"]);
}

pub(in crate::write) fn default_cron_job(object: &mut Value) {
    let spec = spec_mut(object);
    set_default_if_empty(spec, "concurrencyPolicy", "Allow");
    set_default(spec, "suspend", false);
    set_default(spec, "successfulJobsHistoryLimit", 3);
    set_default(spec, "failedJobsHistoryLimit", 1);
    if !spec["jobTemplate"]["spec"].is_object() {
        spec["jobTemplate"]["spec"] = json!({});
    }
    pod::default_template(&mut spec["jobTemplate"]["spec"]["template"]);
}
