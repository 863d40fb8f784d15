//! Progress of a run on standard error: a live view on a terminal, plain lines elsewhere.

use std::collections::{BTreeMap, HashSet};
use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use slipway_event::{
    Event, NodeId, NodeKind, NodeName, NodeStatus, ObjectState, Record, RunStatus, Scope, ScopeKind, Sink,
    Totals,
};

use crate::logs::Verbosity;
use crate::term::escape::{Colors, Controls, settle};
use crate::term::screen::Screen;
use crate::term::style::{BOLD, DIM, ERROR, GOOD, WARNING, paint};
use crate::term::{output, report};

/// The sink that suits standard error.
pub fn sink(verbosity: Verbosity) -> Arc<dyn Sink> {
    if verbosity == Verbosity::Quiet {
        Arc::new(Quiet)
    } else if std::io::stderr().is_terminal() {
        Arc::new(Live::new(verbosity))
    } else {
        Arc::new(Plain(Teller::new(verbosity)))
    }
}

/// Shows failures, and locks that were taken from others.
struct Quiet;

impl Sink for Quiet {
    fn take(&self, record: &Record) {
        if let Event::NodeFinished { status: NodeStatus::Failed, .. } | Event::LockTakenOver { .. } =
            &record.event
            && let Some(line) = line(record, Verbosity::Quiet)
        {
            say!("{line}");
        }
    }
}

/// One line an event.
struct Plain(Teller);

impl Sink for Plain {
    fn take(&self, record: &Record) {
        if let Some(line) = self.0.line(record) {
            say!("{line}");
        }
    }
}

/// Leaves out what a reader was told already: that a node ended well whose object is known to be done, and that
/// an object is ready nobody had to wait for.
struct Teller {
    verbosity: Verbosity,
    told: Mutex<Told>,
}

#[derive(Default)]
struct Told {
    nodes: HashSet<(Vec<Scope>, NodeId)>,
    waiting: HashSet<String>,
}

/// Tells that the end of a node says nothing beyond what is said of objects.
fn is_silent(kind: NodeKind) -> bool {
    matches!(kind, NodeKind::Delete | NodeKind::TrackAbsence | NodeKind::Record)
}

impl Teller {
    fn new(verbosity: Verbosity) -> Self {
        Self { verbosity, told: Mutex::default() }
    }

    fn line(&self, record: &Record) -> Option<String> {
        if self.verbosity < Verbosity::Verbose && self.is_known(record) {
            return None;
        }
        line(record, self.verbosity)
    }

    fn is_known(&self, record: &Record) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let key = |node: &NodeId| (record.scope.clone(), node.clone());
        // Of a release among others the lines about its records tell that it is done.
        let is_silent = |node: &NodeName| record.scope.is_empty() && is_silent(node.kind);
        match &record.event {
            Event::Object { node, object, state, .. } => {
                if *state == ObjectState::Waiting {
                    told.waiting.insert(object.to_string());
                    return false;
                }
                told.nodes.extend(node.as_ref().map(key));
                // The end of the node says the same.
                if *state == ObjectState::Failed && node.is_some() {
                    return true;
                }
                *state == ObjectState::Ready && !told.waiting.remove(&object.to_string())
            }
            Event::NodeFinished { node, status: NodeStatus::Succeeded, .. } => {
                told.nodes.remove(&key(&node.id)) || is_silent(node)
            }
            Event::NodeFinished { node, status: NodeStatus::Blocked, .. } => is_silent(node),
            _ => false,
        }
    }
}

/// Whether a person is told of an event at all. A run inside of a run is told by the node it is in, and so are the
/// operations of a release that is a step of a runbook.
fn is_shown(record: &Record) -> bool {
    match (&record.event, record.scope.last()) {
        (_, None) => true,
        (Event::RunStarted { .. } | Event::RunFinished { .. } | Event::Summary { .. }, Some(_)) => false,
        (
            Event::NodeStarted { .. } | Event::NodeRetrying { .. } | Event::NodeFinished { .. },
            Some(inside),
        ) => inside.kind != ScopeKind::Step,
        _ => true,
    }
}

/// What a person reads of an event; nothing for those that only machines care about. Every line about work inside of
/// a node begins with the node's name.
fn line(record: &Record, verbosity: Verbosity) -> Option<String> {
    if !is_shown(record) {
        return None;
    }
    let lines = bare_line(&record.event, verbosity)?;
    let Some(inside) = record.scope.last() else { return Some(lines) };
    let mark = paint(DIM, format!("[{}]", inside.name));
    Some(lines.lines().map(|line| format!("{mark} {}", line.trim_start())).collect::<Vec<_>>().join("\n"))
}

fn bare_line(event: &Event, verbosity: Verbosity) -> Option<String> {
    Some(match event {
        // The command that asked for the plan, or for an answer, shows it.
        Event::PlanMade { .. } | Event::PromptAnswered { .. } => return None,
        Event::LockWaiting { lock, holder } => {
            let holder = holder.as_deref().unwrap_or("another run");
            format!("  waiting for {lock}: {holder} holds it")
        }
        Event::LockTakenOver { holder, .. } => {
            let holder = holder.as_deref().unwrap_or("a run that was not heard of any more");
            format!("{} took the lock from {holder}", paint(WARNING, "notice:"))
        }
        Event::RunStarted { title, nodes } => format!("{} ({nodes} nodes)", paint(BOLD, title)),
        Event::RunFinished { status, duration_ms } => {
            let word = match status {
                RunStatus::Succeeded => paint(GOOD, "done"),
                RunStatus::Failed => paint(ERROR, "failed"),
                RunStatus::Cancelled => paint(WARNING, "cancelled"),
            };
            format!("{word} in {}", seconds(*duration_ms))
        }
        Event::NodeStarted { node, attempt } => {
            if verbosity < Verbosity::Verbose {
                return None;
            }
            let again = if *attempt > 1 { format!(" (attempt {attempt})") } else { String::new() };
            format!("{} {node}{again}", paint(DIM, "start"))
        }
        Event::NodeRetrying { node, attempt, error, delay_ms } => format!(
            "{} {node}: attempt {attempt} failed: {error}; again in {}",
            paint(WARNING, "retry"),
            seconds(*delay_ms)
        ),
        Event::NodeFinished { node, status, reason, duration_ms } => {
            let reason = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            // What takes more than a line goes on below the first, which ends with the time.
            let (first, more) = reason.split_once('\n').unwrap_or((&reason, ""));
            let more: String = more.lines().map(|line| format!("\n  {}", line.trim_start())).collect();
            let time = paint(DIM, seconds(*duration_ms));
            format!("{} {node}{first} {time}{more}", status_word(*status))
        }
        Event::Object { object, state, message, .. } => {
            let message = message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
            format!("  {} {}{message}", paint(DIM, format!("{state:?}").to_lowercase()), object)
        }
        Event::Log { node, object, container, line, .. } => {
            let container = container.as_ref().map(|container| format!("/{container}")).unwrap_or_default();
            let node = node.as_ref().map(ToString::to_string);
            let who = object.as_ref().map(ToString::to_string).or(node).unwrap_or_default();
            format!("  {} {line}", paint(DIM, format!("{who}{container} |")))
        }
        Event::Progress { node, message, done, total } => {
            let node = node.as_ref().map(|node| format!("{node}: ")).unwrap_or_default();
            let count = match (done, total) {
                (Some(done), Some(total)) => format!(" {done}/{total}"),
                _ => String::new(),
            };
            format!("  {node}{message}{count}")
        }
        Event::Warning { problem } => report::render(problem).trim_end().to_owned(),
        Event::Summary { totals } => summary(totals),
    })
}

fn status_word(status: NodeStatus) -> String {
    match status {
        NodeStatus::Succeeded => paint(GOOD, "ok"),
        NodeStatus::Failed => paint(ERROR, "failed"),
        NodeStatus::Skipped => paint(DIM, "skipped"),
        NodeStatus::Blocked => paint(WARNING, "blocked"),
        NodeStatus::Cancelled => paint(WARNING, "cancelled"),
        NodeStatus::Resumed => paint(DIM, "already done"),
        NodeStatus::NotStarted => paint(DIM, "not started"),
    }
}

fn summary(totals: &Totals) -> String {
    let counts = [
        (totals.succeeded, "succeeded"),
        (totals.resumed, "already done"),
        (totals.skipped, "skipped"),
        (totals.failed, "failed"),
        (totals.blocked, "blocked"),
        (totals.cancelled, "cancelled"),
        (totals.not_started, "not started"),
    ];
    let shown: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    if shown.is_empty() { "nothing to do".to_owned() } else { shown.join(", ") }
}

fn seconds(milliseconds: u64) -> String {
    if milliseconds < 1000 {
        format!("{milliseconds}ms")
    } else {
        format!("{:.1}s", Duration::from_millis(milliseconds).as_secs_f64())
    }
}

/// A text that takes one row and moves no cursor.
fn one_row(text: &str) -> String {
    settle(&text.replace(['\n', '\t'], " "), Colors::Drop, Controls::Show)
}

/// How many running nodes are shown; a screen is not higher than that and some logs.
const ROWS: usize = 12;

/// What happened scrolls by; what is under way turns below it, a few rows over a count of the whole.
struct Live {
    teller: Teller,
    bars: MultiProgress,
    state: Mutex<LiveState>,
}

#[derive(Default)]
struct LiveState {
    overall: Option<ProgressBar>,
    /// Running nodes; those beyond the rows have none.
    running: BTreeMap<NodeId, RunningNode>,
}

/// A node under way.
struct RunningNode {
    label: String,
    row: Option<ProgressBar>,
}

impl Live {
    fn new(verbosity: Verbosity) -> Self {
        let target = ProgressDrawTarget::term_like_with_hz(Box::new(Screen::default()), 20);
        Self {
            teller: Teller::new(verbosity),
            bars: MultiProgress::with_draw_target(target),
            state: Mutex::default(),
        }
    }

    fn say(&self, record: &Record) {
        if let Some(line) = self.teller.line(record) {
            // The view draws on the terminal itself, so the line is settled here.
            let line = settle(&line, output::colors(&std::io::stderr()), Controls::Show);
            // A terminal that is gone shows nothing; the run goes on.
            let _ = self.bars.println(line);
        }
    }

    fn row(&self, node: &str) -> ProgressBar {
        let bar = self.bars.insert_from_back(1, ProgressBar::new_spinner());
        if let Ok(style) = ProgressStyle::with_template("  {spinner} {wide_msg} {elapsed:.dim}") {
            bar.set_style(style);
        }
        bar.set_message(one_row(node));
        bar.enable_steady_tick(Duration::from_millis(100));
        bar
    }

    /// Gives free rows to nodes that have none, and says how many are left without.
    fn arrange(&self, state: &mut LiveState) {
        let shown = state.running.values().filter(|node| node.row.is_some()).count();
        let mut free = ROWS.saturating_sub(shown);
        let mut hidden = 0;
        for node in state.running.values_mut().filter(|node| node.row.is_none()) {
            if free == 0 {
                hidden += 1;
                continue;
            }
            free -= 1;
            node.row = Some(self.row(&node.label));
        }
        if let Some(overall) = &state.overall {
            let more = if hidden > 0 { format!("and {hidden} more under way") } else { String::new() };
            overall.set_message(more);
        }
    }
}

impl Sink for Live {
    fn take(&self, record: &Record) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Work inside of a node shows beside the node's name, and is not counted.
        if let Some(inside) = record.scope.first() {
            let doing = match &record.event {
                Event::NodeStarted { node, .. } if is_shown(record) => Some(node.to_string()),
                Event::Progress { message, .. } => Some(message.clone()),
                _ => None,
            };
            match (doing, state.running.get(&NodeId::from(inside.name.as_str()))) {
                (Some(doing), Some(node)) => {
                    let text = one_row(&format!("{}: {doing}", node.label));
                    node.row.iter().for_each(|bar| bar.set_message(text.clone()));
                }
                _ => self.say(record),
            }
            return;
        }
        match &record.event {
            Event::RunStarted { nodes, .. } => {
                self.say(record);
                let bar = self.bars.add(ProgressBar::new(*nodes as u64));
                if let Ok(style) =
                    ProgressStyle::with_template("  {bar:30} {pos}/{len} {elapsed:.dim} {msg:.dim}")
                {
                    bar.set_style(style);
                }
                state.overall = Some(bar);
            }
            Event::NodeStarted { node, .. } => {
                self.say(record);
                let running = RunningNode { label: node.to_string(), row: None };
                if let Some(old) = state.running.insert(node.id.clone(), running) {
                    old.row.iter().for_each(ProgressBar::finish_and_clear);
                }
                self.arrange(&mut state);
            }
            Event::NodeFinished { node, .. } => {
                if let Some(bar) = state.running.remove(&node.id).and_then(|node| node.row) {
                    bar.finish_and_clear();
                    self.bars.remove(&bar);
                }
                self.say(record);
                state.overall.iter().for_each(|bar| bar.inc(1));
                self.arrange(&mut state);
            }
            Event::Progress { node: Some(node), message, .. }
            | Event::Object {
                node: Some(node), state: ObjectState::Waiting, message: Some(message), ..
            } if state.running.contains_key(node) => {
                // Told so that the end of the waiting is worth a line.
                let _ = self.teller.line(record);
                if let Some(RunningNode { label, row: Some(bar) }) = state.running.get(node) {
                    bar.set_message(one_row(&format!("{label}: {message}")));
                }
            }
            Event::RunFinished { .. } => {
                let running = std::mem::take(&mut state.running).into_values().filter_map(|node| node.row);
                for bar in running.chain(state.overall.take()) {
                    bar.finish_and_clear();
                }
                self.say(record);
            }
            _ => self.say(record),
        }
    }
}

#[cfg(test)]
mod tests {
    use slipway_manifest::{Gvk, ObjectRef};

    use super::*;

    fn named(kind: NodeKind, id: &str) -> NodeName {
        NodeName::new(kind, id)
    }

    fn record(scope: &[Scope], event: Event) -> Record {
        let (run, time) = ("r1".parse().unwrap(), jiff::Timestamp::UNIX_EPOCH);
        Record { v: 1, run, seq: 1, time, scope: scope.to_vec(), event }
    }

    fn plain(scope: &[Scope], event: &Event) -> String {
        let record = record(scope, event.clone());
        settle(&line(&record, Verbosity::Normal).unwrap_or_default(), Colors::Drop, Controls::Show)
    }

    #[test]
    fn lines_say_what_a_person_wants_to_know() {
        let finished = |status, reason: Option<&str>| Event::NodeFinished {
            node: named(NodeKind::Release, "web"),
            status,
            reason: reason.map(Into::into),
            duration_ms: 1234,
        };
        for (event, expected) in [
            (finished(NodeStatus::Succeeded, None), "ok web 1.2s"),
            (finished(NodeStatus::Failed, Some("exit code 3")), "failed web: exit code 3 1.2s"),
            (
                finished(NodeStatus::Failed, Some("exit code 3\n  | no file\nhint: look")),
                "failed web: exit code 3 1.2s\n  | no file\n  hint: look",
            ),
            (
                Event::Summary { totals: Totals { succeeded: 2, blocked: 1, ..Totals::default() } },
                "2 succeeded, 1 blocked",
            ),
            (Event::Summary { totals: Totals::default() }, "nothing to do"),
            (Event::NodeStarted { node: named(NodeKind::Release, "web"), attempt: 1 }, ""),
        ] {
            assert_eq!(plain(&[], &event), expected);
        }
    }

    #[test]
    fn lines_about_work_inside_of_a_node_begin_with_its_name() {
        let created = Event::NodeFinished {
            node: named(NodeKind::Deploy, "create ConfigMap/a"),
            status: NodeStatus::Succeeded,
            reason: None,
            duration_ms: 7,
        };
        let waiting = Event::Progress { node: None, message: "waiting".into(), done: None, total: None };
        let started = Event::RunStarted { title: "apply web".into(), nodes: 3 };
        let warning = Event::Warning { problem: slipway_problem::Problem::warning("old") };
        let (release, step) = ([Scope::release("c/ns/web")], [Scope::step("web")]);
        for (scope, event, expected) in [
            (&release, &created, "[c/ns/web] ok create ConfigMap/a 7ms"),
            (&release, &waiting, "[c/ns/web] waiting"),
            (&release, &started, ""),
            (&release, &warning, "[c/ns/web] warning: old"),
            (&step, &created, ""),
            (&step, &waiting, "[web] waiting"),
        ] {
            assert_eq!(plain(scope, event), expected);
        }
    }

    #[test]
    fn what_is_known_is_not_told_again() {
        let teller = Teller::new(Verbosity::Normal);
        let object = |name: &str, state| Event::Object {
            node: Some(format!("track readiness: Deployment/{name}").into()),
            object: ObjectRef::new(Gvk::new("apps", "v1", "Deployment"), None, name),
            state,
            message: None,
        };
        let done = |kind, node: &str| Event::NodeFinished {
            node: named(kind, node),
            status: NodeStatus::Succeeded,
            reason: None,
            duration_ms: 1,
        };
        for (event, is_told) in [
            (object("quick", ObjectState::Created), true),
            (object("quick", ObjectState::Ready), false),
            (object("slow", ObjectState::Waiting), true),
            (object("slow", ObjectState::Ready), true),
            (done(NodeKind::TrackReadiness, "track readiness: Deployment/slow"), false),
            (done(NodeKind::Record, "update release: v1 deployed"), false),
            (done(NodeKind::Release, "delete: web"), true),
        ] {
            let told = teller.line(&record(&[], event.clone())).is_some();
            assert_eq!(told, is_told, "{event:?}");
        }
    }
}
