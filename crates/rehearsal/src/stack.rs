//! The rehearsal of a stack: a stage for each of its clusters, and the whole run carried out there.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use slipway_cluster::Cluster;
use slipway_cluster::helm::ReleaseStorage;
use slipway_event::{Events, SystemClock};
use slipway_problem::{Location, Problem};
use slipway_release::{ExecuteOptions, ReleaseRequest, plan};
use slipway_stack::engine::{Connect, Engine};
use slipway_stack::plan::ClusterRef;
use slipway_stack::record::{NodeStatus, RunMeta, RunStore, Takeover};
use slipway_stack::{
    ExecutedRun, FailMode, FailureClass, Git, NodeError, RunOptions, RunRequest, StackPlan, acquire_lock,
    compile, execute, pin,
};
use tokio_util::sync::CancellationToken;

use crate::error::located;
use crate::{Forecast, RehearsalError, Stage, StageScope, forecast, stage_options, unattended_groups};

/// The rehearsal of a stack that went well.
#[derive(Debug)]
pub struct RehearsedStack {
    /// The number of releases carried out.
    pub releases: usize,
    pub copied_objects: usize,
    /// Questions it leaves open.
    pub open_questions: Vec<String>,
}

/// Carries a whole run out on copies of its clusters; everything that fails there is reported at once. No cluster is
/// written. `engine` reaches the real ones, and `root` is the stack's directory.
pub async fn rehearse_stack<C: Connect>(
    engine: &Engine<C>,
    request: &RunRequest,
    options: &RunOptions,
    root: &Path,
    cancel: CancellationToken,
) -> Result<RehearsedStack, RehearsalError> {
    let git = Git::default();
    let mut plan = compile(&request.request, &git)?.plan;
    pin::pin(&mut plan, root, engine).await?;
    let (stages, known) = copy_clusters(&plan, engine).await?;
    let copied_objects = stages.values().map(Stage::copied_objects).sum();
    let stage = Engine {
        root: root.to_owned(),
        connect: StageConnector { stages },
        sources: engine.sources.clone(),
        profile: engine.profile.clone(),
        events: Events::silent(),
        // Policies speak of the real clusters and are asked there.
        policy: None,
    };
    // The record of a rehearsal is nobody's run to resume.
    let folder = tempfile::tempdir().map_err(RehearsalError::Record)?;
    let store = RunStore::new(folder.path(), Arc::new(SystemClock));
    let trial = RunRequest { fail_mode: FailMode::ContinueOnError, resume: None, ..request.clone() };
    let events = Events::silent();
    let lock = acquire_lock(&trial.request, &store, "rehearsal", Takeover::Never, &events)?;
    let planned = slipway_stack::plan(&trial, &store, &git, &stage, &events).await?;
    let open_questions = known.open_questions;
    if planned.is_done() {
        return Ok(RehearsedStack { releases: 0, copied_objects, open_questions });
    }
    let saved = planned.save(&store, &git, RunMeta::default())?;
    let ran = execute(saved, &store, lock, options.clone(), &stage, &events, cancel).await?;
    let ExecutedRun { plan, outcome } = ran;
    let mut problems = located(known.problems);
    for id in &plan.order {
        let Some(node) = outcome.summary.nodes.get(id) else { continue };
        if matches!(node.status, NodeStatus::Failed | NodeStatus::Canceled) {
            let why = node.last_error.as_deref().unwrap_or("it was stopped");
            problems.push(Problem::error(format!("{id}: {why}")).at(Location::file("rehearsal")));
        }
    }
    if problems.has_errors() {
        return Err(RehearsalError::Failed(problems));
    }
    Ok(RehearsedStack { releases: plan.nodes.len(), copied_objects, open_questions })
}

/// Copies, of each cluster, all that the releases read or change and the records of what they need.
async fn copy_clusters<C: Connect>(
    plan: &StackPlan,
    engine: &Engine<C>,
) -> Result<(BTreeMap<String, Stage>, Forecast), RehearsalError> {
    let mut scopes: BTreeMap<String, (Cluster, StageScope)> = BTreeMap::new();
    let mut known = Forecast::default();
    for node in &plan.nodes {
        let cluster = engine.connect.connect(&node.cluster).await.map_err(failed)?;
        let (_, scope) = scopes
            .entry(node.cluster.name.clone())
            .or_insert_with(|| (cluster.clone(), StageScope::default()));
        match engine.prepare(node, plan.command).await {
            Ok(prepared) => {
                scope.extend(StageScope::of_plan(&prepared));
                // Who may not see definitions is asked fewer questions.
                let unattended = unattended_groups(&cluster).await.unwrap_or_default();
                known.extend(forecast(&cluster, &prepared, &unattended).await);
            }
            // It may need what an earlier release brings; then whatever is around it comes along.
            Err(error) if error.class == FailureClass::Invalid => {
                scope.namespaces.push(node.namespace.clone());
            }
            Err(error) => return Err(failed(error)),
        }
        for need in &node.external_needs {
            let driver = cluster.release_driver();
            let storage = ReleaseStorage::new(cluster.clone(), driver, &need.namespace);
            let history = storage.read_history(&need.name).await?;
            scope.extend(StageScope::of_records(&need.namespace, &history.releases, driver));
        }
    }
    let mut stages = BTreeMap::new();
    for (name, (cluster, scope)) in scopes {
        stages.insert(name, Stage::copy_of(&cluster, &scope).await?);
    }
    Ok((stages, known))
}

fn failed(error: NodeError) -> RehearsalError {
    RehearsalError::Failed(Problem::error(error.message).at(Location::file("rehearsal")).into())
}

/// Gives stages in place of clusters.
struct StageConnector {
    stages: BTreeMap<String, Stage>,
}

impl Connect for StageConnector {
    async fn connect(&self, wanted: &ClusterRef) -> Result<Cluster, NodeError> {
        let stage = self.stages.get(&wanted.name);
        let unknown =
            || NodeError::new(FailureClass::Internal, format!("nothing was copied of {}", wanted.name));
        stage.map(Stage::cluster).ok_or_else(unknown)
    }

    async fn adjust(
        &self,
        cluster: &Cluster,
        request: &ReleaseRequest,
        options: ExecuteOptions,
    ) -> Result<ExecuteOptions, NodeError> {
        let invalid =
            |error: &dyn std::fmt::Display| NodeError::new(FailureClass::Invalid, error.to_string());
        let plan = plan(cluster, request, &Events::silent()).await.map_err(|error| invalid(&error))?;
        let unattended = unattended_groups(cluster).await.map_err(|error| invalid(&error))?;
        Ok(stage_options(&options, &plan, unattended))
    }
}
