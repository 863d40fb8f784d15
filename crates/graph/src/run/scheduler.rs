//! The run: one task that owns all state, polls every attempt and is the only one to write the journal.

use std::any::Any;
use std::collections::VecDeque;
use std::future::pending;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::state::{AttemptEnd, EndedAttempt, RunState};
use super::{AttemptFailure, Context, Done, Policy, Report, RunEvent, RunningNodes, StopReason, Worker};
use crate::{Graph, Journal, JournalError, NoJournal};

/// A run of a graph in the making.
///
/// ```
/// # use slipway_graph::{Done, Graph, Run, RunEvent};
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// # runtime.block_on(async {
/// let mut builder = Graph::builder();
/// builder.add("web", "start web", ["db"]).add("db", "start db", [""; 0]);
/// let graph = builder.build()?;
/// let worker = graph.worker(|cx| async move {
///     // … do what `cx.value()` says …
///     Ok::<_, std::convert::Infallible>(Done::OK)
/// });
/// let mut finished = Vec::new();
/// let report = Run::new(&graph, &worker)
///     .observe(|event| {
///         if let RunEvent::NodeFinished { id, .. } = event {
///             finished.push(id.to_string());
///         }
///     })
///     .run()
///     .await?;
/// assert!(report.is_success());
/// # drop(report);
/// assert_eq!(finished, ["db", "web"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Attempts run inside the task that awaits [`Run::run`]; dropping that future drops them all, which
/// leaves the journal as a crash would.
#[must_use = "a run does nothing until `run` is awaited"]
pub struct Run<'a, 'g, N, W: Worker<'g, N>, J = NoJournal> {
    graph: &'g Graph<N>,
    worker: &'a W,
    policy: Policy,
    cancel: CancellationToken,
    observer: Observer<'a, W::Error>,
    journal: J,
    input: Vec<u8>,
}

pub(super) type Observer<'a, E> = Box<dyn FnMut(RunEvent<'_, E>) + Send + 'a>;

impl<'a, 'g, N, W: Worker<'g, N>> Run<'a, 'g, N, W> {
    /// Starts with the default policy, unobserved, without a journal.
    pub fn new(graph: &'g Graph<N>, worker: &'a W) -> Self {
        Self {
            graph,
            worker,
            policy: Policy::default(),
            cancel: CancellationToken::new(),
            observer: Box::new(|_| ()),
            journal: NoJournal,
            input: Vec::new(),
        }
    }
}

impl<'a, 'g, N: Sync, W: Worker<'g, N>, J: Journal> Run<'a, 'g, N, W, J> {
    /// Sets the rules.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Lets this token cancel the run.
    pub fn cancel(mut self, token: CancellationToken) -> Self {
        self.cancel = token;
        self
    }

    /// Tells what happens. The observer is called by the run's own task and must not block.
    pub fn observe(mut self, observer: impl FnMut(RunEvent<'_, W::Error>) + Send + 'a) -> Self {
        self.observer = Box::new(observer);
        self
    }

    /// Records in a journal, and goes on where its last run ended. `input` is the caller's hash of
    /// whatever the nodes' effects depend on beyond ids and edges; see [`Graph::fingerprint`].
    pub fn journal<K: Journal>(self, journal: K, input: impl Into<Vec<u8>>) -> Run<'a, 'g, N, W, K> {
        let Self { graph, worker, policy, cancel, observer, .. } = self;
        Run { graph, worker, policy, cancel, observer, journal, input: input.into() }
    }

    /// Runs until every node has ended. Fails only if the journal cannot be begun with; all else,
    /// including a journal that can no longer be written to, is in the report.
    ///
    /// The future is boxed so that it is plainly [`Send`]: the compiler cannot see that of one that holds
    /// a borrowing worker ([rust#100013](https://github.com/rust-lang/rust/issues/100013)).
    pub fn run(self) -> BoxFuture<'a, Result<Report<W::Error>, JournalError>>
    where
        N: 'a,
        W: 'a,
        W::Error: 'a,
        J: 'a,
        'g: 'a,
    {
        self.drive_run().boxed()
    }

    async fn drive_run(self) -> Result<Report<W::Error>, JournalError> {
        let Self { graph, worker, policy, cancel, observer, mut journal, input } = self;
        let began = Instant::now();
        let history = journal.begin(&graph.fingerprint(&input)).await?;
        let rules = graph.nodes().map(|node| worker.policy(node, &policy.node)).collect();
        let mut state = RunState::new(&graph.shape, &policy, rules, observer);
        state.replay(history)?;

        let stop = CancellationToken::new();
        let mut running = FuturesUnordered::new();
        let mut ended: VecDeque<EndedAttempt<W::Error>> = VecDeque::new();
        let mut cancelled = pin!(cancel.cancelled());
        let mut overdue = pin!(wait_limit(policy.timeout));
        let (mut heard_cancel, mut heard_overdue) = (false, false);
        loop {
            if cancel.is_cancelled() && !heard_cancel {
                heard_cancel = true;
                state.stop(StopReason::Cancelled, policy.on_cancel);
            }
            for attempt in ended.drain(..) {
                state.settle_attempt(attempt);
            }
            if state.stops_running() {
                stop.cancel();
            }
            let mut starting = state.pick_ready();
            let records = state.take_records(&starting);
            if !records.is_empty() {
                let appended = {
                    let mut append = pin!(journal.append(&records));
                    loop {
                        // Attempts under way go on while the disk is busy.
                        tokio::select! {
                            biased;
                            appended = &mut append => break appended,
                            () = &mut cancelled, if !heard_cancel => {
                                heard_cancel = true;
                                state.stop(StopReason::Cancelled, policy.on_cancel);
                                if state.stops_running() {
                                    stop.cancel();
                                }
                            }
                            Some(attempt) = running.next(), if !running.is_empty() => ended.push_back(attempt),
                        }
                    }
                };
                if let Err(error) = appended {
                    state.not_recorded(records, std::mem::take(&mut starting), error);
                }
            }
            // Whoever asked to stop while the disk was busy wants nothing to start.
            if cancel.is_cancelled() && !heard_cancel {
                heard_cancel = true;
                state.stop(StopReason::Cancelled, policy.on_cancel);
            }
            if heard_cancel {
                state.take_back(std::mem::take(&mut starting));
            }
            state.send_notices();
            for position in starting {
                let (attempt, interrupted) = state.started(position);
                let cx = Context {
                    node: graph.at(position),
                    attempt,
                    interrupted,
                    cancel: stop.child_token(),
                    outputs: state.outputs(),
                };
                running.push(make_attempt(worker, cx, state.timeout(position), policy.grace));
            }
            if !ended.is_empty() || state.stops_running() && !stop.is_cancelled() {
                continue;
            }
            let retry_at = state.next_retry();
            if running.is_empty() && retry_at.is_none() {
                break;
            }
            tokio::select! {
                biased;
                () = &mut cancelled, if !heard_cancel => {}
                () = &mut overdue, if !heard_overdue => {
                    heard_overdue = true;
                    state.stop(StopReason::TimedOut, RunningNodes::Stop);
                }
                Some(attempt) = running.next(), if !running.is_empty() => {
                    ended.push_back(attempt);
                    // What else has ended shares the next write to the journal.
                    while let Some(Some(attempt)) = running.next().now_or_never() {
                        ended.push_back(attempt);
                    }
                }
                () = wait_until(retry_at), if retry_at.is_some() => state.wake_retries(Instant::now()),
            }
        }
        Ok(state.report(graph.shape.clone(), began))
    }
}

/// Makes one attempt, within its time. Told to stop, it has the grace to do so.
async fn make_attempt<'g, N: Sync, W: Worker<'g, N>>(
    worker: &W,
    cx: Context<'g, N>,
    timeout: Option<Duration>,
    grace: Duration,
) -> EndedAttempt<W::Error> {
    let position = cx.node.position() as u32;
    let cancel = cx.cancel.clone();
    // Inside the block, so that a panic before the first await is caught too. What a node does may be large, and an attempt is
    // moved several times before it begins.
    let mut work = Box::pin(AssertUnwindSafe(async move { worker.work(cx).await }).catch_unwind());
    let after = tokio::select! {
        biased;
        result = &mut work => return EndedAttempt { position, how: AttemptEnd::Returned(attempt_result(result)) },
        () = wait_limit(timeout) => timeout,
        () = cancel.cancelled() => None,
    };
    cancel.cancel();
    let result = tokio::select! {
        biased;
        result = &mut work => Some(attempt_result(result)),
        () = sleep(grace) => None,
    };
    let how = match (result, after) {
        (Some(Err(AttemptFailure::Error(error))), Some(after)) => {
            AttemptEnd::Returned(Err(AttemptFailure::TimedOut { after, error: Some(error) }))
        }
        (Some(result), _) => AttemptEnd::Returned(result),
        (None, Some(after)) => AttemptEnd::Returned(Err(AttemptFailure::TimedOut { after, error: None })),
        (None, None) => AttemptEnd::Stopped,
    };
    EndedAttempt { position, how }
}

fn attempt_result<E>(
    result: Result<Result<Done, E>, Box<dyn Any + Send>>,
) -> Result<Done, AttemptFailure<E>> {
    match result {
        Ok(result) => result.map_err(AttemptFailure::Error),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            Err(AttemptFailure::Panicked(text.unwrap_or_else(|| "the worker panicked".to_owned())))
        }
    }
}

async fn wait_limit(after: Option<Duration>) {
    match after {
        Some(after) => sleep(after).await,
        None => pending().await,
    }
}

async fn wait_until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => pending().await,
    }
}
