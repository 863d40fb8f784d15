//! `--rehearse`: the runbook carried out on a copy of the cluster first.

use std::collections::BTreeSet;

use slipway_problem::{Problem, Problems};
use slipway_rehearsal::{Stage, StageScope, stage_questions};
use slipway_runbook::state::StepStatus;
use slipway_runbook::{Action, Delete, Document, RunOptions};
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
    let report = slipway_runbook::apply(document, ground.on(&cluster, &silent), options, cancel)
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
    for step in report.steps.iter().filter(|step| step.status == StepStatus::Failed) {
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
    let mut namespaces = BTreeSet::from(["default".to_owned()]);
    namespaces.extend(document.state.as_ref().map(|state| state.namespace.clone()));
    for step in &document.steps {
        match &step.action {
            Action::Helm(helm) => namespaces.insert(helm.namespace.clone()),
            Action::Apply(apply) => apply.namespace.clone().is_some_and(|name| namespaces.insert(name)),
            Action::Delete(Delete::Manifests { namespace, .. }) => {
                namespace.clone().is_some_and(|name| namespaces.insert(name))
            }
            Action::Delete(Delete::Resource { selection, .. }) => {
                selection.namespace.clone().is_some_and(|name| namespaces.insert(name))
            }
            Action::Delete(Delete::Release { namespace, .. }) => namespaces.insert(namespace.clone()),
            Action::Patch(patch) => namespaces.insert(patch.namespace.clone()),
            Action::Wait(wait) => wait.on.namespace.clone().is_some_and(|name| namespaces.insert(name)),
            Action::Rollout(rollout) => namespaces.insert(rollout.namespace.clone()),
            Action::Job(job) => namespaces.insert(job.namespace.clone()),
        };
    }
    let objects = namespaces.iter().map(|name| Reference::new("v1", "Namespace", "", name)).collect();
    StageScope { objects, namespaces: namespaces.into_iter().collect() }
}
