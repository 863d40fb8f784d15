//! Running a graph: failures, events, signals, and going on after a crash.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, Command, Stdio};

use slipway_event::{Event, NodeOutcome, Record};

use crate::support::{Place, eventually};

#[test]
fn a_failed_node_blocks_only_what_needs_it() {
    let place = Place::new();
    place.write(
        "g.yaml",
        "\
nodes:
  bad: {run: 'echo why >&2; exit 3'}
  after: {needs: [bad], run: 'true'}
  other: {run: 'true'}
",
    );
    let ran = place.run(&["graph", "g.yaml", "--run", "--keep-going"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    for expected in
        ["bad | why", "failed bad: exit status: 3", "blocked after: `bad` did not succeed", "ok other"]
    {
        assert!(ran.err.contains(expected), "{expected} is not in:\n{}", ran.err);
    }
}

#[test]
fn events_as_json_lines() {
    let place = Place::new();
    place.write("g.yaml", "nodes:\n  a: {run: 'echo hi'}\n  b: {needs: [a]}\n");
    let ran = place.run(&["graph", "g.yaml", "--run", "--log-format", "json"]);
    let records: Vec<Record> = ran.err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(records.iter().map(|record| record.seq).eq(1..=records.len() as u64));
    let finished: Vec<_> = records
        .iter()
        .filter_map(|record| match &record.event {
            Event::NodeFinished { node, status, .. } => Some((node.id.as_str(), *status)),
            _ => None,
        })
        .collect();
    assert_eq!(finished, [("a", NodeOutcome::Succeeded), ("b", NodeOutcome::Skipped)]);
    assert!(matches!(records.last().unwrap().event, Event::Summary { .. }));
}

/// A run under way.
struct Started {
    child: Child,
    lines: BufReader<ChildStderr>,
}

impl Started {
    fn new(place: &Place, args: &[&str]) -> Self {
        let mut child = place.command(args).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap());
        Self { child, lines }
    }

    /// Waits until it says `sign`.
    fn says(&mut self, sign: &str) {
        let mut line = String::new();
        while !line.contains(sign) {
            line.clear();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "it ended before it said {sign}");
        }
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([format!("-{name}"), id]).status().unwrap().success());
    }

    fn code(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

/// A graph whose second node waits until the file `go` appears.
const GATED: &str = "\
nodes:
  first: {run: 'echo x >> first.txt'}
  gate:
    needs: [first]
    run: echo at the gate; while test -e g.yaml && ! test -e go; do sleep 0.02; done; echo y >> gate.txt
  last: {needs: [gate], run: 'echo z >> last.txt'}
";

#[test]
fn an_interrupt_lets_running_nodes_finish() {
    for (name, code) in [("INT", 130), ("TERM", 143)] {
        let place = Place::new();
        place.write("g.yaml", GATED);
        let mut run = Started::new(&place, &["graph", "g.yaml", "--run"]);
        run.says("at the gate");
        run.signal(name);
        run.says("stopping");
        place.write("go", "");
        run.says("1 not started");
        assert_eq!(run.code(), Some(code));
        assert!(place.path().join("gate.txt").exists(), "the running node finished");
        assert!(!place.path().join("last.txt").exists(), "nothing new started");
    }
}

#[test]
fn a_second_interrupt_stops_at_once() {
    let place = Place::new();
    place.write("g.yaml", GATED);
    let mut run = Started::new(&place, &["graph", "g.yaml", "--run"]);
    run.says("at the gate");
    run.signal("INT");
    run.says("stopping");
    run.signal("INT");
    assert_eq!(run.code(), Some(130));
    place.write("go", "");
}

#[test]
fn a_killed_run_goes_on_where_it_stopped() {
    let place = Place::new();
    place.write("g.yaml", GATED);
    let args = ["graph", "g.yaml", "--run", "--journal", "run.journal"];
    let mut run = Started::new(&place, &args);
    run.says("at the gate");
    run.signal("KILL");
    assert_eq!(run.code(), None);
    place.write("go", "");
    let ran = place.run(&args);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.err.contains("already done first"), "{}", ran.err);
    let first = std::fs::read_to_string(place.path().join("first.txt")).unwrap();
    assert_eq!(first, "x\n", "what was done is not done again");
    assert!(place.path().join("last.txt").exists());

    place.write("g.yaml", GATED.replace("echo z", "echo changed"));
    let ran = place.run(&args);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("another plan"), "{}", ran.err);
}

#[test]
fn timeouts_and_retries() {
    let place = Place::new();
    place.write(
        "g.yaml",
        "\
nodes:
  slow: {run: 'sleep 60', timeout: 20ms}
  flaky: {run: 'test -e tried || { touch tried; exit 1; }', retries: 1}
",
    );
    let ran = place.run(&["graph", "g.yaml", "--run", "--keep-going"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("failed slow: timed out"), "{}", ran.err);
    assert!(ran.err.contains("retry flaky") && ran.err.contains("ok flaky"), "{}", ran.err);
}

/// Whether a process is there and more than a dead entry that nobody has collected.
#[cfg(target_os = "linux")]
fn lives(pid: &str) -> bool {
    let about = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    about.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

/// Waits until a process is gone.
#[cfg(target_os = "linux")]
fn is_gone(pid: &str) {
    eventually(&format!("process {pid} is gone"), || !lives(pid));
}

/// A command whose child would run for an hour; the child's id is in `pid`.
#[cfg(target_os = "linux")]
const ENDLESS: &str = "\
nodes:
  first: {run: 'true'}
  long: {needs: [first], run: 'sleep 3600 & echo $! > pid; echo started; wait'}
";

#[test]
#[cfg(target_os = "linux")]
fn commands_die_with_a_killed_run_and_are_named_by_the_next_one() {
    let place = Place::new();
    place.write("g.yaml", ENDLESS);
    let args = ["graph", "g.yaml", "--run", "--journal", "run.journal"];
    let mut run = Started::new(&place, &args);
    run.says("started");
    let pid = std::fs::read_to_string(place.path().join("pid")).unwrap();
    run.signal("KILL");
    assert_eq!(run.code(), None);

    // The next run waits for the journal, which the dying commands hold.
    let mut again = Started::new(&place, &args);
    again.says("an earlier run died while this node ran: `long`");
    again.says("started");
    assert!(!lives(pid.trim()), "the command never runs twice at once");
    let second = std::fs::read_to_string(place.path().join("pid")).unwrap();
    assert_ne!(second, pid);
    again.signal("INT");
    again.says("stopping");
    again.signal("INT");
    assert_eq!(again.code(), Some(130));
    is_gone(second.trim());
}

#[test]
#[cfg(target_os = "linux")]
fn a_command_that_timed_out_leaves_nothing_running() {
    let place = Place::new();
    place.write("g.yaml", ENDLESS.replace("needs: [first],", "timeout: 10s,"));
    let ran = place.run(&["graph", "g.yaml", "--run"]);
    assert!(ran.err.contains("failed long: timed out"), "{}", ran.err);
    is_gone(std::fs::read_to_string(place.path().join("pid")).unwrap().trim());
}

#[test]
fn a_torn_line_of_a_journal_is_dropped_and_said() {
    let place = Place::new();
    place.write("g.yaml", "nodes: {a: {run: 'true'}, b: {run: 'true', needs: [a]}}\n");
    let args = ["graph", "g.yaml", "--run", "--journal", "run.journal"];
    place.run(&args).ok();
    let whole = std::fs::read_to_string(place.path().join("run.journal")).unwrap();
    place.write("run.journal", &whole[..whole.len() - 9]);
    let ran = place.run(&args);
    assert!(ran.err.contains("the last line of the journal was cut short"), "{}", ran.err);
    assert!(ran.err.contains("--> run.journal:5"), "{}", ran.err);
    assert!(ran.err.contains("died while this node ran: `b`"), "{}", ran.err);
    assert_eq!(ran.code, Some(0), "{}", ran.err);

    place.write("run.journal", whole.replacen("\"attempt\":1", "\"attempt\":7", 1));
    let ran = place.run(&args);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("the journal is damaged"), "{}", ran.err);
    assert!(ran.err.contains("run.journal:2"), "{}", ran.err);
}
