//! Resource quotas: what of them is used.

use std::collections::BTreeSet;

use super::super::{Cluster, Controller, Item, Next, Queue};
use super::common::MANAGER;
use crate::status::Result;
use crate::store::{Change, Event};

const TABLE: &str = "resourcequotas";

#[derive(Default)]
pub(super) struct Quotas {
    known: BTreeSet<Item>,
}

impl Controller for Quotas {
    fn name(&self) -> &'static str {
        "resourcequota-controller"
    }

    fn observe(&mut self, event: &Event, _: &Cluster, queue: &mut Queue) {
        if &*event.table == TABLE {
            if event.change == Change::Deleted {
                self.known.remove(&Item::of(event));
            } else {
                self.known.insert(Item::of(event));
                queue.push(Item::of(event));
            }
            return;
        }
        // Only coming, going and pods that finish change what is used.
        if event.change == Change::Modified && &*event.table != "pods" && &*event.table != "services" {
            return;
        }
        for item in self.known.iter().filter(|i| *i.key.namespace == *event.object.key.namespace) {
            queue.push(item.clone());
        }
    }

    fn reconcile(&mut self, item: &Item, cluster: &Cluster) -> Result<Next> {
        let Some(quota) = cluster.get(TABLE, &item.key.namespace, &item.key.name) else {
            return Ok(Next::Done);
        };
        let hard = quota["spec"]["hard"].clone();
        let used = crate::write::admit::quota::used(&cluster.core, &item.key.namespace, &quota["spec"]);
        cluster.update_status(TABLE, &item.key, MANAGER, |value| {
            value["status"] = serde_json::json!({"hard": hard, "used": used});
        })?;
        Ok(Next::Done)
    }
}
