//! Killed anywhere, a run resumed ends as if nothing had happened.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use slipway_graph::{
    Backoff, Done, Graph, Journal, JournalRecord, MemoryJournal, NodePolicy, Outcome, Policy, Retry,
    RetryClass, Run,
};

use crate::dags::{Dag, dags, graph, name, parse};
use crate::run::{Oops, virtual_time};

/// What the outside world has seen: for each node, its attempts and whether it was told of an interruption.
type Effects = BTreeMap<String, Vec<(u32, bool)>>;

/// Runs to the end. Nodes divisible by 3 fail at first, those divisible by 5 are skipped, and the output
/// of each node is made from those of its needs.
async fn finish(graph: &Graph<usize>, journal: impl Journal) -> (Effects, BTreeMap<String, Value>) {
    let effects = Mutex::new(Effects::new());
    let worker = graph.worker(|cx| {
        let effects = &effects;
        async move {
            let seen = (cx.attempt(), cx.interrupted());
            effects.lock().expect("not poisoned").entry(cx.id().to_string()).or_default().push(seen);
            tokio::task::yield_now().await;
            if cx.value() % 3 == 0 && cx.attempt() == 1 {
                return Err(Oops(RetryClass::Transient, None));
            }
            if cx.value() % 5 == 1 {
                return Ok(Done::skipped("divisible"));
            }
            let below: u64 = cx
                .node()
                .needs()
                .map(|need| cx.output(need.id()).map_or(1, |v| v["sum"].as_u64().unwrap_or(0)))
                .fold(0, u64::wrapping_add);
            Ok(Done::Succeeded(json!({ "sum": below.wrapping_mul(31).wrapping_add(*cx.value() as u64) })))
        }
    });
    let retry = Retry::transient(2, Backoff::fixed(Duration::from_millis(1)));
    let policy = Policy { node: NodePolicy { retry, ..NodePolicy::default() }, ..Policy::default() };
    let report = Run::new(graph, &worker)
        .policy(policy)
        .journal(journal, "same")
        .run()
        .await
        .expect("its own journal");
    assert!(report.is_success());
    let outputs = graph.ids().filter_map(|id| Some((id.to_string(), report.output(id)?.clone()))).collect();
    drop(report);
    (effects.into_inner().expect("not poisoned"), outputs)
}

/// What must hold after resuming from `records`.
fn check(dag: &Dag, records: &[JournalRecord], effects: &Effects) -> Result<(), TestCaseError> {
    let done: BTreeSet<&str> = records
        .iter()
        .filter(|record| matches!(record, JournalRecord::Succeeded { .. } | JournalRecord::Skipped { .. }))
        .map(|record| record.id().as_str())
        .collect();
    for node in 0..dag.len() {
        let id = name(node);
        let last = records.iter().rev().find(|record| *record.id() == *id);
        let attempts = last.map_or(0, JournalRecord::attempt);
        let open = matches!(last, Some(JournalRecord::Started { .. }));
        match effects.get(&id) {
            None => prop_assert!(done.contains(id.as_str()), "{} was lost", id),
            Some(seen) => {
                prop_assert!(!done.contains(id.as_str()), "{} ran again", id);
                prop_assert_eq!(seen[0], (attempts + 1, open), "{}", id);
                let again = seen.iter().skip(1).any(|&(_, interrupted)| interrupted);
                prop_assert!(!again, "an interruption is told once");
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn from_any_record(dag in dags(14)) {
        let graph = graph(&dag);
        let mut journal = MemoryJournal::new();
        let (_, outputs) = virtual_time(finish(&graph, &mut journal));
        for kept in 0..=journal.records().len() {
            let prefix = &journal.records()[..kept];
            let mut resumed = MemoryJournal::of(prefix.to_vec());
            let (effects, again) = virtual_time(finish(&graph, &mut resumed));
            prop_assert_eq!(&again, &outputs);
            check(&dag, prefix, &effects)?;
            // And what was resumed has nothing left to do.
            let (effects, again) = virtual_time(finish(&graph, &mut resumed));
            prop_assert_eq!(&again, &outputs);
            prop_assert!(effects.is_empty());
        }
    }
}

#[test]
fn dropping_a_run_is_like_killing_it() {
    let graph = parse("a:\nb: a\nc: b");
    let mut journal = MemoryJournal::new();
    let worker = graph.worker(|cx| async move {
        if *cx.value() == "b" && cx.attempt() == 1 {
            std::future::pending::<()>().await;
        }
        assert_eq!(cx.interrupted(), *cx.value() == "b");
        Ok::<_, Oops>(Done::OK)
    });
    virtual_time(async {
        let first = graph.worker(|cx| async move {
            if *cx.value() == "b" {
                std::future::pending::<()>().await;
            }
            Ok::<_, Oops>(Done::OK)
        });
        let run = Run::new(&graph, &first).journal(&mut journal, "").run();
        assert!(tokio::time::timeout(Duration::from_secs(60), run).await.is_err());
        assert_eq!(journal.records().len(), 3);
        let report =
            Run::new(&graph, &worker).journal(&mut journal, "").run().await.expect("its own journal");
        let outcomes: Vec<_> = report.nodes.iter().map(|node| (node.outcome.name(), node.attempts)).collect();
        assert_eq!(outcomes, [("resumed", 1), ("succeeded", 2), ("succeeded", 1)]);
        assert_eq!(report.nodes[0].outcome, Outcome::Resumed);
    });
}

#[test]
fn a_failed_node_gets_its_full_budget_again() {
    let graph = parse("n:");
    let mut journal = MemoryJournal::new();
    let worker = graph.worker(|cx| async move {
        if cx.attempt() < 5 { Err(Oops(RetryClass::Transient, None)) } else { Ok(Done::OK) }
    });
    let retry = Retry::transient(3, Backoff::STANDARD);
    let policy = Policy { node: NodePolicy { retry, ..NodePolicy::default() }, ..Policy::default() };
    for (attempts, success) in [(3, false), (5, true), (5, true)] {
        let run = Run::new(&graph, &worker).policy(policy.clone()).journal(&mut journal, "").run();
        let report = virtual_time(run).expect("its own journal");
        assert_eq!((report.nodes[0].attempts, report.is_success()), (attempts, success));
    }
}

#[test]
fn what_was_skipped_is_still_skipped_when_a_run_goes_on() {
    let graph = parse("a:\nb: a\nc: b");
    let mut journal = MemoryJournal::new();
    let worker = graph.worker(|cx| async move {
        match *cx.value() {
            "a" => Ok(Done::skipped("nothing to do")),
            "c" if cx.attempt() == 1 => Err(Oops(RetryClass::Permanent, None)),
            _ => Ok(Done::OK),
        }
    });
    for expected in [["skipped", "succeeded", "failed"], ["skipped", "resumed", "succeeded"]] {
        let run = Run::new(&graph, &worker).journal(&mut journal, "").run();
        let report = virtual_time(run).expect("its own journal");
        let outcomes: Vec<_> = report.nodes.iter().map(|node| node.outcome.name()).collect();
        assert_eq!(outcomes, expected);
    }
}
