//! Volumes: claims bound to volumes that fit, made on demand where a class can.

use serde_json::{Value, json};

use super::super::{Cluster, Controller, Item, Next, Queue};
use super::common::*;
use crate::api::select::Labels;
use crate::status::Result;
use crate::store::{Change, Event, Key};

const CLAIMS: &str = "persistentvolumeclaims";
const VOLUMES: &str = "persistentvolumes";
const CLASSES: &str = "storageclasses.storage.k8s.io";
const COMPONENT: &str = "persistentvolume-controller";
const BOUND_BY: &str = "pv.kubernetes.io/bound-by-controller";
const COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const PROVISIONED: &str = "pv.kubernetes.io/provisioned-by";

pub(super) struct Volumes;

impl Controller for Volumes {
    fn name(&self) -> &'static str {
        COMPONENT
    }

    fn observe(&mut self, event: &Event, cluster: &Cluster, queue: &mut Queue) {
        match &*event.table {
            CLAIMS => {
                queue.push(Item::of(event));
                if event.change == Change::Deleted {
                    let volume = text(&event.object.value(), "/spec/volumeName").to_owned();
                    if !volume.is_empty() {
                        queue.push(Item::new(VOLUMES, "", &volume));
                    }
                }
            }
            VOLUMES => {
                queue.push(Item::of(event));
                for claim in cluster.objects(CLAIMS, None) {
                    queue.push(Item::new(CLAIMS, claim.namespace(), claim.name()));
                }
            }
            CLASSES => {
                for claim in cluster.objects(CLAIMS, None) {
                    queue.push(Item::new(CLAIMS, claim.namespace(), claim.name()));
                }
            }
            // A claim that is going may have waited for this pod.
            "pods" if event.change == Change::Deleted => {
                for claim in cluster.objects(CLAIMS, Some(event.object.namespace())) {
                    if claim.deleting {
                        queue.push(Item::new(CLAIMS, claim.namespace(), claim.name()));
                    }
                }
            }
            _ => {}
        }
    }

    fn reconcile(&mut self, item: &Item, cluster: &Cluster) -> Result<Next> {
        let Some(object) = cluster.get(&item.table, &item.key.namespace, &item.key.name) else {
            return Ok(Next::Done);
        };
        if &*item.table == VOLUMES {
            volume(&object, cluster)?;
        } else {
            claim(&object, cluster)?;
        }
        Ok(Next::Done)
    }
}

fn drop_finalizer(table: &str, object: &Value, finalizer: &str, cluster: &Cluster) -> Result<()> {
    if !list(object, "/metadata/finalizers").iter().any(|f| f == finalizer) {
        return Ok(());
    }
    cluster.update(table, &key(object), MANAGER, |value| {
        if let Some(Value::Array(finalizers)) = value["metadata"].get_mut("finalizers") {
            finalizers.retain(|f| f != finalizer);
        }
    })?;
    Ok(())
}

/// Sets a volume's phase and when it changed.
fn phase(volume: &Value, phase: &str, cluster: &Cluster) -> Result<()> {
    let now = cluster.timestamp();
    cluster.update_status(VOLUMES, &key(volume), MANAGER, |value| {
        if value["status"]["phase"] != phase {
            value["status"]["phase"] = phase.into();
            value["status"]["lastPhaseTransitionTime"] = now.clone().into();
        }
    })?;
    Ok(())
}

fn claim_of(volume: &Value, cluster: &Cluster) -> Option<Value> {
    let reference = &volume["spec"]["claimRef"];
    let (space, called) = (reference["namespace"].as_str()?, reference["name"].as_str()?);
    cluster
        .get(CLAIMS, space, called)
        .filter(|c| reference["uid"].as_str().is_none_or(|wanted| wanted.is_empty() || wanted == uid(c)))
}

fn volume(volume: &Value, cluster: &Cluster) -> Result<()> {
    let claimed = text(volume, "/spec/claimRef/uid");
    let bound = claim_of(volume, cluster).filter(|_| !claimed.is_empty());
    if deleting(volume) {
        return if bound.is_none() {
            drop_finalizer(VOLUMES, volume, "kubernetes.io/pv-protection", cluster)
        } else {
            Ok(())
        };
    }
    if claimed.is_empty() {
        return phase(volume, "Available", cluster);
    }
    if bound.is_some() {
        return phase(volume, "Bound", cluster);
    }
    phase(volume, "Released", cluster)?;
    let ours = annotation(volume, PROVISIONED).is_some();
    if ours && text(volume, "/spec/persistentVolumeReclaimPolicy") == "Delete" {
        remove(cluster, VOLUMES, volume)?;
    }
    Ok(())
}

fn is_used(claim: &Value, cluster: &Cluster) -> bool {
    cluster.list("pods", Some(namespace(claim))).iter().any(|pod| {
        !is_finished(pod)
            && list(pod, "/spec/volumes")
                .iter()
                .any(|v| v["persistentVolumeClaim"]["claimName"] == *name(claim))
    })
}

fn claim(claim: &Value, cluster: &Cluster) -> Result<()> {
    if deleting(claim) {
        return if is_used(claim, cluster) {
            Ok(())
        } else {
            drop_finalizer(CLAIMS, claim, "kubernetes.io/pvc-protection", cluster)
        };
    }
    if text(claim, "/status/phase") == "Bound" {
        return Ok(());
    }
    if let Some(volume) = choose(claim, cluster) {
        return bind(claim, &volume, cluster);
    }
    if !text(claim, "/spec/volumeName").is_empty() {
        return Ok(());
    }
    provision(claim, cluster)
}

/// The smallest volume that fits, or the one asked for.
fn choose(claim: &Value, cluster: &Cluster) -> Option<Value> {
    let asked = text(claim, "/spec/volumeName");
    if !asked.is_empty() {
        let volume = cluster.get(VOLUMES, "", asked)?;
        let free = volume["spec"]["claimRef"].is_null();
        return (free || is_meant(&volume, claim)).then_some(volume);
    }
    let amount = |v: &Value, pointer: &str| {
        v.pointer(pointer).and_then(crate::write::admit::quota::amount).unwrap_or(0)
    };
    let wanted = amount(claim, "/spec/resources/requests/storage");
    let selector = claim["spec"].get("selector").map(|s| Labels::of_selector(s).unwrap_or_default());
    let mut fitting: Vec<Value> = Vec::new();
    for object in cluster.objects(VOLUMES, None) {
        if object.deleting || selector.as_ref().is_some_and(|s| !s.matches(&object)) {
            continue;
        }
        let Some(volume) = cluster.get(VOLUMES, "", object.name()) else { continue };
        if is_meant(&volume, claim) {
            return Some(volume);
        }
        let modes = list(&volume, "/spec/accessModes");
        let same_mode = |v: &Value| text(v, "/spec/volumeMode").replace("Filesystem", "");
        let fits = volume["spec"]["claimRef"].is_null()
            && text(&volume, "/spec/storageClassName") == text(claim, "/spec/storageClassName")
            && same_mode(&volume) == same_mode(claim)
            && amount(&volume, "/spec/capacity/storage") >= wanted
            && list(claim, "/spec/accessModes").iter().all(|m| modes.contains(m));
        if fits {
            fitting.push(volume);
        }
    }
    fitting.into_iter().min_by_key(|v| (amount(v, "/spec/capacity/storage"), name(v).to_owned()))
}

/// Whether a volume names this claim already.
fn is_meant(volume: &Value, claim: &Value) -> bool {
    let reference = &volume["spec"]["claimRef"];
    let same = reference["uid"].as_str().is_none_or(|u| u.is_empty() || u == uid(claim));
    reference["name"] == *name(claim) && reference["namespace"] == *namespace(claim) && same
}

fn reference(claim: &Value) -> Value {
    json!({
        "kind": "PersistentVolumeClaim", "namespace": namespace(claim), "name": name(claim),
        "uid": uid(claim), "apiVersion": "v1", "resourceVersion": claim["metadata"]["resourceVersion"],
    })
}

fn bind(claim: &Value, volume: &Value, cluster: &Cluster) -> Result<()> {
    if text(volume, "/spec/claimRef/uid").is_empty() {
        cluster.update(VOLUMES, &key(volume), MANAGER, |value| {
            value["spec"]["claimRef"] = reference(claim);
            slipway_manifest::object::set_annotation(value, BOUND_BY, "yes");
        })?;
    }
    phase(volume, "Bound", cluster)?;
    let chosen = text(claim, "/spec/volumeName").is_empty();
    cluster.update(CLAIMS, &key(claim), MANAGER, |value| {
        slipway_manifest::object::set_annotation(value, COMPLETED, "yes");
        if chosen {
            slipway_manifest::object::set_annotation(value, BOUND_BY, "yes");
            value["spec"]["volumeName"] = name(volume).into();
        }
    })?;
    cluster.update_status(CLAIMS, &key(claim), MANAGER, |value| {
        value["status"]["phase"] = "Bound".into();
        value["status"]["accessModes"] = volume["spec"]["accessModes"].clone();
        value["status"]["capacity"] = volume["spec"]["capacity"].clone();
    })?;
    Ok(())
}

/// Makes a volume for a claim, as its class promises.
fn provision(claim: &Value, cluster: &Cluster) -> Result<()> {
    let tell = |kind: &str, reason: &str, message: &str| {
        // Said once: claims are looked at whenever any volume changes.
        let said = cluster.list("events", Some(namespace(claim))).iter().any(|e| {
            e["involvedObject"]["uid"] == *uid(claim) && e["reason"] == reason && e["message"] == message
        });
        if !said {
            cluster.event(claim, COMPONENT, kind, reason, message);
        }
    };
    let called = text(claim, "/spec/storageClassName");
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
    let made = format!("pvc-{}", uid(claim));
    if cluster.object(VOLUMES, &Key::new("", &made)).is_none() {
        cluster.update(CLAIMS, &key(claim), MANAGER, |value| {
            for prefix in ["volume.beta.kubernetes.io", "volume.kubernetes.io"] {
                let key = format!("{prefix}/storage-provisioner");
                slipway_manifest::object::set_annotation(value, &key, provisioner);
            }
        })?;
        let mut spec = json!({
            "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
            "accessModes": claim["spec"]["accessModes"],
            "claimRef": reference(claim),
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
        Some(volume) => bind(claim, &volume, cluster),
        None => Ok(()),
    }
}
