//! Deletion: options, preconditions, grace, finalizers, and what is left of the object.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::api::resource::ServedResource;
use crate::core::Core;
use crate::http::query::{QueryParameters, bad_option};
use crate::status::{NamedResource, Result, Status, StatusCause};
use crate::store::{ExpectedState, ObjectDraft, ObjectKey, StoredObject};
use crate::write::LiveObject;
use crate::write::admit::{meta, rules};

/// The treatment of the objects a deleted one owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeletionPropagation {
    Background,
    Foreground,
    Orphan,
}

/// The options of a deletion.
#[derive(Debug, Clone, Default)]
pub struct DeleteOptions {
    pub grace: Option<i64>,
    pub propagation: Option<DeletionPropagation>,
    pub uid: Option<String>,
    pub version: Option<String>,
    pub dry_run: bool,
}

/// The result of a deletion.
pub(crate) enum DeletionOutcome {
    /// It is gone; this was its uid.
    Gone {
        uid: String,
        rev: Option<u64>,
    },
    /// It is gone; pods answer with themselves.
    GoneShown(Value, Option<u64>),
    /// It stays until its finalizers are removed or its grace period has passed.
    Pending(Arc<StoredObject>),
    PendingShown(Value),
}

impl DeleteOptions {
    /// Reads options from a body or, where it says nothing, from the query.
    pub(crate) fn from_request(body: &Value, query: &QueryParameters) -> Result<DeleteOptions> {
        let mut causes = Vec::new();
        // Options in the body replace those of the query.
        let none = QueryParameters::default();
        let query = if body.is_null() { query } else { &none };
        let text = |key: &str| {
            body[key].as_str().map(str::to_owned).or_else(|| query.non_empty(key).map(str::to_owned))
        };
        let propagation = match text("propagationPolicy").as_deref() {
            None => None,
            Some("Background") => Some(DeletionPropagation::Background),
            Some("Foreground") => Some(DeletionPropagation::Foreground),
            Some("Orphan") => Some(DeletionPropagation::Orphan),
            Some(other) => {
                causes.push(StatusCause::not_supported(
                    "propagationPolicy",
                    &json!(other),
                    &["Foreground", "Background", "Orphan", "nil"],
                ));
                None
            }
        };
        let orphan = body["orphanDependents"].as_bool().or_else(|| query.bool_value("orphanDependents"));
        if let (Some(_), Some(policy)) = (orphan, text("propagationPolicy")) {
            causes.push(StatusCause::invalid(
                "propagationPolicy",
                &json!(policy),
                "orphanDependents and deletionPropagation cannot be both set",
            ));
        }
        let dry: Vec<&str> =
            body["dryRun"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if dry.iter().any(|d| *d != "All") {
            causes.push(StatusCause::not_supported("dryRun", &json!(dry), &["All"]));
        }
        if !causes.is_empty() {
            return Err(bad_option("DeleteOptions", causes));
        }
        let propagation = propagation.or(match orphan {
            Some(true) => Some(DeletionPropagation::Orphan),
            Some(false) => Some(DeletionPropagation::Background),
            None => None,
        });
        let grace = match body["gracePeriodSeconds"].as_i64() {
            Some(grace) => Some(grace),
            None => query.int_value("gracePeriodSeconds")?,
        };
        Ok(DeleteOptions {
            grace,
            propagation,
            uid: body["preconditions"]["uid"].as_str().map(str::to_owned),
            version: body["preconditions"]["resourceVersion"].as_str().map(str::to_owned),
            dry_run: !dry.is_empty() || query.dry_run("DeleteOptions")?,
        })
    }
}

/// Resources whose deletion answers with the object that is gone.
const RETURNED: &[&str] = &[
    "pods",
    "persistentvolumeclaims",
    "persistentvolumes",
    "podtemplates",
    "resourcequotas",
    "serviceaccounts",
    "services",
    "csidrivers.storage.k8s.io",
    "csinodes.storage.k8s.io",
    "storageclasses.storage.k8s.io",
    "volumeattachments.storage.k8s.io",
    "deviceclasses.resource.k8s.io",
    "resourceclaims.resource.k8s.io",
    "resourceclaimtemplates.resource.k8s.io",
    "resourceslices.resource.k8s.io",
];

/// Namespaces nobody may delete.
const PROTECTED: &[&str] = &["default", "kube-system", "kube-public"];

impl Core {
    pub(crate) fn delete_object(
        &self,
        served: &Arc<ServedResource>,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Result<DeletionOutcome> {
        if &*served.table == "namespaces" && PROTECTED.contains(&&*key.name) {
            return Err(Status::forbidden(
                served.resource_name(),
                &key.name,
                "this namespace may not be deleted",
            ));
        }
        loop {
            let live = self.live_object(served, key)?;
            check_preconditions(served, &live, options)?;
            if let Some(done) = self.try_delete(served, &live, options) {
                return Ok(done);
            }
        }
    }

    /// `None` when a race was lost.
    fn try_delete(
        &self,
        served: &Arc<ServedResource>,
        live: &LiveObject,
        options: &DeleteOptions,
    ) -> Option<DeletionOutcome> {
        let mut object = live.value.clone();
        let already = live.object.deleting;
        let pod = &*served.table == "pods";
        let mut grace = 0;
        if pod {
            let spec = &object["spec"];
            grace = options
                .grace
                .or_else(|| object["metadata"]["deletionGracePeriodSeconds"].as_i64().filter(|_| already))
                .or_else(|| spec["terminationGracePeriodSeconds"].as_i64())
                .unwrap_or(30)
                .max(0);
            let phase = object["status"]["phase"].as_str().unwrap_or("");
            if spec["nodeName"].as_str().unwrap_or("").is_empty() || matches!(phase, "Succeeded" | "Failed") {
                grace = 0;
            }
            // A grace period can only be shortened.
            if already && let Some(left) = object["metadata"]["deletionGracePeriodSeconds"].as_i64() {
                grace = grace.min(left);
            }
        }
        let mut finalizers: Vec<Value> =
            object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        let mut adjust = |name: &str, wanted: bool| {
            let has = finalizers.iter().any(|f| f == name);
            if wanted && !has {
                finalizers.push(name.into());
            } else if !wanted && has {
                finalizers.retain(|f| f != name);
            }
        };
        if let Some(propagation) = options.propagation {
            adjust("orphan", propagation == DeletionPropagation::Orphan);
            adjust("foregroundDeletion", propagation == DeletionPropagation::Foreground);
        }
        if &*served.table == "customresourcedefinitions.apiextensions.k8s.io" {
            adjust(crate::api::crd::FINALIZER, true);
        }
        let namespace_held = &*served.table == "namespaces"
            && object["spec"]["finalizers"].as_array().is_some_and(|f| !f.is_empty());
        let held = !finalizers.is_empty() || namespace_held;
        if grace == 0 && !held {
            return self.remove_object(served, live, pod, options.dry_run);
        }
        let now = self.clock.now();
        let fields = meta::metadata_mut(&mut object);
        if finalizers.is_empty() {
            fields.shift_remove("finalizers");
        } else {
            fields.insert("finalizers".into(), finalizers.into());
        }
        let ends = now + Duration::from_secs(u64::try_from(grace).unwrap_or(0));
        if !already
            || fields.get("deletionGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|g| g > grace)
        {
            fields.insert("deletionTimestamp".into(), crate::clock::rfc3339(ends).into());
            if &*served.table != "namespaces" {
                fields.insert("deletionGracePeriodSeconds".into(), grace.into());
            }
            let counts = served.custom.is_some() || rules::counts_generation(served.rule_key());
            if !already
                && counts
                && let Some(number) = fields.get("generation").and_then(Value::as_i64)
            {
                fields.insert("generation".into(), (number + 1).into());
            }
        }
        if !already {
            match &*served.table {
                "namespaces" => object["status"]["phase"] = json!("Terminating"),
                "customresourcedefinitions.apiextensions.k8s.io" => {
                    crate::api::crd::mark_terminating(self, &mut object);
                }
                _ => {}
            }
        }
        meta::order_metadata(&mut object, served.custom.is_some());
        if object == live.value {
            return Some(DeletionOutcome::Pending(live.object.clone()));
        }
        if options.dry_run {
            return Some(DeletionOutcome::PendingShown(object));
        }
        let draft = ObjectDraft::new(&object);
        let stored = self
            .store
            .put::<crate::store::WriteRaced>(
                &served.table,
                &live.object.key,
                ExpectedState::Rev(live.object.rev),
                &draft,
                |_| Ok(()),
            )
            .ok()?;
        if &*served.table == "customresourcedefinitions.apiextensions.k8s.io" {
            crate::api::crd::refresh_registry(self);
        }
        Some(DeletionOutcome::Pending(stored))
    }

    fn remove_object(
        &self,
        served: &Arc<ServedResource>,
        live: &LiveObject,
        pod: bool,
        dry_run: bool,
    ) -> Option<DeletionOutcome> {
        let mut last = live.value.clone();
        if pod {
            let fields = meta::metadata_mut(&mut last);
            fields.insert("deletionTimestamp".into(), self.now().into());
            fields.insert("deletionGracePeriodSeconds".into(), 0.into());
            meta::order_metadata(&mut last, false);
        }
        let uid = live.object.uid.to_string();
        let shown = RETURNED.contains(&&*served.table);
        if dry_run {
            return Some(if shown {
                DeletionOutcome::GoneShown(last, None)
            } else {
                DeletionOutcome::Gone { uid, rev: None }
            });
        }
        let draft = ObjectDraft::new(&last);
        let gone = self.store.remove(&served.table, &live.object.key, live.object.rev, &draft).ok()?;
        self.after_delete(served, &live.object);
        let rev = Some(gone.rev);
        Some(if shown { DeletionOutcome::GoneShown(last, rev) } else { DeletionOutcome::Gone { uid, rev } })
    }
}

fn check_preconditions(served: &ServedResource, live: &LiveObject, options: &DeleteOptions) -> Result<()> {
    let kind = NamedResource { group: &served.def.group, what: &served.def.kind };
    let name = live.object.name();
    // These two look before the store does, and in other words.
    let failed = match served.rule_key() {
        ("", "Namespace") => Some("Precondition failed"),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => Some("precondition failed"),
        _ => None,
    };
    if let Some(failed) = failed {
        let rev = live.object.rev.to_string();
        let differs = |what: &str, asked: Option<&str>, live: &str| {
            let why = format!("{failed}: {what} in precondition: {}, {what} in object meta: {live}", asked?);
            (asked? != live).then(|| Err(Status::conflict(served.resource_name(), name, &why)))
        };
        return differs("UID", options.uid.as_deref(), &live.object.uid)
            .or_else(|| differs("ResourceVersion", options.version.as_deref(), &rev))
            .unwrap_or(Ok(()));
    }
    if let Some(uid) = &options.uid
        && **uid != *live.object.uid
    {
        return Err(Status::conflict(
            kind,
            name,
            &format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
                live.object.uid
            ),
        ));
    }
    if let Some(version) = &options.version
        && *version != live.object.rev.to_string()
    {
        return Err(Status::conflict(
            kind,
            name,
            &format!(
                "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). The object might have been modified",
                live.object.rev
            ),
        ));
    }
    Ok(())
}
