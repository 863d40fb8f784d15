//! The write path: every creation, change and deletion of an object, by clients and controllers alike.

pub(crate) mod admit;
pub(crate) mod bind;
pub(crate) mod convert;
mod create;
pub(crate) mod delete;
pub(crate) mod kinds;
mod normal_form;
mod ownership;
mod precondition;
pub(crate) mod typed;
mod update;

use std::sync::Arc;

use serde_json::Value;

pub(crate) use self::precondition::{other_uid, parse_revision, uid_conflict};
use crate::api::resource::ServedResource;
use crate::auth::User;
use crate::core::Core;
use crate::status::{Result, Status};
use crate::store::{ObjectKey, StoredObject, WriteRaced};
use crate::write::admit::policy;
use crate::write::admit::policy::WriteAttempt;

/// The author of a write and its mode.
#[derive(Debug, Clone)]
pub(crate) struct WriteAuthor {
    pub manager: String,
    pub dry_run: bool,
    /// Set if the write comes through `/scale`: its changes are owned through it.
    pub scale: bool,
    /// The user of the request; none for the server's own writes.
    pub user: Option<Arc<User>>,
}

impl WriteAuthor {
    /// A part of the control plane.
    pub(crate) fn system(manager: &str) -> WriteAuthor {
        WriteAuthor { manager: manager.into(), dry_run: false, scale: false, user: None }
    }
}

/// The result of a write.
pub(crate) struct WriteResult {
    pub outcome: WrittenObject,
    pub created: bool,
    pub warnings: Vec<String>,
}

/// The object after a write.
pub(crate) enum WrittenObject {
    Stored(Arc<StoredObject>),
    /// The result of a dry run, or the last state of a deleted object.
    Shown(Value),
}

impl WriteResult {
    fn of_stored(object: Arc<StoredObject>) -> WriteResult {
        WriteResult { outcome: WrittenObject::Stored(object), created: false, warnings: vec![] }
    }

    /// The revision to wait for, if something was written.
    pub(crate) fn rev(&self) -> Option<u64> {
        match &self.outcome {
            WrittenObject::Stored(object) => Some(object.rev),
            WrittenObject::Shown(_) => None,
        }
    }

    /// The object without kind and apiVersion.
    pub(crate) fn value(&self) -> Value {
        match &self.outcome {
            WrittenObject::Stored(object) => object.value(),
            WrittenObject::Shown(value) => value.clone(),
        }
    }
}

/// The way ownership of fields is recorded.
pub(crate) enum FieldOwnership {
    /// Compares with the live object; changed fields become the author's.
    Update,
    /// Server-side apply has written `managedFields` already.
    Applied,
}

/// A proposed update, made from the live object.
pub(crate) struct UpdateProposal {
    pub value: Value,
    pub ownership: FieldOwnership,
    pub warnings: Vec<String>,
}

/// A live object: as stored, and as a value with kind and apiVersion.
pub(crate) struct LiveObject {
    pub object: Arc<StoredObject>,
    pub value: Value,
}

enum WriteFailure {
    Raced,
    Refused(Box<Status>),
}

impl From<WriteRaced> for WriteFailure {
    fn from(_: WriteRaced) -> WriteFailure {
        WriteFailure::Raced
    }
}

impl Core {
    /// The value of a stored object with `kind` and `apiVersion` of the served version.
    pub(crate) fn whole_object(&self, served: &ServedResource, object: &StoredObject) -> Value {
        let mut text = Vec::with_capacity(served.object_prefix().len() + object.tail.len());
        text.extend_from_slice(served.object_prefix().as_bytes());
        text.extend_from_slice(&object.tail);
        serde_json::from_slice(&text).unwrap_or_default()
    }

    pub(crate) fn live_object(&self, served: &ServedResource, key: &ObjectKey) -> Result<LiveObject> {
        let object = self
            .store
            .get(&served.table, key)
            .ok_or_else(|| Status::not_found(served.resource_name(), &key.name))?;
        Ok(LiveObject { value: self.whole_object(served, &object), object })
    }

    /// Fills in what decoding an object of a built-in kind adds on a real server.
    pub(crate) fn set_defaults(&self, served: &ServedResource, object: &mut Value) {
        let strategy = served.strategy();
        strategy.set_defaults(&served.def.version, object);
        strategy.set_default_times(&self.clock, object);
    }

    /// Applies the mutating policies to a write.
    pub(super) fn apply_mutating_policies(
        &self,
        served: &Arc<ServedResource>,
        subresource: &str,
        old: Option<&Value>,
        object: Value,
        author: &WriteAuthor,
    ) -> Result<Value> {
        let operation = if old.is_some() { "UPDATE" } else { "CREATE" };
        let attempt = WriteAttempt {
            served,
            subresource,
            operation,
            old,
            new: Some(&object),
            author,
            in_collection: false,
        };
        let complete = |mut changed: Value| match &served.custom {
            Some(custom) => {
                custom.apply_defaults(&mut changed, false);
                Ok(changed)
            }
            None => {
                self.set_defaults(served, &mut changed);
                typed::decode_typed(changed, served.type_ref(), &[]).map(|d| d.value)
            }
        };
        let changed = policy::mutate_object(self, &attempt, served.type_ref(), &complete)?;
        Ok(changed.unwrap_or(object))
    }

    /// Updates what depends on a write at once: held addresses, served definitions, content of new namespaces.
    pub(crate) fn after_write(
        &self,
        served: &ServedResource,
        before: Option<&StoredObject>,
        now: &Arc<StoredObject>,
    ) {
        served.strategy().after_write(self, before, now);
    }

    /// Updates what depends on an object that is gone.
    pub(crate) fn after_delete(&self, served: &ServedResource, before: &StoredObject) {
        served.strategy().after_delete(self, &before.key);
    }
}
