//! Small marks the controller manager leaves on objects: finalizers that guard them, hints for nodes.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::{Cluster, Controller, Item, Next, Queue};
use super::common::{MANAGER, deleting};
use crate::status::Result;
use crate::store::{Change, Event};

const CIDRS: &str = "servicecidrs.networking.k8s.io";
const CIDR_GUARD: &str = "networking.k8s.io/service-cidr-finalizer";
const CLASSES: &str = "volumeattributesclasses.storage.k8s.io";
const CLASS_GUARD: &str = "kubernetes.io/vac-protection";
const NODE_TTL: &str = "node.alpha.kubernetes.io/ttl";
/// How long addresses of a range that goes may still be taken by others.
const CIDR_GRACE: Duration = Duration::from_secs(10);

pub(super) struct Housekeeping;

impl Controller for Housekeeping {
    fn name(&self) -> &'static str {
        "housekeeping"
    }

    fn observe(&mut self, event: &Event, _: &Cluster, queue: &mut Queue) {
        if event.change != Change::Deleted && matches!(&*event.table, "nodes" | CIDRS | CLASSES) {
            queue.push(Item::of(event));
        }
    }

    fn reconcile(&mut self, item: &Item, cluster: &Cluster) -> Result<Next> {
        let Some(object) = cluster.get(&item.table, &item.key.namespace, &item.key.name) else {
            return Ok(Next::Done);
        };
        match &*item.table {
            "nodes" => {
                if slipway_manifest::object::annotation(&object, NODE_TTL).is_none() && !deleting(&object) {
                    cluster.update("nodes", &item.key, MANAGER, |node| {
                        slipway_manifest::object::set_annotation(node, NODE_TTL, "0");
                    })?;
                }
            }
            CIDRS => {
                if deleting(&object) {
                    let waited = cluster.since(&object["metadata"]["deletionTimestamp"]);
                    if waited < CIDR_GRACE {
                        return Ok(Next::After(CIDR_GRACE - waited));
                    }
                    cluster.update(CIDRS, &item.key, MANAGER, |cidr| unguard(cidr, CIDR_GUARD))?;
                } else if !guarded(&object, CIDR_GUARD) {
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
                if deleting(&object) && guarded(&object, CLASS_GUARD) {
                    cluster.update(CLASSES, &item.key, MANAGER, |class| unguard(class, CLASS_GUARD))?;
                }
            }
        }
        Ok(Next::Done)
    }
}

fn guarded(object: &Value, guard: &str) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|all| all.iter().any(|f| f == guard))
}

fn unguard(object: &mut Value, guard: &str) {
    if let Some(all) = object["metadata"]["finalizers"].as_array_mut() {
        all.retain(|f| f != guard);
    }
}
