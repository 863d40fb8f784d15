//! Looking at one step: what it would do to what is there now.

use std::time::Duration;

use serde_json::Value;
use slipway_cluster::At;
use slipway_cluster::helm::{Driver, Storage};
use slipway_manifest::{Gvk, object};
use tokio_util::sync::CancellationToken;

use super::earlier::Earlier;
use super::words::listed;
use super::{Fate, Objects, Seen, Show, Verb};
use crate::context::{Found, SharedContext, StepContext, shown};
use crate::diff::{self, Difference};
use crate::error::StepError;
use crate::manifests;
use crate::model::{Action, Apply, Delete, Helm, Job, Patch, Rollout, RolloutVerb, Step, Wait};
use crate::steps::{helm, job, rollout, wait};

/// How long looking at one step may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long it may take with a difference.
const PATIENCE_WITH_DIFF: Duration = Duration::from_secs(120);

pub(super) async fn at(world: &SharedContext<'_>, step: &Step, show: Show, earlier: &Earlier) -> Seen {
    let patience = if show == Show::Differences { PATIENCE_WITH_DIFF } else { PATIENCE };
    let attempt = StepContext::new(world, step, CancellationToken::new(), None);
    let work = async {
        match &step.action {
            Action::Helm(helm) => look_helm(&attempt, helm, show, earlier).await,
            Action::Apply(apply) => look_apply(&attempt, apply, show, earlier).await,
            Action::Delete(delete) => look_delete(&attempt, delete).await,
            Action::Patch(patch) => look_patch(&attempt, patch, show).await,
            Action::Wait(wait) => look_wait(&attempt, wait).await,
            Action::Rollout(rollout) => look_rollout(&attempt, rollout).await,
            Action::Job(job) => look_job(&attempt, job).await,
        }
    };
    match tokio::time::timeout(patience, work).await {
        Ok(Ok(seen)) => seen,
        Ok(Err(error)) => {
            let mut seen = Seen::new(Verb::Unknown, first_line(&error.message));
            if show == Show::Differences {
                seen.diff = Some(Difference::unavailable(first_line(&error.message)));
            }
            seen
        }
        Err(_) => Seen::new(Verb::Unknown, format!("looking took longer than {} s", patience.as_secs())),
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

async fn namespace_note(attempt: &StepContext<'_>, name: &str, creates: bool, earlier: &Earlier) -> String {
    let at = At::new(Gvk::new("", "v1", "Namespace"), None, name);
    let exists = attempt.cluster().get(&at).await.map(|live| live.is_some()).unwrap_or(true);
    if exists {
        "namespace exists".to_owned()
    } else if creates {
        format!("creates namespace {name}")
    } else if earlier.namespaces.contains(name) {
        format!("namespace {name} comes in another step")
    } else {
        format!("namespace {name} is missing")
    }
}

async fn look_helm(
    attempt: &StepContext<'_>,
    helm: &Helm,
    show: Show,
    earlier: &Earlier,
) -> Result<Seen, StepError> {
    let storage = Storage::new(attempt.cluster().clone(), Driver::Secret, helm.namespace.as_str());
    let history = storage.history(&helm.release).await?;
    let namespace = namespace_note(attempt, &helm.namespace, helm.create_namespace, earlier).await;
    let last = history.last().map(|last| {
        let (chart, version) = (last.chart.name().to_owned(), last.chart.version().to_owned());
        format!("revision {} {chart}-{version} {}", last.version, last.info.status)
    });
    let mut seen = match helm::decide(&history, helm) {
        helm::Decision::Skip => {
            return Ok(Seen::new(Verb::Skip, format!("{} (skipIf: installed)", last.unwrap_or_default())));
        }
        helm::Decision::Install => Seen::new(Verb::Install, format!("no release yet; {namespace}")),
        helm::Decision::Upgrade => {
            Seen::new(Verb::Upgrade, format!("{} → {}", last.unwrap_or_default(), helm.chart))
        }
        helm::Decision::Pending(status, _) => {
            Seen::new(Verb::Upgrade, format!("{} was left {status}; {namespace}", last.unwrap_or_default()))
        }
    };
    if show == Show::Differences {
        seen.diff = Some(diff::of_release(attempt, helm, &history).await);
    }
    Ok(seen)
}

async fn look_apply(
    attempt: &StepContext<'_>,
    apply: &Apply,
    show: Show,
    earlier: &Earlier,
) -> Result<Seen, StepError> {
    let place = attempt.world.place;
    let objects = manifests::load(&apply.manifests, place.base, place.remote).await?;
    let namespace = apply.namespace.as_deref().unwrap_or("default");
    let mut told = Objects::default();
    let mut pairs: Vec<(&Value, Option<At>, Option<Value>)> = Vec::new();
    let mut missing = None;
    for object in &objects {
        let gvk = object::gvk(object);
        let Some(kind) = attempt.cluster().kind(&gvk).await? else {
            let comes = earlier.kinds.contains(&gvk) || earlier.charts;
            let note = if comes { "may arrive in an earlier step" } else { "no step brings it" };
            missing.get_or_insert(format!("kind {} not served yet ({note})", gvk.kind));
            let name = object::name(object).unwrap_or_default();
            told.add(Fate::Unresolved, format!("{}/{name}", gvk.kind.to_lowercase()));
            pairs.push((object, None, None));
            continue;
        };
        let at = At::of(object, namespace, &kind);
        let live = attempt.cluster().get(&at).await?;
        told.add(if live.is_some() { Fate::Update } else { Fate::Create }, shown(&at));
        pairs.push((object, Some(at), live));
    }
    let (created, updated) = (told.of(Fate::Create), told.of(Fate::Update));
    let all_exist = created.is_empty() && told.of(Fate::Unresolved).is_empty();
    let mut seen = if apply.skip_if_exists && all_exist {
        return Ok(Seen::new(Verb::Skip, format!("all {} objects exist (skipIf: exists)", objects.len())));
    } else if let Some(missing) = missing {
        Seen::new(Verb::Unknown, missing)
    } else if updated.is_empty() {
        Seen::new(Verb::Create, listed(created))
    } else if created.is_empty() {
        Seen::new(Verb::Configure, listed(updated))
    } else {
        Seen::new(Verb::Configure, format!("{}; creates {}", listed(updated), listed(created)))
    };
    if show == Show::Differences {
        seen.diff = Some(diff::of_objects(attempt, apply, &pairs).await);
    }
    seen.objects = told;
    Ok(seen)
}

async fn look_delete(attempt: &StepContext<'_>, delete: &Delete) -> Result<Seen, StepError> {
    let names = match delete {
        Delete::Manifests { manifests: sources, namespace, .. } => {
            let place = attempt.world.place;
            let mut found = Vec::new();
            for object in manifests::load(sources, place.base, place.remote).await? {
                let Some(kind) = attempt.cluster().kind(&object::gvk(&object)).await? else { continue };
                let at = At::of(&object, namespace.as_deref().unwrap_or("default"), &kind);
                if attempt.cluster().get(&at).await?.is_some() {
                    found.push(shown(&at));
                }
            }
            found
        }
        Delete::Resource { selection, .. } => match attempt.select(selection, &mut None).await? {
            Found::NoKind => {
                return Ok(Seen::new(Verb::Unknown, format!("type {} is not served", selection.kind)));
            }
            Found::Objects(_, objects) => objects.iter().map(crate::context::describe).collect(),
        },
        Delete::Release { release, namespace, .. } => {
            let storage = Storage::new(attempt.cluster().clone(), Driver::Secret, namespace.as_str());
            let known = !storage.revisions(release).await?.is_empty();
            known.then(|| format!("release {release}@{namespace}")).into_iter().collect()
        }
    };
    let ignore = match delete {
        Delete::Manifests { ignore_not_found, .. }
        | Delete::Resource { ignore_not_found, .. }
        | Delete::Release { ignore_not_found, .. } => *ignore_not_found,
    };
    let mut seen = match &names[..] {
        [] if ignore => Seen::new(Verb::NoOp, "nothing is there"),
        [] => Seen::new(Verb::Unknown, "nothing is there, which fails with ignoreNotFound: false"),
        [one] => Seen::new(Verb::Delete, one.as_str()),
        several => Seen::new(Verb::Delete, format!("{} objects: {}", several.len(), listed(several))),
    };
    for name in names {
        seen.objects.add(Fate::Delete, name);
    }
    Ok(seen)
}

async fn look_patch(attempt: &StepContext<'_>, patch: &Patch, show: Show) -> Result<Seen, StepError> {
    let Some(kind) = attempt.world.named(&patch.kind).await? else {
        return Ok(Seen::new(Verb::Unknown, format!("type {} is not served yet", patch.kind)));
    };
    let at =
        At::new(kind.gvk.clone(), kind.namespaced.then_some(patch.namespace.as_str()), patch.name.as_str());
    let Some(live) = attempt.cluster().get(&at).await? else {
        return Ok(Seen::new(Verb::Unknown, format!("{} is not there yet", shown(&at))));
    };
    let mut seen = Seen::new(Verb::Configure, shown(&at));
    if show == Show::Differences {
        seen.diff = Some(diff::of_patch(attempt, patch, &at, &live).await);
    }
    Ok(seen)
}

async fn look_wait(attempt: &StepContext<'_>, wait: &Wait) -> Result<Seen, StepError> {
    let condition = wait::condition(&wait.until)?;
    let found = attempt.select(&wait.on, &mut None).await?;
    Ok(match wait::judge(&condition, &found, wait) {
        wait::Verdict::Holds(note) => Seen::new(Verb::NoOp, note),
        wait::Verdict::Waits(what, _) => Seen::new(Verb::Wait, what),
    })
}

async fn look_rollout(attempt: &StepContext<'_>, own: &Rollout) -> Result<Seen, StepError> {
    let at = rollout::place(own);
    let live = attempt.cluster().get(&at).await?;
    Ok(match (own.what, live) {
        (RolloutVerb::Restart, Some(_)) => Seen::new(Verb::Restart, shown(&at)),
        (RolloutVerb::Restart, None) => Seen::new(Verb::Unknown, format!("{} is not there yet", shown(&at))),
        (RolloutVerb::Status, None) => Seen::new(Verb::Wait, format!("{} is not there yet", shown(&at))),
        (RolloutVerb::Status, Some(live)) => match rollout::progress(&live) {
            rollout::Progress::Complete => Seen::new(Verb::NoOp, format!("{} is rolled out", shown(&at))),
            rollout::Progress::Waits(why) => Seen::new(Verb::Wait, why),
            rollout::Progress::Stuck(why) | rollout::Progress::Never(why) => Seen::new(Verb::Unknown, why),
        },
    })
}

async fn look_job(attempt: &StepContext<'_>, own: &Job) -> Result<Seen, StepError> {
    let at = job::place(own, &attempt.step.name);
    Ok(match attempt.cluster().get(&at).await? {
        None => Seen::new(Verb::Run, "first run"),
        Some(live) if job::is_foreign(&live) => {
            Seen::new(Verb::Unknown, format!("{} is not managed by khook: apply would fail", shown(&at)))
        }
        Some(live) if own.skip_if_succeeded && job::is_complete(&live) => {
            Seen::new(Verb::Skip, "it has succeeded (skipIf: succeeded)")
        }
        Some(_) => Seen::new(Verb::Run, format!("replaces {}", shown(&at))),
    })
}
