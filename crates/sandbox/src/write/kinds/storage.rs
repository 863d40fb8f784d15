//! Volumes, claims to them, and the drivers behind them.

use serde_json::{Value, json};

use super::KindStrategy;
use crate::core::Core;
use crate::status::{NamedResource, Result, Status, StatusCause};
use crate::write::admit::default::set_default;
use crate::write::admit::validate::{CauseList, indexed_items, storage, volume};
use crate::write::admit::{admission, amounts, default, immutable, meta, prepare, quota, warn};

pub(super) struct PersistentVolumeClaim;

impl KindStrategy for PersistentVolumeClaim {
    fn set_defaults(&self, _version: &str, object: &mut Value) {
        default::default_claim(object);
    }

    fn admit_new(&self, core: &Core, object: &mut Value) -> Result<()> {
        let namespace = meta::metadata_text(object, "namespace");
        quota::check_claim_limits(core, namespace, object).map_err(|why| {
            let named = NamedResource { group: "", what: "persistentvolumeclaims" };
            Status::forbidden(named, meta::metadata_text(object, "name"), &why)
        })?;
        admission::add_finalizer(object, "kubernetes.io/pvc-protection");
        admission::default_storage_class(core, object);
        Ok(())
    }

    fn initial_status(&self, _object: &Value) -> Value {
        json!({"phase": "Pending"})
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({"phase": "Pending"});
        prepare::data_sources(&mut object["spec"], None);
    }

    fn prepare_update(&self, new: &mut Value, live: &Value) {
        prepare::data_sources(&mut new["spec"], Some(&live["spec"]));
    }

    fn validate(&self, object: &Value, old: Option<&Value>, out: &mut CauseList) {
        storage::validate_claim_update(&object["spec"], "spec", old.map(|old| &old["spec"]), out);
    }

    fn check_immutable(&self, new: &Value, old: &Value, out: &mut CauseList) {
        immutable::check_claim(new, old, out);
    }

    fn validate_status(&self, object: &Value, _old: &Value, out: &mut CauseList) {
        for (name, amount) in object["status"]["capacity"].as_object().into_iter().flatten() {
            if amounts::nanos_of(amount).is_some_and(|amount| amount < 0) {
                let message = format!(
                    "Invalid value: {}: must be a valid resource quantity",
                    amount.as_str().unwrap_or("")
                );
                let field = format!("status.capacity[{name}]");
                out.push(StatusCause { message, ..StatusCause::invalid_unshown(field, "") });
            }
        }
    }

    fn add_warnings(&self, object: &Value, _old: Option<&Value>, out: &mut Vec<String>) {
        warn::warn_about_claim(object, out);
    }
}

pub(super) struct PersistentVolume;

impl KindStrategy for PersistentVolume {
    fn set_defaults(&self, _version: &str, object: &mut Value) {
        set_default(&mut object["spec"], "persistentVolumeReclaimPolicy", "Retain");
        set_default(&mut object["spec"], "volumeMode", "Filesystem");
        default::pod::default_volume_source(&mut object["spec"]);
        set_default(&mut object["status"], "phase", "Pending");
    }

    fn admit_new(&self, _core: &Core, object: &mut Value) -> Result<()> {
        admission::add_finalizer(object, "kubernetes.io/pv-protection");
        Ok(())
    }

    fn initial_status(&self, object: &Value) -> Value {
        json!({"phase": "Pending", "lastPhaseTransitionTime": object["metadata"]["creationTimestamp"]})
    }

    fn validate(&self, object: &Value, _old: Option<&Value>, out: &mut CauseList) {
        volume::validate_volume(object, out);
    }

    fn check_immutable(&self, new: &Value, old: &Value, out: &mut CauseList) {
        immutable::check_volume(new, old, out);
    }

    fn add_warnings(&self, object: &Value, _old: Option<&Value>, out: &mut Vec<String>) {
        warn::warn_about_volume(object, out);
    }
}

pub(super) struct StorageClass;

impl KindStrategy for StorageClass {
    fn set_defaults(&self, _version: &str, object: &mut Value) {
        set_default(object, "reclaimPolicy", "Delete");
        set_default(object, "volumeBindingMode", "Immediate");
    }

    fn validate(&self, object: &Value, _old: Option<&Value>, out: &mut CauseList) {
        storage::validate_storage_class(object, out);
    }

    fn fixed_fields(&self) -> &'static [&'static str] {
        &["provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"]
    }

    fn add_warnings(&self, object: &Value, _old: Option<&Value>, out: &mut Vec<String>) {
        for (i, term) in indexed_items(&object["allowedTopologies"]) {
            let at = format!("allowedTopologies[{i}].matchLabelExpressions");
            warn::warn_about_node_labels(&term["matchLabelExpressions"], &at, out);
        }
    }
}

pub(super) struct VolumeAttachment;

impl KindStrategy for VolumeAttachment {
    fn validate(&self, object: &Value, old: Option<&Value>, out: &mut CauseList) {
        storage::validate_attachment(&object["spec"], old.is_none(), out);
    }

    fn fixed_fields(&self) -> &'static [&'static str] {
        &["spec"]
    }
}

pub(super) struct CsiDriver;

impl KindStrategy for CsiDriver {
    fn set_defaults(&self, _version: &str, object: &mut Value) {
        default::default_csi_driver(&mut object["spec"]);
    }

    fn validate(&self, object: &Value, _old: Option<&Value>, out: &mut CauseList) {
        storage::validate_csi_driver(&object["spec"], out);
    }

    fn check_immutable(&self, new: &Value, old: &Value, out: &mut CauseList) {
        immutable::check_driver(&new["spec"], &old["spec"], out);
    }

    fn add_warnings(&self, object: &Value, old: Option<&Value>, out: &mut Vec<String>) {
        let spec = &object["spec"];
        if indexed_items(&spec["tokenRequests"]).next().is_some()
            && old.is_none_or(|old| old["spec"]["tokenRequests"] != spec["tokenRequests"])
            && spec["serviceAccountTokenInSecrets"].is_null()
        {
            out.push("spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes".into());
        }
    }
}

pub(super) struct CsiNode;

impl KindStrategy for CsiNode {
    fn prepare_create(&self, object: &mut Value) {
        prepare::no_drivers(object);
    }

    fn prepare_update(&self, new: &mut Value, _live: &Value) {
        prepare::no_drivers(new);
    }
}

pub(super) struct CsiStorageCapacity;

impl KindStrategy for CsiStorageCapacity {
    fn validate(&self, object: &Value, _old: Option<&Value>, out: &mut CauseList) {
        storage::validate_storage_capacity(object, out);
    }

    fn fixed_fields(&self) -> &'static [&'static str] {
        &["nodeTopology", "storageClassName"]
    }

    fn add_warnings(&self, object: &Value, _old: Option<&Value>, out: &mut Vec<String>) {
        let topology = &object["nodeTopology"];
        warn::warn_about_node_labels(&topology["matchExpressions"], "nodeTopology.matchExpressions", out);
    }
}

pub(super) struct VolumeAttributesClass;

impl KindStrategy for VolumeAttributesClass {
    fn admit_new(&self, _core: &Core, object: &mut Value) -> Result<()> {
        admission::add_finalizer(object, "kubernetes.io/vac-protection");
        Ok(())
    }

    fn validate(&self, object: &Value, _old: Option<&Value>, out: &mut CauseList) {
        storage::validate_attributes_class(object, out);
    }

    fn check_immutable(&self, new: &Value, old: &Value, out: &mut CauseList) {
        for key in ["driverName", "parameters"] {
            if new[key] != old[key] {
                out.push(StatusCause::forbidden(key, &format!("updates to {key} are forbidden.")));
            }
        }
    }

    fn reports_immutable_first(&self) -> bool {
        true
    }
}
