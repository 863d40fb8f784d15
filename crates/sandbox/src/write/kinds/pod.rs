//! Pods and their templates.

use serde_json::{Value, json};

use super::KindStrategy;
use crate::core::Core;
use crate::status::Result;
use crate::write::admit::validate::CauseList;
use crate::write::admit::{admission, default, immutable_pod, prepare, validate, warn, warn_pod};

pub(super) struct Pod;

impl KindStrategy for Pod {
    fn set_defaults(&self, _version: &str, object: &mut Value) {
        default::pod::default_pod(object);
    }

    fn admit_new(&self, core: &Core, object: &mut Value) -> Result<()> {
        admission::admit_pod(core, object)
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({"phase": "Pending", "qosClass": admission::qos_class(&object["spec"])});
        if object["spec"]["schedulingGates"].as_array().is_some_and(|g| !g.is_empty()) {
            object["status"]["conditions"] = json!([{
                "type": "PodScheduled", "status": "False",
                "lastTransitionTime": object["metadata"]["creationTimestamp"], "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }]);
        }
    }

    fn admit_update(&self, object: &mut Value) {
        // The tolerations every pod has are added again when the list is replaced.
        admission::add_default_tolerations(&mut object["spec"]);
    }

    fn prepare_update(&self, new: &mut Value, live: &Value) {
        prepare::keep_in(new, live, "spec", "priority");
        prepare::keep_in(new, live, "spec", "preemptionPolicy");
    }

    fn validate(&self, object: &Value, old: Option<&Value>, out: &mut CauseList) {
        validate::pod::validate_pod(object, old.is_some(), out);
    }

    fn validate_status(&self, object: &Value, old: &Value, out: &mut CauseList) {
        validate::status::validate_pod(object, old, out);
    }

    fn check_immutable(&self, new: &Value, old: &Value, out: &mut CauseList) {
        immutable_pod::check_pod(&new["spec"], &old["spec"], out);
    }

    fn add_warnings(&self, object: &Value, old: Option<&Value>, out: &mut Vec<String>) {
        if old.is_none() {
            warn::warn_about_hostname(object, "the Pod's hostname", out);
        }
        warn_pod::warn_about_pod(object, "", out);
    }
}

pub(super) struct PodTemplate;

impl KindStrategy for PodTemplate {
    fn set_defaults(&self, _version: &str, object: &mut Value) {
        default::pod::default_template(&mut object["template"]);
    }

    fn validate(&self, object: &Value, _old: Option<&Value>, out: &mut CauseList) {
        validate::pod::validate_template(&object["template"], "template", out);
    }

    fn add_warnings(&self, object: &Value, old: Option<&Value>, out: &mut Vec<String>) {
        if warn::is_new_generation(object, old) {
            warn_pod::warn_about_pod(&object["template"], "template.", out);
        }
    }
}
