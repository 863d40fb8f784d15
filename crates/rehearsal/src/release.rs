//! The rehearsal of one release: planned for its cluster, carried out on a stage, and bound to what was rehearsed.

use std::time::Duration;

use slipway_cluster::Cluster;
use slipway_event::Events;
use slipway_problem::Problem;
use slipway_release::{
    ExecuteOptions, Failure, ReleaseContent, ReleasePlan, ReleaseReport, ReleaseRequest, apply, plan,
};
use tokio_util::sync::CancellationToken;

use crate::error::{located, problems_of};
use crate::{RehearsalError, Stage, StageScope, forecast, staged_request};

/// Time limit for an object to become ready on a stage, where nothing takes time.
const READY: Duration = Duration::from_secs(30);

/// A rehearsal that went well.
pub struct RehearsedRelease {
    /// The request to carry out: exactly what was rehearsed.
    pub request: ReleaseRequest,
    /// The order of operations that was rehearsed.
    graph: String,
    pub report: ReleaseReport,
    pub copied_objects: usize,
    /// Questions it leaves open.
    pub open_questions: Vec<String>,
}

impl RehearsedRelease {
    /// Refuses a plan that is not the one that was rehearsed.
    pub fn check(&self, now: &ReleasePlan) -> Result<(), Failure> {
        if now.graph.fingerprint(b"").to_string() == self.graph {
            return Ok(());
        }
        let problem = Problem::error("the cluster changed since the rehearsal, and with it the plan");
        Err(Failure::Stale(problem.hint("run the command again").into()))
    }
}

/// Plans a release, carries the plan out on a stage, and says what went wrong there; nothing in the cluster is
/// written. Gives nothing if there is nothing to do.
pub async fn rehearse_release(
    cluster: &Cluster,
    request: &ReleaseRequest,
    options: &ExecuteOptions,
    cancel: CancellationToken,
) -> Result<Option<RehearsedRelease>, RehearsalError> {
    let silent = Events::silent();
    let plan = plan(cluster, request, &silent).await.map_err(RehearsalError::from_failure)?;
    plan.check_policy().map_err(RehearsalError::from_failure)?;
    if plan.is_empty() {
        return Ok(None);
    }
    // A source is rendered once: what is rehearsed is what is carried out.
    let content = match &request.content {
        ReleaseContent::Source(_) | ReleaseContent::Rendered(_) => {
            ReleaseContent::Record(Box::new(plan.release.clone()), plan.deploy_type, plan.aside.clone())
        }
        other => other.clone(),
    };
    let request = ReleaseRequest { content, ..request.clone() };
    let stage = Stage::copy_of(cluster, &StageScope::of_plan(&plan)).await?;
    let trial = stage_options(options, &plan, stage.unattended_groups().to_vec());
    let forecast = forecast(cluster, &plan, &trial.assume_ready).await;
    let tried = apply(&stage.cluster(), &staged_request(&request), &trial, &silent, cancel).await;
    let mut found = forecast.problems;
    let report = match tried {
        Ok(report) if !found.has_errors() => report,
        Ok(_) => return Err(RehearsalError::Failed(located(found))),
        Err(failure) => {
            found.extend(problems_of(failure));
            return Err(RehearsalError::Failed(located(found)));
        }
    };
    let graph = plan.graph.fingerprint(b"").to_string();
    let (copied_objects, open_questions) = (stage.copied_objects(), forecast.open_questions);
    Ok(Some(RehearsedRelease { request, graph, report, copied_objects, open_questions }))
}

/// Returns the options a plan is carried out with on a stage, where nobody acts for the groups in `unattended`.
pub fn stage_options(
    options: &ExecuteOptions,
    plan: &ReleasePlan,
    mut unattended: Vec<String>,
) -> ExecuteOptions {
    // Kinds the release itself defines have no controllers there either.
    let defined = plan.objects.iter().filter(|object| object.resource.is_crd());
    unattended.extend(defined.filter_map(|object| {
        object.resource.object.pointer("/spec/group").and_then(serde_json::Value::as_str).map(str::to_owned)
    }));
    let most = |asked: Option<Duration>| Some(asked.unwrap_or(READY).min(READY));
    ExecuteOptions {
        readiness_timeout: most(options.readiness_timeout.filter(|own| !own.is_zero())),
        presence_timeout: most(options.presence_timeout),
        deletion_timeout: most(options.deletion_timeout),
        auto_rollback: false,
        assume_ready: unattended,
        ..options.clone()
    }
}
