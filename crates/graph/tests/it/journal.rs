//! Journals on disk: what survives, what is repaired, what is refused.

use std::convert::Infallible;
use std::fs;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use slipway_graph::{
    Backoff, Context, Done, ErrorClass, FileJournal, Fingerprint, Graph, Journal, JournalError,
    MemoryJournal, NodePolicy, Outcome, Policy, Record, Retry, Run, Running, StopReason,
};
use tempfile::TempDir;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::dags::parse;
use crate::run::{Oops, virtual_time};

async fn ok<'g>(_: Context<'g, &'g str>) -> Result<Done, Infallible> {
    Ok(Done::OK)
}

fn some_records() -> Vec<Record> {
    let id = || "a".into();
    vec![
        Record::Started { id: id(), attempt: 1 },
        Record::Failed {
            id: id(),
            attempt: 1,
            class: ErrorClass::Transient,
            error: "line\nbreak".to_owned(),
        },
        Record::Started { id: id(), attempt: 2 },
        Record::Cancelled { id: id(), attempt: 2 },
        Record::Skipped { id: id(), attempt: 3, reason: "nothing to do".to_owned() },
        Record::Succeeded { id: id(), attempt: 4, output: json!({"ip": "10.0.0.1"}) },
        Record::Succeeded { id: id(), attempt: 5, output: json!(null) },
    ]
}

fn fingerprint(input: &str) -> Fingerprint {
    parse("a:").fingerprint(input.as_bytes())
}

/// A directory with a journal of `some_records`, and the journal's content.
fn journal() -> (TempDir, std::path::PathBuf, Vec<u8>) {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("run.jsonl");
    virtual_time(async {
        let mut journal = FileJournal::open(&path).expect("a new journal");
        assert_eq!(journal.begin(&fingerprint("x")).await.expect("fresh"), []);
        journal.append(&some_records()).await.expect("written");
    });
    let bytes = fs::read(&path).expect("readable");
    (directory, path, bytes)
}

#[test]
fn the_file_is_lines_of_json() {
    let (_directory, path, bytes) = journal();
    let text = plain(&String::from_utf8(bytes).expect("text"));
    let expected = format!(
        r#"{{"slipway-journal":1,"graph":"{}"}}
{{"is":"started","id":"a","attempt":1}}
{{"is":"failed","id":"a","attempt":1,"class":"transient","error":"line\nbreak"}}
{{"is":"started","id":"a","attempt":2}}
{{"is":"cancelled","id":"a","attempt":2}}
{{"is":"skipped","id":"a","attempt":3,"reason":"nothing to do"}}
{{"is":"succeeded","id":"a","attempt":4,"output":{{"ip":"10.0.0.1"}}}}
{{"is":"succeeded","id":"a","attempt":5}}
"#,
        fingerprint("x")
    );
    assert_eq!(text, expected);
    let (graph, records) = FileJournal::read(&path).expect("readable");
    assert_eq!((graph, records), (Some(fingerprint("x")), some_records()));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
    }
}

/// A journal as earlier versions wrote it: without checksums.
fn plain(text: &str) -> String {
    let bare = |line: &str| line.split(",\"sum\":\"").next().expect("text").to_owned();
    text.lines()
        .map(|line| if line.contains("\"sum\"") { bare(line) + "}\n" } else { format!("{line}\n") })
        .collect()
}

#[test]
fn every_line_has_a_checksum_that_continues_the_one_before() {
    let (_directory, path, bytes) = journal();
    let text = String::from_utf8(bytes).expect("text");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.iter().all(|line| line.contains(",\"sum\":\"")), "{text}");
    let shown = path.display().to_string();
    let without = |at: usize| [&lines[..at], &lines[at + 1..]].concat().join("\n") + "\n";
    let swapped = [&lines[..2], &[lines[3], lines[2]], &lines[4..]].concat().join("\n") + "\n";
    for (content, line) in [
        (text.replacen("\"attempt\":1", "\"attempt\":6", 1), 2),
        (text.replacen("line\\nbreak", "line\\nbreaK", 1), 3),
        (without(4), 5),
        (swapped, 3),
    ] {
        fs::write(&path, &content).expect("written");
        let error = FileJournal::open(&path).expect_err("refused").to_string();
        assert!(error.starts_with(&format!("{shown}:{line}: the journal is damaged")), "{error}");
        assert_eq!(fs::read_to_string(&path).expect("readable"), content, "left alone");
    }
}

#[test]
fn a_last_line_with_a_wrong_checksum_is_torn() {
    let (_directory, path, bytes) = journal();
    let text = String::from_utf8(bytes).expect("text");
    fs::write(&path, text.replacen("\"attempt\":5", "\"attempt\":6", 1)).expect("written");
    let journal = FileJournal::open(&path).expect("repaired");
    assert_eq!(journal.records(), some_records()[..6]);
    let torn = journal.torn().expect("said");
    assert_eq!((torn.at.line, torn.bytes), (8, text.lines().last().expect("lines").len() + 1));
}

#[test]
fn journals_without_checksums_are_read_and_continued() {
    let (_directory, path, bytes) = journal();
    fs::write(&path, plain(&String::from_utf8(bytes).expect("text"))).expect("written");
    let mut journal = FileJournal::open(&path).expect("an old journal");
    assert_eq!((journal.records(), journal.torn()), (some_records(), None));
    virtual_time(journal.append(&some_records()[..2])).expect("written");
    drop(journal);
    assert_eq!(FileJournal::open(&path).expect("mixed").records().len(), 9);
    let text = fs::read_to_string(&path).expect("readable");
    assert_eq!(text.matches("\"sum\"").count(), 2);
    fs::write(&path, text.replacen("\"attempt\":1,\"sum\"", "\"attempt\":3,\"sum\"", 1)).expect("written");
    assert!(matches!(FileJournal::open(&path), Err(JournalError::Corrupt(_))));
}

#[test]
fn nodes_that_were_running_are_known() {
    let (_directory, path, _) = journal();
    let mut journal = FileJournal::open(&path).expect("free");
    assert!(journal.interrupted().is_empty());
    let started = |id: &str, attempt| Record::Started { id: id.into(), attempt };
    let done = Record::Succeeded { id: "b".into(), attempt: 1, output: json!(null) };
    virtual_time(journal.append(&[started("c", 1), started("b", 1), started("a", 6), done]))
        .expect("written");
    assert_eq!(journal.interrupted(), ["c", "a"]);
}

#[test]
fn any_torn_end_is_cut_off() {
    let (_directory, path, bytes) = journal();
    let ends: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] == b'\n').map(|at| at + 1).collect();
    for length in 0..=bytes.len() {
        fs::write(&path, &bytes[..length]).expect("written");
        let whole = ends.iter().copied().filter(|&end| end <= length).max().unwrap_or(0);
        let count = ends.iter().filter(|&&end| end <= length).count().saturating_sub(1);
        assert_eq!(FileJournal::read(&path).expect("readable").1, some_records()[..count], "{length}");
        let journal = FileJournal::open(&path).expect("repaired");
        assert_eq!(journal.records(), some_records()[..count], "{length}");
        assert_eq!(journal.torn().map_or(0, |torn| torn.bytes), length - whole, "{length}");
        assert_eq!(fs::metadata(&path).expect("there").len(), whole as u64, "{length}");
    }
    // A whole last line of zeros is torn too: the length reached the disk, the content did not.
    fs::write(&path, [&bytes[..], b"\0\0\0\0\n"].concat()).expect("written");
    let mut journal = FileJournal::open(&path).expect("repaired");
    virtual_time(journal.append(&some_records()[..1])).expect("written");
    drop(journal);
    assert_eq!(FileJournal::read(&path).expect("readable").1.len(), 8);
}

#[test]
fn damage_before_the_end_is_located() {
    let (_directory, path, bytes) = journal();
    let text = String::from_utf8(bytes).expect("text");
    let shown = path.display().to_string();
    let damaged = text.replacen(r#""is":"cancelled""#, r#""is":"canc"#, 1);
    for (content, expected) in [
        (damaged.as_str(), format!("{shown}:5:")),
        (text.split_once('\n').expect("lines").1, format!("{shown}:1:")),
        ("apiVersion: v1\nkind: Secret\n", format!("{shown}:1:1: this is not a journal")),
        ("precious", format!("{shown}:1:1: this is not a journal")),
        (
            &text.replacen("journal\":1", "journal\":2", 1),
            format!("{shown}: journal format 2 is not supported"),
        ),
    ] {
        fs::write(&path, content).expect("written");
        let error = FileJournal::open(&path).expect_err("refused").to_string();
        assert!(error.starts_with(&expected), "{error}");
        assert_eq!(fs::read_to_string(&path).expect("readable"), content, "left alone");
    }
}

#[test]
fn one_process_at_a_time() {
    let (_directory, path, _) = journal();
    let journal = FileJournal::open(&path).expect("free");
    assert!(matches!(FileJournal::open(&path), Err(JournalError::Locked { .. })));
    assert_eq!(FileJournal::read(&path).expect("readers may").1.len(), 7);
    drop(journal);
    FileJournal::open(&path).expect("free again");
}

#[test]
fn a_journal_belongs_to_one_plan() {
    let (_directory, path, _) = journal();
    let graph = parse("a:");
    let mut file = FileJournal::open(&path).expect("free");
    let mut memory = MemoryJournal::new();
    virtual_time(async {
        Run::new(&graph, &ok).journal(&mut memory, "x").run().await.expect("fresh");
        for (text, input) in [("a:", "other input"), ("a:\nb:", "x"), ("b:", "x")] {
            let other = parse(text);
            let error = Run::new(&other, &ok).journal(&mut file, input).run().await.expect_err("refused");
            assert!(matches!(error, JournalError::Mismatch { .. }), "{error}");
            let error = Run::new(&other, &ok).journal(&mut memory, input).run().await.expect_err("refused");
            assert!(error.to_string().starts_with("the journal belongs to another plan: it records sha256:"));
        }
        let report = Run::new(&graph, &ok).journal(&mut file, "x").run().await.expect("its own plan");
        assert_eq!(report.nodes[0].outcome, Outcome::Resumed);
        assert_eq!(report.output("a"), Some(&json!({"ip": "10.0.0.1"})));
        let mut foreign = MemoryJournal::of(vec![Record::Started { id: "zzz".into(), attempt: 1 }]);
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
    async fn begin(&mut self, graph: &Fingerprint) -> Result<Vec<Record>, JournalError> {
        self.inner.begin(graph).await
    }

    async fn append(&mut self, records: &[Record]) -> Result<(), JournalError> {
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
            (report.summary.succeeded, report.summary.not_started),
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
        Err::<Done, _>(Oops(ErrorClass::Cancelled, None))
    });
    let mut journal = MemoryJournal::new();
    let token = CancellationToken::new();
    let report = virtual_time(async {
        let policy = Policy { on_cancel: Running::Stop, grace: Duration::from_secs(1), ..Policy::default() };
        let run =
            Run::new(&graph, &worker).policy(policy).cancel(token.clone()).journal(&mut journal, "").run();
        let (report, ()) = tokio::join!(run, async {
            sleep(Duration::from_secs(1)).await;
            token.cancel();
        });
        report.expect("begun")
    });
    assert_eq!(report.summary.cancelled, 2);
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

#[test]
fn records_are_on_disk_before_their_effects() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("run.jsonl");
    let graph: Graph<&str> = parse("a:\nb: a\nc: b");
    let worker = graph.worker(|cx| {
        let path = &path;
        async move {
            let (_, records) = FileJournal::read(path).expect("readable");
            let started = Record::Started { id: cx.id().clone(), attempt: 1 };
            assert_eq!(records.last(), Some(&started));
            assert_eq!(records.len(), 2 * cx.node().wave() + 1, "needs are recorded as succeeded");
            Ok::<_, Infallible>(Done::OK)
        }
    });
    let mut journal = FileJournal::open(&path).expect("new");
    let report = virtual_time(Run::new(&graph, &worker).journal(&mut journal, "").run()).expect("begun");
    assert!(report.is_success(), "{report:?}");
    assert_eq!(journal.records().len(), 6);
}

/// A journal that is asked to stop the run while it writes a record of this kind.
struct Interrupted {
    token: CancellationToken,
    during: fn(&Record) -> bool,
}

impl Journal for Interrupted {
    async fn begin(&mut self, _: &Fingerprint) -> Result<Vec<Record>, JournalError> {
        Ok(Vec::new())
    }

    async fn append(&mut self, records: &[Record]) -> Result<(), JournalError> {
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
    type Case<'a> = (&'a str, fn(&Record) -> bool, &'a [(&'a str, &'a str)]);
    let cases: [Case<'_>; 3] = [
        (
            "the first start",
            |record| matches!(record, Record::Started { .. }),
            &[("a", "NotStarted"), ("b", "NotStarted"), ("long", "NotStarted")],
        ),
        (
            "an end",
            |record| matches!(record, Record::Succeeded { .. }),
            &[("a", "Succeeded"), ("b", "NotStarted"), ("long", "Cancelled")],
        ),
        (
            "a start that is no retry",
            |record| matches!(record, Record::Started { id, .. } if id.as_str() == "b"),
            &[("a", "Succeeded"), ("b", "NotStarted"), ("long", "Cancelled")],
        ),
    ];
    for (what, during, expected) in cases {
        let graph = parse("a:\nlong:\nb: a");
        let worker = graph.worker(|cx| async move {
            if *cx.value() == "long" {
                cx.cancelled().cancelled().await;
                return Err(Oops(ErrorClass::Cancelled, None));
            }
            sleep(Duration::from_secs(1)).await;
            Ok(Done::OK)
        });
        let token = CancellationToken::new();
        let report = virtual_time(
            Run::new(&graph, &worker)
                .policy(Policy { on_cancel: Running::Stop, ..Policy::default() })
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
    let worker = graph.worker(|_| async move { Err::<Done, _>(Oops(ErrorClass::Transient, None)) });
    let retry = Retry::transient(5, Backoff::fixed(Duration::from_secs(1)));
    let policy = Policy { node: NodePolicy { retry, ..NodePolicy::default() }, ..Policy::default() };
    let token = CancellationToken::new();
    let during: fn(&Record) -> bool = |record| matches!(record, Record::Started { attempt: 2, .. });
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
    assert_eq!(report.summary.blocked, 1);
}
