//! Namespaces, nodes, configuration, and kinds that describe the cluster itself.

use std::sync::Arc;

use serde_json::{Value, json};
use slipway_manifest::object::set_label;

use super::KindStrategy;
use crate::core::Core;
use crate::status::{Result, StatusCause};
use crate::store::{ObjectKey, StoredObject};
use crate::write::admit::default::set_default;
use crate::write::admit::immutable::IMMUTABLE;
use crate::write::admit::validate::{CauseList, cluster, config, limits, node, status};
use crate::write::admit::{admission, default, immutable, pod_security, prepare, warn};

pub(super) struct Namespace;

impl KindStrategy for Namespace {
    fn set_defaults(&self, _version: &str, object: &mut Value) {
        if let Some(name) = object["metadata"]["name"].as_str().filter(|n| !n.is_empty()) {
            let name = name.to_owned();
            set_label(object, "kubernetes.io/metadata.name", &name);
        }
        set_default(&mut object["status"], "phase", "Active");
    }

    fn initial_status(&self, _object: &Value) -> Value {
        json!({"phase": "Active"})
    }

    fn prepare_create(&self, object: &mut Value) {
        let finalizers = &mut object["spec"]["finalizers"];
        let has = finalizers.as_array().is_some_and(|f| f.iter().any(|v| v == "kubernetes"));
        if !has {
            let mut all = finalizers.as_array().cloned().unwrap_or_default();
            all.push(json!("kubernetes"));
            *finalizers = all.into();
        }
    }

    fn prepare_update(&self, new: &mut Value, live: &Value) {
        new["spec"]["finalizers"] = live["spec"]["finalizers"].clone();
    }

    fn validate(&self, object: &Value, old: Option<&Value>, out: &mut CauseList) {
        node::validate_namespace(object, old, out);
    }

    fn validate_status(&self, object: &Value, _old: &Value, out: &mut CauseList) {
        node::validate_namespace(object, None, out);
    }

    fn check_labels(
        &self,
        core: &Core,
        object: &Value,
        old: Option<&Value>,
        out: &mut CauseList,
        warnings: &mut Vec<String>,
    ) {
        match old {
            None => pod_security::check_labels(object, out),
            Some(old) if object["metadata"]["labels"] != old["metadata"]["labels"] => {
                pod_security::check_labels(object, out);
                pod_security::warn_of_pods(core, old, object, warnings);
            }
            Some(_) => {}
        }
    }

    fn holds_deletion(&self, object: &Value) -> bool {
        object["spec"]["finalizers"].as_array().is_some_and(|f| !f.is_empty())
    }

    fn after_write(&self, core: &Core, before: Option<&StoredObject>, now: &Arc<StoredObject>) {
        if before.is_none() {
            crate::controllers::furnish_namespace(core, now.name());
        }
    }
}

pub(super) struct Node;

impl KindStrategy for Node {
    fn set_defaults(&self, _version: &str, object: &mut Value) {
        let capacity = object["status"]["capacity"].clone();
        if capacity.is_object() {
            set_default(&mut object["status"], "allocatable", capacity);
        }
        if object["status"].is_null() {
            default::remove_null(object, "status");
        }
    }

    fn admit_new(&self, _core: &Core, object: &mut Value) -> Result<()> {
        admission::admit_node(object);
        Ok(())
    }

    fn prepare_create(&self, object: &mut Value) {
        set_default(object, "spec", json!({}));
        prepare::pod_ranges(object);
    }

    fn prepare_update(&self, new: &mut Value, _live: &Value) {
        prepare::pod_ranges(new);
    }

    fn validate(&self, object: &Value, old: Option<&Value>, out: &mut CauseList) {
        node::validate_node(object, old, out);
        status::validate_node(&object["status"], out);
    }

    fn validate_status(&self, object: &Value, old: &Value, out: &mut CauseList) {
        node::validate_node(object, Some(old), out);
        status::validate_node(&object["status"], out);
    }

    fn add_warnings(&self, object: &Value, _old: Option<&Value>, out: &mut Vec<String>) {
        warn::warn_about_node(object, out);
    }
}

pub(super) struct Event;

impl KindStrategy for Event {
    fn validate(&self, object: &Value, _old: Option<&Value>, out: &mut CauseList) {
        config::validate_event(object, out);
    }

    fn check_immutable(&self, new: &Value, old: &Value, out: &mut CauseList) {
        if old["eventTime"].is_null() {
            return;
        }
        // An event of the newer form may only change its series.
        for key in ["reportingInstance", "action", "reason", "message", "type"] {
            if new[key] != old[key] {
                out.push(StatusCause::invalid(key, &new[key], IMMUTABLE));
            }
        }
    }
}

pub(super) struct LimitRange;

impl KindStrategy for LimitRange {
    fn may_be_unnamed(&self) -> bool {
        true
    }

    fn set_defaults(&self, _version: &str, object: &mut Value) {
        default::default_limit_range(object);
    }

    fn validate(&self, object: &Value, _old: Option<&Value>, out: &mut CauseList) {
        limits::validate_limit_range(&object["spec"], out);
    }
}

pub(super) struct ResourceQuota;

impl KindStrategy for ResourceQuota {
    fn validate(&self, object: &Value, old: Option<&Value>, out: &mut CauseList) {
        limits::validate_quota(&object["spec"], old, out);
    }

    fn validate_status(&self, object: &Value, _old: &Value, out: &mut CauseList) {
        for side in ["hard", "used"] {
            limits::validate_quota_amounts(&object["status"][side], &format!("status.{side}"), out);
        }
    }
}

pub(super) struct ConfigMap;

impl KindStrategy for ConfigMap {
    fn validate(&self, object: &Value, _old: Option<&Value>, out: &mut CauseList) {
        config::validate_config_map(object, out);
    }

    fn check_immutable(&self, new: &Value, old: &Value, out: &mut CauseList) {
        immutable::check_frozen_data(new, old, out);
    }

    fn reports_immutable_first(&self) -> bool {
        true
    }
}

pub(super) struct Secret;

impl KindStrategy for Secret {
    fn set_defaults(&self, _version: &str, object: &mut Value) {
        default::default_secret(object);
    }

    fn validate(&self, object: &Value, _old: Option<&Value>, out: &mut CauseList) {
        config::validate_secret(object, out);
    }

    fn fixed_fields(&self) -> &'static [&'static str] {
        &["type"]
    }

    fn check_immutable(&self, new: &Value, old: &Value, out: &mut CauseList) {
        immutable::check_frozen_data(new, old, out);
    }

    fn reports_immutable_first(&self) -> bool {
        true
    }

    fn add_warnings(&self, object: &Value, _old: Option<&Value>, out: &mut Vec<String>) {
        if object["type"] == "kubernetes.io/tls" {
            warn::warn_about_certificate(&object["data"], out);
        }
    }
}

pub(super) struct Lease;

impl KindStrategy for Lease {
    fn validate(&self, object: &Value, _old: Option<&Value>, out: &mut CauseList) {
        config::validate_lease(&object["spec"], out);
    }
}

pub(super) struct PriorityClass;

impl KindStrategy for PriorityClass {
    fn set_defaults(&self, _version: &str, object: &mut Value) {
        set_default(object, "preemptionPolicy", "PreemptLowerPriority");
    }

    fn validate(&self, object: &Value, old: Option<&Value>, out: &mut CauseList) {
        config::validate_priority_class(object, old.is_none(), out);
    }

    fn fixed_fields(&self) -> &'static [&'static str] {
        &["preemptionPolicy"]
    }

    fn check_immutable(&self, new: &Value, old: &Value, out: &mut CauseList) {
        if new["value"] != old["value"] {
            out.push(StatusCause::forbidden("value", "may not be changed in an update."));
        }
    }
}

pub(super) struct RuntimeClass;

impl KindStrategy for RuntimeClass {
    fn validate(&self, object: &Value, old: Option<&Value>, out: &mut CauseList) {
        config::validate_runtime_class(object, old.is_none(), out);
    }

    fn fixed_fields(&self) -> &'static [&'static str] {
        &["handler"]
    }

    fn check_immutable(&self, new: &Value, _old: &Value, out: &mut CauseList) {
        if new["handler"].as_str().is_none_or(str::is_empty) {
            out.push(StatusCause::required("handler", ""));
        }
    }
}

pub(super) struct ApiService;

impl KindStrategy for ApiService {
    fn set_defaults(&self, _version: &str, object: &mut Value) {
        if object["spec"]["service"].is_object() {
            set_default(&mut object["spec"]["service"], "port", 443);
        }
    }

    fn validate(&self, object: &Value, _old: Option<&Value>, out: &mut CauseList) {
        cluster::validate_api_service(object, out);
    }
}

pub(super) struct CustomResourceDefinition;

impl KindStrategy for CustomResourceDefinition {
    fn set_defaults(&self, _version: &str, object: &mut Value) {
        default::default_definition(object);
    }

    fn initial_status(&self, object: &Value) -> Value {
        let stored: Vec<Value> = object["spec"]["versions"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|v| v["storage"] == true)
            .map(|v| v["name"].clone())
            .take(1)
            .collect();
        let stored = if stored.is_empty() { Value::Null } else { stored.into() };
        json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored})
    }

    fn prepare_update(&self, new: &mut Value, _live: &Value) {
        prepare::note_storage(new);
    }

    fn validate(&self, object: &Value, old: Option<&Value>, out: &mut CauseList) {
        // After the fields that may not change, which are reported first.
        if old.is_none() {
            crate::api::crd::validate_definition(object, old, out);
        }
    }

    fn fixed_fields(&self) -> &'static [&'static str] {
        &["spec.group", "spec.names.plural", "spec.scope"]
    }

    fn check_immutable(&self, new: &Value, old: &Value, out: &mut CauseList) {
        immutable::check_definition(new, old, out);
        crate::api::crd::validate_definition(new, Some(old), out);
    }

    fn add_warnings(&self, object: &Value, old: Option<&Value>, out: &mut Vec<String>) {
        warn::warn_about_formats(object, old, out);
    }

    fn after_write(&self, core: &Core, before: Option<&StoredObject>, now: &Arc<StoredObject>) {
        crate::api::crd::establish_definition(core, before.is_none(), now);
    }

    fn after_delete(&self, core: &Core, _key: &ObjectKey) {
        crate::api::crd::refresh_registry(core);
    }
}
