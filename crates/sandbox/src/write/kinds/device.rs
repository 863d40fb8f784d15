//! Devices and claims to them.

use serde_json::Value;

use super::{KindStrategy, WriteContext};
use crate::clock::{Clock, rfc3339};
use crate::status::Result;
use crate::write::admit::default::{items_mut, set_default};
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

pub(super) struct ResourceSlice;

impl KindStrategy for ResourceSlice {
    fn set_default_times(&self, clock: &Clock, object: &mut Value) {
        for device in items_mut(&mut object["spec"]["devices"]) {
            if device["taints"].is_array() {
                items_mut(&mut device["taints"]).for_each(|taint| set_time_added(clock, taint));
            }
        }
    }

    fn add_warnings(&self, object: &Value, _old: Option<&Value>, out: &mut Vec<String>) {
        let driver = object["spec"]["driver"].as_str().unwrap_or("");
        if driver != driver.to_lowercase() {
            out.push(format!(
                "spec.driver: driver names should be lowercase; {driver:?} contains uppercase characters"
            ));
        }
    }
}

pub(super) struct DeviceTaintRule;

impl KindStrategy for DeviceTaintRule {
    fn set_default_times(&self, clock: &Clock, object: &mut Value) {
        if object["spec"]["taint"].is_object() {
            set_time_added(clock, &mut object["spec"]["taint"]);
        }
    }

    fn complete(&self, cx: &WriteContext<'_>, object: &mut Value, live: Option<&Value>) -> Result<()> {
        // The time tells since when the effect holds.
        let taint = &mut object["spec"]["taint"];
        if let Some(was) = live.map(|live| &live["spec"]["taint"])
            && was["effect"] != taint["effect"]
            && was["timeAdded"] == taint["timeAdded"]
        {
            taint["timeAdded"] = rfc3339(cx.core.clock.now()).into();
        }
        Ok(())
    }
}

fn set_time_added(clock: &Clock, taint: &mut Value) {
    set_default(taint, "timeAdded", rfc3339(clock.now()));
}
