//! What a destroy would take away.

use slipway_cluster::At;
use slipway_cluster::helm::{Driver, Storage};
use slipway_manifest::object;

use super::words::listed;
use super::{Plan, Seen, Verb, outline};
use crate::context::{RunContext, SharedContext, shown};
use crate::error::StepError;
use crate::manifests;
use crate::model::{Action, Document, Step};
use crate::run::RunError;
use crate::steps::{irreversible, job};

/// What a destroy would do.
pub async fn plan_destroy(document: &Document, place: RunContext<'_>) -> Result<Plan, RunError> {
    let mut plan = outline(document)?;
    plan.offline = false;
    let world = SharedContext::new(place, &document.name);
    for step in &document.steps {
        let Some(told) = plan.steps.iter_mut().find(|told| told.name == step.name) else { continue };
        if told.seen.is_some() {
            continue;
        }
        let seen = match irreversible(&step.action) {
            Some(why) => Seen::new(Verb::Skip, why),
            None => match doomed(&world, step).await {
                Ok(objects) if objects.is_empty() => Seen::new(Verb::NoOp, "nothing is there"),
                Ok(objects) => Seen::new(Verb::Delete, listed(&objects)),
                Err(error) => Seen::new(Verb::Unknown, error.to_string()),
            },
        };
        told.seen = Some(seen);
    }
    plan.levels.reverse();
    let last = plan.levels.len().saturating_sub(1);
    for step in &mut plan.steps {
        step.level = last - step.level;
    }
    plan.steps.sort_by_key(|step| step.level);
    Ok(plan.count().mask(place.events.redactor()))
}

/// What of a step is there to be taken away.
async fn doomed(world: &SharedContext<'_>, step: &Step) -> Result<Vec<String>, StepError> {
    match &step.action {
        Action::Helm(helm) => {
            let storage = Storage::new(world.cluster().clone(), Driver::Secret, helm.namespace.as_str());
            let known = !storage.revisions(&helm.release).await?.is_empty();
            Ok(known.then(|| format!("release {}@{}", helm.release, helm.namespace)).into_iter().collect())
        }
        Action::Apply(apply) => {
            let objects = manifests::load(&apply.manifests, world.place.base, world.place.remote).await?;
            let mut found = Vec::new();
            for object in objects.iter().rev() {
                let Some(kind) = world.kind(&object::gvk(object)).await? else { continue };
                let at = At::of(object, apply.namespace.as_deref().unwrap_or("default"), &kind);
                if world.cluster().get(&at).await?.is_some() {
                    found.push(shown(&at));
                }
            }
            Ok(found)
        }
        Action::Job(own) => {
            let at = job::place(own, &step.name);
            match world.cluster().get(&at).await? {
                Some(live) if job::is_foreign(&live) => Err(job::foreign(&at)),
                Some(_) => Ok(vec![shown(&at)]),
                None => Ok(Vec::new()),
            }
        }
        _ => Ok(Vec::new()),
    }
}
