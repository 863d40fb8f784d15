//! Creation of objects: names, defaults, admission, validation, storage.

use std::sync::Arc;

use serde_json::{Value, json};

use super::normal_form::{normalize, restore_omitted_members};
use super::precondition::parse_revision;
use super::{Author, Failure, Outcome, Ownership, Written, allocation_owner};
use crate::api::resource::Served;
use crate::core::Core;
use crate::status::{Named, Result, Status};
use crate::store::{Draft, Expect, Key, Object, View};
use crate::write::admit::policy::Attempt;
use crate::write::admit::prepare::Part;
use crate::write::admit::{
    admission, default, gate, meta, pod_security, policy, prepare, quota, rules, validate, warn,
};

/// Generated names are tried this many times.
const NAME_TRIES: usize = 8;

impl Core {
    /// Stores a new object. `object` is decoded and has the kind of `served`.
    pub(crate) fn create(
        &self,
        served: &Arc<Served>,
        namespace: &str,
        object: Value,
        author: &Author,
        ownership: Ownership,
    ) -> Result<Written> {
        let mut object = object;
        let kind = served.rule_key();
        let version = meta::text(&object, "resourceVersion").to_owned();
        let counts = served.custom.is_some() || rules::starts_generation(kind);
        let fields = meta::of(&mut object);
        for key in ["selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"] {
            fields.shift_remove(key);
        }
        if !author.dry_run {
            fields.shift_remove("resourceVersion");
        }
        fields.insert("uid".into(), self.ids.uid().into());
        fields.insert("creationTimestamp".into(), self.now().into());
        if counts {
            fields.insert("generation".into(), 1.into());
        }
        if served.def.namespaced {
            fields.insert("namespace".into(), namespace.into());
        }
        let mut repeated = meta::single_owners(&mut object);
        if kind == ("", "LimitRange") && meta::text(&object, "name").is_empty() {
            // The one kind that does without a name.
            meta::of(&mut object).insert("name".into(), self.ids.uid().into());
        }
        let generate = meta::text(&object, "generateName").to_owned();
        let generated = meta::text(&object, "name").is_empty() && !generate.is_empty();
        for _ in 0..NAME_TRIES {
            let mut object = object.clone();
            if generated {
                meta::of(&mut object).insert("name".into(), self.ids.generate(&generate).into());
            }
            let name = meta::text(&object, "name").to_owned();
            let mut warnings = std::mem::take(&mut repeated);
            let ready = self.admit_new(served, object, author, &ownership, &mut warnings)?;
            if author.dry_run {
                if !generated
                    && let Some(existing) = self.store.get(&served.table, &Key::new(namespace, &name))
                {
                    let mut status = exists(served, &existing, &generate);
                    status.warnings = warnings;
                    return Err(status);
                }
                self.check_namespace(served, namespace)?;
                return Ok(Written { outcome: Outcome::Shown(ready), created: true, warnings });
            }
            let key = Key::new(namespace, &name);
            if parse_revision(&version).is_ok_and(|version| version > 0) {
                self.undo_allocation(served, &key);
                let why = "resourceVersion should not be set on objects to be created";
                return Err(Status::plain_500(why));
            }
            let draft = Draft::new(&ready);
            match self.store.put(&served.table, &key, Expect::Absent, &draft, |view| {
                namespace_open(view, served, namespace, &name).map_err(Failure::Refused)
            }) {
                Ok(stored) => {
                    self.after_write(served, None, &stored);
                    return Ok(Written { outcome: Outcome::Stored(stored), created: true, warnings });
                }
                Err(Failure::Refused(status)) => {
                    self.undo_allocation(served, &key);
                    return Err(status);
                }
                Err(Failure::Raced) if generated => self.undo_allocation(served, &key),
                Err(Failure::Raced) => {
                    let mut status = match self.store.get(&served.table, &key) {
                        Some(existing) => exists(served, &existing, &generate),
                        None => Status::already_exists(served.named(), &name),
                    };
                    status.warnings = warnings;
                    return Err(status);
                }
            }
        }
        let mut status = Status::already_exists(served.named(), &generate);
        status.message = "the server was not able to generate a unique name for the object".into();
        Err(status)
    }

    fn undo_allocation(&self, served: &Served, key: &Key) {
        if &*served.table == "services" && self.store.get("services", key).is_none() {
            self.addresses.release(&allocation_owner(key), None);
        }
    }

    fn check_namespace(&self, served: &Served, namespace: &str) -> Result<()> {
        if served.def.namespaced && self.store.get("namespaces", &Key::new("", namespace)).is_none() {
            return Err(Status::not_found(Named { group: "", what: "namespaces" }, namespace));
        }
        Ok(())
    }

    /// Defaults, ownership, admission, preparation and validation of a new object.
    fn admit_new(
        &self,
        served: &Arc<Served>,
        mut object: Value,
        author: &Author,
        ownership: &Ownership,
        warnings: &mut Vec<String>,
    ) -> Result<Value> {
        let kind = served.rule_key();
        let name = meta::text(&object, "name").to_owned();
        let namespace = meta::text(&object, "namespace").to_owned();
        if let Some(custom) = &served.custom {
            custom.prepare_create(&mut object, !matches!(ownership, Ownership::Update));
        } else {
            default::apply(kind.0, &served.def.version, kind.1, &mut object);
            object = normalize(served, object)?;
        }
        if matches!(ownership, Ownership::Update) {
            object = self.own(served, None, object, author, Part::Main)?;
        }
        let mut causes = Vec::new();
        if served.custom.is_some() {
            gate::check(self, served, author, None, &object)?;
            object = self.mutate(served, "", None, object, author)?;
        } else {
            self.check_namespace(served, &namespace)?;
            gate::check(self, served, author, None, &object)?;
            admission::create(self, kind, &mut object)?;
            object = self.mutate(served, "", None, object, author)?;
            prepare::create(kind, served.has_status(), &mut object);
            if let (("certificates.k8s.io", "CertificateSigningRequest"), Some(user)) = (kind, &author.user) {
                prepare::requested_by(user, &mut object);
            }
            if kind == ("", "Service")
                && let Err(found) = self.addresses.fill(
                    &allocation_owner(&Key::new(&namespace, &name)),
                    &mut object,
                    None,
                    author.dry_run,
                )
            {
                return Err(found.status(served.named_kind(), &name));
            }
            object = normalize(served, object)?;
            restore_omitted_members(served, &mut object);
        }
        meta::tidy(&mut object, served.custom.is_some());
        admission::admin_access(self, kind, &object, &mut causes);
        meta::validate(&object, served.def.namespaced, meta::name_rule(kind), &mut causes);
        if kind == ("batch", "Job") {
            // Labels made of a name are looked at where the template has them.
            causes.retain(|cause| {
                cause.field != "metadata.labels" || !cause.message.contains(&json!(name).to_string())
            });
        }
        match &served.custom {
            Some(custom) => custom.validate(&object, None, Part::Main, &mut causes),
            None => {
                validate::check(kind, &object, None, &mut causes);
                crate::api::crd::validate_definition(kind, &object, None, &mut causes);
                warn::about(kind, &object, None, warnings);
                if kind == ("", "Namespace") {
                    pod_security::check_labels(&object, &mut causes);
                }
            }
        }
        if !causes.is_empty() {
            self.undo_allocation(served, &Key::new(&namespace, &name));
            return Err(Status::invalid(served.named_kind(), &name, causes));
        }
        let attempt =
            Attempt { served, subresource: "", operation: "CREATE", old: None, new: Some(&object), author };
        if let Err(status) = policy::check(self, &attempt, warnings) {
            self.undo_allocation(served, &Key::new(&namespace, &name));
            return Err(status);
        }
        let checked = pod_security::check(self, kind, &namespace, &object, warnings)
            .and_then(|()| quota::check(self, served, &namespace, None, &object));
        if let Err(status) = checked {
            self.undo_allocation(served, &Key::new(&namespace, &name));
            return Err(status);
        }
        if let Some(custom) = &served.custom {
            custom.store(&mut object);
        }
        Ok(object)
    }
}

fn exists(served: &Served, object: &Object, generate: &str) -> Box<Status> {
    let mut status = Status::already_exists(served.named(), object.name());
    if !generate.is_empty() {
        // Whoever gives both is told to try again, though only another name would do.
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

/// Refuses writes into namespaces that are not there or on their way out.
fn namespace_open(view: &View<'_>, served: &Served, namespace: &str, name: &str) -> Result<()> {
    if !served.def.namespaced {
        return Ok(());
    }
    let Some(found) = view.get("namespaces", &Key::new("", namespace)) else {
        return Err(Status::not_found(Named { group: "", what: "namespaces" }, namespace));
    };
    if !found.deleting {
        return Ok(());
    }
    let mut status = Status::forbidden(
        served.named(),
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
