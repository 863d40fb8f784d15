//! The write path: every creation, change and deletion of an object, by clients and controllers alike.

pub(crate) mod admit;
pub(crate) mod bind;
pub(crate) mod convert;
mod create;
pub(crate) mod delete;
mod normal_form;
mod ownership;
mod precondition;
pub(crate) mod typed;
mod update;

use std::sync::Arc;

use serde_json::Value;

pub(crate) use self::precondition::{other_uid, parse_revision, uid_conflict};
use crate::api::resource::Served;
use crate::auth::User;
use crate::core::Core;
use crate::status::{Result, Status};
use crate::store::{Key, Object, Raced};
use crate::write::admit::policy::Attempt;
use crate::write::admit::{default, policy};

/// Who writes, and how.
#[derive(Debug, Clone)]
pub(crate) struct Author {
    pub manager: String,
    pub dry_run: bool,
    /// The write comes through `/scale`; what it changes is owned through it.
    pub scale: bool,
    /// Whose request it is; the server's own writes have nobody.
    pub user: Option<Arc<User>>,
}

impl Author {
    /// A part of the control plane.
    pub(crate) fn system(manager: &str) -> Author {
        Author { manager: manager.into(), dry_run: false, scale: false, user: None }
    }
}

/// What a write led to.
pub(crate) struct Written {
    pub outcome: Outcome,
    pub created: bool,
    pub warnings: Vec<String>,
}

/// The object after a write.
pub(crate) enum Outcome {
    Stored(Arc<Object>),
    /// A dry run, or the last sight of an object that is gone.
    Shown(Value),
}

impl Written {
    fn stored(object: Arc<Object>) -> Written {
        Written { outcome: Outcome::Stored(object), created: false, warnings: vec![] }
    }

    /// The revision to wait for, if something was written.
    pub(crate) fn rev(&self) -> Option<u64> {
        match &self.outcome {
            Outcome::Stored(object) => Some(object.rev),
            Outcome::Shown(_) => None,
        }
    }

    /// The object without kind and apiVersion.
    pub(crate) fn value(&self) -> Value {
        match &self.outcome {
            Outcome::Stored(object) => object.value(),
            Outcome::Shown(value) => value.clone(),
        }
    }
}

/// How ownership of fields is recorded.
pub(crate) enum Ownership {
    /// Compare with the live object; what changed is the author's.
    Update,
    /// Server-side apply has written `managedFields` already.
    Applied,
}

/// An update somebody wants, made from the live object.
pub(crate) struct Proposal {
    pub value: Value,
    pub ownership: Ownership,
    pub warnings: Vec<String>,
}

/// A live object: as stored, and as a value with kind and apiVersion.
pub(crate) struct Live {
    pub object: Arc<Object>,
    pub value: Value,
}

enum Failure {
    Raced,
    Refused(Box<Status>),
}

impl From<Raced> for Failure {
    fn from(_: Raced) -> Failure {
        Failure::Raced
    }
}

impl Core {
    /// The value of a stored object with `kind` and `apiVersion` of the served version.
    pub(crate) fn whole(&self, served: &Served, object: &Object) -> Value {
        let mut text = Vec::with_capacity(served.object_prefix().len() + object.tail.len());
        text.extend_from_slice(served.object_prefix().as_bytes());
        text.extend_from_slice(&object.tail);
        serde_json::from_slice(&text).unwrap_or_default()
    }

    pub(crate) fn live(&self, served: &Served, key: &Key) -> Result<Live> {
        let object =
            self.store.get(&served.table, key).ok_or_else(|| Status::not_found(served.named(), &key.name))?;
        Ok(Live { value: self.whole(served, &object), object })
    }

    /// Lets the mutating policies change a write.
    pub(super) fn mutate(
        &self,
        served: &Arc<Served>,
        subresource: &str,
        old: Option<&Value>,
        object: Value,
        author: &Author,
    ) -> Result<Value> {
        let operation = if old.is_some() { "UPDATE" } else { "CREATE" };
        let attempt = Attempt { served, subresource, operation, old, new: Some(&object), author };
        let complete = |mut changed: Value| match &served.custom {
            Some(custom) => {
                custom.default(&mut changed, false);
                Ok(changed)
            }
            None => {
                let kind = served.rule_key();
                default::apply(kind.0, &served.def.version, kind.1, &mut changed);
                typed::decode(changed, served.shape(), &[]).map(|d| d.value)
            }
        };
        let changed = policy::mutate(self, &attempt, served.shape(), &complete)?;
        Ok(changed.unwrap_or(object))
    }

    /// What must be true as soon as a write is: addresses held, definitions served, namespaces furnished.
    pub(crate) fn after_write(&self, served: &Served, before: Option<&Object>, now: &Arc<Object>) {
        match &*served.table {
            "services" => {
                let value = now.value();
                let holder = allocation_owner(&now.key);
                self.addresses.adopt(&holder, &value);
                self.addresses.release(&holder, Some(&value));
            }
            "customresourcedefinitions.apiextensions.k8s.io" => {
                crate::api::crd::changed(self, before.is_none(), now);
            }
            "namespaces" if before.is_none() => crate::controllers::furnish_namespace(self, now.name()),
            _ => {}
        }
    }

    pub(crate) fn after_delete(&self, served: &Served, before: &Object, _gone: &Object) {
        match &*served.table {
            "services" => self.addresses.release(&allocation_owner(&before.key), None),
            "customresourcedefinitions.apiextensions.k8s.io" => crate::api::crd::refresh(self),
            _ => {}
        }
    }
}

fn allocation_owner(key: &Key) -> String {
    format!("{}/{}", key.namespace, key.name)
}
