//! Creation of objects: names, defaults, admission, validation, storage.

use std::sync::Arc;

use serde_json::{Value, json};

use super::kinds::WriteContext;
use super::normal_form::{normalize, restore_omitted_members};
use super::precondition::parse_revision;
use super::{FieldOwnership, WriteAuthor, WriteFailure, WriteResult, WrittenObject};
use crate::api::resource::ServedResource;
use crate::core::Core;
use crate::status::{NamedResource, Result, Status};
use crate::store::{ExpectedState, ObjectDraft, ObjectKey, StoreView, StoredObject};
use crate::write::admit::policy::WriteAttempt;
use crate::write::admit::prepare::ObjectPart;
use crate::write::admit::{admission, gate, meta, pod_security, policy, prepare, quota, rules};

/// Generated names are tried this many times.
const NAME_TRIES: usize = 8;

impl Core {
    /// Stores a new object. `object` is decoded and has the kind of `served`.
    pub(crate) fn create_object(
        &self,
        served: &Arc<ServedResource>,
        namespace: &str,
        object: Value,
        author: &WriteAuthor,
        ownership: FieldOwnership,
    ) -> Result<WriteResult> {
        let mut object = object;
        let kind = served.rule_key();
        let version = meta::metadata_text(&object, "resourceVersion").to_owned();
        let counts = served.custom.is_some() || rules::starts_generation(kind);
        let fields = meta::metadata_mut(&mut object);
        for key in ["selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"] {
            fields.shift_remove(key);
        }
        if !author.dry_run {
            fields.shift_remove("resourceVersion");
        }
        fields.insert("uid".into(), self.ids.new_uid().into());
        fields.insert("creationTimestamp".into(), self.now().into());
        if counts {
            fields.insert("generation".into(), 1.into());
        }
        if served.def.namespaced {
            fields.insert("namespace".into(), namespace.into());
        }
        let mut repeated = meta::single_owners(&mut object);
        let strategy = served.strategy();
        if strategy.may_be_unnamed() && meta::metadata_text(&object, "name").is_empty() {
            meta::metadata_mut(&mut object).insert("name".into(), self.ids.new_uid().into());
        }
        let generate = meta::metadata_text(&object, "generateName").to_owned();
        let generated = meta::metadata_text(&object, "name").is_empty() && !generate.is_empty();
        for _ in 0..NAME_TRIES {
            let mut object = object.clone();
            if generated {
                meta::metadata_mut(&mut object)
                    .insert("name".into(), self.ids.generate_name(&generate).into());
            }
            let name = meta::metadata_text(&object, "name").to_owned();
            let mut warnings = std::mem::take(&mut repeated);
            let ready = self.admit_new_object(served, object, author, &ownership, &mut warnings)?;
            if author.dry_run {
                if !generated
                    && let Some(existing) = self.store.get(&served.table, &ObjectKey::new(namespace, &name))
                {
                    let mut status = already_exists(served, &existing, &generate);
                    status.warnings = warnings;
                    return Err(status);
                }
                self.check_namespace(served, namespace)?;
                return Ok(WriteResult { outcome: WrittenObject::Shown(ready), created: true, warnings });
            }
            let key = ObjectKey::new(namespace, &name);
            if parse_revision(&version).is_ok_and(|version| version > 0) {
                self.undo_allocation(served, &key);
                let why = "resourceVersion should not be set on objects to be created";
                return Err(Status::plain_500(why));
            }
            let draft = ObjectDraft::new(&ready);
            match self.store.put(&served.table, &key, ExpectedState::Absent, &draft, |view| {
                check_namespace_open(view, served, namespace, &name).map_err(WriteFailure::Refused)
            }) {
                Ok(stored) => {
                    self.after_write(served, None, &stored);
                    return Ok(WriteResult {
                        outcome: WrittenObject::Stored(stored),
                        created: true,
                        warnings,
                    });
                }
                Err(WriteFailure::Refused(status)) => {
                    self.undo_allocation(served, &key);
                    return Err(status);
                }
                Err(WriteFailure::Raced) if generated => self.undo_allocation(served, &key),
                Err(WriteFailure::Raced) => {
                    let mut status = match self.store.get(&served.table, &key) {
                        Some(existing) => already_exists(served, &existing, &generate),
                        None => Status::already_exists(served.resource_name(), &name),
                    };
                    status.warnings = warnings;
                    return Err(status);
                }
            }
        }
        let mut status = Status::already_exists(served.resource_name(), &generate);
        status.message = "the server was not able to generate a unique name for the object".into();
        Err(status)
    }

    fn undo_allocation(&self, served: &ServedResource, key: &ObjectKey) {
        if self.store.get(&served.table, key).is_none() {
            served.strategy().after_delete(self, key);
        }
    }

    fn check_namespace(&self, served: &ServedResource, namespace: &str) -> Result<()> {
        if served.def.namespaced && self.store.get("namespaces", &ObjectKey::new("", namespace)).is_none() {
            return Err(Status::not_found(NamedResource { group: "", what: "namespaces" }, namespace));
        }
        Ok(())
    }

    /// Defaults, ownership, admission, preparation and validation of a new object.
    fn admit_new_object(
        &self,
        served: &Arc<ServedResource>,
        mut object: Value,
        author: &WriteAuthor,
        ownership: &FieldOwnership,
        warnings: &mut Vec<String>,
    ) -> Result<Value> {
        let (kind, strategy) = (served.rule_key(), served.strategy());
        let name = meta::metadata_text(&object, "name").to_owned();
        let namespace = meta::metadata_text(&object, "namespace").to_owned();
        if let Some(custom) = &served.custom {
            custom.prepare_create(&mut object, !matches!(ownership, FieldOwnership::Update));
        } else {
            strategy.set_defaults(&served.def.version, &mut object);
            object = normalize(served, object)?;
        }
        if matches!(ownership, FieldOwnership::Update) {
            object = self.record_ownership(served, None, object, author, ObjectPart::Main)?;
        }
        let mut causes = Vec::new();
        if served.custom.is_some() {
            gate::check_write(self, served, author, None, &object)?;
            object = self.apply_mutating_policies(served, "", None, object, author)?;
        } else {
            self.check_namespace(served, &namespace)?;
            gate::check_write(self, served, author, None, &object)?;
            strategy.admit_new(self, &mut object)?;
            object = self.apply_mutating_policies(served, "", None, object, author)?;
            prepare::prepare_create(kind, served.has_status(), &mut object);
            let key = ObjectKey::new(&namespace, &name);
            let context = WriteContext { core: self, served, author, key: &key };
            strategy.complete(&context, &mut object, None)?;
            object = normalize(served, object)?;
            restore_omitted_members(served, &mut object);
        }
        meta::order_metadata(&mut object, served.custom.is_some());
        admission::check_admin_access(self, kind, &object, &mut causes);
        meta::validate_metadata(&object, served.def.namespaced, meta::name_rule(kind), &mut causes);
        if served.custom.is_none() && rules::needs_finalizer_domains(kind) {
            meta::validate_finalizer_domains(&object, &mut causes);
        }
        if kind == ("batch", "Job") {
            // Errors about labels made from the name are reported by the template's check.
            causes.retain(|cause| {
                cause.field != "metadata.labels" || !cause.message.contains(&json!(name).to_string())
            });
        }
        match &served.custom {
            Some(custom) => custom.validate_object(&object, None, ObjectPart::Main, &mut causes),
            None => {
                strategy.validate(&object, None, &mut causes);
                strategy.add_warnings(&object, None, warnings);
                strategy.check_labels(self, &object, None, &mut causes, warnings);
            }
        }
        if !causes.is_empty() {
            self.undo_allocation(served, &ObjectKey::new(&namespace, &name));
            return Err(Status::invalid(served.kind_name(), &name, causes));
        }
        let attempt = WriteAttempt {
            served,
            subresource: "",
            operation: "CREATE",
            old: None,
            new: Some(&object),
            author,
        };
        if let Err(status) = policy::check_policies(self, &attempt, warnings) {
            self.undo_allocation(served, &ObjectKey::new(&namespace, &name));
            return Err(status);
        }
        let checked = pod_security::check_pod_security(self, kind, &namespace, &object, warnings)
            .and_then(|()| quota::check_quota(self, served, &namespace, None, &object));
        if let Err(status) = checked {
            self.undo_allocation(served, &ObjectKey::new(&namespace, &name));
            return Err(status);
        }
        if let Some(custom) = &served.custom {
            custom.prune_for_storage(&mut object);
        }
        Ok(object)
    }
}

fn already_exists(served: &ServedResource, object: &StoredObject, generate: &str) -> Box<Status> {
    let mut status = Status::already_exists(served.resource_name(), object.name());
    if !generate.is_empty() {
        // With both a name and `generateName` the client is told to try again, though only another name would help.
        status.message.push_str(", the server was not able to generate a unique name for the object");
        if let Some(Value::Object(details)) = &mut status.details {
            details.insert("retryAfterSeconds".into(), 1.into());
        }
        return status;
    }
    if object.deleting {
        status.message = format!("object is being deleted: {}", status.message);
    }
    status
}

/// Refuses writes into namespaces that do not exist or are being deleted.
fn check_namespace_open(
    view: &StoreView<'_>,
    served: &ServedResource,
    namespace: &str,
    name: &str,
) -> Result<()> {
    if !served.def.namespaced {
        return Ok(());
    }
    let Some(found) = view.get("namespaces", &ObjectKey::new("", namespace)) else {
        return Err(Status::not_found(NamedResource { group: "", what: "namespaces" }, namespace));
    };
    if !found.deleting {
        return Ok(());
    }
    let mut status = Status::forbidden(
        served.resource_name(),
        name,
        &format!("unable to create new content in namespace {namespace} because it is being terminated"),
    );
    if let Some(details) = &mut status.details {
        details["causes"] = json!([{
            "reason": "NamespaceTerminating",
            "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        }]);
    }
    Err(status)
}
