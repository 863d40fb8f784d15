//! Endpoints that somebody wrote by hand: the slices that say the same.

use serde_json::{Map, Value, json};

use super::super::{ClusterHandle, Controller, NextReconcile, WorkItem, WorkQueue};
use super::common::*;
use crate::status::Result;
use crate::store::{ObjectKey, StoreEvent};

const TABLE: &str = "endpoints";
const SLICES: &str = "endpointslices.discovery.k8s.io";
const SERVICE: &str = "kubernetes.io/service-name";
const SLICE_MANAGER: &str = "endpointslice.kubernetes.io/managed-by";
const MIRRORING: &str = "endpointslicemirroring-controller.k8s.io";
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
const TRIGGER: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// Addresses of a subset that are taken over.
const MOST_ADDRESSES: usize = 1000;

pub(super) struct MirrorController;

impl Controller for MirrorController {
    fn name(&self) -> &'static str {
        "endpointslice-mirroring-controller"
    }

    fn observe_event(&mut self, event: &StoreEvent, _: &ClusterHandle, queue: &mut WorkQueue) {
        match &*event.table {
            // Those of services that select pods say so.
            TABLE if event.object.label(super::endpoints::MIRROR_MANAGER).is_none() => {
                queue.push(WorkItem::of(event));
            }
            "services" => queue.push(WorkItem { table: TABLE.into(), key: event.object.key.clone() }),
            SLICES if event.object.label(SLICE_MANAGER) == Some(MIRRORING) => {
                if let Some(service) = event.object.label(SERVICE) {
                    queue.push(WorkItem::new(TABLE, event.object.namespace(), service));
                }
            }
            _ => {}
        }
    }

    fn reconcile(&mut self, item: &WorkItem, cluster: &ClusterHandle) -> Result<NextReconcile> {
        let (space, name) = (&*item.key.namespace, &*item.key.name);
        let mut known: Vec<Value> = mirrored_slices(cluster, &item.key);
        let wanted = wanted_slices(cluster, &item.key);
        let Some((endpoints, wanted)) = wanted else {
            for slice in &known {
                delete_exactly(cluster, SLICES, slice)?;
            }
            return Ok(NextReconcile::Done);
        };
        for slice in wanted {
            // A slice with the same ports is kept.
            let same = known.iter().position(|known| {
                known["addressType"] == slice["addressType"]
                    && known.get("ports").unwrap_or(&Value::Null) == &slice["ports"]
            });
            let Some(known) = same.map(|at| known.remove(at)) else {
                let mut made = slice;
                made["metadata"]["generateName"] = format!("{name}-").into();
                made["metadata"]["ownerReferences"] = json!([owner_reference(&endpoints)]);
                cluster.create(SLICES, space, made, MANAGER)?;
                continue;
            };
            let differs =
                ["/endpoints", "/metadata/labels", "/metadata/annotations"].into_iter().any(|part| {
                    known.pointer(part).unwrap_or(&Value::Null) != slice.pointer(part).unwrap_or(&Value::Null)
                });
            if differs {
                cluster.update(SLICES, &key_of(&known), MANAGER, |value| {
                    value["endpoints"] = slice["endpoints"].clone();
                    value["metadata"]["labels"] = slice["metadata"]["labels"].clone();
                    value["metadata"]["annotations"] = slice["metadata"]["annotations"].clone();
                })?;
            }
        }
        for slice in &known {
            delete_exactly(cluster, SLICES, slice)?;
        }
        Ok(NextReconcile::Done)
    }
}

fn mirrored_slices(cluster: &ClusterHandle, key: &ObjectKey) -> Vec<Value> {
    let slices = cluster.stored_objects(SLICES, Some(&key.namespace));
    let ours = slices.into_iter().filter(|slice| {
        slice.label(SLICE_MANAGER) == Some(MIRRORING)
            && slice.label(SERVICE) == Some(&*key.name)
            && !slice.deleting
    });
    ours.filter_map(|slice| cluster.get(SLICES, slice.namespace(), slice.name())).collect()
}

/// The endpoints and the slices they ask for. None when they are not to be mirrored.
fn wanted_slices(cluster: &ClusterHandle, key: &ObjectKey) -> Option<(Value, Vec<Value>)> {
    let endpoints = cluster.get(TABLE, &key.namespace, &key.name)?;
    let service = cluster.get("services", &key.namespace, &key.name)?;
    let excluded = label(&endpoints, SKIP) == Some("true")
        || label(&endpoints, super::endpoints::MIRROR_MANAGER).is_some()
        || annotation(&endpoints, LEADER).is_some();
    let selects = service["spec"]["selector"].as_object().is_some_and(|selector| !selector.is_empty());
    if excluded || selects || is_deleting(&endpoints) {
        return None;
    }
    let mut labels = endpoints["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    labels.insert(SERVICE.into(), key.name.to_string().into());
    labels.insert(SLICE_MANAGER.into(), MIRRORING.into());
    let mut annotations: Map<String, Value> =
        endpoints["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    annotations.shift_remove(TRIGGER);
    let mut slices: Vec<Value> = Vec::new();
    for subset in list_at(&endpoints, "/subsets") {
        let ports: Vec<Value> = list_at(subset, "/ports").iter().map(slice_port).collect();
        let listed = |member: &str, ready: bool| {
            let all = subset[member].as_array().map_or(&[][..], Vec::as_slice);
            all.iter().map(move |address| (address, ready)).collect::<Vec<_>>()
        };
        let addresses = [listed("addresses", true), listed("notReadyAddresses", false)].concat();
        for (address, ready) in addresses.into_iter().take(MOST_ADDRESSES) {
            let family = if text_at(address, "/ip").contains(':') { "IPv6" } else { "IPv4" };
            let known = slices
                .iter()
                .position(|slice| slice["addressType"] == family && slice["ports"] == json!(ports));
            let at = known.unwrap_or_else(|| {
                let mut metadata = json!({"labels": labels});
                if !annotations.is_empty() {
                    metadata["annotations"] = annotations.clone().into();
                }
                slices.push(json!({
                    "metadata": metadata, "addressType": family, "endpoints": [], "ports": ports,
                }));
                slices.len() - 1
            });
            if let Value::Array(all) = &mut slices[at]["endpoints"] {
                all.push(slice_endpoint(address, ready));
            }
        }
    }
    Some((endpoints, slices))
}

fn slice_port(port: &Value) -> Value {
    let mut made =
        json!({"name": text_at(port, "/name"), "protocol": port["protocol"], "port": port["port"]});
    if port["appProtocol"].is_string() {
        made["appProtocol"] = port["appProtocol"].clone();
    }
    made
}

fn slice_endpoint(address: &Value, ready: bool) -> Value {
    let mut made = json!({"addresses": [address["ip"]], "conditions": {"ready": ready}});
    for member in ["hostname", "targetRef", "nodeName"] {
        if !address[member].is_null() {
            made[member] = address[member].clone();
        }
    }
    made
}
