//! Installs or upgrades a release, and takes a failed first install away.

use std::time::Duration;

use slipway_cluster::helm::{ReleaseStorage, RevisionStatus};
use slipway_release::ExecuteOptions;
use tokio_util::sync::CancellationToken;

use super::engine::{apply_release, remaining_time, step_error, within};
use super::load::{load_content, release_request};
use super::{Decision, decide, is_good};
use crate::context::StepContext;
use crate::error::{AttemptError, ErrorKind};
use crate::model::Helm;
use crate::steps::{StepOutcome, delete};

/// The number of revisions that are kept.
const HISTORY: u32 = 10;

/// Makes one attempt.
pub(super) async fn install(attempt: &StepContext<'_>, helm: &Helm) -> Result<StepOutcome, AttemptError> {
    let storage = attempt.release_storage(&helm.namespace);
    let history = within(attempt, async { Ok(storage.read_history(&helm.release).await?) }).await?;
    match decide(&history, helm) {
        Decision::Skip => {
            let revision = history.last_deployed().map_or(0, |release| release.version);
            return Ok(StepOutcome::noted(format!(
                "revision {revision} is deployed already (skipIf: installed)"
            )));
        }
        Decision::Pending(status, since) => abandoned(attempt, helm, status, since)?,
        Decision::Install | Decision::Upgrade => {}
    }
    if helm.create_namespace {
        within(attempt, attempt.ensure_namespace(&helm.namespace)).await?;
    }
    let content = within(attempt, load_content(&attempt.world.place, helm)).await?;
    let request = release_request(helm, content, &history, attempt.cluster().release_driver());
    let timeout = attempt.left().max(Duration::from_millis(1));
    let options = ExecuteOptions {
        timeout: Some(remaining_time(attempt, timeout)),
        // A first install is undone below, in the words of the step.
        auto_rollback: helm.atomic && history.releases.iter().any(is_good),
        history_limit: HISTORY,
        ..ExecuteOptions::default()
    };
    let failure = match apply_release(attempt, &request, &options).await? {
        Ok(report) => {
            let verb = if history.releases.iter().any(is_good) { "upgraded to" } else { "installed" };
            return Ok(StepOutcome::noted(format!("{verb} revision {}", report.revision)));
        }
        Err(failure) => failure,
    };
    let wrote = failure.report().is_some();
    let rolled_back = failure.report().and_then(|report| report.rollback.as_ref()).map(|back| back.revision);
    let mut error = step_error(attempt, failure);
    if !helm.atomic || !wrote {
        return Err(error);
    }
    if let Some(revision) = rolled_back {
        error.message.push_str(&format!("\nrolled back: revision {revision} is as the last good one was"));
        error.kind = if error.kind == ErrorKind::Canceled { error.kind } else { ErrorKind::Rollback };
        return Err(error);
    }
    // A release that was good once is never taken away, even if going back failed.
    if history.releases.iter().any(is_good) {
        return Err(error);
    }
    // Nothing to go back to: what the failed install left goes away, history and all.
    let undone = undo_install(attempt, helm, &storage).await;
    error.message.push_str(&match undone {
        Ok(()) => "\nnothing to roll back to: the release was uninstalled".to_owned(),
        Err(why) => format!("\nuninstalling what was left failed too: {why}"),
    });
    Err(error)
}

/// Takes over a release left pending, if it was left by this runbook or long ago.
fn abandoned(
    attempt: &StepContext<'_>,
    helm: &Helm,
    status: RevisionStatus,
    since: Option<jiff::Timestamp>,
) -> Result<(), AttemptError> {
    let now = attempt.world.place.events.clock().now();
    let age = since.map(|since| now.duration_since(since));
    let is_ours = match (attempt.interrupted_since, since) {
        // Records keep whole seconds.
        (Some(ours), Some(since)) => since.as_second() >= ours.as_second(),
        (ours, None) => ours.is_some(),
        (None, _) => false,
    };
    let is_old =
        age.is_none_or(|age| age >= jiff::SignedDuration::try_from(attempt.step.timeout).unwrap_or_default());
    let text = since.map_or_else(|| "an unknown time".to_owned(), |since| since.to_string());
    if is_ours || is_old {
        attempt.warn(format!(
            "release {} was left {status} since {text}: abandoned operation recovered",
            helm.release
        ));
        return Ok(());
    }
    let message =
        format!("release {}: another operation is in progress ({status}) since {text}", helm.release);
    Err(AttemptError::new(ErrorKind::Conflict, message)
        .hint("wait for it; if it died, run again once it is older than the step's timeout"))
}

async fn undo_install(
    attempt: &StepContext<'_>,
    helm: &Helm,
    storage: &ReleaseStorage,
) -> Result<(), AttemptError> {
    if storage.list_revisions(&helm.release).await?.is_empty() {
        return Ok(());
    }
    // What stopped the attempt must not stop the repair, which has time of its own.
    let repair = StepContext::new(attempt.world, attempt.step, CancellationToken::new(), None);
    delete::remove(&repair, &helm.release, &helm.namespace, attempt.step.timeout).await?;
    for revision in storage.list_revisions(&helm.release).await? {
        storage.delete(&helm.release, revision.revision).await?;
    }
    Ok(())
}
