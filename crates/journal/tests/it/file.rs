//! Journals on disk: what survives, what is repaired, what is refused.

use std::convert::Infallible;
use std::fs;
use std::path::Path;

use serde_json::json;
use slipway_graph::{
    Context, Done, Fingerprint, Graph, Journal as _, JournalError, JournalRecord, Outcome, RetryClass, Run,
};
use slipway_journal::FileJournal;
use tempfile::TempDir;

use crate::support::{parse, virtual_time};

fn some_records() -> Vec<JournalRecord> {
    let id = || "a".into();
    vec![
        JournalRecord::Started { id: id(), attempt: 1 },
        JournalRecord::Failed {
            id: id(),
            attempt: 1,
            class: RetryClass::Transient,
            error: "line\nbreak".to_owned(),
        },
        JournalRecord::Started { id: id(), attempt: 2 },
        JournalRecord::Cancelled { id: id(), attempt: 2 },
        JournalRecord::Skipped { id: id(), attempt: 3, reason: "nothing to do".to_owned() },
        JournalRecord::Succeeded { id: id(), attempt: 4, output: json!({"ip": "10.0.0.1"}) },
        JournalRecord::Succeeded { id: id(), attempt: 5, output: json!(null) },
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
    let started = |id: &str, attempt| JournalRecord::Started { id: id.into(), attempt };
    let done = JournalRecord::Succeeded { id: "b".into(), attempt: 1, output: json!(null) };
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
fn records_are_on_disk_before_their_effects() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("run.jsonl");
    let graph: Graph<&str> = parse("a:\nb: a\nc: b");
    let worker = graph.worker(|cx| {
        let path = &path;
        async move {
            let (_, records) = FileJournal::read(path).expect("readable");
            let started = JournalRecord::Started { id: cx.id().clone(), attempt: 1 };
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

async fn ok<'g>(_: Context<'g, &'g str>) -> Result<Done, Infallible> {
    Ok(Done::OK)
}

#[test]
fn a_journal_belongs_to_one_plan() {
    let (_directory, path, _) = journal();
    let graph = parse("a:");
    let mut file = FileJournal::open(&path).expect("free");
    virtual_time(async {
        for (text, input) in [("a:", "other input"), ("a:\nb:", "x"), ("b:", "x")] {
            let other = parse(text);
            let error = Run::new(&other, &ok).journal(&mut file, input).run().await.expect_err("refused");
            assert!(matches!(error, JournalError::Mismatch { .. }), "{error}");
        }
        let report = Run::new(&graph, &ok).journal(&mut file, "x").run().await.expect("its own plan");
        assert_eq!(report.nodes[0].outcome, Outcome::Resumed);
        assert_eq!(report.output("a"), Some(&json!({"ip": "10.0.0.1"})));
    });
}

#[test]
fn a_run_goes_on_from_any_byte() {
    let graph = parse("a:\nb: a\nc: a\nd: b c\ne: d\nf:");
    let run = |path: &Path| {
        let worker = graph.worker(|cx| async move {
            let needs: Vec<_> = cx.node().needs().map(|need| cx.output(need.id()).cloned()).collect();
            Ok::<_, Infallible>(Done::Succeeded(json!({"id": cx.id().as_str(), "needs": needs})))
        });
        let journal = FileJournal::open(path).expect("free");
        let report =
            virtual_time(Run::new(&graph, &worker).journal(journal, "").run()).expect("its own plan");
        assert!(report.is_success());
        report.output("e").cloned()
    };
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("run.jsonl");
    let expected = run(&path);
    let bytes = fs::read(&path).expect("written");
    for length in (0..=bytes.len()).step_by(7) {
        fs::write(&path, &bytes[..length]).expect("written");
        assert_eq!(run(&path), expected, "{length}");
    }
}
