//! Small marks the controller manager leaves on objects: finalizers that guard them, hints for nodes.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::{ClusterHandle, Controller, NextReconcile, WorkItem, WorkQueue};
use super::common::{MANAGER, is_deleting};
use crate::status::Result;
use crate::store::{ChangeType, StoreEvent};

const CIDRS: &str = "servicecidrs.networking.k8s.io";
const CIDR_GUARD: &str = "networking.k8s.io/service-cidr-finalizer";
const CLASSES: &str = "volumeattributesclasses.storage.k8s.io";
const CLASS_GUARD: &str = "kubernetes.io/vac-protection";
const NODE_TTL: &str = "node.alpha.kubernetes.io/ttl";
/// Time during which addresses of a deleted range may still be taken over by others.
const CIDR_GRACE: Duration = Duration::from_secs(10);

pub(super) struct HousekeepingController;

impl Controller for HousekeepingController {
    fn name(&self) -> &'static str {
        "housekeeping"
    }

    fn observe_event(&mut self, event: &StoreEvent, _: &ClusterHandle, queue: &mut WorkQueue) {
        if event.change != ChangeType::Deleted && matches!(&*event.table, "nodes" | CIDRS | CLASSES) {
            queue.push(WorkItem::of(event));
        }
    }

    fn reconcile(&mut self, item: &WorkItem, cluster: &ClusterHandle) -> Result<NextReconcile> {
        let Some(object) = cluster.get(&item.table, &item.key.namespace, &item.key.name) else {
            return Ok(NextReconcile::Done);
        };
        match &*item.table {
            "nodes" => {
                if slipway_manifest::object::annotation(&object, NODE_TTL).is_none() && !is_deleting(&object)
                {
                    cluster.update("nodes", &item.key, MANAGER, |node| {
                        slipway_manifest::object::set_annotation(node, NODE_TTL, "0");
                    })?;
                }
            }
            CIDRS => {
                if is_deleting(&object) {
                    let waited = cluster.elapsed_since(&object["metadata"]["deletionTimestamp"]);
                    if waited < CIDR_GRACE {
                        return Ok(NextReconcile::After(CIDR_GRACE - waited));
                    }
                    cluster.update(CIDRS, &item.key, MANAGER, |cidr| remove_guard(cidr, CIDR_GUARD))?;
                } else if !has_guard(&object, CIDR_GUARD) {
                    cluster.update(CIDRS, &item.key, MANAGER, |cidr| {
                        if !cidr["metadata"]["finalizers"].is_array() {
                            cidr["metadata"]["finalizers"] = json!([]);
                        }
                        if let Value::Array(all) = &mut cidr["metadata"]["finalizers"] {
                            all.push(CIDR_GUARD.into());
                        }
                    })?;
                }
            }
            _ => {
                if is_deleting(&object) && has_guard(&object, CLASS_GUARD) {
                    cluster.update(CLASSES, &item.key, MANAGER, |class| remove_guard(class, CLASS_GUARD))?;
                }
            }
        }
        Ok(NextReconcile::Done)
    }
}

fn has_guard(object: &Value, guard: &str) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|all| all.iter().any(|f| f == guard))
}

fn remove_guard(object: &mut Value, guard: &str) {
    if let Some(all) = object["metadata"]["finalizers"].as_array_mut() {
        all.retain(|f| f != guard);
    }
}
