//! `--rehearse`: the runbook carried out on a copy of the cluster first.

use slipway_problem::{Problem, Problems};
use slipway_rehearsal::{Stage, StageScope, stage_questions};
use slipway_runbook::state::NodeStatus;
use slipway_runbook::{Document, RunOptions};
use slipway_sandbox::clone::Reference;
use tokio_util::sync::CancellationToken;

use super::apply;
use super::connection::{self, Ground};
use crate::commands::release::show_questions;

/// Runs the document on a stage; what fails there is an error, and nothing in the cluster is written.
pub async fn rehearse(
    ground: &Ground,
    document: &Document,
    options: &RunOptions,
    cancel: CancellationToken,
) -> anyhow::Result<()> {
    let stage = Stage::copy_of(&ground.cluster, &scope(document)).await?;
    // Nobody hears of it, and its errors are masked all the same.
    let (cluster, silent) = (stage.cluster(), ground.place().events.muted());
    let report = slipway_runbook::apply(document, ground.on_copy(&cluster, &silent), options, cancel)
        .await
        .map_err(connection::failed)?;
    if report.is_success() {
        say!(
            "rehearsed on a copy of {} objects: {}",
            stage.copied_objects(),
            last_line(&apply::table(&report))
        );
        show_questions(&stage_questions(&ground.cluster, &cluster).await);
        return Ok(());
    }
    let mut problems = Problems::new();
    for step in report.steps.iter().filter(|step| step.status == NodeStatus::Failed) {
        let error = step.error.as_deref().unwrap_or_default();
        problems.push(Problem::error(format!("rehearsal: step \"{}\": {error}", step.name)));
    }
    if problems.is_empty() {
        problems.push(Problem::error("rehearsal: the run was stopped"));
    }
    Err(problems.into())
}

fn last_line(text: &str) -> String {
    text.lines().last().unwrap_or_default().to_owned()
}

/// Every namespace a step works in, and objects named outright.
fn scope(document: &Document) -> StageScope {
    let mut namespaces = document.namespaces();
    namespaces.insert("default");
    let objects = namespaces.iter().map(|name| Reference::new("v1", "Namespace", "", name)).collect();
    StageScope { objects, namespaces: namespaces.into_iter().map(str::to_owned).collect() }
}
