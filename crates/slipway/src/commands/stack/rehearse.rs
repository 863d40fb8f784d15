//! `--rehearse`: what a stack touches is copied into embedded clusters of this process, one for each of its own, and
//! the whole run is carried out there first.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use slipway_cluster::Cluster;
use slipway_cluster::helm::{Driver, Storage};
use slipway_event::{Events, SystemClock};
use slipway_problem::{Location, Problem};
use slipway_rehearsal::{Forecast, Stage, StageScope, forecast, located, stage_options, unattended_groups};
use slipway_release::{ExecuteOptions, ReleaseRequest, plan};
use slipway_stack::engine::{Connect, Engine};
use slipway_stack::plan::ClusterRef;
use slipway_stack::record::{Meta, NodeStatus, Store, Takeover};
use slipway_stack::{
    Class, ExecutedRun, FailMode, Git, NodeError, RunOptions, RunRequest, StackPlan, acquire_lock, compile,
    execute, pin,
};
use tokio_util::sync::CancellationToken;

use super::clusters::Clusters;

/// A rehearsal that went well.
pub struct Rehearsed {
    pub releases: usize,
    pub copied: usize,
    /// Questions it leaves open.
    pub questions: Vec<String>,
}

/// Carries a whole run out on copies; everything that fails there is reported at once. No cluster is written.
pub async fn rehearse(
    wanted: &RunRequest,
    options: &RunOptions,
    real: &Engine<Clusters<'_>>,
    root: &Path,
    cancel: CancellationToken,
) -> anyhow::Result<Rehearsed> {
    let git = Git::default();
    let mut plan = compile(&wanted.request, &git)?.plan;
    pin::pin(&mut plan, root, real).await?;
    let mut stages = BTreeMap::new();
    let (scopes, known) = scopes(&plan, real).await?;
    for (name, scope) in scopes {
        let cluster = plan.nodes.iter().find(|node| node.cluster.name == name).map(|node| &node.cluster);
        let cluster =
            real.connect.connect(cluster.context("a cluster of the plan")?).await.map_err(failed)?;
        stages.insert(name, Stage::copy_of(&cluster, &scope).await?);
    }
    let copied = stages.values().map(Stage::copied_objects).sum();
    let sources = real.sources.clone();
    let stage = Engine {
        root: root.to_owned(),
        connect: Stages { stages },
        sources,
        profile: real.profile.clone(),
        events: Events::silent(),
    };
    // The record of a rehearsal is nobody's run to resume.
    let folder = tempfile::tempdir()?;
    let store = Store::new(folder.path(), Arc::new(SystemClock));
    let trial = RunRequest { fail_mode: FailMode::ContinueOnError, resume: None, ..wanted.clone() };
    let events = Events::silent();
    let lock = acquire_lock(&trial.request, &store, "rehearsal", Takeover::Never, &events)?;
    let planned = slipway_stack::plan(&trial, &store, &git, &stage, &events).await?;
    let questions = known.open_questions;
    if planned.is_done() {
        return Ok(Rehearsed { releases: 0, copied, questions });
    }
    let saved = planned.save(&store, &git, Meta::default())?;
    let ran = execute(saved, &store, lock, options.clone(), &stage, &events, cancel).await?;
    let ExecutedRun { plan, outcome } = ran;
    let mut problems = located(known.problems);
    for id in &plan.order {
        let Some(node) = outcome.summary.nodes.get(id) else { continue };
        if !matches!(node.status, NodeStatus::Failed | NodeStatus::Canceled) {
            continue;
        }
        let why = node.last_error.as_deref().unwrap_or("it was stopped");
        problems.push(Problem::error(format!("{id}: {why}")).at(Location::file("rehearsal")));
    }
    if problems.has_errors() {
        return Err(problems.into());
    }
    Ok(Rehearsed { releases: plan.nodes.len(), copied, questions })
}

/// What has to be copied of each cluster: all that the releases read or change, and the records of what they need.
async fn scopes(
    plan: &StackPlan,
    real: &Engine<Clusters<'_>>,
) -> anyhow::Result<(BTreeMap<String, StageScope>, Forecast)> {
    let mut scopes: BTreeMap<String, StageScope> = BTreeMap::new();
    let mut known = Forecast::default();
    for node in &plan.nodes {
        let scope = scopes.entry(node.cluster.name.clone()).or_default();
        match real.prepare(node, plan.command).await {
            Ok(prepared) => {
                scope.extend(StageScope::of_plan(&prepared));
                let cluster = real.connect.connect(&node.cluster).await.map_err(failed)?;
                // Who may not see definitions is asked fewer questions.
                let unattended = unattended_groups(&cluster).await.unwrap_or_default();
                known.extend(forecast(&cluster, &prepared, &unattended).await);
            }
            // It may need what an earlier release brings; then whatever is around it comes along.
            Err(error) if error.class == Class::Invalid => scope.namespaces.push(node.namespace.clone()),
            Err(error) => return Err(failed(error)),
        }
        let cluster = real.connect.connect(&node.cluster).await.map_err(failed)?;
        for need in &node.external_needs {
            let storage = Storage::new(cluster.clone(), Driver::Secret, &need.namespace);
            let history = storage.history(&need.name).await?;
            scope.extend(StageScope::of_records(&need.namespace, &history.releases));
        }
    }
    Ok((scopes, known))
}

fn failed(error: NodeError) -> anyhow::Error {
    Problem::error(error.message).at(Location::file("rehearsal")).into()
}

/// Copies in place of clusters.
struct Stages {
    stages: BTreeMap<String, Stage>,
}

impl Connect for Stages {
    async fn connect(&self, wanted: &ClusterRef) -> Result<Cluster, NodeError> {
        let stage = self.stages.get(&wanted.name);
        let unknown = || NodeError::new(Class::Internal, format!("nothing was copied of {}", wanted.name));
        stage.map(Stage::cluster).ok_or_else(unknown)
    }

    async fn adjust(
        &self,
        cluster: &Cluster,
        request: &ReleaseRequest,
        options: ExecuteOptions,
    ) -> Result<ExecuteOptions, NodeError> {
        let invalid = |error: &dyn std::fmt::Display| NodeError::new(Class::Invalid, error.to_string());
        let plan = plan(cluster, request, &Events::silent()).await.map_err(|error| invalid(&error))?;
        let unattended = unattended_groups(cluster).await.map_err(|error| invalid(&error))?;
        Ok(stage_options(&options, &plan, unattended))
    }
}
