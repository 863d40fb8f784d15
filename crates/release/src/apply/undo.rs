//! What follows a run that failed and is to leave nothing behind.

use slipway_cluster::helm::{Release, Status};
use slipway_cluster::lock::Held;
use slipway_cluster::{Cluster, Deadline};
use slipway_event::Events;
use tokio_util::sync::CancellationToken;

use super::{Early, Options, Report, locked};
use crate::failure::Failure;
use crate::plan::{self, Content, Plan, Request};
use crate::resource::DeployType;

/// How a failed run is undone.
pub(super) enum Undo {
    /// Back to the last revision that was good.
    Rollback(u32),
    /// There never was one: the release goes, as with Helm. What it was before it was deleted once stays known.
    Delete { keep_history: bool },
}

impl Undo {
    /// How a run is undone, if that was asked for.
    pub(super) fn of(plan: &Plan, options: &Options) -> Option<Undo> {
        if !options.auto_rollback || !matches!(plan.moment, DeployType::Install | DeployType::Upgrade) {
            return None;
        }
        let is_good =
            |release: &&Release| matches!(release.info.status, Status::Deployed | Status::Superseded);
        let target = plan.history.releases.iter().rev().find(is_good).map(|release| release.version);
        let was_deleted =
            || plan.history.releases.iter().any(|release| release.info.status == Status::Uninstalled);
        Some(match target {
            Some(target) if plan.moment == DeployType::Upgrade => Undo::Rollback(target),
            _ => Undo::Delete { keep_history: was_deleted() },
        })
    }

    /// What is being done, for people.
    pub(super) fn doing(&self) -> &'static str {
        match self {
            Undo::Rollback(_) => "rolling back",
            Undo::Delete { .. } => "deleting it again",
        }
    }

    /// What was done, for people.
    pub(super) fn told(&self, undone: &Report) -> String {
        match self {
            Undo::Rollback(target) if undone.status == "skipped" => {
                format!("revision {target} is what is deployed")
            }
            Undo::Rollback(target) => {
                format!("rolled back to revision {target}, as revision {}", undone.revision)
            }
            Undo::Delete { .. } => "deleted again: there is no revision to roll back to".to_owned(),
        }
    }
}

/// Undoes a failed run, with time of its own: what cancelled the run must not stop the repair.
pub(super) async fn undo_after(
    cluster: &Cluster,
    request: &Request,
    undo: &Undo,
    options: &Options,
    events: &Events,
    held: &Held,
) -> Result<Report, Failure> {
    let (content, keep_history) = match undo {
        Undo::Rollback(target) => (Content::Revision(Some(*target)), request.options.keep_history),
        Undo::Delete { keep_history } => (Content::Nothing, *keep_history),
    };
    let settings = plan::Options { keep_history, ..request.options.clone() };
    let request = Request { content, options: settings, ..request.clone() };
    let options = Options { auto_rollback: false, ..options.clone() };
    let cluster = cluster.without_deadline();
    let cluster = &match &options.timeout {
        Some(timeout) => cluster.with_deadline(Deadline::after(timeout.duration())),
        None => cluster,
    };
    let (cancel, early) = (CancellationToken::new(), Early { plan: None, before: cluster.calls() });
    Box::pin(locked(cluster, &request, early, &options, events, &cancel, held, |_| Ok(()))).await
}
