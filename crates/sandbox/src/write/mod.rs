//! The write path: one way for every object to come into being, change and go, whoever asks.

pub(crate) mod admit;
pub(crate) mod bind;
pub(crate) mod convert;
pub(crate) mod delete;
pub(crate) mod typed;

use std::sync::Arc;

use serde_json::{Value, json};
use slipway_manifest::apply;
use slipway_manifest::fields::{FieldPath, FieldSet};

use crate::api::resource::Served;
use crate::auth::User;
use crate::core::Core;
use crate::status::{Cause, Named, Result, Status};
use crate::store::{Draft, Expect, Key, Object, Raced, View};
use crate::write::admit::meta::NameRule;
use crate::write::admit::policy::Attempt;
use crate::write::admit::prepare::Part;
use crate::write::admit::{
    admission, default, gate, immutable, meta, pod_security, policy, prepare, quota, rules, validate, warn,
};

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

/// A write that keeps losing races gives up after this many tries.
const TRIES: usize = 64;
const NAME_TRIES: usize = 8;

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
            if revision(&version).is_ok_and(|version| version > 0) {
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
            self.addresses.release(&owner(key), None);
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
            object = canonical(served, object)?;
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
                    &owner(&Key::new(&namespace, &name)),
                    &mut object,
                    None,
                    author.dry_run,
                )
            {
                return Err(found.status(served.named_kind(), &name));
            }
            object = canonical(served, object)?;
            print_times(served, &mut object);
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

    /// Lets the mutating policies change a write.
    fn mutate(
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

    /// Calls with who writes what, as ownership is recorded.
    fn as_author<T>(
        &self,
        served: &Served,
        author: &Author,
        part: Part,
        call: impl FnOnce(&apply::WriteRequest<'_>) -> T,
    ) -> T {
        let reset = reset_fields(served, part);
        let now = self.now();
        let registry = self.registry();
        let versions = served_versions(&registry, served);
        let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
        call(&apply::WriteRequest {
            manager: &author.manager,
            api_version: served.api_version(),
            subresource: if author.scale { "scale" } else { subresource_of(part) },
            now: &now,
            reset: reset.as_ref(),
            served: &versions,
        })
    }

    /// Records the author's ownership of what changed.
    fn own(
        &self,
        served: &Served,
        live: Option<&Value>,
        new: Value,
        author: &Author,
        part: Part,
    ) -> Result<Value> {
        self.as_author(served, author, part, |request| apply::update(live, new, served.shape(), request))
            .map_err(|e| Status::plain_500(e.to_string()))
    }

    /// Applies a configuration to the live object, or to nothing.
    pub(crate) fn apply_config(
        &self,
        served: &Served,
        live: Option<&Value>,
        config: &Value,
        author: &Author,
        part: Part,
        force: bool,
    ) -> Result<apply::AppliedObject> {
        let applied = self.as_author(served, author, part, |request| {
            apply::apply(live, config, served.shape(), request, force)
        });
        applied.map_err(|e| match e {
            apply::ApplyError::Conflicts(conflicts) => {
                let causes: Vec<Value> = conflicts
                    .0
                    .iter()
                    .map(|c| {
                        json!({"reason": "FieldManagerConflict", "message": c.cause_message(), "field": c.path.to_string()})
                    })
                    .collect();
                let mut status = Status::new(409, "Conflict", conflicts.to_string());
                status.details = Some(json!({"causes": causes}));
                status
            }
            apply::ApplyError::ManagedFields | apply::ApplyError::WrongType(_) => Status::bad_request(e.to_string()),
            other => Status::plain_500(other.to_string()),
        })
    }

    /// Changes an object. `propose` is called again with a fresh live object when a race was lost.
    pub(crate) fn update(
        &self,
        served: &Arc<Served>,
        key: &Key,
        part: Part,
        author: &Author,
        propose: &mut dyn FnMut(&Live) -> Result<Proposal>,
    ) -> Result<Written> {
        for _ in 0..TRIES {
            let live = self.live(served, key)?;
            let proposal = propose(&live)?;
            let read = proposal.warnings.clone();
            match self.try_update(served, &live, proposal, part, author) {
                Ok(written) => return Ok(written),
                Err(Failure::Refused(mut status)) => {
                    // What was odd about the body is said of a refused one as well.
                    status.warnings.splice(0..0, read);
                    return Err(status);
                }
                Err(Failure::Raced) => {}
            }
        }
        Err(Status::stale(served.named(), &key.name))
    }

    fn try_update(
        &self,
        served: &Arc<Served>,
        live: &Live,
        proposal: Proposal,
        part: Part,
        author: &Author,
    ) -> std::result::Result<Written, Failure> {
        let refuse = Failure::Refused;
        let kind = served.rule_key();
        let custom = served.custom.is_some();
        let name = &live.object.key.name;
        let Proposal { value: mut new, ownership, mut warnings } = proposal;
        let (namespace, was) = (&*live.object.key.namespace, &live.value);
        // The system's own members of metadata are not for clients to change.
        let version = meta::text(&new, "resourceVersion").to_owned();
        let uid = meta::text(&new, "uid").to_owned();
        let fields = meta::of(&mut new);
        for key in ["uid", "creationTimestamp", "deletionTimestamp", "selfLink"] {
            match was["metadata"].get(key) {
                Some(value) => fields.insert(key.into(), value.clone()),
                None => fields.shift_remove(key),
            };
        }
        let grace = was["metadata"].get("deletionGracePeriodSeconds");
        if let (Some(grace), None) = (grace, fields.get("deletionGracePeriodSeconds")) {
            fields.insert("deletionGracePeriodSeconds".into(), grace.clone());
        }
        fields.insert("name".into(), (&**name).into());
        if served.def.namespaced {
            fields.insert("namespace".into(), namespace.into());
        }
        if !version.is_empty() && version != "0" && revision(&version).map_err(refuse)? != live.object.rev {
            return Err(refuse(Status::stale(served.named(), name)));
        }
        if !uid.is_empty() && uid != *live.object.uid {
            return Err(refuse(other_uid(served, &live.object, &uid, author.dry_run)));
        }
        if let Some(custom) = &served.custom {
            custom.default(&mut new, !matches!(ownership, Ownership::Update));
        } else {
            default::apply(kind.0, &served.def.version, kind.1, &mut new);
            new = canonical(served, new).map_err(refuse)?;
        }
        if matches!(ownership, Ownership::Update) {
            new = self.own(served, Some(was), new, author, part).map_err(refuse)?;
        }
        if kind == ("", "Pod") && part == Part::Main {
            // Those every pod has come back however the list is replaced.
            admission::tolerations(&mut new["spec"]);
        }
        let subresource = if author.scale { "scale" } else { subresource_of(part) };
        new = self.mutate(served, subresource, Some(was), new, author).map_err(refuse)?;
        prepare::update(kind, custom, served.has_status(), part, &mut new, was);
        gate::check(self, served, author, Some((was, part)), &new).map_err(refuse)?;
        if kind == ("", "Service") && part == Part::Main {
            let holder = owner(&live.object.key);
            if let Err(found) = self.addresses.fill(&holder, &mut new, Some(was), author.dry_run) {
                return Err(refuse(found.status(served.named_kind(), name)));
            }
        }
        if !custom {
            new = canonical(served, new).map_err(refuse)?;
            print_times(served, &mut new);
        }
        let counts = custom || rules::counts_generation(kind);
        let generation = was["metadata"].get("generation").cloned();
        if counts {
            let mut number = generation.as_ref().and_then(Value::as_i64).unwrap_or(0);
            // A deployment counts its annotations as well, except for what its controller notes there.
            let noted = kind == ("apps", "Deployment")
                && author.manager != "kube-controller-manager"
                && new["metadata"]["annotations"] != was["metadata"]["annotations"];
            if part != Part::Status
                && (noted || prepare::spec_changed(custom, served.has_status(), &new, was))
            {
                number += 1;
            }
            if number > 0 {
                meta::of(&mut new).insert("generation".into(), number.into());
            }
        } else {
            match generation {
                Some(generation) => meta::of(&mut new).insert("generation".into(), generation),
                None => meta::of(&mut new).shift_remove("generation"),
            };
        }
        meta::of(&mut new).insert("resourceVersion".into(), live.object.rev.to_string().into());
        meta::tidy(&mut new, custom);
        let mut causes: Vec<Cause> = Vec::new();
        let closely = meta::name_rule(kind);
        let rule = if rules::names_once(kind) { NameRule::PathSegment } else { closely };
        if rule != NameRule::PathSegment {
            meta::validate_prefix(&new, NameRule::PathSegment, &mut causes);
        }
        meta::validate(&new, served.def.namespaced, rule, &mut causes);
        meta::validate_update(&new, was, &mut causes);
        match &served.custom {
            Some(custom) => custom.validate(&new, Some(was), part, &mut causes),
            None if part == Part::Main => {
                if immutable::comes_first(kind) {
                    immutable::check(kind, &new, was, &mut causes);
                    validate::check(kind, &new, Some(was), &mut causes);
                } else {
                    validate::check(kind, &new, Some(was), &mut causes);
                    immutable::check(kind, &new, was, &mut causes);
                }
                crate::api::crd::validate_definition(kind, &new, Some(was), &mut causes);
                warn::about(kind, &new, Some(was), &mut warnings);
                if kind == ("", "Namespace") && new["metadata"]["labels"] != was["metadata"]["labels"] {
                    pod_security::check_labels(&new, &mut causes);
                    pod_security::warn_of_pods(self, was, &new, &mut warnings);
                }
            }
            None if part == Part::Status && validate::checks_status(kind) => {
                validate::status(kind, &new, &mut causes);
            }
            None if part == Part::Finalize => validate::check(kind, &new, Some(was), &mut causes),
            None if part == Part::EphemeralContainers => {
                validate::ephemeral(&new["spec"], &mut causes);
                for (_, had) in validate::list(&was["spec"]["ephemeralContainers"]) {
                    let now = validate::list(&new["spec"]["ephemeralContainers"]);
                    let now = now.map(|(_, container)| container).find(|c| c["name"] == had["name"]);
                    if now != Some(had) {
                        let verb = if now.is_some() { "changed" } else { "removed" };
                        let why = format!("existing ephemeral containers {} may not be {verb}", had["name"]);
                        causes.push(Cause::forbidden("spec.ephemeralContainers", &why));
                    }
                }
            }
            None if kind == ("", "Service")
                && part == Part::Status
                && new["spec"]["type"] != "LoadBalancer"
                && validate::list(&new["status"]["loadBalancer"]["ingress"]).next().is_some() =>
            {
                let why = "may only be used when `spec.type` is 'LoadBalancer'";
                causes.push(Cause::forbidden("status.loadBalancer.ingress", why));
            }
            None if part == Part::Resize
                && admission::qos_class(&new["spec"]) != was["status"]["qosClass"].as_str().unwrap_or("") =>
            {
                let why = "Pod QOS Class may not change as a result of resizing";
                causes.push(Cause::invalid("spec", &was["status"]["qosClass"], why));
            }
            None => {}
        }
        if !causes.is_empty() {
            return Err(refuse(Status::invalid(served.named_kind(), name, causes)));
        }
        let attempt =
            Attempt { served, subresource, operation: "UPDATE", old: Some(was), new: Some(&new), author };
        policy::check(self, &attempt, &mut warnings).map_err(refuse)?;
        // What can change of a pod does not matter, but for containers that are put in.
        let is_workload = part == Part::Main && kind != ("", "Pod") && !author.scale;
        if is_workload || part == Part::EphemeralContainers {
            pod_security::check(self, kind, namespace, &new, &mut warnings).map_err(refuse)?;
        }
        if part == Part::Main {
            quota::check(self, served, namespace, Some(was), &new).map_err(refuse)?;
        }
        if let Some(custom) = &served.custom {
            custom.store(&mut new);
        }
        let deleting = was["metadata"]["deletionTimestamp"].is_string();
        let held = new["metadata"]["finalizers"].as_array().is_some_and(|f| !f.is_empty());
        let namespace_held =
            kind == ("", "Namespace") && new["spec"]["finalizers"].as_array().is_some_and(|f| !f.is_empty());
        let graceful = was["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) > 0;
        if deleting && !held && !namespace_held && !graceful && !author.dry_run {
            let last = Draft::new(was);
            let gone = self.store.remove(&served.table, &live.object.key, live.object.rev, &last)?;
            self.after_delete(served, &live.object, &gone);
            return Ok(Written { outcome: Outcome::Shown(new), created: false, warnings });
        }
        if same(&new, was) {
            let mut written = Written::stored(live.object.clone());
            written.warnings = warnings;
            return Ok(written);
        }
        if author.dry_run {
            return Ok(Written { outcome: Outcome::Shown(new), created: false, warnings });
        }
        let draft = Draft::new(&new);
        let stored = self.store.put::<Failure>(
            &served.table,
            &live.object.key,
            Expect::Rev(live.object.rev),
            &draft,
            |_| Ok(()),
        )?;
        self.after_write(served, Some(&live.object), &stored);
        Ok(Written { outcome: Outcome::Stored(stored), created: false, warnings })
    }

    /// What must be true as soon as a write is: addresses held, definitions served, namespaces furnished.
    pub(crate) fn after_write(&self, served: &Served, before: Option<&Object>, now: &Arc<Object>) {
        match &*served.table {
            "services" => {
                let value = now.value();
                let holder = owner(&now.key);
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
            "services" => self.addresses.release(&owner(&before.key), None),
            "customresourcedefinitions.apiextensions.k8s.io" => crate::api::crd::refresh(self),
            _ => {}
        }
    }
}

/// Puts a built-in object into the form a real server prints.
fn canonical(served: &Served, object: Value) -> Result<Value> {
    typed::decode(object, served.shape(), &[]).map(|d| d.value).map_err(Status::internal)
}

/// Times of events and pod conditions that are not set are printed all the same.
fn print_times(served: &Served, value: &mut Value) {
    // Once stored, nothing tells an empty list from none.
    let lists: &[&str] = match &*served.table {
        "roles.rbac.authorization.k8s.io" | "clusterroles.rbac.authorization.k8s.io" => &["/rules"],
        "limitranges" => &["/spec/limits"],
        "endpointslices.discovery.k8s.io" => &["/endpoints", "/ports"],
        "csinodes.storage.k8s.io" => &["/spec/drivers"],
        "jobs.batch" => &["/spec/podFailurePolicy/rules"],
        _ => &[],
    };
    for list in lists {
        if let Some(found) = value.pointer_mut(list).filter(|v| v.as_array().is_some_and(Vec::is_empty)) {
            *found = Value::Null;
        }
    }
    if &*served.table == "persistentvolumeclaims" {
        let conditions = value.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
        for condition in conditions.into_iter().flatten() {
            for (key, after) in [("lastProbeTime", "status"), ("lastTransitionTime", "lastProbeTime")] {
                if let Some(members) = condition.as_object_mut()
                    && !members.contains_key(key)
                {
                    let at = members.keys().position(|k| k == after).map_or(members.len(), |i| i + 1);
                    members.shift_insert(at, key.into(), Value::Null);
                }
            }
        }
    }
    if &*served.table == "statefulsets.apps" {
        let claims = value.pointer_mut("/spec/volumeClaimTemplates").and_then(Value::as_array_mut);
        for claim in claims.into_iter().flatten() {
            if let Some(health) = claim.pointer_mut("/status/healthStatus").and_then(Value::as_object_mut) {
                health.entry("lastTransitionTime").or_insert(Value::Null);
            }
        }
    }
    if &*served.table == "pods" {
        let conditions = value.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
        for condition in conditions.into_iter().flatten() {
            if let Some(members) = condition.as_object_mut()
                && !members.contains_key("lastProbeTime")
            {
                let at = members.keys().position(|k| k == "status").map_or(members.len(), |i| i + 1);
                members.shift_insert(at, "lastProbeTime".into(), Value::Null);
            }
        }
    }
    if &*served.table != "events" {
        return;
    }
    if let Some(series) = value.get_mut("series").and_then(Value::as_object_mut) {
        series.entry("lastObservedTime").or_insert(Value::Null);
    }
    for (key, after) in
        [("firstTimestamp", "source"), ("lastTimestamp", "firstTimestamp"), ("eventTime", "type")]
    {
        if let Some(members) = value.as_object_mut()
            && !members.contains_key(key)
        {
            let at = members.keys().position(|k| k == after).map_or(members.len(), |i| i + 1);
            members.shift_insert(at, key.into(), Value::Null);
        }
    }
}

fn owner(key: &Key) -> String {
    format!("{}/{}", key.namespace, key.name)
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

/// Reads a `resourceVersion`.
pub(crate) fn revision(text: &str) -> Result<u64> {
    text.parse()
        .map_err(|_| Status::plain_500(format!("strconv.ParseUint: parsing {}: invalid syntax", json!(text))))
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

/// The refusal of a write meant for an object with another uid.
pub(crate) fn other_uid(served: &Served, live: &Object, uid: &str, dry_run: bool) -> Box<Status> {
    uid_conflict(served, &live.key, uid, &live.uid, dry_run)
}

/// The same where there may be no object at all.
pub(crate) fn uid_conflict(served: &Served, key: &Key, uid: &str, found: &str, dry_run: bool) -> Box<Status> {
    // A dry run never gets as far as the storage that adds the prefix.
    let path = registry_path(served, key);
    let path = if dry_run { path.trim_start_matches("/registry") } else { &*path };
    Status::conflict(
        served.named(),
        &key.name,
        &format!(
            "StorageError: invalid object, Code: 4, Key: {path}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {found}"
        ),
    )
}

/// Where etcd would keep the object; some messages name it.
pub(crate) fn registry_path(served: &Served, key: &Key) -> String {
    let place = match (served.def.group.as_str(), &*served.table) {
        (_, "services") => "services/specs".to_owned(),
        (_, "endpoints") => "services/endpoints".to_owned(),
        (_, "nodes") => "minions".to_owned(),
        (_, "replicationcontrollers") => "controllers".to_owned(),
        (group, _) if served.custom.is_some() => format!("{group}/{}", served.def.plural),
        _ => served.def.plural.clone(),
    };
    if key.namespace.is_empty() {
        format!("/registry/{place}/{}", key.name)
    } else {
        format!("/registry/{place}/{}/{}", key.namespace, key.name)
    }
}

fn subresource_of(part: Part) -> &'static str {
    match part {
        Part::Main => "",
        Part::Status => "status",
        Part::Finalize => "finalize",
        Part::Approval => "approval",
        Part::EphemeralContainers => "ephemeralcontainers",
        Part::Resize => "resize",
    }
}

/// The fields an endpoint does not write.
fn reset_fields(served: &Served, part: Part) -> Option<FieldSet> {
    let paths = match part {
        // What was asked for stays as it was.
        Part::Main if served.rule_key() == ("certificates.k8s.io", "CertificateSigningRequest") => {
            vec![FieldPath::from_names(["spec"]), FieldPath::from_names(["status"])]
        }
        Part::Main if served.has_status() && !rules::status_on_main(served.rule_key()) => {
            vec![FieldPath::from_names(["status"])]
        }
        Part::Status => {
            let mut paths = vec![FieldPath::from_names(["spec"])];
            if served.custom.is_some() || served.rule_key() == ("apps", "Deployment") {
                paths.push(FieldPath::from_names(["metadata", "labels"]));
            }
            if served.custom.is_some() {
                for key in ["annotations", "finalizers", "ownerReferences"] {
                    paths.push(FieldPath::from_names(["metadata", key]));
                }
            }
            paths
        }
        _ => return None,
    };
    Some(paths.iter().collect())
}

fn served_versions(registry: &crate::api::resource::Registry, served: &Served) -> Vec<String> {
    registry
        .groups
        .iter()
        .find(|g| g.name == served.def.group)
        .map(|g| g.versions.iter().map(|v| slipway_manifest::object::join_api_version(&g.name, v)).collect())
        .unwrap_or_default()
}

/// Whether two versions of an object differ in nothing but when their fields were managed.
fn same(new: &Value, was: &Value) -> bool {
    let (Some(a), Some(b)) = (new.as_object(), was.as_object()) else { return new == was };
    let plain = |m: &serde_json::Map<String, Value>| m.len() - usize::from(m.contains_key("metadata"));
    plain(a) == plain(b)
        && a.iter().all(|(k, v)| k == "metadata" || b.get(k) == Some(v))
        && same_metadata(&new["metadata"], &was["metadata"])
}

fn same_metadata(new: &Value, was: &Value) -> bool {
    let (Some(a), Some(b)) = (new.as_object(), was.as_object()) else { return new == was };
    let skip = |k: &str| matches!(k, "managedFields" | "resourceVersion");
    let count = |m: &serde_json::Map<String, Value>| m.keys().filter(|k| !skip(k)).count();
    count(a) == count(b)
        && a.iter().all(|(k, v)| skip(k) || b.get(k) == Some(v))
        && same_managers(&new["managedFields"], &was["managedFields"])
}

fn same_managers(new: &Value, was: &Value) -> bool {
    let entries = |v: &Value| v.as_array().cloned().unwrap_or_default();
    let (new, was) = (entries(new), entries(was));
    let bare = |e: &Value| {
        let mut e = e.clone();
        if let Some(members) = e.as_object_mut() {
            members.shift_remove("time");
        }
        e
    };
    // Order follows time, so it says nothing of its own.
    new.len() == was.len() && new.iter().all(|n| was.iter().any(|w| bare(n) == bare(w)))
}
