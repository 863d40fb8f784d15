//! A document carried out, or undone, on the kernel.

mod decision;
mod executor;
mod journal;
mod report;

use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::time::Duration;

use serde::Serialize;
use slipway_cluster::SecretStore;
use slipway_event::{Event, NodeKind, NodeName, NodeStatus as EventStatus};
use slipway_graph::{Graph, Id, Outcome, Policy, Run, RunEvent, Running, Schedule, StopReason};
use slipway_journal::{RecordStore, StoreError};
use slipway_problem::{Problem, Problems};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::decision::{SkipCode, SkippedStep, interrupted, known_steps, seed, selected};
pub(crate) use self::decision::{hashes, resumable, skipped_by_when};
use self::executor::StepExecutor;
use self::journal::{RunRecord, StepJournal};
pub use self::report::{RunReport, StateReport, StepReport};
use self::report::{milliseconds, reports};
use crate::context::{RunContext, SharedContext};
use crate::error::StepError;
use crate::hash;
use crate::model::{Document, Step};
use crate::state::{self, NodeStatus, RunSnapshot, RunStatus};

/// Why a step that is proven done is left out; part of the format.
pub const RESUMED: &str = "unchanged since it succeeded in a previous run (state record)";
/// A run that wrote this lately may still be at work.
const LATELY: Duration = Duration::from_secs(120);
/// How long writing the last word may take once the run is over.
const LAST_WORD: Duration = Duration::from_secs(30);
/// How long a step that is told to stop may take: a release records its failure and rolls back.
const GRACE: Duration = Duration::from_secs(600);

/// How to run.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// How many steps are under way at once; no limit if absent.
    pub parallelism: Option<NonZeroUsize>,
    /// Steps start when their own needs are done instead of level by level.
    pub eager: bool,
    /// Runs every step, whatever the record says.
    pub no_resume: bool,
    /// Steps the record is not believed about.
    pub rerun: Vec<String>,
    /// Only these steps, and what they need that is not done.
    pub only: Vec<String>,
}

/// Why a run did not start, or could not be recorded.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The caller asked for something the document does not have.
    #[error("{0}")]
    Usage(Problems),
    #[error(transparent)]
    State(#[from] StoreError),
    #[error("{0}")]
    Internal(String),
}

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
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

/// Carries a document out.
pub async fn apply(
    document: &Document,
    place: RunContext<'_>,
    options: &RunOptions,
    cancel: CancellationToken,
) -> Result<RunReport, RunError> {
    known_steps(document, &options.rerun, "--rerun")?;
    known_steps(document, &options.only, "--only")?;
    let store = document.state.as_ref().map(|state| state::open_store(place.cluster, state));
    let before = match &store {
        Some(store) => RunSnapshot::load(store).await?,
        None => None,
    };
    if let Some(before) = &before {
        warn_if_running(before, &place);
    }
    let hashes = if store.is_some() { hashes(document, place.base) } else { HashMap::new() };
    let mut done =
        if options.no_resume { BTreeSet::new() } else { resumable(document, before.as_ref(), &hashes) };
    for name in &options.rerun {
        done.remove(name);
    }
    let chosen = (!options.only.is_empty()).then(|| selected(document, &options.only, &done));
    let mut skipped: HashMap<String, SkippedStep> = HashMap::new();
    for step in &document.steps {
        let why = skipped_by_when(step)
            .or_else(|| done.contains(&step.name).then(|| SkippedStep::new(SkipCode::Resumed, RESUMED)));
        let why = why.or_else(|| {
            let chosen = chosen.as_ref()?;
            (!chosen.contains(&step.name))
                .then(|| SkippedStep::new(SkipCode::NotSelected, "not selected (--only)"))
        });
        if let Some(why) = why {
            skipped.insert(step.name.clone(), why);
        }
    }
    for why in skipped.values_mut() {
        place.events.redactor().redact_in_place(&mut why.reason);
    }
    let now = now(&place);
    let record = store.as_ref().map(|_| {
        let entries = document
            .steps
            .iter()
            .map(|step| seed(step, before.as_ref(), skipped.get(&step.name), &hashes, &now));
        let version = env!("CARGO_PKG_VERSION");
        RunSnapshot::new(&document.name, hash::document(document), version, &now, entries.collect())
    });
    let interrupted = interrupted(before.as_ref());
    let job = Work { document, place, options, command: Command::Apply, skipped, interrupted };
    run(job, graph(document)?, store, record, before, cancel).await
}

/// Undoes a document, in the opposite order. What the record says does not matter; it goes last.
pub async fn destroy(
    document: &Document,
    place: RunContext<'_>,
    options: &RunOptions,
    cancel: CancellationToken,
) -> Result<RunReport, RunError> {
    let store = document.state.as_ref().map(|state| state::open_store(place.cluster, state));
    let before = match &store {
        Some(store) => RunSnapshot::load(store).await?,
        None => None,
    };
    let mut skipped: HashMap<String, SkippedStep> = HashMap::new();
    for step in &document.steps {
        let irreversible =
            || Some(SkippedStep::new(SkipCode::NotReversible, step.action.as_step().irreversible()?));
        if let Some(why) = skipped_by_when(step).or_else(irreversible) {
            skipped.insert(step.name.clone(), why);
        }
    }
    let job =
        Work { document, place, options, command: Command::Destroy, skipped, interrupted: HashMap::new() };
    let record = before.clone();
    run(job, graph(document)?.reversed(), store, record, before, cancel).await
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

/// What a run has to do.
struct Work<'a> {
    document: &'a Document,
    place: RunContext<'a>,
    options: &'a RunOptions,
    command: Command,
    /// Steps that do not run, whatever happens.
    skipped: HashMap<String, SkippedStep>,
    interrupted: HashMap<String, jiff::Timestamp>,
}

async fn run(
    work: Work<'_>,
    graph: Graph<&Step>,
    store: Option<SecretStore>,
    record: Option<RunSnapshot>,
    before: Option<RunSnapshot>,
    cancel: CancellationToken,
) -> Result<RunReport, RunError> {
    let place = work.place;
    let (began, started_at) = (Instant::now(), now(&place));
    let idle = work.document.steps.iter().all(|step| work.skipped.contains_key(&step.name));
    let world = SharedContext::new(place, &work.document.name);
    let ledger = RunRecord {
        store: store.as_ref().map(|store| store as &dyn RecordStore),
        record: Mutex::new(record),
        destroys: work.command == Command::Destroy,
        failed: Mutex::default(),
    };
    // The first word is written before the first step: a record that cannot be written stops everything.
    if let (false, Command::Apply, Some(_)) = (idle, work.command, &store) {
        ledger.write().await?;
    }
    let since = place.events.clock().now();
    let crew = StepExecutor { world: &world, command: work.command, interrupted: &work.interrupted, since };
    let policy = Policy {
        schedule: if work.options.eager { Schedule::Eager } else { Schedule::ByWave },
        concurrency: work.options.parallelism,
        on_cancel: Running::Stop,
        grace: GRACE,
        ..Policy::default()
    };
    let journal = StepJournal {
        ledger: &ledger,
        skipped: &work.skipped,
        steps: graph.nodes().map(|node| (node.id().as_str(), *node.value())).collect(),
        started: HashMap::new(),
        place,
    };
    let title = format!("{} {}", work.command.as_str(), work.document.name);
    let report = Run::new(&graph, &crew)
        .policy(policy)
        .cancel(cancel.clone())
        .observe(|event| match &event {
            // Said with its own reason.
            RunEvent::NodeFinished { id, outcome: Outcome::Resumed, .. } => {
                if let Some(why) = work.skipped.get(id.as_str()) {
                    let status = if why.code == SkipCode::Resumed {
                        EventStatus::Resumed
                    } else {
                        EventStatus::Skipped
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
            RunEvent::RunFinished { summary, stopped, duration } => {
                let mut told = **summary;
                let resumed = work.skipped.values().filter(|why| why.code == SkipCode::Resumed).count();
                let known = told.skipped + told.resumed;
                told.resumed = resumed.min(known);
                told.skipped = known - told.resumed;
                let told: RunEvent<'_, StepError> =
                    RunEvent::RunFinished { summary: &told, stopped: *stopped, duration: *duration };
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
        let last = ledger.close(&work, &steps, failed, &finished_at, before.as_ref());
        let ended = tokio::time::timeout(LAST_WORD, async {
            match (work.command, last) {
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
        command: work.command,
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
