//! `apply`: manifests made live, created or patched, or by server-side apply.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use slipway_cluster::wait::WaitCondition;
use slipway_cluster::{DeletePropagation, ErrorClass, ObjectPatch, WriteOptions};
use slipway_manifest::{ObjectRef, object};
use tokio::time::Instant;

use super::{StepAction, StepFuture, StepOutcome, StepType};
use crate::context::{MANAGER, StepContext, describe, passes, shown};
use crate::decode::actions as fields;
use crate::decode::block::Block;
use crate::error::AttemptError;
use crate::inputs::StepInputs;
use crate::manifests;
use crate::model::{Action, Apply, ManifestSource};
use crate::plan::earlier::Earlier;
use crate::plan::look::PlanRequest;
use crate::plan::words::{listed, sources};
use crate::plan::{ObjectFate, Objects, Show, StepPreview, StepVerb};
use crate::references::StepResolver;
use crate::schema::{LABEL_OR_NONE, described, like, list_of, object, with, word};
use slipway_problem::Problem;
use slipway_yaml::YamlNode;

/// Time an object may show no status before a condition of it is called hopeless.
const NO_STATUS: Duration = Duration::from_secs(30);

async fn run(attempt: &StepContext<'_>, apply: &Apply) -> Result<StepOutcome, AttemptError> {
    let place = attempt.world.place;
    let objects = manifests::load(&apply.manifests, place.base, &*place.sources.fetcher).await?;
    if let (true, Some(namespace)) = (apply.create_namespace, &apply.namespace) {
        attempt.ensure_namespace(namespace).await?;
    }
    let namespace = apply.namespace.as_deref().unwrap_or("default");
    let existing = if apply.skip_if_exists { all_exist(attempt, &objects, namespace).await? } else { None };
    let skipped = existing.is_some();
    let places = match existing {
        Some(places) => places,
        None => {
            let mut places = Vec::with_capacity(objects.len());
            for object in &objects {
                places.push(write(attempt, apply, object, namespace).await?);
            }
            places
        }
    };
    if let Some(condition) = &apply.wait_for {
        wait(attempt, condition, &places).await?;
    }
    Ok(if skipped {
        StepOutcome::noted(format!("all {} objects exist already (skipIf: exists)", objects.len()))
    } else {
        StepOutcome::noted(format!(
            "{} object{} applied",
            objects.len(),
            if objects.len() == 1 { "" } else { "s" }
        ))
    })
}

/// Finds the objects, if every one of them exists.
async fn all_exist(
    attempt: &StepContext<'_>,
    objects: &[Value],
    namespace: &str,
) -> Result<Option<Vec<ObjectRef>>, AttemptError> {
    let mut places = Vec::with_capacity(objects.len());
    for object in objects {
        let Some(kind) = attempt.world.kind(&object::gvk(object)).await? else { return Ok(None) };
        let at = kind.object_ref(object, namespace);
        if attempt.cluster().get(&at).await?.is_none() {
            return Ok(None);
        }
        places.push(at);
    }
    Ok(Some(places))
}

/// Writes one object, once its kind is served and its predecessor of the same name is gone.
async fn write(
    attempt: &StepContext<'_>,
    apply: &Apply,
    object: &Value,
    namespace: &str,
) -> Result<ObjectRef, AttemptError> {
    let gvk = object::gvk(object);
    let kind = attempt.kind(&gvk).await?;
    let at = kind.object_ref(object, namespace);
    let mut turn = 0;
    loop {
        let error = match send(attempt, apply, object, &at).await {
            Ok(()) => break,
            Err(error) => error,
        };
        let leaving = error.is_being_deleted();
        // A definition is announced a moment before its objects are taken.
        let coming = error.class == ErrorClass::NoKind && attempt.world.is_defined(&gvk);
        if leaving {
            attempt.awaits(format!("waiting for the old {} to be gone", shown(&at)), Vec::new());
        } else if coming {
            attempt.awaits(format!("waiting for the kind {gvk} to be served"), Vec::new());
        } else {
            return Err(error.into());
        }
        attempt.pause(&mut turn).await;
    }
    if gvk.kind == "CustomResourceDefinition" {
        attempt.world.define(object);
        attempt.cluster().invalidate_kinds().await;
    }
    Ok(at)
}

async fn send(
    attempt: &StepContext<'_>,
    apply: &Apply,
    object: &Value,
    at: &ObjectRef,
) -> Result<(), slipway_cluster::Error> {
    let cluster = attempt.cluster();
    if apply.server_side {
        return cluster.apply(at, object, &slipway_cluster::ApplyOptions::new(MANAGER)).await.map(drop);
    }
    let options = WriteOptions::for_manager(MANAGER);
    let Err(refused) = cluster.create(at, object, &options).await else { return Ok(()) };
    let exists = match refused.class {
        ErrorClass::AlreadyExists => !refused.is_being_deleted(),
        // A server checks what is to be created before it looks for the name: a manifest that says only what
        // shall change is no whole object, and still a good patch for one that is there.
        ErrorClass::Invalid => cluster.get(at).await.is_ok_and(|live| live.is_some()),
        _ => false,
    };
    if !exists {
        return Err(refused);
    }
    match attempt.patch(at, &ObjectPatch::Merge(object.clone())).await {
        // It went in between: the next turn creates it.
        Err(gone) if gone.class == ErrorClass::NotFound => {
            cluster.create(at, object, &options).await.map(drop)
        }
        other => other.map(drop),
    }
}

/// Waits until the condition holds for all of the objects at once.
async fn wait(attempt: &StepContext<'_>, text: &str, places: &[ObjectRef]) -> Result<(), AttemptError> {
    let condition = super::wait::condition(text)?;
    let began = Instant::now();
    let mut told = false;
    let mut turn = 0;
    loop {
        let mut unmet = Vec::new();
        for found in attempt.cluster().get_many(places).await.into_iter().zip(places) {
            match found {
                (Ok(Some(object)), _) if condition.is_met(Some(&object)) => {}
                (Ok(Some(object)), _) => unmet.push(object),
                (Ok(None), at) => unmet.push(placeholder(at)),
                (Err(error), at) if passes(&error) => unmet.push(placeholder(at)),
                (Err(error), _) => return Err(error.into()),
            }
        }
        if unmet.is_empty() {
            return Ok(());
        }
        let silent = unmet.iter().find(|object| object.get("status").is_none());
        if let (false, Some(silent), WaitCondition::Condition { .. }) = (told, silent, &condition)
            && began.elapsed() >= NO_STATUS.min(attempt.step.timeout / 2)
        {
            told = true;
            attempt.warn(format!("{} has no status, so {text} may never hold for it", describe(silent)));
        }
        let what = format!("{} of {} objects meet {text}", places.len() - unmet.len(), places.len());
        attempt.awaits(super::wait::last_seen(what, &condition, &unmet), unmet);
        attempt.pause(&mut turn).await;
    }
}

/// Stands for an object that is not there.
fn placeholder(at: &ObjectRef) -> Value {
    serde_json::json!({
        "apiVersion": at.gvk.api_version(), "kind": at.gvk.kind,
        "metadata": {"name": at.name, "namespace": at.namespace},
        "status": {"phase": "not found"},
    })
}

/// Deletes what was applied, last first; what is not there, or of a kind that is gone, is fine.
async fn undo(attempt: &StepContext<'_>, apply: &Apply) -> Result<StepOutcome, AttemptError> {
    let place = attempt.world.place;
    let objects = manifests::load(&apply.manifests, place.base, &*place.sources.fetcher).await?;
    let namespace = apply.namespace.as_deref().unwrap_or("default");
    let mut deleted = 0;
    for object in objects.iter().rev() {
        let gvk = object::gvk(object);
        let Some(kind) = attempt.world.kind(&gvk).await? else {
            attempt.warn(format!("the cluster serves no kind {gvk} any more: nothing to delete"));
            continue;
        };
        let at = kind.object_ref(object, namespace);
        let live = match attempt.cluster().get(&at).await {
            Ok(live) => live,
            Err(error) if error.is_absent() => None,
            Err(error) => return Err(error.into()),
        };
        if let Some(live) = live {
            attempt.delete(&at, &live, DeletePropagation::Background).await?;
            deleted += 1;
        }
        if gvk.kind == "CustomResourceDefinition" {
            attempt.cluster().invalidate_kinds().await;
        }
    }
    Ok(StepOutcome::noted(if deleted == 0 {
        "nothing was there".to_owned()
    } else {
        format!("{deleted} object{} deleted", if deleted == 1 { "" } else { "s" })
    }))
}

impl StepAction for Apply {
    fn describe(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} -> {namespace}", sources(self.manifests.len())),
            None => sources(self.manifests.len()),
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
        None
    }

    fn plan_undo<'a>(&'a self, cx: &'a StepContext<'a>) -> StepFuture<'a, Vec<String>> {
        Box::pin(present(cx, self))
    }

    fn undo<'a>(&'a self, cx: &'a StepContext<'a>) -> StepFuture<'a, StepOutcome> {
        Box::pin(undo(cx, self))
    }

    fn inputs(&self) -> StepInputs<'_> {
        StepInputs::manifests(&self.manifests)
    }

    fn skips_done(&self) -> bool {
        self.skip_if_exists
    }

    fn provide(&self, base: &Path, earlier: &mut Earlier) {
        earlier.namespaces.extend(self.namespace.clone().filter(|_| self.create_namespace));
        earlier.add_manifests(&self.manifests, base);
    }

    fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    fn resolve<'a>(&'a self, resolver: &'a StepResolver<'a>) -> StepFuture<'a, Option<Action>> {
        Box::pin(async {
            let mut resolved = None;
            for (index, source) in self.manifests.iter().enumerate() {
                let ManifestSource::Inline { text, at } = source else { continue };
                if let Some(text) = resolver.manifests(text).await? {
                    let apply = resolved.get_or_insert_with(|| self.clone());
                    apply.manifests[index] = ManifestSource::Inline { text, at: at.clone() };
                }
            }
            Ok(resolved.map(Action::Apply))
        })
    }
}

async fn plan(
    attempt: &StepContext<'_>,
    apply: &Apply,
    request: &PlanRequest<'_>,
) -> Result<StepPreview, AttemptError> {
    let place = attempt.world.place;
    let objects = manifests::load(&apply.manifests, place.base, &*place.sources.fetcher).await?;
    let namespace = apply.namespace.as_deref().unwrap_or("default");
    let mut told = Objects::default();
    let mut pairs: Vec<(&Value, Option<ObjectRef>, Option<Value>)> = Vec::new();
    let mut missing = None;
    for object in &objects {
        let gvk = object::gvk(object);
        let Some(kind) = attempt.cluster().find_kind(&gvk).await? else {
            let comes = request.earlier.kinds.contains(&gvk) || request.earlier.charts;
            let note = if comes { "may arrive in an earlier step" } else { "no step brings it" };
            missing.get_or_insert(format!("kind {} not served yet ({note})", gvk.kind));
            let name = object::name(object).unwrap_or_default();
            told.add(ObjectFate::Unresolved, format!("{}/{name}", gvk.kind.to_lowercase()));
            pairs.push((object, None, None));
            continue;
        };
        let at = kind.object_ref(object, namespace);
        let live = attempt.cluster().get(&at).await?;
        told.add(if live.is_some() { ObjectFate::Update } else { ObjectFate::Create }, shown(&at));
        pairs.push((object, Some(at), live));
    }
    let (created, updated) = (told.of(ObjectFate::Create), told.of(ObjectFate::Update));
    let all_exist = created.is_empty() && told.of(ObjectFate::Unresolved).is_empty();
    let mut seen = if apply.skip_if_exists && all_exist {
        return Ok(StepPreview::new(
            StepVerb::Skip,
            format!("all {} objects exist (skipIf: exists)", objects.len()),
        ));
    } else if let Some(missing) = missing {
        StepPreview::new(StepVerb::Unknown, missing)
    } else if updated.is_empty() {
        StepPreview::new(StepVerb::Create, listed(created))
    } else if created.is_empty() {
        StepPreview::new(StepVerb::Configure, listed(updated))
    } else {
        StepPreview::new(StepVerb::Configure, format!("{}; creates {}", listed(updated), listed(created)))
    };
    if request.show == Show::Differences {
        seen.diff = Some(crate::diff::of_objects(attempt, apply, &pairs).await);
    }
    seen.objects = told;
    Ok(seen)
}

/// Names those of the objects that are there, last first.
async fn present(attempt: &StepContext<'_>, apply: &Apply) -> Result<Vec<String>, AttemptError> {
    let place = attempt.world.place;
    let objects = manifests::load(&apply.manifests, place.base, &*place.sources.fetcher).await?;
    let mut found = Vec::new();
    for object in objects.iter().rev() {
        let Some(kind) = attempt.world.kind(&object::gvk(object)).await? else { continue };
        let at = kind.object_ref(object, apply.namespace.as_deref().unwrap_or("default"));
        if attempt.cluster().get(&at).await?.is_some() {
            found.push(shown(&at));
        }
    }
    Ok(found)
}

/// The way it is written.
pub(super) const TYPE: StepType = StepType {
    key: "apply",
    needed: "at least one of manifests is required",
    decode: |block, _| decode(block).map(Action::Apply),
    definition: "ApplyOp",
    about: "Applies manifests.",
    schema,
};

fn decode(block: &Block<'_, '_>) -> Option<Apply> {
    let manifests = fields::manifests(block);
    if block.get("manifests").is_none_or(|node| node.as_seq().is_some_and(<[YamlNode]>::is_empty)) {
        block.missing("E300", Problem::error("at least one of manifests is required"));
    }
    let namespace = fields::namespace(block, "E308");
    let create_namespace = block.bool("createNamespace").unwrap_or(false);
    if create_namespace && block.get("namespace").is_none() {
        block.error(
            block.key("createNamespace"),
            "createNamespace",
            "E304",
            "createNamespace needs namespace",
        );
    }
    let wait_for = block.filled("waitFor").map(|(node, text)| {
        fields::until(block, node, "waitFor", "E305", text);
        if text == "delete" {
            block.error(node, "waitFor", "E306", "waitFor cannot wait for what it applies to be deleted");
        }
        text.to_owned()
    });
    let skip_if_exists = fields::skip_if(block, "exists", "E307");
    let server_side = block.bool("serverSide").unwrap_or(false);
    Some(Apply { manifests: manifests?, namespace, create_namespace, skip_if_exists, server_side, wait_for })
}

fn schema() -> Value {
    let schema = object(
        &["manifests"],
        vec![
            (
                "manifests",
                with(list_of("ManifestSource", "What is applied, in order."), "minItems", json!(1)),
            ),
            ("namespace", like("The namespace of objects that name none.", LABEL_OR_NONE)),
            ("createNamespace", described("BoolOrRef", "Creates the namespace if it is missing.")),
            ("skipIf", word(&["exists"], "Writes nothing if everything exists.")),
            ("serverSide", described("BoolOrRef", "Applies on the server's side.")),
            (
                "waitFor",
                like(
                    "What every applied object must reach; see `wait.for`.",
                    "^(condition=[^=]+(=.+)?|jsonpath=.+)?$",
                ),
            ),
        ],
    );
    with(schema, "allOf", json!([needs_namespace()]))
}

/// `createNamespace: true` means nothing without a namespace.
fn needs_namespace() -> Value {
    json!({
        "if": { "properties": { "createNamespace": { "const": true } }, "required": ["createNamespace"] },
        "then": { "required": ["namespace"] },
    })
}
