//! Changes of objects: a proposal made from the live object, admitted, validated and stored.

use std::sync::Arc;

use serde_json::Value;

use super::normal_form::{normalize, restore_omitted_members};
use super::ownership::subresource_of;
use super::precondition::{other_uid, parse_revision};
use super::{Author, Failure, Live, Outcome, Ownership, Proposal, Written, allocation_owner};
use crate::api::resource::Served;
use crate::core::Core;
use crate::status::{Cause, Result, Status};
use crate::store::{Draft, Expect, Key};
use crate::write::admit::meta::NameRule;
use crate::write::admit::policy::Attempt;
use crate::write::admit::prepare::Part;
use crate::write::admit::{
    admission, default, gate, immutable, meta, pod_security, policy, prepare, quota, rules, validate, warn,
};

/// A write that keeps losing races gives up after this many tries.
const TRIES: usize = 64;

impl Core {
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
        if !version.is_empty()
            && version != "0"
            && parse_revision(&version).map_err(refuse)? != live.object.rev
        {
            return Err(refuse(Status::stale(served.named(), name)));
        }
        if !uid.is_empty() && uid != *live.object.uid {
            return Err(refuse(other_uid(served, &live.object, &uid, author.dry_run)));
        }
        if let Some(custom) = &served.custom {
            custom.default(&mut new, !matches!(ownership, Ownership::Update));
        } else {
            default::apply(kind.0, &served.def.version, kind.1, &mut new);
            new = normalize(served, new).map_err(refuse)?;
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
            let holder = allocation_owner(&live.object.key);
            if let Err(found) = self.addresses.fill(&holder, &mut new, Some(was), author.dry_run) {
                return Err(refuse(found.status(served.named_kind(), name)));
            }
        }
        if !custom {
            new = normalize(served, new).map_err(refuse)?;
            restore_omitted_members(served, &mut new);
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
