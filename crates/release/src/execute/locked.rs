//! A run that holds the lock of its release: it verifies the plan, carries it out, and undoes it when it fails.

use slipway_cluster::helm::ReleaseStorage;
use slipway_cluster::lock::HeldLock;
use slipway_cluster::{CallCounts, Cluster, Deadline};
use slipway_event::Events;
use tokio_util::sync::CancellationToken;

use super::report::{ReleaseReport, ReleaseStatus};
use super::run::{RunFailure, run_graph};
use super::settle::settle_history;
use super::undo::{UndoAction, undo_run};
use super::{CLOSING_LIMIT, ExecuteOptions, WhenStale, is_troubled};
use crate::failure::{Failure, FailureCause};
use crate::plan::{PlanPurpose, ReleasePlan, plan_for};
use crate::resource::DeployType;

/// Everything a run under the lock works with.
pub(super) struct LockedRun<'a> {
    /// Lets writes through only while the lock is surely held.
    pub(super) cluster: Cluster,
    pub(super) options: &'a ExecuteOptions,
    pub(super) events: &'a Events,
    pub(super) cancel: &'a CancellationToken,
    pub(super) held: &'a HeldLock,
    /// The requests of the plan.
    pub(super) earlier: CallCounts,
    /// The requests there had been when the run began.
    pub(super) before: CallCounts,
}

impl LockedRun<'_> {
    /// Carries a plan out if it is still true; one that is not may be made anew.
    pub(super) async fn carry_out_verified(
        &self,
        plan: ReleasePlan,
        stale: WhenStale<'_>,
    ) -> Result<ReleaseReport, Failure> {
        let plan = match (plan.verify(&self.cluster).await, stale) {
            (Ok(()), _) => plan,
            (Err(Failure::Stale(_)), WhenStale::PlanAnew(request)) => {
                // Whoever holds the lock has the rights to take it.
                plan_for(&self.cluster, request, PlanPurpose::Preview, self.events).await?
            }
            (Err(failure), _) => return Err(failure),
        };
        self.carry_out(&plan).await
    }

    /// Carries a plan out that was made or verified under the lock.
    pub(super) async fn carry_out(&self, plan: &ReleasePlan) -> Result<ReleaseReport, Failure> {
        let storage = ReleaseStorage::new(self.cluster.clone(), plan.options.driver, &*plan.namespace);
        if plan.deploy_type.makes_revision() {
            settle_history(&storage, plan).await?;
        }
        if plan.is_empty() && plan.deploy_type != DeployType::Test {
            return Ok(ReleaseReport::of_idle_plan(plan, self.request_counts()));
        }
        // The plan knows every revision there is: it is verified.
        let limit = self.options.history_limit;
        if plan.deploy_type.makes_revision() && plan.history.releases.len() >= limit as usize {
            storage.prune_history(&plan.name, limit).await?;
        }
        let mut report = ReleaseReport::new(plan, ReleaseStatus::Failed);
        if plan.deploy_type == DeployType::Delete {
            report.kept.clone_from(&plan.kept);
        }
        let ended = Box::pin(run_graph(self, plan, &mut report)).await;
        report.requests = self.request_counts();
        match ended {
            Ok(()) => Ok(report),
            Err(failure) => Err(self.end_failed_run(plan, failure, report).await),
        }
    }

    /// The requests so far, those of the plan included.
    fn request_counts(&self) -> CallCounts {
        self.earlier + self.cluster.call_counts().since(&self.before)
    }

    /// Ends a run that failed; undoes it if that was asked for.
    async fn end_failed_run(
        &self,
        plan: &ReleasePlan,
        failure: RunFailure,
        mut report: ReleaseReport,
    ) -> Failure {
        let RunFailure { mut why, mut brief, cause, part } = failure;
        // What the chart has to say is about a release that works.
        report.notes.clear();
        if let Some(way) =
            UndoAction::choose_for(plan, self.options).filter(|_| !self.held.lost_token().is_cancelled())
        {
            // Deleting objects one by one through the same trouble would outlast the run's own limit.
            let is_first = matches!(way, UndoAction::Delete { .. });
            if is_troubled(cause) && (is_first || !self.cluster_answers().await) {
                let outcome = "\nnot undone: the cluster does not answer as it should";
                why.push_str(outcome);
                brief.push_str(outcome);
                return Failure::Run { cause, part, why, brief, report: Box::new(report) };
            }
            let undone = undo_run(self, plan, &way).await;
            report.rollback_graph = undone.graph;
            match undone.ended {
                Ok(undone) => {
                    report.notes = way.outcome_text(&undone);
                    why = format!("{why}\n{}", report.notes);
                    brief = format!("{brief}\n{}", report.notes);
                    report.rollback = Some(Box::new(undone));
                }
                Err(failure) => {
                    let outcome = format!("; {} failed too: {failure}", way.progress_text());
                    let (why, brief) = (why + &outcome, brief + &outcome);
                    return Failure::Run { cause, part, why, brief, report: Box::new(report) };
                }
            }
        }
        let report = Box::new(report);
        if cause == FailureCause::Cancelled {
            let message = format!("release {} failed: {why}", plan.name);
            Failure::Cancelled { message, report: Some(report) }
        } else {
            Failure::Run { cause, part, why, brief, report }
        }
    }

    /// Tells that a cluster that made a run fail answers again.
    async fn cluster_answers(&self) -> bool {
        let cluster = self.cluster.without_deadline().with_deadline(Deadline::after(CLOSING_LIMIT));
        cluster.ask_version().await.is_ok()
    }
}
