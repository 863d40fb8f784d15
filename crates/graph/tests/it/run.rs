//! Running graphs: order, limits, failures, retries, timeouts, cancellation. Time is virtual.

use std::convert::Infallible;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;
use slipway_graph::{
    Backoff, Classify, Context, Done, Graph, JournalRecord, MemoryJournal, NodePolicy, NodeRef, NodeTotals,
    OnFailure, Outcome, Policy, Report, Retry, RetryClass, RetryClasses, Run, RunEvent, RunningNodes,
    Schedule, StopReason, Worker,
};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::dags::{dags, graph, parse};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Oops(pub(crate) RetryClass, pub(crate) Option<Duration>);

impl fmt::Display for Oops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "oops, {:?}", self.0)
    }
}

impl Classify for Oops {
    fn class(&self) -> RetryClass {
        self.0
    }

    fn retry_after(&self) -> Option<Duration> {
        self.1
    }
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn limit(nodes: usize) -> Option<NonZeroUsize> {
    NonZeroUsize::new(nodes)
}

fn on_failure(on_failure: OnFailure) -> Policy {
    Policy { node: NodePolicy { on_failure, ..NodePolicy::default() }, ..Policy::default() }
}

pub(crate) fn virtual_time<R>(work: impl Future<Output = R>) -> R {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().expect("a runtime").block_on(work)
}

/// One line for each event, with the seconds since the start.
fn line<E: fmt::Display>(event: &RunEvent<'_, E>) -> String {
    match event {
        RunEvent::RunStarted { nodes, resumed } => format!("run {nodes} resumed {resumed}"),
        RunEvent::NodeReady { id } => format!("{id} ready"),
        RunEvent::NodeStarted { id, attempt, interrupted } => {
            format!("{id} start {attempt}{}", if *interrupted { " again" } else { "" })
        }
        RunEvent::NodeRetrying { id, attempt, failure, delay } => {
            format!("{id} retry {attempt} {failure} in {delay:?}")
        }
        RunEvent::NodeFinished { id, outcome, .. } => match outcome {
            Outcome::Failed(failure) => format!("{id} failed {failure}"),
            Outcome::Blocked { by } => format!("{id} blocked by {by}"),
            Outcome::Skipped { reason } => format!("{id} skipped {reason}"),
            other => format!("{id} {}", other.name()),
        },
        RunEvent::RunStopping { reason } => format!("stopping {reason:?}"),
        RunEvent::RunFinished { .. } => "end".to_owned(),
    }
}

/// Runs a graph whose nodes take one second, or what `time` says; gives the report and the events.
fn trace<'g, W>(
    graph: &'g Graph<&'g str>,
    policy: Policy,
    cancel_at: Option<u64>,
    worker: &'g W,
) -> (Report<W::Error>, Vec<String>)
where
    W: Worker<'g, &'g str>,
    W::Error: fmt::Debug,
{
    let events = Mutex::new(Vec::new());
    let report = virtual_time(async {
        let began = Instant::now();
        let token = CancellationToken::new();
        let run = Run::new(graph, worker)
            .policy(policy)
            .cancel(token.clone())
            .observe(|event| {
                let text = format!("{} {}", began.elapsed().as_secs(), line(&event));
                if !text.ends_with(" ready") {
                    events.lock().expect("not poisoned").push(text);
                }
            })
            .run();
        let cancel = async {
            match cancel_at {
                Some(at) => sleep(secs(at)).await,
                None => std::future::pending().await,
            }
            token.cancel();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            report = run => report.expect("no journal"),
            () = cancel => unreachable!("never ends"),
        }
    });
    (report, events.into_inner().expect("not poisoned"))
}

async fn one_second<'g>(_: Context<'g, &'g str>) -> Result<Done, Infallible> {
    sleep(secs(1)).await;
    Ok(Done::OK)
}

/// A worker that does what the name of the node says: `slow` takes 10 s, `bad` fails, `skip` skips.
async fn by_name<'g>(cx: Context<'g, &'g str>) -> Result<Done, Oops> {
    let name = *cx.value();
    sleep(secs(if name.contains("slow") { 10 } else { 1 })).await;
    if name.contains("bad") {
        return Err(Oops(RetryClass::Permanent, None));
    }
    Ok(if name.contains("skip") { Done::skipped("nothing to do") } else { Done::OK })
}

#[test]
fn nodes_start_the_moment_their_last_need_ends() {
    let graph = parse("slow:\na:\nb: a\nc: b\nlast: c slow");
    let (report, events) = trace(&graph, Policy::default(), None, &by_name);
    assert!(report.is_success());
    let expected = [
        "0 run 5 resumed 0",
        "0 a start 1",
        "0 slow start 1",
        "1 a succeeded",
        "1 b start 1",
        "2 b succeeded",
        "2 c start 1",
        "3 c succeeded",
        "10 slow succeeded",
        "10 last start 1",
        "11 last succeeded",
        "11 end",
    ];
    assert_eq!(events, expected);
    assert_eq!(report.duration, secs(11));
    assert_eq!(report.node("slow").expect("known").duration, secs(10));
}

#[test]
fn by_wave_waits_for_the_whole_wave() {
    let graph = parse("slow:\na:\nb: a\nc: b\nlast: c slow");
    let (report, events) =
        trace(&graph, Policy { schedule: Schedule::ByWave, ..Policy::default() }, None, &by_name);
    assert!(report.is_success());
    assert!(events.contains(&"10 b start 1".to_owned()), "{events:?}");
    assert_eq!(report.duration, secs(13));
    let failing = parse("bad:\nslow:\nb: bad\nc: slow");
    let policy = Policy { schedule: Schedule::ByWave, ..on_failure(OnFailure::Continue) };
    let (report, events) = trace(&failing, policy, None, &by_name);
    assert!(events.contains(&"10 c start 1".to_owned()), "{events:?}");
    assert_eq!(report.totals, NodeTotals { succeeded: 2, failed: 1, blocked: 1, ..NodeTotals::default() });
}

#[test]
fn a_fan_out_uses_every_place() {
    let graph = parse("root:\na: root\nb: root\nc: root\nd: root\ne: root\nf: root\ng: root\nh: root");
    for (places, seconds) in [(1, 9), (2, 5), (3, 4), (8, 2)] {
        let policy = Policy { concurrency: limit(places), ..Policy::default() };
        let (report, events) = trace(&graph, policy, None, &one_second);
        assert_eq!(report.duration, secs(seconds), "{places} places");
        let starts: Vec<_> = events.iter().filter(|event| event.contains("start")).collect();
        assert!(
            starts.is_sorted_by_key(|event| event.split(' ').nth(1).map(|id| (id != "root", id))),
            "{starts:?}"
        );
    }
}

struct Ranked;

impl<'g> Worker<'g, &'g str> for Ranked {
    type Error = Oops;

    async fn work(&self, cx: Context<'g, &'g str>) -> Result<Done, Oops> {
        by_name(cx).await
    }

    fn policy(&self, node: NodeRef<'g, &'g str>, default: &NodePolicy) -> NodePolicy {
        NodePolicy {
            rank: u32::from(!node.id().starts_with('z')),
            metered: !node.id().contains("wait"),
            on_failure: if node.id().contains("soft") { OnFailure::Continue } else { default.on_failure },
            ..*default
        }
    }
}

#[test]
fn nodes_can_have_rules_of_their_own() {
    let graph = parse("a:\nb:\nslow-wait:\nz:\nbad-soft:");
    let policy = Policy { concurrency: limit(1), ..Policy::default() };
    let (report, events) = trace(&graph, policy, None, &Ranked);
    let starts: Vec<_> =
        events.iter().filter(|event| event.contains("start 1")).map(String::as_str).collect();
    // z comes first by rank, waiting takes no place, and the soft failure stops nothing.
    assert_eq!(
        starts,
        ["0 z start 1", "0 slow-wait start 1", "1 a start 1", "2 b start 1", "3 bad-soft start 1"]
    );
    assert_eq!(report.totals, NodeTotals { succeeded: 4, failed: 1, ..NodeTotals::default() });
    assert_eq!(report.stopped, None);
}

#[test]
fn failures_stop_the_run_or_only_their_dependents() {
    let graph = parse("bad:\nslow:\nskip:\nx: bad\ny: x slow\nz: slow skip");
    let (report, events) =
        trace(&graph, on_failure(OnFailure::FailFast(RunningNodes::Finish)), None, &by_name);
    let expected = [
        "0 run 6 resumed 0",
        "0 bad start 1",
        "0 skip start 1",
        "0 slow start 1",
        "1 bad failed oops, Permanent",
        "1 x blocked by bad",
        "1 y blocked by bad",
        "1 stopping Failed { id: \"bad\" }",
        "1 skip skipped nothing to do",
        "10 slow succeeded",
        "10 z not-started",
        "10 end",
    ];
    assert_eq!(events, expected);
    assert_eq!(report.stopped, Some(StopReason::Failed { id: "bad".into() }));
    assert_eq!(report.failures().count(), 1);

    let (report, events) = trace(&graph, on_failure(OnFailure::Continue), None, &by_name);
    assert!(events.contains(&"10 z start 1".to_owned()), "{events:?}");
    assert_eq!((report.totals.failed, report.totals.blocked, report.totals.succeeded), (1, 2, 2));
    assert_eq!(report.stopped, None);

    let policy = Policy { grace: secs(3), ..on_failure(OnFailure::FailFast(RunningNodes::Stop)) };
    let (report, events) = trace(&graph, policy, None, &by_name);
    assert!(events.contains(&"4 slow cancelled".to_owned()), "{events:?}");
    assert!(events.contains(&"4 z blocked by slow".to_owned()), "{events:?}");
    assert_eq!(report.duration, secs(4));
}

#[test]
fn retries_follow_the_class_of_the_error() {
    use RetryClass::{Cancelled, Conflict, Permanent, Throttled, Timeout, Transient};
    let graph = parse("n:\nafter: n");
    for (class, on, expected) in [
        (Transient, RetryClasses::TRANSIENT, 3),
        (Throttled, RetryClasses::TRANSIENT, 3),
        (Conflict, RetryClasses::TRANSIENT, 3),
        (Timeout, RetryClasses::TRANSIENT, 1),
        (Permanent, RetryClasses::TRANSIENT, 1),
        (Permanent, RetryClasses::ALL, 3),
        (Timeout, RetryClasses::ALL, 3),
        (Cancelled, RetryClasses::ALL, 1),
        (Transient, RetryClasses::NONE, 1),
    ] {
        let retry = Retry { on, ..Retry::transient(3, Backoff::fixed(secs(7))) };
        let policy = Policy { node: NodePolicy { retry, ..NodePolicy::default() }, ..Policy::default() };
        let worker = graph.worker(|_| async move { Err::<Done, _>(Oops(class, None)) });
        let (report, _) = trace(&graph, policy, None, &worker);
        assert_eq!(report.node("n").expect("known").attempts, expected, "{class:?} {on:?}");
        assert_eq!(report.duration, secs(7) * (expected - 1), "{class:?} {on:?}");
        assert!(matches!(report.node("after").expect("known").outcome, Outcome::Blocked { .. }));
    }
}

#[test]
fn waiting_for_a_retry_takes_no_place() {
    let graph = parse("flaky:\nother:");
    let retry = Retry::transient(2, Backoff::fixed(secs(5)));
    let node = NodePolicy { retry, ..NodePolicy::default() };
    let policy = Policy { concurrency: limit(1), node, ..Policy::default() };
    let worker = graph.worker(|cx| async move {
        sleep(secs(1)).await;
        match (cx.id().as_str(), cx.attempt()) {
            ("flaky", 1) => Err(Oops(RetryClass::Throttled, Some(secs(60)))),
            _ => Ok(Done::OK),
        }
    });
    let (report, events) = trace(&graph, policy, None, &worker);
    assert!(report.is_success());
    let expected = [
        "0 run 2 resumed 0",
        "0 flaky start 1",
        "1 flaky retry 1 oops, Throttled in 60s",
        "1 other start 1",
        "2 other succeeded",
        "61 flaky start 2",
        "62 flaky succeeded",
        "62 end",
    ];
    assert_eq!(events, expected);
    assert_eq!(report.node("flaky").expect("known").duration, secs(62));
}

#[test]
fn a_failure_elsewhere_ends_waiting_for_a_retry() {
    let graph = parse("flaky:\nslow-bad:\nx: flaky");
    let retry = Retry::transient(2, Backoff::fixed(secs(100)));
    let policy = Policy { node: NodePolicy { retry, ..NodePolicy::default() }, ..Policy::default() };
    let worker = graph.worker(|cx| async move {
        match cx.id().as_str() {
            "flaky" => Err(Oops(RetryClass::Transient, None)),
            _ => by_name(cx).await.map_err(|_| Oops(RetryClass::Permanent, None)),
        }
    });
    let (report, events) = trace(&graph, policy, None, &worker);
    assert_eq!(report.duration, secs(10));
    let expected = [
        "0 run 3 resumed 0",
        "0 flaky start 1",
        "0 slow-bad start 1",
        "0 flaky retry 1 oops, Transient in 100s",
        "10 slow-bad failed oops, Permanent",
        "10 stopping Failed { id: \"slow-bad\" }",
        "10 flaky failed oops, Transient",
        "10 x blocked by flaky",
        "10 end",
    ];
    assert_eq!(events, expected);
}

#[test]
fn backoff_grows_is_bounded_and_repeats_itself() {
    let plain = Backoff { jitter: 0.0, ..Backoff::STANDARD };
    let delays: Vec<_> = (1..8).map(|failed| plain.delay(failed, "n", 1).as_millis()).collect();
    assert_eq!(delays, [800, 1600, 3200, 6400, 12800, 20000, 20000]);
    assert_eq!(plain.delay(u32::MAX, "n", 1), secs(20));
    let mut distinct = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let delay = Backoff::STANDARD.delay(1, "n", seed);
        assert!((Duration::from_millis(640)..=Duration::from_millis(960)).contains(&delay), "{delay:?}");
        assert_eq!(delay, Backoff::STANDARD.delay(1, "n", seed));
        distinct.insert(delay);
    }
    assert!(distinct.len() > 190);
    assert_ne!(Backoff::STANDARD.delay(1, "a", 0), Backoff::STANDARD.delay(1, "b", 0));
}

#[test]
fn attempts_that_take_too_long_are_told_then_dropped() {
    let graph = parse("deaf:\nlistens:\nquick:\nregrets:");
    let node =
        NodePolicy { timeout: Some(secs(5)), on_failure: OnFailure::Continue, ..NodePolicy::default() };
    let policy = Policy { node, grace: secs(2), ..Policy::default() };
    let worker = graph.worker(|cx| async move {
        match cx.id().as_str() {
            "deaf" => std::future::pending().await,
            "listens" => cx.cancelled().cancelled().await,
            "regrets" => {
                cx.cancelled().cancelled().await;
                return Err(Oops(RetryClass::Cancelled, None));
            }
            _ => {}
        }
        Ok(Done::OK)
    });
    let (report, events) = trace(&graph, policy, None, &worker);
    let ends: Vec<_> = events.iter().filter(|event| !event.contains("start")).map(String::as_str).collect();
    let expected = [
        "0 quick succeeded",
        // It finished its work when told to hurry: that counts.
        "5 listens succeeded",
        "5 regrets failed timed out after 5s: oops, Cancelled",
        "7 deaf failed timed out after 5s",
        "7 end",
    ];
    assert_eq!(ends[1..], expected);
    assert_eq!(report.totals.failed, 2);
}

#[test]
fn timeouts_can_be_retried() {
    let graph = parse("n:");
    let retry = Retry::always(3, Backoff::fixed(secs(1)));
    let node = NodePolicy { timeout: Some(secs(5)), retry, ..NodePolicy::default() };
    let policy = Policy { node, grace: Duration::ZERO, ..Policy::default() };
    let worker = graph.worker(|cx| async move {
        if cx.attempt() < 3 {
            std::future::pending::<()>().await;
        }
        Ok::<_, Infallible>(Done::OK)
    });
    let (report, _) = trace(&graph, policy, None, &worker);
    assert!(report.is_success());
    assert_eq!(report.duration, secs(12));
}

#[test]
fn the_whole_run_can_time_out() {
    let graph = parse("quick:\nslow:\nnext: quick\nlater: next\nx: slow\ny: later");
    let policy = Policy { timeout: Some(secs(2)), grace: secs(1), ..Policy::default() };
    let (report, events) = trace(&graph, policy, None, &by_name);
    assert_eq!(report.stopped, Some(StopReason::TimedOut));
    assert_eq!(report.duration, secs(3));
    assert!(events.contains(&"3 slow cancelled".to_owned()), "{events:?}");
    assert_eq!(report.totals.planned(), 6);
    assert!(!report.is_success());
}

#[test]
fn cancelling_lets_nodes_finish_or_stops_them() {
    let graph = parse("a:\nslow:\nb: a\nc: b\nd: slow");
    for (on_cancel, grace, ends_at, slow) in [
        (RunningNodes::Finish, 0, 10, "succeeded"),
        (RunningNodes::Stop, 0, 2, "cancelled"),
        (RunningNodes::Stop, 3, 5, "cancelled"),
        (RunningNodes::Stop, 30, 10, "succeeded"),
    ] {
        let policy = Policy { on_cancel, grace: secs(grace), ..Policy::default() };
        // Half a second late, so that nothing ends at the same moment.
        let (report, events) = trace(&graph, policy, Some(2), &by_name);
        assert_eq!(report.duration, secs(ends_at), "{on_cancel:?} {grace} {events:?}");
        assert_eq!(report.stopped, Some(StopReason::Cancelled));
        assert_eq!(report.node("slow").expect("known").outcome.name(), slow);
        let d = if slow == "succeeded" { "not-started" } else { "blocked" };
        assert_eq!(report.node("d").expect("known").outcome.name(), d);
    }
    // Cancelled before it began: nothing runs at all.
    let started = AtomicUsize::new(0);
    let worker = graph.worker(|_| {
        started.fetch_add(1, Ordering::Relaxed);
        async { Ok::<_, Infallible>(Done::OK) }
    });
    let token = CancellationToken::new();
    token.cancel();
    let report = virtual_time(Run::new(&graph, &worker).cancel(token).run()).expect("no journal");
    assert_eq!((report.totals.not_started, started.load(Ordering::Relaxed)), (5, 0));
}

#[test]
fn a_panic_fails_only_its_node() {
    let graph = parse("bug:\nfine:\nx: bug");
    let worker = graph.worker(|cx| {
        assert!(cx.id() != "bug", "a bug in {}", cx.id());
        async { Ok::<_, Oops>(Done::OK) }
    });
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let (report, _) = trace(&graph, on_failure(OnFailure::Continue), None, &worker);
    std::panic::set_hook(hook);
    assert_eq!(report.totals, NodeTotals { succeeded: 1, failed: 1, blocked: 1, ..NodeTotals::default() });
    let failures: Vec<_> = report.failures().map(|(_, failure)| failure.to_string()).collect();
    assert_eq!(failures, ["internal error: a bug in bug"]);
}

#[test]
fn outputs_are_handed_to_dependents() {
    let graph = parse("a:\nb: a\nc: b");
    let worker = graph.worker(|cx| async move {
        let seen: Vec<_> = ["a", "b", "c", "unknown"].into_iter().filter_map(|id| cx.output(id)).collect();
        Ok::<_, Infallible>(Done::Succeeded(json!({ "from": cx.id(), "seen": seen })))
    });
    let (report, _) = trace(&graph, Policy::default(), None, &worker);
    let a = json!({ "from": "a", "seen": [] });
    let b = json!({ "from": "b", "seen": [a] });
    assert_eq!(report.output("c"), Some(&json!({ "from": "c", "seen": [a, b] })));
    assert_eq!(report.output("unknown"), None);
}

#[test]
fn runs_can_be_spawned() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build();
    let report = runtime.expect("a runtime").block_on(async {
        tokio::spawn(async {
            let graph = parse("a:\nb: a");
            let worker = graph.worker(|_| async { Ok::<_, Infallible>(Done::OK) });
            Run::new(&graph, &worker)
                .journal(MemoryJournal::new(), "input")
                .run()
                .await
                .map(|report| report.totals)
        })
        .await
    });
    assert!(report.expect("no panic").expect("no journal error").is_success());
}

proptest! {
    #[test]
    fn no_node_runs_early_or_twice(
        dag in dags(25),
        places in 0..4usize,
        by_wave: bool,
        failing in prop::collection::btree_set(0..25usize, 0..4),
        fail_fast: bool,
        cancel_at in prop::option::of(0..40u64),
        grace in prop::option::of(0..400u64),
        seed: u64,
    ) {
        let graph = graph(&dag);
        let log: Mutex<Vec<(usize, bool)>> = Mutex::default();
        let running = AtomicUsize::new(0);
        let most = AtomicUsize::new(0);
        let worker = graph.worker(|cx| {
            let (log, running, most, failing) = (&log, &running, &most, &failing);
            async move {
                let node = *cx.value();
                log.lock().expect("not poisoned").push((node, false));
                most.fetch_max(running.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                sleep(Duration::from_millis((seed ^ node as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54)).await;
                running.fetch_sub(1, Ordering::Relaxed);
                log.lock().expect("not poisoned").push((node, true));
                if failing.contains(&node) { Err(Oops(RetryClass::Permanent, None)) } else { Ok(Done::OK) }
            }
        });
        let policy = Policy {
            schedule: if by_wave { Schedule::ByWave } else { Schedule::Eager },
            concurrency: limit(places),
            on_cancel: if grace.is_some() { RunningNodes::Stop } else { RunningNodes::Finish },
            grace: Duration::from_millis(grace.unwrap_or(0)),
            ..on_failure(if fail_fast { OnFailure::FailFast(RunningNodes::Finish) } else { OnFailure::Continue })
        };
        let mut journal = MemoryJournal::new();
        let finished = Mutex::new(Vec::new());
        let report = virtual_time(async {
            let token = CancellationToken::new();
            let run = Run::new(&graph, &worker)
                .policy(policy)
                .cancel(token.clone())
                .journal(&mut journal, "")
                .observe(|event| if let RunEvent::NodeFinished { id, .. } = event {
                    finished.lock().expect("not poisoned").push(id.clone());
                })
                .run();
            let cancel = async {
                if let Some(at) = cancel_at {
                    sleep(Duration::from_millis(at * 100)).await;
                    token.cancel();
                }
                std::future::pending::<()>().await;
            };
            tokio::select! { report = run => report, () = cancel => unreachable!() }
        }).expect("journal in memory");

        let log = log.into_inner().expect("not poisoned");
        for (index, &(node, ended)) in log.iter().enumerate() {
            prop_assert!(!log[..index].contains(&(node, ended)), "{} twice", node);
            if !ended {
                for need in &dag[node] {
                    prop_assert!(log[..index].contains(&(*need, true)), "{} before {}", node, need);
                    prop_assert!(!failing.contains(need));
                }
            }
        }
        if places > 0 {
            prop_assert!(most.load(Ordering::Relaxed) <= places);
        }
        let mut finished = finished.into_inner().expect("not poisoned");
        finished.sort();
        prop_assert!(finished.iter().eq(graph.ids().collect::<std::collections::BTreeSet<_>>()));
        // Nothing that started is missing from the journal, nothing that ended is open.
        for node in graph.nodes() {
            let records: Vec<_> = journal.records().iter().filter(|record| record.id() == node.id()).collect();
            let ran = log.contains(&(*node.value(), false));
            prop_assert_eq!(records.len(), if ran { 2 } else { 0 });
            let outcome = &report.nodes[node.position()].outcome;
            match records.last() {
                Some(JournalRecord::Succeeded { .. }) => prop_assert_eq!(outcome, &Outcome::Succeeded),
                Some(JournalRecord::Cancelled { .. }) => prop_assert_eq!(outcome, &Outcome::Cancelled),
                Some(JournalRecord::Failed { .. }) => prop_assert!(matches!(outcome, Outcome::Failed(_))),
                None => prop_assert!(matches!(outcome.name(), "not-started" | "blocked")),
                Some(other) => prop_assert!(false, "unexpected {:?}", other),
            }
        }
        if cancel_at.is_none() && !fail_fast {
            prop_assert_eq!(report.totals.not_started, 0);
        }
    }
}

/// Nodes of the pool their first letter names.
struct Pools;

impl<'g> Worker<'g, &'g str> for Pools {
    type Error = Infallible;

    async fn work(&self, _: Context<'g, &'g str>) -> Result<Done, Infallible> {
        sleep(secs(1)).await;
        Ok(Done::OK)
    }

    fn policy(&self, node: NodeRef<'g, &'g str>, default: &NodePolicy) -> NodePolicy {
        let pool = match node.id().as_bytes()[0] {
            b'a' => Some(0),
            b'b' => Some(1),
            _ => None,
        };
        NodePolicy { pool, ..*default }
    }
}

#[test]
fn full_pools_are_passed_over() {
    let mut builder = Graph::builder();
    for id in ["a1", "a2", "a3", "b1", "b2", "c1"] {
        builder.add(id, id, [""; 0]);
    }
    let graph = builder.build().expect("a graph");
    for (places, expected) in [
        (None, [(1, "a1 b1 b2 c1"), (2, "a2"), (3, "a3")].as_slice()),
        (limit(2), &[(1, "a1 b1"), (2, "a2 b2"), (3, "a3 c1")]),
    ] {
        let pools = vec![NonZeroUsize::MIN, NonZeroUsize::MIN.saturating_add(1)];
        let policy = Policy { concurrency: places, pools, ..Policy::default() };
        let mut seconds = std::collections::BTreeMap::<u64, Vec<String>>::new();
        virtual_time(async {
            let began = Instant::now();
            let run = Run::new(&graph, &Pools).policy(policy).observe(|event| {
                if let RunEvent::NodeFinished { id, .. } = event {
                    seconds.entry(began.elapsed().as_secs()).or_default().push(id.to_string());
                }
            });
            assert!(run.run().await.expect("no journal").is_success());
        });
        for ids in seconds.values_mut() {
            ids.sort();
        }
        let seconds: Vec<(u64, String)> = seconds.into_iter().map(|(at, ids)| (at, ids.join(" "))).collect();
        let expected: Vec<(u64, String)> =
            expected.iter().map(|(at, ids)| (*at, (*ids).to_owned())).collect();
        assert_eq!(seconds, expected);
    }
}
