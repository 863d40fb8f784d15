//! A plan carried out on the kernel: steps done, or undone.

mod executor;
mod journal;
mod report;

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::time::Duration;

use serde::Serialize;
use slipway_cluster::SecretStore;
use slipway_event::{Event, NodeKind, NodeName, NodeOutcome};
use slipway_graph::{Graph, Id, Outcome, Policy, Run, RunEvent, RunningNodes, Schedule, StopReason};
use slipway_journal::{RecordStore, StoreError};
use slipway_problem::{Problem, Problems};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::executor::StepExecutor;
use self::journal::{RunRecord, StepJournal};
pub use self::report::{RunReport, StateReport, StepReport};
use self::report::{milliseconds, reports};
use crate::context::{RunContext, SharedContext};
use crate::error::AttemptError;
use crate::model::{Document, Step};
use crate::plan::decision::{RunDecisions, SkipCode};
use crate::plan::{RunbookPlan, plan_run};
use crate::state::{self, NodeStatus, RunSnapshot, RunStatus};

/// The reason why a step that is proven done is left out; part of the format.
pub const RESUMED: &str = "unchanged since it succeeded in a previous run (state record)";
/// A run that wrote this lately may still be at work.
const LATELY: Duration = Duration::from_secs(120);
/// Time writing the last word may take once the run is over.
const LAST_WORD: Duration = Duration::from_secs(30);
/// Time a step that is told to stop may take: a release records its failure and rolls back.
const GRACE: Duration = Duration::from_secs(600);

/// The time a step may start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StepSchedule {
    /// Once everything of the level before is done.
    #[default]
    Levels,
    /// Once what it needs is done.
    Eager,
}

/// The use a run makes of the record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResumePolicy {
    /// Leaves out what is proven done.
    #[default]
    LeaveOut,
    /// Runs every step, whatever the record says.
    RunAll,
}

/// Settings of a run.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// The number of steps under way at once; no limit if absent.
    pub parallelism: Option<NonZeroUsize>,
    /// The time a step may start.
    pub schedule: StepSchedule,
    pub resume: ResumePolicy,
    /// Steps the record is not believed about.
    pub rerun: Vec<String>,
    /// Only these steps, and what they need that is not done.
    pub only: Vec<String>,
}

/// The reason why a run did not start, or could not be recorded.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The caller asked for something the document does not have.
    #[error("{0}")]
    Usage(Problems),
    #[error(transparent)]
    State(#[from] StoreError),
    /// The cluster could not be asked.
    #[error(transparent)]
    Cluster(#[from] slipway_cluster::Error),
    /// The document or its record changed since the plan was made.
    #[error("{0}")]
    Stale(&'static str),
    #[error("{0}")]
    Internal(String),
}

/// The direction of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "RunbookCommand")]
pub enum Command {
    Apply,
    Destroy,
}

impl Command {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "apply",
            Self::Destroy => "destroy",
        }
    }
}

/// The steps as a graph.
pub fn graph(document: &Document) -> Result<Graph<&Step>, RunError> {
    let mut builder = Graph::builder();
    for step in &document.steps {
        builder.add(step.name.as_str(), step, step.needs.iter().map(String::as_str));
    }
    builder.build().map_err(|refused| RunError::Internal(refused.to_string()))
}

/// Plans a run of a document and carries it out.
pub async fn apply(
    document: &Document,
    place: RunContext<'_>,
    options: &RunOptions,
    cancel: CancellationToken,
) -> Result<RunReport, RunError> {
    let plan = plan_run(document, place, Command::Apply, options).await?;
    execute(document, &plan, place, cancel).await
}

/// Plans the undoing of a document and carries it out. The record goes last.
pub async fn destroy(
    document: &Document,
    place: RunContext<'_>,
    options: &RunOptions,
    cancel: CancellationToken,
) -> Result<RunReport, RunError> {
    let plan = plan_run(document, place, Command::Destroy, options).await?;
    execute(document, &plan, place, cancel).await
}

/// Carries out the plan of a document, as it was made.
pub async fn execute(
    document: &Document,
    plan: &RunbookPlan,
    place: RunContext<'_>,
    cancel: CancellationToken,
) -> Result<RunReport, RunError> {
    let decisions = plan.decisions()?;
    let store = document.state.as_ref().map(|state| {
        let store = state::open_store(place.cluster, state);
        store.known_version(decisions.record_version.clone())
    });
    let before = decisions.before.as_ref();
    if let (Command::Apply, Some(before)) = (decisions.command, before) {
        warn_if_running(before, &place);
    }
    let record = match decisions.command {
        Command::Apply => store.as_ref().map(|_| decisions.first_record(document, &now(&place))),
        Command::Destroy => before.cloned(),
    };
    let graph = match decisions.command {
        Command::Apply => graph(document)?,
        Command::Destroy => graph(document)?.reversed(),
    };
    run(
        Work { document, place, decisions, interrupted: decisions.interrupted() },
        graph,
        store,
        record,
        cancel,
    )
    .await
}

fn warn_if_running(before: &RunSnapshot, place: &RunContext<'_>) {
    let now = place.events.clock().now();
    let age = before.updated_at.parse::<jiff::Timestamp>().map(|updated| now.duration_since(updated));
    let lately = age.is_ok_and(|age| age.unsigned_abs() < LATELY);
    if before.run_status == RunStatus::Running && lately {
        let message = format!("the record says that a run is under way since {}", before.started_at);
        let problem =
            Problem::warning(message).hint("if none is, it was killed and this run goes on from there");
        place.events.send(Event::Warning { problem });
    }
}

fn step_name(id: &Id) -> NodeName {
    NodeName::new(NodeKind::Step, id)
}

fn now(place: &RunContext<'_>) -> String {
    place.events.clock().now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The work of a run.
struct Work<'a> {
    document: &'a Document,
    place: RunContext<'a>,
    decisions: &'a RunDecisions,
    /// Steps a killed run may have left half done, and since when.
    interrupted: HashMap<String, jiff::Timestamp>,
}

async fn run(
    work: Work<'_>,
    graph: Graph<&Step>,
    store: Option<SecretStore>,
    record: Option<RunSnapshot>,
    cancel: CancellationToken,
) -> Result<RunReport, RunError> {
    let RunDecisions { command, options, skipped, before, .. } = work.decisions;
    let place = work.place;
    let (began, started_at) = (Instant::now(), now(&place));
    let idle = work.document.steps.iter().all(|step| skipped.contains_key(&step.name));
    let world = SharedContext::new(place, &work.document.name);
    let ledger = RunRecord {
        store: store.as_ref().map(|store| store as &dyn RecordStore),
        record: Mutex::new(record),
        destroys: *command == Command::Destroy,
        failed: Mutex::default(),
    };
    // The first word is written before the first step: a record that cannot be written stops everything.
    if let (false, Command::Apply, Some(_)) = (idle, command, &store) {
        ledger.write().await?;
    }
    let since = place.events.clock().now();
    let crew = StepExecutor { world: &world, command: *command, interrupted: &work.interrupted, since };
    let policy = Policy {
        schedule: match options.schedule {
            StepSchedule::Levels => Schedule::ByWave,
            StepSchedule::Eager => Schedule::Eager,
        },
        concurrency: options.parallelism,
        on_cancel: RunningNodes::Stop,
        grace: GRACE,
        ..Policy::default()
    };
    let journal = StepJournal {
        ledger: &ledger,
        skipped,
        steps: graph.nodes().map(|node| (node.id().as_str(), *node.value())).collect(),
        started: HashMap::new(),
        place,
    };
    let title = format!("{} {}", command.as_str(), work.document.name);
    let report = Run::new(&graph, &crew)
        .policy(policy)
        .cancel(cancel.clone())
        .observe(|event| match &event {
            // Said with its own reason.
            RunEvent::NodeFinished { id, outcome: Outcome::Resumed, .. } => {
                if let Some(why) = skipped.get(id.as_str()) {
                    let status = if why.code == SkipCode::Resumed {
                        NodeOutcome::Resumed
                    } else {
                        NodeOutcome::Skipped
                    };
                    place.events.send(Event::NodeFinished {
                        node: step_name(id),
                        status,
                        reason: Some(why.reason.clone()),
                        duration_ms: 0,
                    });
                }
            }
            // To the kernel all that does not run was done before.
            RunEvent::RunFinished { totals, stopped, duration } => {
                let mut told = **totals;
                let resumed = skipped.values().filter(|why| why.code == SkipCode::Resumed).count();
                let known = told.skipped + told.resumed;
                told.resumed = resumed.min(known);
                told.skipped = known - told.resumed;
                let told: RunEvent<'_, AttemptError> =
                    RunEvent::RunFinished { totals: &told, stopped: *stopped, duration: *duration };
                place.events.observe(&title, step_name, &told);
            }
            _ => place.events.observe(&title, step_name, &event),
        })
        .journal(journal, Vec::new())
        .run()
        .await
        .map_err(|error| RunError::Internal(error.to_string()))?;

    let canceled = report.stopped == Some(StopReason::Cancelled);
    let redactor = place.events.redactor();
    let mut steps = reports(&work, &graph, &report);
    for step in &mut steps {
        // What is recorded is masked; names are what the next run finds its steps by.
        for text in step.error.iter_mut().chain(&mut step.skip_reason).chain(&mut step.note) {
            redactor.redact_in_place(text);
        }
    }
    let failed = canceled || steps.iter().any(|step| step.status == NodeStatus::Failed);
    let finished_at = now(&place);
    let mut error = None;
    let mut written = false;
    if let Some(store) = &store {
        let status = if failed { RunStatus::Failed } else { RunStatus::Succeeded };
        let last = ledger.close(&work, &steps, status, &finished_at, before.as_ref());
        let ended = tokio::time::timeout(LAST_WORD, async {
            match (command, last) {
                (Command::Destroy, _) if !failed => store.remove().await.map(|()| true),
                (_, Some(record)) => record.save(store).await.map(|()| true),
                (_, None) => Ok(true),
            }
        })
        .await;
        match ended {
            Ok(Ok(done)) => {
                written = done;
                // A run that was killed then would have lost what it did, so it is no success.
                error = ledger
                    .failure()
                    .map(|why| format!("the record could not be written while the run was under way: {why}"));
            }
            Ok(Err(why)) => error = Some(why.to_string()),
            Err(_) => error = Some(format!("writing the record {} took too long", store.place())),
        }
    }
    let failed = failed || error.is_some();
    let resumed = steps.iter().filter(|step| step.skip_code == Some("resumed")).count();
    let report = RunReport {
        name: work.document.name.clone(),
        command: *command,
        status: if failed { NodeStatus::Failed } else { NodeStatus::Succeeded },
        canceled,
        started_at,
        finished_at,
        duration_ms: milliseconds(began.elapsed()),
        error,
        state: store.map(|store| StateReport { secret: store.place(), resumed, written }),
        steps,
    };
    Ok(report.mask(redactor))
}
