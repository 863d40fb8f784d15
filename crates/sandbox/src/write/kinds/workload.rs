//! Kinds whose controllers make pods, and those that bound them.

use serde_json::Value;
use slipway_manifest::object::set_annotation;

use super::KindStrategy;
use crate::write::admit::validate::{
    CauseList, autoscaler, check_non_negative, indexed_items, job, status, workload,
};
use crate::write::admit::{default, immutable, prepare, warn};

/// Warns about the name and the template of a new workload.
fn warn_about_named(kind: &str, object: &Value, old: Option<&Value>, out: &mut Vec<String>) {
    if old.is_none() {
        warn::warn_about_hostname(object, "Pod names and hostnames", out);
    }
    warn::warn_about_workload(kind, object, old, out);
}

pub(super) struct ReplicationController;

impl KindStrategy for ReplicationController {
    fn set_defaults(&self, _version: &str, object: &mut Value) {
        default::workload::default_replication_controller(object);
    }

    fn validate(&self, object: &Value, _old: Option<&Value>, out: &mut CauseList) {
        workload::validate_replication_controller(object, out);
    }

    fn validate_status(&self, object: &Value, old: &Value, out: &mut CauseList) {
        status::CONTROLLER.validate(object, old, out);
    }

    fn add_warnings(&self, object: &Value, old: Option<&Value>, out: &mut Vec<String>) {
        warn_about_named("ReplicationController", object, old, out);
    }
}

pub(super) struct Deployment;

impl KindStrategy for Deployment {
    fn set_defaults(&self, _version: &str, object: &mut Value) {
        default::workload::default_deployment(object);
    }

    fn validate(&self, object: &Value, _old: Option<&Value>, out: &mut CauseList) {
        workload::validate_deployment(&object["spec"], out);
    }

    fn counts_annotations(&self) -> bool {
        true
    }

    fn fixed_fields(&self) -> &'static [&'static str] {
        &["spec.selector"]
    }

    fn validate_status(&self, object: &Value, old: &Value, out: &mut CauseList) {
        status::DEPLOYMENT.validate(object, old, out);
    }

    fn add_warnings(&self, object: &Value, old: Option<&Value>, out: &mut Vec<String>) {
        warn_about_named("Deployment", object, old, out);
    }
}

pub(super) struct ReplicaSet;

impl KindStrategy for ReplicaSet {
    fn set_defaults(&self, _version: &str, object: &mut Value) {
        default::workload::default_replica_set(object);
    }

    fn validate(&self, object: &Value, _old: Option<&Value>, out: &mut CauseList) {
        workload::validate_replica_set(&object["spec"], out);
    }

    fn fixed_fields(&self) -> &'static [&'static str] {
        &["spec.selector"]
    }

    fn validate_status(&self, object: &Value, old: &Value, out: &mut CauseList) {
        status::REPLICA_SET.validate(object, old, out);
    }

    fn add_warnings(&self, object: &Value, old: Option<&Value>, out: &mut Vec<String>) {
        warn_about_named("ReplicaSet", object, old, out);
    }
}

pub(super) struct StatefulSet;

impl KindStrategy for StatefulSet {
    fn set_defaults(&self, _version: &str, object: &mut Value) {
        default::workload::default_stateful_set(object);
    }

    fn validate(&self, object: &Value, old: Option<&Value>, out: &mut CauseList) {
        workload::validate_stateful_set(&object["spec"], old.is_none(), out);
    }

    fn fixed_fields(&self) -> &'static [&'static str] {
        &["spec.selector", "spec.volumeClaimTemplates", "spec.serviceName", "spec.podManagementPolicy"]
    }

    fn validate_status(&self, object: &Value, old: &Value, out: &mut CauseList) {
        status::STATEFUL_SET.validate(object, old, out);
    }

    fn add_warnings(&self, object: &Value, old: Option<&Value>, out: &mut Vec<String>) {
        warn::warn_about_workload("StatefulSet", object, old, out);
    }
}

pub(super) struct DaemonSet;

impl KindStrategy for DaemonSet {
    fn set_defaults(&self, _version: &str, object: &mut Value) {
        default::workload::default_daemon_set(object);
    }

    fn prepare_create(&self, object: &mut Value) {
        set_annotation(object, "deprecated.daemonset.template.generation", "1");
    }

    fn prepare_update(&self, new: &mut Value, live: &Value) {
        prepare::daemon_set(new, live);
    }

    fn validate(&self, object: &Value, _old: Option<&Value>, out: &mut CauseList) {
        workload::validate_daemon_set(&object["spec"], out);
    }

    fn fixed_fields(&self) -> &'static [&'static str] {
        &["spec.selector"]
    }

    fn reports_immutable_first(&self) -> bool {
        true
    }

    fn validate_status(&self, object: &Value, old: &Value, out: &mut CauseList) {
        status::DAEMON_SET.validate(object, old, out);
    }

    fn add_warnings(&self, object: &Value, old: Option<&Value>, out: &mut Vec<String>) {
        warn::warn_about_workload("DaemonSet", object, old, out);
    }
}

pub(super) struct ControllerRevision;

impl KindStrategy for ControllerRevision {
    fn validate(&self, object: &Value, old: Option<&Value>, out: &mut CauseList) {
        workload::validate_revision(object, old.is_none(), out);
    }

    fn fixed_fields(&self) -> &'static [&'static str] {
        &["data"]
    }

    fn add_warnings(&self, object: &Value, old: Option<&Value>, out: &mut Vec<String>) {
        warn::warn_about_workload("ControllerRevision", object, old, out);
    }
}

pub(super) struct Job;

impl KindStrategy for Job {
    fn set_defaults(&self, _version: &str, object: &mut Value) {
        default::workload::default_job(object);
    }

    fn prepare_create(&self, object: &mut Value) {
        prepare::job_selector(object);
    }

    fn validate(&self, object: &Value, old: Option<&Value>, out: &mut CauseList) {
        job::validate_job(object, old.is_none(), out);
    }

    fn validate_status(&self, object: &Value, old: &Value, out: &mut CauseList) {
        status::validate_job(object, old, out);
    }

    fn check_immutable(&self, new: &Value, old: &Value, out: &mut CauseList) {
        immutable::check_job(new, old, out);
    }

    fn add_warnings(&self, object: &Value, old: Option<&Value>, out: &mut Vec<String>) {
        warn_about_named("Job", object, old, out);
    }
}

pub(super) struct CronJob;

impl KindStrategy for CronJob {
    fn set_defaults(&self, _version: &str, object: &mut Value) {
        default::workload::default_cron_job(object);
    }

    fn validate(&self, object: &Value, old: Option<&Value>, out: &mut CauseList) {
        job::validate_cron_job(object, old, out);
    }

    fn add_warnings(&self, object: &Value, old: Option<&Value>, out: &mut Vec<String>) {
        warn_about_named("CronJob", object, old, out);
    }
}

pub(super) struct HorizontalPodAutoscaler;

impl KindStrategy for HorizontalPodAutoscaler {
    fn set_defaults(&self, version: &str, object: &mut Value) {
        default::default_autoscaler(version, object);
    }

    fn validate(&self, object: &Value, _old: Option<&Value>, out: &mut CauseList) {
        autoscaler::validate_autoscaler(&object["spec"], out);
    }

    fn validate_status(&self, object: &Value, _old: &Value, out: &mut CauseList) {
        for (i, condition) in indexed_items(&object["status"]["conditions"]) {
            let at = format!("status.conditions[{i}].observedGeneration");
            check_non_negative(&condition["observedGeneration"], at, out);
        }
        status::validate_plain_counts(&object["status"], &["currentReplicas", "desiredReplicas"], out);
    }
}

pub(super) struct PodDisruptionBudget;

impl KindStrategy for PodDisruptionBudget {
    fn validate(&self, object: &Value, _old: Option<&Value>, out: &mut CauseList) {
        workload::validate_disruption_budget(&object["spec"], out);
    }

    fn validate_status(&self, object: &Value, _old: &Value, out: &mut CauseList) {
        let counts = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];
        status::validate_plain_counts(&object["status"], &counts, out);
    }
}
