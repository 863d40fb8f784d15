//! A planned run → its outcome: runs the graph on the kernel and records everything that happens.

mod recorder;
mod worker;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use slipway_event::{Events, NodeKind, NodeName};
use slipway_graph::{
    Backoff, KeptEdges, NodePolicy, OnFailure, Policy, Retry, Run, RunEvent as KernelEvent, RunningNodes,
    StopReason,
};
use tokio_util::sync::CancellationToken;

use self::recorder::{RecordedJournal, Recorder, opening_event};
use self::worker::ReleaseWorker;
use crate::deploy::{Deploy, FailureClass, NodeError};
use crate::error::Error;
use crate::plan::{ExternalNeed, FailMode, SavedRun, StackPlan};
use crate::record::{EventType, Log, NodeStatus, RunEvent, RunLock, RunStatus, RunStore, StoredRun, Summary};
use crate::resume::Drift;

/// The pause between two signs of life to the lock.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// Settings of a run that its plan does not hold.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Time a release that is told to stop may take to do so.
    pub grace: Duration,
    /// Classes tried again besides the usual ones.
    pub retry_on: BTreeSet<FailureClass>,
    /// The way of a revision that this run left pending.
    pub recovery: Recovery,
    /// The process, for whoever reads the record.
    pub pid: u32,
    pub host: String,
    /// Attempts of each release in this invocation.
    pub retry: u32,
    /// Ends the run at once.
    pub abort: Abort,
}

/// The way a revision that a killed run left pending is dealt with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recovery {
    /// It is marked failed before the next attempt.
    #[default]
    MarkFailed,
    /// It is left alone.
    Leave,
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
        Self { grace, retry_on, recovery: Recovery::MarkFailed, pid: 0, host: String::new(), retry: 1, abort }
    }
}

/// The place a run starts from.
#[derive(Debug)]
pub enum RunStart {
    /// The beginning.
    Beginning,
    /// The place where the last invocation stopped.
    Resume { drift: Option<Box<Drift>> },
    /// The nodes that failed, and those named along with them.
    Failed { only: BTreeSet<String>, drift: Option<Box<Drift>> },
}

/// A run about to start.
pub struct RunSession<'a> {
    pub store: &'a RunStore,
    pub stored: StoredRun,
    pub lock: RunLock,
    pub log: Log,
    pub start: RunStart,
    pub options: RunOptions,
}

/// The end of a run.
#[derive(Debug)]
pub struct StackRunResult {
    pub summary: Summary,
    /// True if every release of the run is done, by this invocation or an earlier one.
    pub success: bool,
    pub canceled: bool,
    /// The reason why the record could not be kept, if it could not.
    pub unwritable: Option<String>,
    /// True if another process took the lock.
    pub lost_lock: bool,
    pub duration: Duration,
}

/// Carries a saved run out, to its end.
pub async fn execute<D: Deploy>(
    run: SavedRun,
    store: &RunStore,
    lock: RunLock,
    options: RunOptions,
    deploy: &D,
    events: &Events,
    cancel: CancellationToken,
) -> Result<ExecutedRun, Error> {
    let SavedRun { stored, start } = run;
    let log = store.log(&stored)?;
    let plan = Box::new(stored.plan.clone());
    let session = RunSession { store, stored, lock, log, start, options };
    let outcome = Box::new(run_session(session, deploy, events, cancel).await?);
    Ok(ExecutedRun { plan, outcome })
}

/// A run that ended, with its plan.
#[derive(Debug)]
pub struct ExecutedRun {
    pub plan: Box<StackPlan>,
    pub outcome: Box<StackRunResult>,
}

/// Runs a plan on the kernel.
pub async fn run_session<D: Deploy>(
    session: RunSession<'_>,
    deploy: &D,
    events: &Events,
    cancel: CancellationToken,
) -> Result<StackRunResult, Error> {
    let RunSession { store, stored, mut lock, log, start, options } = session;
    let began = Instant::now();
    let StoredRun { path, plan, events: history, summary } = stored;
    lock.name_run(&plan.run_id);
    let recorder = Recorder::new(store, path, log, summary);
    let mut first = vec![opening_event(&start, &plan, &options, &history)];
    if matches!(start, RunStart::Beginning) {
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
    let graph = match &start {
        RunStart::Failed { only, .. } => {
            let done: BTreeSet<&String> = {
                let ids = plan.nodes.iter().map(|node| &node.id);
                ids.filter(|id| recorder.state(id) == NodeStatus::Succeeded).collect()
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
            graph.select(KeptEdges::Contracted, |node| only.contains(node.id().as_str()))
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
        FailMode::FailFast => OnFailure::FailFast(RunningNodes::Finish),
        FailMode::ContinueOnError => OnFailure::Continue,
    };
    let policy = Policy {
        concurrency: NonZeroUsize::new(plan.concurrency.max(1)),
        pools: clusters.iter().map(limit).collect(),
        on_cancel: RunningNodes::Stop,
        grace: options.grace,
        node: NodePolicy {
            retry: Retry::transient(options.retry.max(1), Backoff::STANDARD),
            on_failure,
            ..NodePolicy::default()
        },
        ..Policy::default()
    };
    let failures = Mutex::new(HashMap::new());
    let worker = ReleaseWorker {
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
                let summary = recorder.summary();
                let _ = store.write_summary(recorder.path(), &summary);
                let _ = store.write_last_run(&plan, &summary);
                let unwritable = recorder.failure();
                let duration = began.elapsed();
                return Ok(StackRunResult { summary, success: false, canceled: true, unwritable, lost_lock, duration });
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
    let totals = recorder.summary().totals;
    let status = match totals {
        totals if totals.succeeded == totals.planned() => RunStatus::Succeeded,
        _ if canceled => RunStatus::Canceled,
        _ => RunStatus::Failed,
    };
    let totals =
        slipway_journal::totals::serialize(&totals, serde_json::value::Serializer).unwrap_or_default();
    let last = RunEvent::new(EventType::RunCompleted, None, 0)
        .field("status", status.to_string())
        .field("totals", totals);
    // A failure to write is remembered and told below.
    let _ = recorder.record(vec![last]);
    let (summary, mut unwritable) = (recorder.summary(), recorder.failure());
    let kept =
        store.write_summary(recorder.path(), &summary).and_then(|()| store.write_last_run(&plan, &summary));
    if let Err(error) = kept {
        unwritable.get_or_insert(crate::discover::plain(&error));
    }
    Ok(StackRunResult {
        success: summary.status == RunStatus::Succeeded && unwritable.is_none(),
        summary,
        canceled,
        unwritable,
        lost_lock,
        duration: began.elapsed(),
    })
}

/// The last failure of each release, by its id.
type Failures = Mutex<HashMap<String, NodeError>>;
