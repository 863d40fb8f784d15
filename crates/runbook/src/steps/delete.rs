//! `delete`: objects by manifest, by reference or selector, or a whole release.

use std::time::Duration;

use serde_json::{Value, json};
use slipway_cluster::DeletePropagation;
use slipway_cluster::helm::{ReleaseStorage, RevisionStatus};
use slipway_manifest::{ObjectRef, object};
use slipway_release::decide::KeptReason;
use slipway_release::plan::KeptObject;
use slipway_release::{ExecuteOptions, Failure, PlanOptions, ReleaseContent, ReleaseRequest};

use super::{StepAction, StepFuture, StepOutcome, StepType, helm};
use crate::context::{Found, StepContext, describe, shown};
use crate::decode::actions as fields;
use crate::decode::block::Block;
use crate::decode::names;
use crate::error::{AttemptError, ErrorKind};
use crate::inputs::StepInputs;
use crate::manifests;
use crate::model::{AbsentObject, Action, Delete, ManifestSource, Selection, Step};
use crate::plan::look::PlanRequest;
use crate::plan::words::{listed, scope, sources};
use crate::plan::{ObjectFate, StepPreview, StepVerb};
use crate::schema::{
    RESOURCE, SUBDOMAIN, at_most, described, like, list_of, object, one_of, one_scope, selection, with,
};
use slipway_problem::Problem;

async fn run(attempt: &StepContext<'_>, delete: &Delete) -> Result<StepOutcome, AttemptError> {
    match delete {
        Delete::Manifests { manifests, namespace, absence } => {
            by_manifests(attempt, manifests, namespace.as_deref(), *absence).await
        }
        Delete::Resource { selection, absence } => by_selection(attempt, selection, *absence).await,
        Delete::Release { release: name, namespace, absence } => {
            release(attempt, name, namespace, *absence).await
        }
    }
}

fn absent(what: &str, absence: AbsentObject) -> Result<StepOutcome, AttemptError> {
    if absence == AbsentObject::Ignored {
        Ok(StepOutcome::noted(format!("{what} is not there")))
    } else {
        let message = format!("{what} does not exist");
        Err(AttemptError::new(ErrorKind::NotFound, message).hint("ignoreNotFound: true lets that pass"))
    }
}

async fn by_manifests(
    attempt: &StepContext<'_>,
    sources: &[ManifestSource],
    namespace: Option<&str>,
    absence: AbsentObject,
) -> Result<StepOutcome, AttemptError> {
    let place = attempt.world.place;
    let objects = manifests::load(sources, place.base, &*place.sources.fetcher).await?;
    let mut deleted = 0;
    for object in &objects {
        let gvk = object::gvk(object);
        let Some(kind) = attempt.world.kind(&gvk).await? else {
            attempt.warn(format!("the cluster serves no kind {gvk}: nothing to delete"));
            continue;
        };
        let at = kind.object_ref(object, namespace.unwrap_or("default"));
        match attempt.cluster().get(&at).await? {
            Some(live) => {
                attempt.delete(&at, &live, DeletePropagation::Background).await?;
                deleted += 1;
            }
            None => {
                absent(&shown(&at), absence)?;
            }
        }
    }
    Ok(StepOutcome::noted(format!("{deleted} of {} objects deleted", objects.len())))
}

async fn by_selection(
    attempt: &StepContext<'_>,
    selection: &Selection,
    absence: AbsentObject,
) -> Result<StepOutcome, AttemptError> {
    let Found::Objects(kind, objects) = attempt.select(selection, &mut None).await? else {
        let message = format!("the cluster serves no type `{}`", selection.kind);
        return Err(
            AttemptError::new(ErrorKind::NotFound, message).hint("`kubectl api-resources` lists them")
        );
    };
    if objects.is_empty() {
        return absent(&named(selection), absence);
    }
    let places: Vec<(ObjectRef, Option<String>)> = objects
        .iter()
        .map(|live| {
            let at = ObjectRef::new(
                kind.gvk.clone(),
                object::namespace(live),
                object::name(live).unwrap_or_default(),
            );
            (at, live["metadata"]["uid"].as_str().map(str::to_owned))
        })
        .collect();
    for (at, _) in &places {
        attempt.begin_delete(at, DeletePropagation::Background).await?;
    }
    for (at, uid) in &places {
        attempt.gone(at, uid.as_deref()).await?;
    }
    let count = places.len();
    Ok(StepOutcome::noted(format!("{count} object{} deleted", if count == 1 { "" } else { "s" })))
}

/// The name of a selection in messages.
pub(crate) fn named(selection: &Selection) -> String {
    match &selection.name {
        Some(name) => format!("{}/{name}", selection.kind),
        None => match (&selection.selector, &selection.field_selector) {
            (None, None) => selection.kind.clone(),
            (selector, fields) => {
                let words: Vec<&str> = [selector, fields].into_iter().flatten().map(String::as_str).collect();
                format!("{} ({})", selection.kind, words.join(", "))
            }
        },
    }
}

/// Uninstalls a release and forgets its history.
pub(super) async fn release(
    attempt: &StepContext<'_>,
    name: &str,
    namespace: &str,
    absence: AbsentObject,
) -> Result<StepOutcome, AttemptError> {
    let storage = attempt.release_storage(namespace);
    let history = storage.read_history(name).await?;
    let Some(last) = history.last_release() else {
        return absent(&format!("release {name}@{namespace}"), absence);
    };
    if last.info.status == RevisionStatus::Uninstalled {
        forget(&storage, name).await?;
        return Ok(StepOutcome::noted("only its history was left"));
    }
    remove(attempt, name, namespace, attempt.left()).await?;
    forget(&storage, name).await?;
    Ok(StepOutcome::noted(format!("release {name} uninstalled")))
}

/// Lets the release engine take everything of a release away.
pub(super) async fn remove(
    attempt: &StepContext<'_>,
    name: &str,
    namespace: &str,
    timeout: Duration,
) -> Result<(), AttemptError> {
    let request = ReleaseRequest {
        name: name.into(),
        namespace: namespace.into(),
        content: ReleaseContent::Nothing,
        options: PlanOptions { driver: attempt.cluster().release_driver(), ..PlanOptions::default() },
    };
    let options = ExecuteOptions {
        timeout: Some(helm::remaining_time(attempt, timeout)),
        deletion_timeout: Some(timeout),
        ..ExecuteOptions::default()
    };
    let removed = helm::apply_release(attempt, &request, &options).await?;
    let report = removed.as_ref().map_or_else(Failure::report, Some);
    warn_of_kept(attempt, report.map_or(&[], |report| &report.kept));
    match removed {
        Ok(_) => Ok(()),
        Err(failure) => Err(helm::step_error(attempt, failure)),
    }
}

/// Tells what a delete leaves, and why.
fn warn_of_kept(attempt: &StepContext<'_>, kept: &[KeptObject]) {
    for KeptObject { object, why } in kept {
        match why {
            KeptReason::Owner(owner) => attempt.warn(format!("{object} stays: it belongs to {owner}")),
            KeptReason::Policy => attempt.note(format!("{object} stays: its policy says so")),
        }
    }
}

async fn forget(storage: &ReleaseStorage, name: &str) -> Result<(), AttemptError> {
    for revision in storage.list_revisions(name).await? {
        storage.delete(name, revision.revision).await?;
    }
    Ok(())
}

impl StepAction for Delete {
    fn describe(&self) -> String {
        match self {
            Self::Manifests { manifests, .. } => sources(manifests.len()),
            Self::Resource { selection, .. } => format!("{}{}", named(selection), scope(selection)),
            Self::Release { release, namespace, .. } => format!("release {release}@{namespace}"),
        }
    }

    fn plan<'a>(
        &'a self,
        cx: &'a StepContext<'a>,
        request: &'a PlanRequest<'a>,
    ) -> StepFuture<'a, StepPreview> {
        Box::pin(plan(cx, self, request))
    }

    fn perform<'a>(&'a self, cx: &'a StepContext<'a>) -> StepFuture<'a, StepOutcome> {
        Box::pin(run(cx, self))
    }

    fn irreversible(&self) -> Option<&'static str> {
        Some("a delete cannot be undone")
    }

    fn keeps_time(&self) -> bool {
        matches!(self, Self::Release { .. })
    }

    fn inputs(&self) -> StepInputs<'_> {
        match self {
            Self::Manifests { manifests, .. } => StepInputs::manifests(manifests),
            Self::Resource { .. } | Self::Release { .. } => StepInputs::default(),
        }
    }

    fn is_default(&self, _: &Step, key: &str, value: &Value) -> bool {
        key == "ignoreNotFound" && value == true
    }

    fn namespace(&self) -> Option<&str> {
        match self {
            Self::Manifests { namespace, .. } => namespace.as_deref(),
            Self::Resource { selection, .. } => selection.namespace.as_deref(),
            Self::Release { namespace, .. } => Some(namespace),
        }
    }
}

async fn plan(
    attempt: &StepContext<'_>,
    delete: &Delete,
    _: &PlanRequest<'_>,
) -> Result<StepPreview, AttemptError> {
    let names = match delete {
        Delete::Manifests { manifests: sources, namespace, .. } => {
            let place = attempt.world.place;
            let mut found = Vec::new();
            for object in manifests::load(sources, place.base, &*place.sources.fetcher).await? {
                let Some(kind) = attempt.cluster().find_kind(&object::gvk(&object)).await? else { continue };
                let at = kind.object_ref(&object, namespace.as_deref().unwrap_or("default"));
                if attempt.cluster().get(&at).await?.is_some() {
                    found.push(shown(&at));
                }
            }
            found
        }
        Delete::Resource { selection, .. } => match attempt.select(selection, &mut None).await? {
            Found::NoKind => {
                return Ok(StepPreview::new(
                    StepVerb::Unknown,
                    format!("type {} is not served", selection.kind),
                ));
            }
            Found::Objects(_, objects) => objects.iter().map(describe).collect(),
        },
        Delete::Release { release, namespace, .. } => {
            let storage = attempt.release_storage(namespace);
            let known = !storage.list_revisions(release).await?.is_empty();
            known.then(|| format!("release {release}@{namespace}")).into_iter().collect()
        }
    };
    let absence = match delete {
        Delete::Manifests { absence, .. }
        | Delete::Resource { absence, .. }
        | Delete::Release { absence, .. } => *absence,
    };
    let mut seen = match &names[..] {
        [] if absence == AbsentObject::Ignored => StepPreview::new(StepVerb::NoOp, "nothing is there"),
        [] => StepPreview::new(StepVerb::Unknown, "nothing is there, which fails with ignoreNotFound: false"),
        [one] => StepPreview::new(StepVerb::Delete, one.as_str()),
        several => {
            StepPreview::new(StepVerb::Delete, format!("{} objects: {}", several.len(), listed(several)))
        }
    };
    for name in names {
        seen.objects.add(ObjectFate::Delete, name);
    }
    Ok(seen)
}

/// The way it is written.
pub(super) const TYPE: StepType = StepType {
    key: "delete",
    needed: "exactly one of manifests, resource, release is required",
    decode: |block, _| decode(block).map(Action::Delete),
    definition: "DeleteOp",
    about: "Removes objects or a release.",
    schema,
};

fn decode(block: &Block<'_, '_>) -> Option<Delete> {
    let by_manifests =
        block.get("manifests").filter(|node| node.as_seq().is_none_or(|items| !items.is_empty()));
    let resource = block.filled("resource");
    let release = block.filled("release");
    let absence = match block.bool("ignoreNotFound") {
        Some(false) => AbsentObject::Refused,
        Some(true) | None => AbsentObject::Ignored,
    };
    let forms = usize::from(by_manifests.is_some())
        + usize::from(resource.is_some())
        + usize::from(release.is_some());
    let selection = ["selector", "fieldSelector", "allNamespaces"];
    if forms != 1 {
        for key in selection.into_iter().chain(["namespace"]) {
            block.raw(key);
        }
        let problem = Problem::error(format!(
            "expected exactly one of manifests, resource, release, got {}",
            fields::count(forms)
        ));
        block.missing("E320", problem);
        return None;
    }
    if resource.is_none() {
        for key in selection {
            if block.get(key).is_some() {
                block.error(block.key(key), key, "E321", format!("{key} goes only with resource"));
            }
        }
    }
    if let Some((node, text)) = resource {
        let codes = ["E325", "E322", "E323", "E324", "E326"];
        let selection = fields::selected(block, node, "resource", text, codes)?;
        if selection.name.is_none() && selection.selector.is_none() && selection.field_selector.is_none() {
            let place = match (&selection.namespace, selection.all_namespaces) {
                (_, true) => "all namespaces".to_owned(),
                (namespace, false) => format!("namespace {}", namespace.as_deref().unwrap_or("default")),
            };
            let problem = Problem::warning(format!("this removes every {} in {place}", selection.kind));
            block.report(node, "resource", "W003", problem.hint("name one, or give a selector"));
        }
        return Some(Delete::Resource { selection, absence });
    }
    let namespace = fields::namespace(block, "E308");
    if let Some((node, text)) = release {
        if let Some(problem) = names::release(text) {
            block.report(node, "release", "E213", problem);
        }
        let namespace = namespace.unwrap_or_else(|| "default".into());
        return Some(Delete::Release { release: text.to_owned(), namespace, absence });
    }
    Some(Delete::Manifests { manifests: fields::manifests(block)?, namespace, absence })
}

fn schema() -> Value {
    let mut properties = vec![
        ("manifests", with(list_of("ManifestSource", "Deletes what these define."), "minItems", json!(1))),
        ("resource", like("A type (`pods`) or a type and a name (`daemonset/aws-node`).", RESOURCE)),
        ("release", at_most(53, like("A Helm release to uninstall.", SUBDOMAIN))),
        ("ignoreNotFound", described("BoolOrRef", "Whether absence is success.")),
    ];
    properties.extend(selection());
    let schema = with(object(&[], properties), "oneOf", one_of(&["manifests", "resource", "release"]));
    let selects = |keys: &[&str]| json!({ "anyOf": one_of(keys) });
    let mut rules = one_scope("resource");
    if let Some(rules) = rules.as_array_mut() {
        rules.push(json!({
            "if": selects(&["selector", "fieldSelector", "allNamespaces"]), "then": { "required": ["resource"] },
        }));
    }
    with(schema, "allOf", rules)
}
