//! `helm`: a chart taken to the cluster by the release engine.

mod engine;
mod fields;
mod install;
mod load;

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use slipway_cluster::helm::{Driver, History, Release, Status, Storage};

pub(super) use self::engine::{apply_release, remaining_time, step_error};
pub(crate) use self::load::{load_content, release_request};
use super::{StepAction, StepFuture, StepOutcome, StepType, StepWarning, delete};
use crate::context::StepContext;
use crate::error::StepError;
use crate::inputs::StepInputs;
use crate::model::{Action, Auth, Helm, Step};
use crate::plan::earlier::Earlier;
use crate::plan::look::{PlanRequest, namespace_note};
use crate::plan::{Seen, Show, Verb};
use crate::references::{self, StepResolver};

/// An atomic release that is given less time than this hardly ever gets ready.
const SHORT: Duration = Duration::from_secs(60);

/// The way of an install, from what is there.
pub(crate) enum Decision {
    /// `skipIf: installed` holds.
    Skip,
    Install,
    Upgrade,
    /// Somebody's operation is under way, or was left that way.
    Pending(Status, Option<jiff::Timestamp>),
}

pub(crate) fn decide(history: &History, helm: &Helm) -> Decision {
    let Some(last) = history.last() else { return Decision::Install };
    let status = last.info.status;
    if status.is_pending() || status == Status::Uninstalling {
        return Decision::Pending(status, last.info.last_deployed.timestamp());
    }
    if helm.skip_if_installed && is_installed(history) {
        return Decision::Skip;
    }
    if status == Status::Uninstalled { Decision::Install } else { Decision::Upgrade }
}

/// Only a revision that went well counts; a failed first install does not.
fn is_installed(history: &History) -> bool {
    let since = history.releases.iter().rposition(|release| release.info.status == Status::Uninstalled);
    let since = since.map_or(0, |position| position + 1);
    history.releases[since..].iter().any(|release| release.info.status == Status::Deployed)
}

fn is_good(release: &Release) -> bool {
    matches!(release.info.status, Status::Deployed | Status::Superseded)
}

impl StepAction for Helm {
    fn describe(&self) -> String {
        format!("{} -> {}", self.chart, self.namespace)
    }

    fn plan<'a>(&'a self, cx: &'a StepContext<'a>, request: &'a PlanRequest<'a>) -> StepFuture<'a, Seen> {
        Box::pin(plan(cx, self, request))
    }

    fn perform<'a>(&'a self, cx: &'a StepContext<'a>) -> StepFuture<'a, StepOutcome> {
        Box::pin(install::install(cx, self))
    }

    fn irreversible(&self) -> Option<&'static str> {
        None
    }

    fn plan_undo<'a>(&'a self, cx: &'a StepContext<'a>) -> StepFuture<'a, Vec<String>> {
        Box::pin(async {
            let storage = Storage::new(cx.cluster().clone(), Driver::Secret, self.namespace.as_str());
            let known = !storage.revisions(&self.release).await?.is_empty();
            Ok(known.then(|| format!("release {}@{}", self.release, self.namespace)).into_iter().collect())
        })
    }

    fn undo<'a>(&'a self, cx: &'a StepContext<'a>) -> StepFuture<'a, StepOutcome> {
        Box::pin(delete::release(cx, &self.release, &self.namespace, true))
    }

    fn keeps_time(&self) -> bool {
        true
    }

    fn inputs(&self) -> StepInputs<'_> {
        StepInputs { chart: Some(&self.chart), values: &self.values_from, ..StepInputs::default() }
    }

    fn is_default(&self, step: &Step, key: &str, value: &Value) -> bool {
        match key {
            "release" => *value == step.name,
            "namespace" => value == "default",
            _ => false,
        }
    }

    fn skips_done(&self) -> bool {
        self.skip_if_installed
    }

    fn provide(&self, _: &Path, earlier: &mut Earlier) {
        earlier.charts = true;
        earlier.namespaces.extend(self.create_namespace.then(|| self.namespace.clone()));
    }

    fn namespace(&self) -> Option<&str> {
        Some(&self.namespace)
    }

    fn uses_releases(&self) -> bool {
        true
    }

    fn lint(&self, step: &Step, _: &[&str]) -> Vec<StepWarning> {
        let is_short = self.atomic && step.timeout < SHORT;
        let message = || {
            format!(
                "atomic with a timeout of {:?} rolls back sooner than most charts are ready",
                step.timeout
            )
        };
        let warning = is_short.then(|| StepWarning {
            code: "W015",
            message: message(),
            hint: "give it a minute or more",
        });
        warning.into_iter().collect()
    }

    fn resolve<'a>(&'a self, resolver: &'a StepResolver<'a>) -> StepFuture<'a, Option<Action>> {
        Box::pin(async {
            let Some(auth) = self.chart.auth() else { return Ok(None) };
            let tree = json!({"username": auth.username, "password": auth.password});
            let Some(tree) = resolver.tree(&tree).await? else { return Ok(None) };
            let (username, password) =
                (references::text(&tree["username"]), references::text(&tree["password"]));
            let mut helm = self.clone();
            helm.chart = helm.chart.with_auth(Auth { username, password });
            Ok(Some(Action::Helm(helm)))
        })
    }
}

async fn plan(attempt: &StepContext<'_>, helm: &Helm, request: &PlanRequest<'_>) -> Result<Seen, StepError> {
    let storage = Storage::new(attempt.cluster().clone(), Driver::Secret, helm.namespace.as_str());
    let history = storage.history(&helm.release).await?;
    let namespace = namespace_note(attempt, &helm.namespace, helm.create_namespace, request.earlier).await;
    let last = history.last().map(|last| {
        let (chart, version) = (last.chart.name().to_owned(), last.chart.version().to_owned());
        format!("revision {} {chart}-{version} {}", last.version, last.info.status)
    });
    let mut seen = match decide(&history, helm) {
        Decision::Skip => {
            return Ok(Seen::new(Verb::Skip, format!("{} (skipIf: installed)", last.unwrap_or_default())));
        }
        Decision::Install => Seen::new(Verb::Install, format!("no release yet; {namespace}")),
        Decision::Upgrade => {
            Seen::new(Verb::Upgrade, format!("{} → {}", last.unwrap_or_default(), helm.chart))
        }
        Decision::Pending(status, _) => {
            Seen::new(Verb::Upgrade, format!("{} was left {status}; {namespace}", last.unwrap_or_default()))
        }
    };
    if request.show == Show::Differences {
        seen.diff = Some(crate::diff::of_release(attempt, helm, &history).await);
    }
    Ok(seen)
}

/// The way it is written.
pub(super) const TYPE: StepType = StepType {
    key: "helm",
    needed: "chart is required",
    decode: |block, step| fields::decode(block, step).map(Action::Helm),
    definition: "HelmOp",
    about: "Installs or upgrades a chart.",
    schema: fields::schema,
};
