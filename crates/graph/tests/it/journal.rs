//! What a run records, and what becomes of it when it cannot.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use slipway_graph::{
    Backoff, Context, Done, Fingerprint, Journal, JournalError, JournalRecord, MemoryJournal, NodePolicy,
    Outcome, Policy, Retry, RetryClass, Run, RunningNodes, StopReason,
};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::dags::parse;
use crate::run::{Oops, virtual_time};

async fn ok<'g>(_: Context<'g, &'g str>) -> Result<Done, Infallible> {
    Ok(Done::OK)
}

#[test]
fn a_journal_belongs_to_one_plan() {
    let graph = parse("a:");
    let mut memory = MemoryJournal::new();
    virtual_time(async {
        Run::new(&graph, &ok).journal(&mut memory, "x").run().await.expect("fresh");
        for (text, input) in [("a:", "other input"), ("a:\nb:", "x"), ("b:", "x")] {
            let other = parse(text);
            let error = Run::new(&other, &ok).journal(&mut memory, input).run().await.expect_err("refused");
            assert!(error.to_string().starts_with("the journal belongs to another plan: it records sha256:"));
        }
        let report = Run::new(&graph, &ok).journal(&mut memory, "x").run().await.expect("its own plan");
        assert_eq!(report.nodes[0].outcome, Outcome::Resumed);
        let mut foreign = MemoryJournal::of(vec![JournalRecord::Started { id: "zzz".into(), attempt: 1 }]);
        let error = Run::new(&graph, &ok).journal(&mut foreign, "").run().await.expect_err("refused");
        assert!(matches!(error, JournalError::UnknownNode { .. }), "{error}");
    });
    // Edges count, their order and repetition do not.
    let (one, same, other) = (parse("a:\nb:\nc: a b"), parse("b:\nc: b a b\na:"), parse("a:\nb: a\nc: a b"));
    assert_eq!(one.fingerprint(b""), same.fingerprint(b""));
    assert_ne!(one.fingerprint(b""), other.fingerprint(b""));
}

/// A journal on a disk that is full for a while.
struct FullDisk {
    inner: MemoryJournal,
    appends: usize,
    full: std::ops::Range<usize>,
}

impl Journal for FullDisk {
    async fn begin(&mut self, graph: &Fingerprint) -> Result<Vec<JournalRecord>, JournalError> {
        self.inner.begin(graph).await
    }

    async fn append(&mut self, records: &[JournalRecord]) -> Result<(), JournalError> {
        self.appends += 1;
        if self.full.contains(&self.appends) {
            let source = Arc::new(io::Error::from(io::ErrorKind::StorageFull));
            return Err(JournalError::Io { path: "run.jsonl".into(), doing: "write to", source });
        }
        // Slow enough for attempts to end meanwhile.
        sleep(Duration::from_millis(1500)).await;
        self.inner.append(records).await
    }
}

#[test]
fn a_full_disk_stops_the_run_and_loses_no_outcome_once_there_is_room() {
    let graph = parse("a:\nslow:\nb: a\nc: slow");
    let worker = graph.worker(|cx| async move {
        sleep(Duration::from_secs(if *cx.value() == "slow" { 10 } else { 1 })).await;
        Ok::<_, Infallible>(Done::OK)
    });
    for (full, succeeded, recorded) in [(1..9, 0, 0), (2..9, 2, 2), (2..3, 2, 4)] {
        let mut journal = FullDisk { inner: MemoryJournal::new(), appends: 0, full: full.clone() };
        let report = virtual_time(Run::new(&graph, &worker).journal(&mut journal, "").run()).expect("begun");
        assert_eq!(report.stopped, Some(StopReason::Journal), "{full:?}");
        assert_eq!(
            (report.totals.succeeded, report.totals.not_started),
            (succeeded, 4 - succeeded),
            "{full:?}"
        );
        let error = report.journal_error.as_ref().expect("kept").to_string();
        assert!(error.starts_with("run.jsonl: cannot write to the journal: "), "{error}");
        assert!(!report.is_success());
        let records = journal.inner.records();
        assert_eq!(records.len(), recorded, "{full:?} {records:?}");
    }
}

#[test]
fn stopped_attempts_are_recorded() {
    let graph = parse("deaf:\npolite:\nx: deaf");
    let worker = graph.worker(|cx| async move {
        if *cx.value() == "deaf" {
            std::future::pending::<()>().await;
        }
        cx.cancelled().cancelled().await;
        Err::<Done, _>(Oops(RetryClass::Cancelled, None))
    });
    let mut journal = MemoryJournal::new();
    let token = CancellationToken::new();
    let report = virtual_time(async {
        let policy =
            Policy { on_cancel: RunningNodes::Stop, grace: Duration::from_secs(1), ..Policy::default() };
        let run =
            Run::new(&graph, &worker).policy(policy).cancel(token.clone()).journal(&mut journal, "").run();
        let (report, ()) = tokio::join!(run, async {
            sleep(Duration::from_secs(1)).await;
            token.cancel();
        });
        report.expect("begun")
    });
    assert_eq!(report.totals.cancelled, 2);
    let records: Vec<_> =
        journal.records().iter().map(|record| serde_json::json!(record).to_string()).collect();
    let expected = [
        r#"{"is":"started","id":"deaf","attempt":1}"#,
        r#"{"is":"started","id":"polite","attempt":1}"#,
        r#"{"is":"cancelled","id":"polite","attempt":1}"#,
        r#"{"is":"cancelled","id":"deaf","attempt":1}"#,
    ];
    assert_eq!(records, expected);
}

/// A journal that is asked to stop the run while it writes a record of this kind.
struct Interrupted {
    token: CancellationToken,
    during: fn(&JournalRecord) -> bool,
}

impl Journal for Interrupted {
    async fn begin(&mut self, _: &Fingerprint) -> Result<Vec<JournalRecord>, JournalError> {
        Ok(Vec::new())
    }

    async fn append(&mut self, records: &[JournalRecord]) -> Result<(), JournalError> {
        if records.iter().any(self.during) {
            self.token.cancel();
            sleep(Duration::from_secs(5)).await;
        }
        Ok(())
    }
}

#[test]
fn nothing_starts_once_the_run_is_cancelled_during_a_write() {
    /// Which write, and how every node ends.
    type Case<'a> = (&'a str, fn(&JournalRecord) -> bool, &'a [(&'a str, &'a str)]);
    let cases: [Case<'_>; 3] = [
        (
            "the first start",
            |record| matches!(record, JournalRecord::Started { .. }),
            &[("a", "NotStarted"), ("b", "NotStarted"), ("long", "NotStarted")],
        ),
        (
            "an end",
            |record| matches!(record, JournalRecord::Succeeded { .. }),
            &[("a", "Succeeded"), ("b", "NotStarted"), ("long", "Cancelled")],
        ),
        (
            "a start that is no retry",
            |record| matches!(record, JournalRecord::Started { id, .. } if id.as_str() == "b"),
            &[("a", "Succeeded"), ("b", "NotStarted"), ("long", "Cancelled")],
        ),
    ];
    for (what, during, expected) in cases {
        let graph = parse("a:\nlong:\nb: a");
        let worker = graph.worker(|cx| async move {
            if *cx.value() == "long" {
                cx.cancelled().cancelled().await;
                return Err(Oops(RetryClass::Cancelled, None));
            }
            sleep(Duration::from_secs(1)).await;
            Ok(Done::OK)
        });
        let token = CancellationToken::new();
        let report = virtual_time(
            Run::new(&graph, &worker)
                .policy(Policy { on_cancel: RunningNodes::Stop, ..Policy::default() })
                .cancel(token.clone())
                .journal(Interrupted { token, during }, "")
                .run(),
        )
        .expect("begun");
        assert_eq!(report.stopped, Some(StopReason::Cancelled), "{what}");
        for (name, outcome) in expected {
            let node = report.node(name).expect("is there");
            assert_eq!(format!("{:?}", node.outcome), *outcome, "{what}: {name}");
            assert_eq!(node.attempts, u32::from(*outcome != "NotStarted"), "{what}: {name}");
        }
    }
}

#[test]
fn a_retry_that_is_called_off_during_a_write_leaves_its_failure() {
    let graph = parse("a:\nb: a");
    let worker = graph.worker(|_| async move { Err::<Done, _>(Oops(RetryClass::Transient, None)) });
    let retry = Retry::transient(5, Backoff::fixed(Duration::from_secs(1)));
    let policy = Policy { node: NodePolicy { retry, ..NodePolicy::default() }, ..Policy::default() };
    let token = CancellationToken::new();
    let during: fn(&JournalRecord) -> bool =
        |record| matches!(record, JournalRecord::Started { attempt: 2, .. });
    let report = virtual_time(
        Run::new(&graph, &worker)
            .policy(policy)
            .cancel(token.clone())
            .journal(Interrupted { token, during }, "")
            .run(),
    )
    .expect("begun");
    let node = report.node("a").expect("is there");
    assert!(matches!(node.outcome, Outcome::Failed(_)), "{:?}", node.outcome);
    assert_eq!(node.attempts, 1);
    assert_eq!(report.totals.blocked, 1);
}
