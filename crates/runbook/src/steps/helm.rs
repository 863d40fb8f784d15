//! `helm`: a chart taken to the cluster by the release engine.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use slipway_chart::UserValues;
use slipway_cluster::helm::{Driver, History, Release, Status, Storage};
use slipway_event::{Event, Events, Record, RunId, Sink};
use slipway_release::source::Backing;
use slipway_release::{Content, Failure, Request, Source, apply as engine, plan};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Did, delete};
use crate::error::{ErrorKind, StepError};
use crate::model::{ChartSource, Helm, ValuesSource};
use crate::remote::shown;
use crate::world::{Attempt, Place};

/// How many revisions are kept.
const HISTORY: u32 = 10;

/// What an install would do, from what is there.
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

pub(super) async fn install(attempt: &Attempt<'_>, helm: &Helm) -> Result<Did, StepError> {
    let storage = Storage::new(attempt.cluster().clone(), Driver::Secret, helm.namespace.as_str());
    let history = within(attempt, async { Ok(storage.history(&helm.release).await?) }).await?;
    match decide(&history, helm) {
        Decision::Skip => {
            let revision = history.deployed().map_or(0, |release| release.version);
            return Ok(Did::noted(format!("revision {revision} is deployed already (skipIf: installed)")));
        }
        Decision::Pending(status, since) => abandoned(attempt, helm, status, since)?,
        Decision::Install | Decision::Upgrade => {}
    }
    if helm.create_namespace {
        within(attempt, attempt.ensure_namespace(&helm.namespace)).await?;
    }
    let content = within(attempt, content(&attempt.world.place, helm)).await?;
    let request = request(helm, content, &history);
    let timeout = attempt.left().max(Duration::from_millis(1));
    let options = engine::Options {
        timeout: Some(given(attempt, timeout)),
        auto_rollback: helm.atomic,
        history_limit: HISTORY,
        create_namespace: helm.create_namespace,
        ..engine::Options::default()
    };
    let stop = stop_at(attempt, timeout);
    let events = quiet(attempt);
    let applied = engine::apply(attempt.cluster(), &request, &options, &events, stop.token.clone()).await;
    drop(stop);
    let failure = match applied {
        Ok(report) => {
            let verb = if history.releases.iter().any(is_good) { "upgraded to" } else { "installed" };
            return Ok(Did::noted(format!("{verb} revision {}", report.revision)));
        }
        Err(failure) => failure,
    };
    let wrote = failure.report().is_some();
    let rolled_back = failure.report().and_then(|report| report.rollback.as_ref()).map(|back| back.revision);
    let mut error = told(attempt, failure);
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

/// What is left of a step's time; prints as the step's own timeout.
pub(super) fn given(attempt: &Attempt<'_>, left: Duration) -> engine::Timeout {
    engine::Timeout::new(left, engine::Timeout::from(attempt.step.timeout).to_string())
}

/// Whether a release left pending may be taken over: if it was left by this runbook, or long ago.
fn abandoned(
    attempt: &Attempt<'_>,
    helm: &Helm,
    status: Status,
    since: Option<jiff::Timestamp>,
) -> Result<(), StepError> {
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
    Err(StepError::new(ErrorKind::Conflict, message)
        .hint("wait for it; if it died, run again once it is older than the step's timeout"))
}

async fn undo_install(attempt: &Attempt<'_>, helm: &Helm, storage: &Storage) -> Result<(), StepError> {
    if storage.revisions(&helm.release).await?.is_empty() {
        return Ok(());
    }
    // What stopped the attempt must not stop the repair, which has time of its own.
    let repair = Attempt::new(attempt.world, attempt.step, CancellationToken::new(), None);
    delete::remove(&repair, &helm.release, &helm.namespace, attempt.step.timeout).await?;
    for revision in storage.revisions(&helm.release).await? {
        storage.delete(&helm.release, revision.revision).await?;
    }
    Ok(())
}

/// What the release engine is asked for. Definitions beside the templates are for the first install.
pub(crate) fn request(helm: &Helm, content: Content, history: &History) -> Request {
    Request {
        name: helm.release.clone(),
        namespace: helm.namespace.clone(),
        content,
        options: plan::Options {
            no_install_crds: history.releases.iter().any(is_good),
            no_final_tracking: !helm.wait,
            track_hooks: true,
            new_revision: true,
            ..plan::Options::default()
        },
    }
}

/// The chart, brought here if need be, and its values: files in order, then what the step says itself.
pub(crate) async fn content(place: &Place<'_>, helm: &Helm) -> Result<Content, StepError> {
    let fetch = |message: String| StepError::new(ErrorKind::Fetch, message);
    let path = match &helm.chart {
        ChartSource::Path(path) => {
            let path = place.base.join(path);
            if !path.exists() {
                return Err(fetch(format!("chart {} does not exist", path.display())).permanent());
            }
            path
        }
        remote => place.remote.chart(remote).await.map_err(|error| {
            let failed = fetch(format!("chart {remote}: {error}"));
            if error.permanent { failed.permanent() } else { failed }
        })?,
    };
    let mut values = UserValues::default();
    for source in &helm.values_from {
        let (name, bytes) = match source {
            ValuesSource::File(path) => {
                let file = place.base.join(path);
                let bytes = std::fs::read(&file);
                let bytes = bytes.map_err(|e| fetch(format!("valuesFrom {path}: {e}")).permanent())?;
                (path.clone(), bytes)
            }
            ValuesSource::Url(url) => {
                let name = shown(url);
                let bytes = place.remote.file(url).await;
                let bytes = bytes.map_err(|error| fetch(format!("valuesFrom {name}: {error}")))?;
                (name, bytes)
            }
        };
        values.files.push((name, bytes));
    }
    if !helm.values.is_empty() {
        let own = Value::Object(helm.values.clone()).to_string();
        values.files.push(("values".to_owned(), own.into_bytes()));
    }
    Ok(Content::Source { source: Source::Chart(path), values: Box::new(values), backing: Backing::default() })
}

/// A failure of the engine, in the words of a step.
pub(super) fn told(attempt: &Attempt<'_>, failure: Failure) -> StepError {
    let stopped = matches!(failure, Failure::Cancelled { .. });
    let message = failure.to_string();
    let mut error = StepError::from(failure);
    if stopped && !attempt.cancel.is_cancelled() {
        // Nobody stopped the run: the attempt's time was over.
        error = StepError::new(
            ErrorKind::Timeout,
            format!("timed out after {:?}: {message}", attempt.step.timeout),
        );
    }
    if message.contains("hook") && error.kind == ErrorKind::Api {
        error.kind = ErrorKind::Hook;
    }
    error
}

/// Stops what takes too long before the engine itself is at work, or when the run is stopped.
async fn within<T>(
    attempt: &Attempt<'_>,
    work: impl Future<Output = Result<T, StepError>>,
) -> Result<T, StepError> {
    tokio::select! {
        biased;
        done = attempt.trouble.watch(work) => done,
        () = attempt.cancel.cancelled() => Err(attempt.stopped().await),
        () = tokio::time::sleep_until(attempt.deadline) => Err(attempt.stopped().await),
    }
}

/// A token that fires when the run is stopped or the time is over.
pub(super) struct Stop {
    pub(super) token: CancellationToken,
    _ended: DropGuard,
}

pub(super) fn stop_at(attempt: &Attempt<'_>, timeout: Duration) -> Stop {
    let token = attempt.cancel.child_token();
    let ended = CancellationToken::new();
    let (stop, over) = (token.clone(), ended.clone());
    let deadline = Instant::now() + timeout;
    tokio::spawn(async move {
        tokio::select! {
            () = over.cancelled() => {}
            // The engine's own timeout says more; this is for what happens around it.
            () = tokio::time::sleep_until(deadline + Duration::from_secs(1)) => stop.cancel(),
        }
    });
    Stop { token, _ended: ended.drop_guard() }
}

/// The engine's events without its account of nodes: here the step is the node.
pub(super) fn quiet(attempt: &Attempt<'_>) -> Events {
    struct Part {
        events: Events,
        step: String,
    }
    impl Sink for Part {
        fn take(&self, record: &Record) {
            let mut event = record.event.clone();
            match &mut event {
                Event::RunStarted { .. }
                | Event::RunFinished { .. }
                | Event::NodeStarted { .. }
                | Event::NodeRetrying { .. }
                | Event::NodeFinished { .. }
                | Event::Summary { .. } => return,
                Event::Object { node, .. } | Event::Log { node, .. } | Event::Progress { node, .. } => {
                    *node = Some(self.step.clone());
                }
                Event::Warning { .. } => {}
            }
            self.events.send(event);
        }
    }
    struct Same(Events);
    impl slipway_event::Clock for Same {
        fn now(&self) -> jiff::Timestamp {
            self.0.clock().now()
        }
    }
    let events = attempt.world.place.events;
    let clock = Arc::new(Same(events.clone()));
    let sink = Arc::new(Part { events: events.clone(), step: attempt.step.name.clone() });
    Events::new(RunId::clone(events.run()), clock, events.redactor().clone(), sink)
}
