//! The state of a run: the nodes that are ready, waiting, running or done. Pure bookkeeping, no waiting.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::scheduler::Observer;
use super::worker::Outputs;
use super::{
    AttemptFailure, Classify, Done, NodePolicy, NodeReport, NodeTotals, OnFailure, Outcome, Policy, Report,
    RetryClass, RunEvent, RunningNodes, Schedule, StopReason,
};
use crate::graph::GraphShape;
use crate::{JournalError, JournalRecord};

/// An attempt that is over.
pub(super) struct EndedAttempt<E> {
    pub(super) position: u32,
    pub(super) how: AttemptEnd<E>,
}

/// The end of an attempt.
pub(super) enum AttemptEnd<E> {
    Returned(Result<Done, AttemptFailure<E>>),
    /// It was told to stop, did not, and was dropped.
    Stopped,
}

/// News to be told once it is recorded.
enum Notice {
    Ready(u32),
    Retrying { position: u32, attempt: u32, delay: Duration },
    Finished(u32),
    Stopping,
}

struct Node<E> {
    /// Needs that are not done.
    missing: u32,
    /// Attempts made, over all runs.
    attempts: u32,
    /// Attempts made in this run.
    tried: u32,
    interrupted: bool,
    started: Option<Instant>,
    duration: Duration,
    outcome: Option<Outcome<E>>,
}

/// Nodes that share a limit.
struct Pool {
    limit: usize,
    busy: usize,
    ready: BinaryHeap<Reverse<(u32, u32)>>,
}

impl Pool {
    fn new(limit: usize) -> Self {
        Self { limit, busy: 0, ready: BinaryHeap::new() }
    }

    /// The node it would start next, if it has a place for it.
    fn next(&self) -> Option<Reverse<(u32, u32)>> {
        self.ready.peek().filter(|_| self.busy < self.limit).copied()
    }
}

pub(super) struct RunState<'a, E> {
    shape: &'a GraphShape,
    policy: &'a Policy,
    rules: Vec<NodePolicy>,
    observer: Observer<'a, E>,
    nodes: Vec<Node<E>>,
    outputs: Arc<Outputs>,
    /// Nodes that may start, by rank and position; those that take no place apart.
    ready: Pool,
    ready_unmetered: BinaryHeap<Reverse<(u32, u32)>>,
    /// Nodes that may start within a limit of their own.
    pools: Vec<Pool>,
    busy: usize,
    retries: BinaryHeap<Reverse<(Instant, u32)>>,
    /// Failures of nodes that wait for a retry, or for a place for it.
    failures: HashMap<u32, AttemptFailure<E>>,
    records: Vec<JournalRecord>,
    notices: Vec<Notice>,
    stopped: Option<StopReason>,
    stops_running: bool,
    journal_error: Option<JournalError>,
    /// Under [`Schedule::ByWave`]: the wave whose nodes may start, and the nodes not ended in each.
    wave: usize,
    wave_left: Vec<u32>,
}

impl<'a, E: Classify> RunState<'a, E> {
    pub(super) fn new(
        shape: &'a GraphShape,
        policy: &'a Policy,
        rules: Vec<NodePolicy>,
        observer: Observer<'a, E>,
    ) -> Self {
        let node = |position| Node {
            missing: shape.needs.neighbours(position).len() as u32,
            attempts: 0,
            tried: 0,
            interrupted: false,
            started: None,
            duration: Duration::ZERO,
            outcome: None,
        };
        Self {
            shape,
            policy,
            rules,
            observer,
            nodes: (0..shape.len() as u32).map(node).collect(),
            outputs: Arc::new((0..shape.len()).map(|_| std::sync::OnceLock::new()).collect()),
            ready: Pool::new(usize::MAX),
            pools: policy.pools.iter().map(|&limit| Pool::new(limit.into())).collect(),
            ready_unmetered: BinaryHeap::new(),
            busy: 0,
            retries: BinaryHeap::new(),
            failures: HashMap::new(),
            records: Vec::new(),
            notices: Vec::new(),
            stopped: None,
            stops_running: false,
            journal_error: None,
            wave: 0,
            wave_left: shape.wave_starts.windows(2).map(|wave| wave[1] - wave[0]).collect(),
        }
    }

    /// Takes over what earlier runs did and finds the nodes that may start.
    pub(super) fn replay(&mut self, history: Vec<JournalRecord>) -> Result<(), JournalError> {
        let mut done: Vec<Option<Outcome<E>>> = self.nodes.iter().map(|_| None).collect();
        for record in history {
            let Some(position) = self.shape.find(record.id()) else {
                return Err(JournalError::UnknownNode { id: record.id().clone() });
            };
            let node = &mut self.nodes[position as usize];
            node.attempts = node.attempts.max(record.attempt());
            node.interrupted = matches!(record, JournalRecord::Started { .. });
            match record {
                JournalRecord::Succeeded { output, .. } => {
                    done[position as usize] = Some(Outcome::Resumed);
                    // Recorded twice after a failed write: the same output.
                    let _ = self.outputs[position as usize].set(output);
                }
                // Nothing was done then, so nothing was taken over.
                JournalRecord::Skipped { reason, .. } => {
                    done[position as usize] = Some(Outcome::Skipped { reason });
                }
                JournalRecord::Started { .. }
                | JournalRecord::Failed { .. }
                | JournalRecord::Cancelled { .. } => {}
            }
        }
        let resumed = done.iter().filter(|done| matches!(done, Some(Outcome::Resumed))).count();
        (self.observer)(RunEvent::RunStarted { nodes: self.nodes.len(), resumed });
        for (position, outcome) in (0..).zip(done) {
            let Some(outcome) = outcome else { continue };
            self.end(position, outcome);
            for &dependent in self.shape.dependents.neighbours(position) {
                self.nodes[dependent as usize].missing -= 1;
            }
        }
        match self.policy.schedule {
            Schedule::Eager => (0..self.nodes.len() as u32).for_each(|position| self.ready(position)),
            Schedule::ByWave => {
                self.ready_wave();
                self.advance_wave();
            }
        }
        Ok(())
    }

    /// Takes note of how an attempt ended.
    pub(super) fn settle_attempt(&mut self, ended: EndedAttempt<E>) {
        let EndedAttempt { position, how } = ended;
        let at = position as usize;
        let (id, attempt) = (self.shape.ids[at].clone(), self.nodes[at].attempts);
        self.leave(position);
        match how {
            AttemptEnd::Returned(Ok(Done::Succeeded(output))) => {
                self.records.push(JournalRecord::Succeeded { id, attempt, output: output.clone() });
                let _ = self.outputs[at].set(output);
                self.end_successful(position, Outcome::Succeeded);
            }
            AttemptEnd::Returned(Ok(Done::Skipped { reason })) => {
                self.records.push(JournalRecord::Skipped { id, attempt, reason: reason.clone() });
                self.end_successful(position, Outcome::Skipped { reason });
            }
            AttemptEnd::Returned(Err(failure))
                if failure.class() == RetryClass::Cancelled && self.stops_running =>
            {
                self.records.push(JournalRecord::Cancelled { id, attempt });
                self.end_unsuccessful(position, Outcome::Cancelled);
            }
            AttemptEnd::Returned(Err(failure)) => {
                let (class, error) = (failure.class(), failure.to_string());
                self.records.push(JournalRecord::Failed { id: id.clone(), attempt, class, error });
                let retry = self.rules[at].retry;
                let (tried, asked) = (self.nodes[at].tried, failure.retry_after());
                let delay = match self.stopped {
                    None => retry.delay(tried, class, asked, &id, self.policy.seed),
                    Some(_) => None,
                };
                if let Some(delay) = delay {
                    self.failures.insert(position, failure);
                    self.retries.push(Reverse((Instant::now() + delay, position)));
                    self.notices.push(Notice::Retrying { position, attempt, delay });
                } else {
                    self.end_unsuccessful(position, Outcome::Failed(failure));
                    if let OnFailure::FailFast(running) = self.rules[at].on_failure {
                        self.stop(StopReason::Failed { id }, running);
                    }
                }
            }
            AttemptEnd::Stopped => {
                self.records.push(JournalRecord::Cancelled { id, attempt });
                self.end_unsuccessful(position, Outcome::Cancelled);
            }
        }
    }

    /// Starts nothing new from here on. The first reason counts; a later one can still stop what runs.
    pub(super) fn stop(&mut self, reason: StopReason, running: RunningNodes) {
        self.stops_running |= running == RunningNodes::Stop;
        if self.stopped.is_some() {
            return;
        }
        self.stopped = Some(reason);
        self.notices.push(Notice::Stopping);
        // A retry is a new start, whether its pause is over or not.
        self.retries.clear();
        let mut waiting: Vec<u32> = self.failures.keys().copied().collect();
        waiting.sort_unstable();
        for position in waiting {
            if let Some(failure) = self.failures.remove(&position) {
                self.end_unsuccessful(position, Outcome::Failed(failure));
            }
        }
    }

    /// Tells that running nodes are to stop.
    pub(super) fn stops_running(&self) -> bool {
        self.stops_running
    }

    /// Chooses the nodes to start now.
    pub(super) fn pick_ready(&mut self) -> Vec<u32> {
        if self.stopped.is_some() {
            return Vec::new();
        }
        let mut picked: Vec<_> = self.ready_unmetered.drain().collect();
        let limit = self.policy.concurrency.map_or(usize::MAX, usize::from);
        while self.busy < limit {
            let pools = std::iter::once(&mut self.ready).chain(&mut self.pools);
            // The smallest key has the greatest `Reverse`.
            let Some(pool) = pools.filter(|pool| pool.next().is_some()).max_by_key(|pool| pool.next()) else {
                break;
            };
            pool.busy += 1;
            self.busy += 1;
            picked.extend(pool.ready.pop());
        }
        picked.sort_unstable_by_key(|&Reverse(key)| key);
        for &Reverse((_, position)) in &picked {
            let node = &mut self.nodes[position as usize];
            node.attempts += 1;
            node.tried += 1;
        }
        picked.into_iter().map(|Reverse((_, position))| position).collect()
    }

    /// Everything to record before the picked nodes start and before anything is told.
    pub(super) fn take_records(&mut self, picked: &[u32]) -> Vec<JournalRecord> {
        // Records of earlier failed writes are tried again only along with new ones.
        if picked.is_empty() && !self.notices.iter().any(Notice::is_recorded) {
            return Vec::new();
        }
        let mut records = std::mem::take(&mut self.records);
        records.extend(picked.iter().map(|&position| JournalRecord::Started {
            id: self.shape.ids[position as usize].clone(),
            attempt: self.nodes[position as usize].attempts,
        }));
        records
    }

    /// Stops because records could not be written; nodes about to start do not.
    pub(super) fn not_recorded(
        &mut self,
        mut records: Vec<JournalRecord>,
        picked: Vec<u32>,
        error: JournalError,
    ) {
        records.truncate(records.len() - picked.len());
        self.records = records;
        self.take_back(picked);
        self.journal_error.get_or_insert(error);
        self.stop(StopReason::Journal, RunningNodes::Finish);
    }

    /// Takes note that picked nodes do not start after all. Their start may be recorded: a later run then
    /// takes them for interrupted, which is the careful reading.
    pub(super) fn take_back(&mut self, picked: Vec<u32>) {
        for position in picked {
            let node = &mut self.nodes[position as usize];
            node.attempts -= 1;
            node.tried -= 1;
            self.leave(position);
        }
    }

    /// Tells what has been recorded.
    pub(super) fn send_notices(&mut self) {
        for notice in self.notices.drain(..) {
            let observe = &mut self.observer;
            match notice {
                Notice::Ready(position) => {
                    observe(RunEvent::NodeReady { id: &self.shape.ids[position as usize] });
                }
                Notice::Retrying { position, attempt, delay } => {
                    // Gone if the run stopped since: then the node failed for good.
                    if let Some(failure) = self.failures.get(&position) {
                        let id = &self.shape.ids[position as usize];
                        observe(RunEvent::NodeRetrying { id, attempt, failure, delay });
                    }
                }
                Notice::Finished(position) => {
                    let node = &self.nodes[position as usize];
                    if let Some(outcome) = &node.outcome {
                        let (id, attempts) = (&self.shape.ids[position as usize], node.attempts);
                        observe(RunEvent::NodeFinished { id, attempts, outcome, duration: node.duration });
                    }
                }
                Notice::Stopping => {
                    if let Some(reason) = &self.stopped {
                        observe(RunEvent::RunStopping { reason });
                    }
                }
            }
        }
    }

    /// Takes note that a picked node starts. Gives the number of the attempt and whether an earlier run
    /// left the node unfinished.
    pub(super) fn started(&mut self, position: u32) -> (u32, bool) {
        self.failures.remove(&position);
        let node = &mut self.nodes[position as usize];
        node.started.get_or_insert_with(Instant::now);
        let (attempt, interrupted) = (node.attempts, node.interrupted && node.tried == 1);
        let id = &self.shape.ids[position as usize];
        (self.observer)(RunEvent::NodeStarted { id, attempt, interrupted });
        (attempt, interrupted)
    }

    pub(super) fn timeout(&self, position: u32) -> Option<Duration> {
        self.rules[position as usize].timeout
    }

    pub(super) fn outputs(&self) -> Arc<Outputs> {
        self.outputs.clone()
    }

    pub(super) fn next_retry(&self) -> Option<Instant> {
        self.retries.peek().map(|&Reverse((at, _))| at)
    }

    /// Makes nodes ready whose wait is over.
    pub(super) fn wake_retries(&mut self, now: Instant) {
        while let Some(&Reverse((at, position))) = self.retries.peek()
            && at <= now
        {
            self.retries.pop();
            self.enqueue_node(position);
        }
    }

    /// Ends the run.
    pub(super) fn report(mut self, shape: Arc<GraphShape>, began: Instant) -> Report<E> {
        for position in 0..self.nodes.len() as u32 {
            if self.nodes[position as usize].outcome.is_none() {
                self.end(position, Outcome::NotStarted);
            }
        }
        self.send_notices();
        let mut totals = NodeTotals::default();
        let nodes: Vec<NodeReport<E>> = std::mem::take(&mut self.nodes)
            .into_iter()
            .zip(self.shape.ids.iter())
            .map(|(node, id)| {
                let outcome = node.outcome.unwrap_or(Outcome::NotStarted);
                totals.count(&outcome);
                NodeReport { id: id.clone(), outcome, attempts: node.attempts, duration: node.duration }
            })
            .collect();
        let duration = began.elapsed();
        let stopped = self.stopped.as_ref();
        (self.observer)(RunEvent::RunFinished { totals: &totals, stopped, duration });
        Report {
            nodes,
            totals,
            stopped: self.stopped,
            journal_error: self.journal_error,
            duration,
            shape,
            outputs: self.outputs,
        }
    }

    fn end_successful(&mut self, position: u32, outcome: Outcome<E>) {
        self.end(position, outcome);
        for &dependent in self.shape.dependents.neighbours(position) {
            self.nodes[dependent as usize].missing -= 1;
            if self.policy.schedule == Schedule::Eager {
                self.ready(dependent);
            }
        }
        self.advance_wave();
    }

    /// Ends a node badly, and with it every node that needs it.
    fn end_unsuccessful(&mut self, position: u32, outcome: Outcome<E>) {
        self.end(position, outcome);
        let mut open = vec![position];
        let mut blocked = Vec::new();
        while let Some(below) = open.pop() {
            for &dependent in self.shape.dependents.neighbours(below) {
                if self.nodes[dependent as usize].outcome.is_none() {
                    // Marked at once, so that no node is met twice.
                    let by = self.shape.ids[position as usize].clone();
                    self.nodes[dependent as usize].outcome = Some(Outcome::Blocked { by });
                    open.push(dependent);
                    blocked.push(dependent);
                }
            }
        }
        blocked.sort_unstable();
        for dependent in blocked {
            self.wave_left[self.shape.wave[dependent as usize] as usize] -= 1;
            self.notices.push(Notice::Finished(dependent));
        }
        self.advance_wave();
    }

    fn end(&mut self, position: u32, outcome: Outcome<E>) {
        let node = &mut self.nodes[position as usize];
        node.duration = node.started.map_or(Duration::ZERO, |started| started.elapsed());
        node.outcome = Some(outcome);
        self.wave_left[self.shape.wave[position as usize] as usize] -= 1;
        self.notices.push(Notice::Finished(position));
    }

    /// Makes a node ready if all it needs is done and it has not ended.
    fn ready(&mut self, position: u32) {
        let node = &self.nodes[position as usize];
        if node.missing == 0 && node.outcome.is_none() && self.stopped.is_none() {
            self.notices.push(Notice::Ready(position));
            self.enqueue_node(position);
        }
    }

    fn enqueue_node(&mut self, position: u32) {
        let NodePolicy { rank, metered, .. } = self.rules[position as usize];
        let queue = if metered { &mut self.pool(position).ready } else { &mut self.ready_unmetered };
        queue.push(Reverse((rank, position)));
    }

    fn pool(&mut self, position: u32) -> &mut Pool {
        let pool = self.rules[position as usize].pool.and_then(|pool| self.pools.get_mut(pool as usize));
        pool.unwrap_or(&mut self.ready)
    }

    /// Gives back the places of a node that no longer runs.
    fn leave(&mut self, position: u32) {
        if self.rules[position as usize].metered {
            self.busy -= 1;
            self.pool(position).busy -= 1;
        }
    }

    /// Under [`Schedule::ByWave`], opens the next wave once all of the last one has ended.
    fn advance_wave(&mut self) {
        while self.policy.schedule == Schedule::ByWave && self.wave_left.get(self.wave) == Some(&0) {
            self.wave += 1;
            self.ready_wave();
        }
    }

    fn ready_wave(&mut self) {
        if let Some(&[start, end]) = self.shape.wave_starts.get(self.wave..self.wave + 2) {
            (start..end).for_each(|position| self.ready(position));
        }
    }
}

impl Notice {
    /// Tells that a record was made of it.
    fn is_recorded(&self) -> bool {
        matches!(self, Self::Finished(_) | Self::Retrying { .. })
    }
}
