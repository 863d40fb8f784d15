//! `helm`: a chart taken to the cluster by the release engine.

mod engine;
mod fields;
mod install;
mod load;

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use slipway_cluster::helm::{Release, ReleaseHistory, RevisionStatus};

pub(super) use self::engine::{apply_release, remaining_time, step_error};
pub(crate) use self::load::{load_content, release_request};
use super::{StepAction, StepFuture, StepOutcome, StepType, StepWarning, delete};
use crate::context::StepContext;
use crate::error::AttemptError;
use crate::inputs::StepInputs;
use crate::model::{AbsentObject, Action, Auth, Helm, Step};
use crate::plan::earlier::Earlier;
use crate::plan::look::{PlanRequest, namespace_note};
use crate::plan::{Show, StepPreview, StepVerb};
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
    Pending(RevisionStatus, Option<jiff::Timestamp>),
}

pub(crate) fn decide(history: &ReleaseHistory, helm: &Helm) -> Decision {
    let Some(last) = history.last_release() else { return Decision::Install };
    let status = last.info.status;
    if status.is_pending() || status == RevisionStatus::Uninstalling {
        return Decision::Pending(status, last.info.last_deployed.timestamp());
    }
    if helm.skip_if_installed && is_installed(history) {
        return Decision::Skip;
    }
    if status == RevisionStatus::Uninstalled { Decision::Install } else { Decision::Upgrade }
}

/// Only a revision that went well counts; a failed first install does not.
fn is_installed(history: &ReleaseHistory) -> bool {
    let since =
        history.releases.iter().rposition(|release| release.info.status == RevisionStatus::Uninstalled);
    let since = since.map_or(0, |position| position + 1);
    history.releases[since..].iter().any(|release| release.info.status == RevisionStatus::Deployed)
}

fn is_good(release: &Release) -> bool {
    matches!(release.info.status, RevisionStatus::Deployed | RevisionStatus::Superseded)
}

impl StepAction for Helm {
    fn describe(&self) -> String {
        format!("{} -> {}", self.chart, self.namespace)
    }

    fn plan<'a>(
        &'a self,
        cx: &'a StepContext<'a>,
        request: &'a PlanRequest<'a>,
    ) -> StepFuture<'a, StepPreview> {
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
            let storage = cx.release_storage(&self.namespace);
            let known = !storage.list_revisions(&self.release).await?.is_empty();
            Ok(known.then(|| format!("release {}@{}", self.release, self.namespace)).into_iter().collect())
        })
    }

    fn undo<'a>(&'a self, cx: &'a StepContext<'a>) -> StepFuture<'a, StepOutcome> {
        Box::pin(delete::release(cx, &self.release, &self.namespace, AbsentObject::Ignored))
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

async fn plan(
    attempt: &StepContext<'_>,
    helm: &Helm,
    request: &PlanRequest<'_>,
) -> Result<StepPreview, AttemptError> {
    let storage = attempt.release_storage(&helm.namespace);
    let history = storage.read_history(&helm.release).await?;
    let namespace =
        namespace_note(attempt, &helm.namespace, load::missing_namespace(helm), request.earlier).await;
    let last = history.last_release().map(|last| {
        let (chart, version) = (last.chart.name().to_owned(), last.chart.version().to_owned());
        format!("revision {} {chart}-{version} {}", last.version, last.info.status)
    });
    let mut seen = match decide(&history, helm) {
        Decision::Skip => {
            return Ok(StepPreview::new(
                StepVerb::Skip,
                format!("{} (skipIf: installed)", last.unwrap_or_default()),
            ));
        }
        Decision::Install => StepPreview::new(StepVerb::Install, format!("no release yet; {namespace}")),
        Decision::Upgrade => {
            StepPreview::new(StepVerb::Upgrade, format!("{} → {}", last.unwrap_or_default(), helm.chart))
        }
        Decision::Pending(status, _) => StepPreview::new(
            StepVerb::Upgrade,
            format!("{} was left {status}; {namespace}", last.unwrap_or_default()),
        ),
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
