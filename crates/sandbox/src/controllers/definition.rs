//! Custom resource definitions that are going: their objects first, then they.

use serde_json::Value;

use super::{Cluster, Controller, Item, Next, Queue};
use crate::api::crd::FINALIZER;
use crate::status::Result;
use crate::store::{Change, Event, Key};
use crate::write::delete::DeleteOptions;

const TABLE: &str = "customresourcedefinitions.apiextensions.k8s.io";

pub(super) struct Cleanup;

impl Controller for Cleanup {
    fn name(&self) -> &'static str {
        "customresourcedefinition-finalizer"
    }

    fn observe(&mut self, event: &Event, cluster: &Cluster, queue: &mut Queue) {
        if &*event.table == TABLE {
            if event.object.deleting {
                queue.push(Item::of(event));
            }
        } else if event.change == Change::Deleted && event.table.contains('.') {
            // The last object of a definition that waits for it may just have gone.
            let key = Key::new("", &event.table);
            if cluster.object(TABLE, &key).is_some_and(|d| d.deleting) {
                queue.push(Item { table: TABLE.into(), key });
            }
        }
    }

    fn reconcile(&mut self, item: &Item, cluster: &Cluster) -> Result<Next> {
        let Some(definition) = cluster.object(TABLE, &item.key) else { return Ok(Next::Done) };
        if !definition.deleting {
            return Ok(Next::Done);
        }
        // A definition's name is the table of its objects.
        let table = definition.name();
        for object in cluster.objects(table, None) {
            if !object.deleting {
                cluster.delete(table, &object.key, &DeleteOptions::default())?;
            }
        }
        if !cluster.objects(table, None).is_empty() {
            return Ok(Next::Done);
        }
        let done = cluster.update(TABLE, &item.key, "kube-apiserver", |value| {
            if let Some(Value::Array(finalizers)) = value["metadata"].get_mut("finalizers") {
                finalizers.retain(|f| f != FINALIZER);
            }
        });
        match done {
            Err(status) if status.code != 404 => Err(status),
            _ => Ok(Next::Done),
        }
    }
}
