//! Resource quotas: what of them is used.

use std::collections::BTreeSet;

use super::super::{ClusterHandle, Controller, NextReconcile, WorkItem, WorkQueue};
use super::common::MANAGER;
use crate::status::Result;
use crate::store::{ChangeType, StoreEvent};

const TABLE: &str = "resourcequotas";

#[derive(Default)]
pub(super) struct QuotaController {
    known: BTreeSet<WorkItem>,
}

impl Controller for QuotaController {
    fn name(&self) -> &'static str {
        "resourcequota-controller"
    }

    fn observe_event(&mut self, event: &StoreEvent, _: &ClusterHandle, queue: &mut WorkQueue) {
        if &*event.table == TABLE {
            if event.change == ChangeType::Deleted {
                self.known.remove(&WorkItem::of(event));
            } else {
                self.known.insert(WorkItem::of(event));
                queue.push(WorkItem::of(event));
            }
            return;
        }
        // Only coming, going, pods that finish, and services and claims that change, change what is used.
        let counts_changes = matches!(&*event.table, "pods" | "services" | "persistentvolumeclaims");
        if event.change == ChangeType::Modified && !counts_changes {
            return;
        }
        for item in self.known.iter().filter(|i| *i.key.namespace == *event.object.key.namespace) {
            queue.push(item.clone());
        }
    }

    fn reconcile(&mut self, item: &WorkItem, cluster: &ClusterHandle) -> Result<NextReconcile> {
        let Some(quota) = cluster.get(TABLE, &item.key.namespace, &item.key.name) else {
            return Ok(NextReconcile::Done);
        };
        let hard = quota["spec"]["hard"].clone();
        let used =
            crate::write::admit::quota::quota_usage(&cluster.core, &item.key.namespace, &quota["spec"]);
        cluster.update_status(TABLE, &item.key, MANAGER, |value| {
            value["status"] = serde_json::json!({"hard": hard, "used": used});
        })?;
        Ok(NextReconcile::Done)
    }
}
