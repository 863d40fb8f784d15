//! A document carried out, or undone, on the kernel.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use slipway_event::{Event, NodeStatus, Redactor};
use slipway_graph::{
    Backoff, Context, Done, ErrorClass, ErrorClasses, Failure, Fingerprint, Graph, Journal, JournalError,
    NodePolicy, NodeRef, OnFailure, Outcome, Policy, Record as Line, Retry, Run, RunEvent, Running, Schedule,
    StopReason, Worker,
};
use slipway_problem::{Problem, Problems};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::{ErrorKind, StepError};
use crate::model::{Action, Delete, Document, OnError, Step};
use crate::state::{Entry, Record, RunState, StateError, StepStatus, Store, shortened};
use crate::world::{Attempt, Place, World};
use crate::{hash, steps};

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
    State(#[from] StateError),
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

/// How one step ended.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StepReport {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub status: StepStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_kind: Option<ErrorKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_reason: Option<String>,
    /// `when`, `resumed`, `not-reversible`, `not-selected`, `canceled`, `stopped`, `needs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_code: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What became of the record.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StateReport {
    /// `namespace/name`.
    pub secret: String,
    /// How many steps it spared.
    pub resumed: usize,
    /// Whether it says how this run ended.
    pub written: bool,
}

/// How a run ended; its JSON form is that of `-o json`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunReport {
    pub name: String,
    pub command: Command,
    pub status: StepStatus,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub canceled: bool,
    pub started_at: String,
    pub finished_at: String,
    pub duration_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<StateReport>,
    /// By level, then in the order of the document.
    pub steps: Vec<StepReport>,
}

impl RunReport {
    pub fn is_success(&self) -> bool {
        self.status == StepStatus::Ok
    }

    pub fn step(&self, name: &str) -> Option<&StepReport> {
        self.steps.iter().find(|step| step.name == name)
    }

    /// Masks every text that is not one of the format's own words.
    fn mask(mut self, redactor: &Redactor) -> Self {
        let state = self.state.iter_mut().map(|state| &mut state.secret);
        for text in std::iter::once(&mut self.name).chain(&mut self.error).chain(state) {
            redactor.redact_in_place(text);
        }
        for step in &mut self.steps {
            redactor.redact_in_place(&mut step.name);
            for text in step.error.iter_mut().chain(&mut step.skip_reason).chain(&mut step.note) {
                redactor.redact_in_place(text);
            }
        }
        self
    }

    pub fn count(&self, status: StepStatus) -> usize {
        self.steps.iter().filter(|step| step.status == status).count()
    }
}

/// Why a step does not run, decided before anything does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) code: &'static str,
    pub(crate) reason: String,
}

impl Left {
    fn new(code: &'static str, reason: impl Into<String>) -> Self {
        Self { code, reason: reason.into() }
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

/// Why a step whose condition does not hold is left out.
///
/// The expression was masked when the document was read.
pub(crate) fn left_by_when(step: &Step) -> Option<Left> {
    let when = step.when.as_ref().filter(|when| !when.holds)?;
    Some(Left::new("when", format!("when condition is false ({})", when.expression)))
}

/// The digests of all steps that may run.
pub(crate) fn hashes(document: &Document, base: &std::path::Path) -> HashMap<String, Option<String>> {
    let included = document.steps.iter().filter(|step| left_by_when(step).is_none());
    let credentials = match &document.state {
        Some(state) if state.ignore_auth => hash::Credentials::Ignored,
        _ => hash::Credentials::Counted,
    };
    included.map(|step| (step.name.clone(), hash::input(step, base, credentials))).collect()
}

/// Which steps the record proves.
pub(crate) fn resumable(
    document: &Document,
    record: Option<&Record>,
    hashes: &HashMap<String, Option<String>>,
) -> BTreeSet<String> {
    let Some(record) = record else { return BTreeSet::new() };
    let known: HashMap<&str, &Entry> =
        record.steps.iter().map(|entry| (entry.name.as_str(), entry)).collect();
    let proven = document.steps.iter().filter(|step| {
        let hash = hashes.get(&step.name).and_then(Option::as_deref);
        known
            .get(step.name.as_str())
            .is_some_and(|entry| entry.kind == step.action.kind() && entry.proves(hash))
    });
    proven.map(|step| step.name.clone()).collect()
}

fn known_steps(document: &Document, names: &[String], flag: &str) -> Result<(), RunError> {
    let mut problems = Problems::new();
    for name in names {
        if !document.steps.iter().any(|step| step.name == *name) {
            let problem = Problem::error(format!("{flag}: there is no step `{name}`"));
            problems.push(problem.did_you_mean(name, document.steps.iter().map(|step| step.name.as_str())));
        }
    }
    if problems.has_errors() { Err(RunError::Usage(problems)) } else { Ok(()) }
}

/// The steps asked for and everything they need that is not done.
fn selected(document: &Document, only: &[String], done: &BTreeSet<String>) -> BTreeSet<String> {
    let mut chosen = BTreeSet::new();
    let mut open: Vec<&str> = only.iter().map(String::as_str).collect();
    while let Some(name) = open.pop() {
        if !chosen.insert(name.to_owned()) {
            continue;
        }
        if let Some(step) = document.steps.iter().find(|step| step.name == name) {
            open.extend(step.needs.iter().map(String::as_str).filter(|need| !done.contains(*need)));
        }
    }
    chosen
}

/// Carries a document out.
pub async fn apply(
    document: &Document,
    place: Place<'_>,
    options: &RunOptions,
    cancel: CancellationToken,
) -> Result<RunReport, RunError> {
    known_steps(document, &options.rerun, "--rerun")?;
    known_steps(document, &options.only, "--only")?;
    let store = document.state.as_ref().map(|state| Store::new(place.cluster, state));
    let before = match &store {
        Some(store) => store.load().await?,
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
    let mut left: HashMap<String, Left> = HashMap::new();
    for step in &document.steps {
        let why =
            left_by_when(step).or_else(|| done.contains(&step.name).then(|| Left::new("resumed", RESUMED)));
        let why = why.or_else(|| {
            let chosen = chosen.as_ref()?;
            (!chosen.contains(&step.name)).then(|| Left::new("not-selected", "not selected (--only)"))
        });
        if let Some(why) = why {
            left.insert(step.name.clone(), why);
        }
    }
    for why in left.values_mut() {
        place.events.redactor().redact_in_place(&mut why.reason);
    }
    let now = now(&place);
    let record = store.as_ref().map(|_| {
        let entries = document
            .steps
            .iter()
            .map(|step| seed(step, before.as_ref(), left.get(&step.name), &hashes, &now));
        Record::new(&document.name, hash::document(document), &now, entries.collect())
    });
    let interrupted = interrupted(before.as_ref());
    let job = Work { document, place, options, command: Command::Apply, left, interrupted };
    run(job, graph(document)?, store, record, before, cancel).await
}

/// Undoes a document, in the opposite order. What the record says does not matter; it goes last.
pub async fn destroy(
    document: &Document,
    place: Place<'_>,
    options: &RunOptions,
    cancel: CancellationToken,
) -> Result<RunReport, RunError> {
    let store = document.state.as_ref().map(|state| Store::new(place.cluster, state));
    let before = match &store {
        Some(store) => store.load().await?,
        None => None,
    };
    let mut left: HashMap<String, Left> = HashMap::new();
    for step in &document.steps {
        let irreversible = || Some(Left::new("not-reversible", steps::irreversible(&step.action)?));
        if let Some(why) = left_by_when(step).or_else(irreversible) {
            left.insert(step.name.clone(), why);
        }
    }
    let job = Work { document, place, options, command: Command::Destroy, left, interrupted: HashMap::new() };
    let record = before.clone();
    run(job, graph(document)?.reversed(), store, record, before, cancel).await
}

fn warn_if_running(before: &Record, place: &Place<'_>) {
    let now = place.events.clock().now();
    let age = before.updated_at.parse::<jiff::Timestamp>().map(|updated| now.duration_since(updated));
    let lately = age.is_ok_and(|age| age.unsigned_abs() < LATELY);
    if before.run_status == RunState::Running && lately {
        let message = format!("the record says that a run is under way since {}", before.started_at);
        let problem =
            Problem::warning(message).hint("if none is, it was killed and this run goes on from there");
        place.events.send(Event::Warning { problem });
    }
}

/// Steps a killed run may have left half done, and since when.
fn interrupted(before: Option<&Record>) -> HashMap<String, jiff::Timestamp> {
    let Some(before) = before.filter(|before| before.run_status == RunState::Running) else {
        return HashMap::new();
    };
    let Ok(since) = before.started_at.parse::<jiff::Timestamp>() else { return HashMap::new() };
    let open = before.steps.iter().filter(|entry| entry.status.is_none());
    open.map(|entry| (entry.name.clone(), since)).collect()
}

fn now(place: &Place<'_>) -> String {
    place.events.clock().now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The entry a step starts a run with.
fn seed(
    step: &Step,
    before: Option<&Record>,
    left: Option<&Left>,
    hashes: &HashMap<String, Option<String>>,
    now: &str,
) -> Entry {
    let known = before.and_then(|before| before.step(&step.name));
    match (left, known) {
        (Some(Left { code: "resumed" | "not-selected", .. }), Some(known)) => known.clone(),
        (Some(Left { code: "when", reason }), known) => {
            let same = known.filter(|known| known.skip_reason.as_ref() == Some(reason));
            same.cloned().unwrap_or_else(|| Entry {
                status: Some(StepStatus::Skipped),
                skip_reason: Some(reason.clone()),
                finished_at: Some(now.to_owned()),
                ..Entry::seeded(&step.name, step.action.kind(), None)
            })
        }
        _ => {
            let hash = hashes.get(&step.name).cloned().flatten();
            Entry::seeded(&step.name, step.action.kind(), hash)
        }
    }
}

/// What a run has to do.
struct Work<'a> {
    document: &'a Document,
    place: Place<'a>,
    options: &'a RunOptions,
    command: Command,
    /// Steps that do not run, whatever happens.
    left: HashMap<String, Left>,
    interrupted: HashMap<String, jiff::Timestamp>,
}

async fn run(
    work: Work<'_>,
    graph: Graph<&Step>,
    store: Option<Store>,
    record: Option<Record>,
    before: Option<Record>,
    cancel: CancellationToken,
) -> Result<RunReport, RunError> {
    let place = work.place;
    let (began, started_at) = (Instant::now(), now(&place));
    let idle = work.document.steps.iter().all(|step| work.left.contains_key(&step.name));
    let world = World::new(place, &work.document.name);
    let ledger = Ledger {
        store: store.as_ref(),
        record: Mutex::new(record),
        destroys: work.command == Command::Destroy,
        failed: Mutex::default(),
    };
    // The first word is written before the first step: a record that cannot be written stops everything.
    if let (false, Command::Apply, Some(_)) = (idle, work.command, &store) {
        ledger.write().await?;
    }
    let since = place.events.clock().now();
    let crew = Crew { world: &world, command: work.command, interrupted: &work.interrupted, since };
    let policy = Policy {
        schedule: if work.options.eager { Schedule::Eager } else { Schedule::ByWave },
        concurrency: work.options.parallelism,
        on_cancel: Running::Stop,
        grace: GRACE,
        ..Policy::default()
    };
    let journal = StepJournal {
        ledger: &ledger,
        left: &work.left,
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
                if let Some(why) = work.left.get(id.as_str()) {
                    let status =
                        if why.code == "resumed" { NodeStatus::Resumed } else { NodeStatus::Skipped };
                    place.events.send(Event::NodeFinished {
                        node: id.to_string(),
                        status,
                        reason: Some(why.reason.clone()),
                        duration_ms: 0,
                    });
                }
            }
            // To the kernel all that does not run was done before.
            RunEvent::RunFinished { summary, stopped, duration } => {
                let mut told = **summary;
                let resumed = work.left.values().filter(|why| why.code == "resumed").count();
                told.skipped += told.resumed.saturating_sub(resumed);
                told.resumed = resumed.min(told.resumed);
                let told: RunEvent<'_, StepError> =
                    RunEvent::RunFinished { summary: &told, stopped: *stopped, duration: *duration };
                place.events.observe(&title, &told);
            }
            _ => place.events.observe(&title, &event),
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
    let failed = canceled || steps.iter().any(|step| step.status == StepStatus::Failed);
    let finished_at = now(&place);
    let mut error = None;
    let mut written = false;
    if let Some(store) = &store {
        let last = ledger.close(&work, &steps, failed, &finished_at, before.as_ref());
        let ended = tokio::time::timeout(LAST_WORD, async {
            match (work.command, last) {
                (Command::Destroy, _) if !failed => store.remove().await.map(|()| true),
                (_, Some(record)) => store.write(&record).await.map(|()| true),
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
        status: if failed { StepStatus::Failed } else { StepStatus::Ok },
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

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// How every step ended, by level and then in the order of the document.
fn reports(
    work: &Work<'_>,
    graph: &Graph<&Step>,
    report: &slipway_graph::Report<StepError>,
) -> Vec<StepReport> {
    let level = |name: &str| graph.node(name).map_or(0, NodeRef::wave);
    let satisfied = |name: &str| report.node(name).is_some_and(|node| node.outcome.is_success());
    let stopper = match &report.stopped {
        Some(StopReason::Failed { id }) => Some(id.as_str()),
        _ => None,
    };
    let canceled = report.stopped == Some(StopReason::Cancelled);
    let mut all: Vec<(usize, StepReport)> = Vec::new();
    for step in &work.document.steps {
        let name = step.name.as_str();
        let mut told = StepReport {
            name: name.to_owned(),
            kind: step.action.kind().to_owned(),
            status: StepStatus::Skipped,
            attempts: None,
            duration_ms: None,
            error: None,
            error_kind: None,
            skip_reason: None,
            skip_code: None,
            note: None,
        };
        let skip = |told: &mut StepReport, code: &'static str, reason: String| {
            told.skip_code = Some(code);
            told.skip_reason = Some(reason);
        };
        let Some(node) = report.node(name) else { continue };
        if let Some(why) = work.left.get(name) {
            skip(&mut told, why.code, why.reason.clone());
            all.push((level(name), told));
            continue;
        }
        if node.attempts > 0 {
            told.attempts = Some(node.attempts);
            told.duration_ms = Some(milliseconds(node.duration));
        }
        match &node.outcome {
            Outcome::Succeeded | Outcome::Skipped { .. } | Outcome::Resumed => {
                told.status = StepStatus::Ok;
                let note = report.output(name).and_then(|output| output["note"].as_str());
                told.note = note.map(str::to_owned);
            }
            Outcome::Failed(failure) => {
                told.status = StepStatus::Failed;
                told.error = Some(failure.to_string());
                told.error_kind = Some(kind_of(failure));
            }
            Outcome::Cancelled => {
                told.status = StepStatus::Failed;
                told.error = Some("canceled".to_owned());
                told.error_kind = Some(ErrorKind::Canceled);
            }
            Outcome::Blocked { .. } | Outcome::NotStarted => {
                let needs: Vec<&str> = match work.command {
                    Command::Apply => step.needs.iter().map(String::as_str).collect(),
                    Command::Destroy => graph
                        .node(name)
                        .into_iter()
                        .flat_map(NodeRef::needs)
                        .map(|n| n.id().as_str())
                        .collect(),
                };
                let need = needs.iter().find(|need| !satisfied(need));
                match (canceled, stopper, need) {
                    (true, ..) => skip(&mut told, "canceled", "run canceled".to_owned()),
                    (_, Some(stopper), _) if level(stopper) < level(name) || need.is_none() => {
                        skip(&mut told, "stopped", format!("step \"{stopper}\" failed before"));
                    }
                    (_, _, Some(need)) => {
                        skip(&mut told, "needs", format!("needs \"{need}\" which did not succeed"));
                    }
                    _ => skip(&mut told, "stopped", "the run stopped before its turn".to_owned()),
                }
            }
        }
        all.push((level(name), told));
    }
    all.sort_by_key(|(level, _)| *level);
    all.into_iter().map(|(_, told)| told).collect()
}

fn kind_of(failure: &Failure<StepError>) -> ErrorKind {
    match failure {
        Failure::TimedOut { .. } => ErrorKind::Timeout,
        Failure::Error(error) => error.kind,
        Failure::Panicked(_) => ErrorKind::Internal,
    }
}

/// Does the work of one step.
struct Crew<'a> {
    world: &'a World<'a>,
    command: Command,
    interrupted: &'a HashMap<String, jiff::Timestamp>,
    since: jiff::Timestamp,
}

impl<'g> Worker<'g, &'g Step> for Crew<'_> {
    type Error = StepError;

    async fn work(&self, cx: Context<'g, &'g Step>) -> Result<Done, StepError> {
        let step: &Step = cx.value();
        let earlier = self.interrupted.get(&step.name).copied();
        let interrupted = earlier.or_else(|| (cx.attempt() > 1).then_some(self.since));
        let attempt = Attempt::new(self.world, step, cx.cancelled().clone(), interrupted);
        let done = match self.command {
            Command::Apply => Box::pin(steps::perform(&attempt)).await,
            Command::Destroy => Box::pin(steps::undo(&attempt)).await,
        };
        match done {
            Ok(did) => Ok(Done::Succeeded(did.note.map_or(
                Value::Null,
                |note| json!({"note": self.world.place.events.redactor().redact(&note)}),
            ))),
            Err(mut error) => {
                self.world.place.events.redactor().redact_in_place(&mut error.message);
                Err(error)
            }
        }
    }

    fn policy(&self, node: NodeRef<'g, &'g Step>, default: &NodePolicy) -> NodePolicy {
        let step = node.value();
        // A release keeps its own time: it records how it ended and may roll back.
        let keeps_time = matches!(&step.action, Action::Helm(_) | Action::Delete(Delete::Release { .. }));
        let on = ErrorClasses::TRANSIENT.with(ErrorClass::Timeout);
        NodePolicy {
            timeout: (!keeps_time).then_some(step.timeout),
            retry: Retry {
                on,
                ..Retry::always(step.retries.saturating_add(1), Backoff::fixed(step.retry_delay))
            },
            on_failure: match step.on_error {
                OnError::Fail => OnFailure::FailFast(Running::Finish),
                OnError::Continue => OnFailure::Continue,
            },
            ..*default
        }
    }
}

/// The record while a run is under way.
struct Ledger<'a> {
    store: Option<&'a Store>,
    record: Mutex<Option<Record>>,
    destroys: bool,
    /// Why a write failed.
    failed: Mutex<Option<String>>,
}

impl Ledger<'_> {
    fn change(&self, change: impl FnOnce(&mut Record)) {
        if let Some(record) = &mut *self.record.lock().unwrap_or_else(PoisonError::into_inner) {
            change(record);
        }
    }

    async fn write(&self) -> Result<(), StateError> {
        let record = self.record.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match (self.store, record) {
            (Some(store), Some(record)) => store.write(&record).await,
            _ => Ok(()),
        }
    }

    fn failure(&self) -> Option<String> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The record as it is at the end; nothing if that is what is there already.
    fn close(
        &self,
        work: &Work<'_>,
        steps: &[StepReport],
        failed: bool,
        now: &str,
        before: Option<&Record>,
    ) -> Option<Record> {
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        record.run_status = if failed { RunState::Failed } else { RunState::Ok };
        record.updated_at = now.to_owned();
        if !self.destroys {
            for step in steps.iter().filter(|step| !work.left.contains_key(&step.name)) {
                if let Some(entry) = record.step_mut(&step.name) {
                    entry.status = Some(step.status);
                    entry.attempts = step.attempts;
                    entry.duration_ms = step.duration_ms;
                    entry.error = step.error.as_deref().map(shortened);
                    entry.skip_reason = step.skip_reason.clone();
                    entry.finished_at.get_or_insert_with(|| now.to_owned());
                }
            }
        }
        let same = before.is_some_and(|before| before.says_the_same(&record));
        (!same).then_some(record)
    }
}

/// The record as the kernel's journal: what is proven done does not run, and every step that ended is
/// written before those that need it start.
struct StepJournal<'a> {
    ledger: &'a Ledger<'a>,
    left: &'a HashMap<String, Left>,
    steps: BTreeMap<&'a str, &'a Step>,
    started: HashMap<String, Instant>,
    place: Place<'a>,
}

impl Journal for StepJournal<'_> {
    async fn begin(&mut self, _: &Fingerprint) -> Result<Vec<Line>, JournalError> {
        let known = self.left.iter().filter(|(name, _)| self.steps.contains_key(name.as_str()));
        Ok(known
            .map(|(name, left)| Line::Skipped {
                id: name.as_str().into(),
                attempt: 0,
                reason: left.reason.clone(),
            })
            .collect())
    }

    async fn append(&mut self, lines: &[Line]) -> Result<(), JournalError> {
        let mut changed = false;
        let now = now(&self.place);
        for line in lines {
            let id = line.id().as_str();
            let Some(step) = self.steps.get(id) else { continue };
            let (status, error) = match line {
                Line::Started { .. } => {
                    self.started.entry(id.to_owned()).or_insert_with(Instant::now);
                    continue;
                }
                Line::Succeeded { .. } | Line::Skipped { .. } => (StepStatus::Ok, None),
                Line::Failed { attempt, class, error, .. } => {
                    // One that is tried again has not ended.
                    if *class != ErrorClass::Permanent && *attempt <= step.retries {
                        continue;
                    }
                    let error = self.place.events.redactor().redact(error).into_owned();
                    (StepStatus::Failed, Some(shortened(&error)))
                }
                Line::Cancelled { .. } => (StepStatus::Failed, Some("canceled".to_owned())),
            };
            let duration = self.started.get(id).map(|started| milliseconds(started.elapsed()));
            let destroys = self.ledger.destroys;
            self.ledger.change(|record| {
                record.updated_at.clone_from(&now);
                let Some(entry) = record.step_mut(id) else { return };
                if destroys {
                    // What was taken away must run again.
                    if status == StepStatus::Ok {
                        *entry = Entry::seeded(&entry.name, &entry.kind, entry.input_hash.clone());
                        changed = true;
                    }
                    return;
                }
                changed = true;
                entry.status = Some(status);
                entry.attempts = Some(line.attempt());
                entry.duration_ms = duration;
                entry.error = error;
                entry.skip_reason = None;
                entry.finished_at = Some(now.clone());
            });
        }
        if changed {
            // A record that cannot be written now may be written later; the run goes on.
            if let Err(error) = self.ledger.write().await {
                let mut failed = self.ledger.failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.get_or_insert(error.to_string());
            }
        }
        Ok(())
    }
}
