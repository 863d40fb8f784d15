//! A process killed for real: the lock goes with it, the journal stays.

use std::convert::Infallible;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use serde_json::json;
use slipway_graph::{Done, JournalError, Run};
use slipway_journal::FileJournal;
use tempfile::TempDir;

use crate::support::{parse, virtual_time};

const JOURNAL: &str = "SLIPWAY_JOURNAL_TEST_FILE";
const PLAN: &str = "a:\nb: a\nc: b\nd: c";

/// Not a test by itself: the process that the test below kills.
#[test]
fn victim() {
    let Some(path) = std::env::var_os(JOURNAL) else { return };
    let graph = parse(PLAN);
    let worker = graph.worker(|cx| async move {
        if *cx.value() == "c" {
            writeln!(std::io::stdout(), "in the middle of c").expect("a pipe");
            loop {
                std::thread::park();
            }
        }
        Ok::<_, Infallible>(Done::Succeeded(json!(cx.id())))
    });
    let journal = FileJournal::open(std::path::PathBuf::from(path)).expect("a new journal");
    virtual_time(Run::new(&graph, &worker).journal(journal, "").run()).expect("begun");
}

#[test]
fn a_killed_process_can_be_resumed_by_another() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("run.jsonl");
    let mut victim = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "crash::victim", "--nocapture"])
        .env(JOURNAL, &path)
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let output = BufReader::new(victim.stdout.take().expect("a pipe"));
    let reached = output.lines().map_while(Result::ok).any(|line| line.contains("in the middle of c"));
    let locked = FileJournal::open(&path);
    victim.kill().expect("killed");
    victim.wait().expect("gone");
    assert!(reached);
    assert!(matches!(locked, Err(JournalError::Locked { .. })), "{locked:?}");

    let graph = parse(PLAN);
    let ran = Mutex::new(Vec::new());
    let worker = graph.worker(|cx| {
        ran.lock().expect("not poisoned").push((cx.id().to_string(), cx.attempt(), cx.interrupted()));
        async move { Ok::<_, Infallible>(Done::Succeeded(json!([cx.output("b"), cx.output("c")]))) }
    });
    let journal = FileJournal::open(&path).expect("free again");
    let report = virtual_time(Run::new(&graph, &worker).journal(journal, "").run()).expect("its own plan");
    assert!(report.is_success());
    assert_eq!(*ran.lock().expect("not poisoned"), [("c".to_owned(), 2, true), ("d".to_owned(), 1, false)]);
    assert_eq!(report.output("c"), Some(&json!(["b", null])), "outputs of the killed process are there");
}
