//! The rehearsal of a runbook: carried out on a stage of its namespaces.

use slipway_event::Events;
use slipway_problem::{Problem, Problems};
use slipway_runbook::state::NodeStatus;
use slipway_runbook::{Document, RunContext, RunOptions, RunReport, RunTarget, apply};
use slipway_sandbox::clone::ObjectReference;
use tokio_util::sync::CancellationToken;

use crate::{RehearsalError, Stage, StageScope, stage_questions};

/// The rehearsal of a runbook that went well.
#[derive(Debug)]
pub struct RehearsedRunbook {
    /// The report of the run on the stage.
    pub report: RunReport,
    pub copied_objects: usize,
    /// Questions it leaves open.
    pub open_questions: Vec<String>,
}

/// Carries a runbook out on a copy of its cluster. What fails there is an error, and nothing in the cluster is written.
pub async fn rehearse_runbook(
    document: &Document,
    context: RunContext<'_>,
    options: &RunOptions,
    cancel: CancellationToken,
) -> Result<RehearsedRunbook, RehearsalError> {
    let stage = Stage::copy_of(context.cluster, &scope_of(document)).await?;
    // Nobody hears of it, and its errors are masked all the same.
    let (cluster, silent): (_, Events) = (stage.cluster(), context.events.muted());
    let trial = RunContext { cluster: &cluster, events: &silent, target: RunTarget::Copy, ..context };
    let report = apply(document, trial, options, cancel).await?;
    if !report.is_success() {
        return Err(RehearsalError::Failed(failed_steps(&report)));
    }
    let open_questions = stage_questions(context.cluster, &cluster).await;
    Ok(RehearsedRunbook { report, copied_objects: stage.copied_objects(), open_questions })
}

fn failed_steps(report: &RunReport) -> Problems {
    let mut problems = Problems::new();
    for step in report.steps.iter().filter(|step| step.status == NodeStatus::Failed) {
        let error = step.error.as_deref().unwrap_or_default();
        problems.push(Problem::error(format!("rehearsal: step \"{}\": {error}", step.name)));
    }
    if problems.is_empty() {
        problems.push(Problem::error("rehearsal: the run was stopped"));
    }
    problems
}

/// Covers every namespace a step works in.
fn scope_of(document: &Document) -> StageScope {
    let mut namespaces = document.namespaces();
    namespaces.insert("default");
    let objects = namespaces.iter().map(|name| ObjectReference::new("v1", "Namespace", "", name)).collect();
    let namespaces = namespaces.into_iter().map(str::to_owned).collect();
    StageScope { objects, namespaces, ..StageScope::default() }
}
