//! Undoes a run that failed and is to leave nothing behind.

use slipway_cluster::Deadline;
use slipway_cluster::helm::{Release, RevisionStatus};
use tokio_util::sync::CancellationToken;

use super::locked::LockedRun;
use super::{ExecuteOptions, ReleaseReport, ReleaseStatus};
use crate::failure::Failure;
use crate::plan::{PlanOptions, PlanPurpose, ReleaseContent, ReleasePlan, ReleaseRequest, plan_for};
use crate::resource::DeployType;

/// The way a failed run is undone.
pub(super) enum UndoAction {
    /// Back to the last revision that was good.
    Rollback(u32),
    /// There never was one: the release goes, as with Helm. What it was before it was deleted once stays known.
    Delete { keep_history: bool },
}

impl UndoAction {
    /// Chooses the way, if undoing was asked for.
    pub(super) fn choose_for(plan: &ReleasePlan, options: &ExecuteOptions) -> Option<UndoAction> {
        if !options.auto_rollback || !matches!(plan.deploy_type, DeployType::Install | DeployType::Upgrade) {
            return None;
        }
        let is_good = |release: &&Release| {
            matches!(release.info.status, RevisionStatus::Deployed | RevisionStatus::Superseded)
        };
        let target = plan.history.releases.iter().rev().find(is_good).map(|release| release.version);
        let was_deleted =
            || plan.history.releases.iter().any(|release| release.info.status == RevisionStatus::Uninstalled);
        Some(match target {
            Some(target) if plan.deploy_type == DeployType::Upgrade => UndoAction::Rollback(target),
            _ => UndoAction::Delete { keep_history: was_deleted() },
        })
    }

    /// The work under way, for people.
    pub(super) fn progress_text(&self) -> &'static str {
        match self {
            UndoAction::Rollback(_) => "rolling back",
            UndoAction::Delete { .. } => "deleting it again",
        }
    }

    /// The work done, for people.
    pub(super) fn outcome_text(&self, undone: &ReleaseReport) -> String {
        match self {
            UndoAction::Rollback(target) if undone.status == ReleaseStatus::Skipped => {
                format!("revision {target} is what is deployed")
            }
            UndoAction::Rollback(target) => {
                format!("rolled back to revision {target}, as revision {}", undone.revision)
            }
            UndoAction::Delete { .. } => "deleted again: there is no revision to roll back to".to_owned(),
        }
    }
}

/// The end of undoing a run.
pub(super) struct UndoneRun {
    /// The graph of what was to be done, as Graphviz reads it; none if it could not be planned.
    pub(super) graph: Option<String>,
    pub(super) ended: Result<ReleaseReport, Failure>,
}

/// Undoes a failed run, with time of its own: what cancelled the run must not stop the repair.
pub(super) async fn undo_run(failed: &LockedRun<'_>, plan: &ReleasePlan, way: &UndoAction) -> UndoneRun {
    let (content, keep_history) = match way {
        UndoAction::Rollback(target) => (ReleaseContent::Revision(Some(*target)), plan.options.keep_history),
        UndoAction::Delete { keep_history } => (ReleaseContent::Nothing, *keep_history),
    };
    let request = ReleaseRequest {
        name: plan.name.clone(),
        namespace: plan.namespace.clone(),
        content,
        options: PlanOptions { keep_history, description: None, ..plan.options.clone() },
    };
    let options = ExecuteOptions { auto_rollback: false, ..failed.options.clone() };
    let cluster = failed.cluster.without_deadline();
    let cluster = match &options.timeout {
        Some(timeout) => cluster.with_deadline(Deadline::after(timeout.duration())),
        None => cluster,
    };
    let before = cluster.call_counts();
    let run = LockedRun {
        options: &options,
        events: failed.events,
        cancel: &CancellationToken::new(),
        held: failed.held,
        earlier: Default::default(),
        before,
        cluster,
    };
    match Box::pin(plan_for(&run.cluster, &request, PlanPurpose::Preview, run.events)).await {
        Ok(plan) => UndoneRun { graph: Some(plan.to_dot()), ended: Box::pin(run.carry_out(&plan)).await },
        Err(failure) => UndoneRun { graph: None, ended: Err(failure) },
    }
}
