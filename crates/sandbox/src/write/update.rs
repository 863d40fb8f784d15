//! Changes of objects: a proposal made from the live object, admitted, validated and stored.

use std::sync::Arc;

use serde_json::Value;

use super::kinds::WriteContext;
use super::normal_form::{normalize, restore_omitted_members};
use super::ownership::subresource_of;
use super::precondition::{other_uid, parse_revision};
use super::{
    FieldOwnership, LiveObject, UpdateProposal, WriteAuthor, WriteFailure, WriteResult, WrittenObject,
};
use crate::api::resource::ServedResource;
use crate::core::Core;
use crate::status::{Result, Status, StatusCause};
use crate::store::{ExpectedState, ObjectDraft, ObjectKey};
use crate::write::admit::meta::NameRule;
use crate::write::admit::policy::WriteAttempt;
use crate::write::admit::prepare::ObjectPart;
use crate::write::admit::{
    admission, gate, immutable, immutable_pod, meta, pod_security, policy, prepare, quota, rules, validate,
};

/// A write that keeps losing races gives up after this many tries.
const TRIES: usize = 64;

impl Core {
    /// Changes an object. `propose` is called again with a fresh live object when a race was lost.
    pub(crate) fn update_object(
        &self,
        served: &Arc<ServedResource>,
        key: &ObjectKey,
        part: ObjectPart,
        author: &WriteAuthor,
        propose: &mut dyn FnMut(&LiveObject) -> Result<UpdateProposal>,
    ) -> Result<WriteResult> {
        for _ in 0..TRIES {
            let live = self.live_object(served, key)?;
            let proposal = propose(&live)?;
            let read = proposal.warnings.clone();
            match self.try_update(served, &live, proposal, part, author) {
                Ok(written) => return Ok(written),
                Err(WriteFailure::Refused(mut status)) => {
                    // Warnings about the body are sent with a refusal as well.
                    status.warnings.splice(0..0, read);
                    return Err(status);
                }
                Err(WriteFailure::Raced) => {}
            }
        }
        Err(Status::stale(served.resource_name(), &key.name))
    }

    fn try_update(
        &self,
        served: &Arc<ServedResource>,
        live: &LiveObject,
        proposal: UpdateProposal,
        part: ObjectPart,
        author: &WriteAuthor,
    ) -> std::result::Result<WriteResult, WriteFailure> {
        let refuse = WriteFailure::Refused;
        let (kind, strategy) = (served.rule_key(), served.strategy());
        let custom = served.custom.is_some();
        let name = &live.object.key.name;
        let UpdateProposal { value: mut new, ownership, mut warnings } = proposal;
        let (namespace, was) = (&*live.object.key.namespace, &live.value);
        // Members of metadata that only the server sets cannot be changed by clients.
        let version = meta::metadata_text(&new, "resourceVersion").to_owned();
        let uid = meta::metadata_text(&new, "uid").to_owned();
        let fields = meta::metadata_mut(&mut new);
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
        if !uid.is_empty() && uid != *live.object.uid {
            return Err(refuse(other_uid(served, &live.object, &uid, author.dry_run)));
        }
        if !version.is_empty()
            && version != "0"
            && parse_revision(&version).map_err(refuse)? != live.object.rev
        {
            return Err(refuse(Status::stale(served.resource_name(), name)));
        }
        if let Some(custom) = &served.custom {
            custom.apply_defaults(&mut new, !matches!(ownership, FieldOwnership::Update));
        } else {
            self.set_defaults(served, &mut new);
            new = normalize(served, new).map_err(refuse)?;
        }
        if matches!(ownership, FieldOwnership::Update) {
            new = self.record_ownership(served, Some(was), new, author, part).map_err(refuse)?;
        }
        if part == ObjectPart::Main {
            strategy.admit_update(&mut new);
        }
        let subresource = if author.scale { "scale" } else { subresource_of(part) };
        new = self.apply_mutating_policies(served, subresource, Some(was), new, author).map_err(refuse)?;
        prepare::prepare_update(kind, custom, served.has_status(), part, &mut new, was);
        gate::check_write(self, served, author, Some((was, part)), &new).map_err(refuse)?;
        if part == ObjectPart::Main {
            let context = WriteContext { core: self, served, author, key: &live.object.key };
            strategy.complete(&context, &mut new, Some(was)).map_err(refuse)?;
        }
        if !custom {
            new = normalize(served, new).map_err(refuse)?;
            restore_omitted_members(served, &mut new);
        }
        let counts = custom || rules::counts_generation(kind);
        let generation = was["metadata"].get("generation").cloned();
        if counts {
            let mut number = generation.as_ref().and_then(Value::as_i64).unwrap_or(0);
            // A deployment counts changes of its annotations as well, except those of its controller.
            let noted = strategy.counts_annotations()
                && author.manager != "kube-controller-manager"
                && new["metadata"]["annotations"] != was["metadata"]["annotations"];
            let relabelled =
                rules::counts_labels(kind) && new["metadata"]["labels"] != was["metadata"]["labels"];
            if part != ObjectPart::Status
                && (noted || relabelled || prepare::spec_changed(custom, served.has_status(), &new, was))
            {
                number += 1;
            }
            if number > 0 {
                meta::metadata_mut(&mut new).insert("generation".into(), number.into());
            }
        } else {
            match generation {
                Some(generation) => meta::metadata_mut(&mut new).insert("generation".into(), generation),
                None => meta::metadata_mut(&mut new).shift_remove("generation"),
            };
        }
        meta::metadata_mut(&mut new).insert("resourceVersion".into(), live.object.rev.to_string().into());
        meta::order_metadata(&mut new, custom);
        let mut causes: Vec<StatusCause> = Vec::new();
        let closely = meta::name_rule(kind);
        let rule = if rules::names_once(kind) { NameRule::PathSegment } else { closely };
        if rule != NameRule::PathSegment {
            meta::validate_prefix(&new, NameRule::PathSegment, &mut causes);
        }
        meta::validate_metadata(&new, served, rule, &mut causes);
        meta::validate_update(&new, was, &mut causes);
        match &served.custom {
            Some(custom) => {
                custom.validate_object(&new, Some(was), part, &mut causes);
                meta::warn_about_finalizers(&new, Some(was), &mut warnings);
            }
            None if part == ObjectPart::Main => {
                if strategy.reports_immutable_first() {
                    immutable::check_immutable(kind, &new, was, &mut causes);
                    strategy.validate(&new, Some(was), &mut causes);
                } else {
                    strategy.validate(&new, Some(was), &mut causes);
                    immutable::check_immutable(kind, &new, was, &mut causes);
                }
                strategy.add_warnings(&new, Some(was), &mut warnings);
                strategy.check_labels(self, &new, Some(was), &mut causes, &mut warnings);
            }
            None if part == ObjectPart::Status => strategy.validate_status(&new, was, &mut causes),
            None if part == ObjectPart::Finalize => strategy.validate(&new, Some(was), &mut causes),
            None if part == ObjectPart::EphemeralContainers => {
                strategy.validate(&new, Some(was), &mut causes);
                for (_, had) in validate::indexed_items(&was["spec"]["ephemeralContainers"]) {
                    let now = validate::indexed_items(&new["spec"]["ephemeralContainers"]);
                    let now = now.map(|(_, container)| container).find(|c| c["name"] == had["name"]);
                    if now != Some(had) {
                        let verb = if now.is_some() { "changed" } else { "removed" };
                        // After what was changed a real server shows how.
                        let end = if now.is_some() { "" } else { "\n" };
                        let why =
                            format!("existing ephemeral containers {} may not be {verb}{end}", had["name"]);
                        causes.push(StatusCause::forbidden("spec.ephemeralContainers", &why));
                    }
                }
            }
            None if part == ObjectPart::Resize => {
                strategy.validate(&new, Some(was), &mut causes);
                if admission::qos_class(&new["spec"]) != was["status"]["qosClass"].as_str().unwrap_or("") {
                    let why = "Pod QOS Class may not change as a result of resizing";
                    causes.push(StatusCause::invalid("spec", &was["status"]["qosClass"], why));
                }
                immutable_pod::check_resize(&new["spec"], &was["spec"], &mut causes);
            }
            None => {}
        }
        if !causes.is_empty() {
            return Err(refuse(Status::invalid(served.kind_name(), name, causes)));
        }
        let attempt = WriteAttempt {
            served,
            subresource,
            operation: "UPDATE",
            old: Some(was),
            new: Some(&new),
            author,
            in_collection: false,
        };
        policy::check_policies(self, &attempt, &mut warnings).map_err(refuse)?;
        // Changes a pod allows do not matter to pod security, except added containers.
        let is_workload = part == ObjectPart::Main && kind != ("", "Pod") && !author.scale;
        if is_workload || part == ObjectPart::EphemeralContainers {
            pod_security::check_pod_security(self, kind, namespace, &new, &mut warnings).map_err(refuse)?;
        }
        if part == ObjectPart::Main {
            quota::check_quota(self, served, namespace, Some(was), &new).map_err(refuse)?;
            if kind == ("", "PersistentVolumeClaim") {
                admission::check_claim_growth(self, &new, was).map_err(refuse)?;
            }
        }
        if let Some(custom) = &served.custom {
            custom.prune_for_storage(&mut new);
        }
        let deleting = was["metadata"]["deletionTimestamp"].is_string();
        let held = new["metadata"]["finalizers"].as_array().is_some_and(|f| !f.is_empty());
        let kind_held = strategy.holds_deletion(&new);
        let graceful = was["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) > 0;
        if deleting && !held && !kind_held && !graceful && !author.dry_run {
            let last = ObjectDraft::new(was);
            self.store.remove(&served.table, &live.object.key, live.object.rev, &last)?;
            self.after_delete(served, &live.object);
            return Ok(WriteResult { outcome: WrittenObject::Shown(new), created: false, warnings });
        }
        if is_same_object(&new, was) {
            let mut written = WriteResult::of_stored(live.object.clone());
            written.warnings = warnings;
            return Ok(written);
        }
        if author.dry_run {
            return Ok(WriteResult { outcome: WrittenObject::Shown(new), created: false, warnings });
        }
        let draft = ObjectDraft::new(&new);
        let stored = self.store.put::<WriteFailure>(
            &served.table,
            &live.object.key,
            ExpectedState::Rev(live.object.rev),
            &draft,
            |_| Ok(()),
        )?;
        self.after_write(served, Some(&live.object), &stored);
        Ok(WriteResult { outcome: WrittenObject::Stored(stored), created: false, warnings })
    }
}

/// Returns true if two versions of an object differ only in the times of their managed fields.
fn is_same_object(new: &Value, was: &Value) -> bool {
    let (Some(a), Some(b)) = (new.as_object(), was.as_object()) else { return new == was };
    let plain = |m: &serde_json::Map<String, Value>| m.len() - usize::from(m.contains_key("metadata"));
    plain(a) == plain(b)
        && a.iter().all(|(k, v)| k == "metadata" || b.get(k) == Some(v))
        && is_same_metadata(&new["metadata"], &was["metadata"])
}

fn is_same_metadata(new: &Value, was: &Value) -> bool {
    let (Some(a), Some(b)) = (new.as_object(), was.as_object()) else { return new == was };
    let skip = |k: &str| matches!(k, "managedFields" | "resourceVersion");
    let count = |m: &serde_json::Map<String, Value>| m.keys().filter(|k| !skip(k)).count();
    count(a) == count(b)
        && a.iter().all(|(k, v)| skip(k) || b.get(k) == Some(v))
        && are_same_managers(&new["managedFields"], &was["managedFields"])
}

fn are_same_managers(new: &Value, was: &Value) -> bool {
    let entries = |v: &Value| v.as_array().cloned().unwrap_or_default();
    let (new, was) = (entries(new), entries(was));
    let bare = |e: &Value| {
        let mut e = e.clone();
        if let Some(members) = e.as_object_mut() {
            members.shift_remove("time");
        }
        e
    };
    // The order follows the times, so it does not matter.
    new.len() == was.len() && new.iter().all(|n| was.iter().any(|w| bare(n) == bare(w)))
}
