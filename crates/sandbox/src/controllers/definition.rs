//! Custom resource definitions that are going: their objects first, then they.

use serde_json::Value;

use super::{ClusterHandle, Controller, NextReconcile, WorkItem, WorkQueue};
use crate::api::crd::FINALIZER;
use crate::status::Result;
use crate::store::{ChangeType, ObjectKey, StoreEvent};
use crate::write::delete::DeleteOptions;

const TABLE: &str = "customresourcedefinitions.apiextensions.k8s.io";

pub(super) struct DefinitionCleanup;

impl Controller for DefinitionCleanup {
    fn name(&self) -> &'static str {
        "customresourcedefinition-finalizer"
    }

    fn observe_event(&mut self, event: &StoreEvent, cluster: &ClusterHandle, queue: &mut WorkQueue) {
        if &*event.table == TABLE {
            if event.object.deleting {
                queue.push(WorkItem::of(event));
            }
        } else if event.change == ChangeType::Deleted && event.table.contains('.') {
            // The last object of a definition that waits for it may just have gone.
            let key = ObjectKey::new("", &event.table);
            if cluster.stored_object(TABLE, &key).is_some_and(|d| d.deleting) {
                queue.push(WorkItem { table: TABLE.into(), key });
            }
        }
    }

    fn reconcile(&mut self, item: &WorkItem, cluster: &ClusterHandle) -> Result<NextReconcile> {
        let Some(definition) = cluster.stored_object(TABLE, &item.key) else {
            return Ok(NextReconcile::Done);
        };
        if !definition.deleting {
            return Ok(NextReconcile::Done);
        }
        // A definition's name is the table of its objects.
        let table = definition.name();
        for object in cluster.stored_objects(table, None) {
            if !object.deleting {
                cluster.delete(table, &object.key, &DeleteOptions::default())?;
            }
        }
        if !cluster.stored_objects(table, None).is_empty() {
            return Ok(NextReconcile::Done);
        }
        let done = cluster.update(TABLE, &item.key, "kube-apiserver", |value| {
            if let Some(Value::Array(finalizers)) = value["metadata"].get_mut("finalizers") {
                finalizers.retain(|f| f != FINALIZER);
            }
        });
        match done {
            Err(status) if status.code != 404 => Err(status),
            _ => Ok(NextReconcile::Done),
        }
    }
}
