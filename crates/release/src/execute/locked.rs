//! A run that holds the lock of its release: it verifies the plan, carries it out, and undoes it when it fails.

use slipway_cluster::helm::Storage;
use slipway_cluster::lock::Held;
use slipway_cluster::{Calls, Cluster, Deadline};
use slipway_event::Events;
use tokio_util::sync::CancellationToken;

use super::report::{ReleaseStatus, Report};
use super::run::{RunFailure, run_graph};
use super::settle::settle;
use super::undo::{Undo, undo};
use super::{CLOSING, ExecuteOptions, WhenStale, is_troubled};
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
    pub(super) held: &'a Held,
    /// The requests of the plan.
    pub(super) earlier: Calls,
    /// The requests there had been when the run began.
    pub(super) before: Calls,
}

impl LockedRun<'_> {
    /// Carries a plan out if it is still true; one that is not may be made anew.
    pub(super) async fn carry_out_verified(
        &self,
        plan: ReleasePlan,
        stale: WhenStale<'_>,
    ) -> Result<Report, Failure> {
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
    pub(super) async fn carry_out(&self, plan: &ReleasePlan) -> Result<Report, Failure> {
        let storage = Storage::new(self.cluster.clone(), plan.options.driver, &*plan.namespace);
        if plan.deploy_type.makes_revision() {
            settle(&storage, plan).await?;
        }
        if plan.is_empty() && plan.deploy_type != DeployType::Test {
            return Ok(Report::skipped(plan, &self.requests()));
        }
        if plan.deploy_type.makes_revision() {
            storage.prune(&plan.name, self.options.history_limit).await?;
        }
        let mut report = Report::new(plan, ReleaseStatus::Failed);
        if plan.deploy_type == DeployType::Delete {
            report.kept.clone_from(&plan.kept);
        }
        let ended = Box::pin(run_graph(self, plan, &mut report)).await;
        report.requests = self.requests().to_string();
        match ended {
            Ok(()) => Ok(report),
            Err(failure) => Err(self.fail(plan, failure, report).await),
        }
    }

    /// The requests so far, those of the plan included.
    fn requests(&self) -> Calls {
        self.earlier + self.cluster.calls().since(&self.before)
    }

    /// Ends a run that failed; undoes it if that was asked for.
    async fn fail(&self, plan: &ReleasePlan, failure: RunFailure, mut report: Report) -> Failure {
        let RunFailure { mut why, cause, part } = failure;
        // What the chart has to say is about a release that works.
        report.notes.clear();
        if let Some(way) = Undo::of(plan, self.options).filter(|_| !self.held.lost().is_cancelled()) {
            // Deleting objects one by one through the same trouble would outlast the run's own limit.
            let is_first = matches!(way, Undo::Delete { .. });
            if is_troubled(cause) && (is_first || !self.answers().await) {
                why.push_str("\nnot undone: the cluster does not answer as it should");
                return Failure::Run { cause, part, why, report: Box::new(report) };
            }
            match undo(self, plan, &way).await {
                Ok(undone) => {
                    report.notes = way.done(&undone);
                    why = format!("{why}\n{}", report.notes);
                    report.rollback = Some(Box::new(undone));
                }
                Err(failure) => {
                    let why = format!("{why}; {} failed too: {failure}", way.doing());
                    return Failure::Run { cause, part, why, report: Box::new(report) };
                }
            }
        }
        let report = Box::new(report);
        if cause == FailureCause::Cancelled {
            let message = format!("release {} failed: {why}", plan.name);
            Failure::Cancelled { message, report: Some(report) }
        } else {
            Failure::Run { cause, part, why, report }
        }
    }

    /// Tells that a cluster that made a run fail answers again.
    async fn answers(&self) -> bool {
        let cluster = self.cluster.without_deadline().with_deadline(Deadline::after(CLOSING));
        cluster.version().await.is_ok()
    }
}
