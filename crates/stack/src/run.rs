//! Graph → outcome: runs a plan on the kernel and records everything that happens.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use slipway_cluster::Deadline;
use slipway_event::{Events, NodeKind, NodeName, Scope};
use slipway_graph::{
    Backoff, Context, Done, Edges, Fingerprint, Journal, JournalError, NodePolicy, NodeRef, OnFailure,
    Outcome, Policy, Record, Retry, Run, RunEvent as KernelEvent, Running, StopReason, Worker,
};
use tokio_util::sync::CancellationToken;

use crate::deploy::{At, Attempt, Class, Deploy, Live, NodeError};
use crate::duration;
use crate::error::Error;
use crate::plan::{Command, ExternalNeed, FailMode, NeedsPolicy, Node};
use crate::record::{EventType, Log, NodeStatus, RunEvent, RunLock, RunStatus, Store, Stored, Summary};
use crate::resume::Drift;

/// How often the lock is told that its holder lives.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// The summary is written at most this often; its last state always is.
const SUMMARY_EVERY: Duration = Duration::from_millis(250);
/// A conflict is somebody else at work; trying more often than this only fights.
const MOST_CONFLICTS: u32 = 2;

/// How to run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// How long a release that is told to stop may take to do so.
    pub grace: Duration,
    /// Classes tried again besides the usual ones.
    pub retry_on: BTreeSet<Class>,
    /// Whether a revision that this run left pending is marked failed before trying again.
    pub recover: bool,
    /// The process, for whoever reads the record.
    pub pid: u32,
    pub host: String,
    /// Attempts of each release in this invocation.
    pub retry: u32,
    /// Ends the run at once.
    pub abort: Abort,
}

/// Ends a run at once, with nothing but the record of its end: for whoever was told to stop a second time.
#[derive(Clone, Debug, Default)]
pub struct Abort {
    token: CancellationToken,
    signal: Arc<OnceLock<&'static str>>,
}

impl Abort {
    /// Asks for the end; `signal` is the reason that is recorded.
    pub fn trigger(&self, signal: &'static str) {
        let _ = self.signal.set(signal);
        self.token.cancel();
    }

    async fn asked(&self) -> &'static str {
        self.token.cancelled().await;
        self.signal.get().copied().unwrap_or_default()
    }
}

impl Default for RunOptions {
    fn default() -> Self {
        let (grace, retry_on) = (Duration::from_secs(30), BTreeSet::new());
        let abort = Abort::default();
        Self { grace, retry_on, recover: true, pid: 0, host: String::new(), retry: 1, abort }
    }
}

/// Where a run starts from.
#[derive(Debug)]
pub enum From {
    /// The beginning.
    Start,
    /// Where the last invocation stopped.
    Resume { drift: Option<Box<Drift>> },
    /// The nodes that failed, and those named along with them.
    Failed { only: BTreeSet<String>, drift: Option<Box<Drift>> },
}

/// Takes every event of a run once it is written.
pub type OnEvent<'a> = Box<dyn Fn(&RunEvent) + Send + Sync + 'a>;

/// A run about to start.
pub struct Session<'a> {
    pub store: &'a Store,
    pub stored: Stored,
    pub lock: RunLock,
    pub log: Log,
    pub from: From,
    pub options: RunOptions,
    /// Told of every event once it is written.
    pub on_event: Option<OnEvent<'a>>,
}

/// How a run ended.
#[derive(Debug)]
pub struct Finished {
    pub summary: Summary,
    /// Whether every release of the run is done, by this invocation or an earlier one.
    pub success: bool,
    pub canceled: bool,
    /// Why the record could not be kept, if it could not.
    pub unwritable: Option<String>,
    /// Whether another process took the lock.
    pub lost_lock: bool,
    pub duration: Duration,
}

/// Runs a plan to its end.
pub async fn run<D: Deploy>(
    session: Session<'_>,
    deploy: &D,
    events: &Events,
    cancel: CancellationToken,
) -> Result<Finished, Error> {
    let Session { store, stored, mut lock, log, from, options, on_event } = session;
    let began = Instant::now();
    let Stored { path, plan, events: history, summary } = stored;
    lock.name_run(&plan.run_id);
    let recorder = Recorder {
        inner: Mutex::new(Recorded { log, summary, written: None, failure: None }),
        path,
        store,
        on_event,
    };
    let mut first = vec![opening(&from, &plan.run_id, plan.command, plan.nodes.len(), &options, &history)];
    if matches!(from, From::Start) {
        first.extend(plan.carried_over.iter().map(|id| {
            RunEvent::new(EventType::NodeSucceeded, Some(id), 0)
                .message("done by an earlier run")
                .field("changed", false)
                .field("carriedFrom", plan.resumed_from.clone())
        }));
    }
    recorder.record(first)?;

    let graph = plan.graph()?;
    let mut external: BTreeMap<String, Vec<ExternalNeed>> =
        plan.nodes.iter().map(|node| (node.id.clone(), node.external_needs.clone())).collect();
    let graph = match &from {
        From::Failed { only, .. } => {
            let done: BTreeSet<&String> = {
                let inner = recorder.lock();
                let nodes = inner.summary.nodes.iter();
                let done: Vec<String> = nodes
                    .filter(|(_, node)| node.status == NodeStatus::Succeeded)
                    .map(|(id, _)| id.clone())
                    .collect();
                plan.nodes.iter().map(|node| &node.id).filter(|id| done.contains(id)).collect()
            };
            // What is neither done nor to be done again counts as outside the plan.
            for node in plan.nodes.iter().filter(|node| only.contains(&node.id)) {
                let open = node.needs.iter().filter(|need| !only.contains(*need) && !done.contains(need));
                let open = open.filter_map(|id| plan.node(id)).map(|need| ExternalNeed {
                    id: need.id.clone(),
                    name: need.name.clone(),
                    namespace: need.namespace.clone(),
                });
                external.entry(node.id.clone()).or_default().extend(open);
            }
            graph.select(Edges::Contracted, |node| only.contains(node.id().as_str()))
        }
        _ => graph,
    };

    let mut clusters: Vec<&str> = plan.nodes.iter().map(|node| node.cluster.name.as_str()).collect();
    clusters.sort_unstable();
    clusters.dedup();
    let limit = |cluster: &&str| {
        let limit =
            plan.concurrency_per_cluster.get(*cluster).or_else(|| plan.concurrency_per_cluster.get(""));
        limit.and_then(|limit| NonZeroUsize::new(*limit)).unwrap_or(NonZeroUsize::MAX)
    };
    let on_failure = match plan.fail_mode {
        FailMode::FailFast => OnFailure::FailFast(Running::Finish),
        FailMode::ContinueOnError => OnFailure::Continue,
    };
    let policy = Policy {
        concurrency: NonZeroUsize::new(plan.concurrency.max(1)),
        pools: clusters.iter().map(limit).collect(),
        on_cancel: Running::Stop,
        grace: options.grace,
        node: NodePolicy {
            retry: Retry::transient(options.retry.max(1), Backoff::STANDARD),
            on_failure,
            ..NodePolicy::default()
        },
        ..Policy::default()
    };
    let failures = Mutex::new(HashMap::new());
    let worker = Runner {
        deploy,
        run_id: &plan.run_id,
        command: plan.command,
        needs: plan.needs_policy,
        external,
        options: &options,
        recorder: &recorder,
        events,
        failures: &failures,
        conflicts: Mutex::new(HashMap::new()),
        pools: clusters.iter().enumerate().map(|(index, cluster)| (*cluster, index as u32)).collect(),
    };
    let journal = RecordedJournal {
        recorder: &recorder,
        history: slipway_journal::records(&history, &plan.carried_over),
        failures: &failures,
    };
    let title = format!("{} {} ({})", plan.command, plan.stack_name, plan.run_id);
    let observer = |event: KernelEvent<'_, NodeError>| {
        recorder.observe(&event);
        events.observe(&title, |id| NodeName::new(NodeKind::Release, id), &event);
    };
    let stop = cancel.child_token();
    let mut work = pin!(
        Run::new(&graph, &worker)
            .policy(policy)
            .cancel(stop.clone())
            .observe(observer)
            .journal(journal.within(&graph), Vec::new())
            .run()
    );
    let mut lost_lock = false;
    let report = loop {
        tokio::select! {
            biased;
            report = &mut work => break report,
            signal = options.abort.asked() => {
                let event = RunEvent::new(EventType::RunInterrupted, None, 0).field("signal", signal);
                // Nothing can be done about a record that cannot be written any more.
                let _ = recorder.record(vec![event]);
                let summary = recorder.lock().summary.clone();
                let _ = store.write_summary(&recorder.path, &summary);
                let _ = store.write_last_run(&plan, &summary);
                let unwritable = recorder.lock().failure.clone();
                let duration = began.elapsed();
                return Ok(Finished { summary, success: false, canceled: true, unwritable, lost_lock, duration });
            }
            () = tokio::time::sleep(HEARTBEAT) => {
                if !lost_lock && !lock.beat(store.clock().now()) {
                    lost_lock = true;
                    stop.cancel();
                }
            }
        }
    };
    let report = report.map_err(|error| Error::Unwritable(error.to_string()))?;
    let canceled = report.stopped == Some(StopReason::Cancelled);
    let status = {
        let inner = recorder.lock();
        match inner.summary.totals {
            totals if totals.succeeded == totals.planned => RunStatus::Succeeded,
            _ if canceled => RunStatus::Canceled,
            _ => RunStatus::Failed,
        }
    };
    let totals = serde_json::to_value(recorder.lock().summary.totals).unwrap_or_default();
    let last = RunEvent::new(EventType::RunCompleted, None, 0)
        .field("status", status.to_string())
        .field("totals", totals);
    // A failure to write is remembered and told below.
    let _ = recorder.record(vec![last]);
    let (summary, mut unwritable) = {
        let inner = recorder.lock();
        (inner.summary.clone(), inner.failure.clone())
    };
    let kept =
        store.write_summary(&recorder.path, &summary).and_then(|()| store.write_last_run(&plan, &summary));
    if let Err(error) = kept {
        unwritable.get_or_insert(crate::discover::plain(&error));
    }
    Ok(Finished {
        success: summary.status == RunStatus::Succeeded && unwritable.is_none(),
        summary,
        canceled,
        unwritable,
        lost_lock,
        duration: began.elapsed(),
    })
}

fn opening(
    from: &From,
    run_id: &str,
    command: Command,
    planned: usize,
    options: &RunOptions,
    history: &[RunEvent],
) -> RunEvent {
    let (mode, drift) = match from {
        From::Start => {
            return RunEvent::new(EventType::RunStarted, None, 0)
                .message(format!("{command} {run_id}"))
                .field("command", command.to_string())
                .field("planned", planned)
                .field("pid", options.pid)
                .field("host", options.host.clone());
        }
        From::Resume { drift } => ("resume", drift),
        From::Failed { drift, .. } => ("rerun-failed", drift),
    };
    let drift = drift.as_ref().map(|drift| drift.to_json()).unwrap_or(Value::Array(Vec::new()));
    RunEvent::new(EventType::RunResumed, None, 0)
        .field("mode", mode)
        .field("replayed", history.len())
        .field("drift", drift)
        .field("pid", options.pid)
        .field("host", options.host.clone())
}

/// Writes what happens and keeps count.
struct Recorder<'a> {
    inner: Mutex<Recorded>,
    path: std::path::PathBuf,
    store: &'a Store,
    on_event: Option<OnEvent<'a>>,
}

struct Recorded {
    log: Log,
    summary: Summary,
    /// When `summary.json` was written last.
    written: Option<Instant>,
    failure: Option<String>,
}

impl Recorder<'_> {
    fn lock(&self) -> std::sync::MutexGuard<'_, Recorded> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, events: Vec<RunEvent>) -> Result<(), Error> {
        let mut inner = self.lock();
        let written = match inner.log.append(events) {
            Ok(written) => written,
            Err(error) => {
                let error = Error::from(error);
                if let Error::Unwritable(reason) = &error {
                    inner.failure.get_or_insert(reason.clone());
                }
                return Err(error);
            }
        };
        for event in &written {
            inner.summary.take(event);
            if let Some(tell) = &self.on_event {
                tell(event);
            }
        }
        let due = inner.written.is_none_or(|written| written.elapsed() >= SUMMARY_EVERY);
        let terminal = written.iter().any(|event| event.kind == EventType::RunStarted || event.is_boundary());
        if due && terminal {
            inner.written = Some(Instant::now());
            // A snapshot anyone can rebuild; the log is what counts.
            let _ = self.store.write_summary(&self.path, &inner.summary);
        }
        Ok(())
    }

    fn state(&self, id: &str) -> NodeStatus {
        self.lock().summary.status_of(id)
    }

    /// Records what the journal does not: queues, retries, and nodes that never ran.
    fn observe(&self, event: &KernelEvent<'_, NodeError>) {
        let event = match event {
            // One that starts at once was queued by the record of its start.
            KernelEvent::NodeReady { id } if self.state(id) == NodeStatus::Planned => {
                RunEvent::new(EventType::NodeQueued, Some(id), 0)
            }
            KernelEvent::NodeRetrying { id, attempt, delay, .. } => {
                RunEvent::new(EventType::NodeRetryScheduled, Some(id), attempt + 1)
                    .message(format!("backoff={}", duration::show(*delay)))
            }
            KernelEvent::NodeFinished { id, outcome, attempts, .. } => match outcome {
                Outcome::Blocked { by } => RunEvent::new(EventType::NodeBlocked, Some(id), *attempts)
                    .message(format!("needs {} ({})", short(by), self.state(by)))
                    .field("by", by.as_str()),
                Outcome::NotStarted => RunEvent::new(EventType::NodeSkipped, Some(id), *attempts)
                    .message("the run stopped before its turn"),
                // A retry that was given up because the run stops.
                Outcome::Failed(failure) if self.state(id) != NodeStatus::Failed => {
                    let error = failure
                        .error()
                        .cloned()
                        .unwrap_or_else(|| NodeError::new(Class::Internal, failure.to_string()));
                    RunEvent::new(EventType::NodeFailed, Some(id), *attempts).error(error.record())
                }
                _ => return,
            },
            _ => return,
        };
        // A failure is remembered by the log, and the next thing that must be recorded stops the run.
        let _ = self.record(vec![event]);
    }
}

/// The name in an id.
fn short(id: &str) -> &str {
    id.rsplit('/').next().unwrap_or(id)
}

type Failures = Mutex<HashMap<String, NodeError>>;

/// The log of a run as the kernel's journal.
struct RecordedJournal<'a> {
    recorder: &'a Recorder<'a>,
    history: Vec<Record>,
    failures: &'a Failures,
}

impl RecordedJournal<'_> {
    /// Leaves out what concerns no node of the graph: only a part of the plan may be run again.
    fn within<N>(mut self, graph: &slipway_graph::Graph<N>) -> Self {
        self.history.retain(|record| graph.node(record.id()).is_some());
        self
    }
}

impl Journal for RecordedJournal<'_> {
    async fn begin(&mut self, _: &Fingerprint) -> Result<Vec<Record>, JournalError> {
        // The plan's own hash was checked when it was read.
        Ok(std::mem::take(&mut self.history))
    }

    async fn append(&mut self, records: &[Record]) -> Result<(), JournalError> {
        let failed = |id: &str| self.failures.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned();
        let event = |record: &Record| match record {
            Record::Started { id, attempt } => RunEvent::new(EventType::NodeRunning, Some(id), *attempt),
            Record::Succeeded { id, attempt, output } => {
                let mut event = RunEvent::new(EventType::NodeSucceeded, Some(id), *attempt);
                if let Some(note) = output.get("note").and_then(Value::as_str) {
                    event = event.message(note);
                }
                event.fields = output.as_object().cloned().unwrap_or_default();
                event.fields.remove("note");
                event
            }
            Record::Skipped { id, attempt, reason } => {
                RunEvent::new(EventType::NodeSucceeded, Some(id), *attempt)
                    .message(reason)
                    .field("changed", false)
            }
            Record::Failed { id, attempt, error, .. } => {
                let error = failed(id).unwrap_or_else(|| NodeError::new(Class::Internal, error.clone()));
                RunEvent::new(EventType::NodeFailed, Some(id), *attempt).error(error.record())
            }
            Record::Cancelled { id, attempt } => RunEvent::new(EventType::NodeCanceled, Some(id), *attempt),
        };
        let mut events = Vec::with_capacity(records.len());
        for record in records {
            if let Record::Started { id, .. } = record
                && self.recorder.state(id) == NodeStatus::Planned
            {
                events.push(RunEvent::new(EventType::NodeQueued, Some(id), 0));
            }
            events.push(event(record));
        }
        self.recorder.record(events).map_err(|error| JournalError::Other(error.to_string()))
    }
}

/// Does the work of one release.
struct Runner<'a, D> {
    deploy: &'a D,
    run_id: &'a str,
    command: Command,
    needs: NeedsPolicy,
    /// Needs outside the graph, by node.
    external: BTreeMap<String, Vec<ExternalNeed>>,
    options: &'a RunOptions,
    recorder: &'a Recorder<'a>,
    events: &'a Events,
    failures: &'a Failures,
    conflicts: Mutex<HashMap<String, u32>>,
    pools: HashMap<&'a str, u32>,
}

impl<'g, D: Deploy> Worker<'g, &'g Node> for Runner<'_, D> {
    type Error = NodeError;

    async fn work(&self, cx: Context<'g, &'g Node>) -> Result<Done, NodeError> {
        let node: &Node = cx.value();
        let attempt = Attempt {
            run_id: self.run_id,
            number: cx.attempt(),
            interrupted: cx.interrupted(),
            cancel: cx.cancelled().clone(),
            deadline: node.timeout(self.command).map(Deadline::after),
            events: self.events.child(Scope::release(&node.id)),
        };
        let done = self.attempt(node, &attempt).await;
        done.map(|applied| Done::Succeeded(applied.to_json())).map_err(|error| {
            let error = self.judge(node, error);
            let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
            failures.insert(node.id.clone(), error.clone());
            error
        })
    }

    fn policy(&self, node: NodeRef<'g, &'g Node>, default: &NodePolicy) -> NodePolicy {
        NodePolicy { pool: self.pools.get(node.value().cluster.name.as_str()).copied(), ..*default }
    }
}

impl<D: Deploy> Runner<'_, D> {
    async fn attempt(&self, node: &Node, attempt: &Attempt<'_>) -> Result<crate::deploy::Applied, NodeError> {
        if self.command == Command::Apply && self.needs == NeedsPolicy::Check {
            self.check_needs(node, attempt).await?;
        }
        if attempt.interrupted && self.options.recover {
            self.recover(node, attempt).await?;
        }
        match self.command {
            Command::Apply => self.deploy.apply(node, attempt).await,
            Command::Delete => self.deploy.delete(node, attempt).await,
        }
    }

    /// What it needs and this run does not bring must be there.
    async fn check_needs(&self, node: &Node, attempt: &Attempt<'_>) -> Result<(), NodeError> {
        for need in self.external.get(&node.id).into_iter().flatten() {
            let at = At { namespace: &need.namespace, name: &need.name, ..At::of(node) };
            let at = at.until(attempt.deadline.as_ref());
            if !matches!(self.deploy.status(&at).await?, Live::Deployed { .. }) {
                let message = format!(
                    "{}: need \"{}\" is neither selected nor deployed (add --include-deps, or --needs ignore)",
                    node.id, need.name
                );
                return Err(NodeError::new(Class::UnmetNeed, message));
            }
        }
        Ok(())
    }

    /// This run died while it worked on the release; a revision it left pending will never end by itself.
    async fn recover(&self, node: &Node, attempt: &Attempt<'_>) -> Result<(), NodeError> {
        let at = At::of(node).until(attempt.deadline.as_ref());
        let action = match self.deploy.status(&at).await? {
            Live::Pending { revision, status } => {
                let why = format!("interrupted while {status}; marked failed by run {}", self.run_id);
                self.deploy.recover(&at, revision, &why).await?;
                format!("revision {revision} was left {status}; marked failed")
            }
            Live::Uninstalling { .. } if self.command == Command::Delete => {
                "was left uninstalling; going on".to_owned()
            }
            _ => return Ok(()),
        };
        let event = RunEvent::new(EventType::NodeRecovered, Some(&node.id), attempt.number)
            .message(action.clone())
            .field("action", json!("mark-failed"));
        self.recorder
            .record(vec![event])
            .map_err(|error| NodeError::new(Class::Internal, error.to_string()))?;
        let problem = slipway_problem::Problem::warning(format!("{}: {action}", node.id));
        self.events.send(slipway_event::Event::Warning { problem });
        Ok(())
    }

    /// Settles whether a failure is worth another attempt, and masks what must not be told.
    fn judge(&self, node: &Node, mut error: NodeError) -> NodeError {
        error.message = self.events.redactor().redact(&error.message).into_owned();
        if self.options.retry_on.contains(&error.class) {
            error.retryable = Some(true);
        } else if error.class == Class::Conflict {
            let mut conflicts = self.conflicts.lock().unwrap_or_else(PoisonError::into_inner);
            let met = conflicts.entry(node.id.clone()).or_default();
            *met += 1;
            if *met > MOST_CONFLICTS {
                error.retryable = Some(false);
            }
        }
        error
    }
}
