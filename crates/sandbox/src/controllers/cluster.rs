//! The interface through which controllers read and write objects.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::api::resource::ServedResource;
use crate::api::select::LabelFilter;
use crate::core::Core;
use crate::status::{NamedResource, Result, Status};
use crate::store::{ObjectKey, StoredObject};
use crate::write::admit::prepare::ObjectPart;
use crate::write::delete::DeleteOptions;
use crate::write::{FieldOwnership, UpdateProposal, WriteAuthor};

/// The cluster as a controller sees it. Tables are named as in `deployments.apps`, `pods`.
#[derive(Clone)]
pub struct ClusterHandle {
    pub(crate) core: Arc<Core>,
}

impl ClusterHandle {
    pub(crate) fn new(core: Arc<Core>) -> ClusterHandle {
        ClusterHandle { core }
    }

    pub fn now(&self) -> Timestamp {
        self.core.clock.now()
    }

    /// Now, as objects record it.
    pub fn now_text(&self) -> String {
        self.core.now()
    }

    /// Returns the time since the one an object recorded; zero if it cannot be read.
    pub fn elapsed_since(&self, recorded: &Value) -> Duration {
        let at = recorded.as_str().and_then(|t| t.parse::<Timestamp>().ok());
        at.and_then(|at| Duration::try_from(self.now().duration_since(at)).ok()).unwrap_or_default()
    }

    /// Five letters for the end of a name.
    pub fn name_suffix(&self) -> String {
        self.core.ids.name_suffix()
    }

    /// A random number, the same every time under a seed.
    pub fn random_number(&self) -> u64 {
        self.core.ids.next_number()
    }

    fn served_resource(&self, table: &str) -> Result<Arc<ServedResource>> {
        self.core.of_table(table).ok_or_else(|| Status::internal(format!("nothing serves {table}")))
    }

    /// One object with its kind and apiVersion.
    pub fn get(&self, table: &str, namespace: &str, name: &str) -> Option<Value> {
        let served = self.core.of_table(table)?;
        let object = self.core.store.get(table, &ObjectKey::new(namespace, name))?;
        Some(self.core.whole_object(&served, &object))
    }

    /// One object as stored: quick to test for existence, uid or labels.
    pub fn stored_object(&self, table: &str, key: &ObjectKey) -> Option<Arc<StoredObject>> {
        self.core.store.get(table, key)
    }

    /// All objects of a table as stored, cheap to filter before reading.
    pub fn stored_objects(&self, table: &str, namespace: Option<&str>) -> Vec<Arc<StoredObject>> {
        self.core.store.list(table, namespace)
    }

    pub fn list_values(&self, table: &str, namespace: Option<&str>) -> Vec<Value> {
        self.read_values(table, self.core.store.list(table, namespace))
    }

    /// Objects a selector matches.
    pub fn select_values(&self, table: &str, namespace: &str, labels: &LabelFilter) -> Vec<Value> {
        let mut found = self.core.store.list(table, Some(namespace));
        found.retain(|o| labels.matches(o));
        self.read_values(table, found)
    }

    /// Objects that name `uid` among their owners.
    pub fn owned_values(&self, table: &str, namespace: &str, uid: &str) -> Vec<Value> {
        let mut found = self.core.store.list(table, Some(namespace));
        found.retain(|o| o.owners.iter().any(|owner| **owner == *uid));
        self.read_values(table, found)
    }

    fn read_values(&self, table: &str, objects: Vec<Arc<StoredObject>>) -> Vec<Value> {
        let Some(served) = self.core.of_table(table) else { return vec![] };
        objects.iter().map(|o| self.core.whole_object(&served, o)).collect()
    }

    fn system_author(&self, manager: &str) -> WriteAuthor {
        WriteAuthor::system(manager)
    }

    /// Creates an object; its kind and apiVersion may be left out.
    pub fn create(&self, table: &str, namespace: &str, mut object: Value, manager: &str) -> Result<Value> {
        let served = self.served_resource(table)?;
        object["kind"] = served.def.kind.as_str().into();
        object["apiVersion"] = served.api_version().into();
        let object = self.decode_object(&served, object)?;
        let written = self.core.create_object(
            &served,
            namespace,
            object,
            &self.system_author(manager),
            FieldOwnership::Update,
        )?;
        Ok(written.value())
    }

    fn decode_object(&self, served: &ServedResource, object: Value) -> Result<Value> {
        if served.custom.is_some() {
            return Ok(object);
        }
        crate::write::typed::decode_typed(object, served.type_ref(), &[])
            .map(|d| d.value)
            .map_err(Status::internal)
    }

    /// Changes an object in place. `change` may run again when a race was lost.
    pub fn update(
        &self,
        table: &str,
        key: &ObjectKey,
        manager: &str,
        change: impl FnMut(&mut Value),
    ) -> Result<Value> {
        self.update_part(table, key, ObjectPart::Main, manager, change)
    }

    /// Changes an object's status.
    pub fn update_status(
        &self,
        table: &str,
        key: &ObjectKey,
        manager: &str,
        change: impl FnMut(&mut Value),
    ) -> Result<Value> {
        self.update_part(table, key, ObjectPart::Status, manager, change)
    }

    /// Changes any part of an object.
    pub fn update_part(
        &self,
        table: &str,
        key: &ObjectKey,
        part: ObjectPart,
        manager: &str,
        mut change: impl FnMut(&mut Value),
    ) -> Result<Value> {
        let served = self.served_resource(table)?;
        let written =
            self.core.update_object(&served, key, part, &self.system_author(manager), &mut |live| {
                let mut value = live.value.clone();
                change(&mut value);
                if let Some(meta) = value["metadata"].as_object_mut() {
                    meta.shift_remove("resourceVersion");
                }
                let value = self.decode_object(&served, value)?;
                Ok(UpdateProposal { value, ownership: FieldOwnership::Update, warnings: vec![] })
            })?;
        Ok(written.value())
    }

    /// Binds a pod to a node, as a scheduler does.
    pub fn bind_pod(&self, key: &ObjectKey, node: &str) -> Result<()> {
        crate::write::bind::bind_pod(&self.core, key, node, &self.system_author("kube-scheduler"))
    }

    /// Deletes an object; one that is gone already is fine.
    pub fn delete(&self, table: &str, key: &ObjectKey, options: &DeleteOptions) -> Result<()> {
        let served = self.served_resource(table)?;
        match self.core.delete_object(&served, key, options) {
            Ok(_) => Ok(()),
            Err(status) if status.code == 404 => Ok(()),
            Err(status) => Err(status),
        }
    }

    /// Records an Event about an object, or counts up one that says the same.
    pub fn record_event(&self, about: &Value, component: &str, kind: &str, reason: &str, message: &str) {
        let namespace =
            about["metadata"]["namespace"].as_str().filter(|n| !n.is_empty()).unwrap_or("default");
        let name = about["metadata"]["name"].as_str().unwrap_or("");
        let uid = &about["metadata"]["uid"];
        let now = self.now_text();
        let known = self.core.store.list("events", Some(namespace)).into_iter().find(|o| {
            o.name().starts_with(name) && {
                let e = o.value();
                e["involvedObject"]["uid"] == *uid
                    && e["reason"] == reason
                    && e["message"] == message
                    && e["source"]["component"] == component
            }
        });
        if let Some(known) = known {
            let done = self.update("events", &known.key, component, |event| {
                event["count"] = (event["count"].as_i64().unwrap_or(1) + 1).into();
                event["lastTimestamp"] = now.clone().into();
            });
            if done.is_ok() {
                return;
            }
        }
        let nanos = self.now().as_nanosecond();
        // Two events in one instant must not share a name.
        let unique = (nanos as u64) ^ (self.random_number() & 0xffff);
        let event = json!({
            "metadata": {"name": format!("{name}.{unique:016x}"), "namespace": namespace},
            "involvedObject": {
                "kind": about["kind"],
                "namespace": about["metadata"]["namespace"],
                "name": name,
                "uid": uid,
                "apiVersion": about["apiVersion"],
                "resourceVersion": about["metadata"]["resourceVersion"],
            },
            "reason": reason,
            "message": message,
            "source": {"component": component},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "type": kind,
            "reportingComponent": component,
        });
        // An event that cannot be recorded must not stop what it tells of.
        let _ = self.create("events", namespace, event, component);
    }

    /// 404 for a resource of this name, for controllers that must report one.
    pub fn not_found_status(&self, what: &str, name: &str) -> Box<Status> {
        Status::not_found(NamedResource { group: "", what }, name)
    }
}
