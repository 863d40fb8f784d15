//! Volumes: claims bound to volumes that fit, made on demand where a class can.

use serde_json::{Value, json};

use super::super::{ClusterHandle, Controller, NextReconcile, WorkItem, WorkQueue};
use super::common::*;
use crate::api::select::LabelFilter;
use crate::status::Result;
use crate::store::{ChangeType, ObjectKey, StoreEvent};

const CLAIMS: &str = "persistentvolumeclaims";
const VOLUMES: &str = "persistentvolumes";
const CLASSES: &str = "storageclasses.storage.k8s.io";
const COMPONENT: &str = "persistentvolume-controller";
const BOUND_BY: &str = "pv.kubernetes.io/bound-by-controller";
const COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const PROVISIONED: &str = "pv.kubernetes.io/provisioned-by";

pub(super) struct VolumeController;

impl Controller for VolumeController {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    fn observe_event(&mut self, event: &StoreEvent, cluster: &ClusterHandle, queue: &mut WorkQueue) {
        match &*event.table {
            CLAIMS => {
                queue.push(WorkItem::of(event));
                if event.change == ChangeType::Deleted {
                    let volume = text_at(&event.object.value(), "/spec/volumeName").to_owned();
                    if !volume.is_empty() {
                        queue.push(WorkItem::new(VOLUMES, "", &volume));
                    }
                }
            }
            VOLUMES => {
                queue.push(WorkItem::of(event));
                for claim in cluster.stored_objects(CLAIMS, None) {
                    queue.push(WorkItem::new(CLAIMS, claim.namespace(), claim.name()));
                }
            }
            CLASSES => {
                for claim in cluster.stored_objects(CLAIMS, None) {
                    queue.push(WorkItem::new(CLAIMS, claim.namespace(), claim.name()));
                }
            }
            // A claim that is being deleted may have waited for this pod.
            "pods" if event.change == ChangeType::Deleted => {
                for claim in cluster.stored_objects(CLAIMS, Some(event.object.namespace())) {
                    if claim.deleting {
                        queue.push(WorkItem::new(CLAIMS, claim.namespace(), claim.name()));
                    }
                }
            }
            _ => {}
        }
    }

    fn reconcile(&mut self, item: &WorkItem, cluster: &ClusterHandle) -> Result<NextReconcile> {
        let Some(object) = cluster.get(&item.table, &item.key.namespace, &item.key.name) else {
            return Ok(NextReconcile::Done);
        };
        if &*item.table == VOLUMES {
            sync_volume(&object, cluster)?;
        } else {
            sync_claim(&object, cluster)?;
        }
        Ok(NextReconcile::Done)
    }
}

fn drop_finalizer(table: &str, object: &Value, finalizer: &str, cluster: &ClusterHandle) -> Result<()> {
    if !list_at(object, "/metadata/finalizers").iter().any(|f| f == finalizer) {
        return Ok(());
    }
    cluster.update(table, &key_of(object), MANAGER, |value| {
        if let Some(Value::Array(finalizers)) = value["metadata"].get_mut("finalizers") {
            finalizers.retain(|f| f != finalizer);
        }
    })?;
    Ok(())
}

/// Sets a volume's phase and when it changed.
fn set_phase(volume: &Value, phase: &str, cluster: &ClusterHandle) -> Result<()> {
    let now = cluster.now_text();
    cluster.update_status(VOLUMES, &key_of(volume), MANAGER, |value| {
        if value["status"]["phase"] != phase {
            value["status"]["phase"] = phase.into();
            value["status"]["lastPhaseTransitionTime"] = now.clone().into();
        }
    })?;
    Ok(())
}

fn claim_of(volume: &Value, cluster: &ClusterHandle) -> Option<Value> {
    let reference = &volume["spec"]["claimRef"];
    let (space, called) = (reference["namespace"].as_str()?, reference["name"].as_str()?);
    cluster
        .get(CLAIMS, space, called)
        .filter(|c| reference["uid"].as_str().is_none_or(|wanted| wanted.is_empty() || wanted == uid_of(c)))
}

fn sync_volume(volume: &Value, cluster: &ClusterHandle) -> Result<()> {
    let claimed = text_at(volume, "/spec/claimRef/uid");
    let bound = claim_of(volume, cluster).filter(|_| !claimed.is_empty());
    if is_deleting(volume) {
        return if bound.is_none() {
            drop_finalizer(VOLUMES, volume, "kubernetes.io/pv-protection", cluster)
        } else {
            Ok(())
        };
    }
    if claimed.is_empty() {
        return set_phase(volume, "Available", cluster);
    }
    if bound.is_some() {
        return set_phase(volume, "Bound", cluster);
    }
    set_phase(volume, "Released", cluster)?;
    let ours = annotation(volume, PROVISIONED).is_some();
    if ours && text_at(volume, "/spec/persistentVolumeReclaimPolicy") == "Delete" {
        delete_exactly(cluster, VOLUMES, volume)?;
    }
    Ok(())
}

fn is_used(claim: &Value, cluster: &ClusterHandle) -> bool {
    cluster.list_values("pods", Some(namespace_of(claim))).iter().any(|pod| {
        !is_finished(pod)
            && list_at(pod, "/spec/volumes")
                .iter()
                .any(|v| v["persistentVolumeClaim"]["claimName"] == *name_of(claim))
    })
}

fn sync_claim(claim: &Value, cluster: &ClusterHandle) -> Result<()> {
    if is_deleting(claim) {
        return if is_used(claim, cluster) {
            Ok(())
        } else {
            drop_finalizer(CLAIMS, claim, "kubernetes.io/pvc-protection", cluster)
        };
    }
    if text_at(claim, "/status/phase") == "Bound" {
        return Ok(());
    }
    if let Some(volume) = choose_volume(claim, cluster) {
        return bind_claim(claim, &volume, cluster);
    }
    if !text_at(claim, "/spec/volumeName").is_empty() {
        return Ok(());
    }
    provision_volume(claim, cluster)
}

/// The smallest volume that fits, or the one asked for.
fn choose_volume(claim: &Value, cluster: &ClusterHandle) -> Option<Value> {
    let asked = text_at(claim, "/spec/volumeName");
    if !asked.is_empty() {
        let volume = cluster.get(VOLUMES, "", asked)?;
        let free = volume["spec"]["claimRef"].is_null();
        return (free || is_meant(&volume, claim)).then_some(volume);
    }
    let amount = |v: &Value, pointer: &str| {
        v.pointer(pointer).and_then(crate::write::admit::amounts::nanos_of).unwrap_or(0)
    };
    let wanted = amount(claim, "/spec/resources/requests/storage");
    let selector = claim["spec"].get("selector").map(|s| LabelFilter::of_selector(s).unwrap_or_default());
    let mut fitting: Vec<Value> = Vec::new();
    for object in cluster.stored_objects(VOLUMES, None) {
        if object.deleting || selector.as_ref().is_some_and(|s| !s.matches(&object)) {
            continue;
        }
        let Some(volume) = cluster.get(VOLUMES, "", object.name()) else { continue };
        if is_meant(&volume, claim) {
            return Some(volume);
        }
        let modes = list_at(&volume, "/spec/accessModes");
        let same_mode = |v: &Value| text_at(v, "/spec/volumeMode").replace("Filesystem", "");
        let fits = volume["spec"]["claimRef"].is_null()
            && text_at(&volume, "/spec/storageClassName") == text_at(claim, "/spec/storageClassName")
            && same_mode(&volume) == same_mode(claim)
            && amount(&volume, "/spec/capacity/storage") >= wanted
            && list_at(claim, "/spec/accessModes").iter().all(|m| modes.contains(m));
        if fits {
            fitting.push(volume);
        }
    }
    fitting.into_iter().min_by_key(|v| (amount(v, "/spec/capacity/storage"), name_of(v).to_owned()))
}

/// Returns true if a volume names this claim already.
fn is_meant(volume: &Value, claim: &Value) -> bool {
    let reference = &volume["spec"]["claimRef"];
    let same = reference["uid"].as_str().is_none_or(|u| u.is_empty() || u == uid_of(claim));
    reference["name"] == *name_of(claim) && reference["namespace"] == *namespace_of(claim) && same
}

fn claim_reference(claim: &Value) -> Value {
    json!({
        "kind": "PersistentVolumeClaim", "namespace": namespace_of(claim), "name": name_of(claim),
        "uid": uid_of(claim), "apiVersion": "v1", "resourceVersion": claim["metadata"]["resourceVersion"],
    })
}

fn bind_claim(claim: &Value, volume: &Value, cluster: &ClusterHandle) -> Result<()> {
    if text_at(volume, "/spec/claimRef/uid").is_empty() {
        cluster.update(VOLUMES, &key_of(volume), MANAGER, |value| {
            value["spec"]["claimRef"] = claim_reference(claim);
            slipway_manifest::object::set_annotation(value, BOUND_BY, "yes");
        })?;
    }
    set_phase(volume, "Bound", cluster)?;
    let chosen = text_at(claim, "/spec/volumeName").is_empty();
    cluster.update(CLAIMS, &key_of(claim), MANAGER, |value| {
        slipway_manifest::object::set_annotation(value, COMPLETED, "yes");
        if chosen {
            slipway_manifest::object::set_annotation(value, BOUND_BY, "yes");
            value["spec"]["volumeName"] = name_of(volume).into();
        }
    })?;
    cluster.update_status(CLAIMS, &key_of(claim), MANAGER, |value| {
        value["status"]["phase"] = "Bound".into();
        value["status"]["accessModes"] = volume["spec"]["accessModes"].clone();
        value["status"]["capacity"] = volume["spec"]["capacity"].clone();
    })?;
    Ok(())
}

/// Provisions a volume for a claim, as its class asks.
fn provision_volume(claim: &Value, cluster: &ClusterHandle) -> Result<()> {
    let tell = |kind: &str, reason: &str, message: &str| {
        // Reported once: claims are reconciled whenever any volume changes.
        let said = cluster.list_values("events", Some(namespace_of(claim))).iter().any(|e| {
            e["involvedObject"]["uid"] == *uid_of(claim) && e["reason"] == reason && e["message"] == message
        });
        if !said {
            cluster.record_event(claim, COMPONENT, kind, reason, message);
        }
    };
    let called = text_at(claim, "/spec/storageClassName");
    if called.is_empty() {
        let message = "no persistent volumes available for this claim and no storage class is set";
        tell("Normal", "FailedBinding", message);
        return Ok(());
    }
    let Some(class) = cluster.get(CLASSES, "", called) else {
        let message = format!("storageclass.storage.k8s.io \"{called}\" not found");
        tell("Warning", "ProvisioningFailed", &message);
        return Ok(());
    };
    let waits = class["volumeBindingMode"] == "WaitForFirstConsumer";
    if waits && annotation(claim, "volume.kubernetes.io/selected-node").is_none() {
        let message = "waiting for first consumer to be created before binding";
        tell("Normal", "WaitForFirstConsumer", message);
        return Ok(());
    }
    let provisioner = class["provisioner"].as_str().unwrap_or("");
    if provisioner == "kubernetes.io/no-provisioner" {
        let message = "no persistent volumes available for this claim and no storage class is set";
        tell("Normal", "FailedBinding", message);
        return Ok(());
    }
    let made = format!("pvc-{}", uid_of(claim));
    if cluster.stored_object(VOLUMES, &ObjectKey::new("", &made)).is_none() {
        cluster.update(CLAIMS, &key_of(claim), MANAGER, |value| {
            for prefix in ["volume.beta.kubernetes.io", "volume.kubernetes.io"] {
                let key = format!("{prefix}/storage-provisioner");
                slipway_manifest::object::set_annotation(value, &key, provisioner);
            }
        })?;
        let mut spec = json!({
            "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
            "accessModes": claim["spec"]["accessModes"],
            "claimRef": claim_reference(claim),
            "persistentVolumeReclaimPolicy": class["reclaimPolicy"].as_str().unwrap_or("Delete"),
            "storageClassName": called,
            "hostPath": {"path": format!("/var/lib/sandbox/volumes/{made}"), "type": "DirectoryOrCreate"},
        });
        if let Some(mode) = claim["spec"].get("volumeMode") {
            spec["volumeMode"] = mode.clone();
        }
        let volume = json!({
            "metadata": {"name": made, "annotations": {PROVISIONED: provisioner}},
            "spec": spec,
        });
        cluster.create(VOLUMES, "", volume, MANAGER)?;
        let message = format!("Successfully provisioned volume {made}");
        tell("Normal", "ProvisioningSucceeded", &message);
    }
    match cluster.get(VOLUMES, "", &made) {
        Some(volume) => bind_claim(claim, &volume, cluster),
        None => Ok(()),
    }
}
