//! Devices and claims to them.

use serde_json::Value;

use super::KindStrategy;
use crate::write::admit::validate::{CauseList, device};
use crate::write::admit::{default, prepare};

pub(super) struct DeviceClass;

impl KindStrategy for DeviceClass {
    fn validate(&self, object: &Value, old: Option<&Value>, out: &mut CauseList) {
        device::validate_device_class(&object["spec"], old, out);
    }
}

pub(super) struct ResourceClaim;

impl KindStrategy for ResourceClaim {
    fn set_defaults(&self, _version: &str, object: &mut Value) {
        default::default_device_requests(&mut object["spec"]);
    }

    fn prepare_create(&self, object: &mut Value) {
        prepare::no_requests(object);
    }

    fn prepare_update(&self, new: &mut Value, _live: &Value) {
        prepare::no_requests(new);
    }

    fn validate(&self, object: &Value, old: Option<&Value>, out: &mut CauseList) {
        // The spec cannot change, and is not checked again.
        if old.is_none() {
            device::validate_device_claim(&object["spec"], "spec", out);
            device::validate_declared_claim(&object["spec"], "spec", out);
        }
    }

    fn fixed_fields(&self) -> &'static [&'static str] {
        &["spec"]
    }
}

pub(super) struct ResourceClaimTemplate;

impl KindStrategy for ResourceClaimTemplate {
    fn set_defaults(&self, _version: &str, object: &mut Value) {
        default::default_device_requests(&mut object["spec"]["spec"]);
    }

    fn prepare_create(&self, object: &mut Value) {
        prepare::no_requests(object);
    }

    fn prepare_update(&self, new: &mut Value, _live: &Value) {
        prepare::no_requests(new);
    }

    fn validate(&self, object: &Value, old: Option<&Value>, out: &mut CauseList) {
        device::validate_template_metadata(&object["spec"]["metadata"], "spec.metadata", out);
        device::validate_device_claim(&object["spec"]["spec"], "spec.spec", out);
        if old.is_none() {
            device::validate_declared_claim(&object["spec"]["spec"], "spec.spec", out);
        }
    }

    fn fixed_fields(&self) -> &'static [&'static str] {
        &["spec"]
    }

    fn check_immutable(&self, new: &Value, old: &Value, out: &mut CauseList) {
        if new["spec"] != old["spec"] {
            device::validate_declared_claim(&new["spec"]["spec"], "spec.spec", out);
        }
    }
}
