//! Progress of a run on standard error: a live view on a terminal, plain lines elsewhere.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use slipway_event::{Event, NodeStatus, ObjectRef, Record, RunStatus, Sink, Totals};

use crate::logs::Verbosity;
use crate::term::report;
use crate::term::style::{BOLD, DIM, ERROR, GOOD, WARNING, paint};

/// The sink that suits standard error.
pub fn sink(verbosity: Verbosity) -> Arc<dyn Sink> {
    if verbosity == Verbosity::Quiet {
        Arc::new(Quiet)
    } else if std::io::stderr().is_terminal() {
        Arc::new(Live::new(verbosity))
    } else {
        Arc::new(Plain { verbosity })
    }
}

/// Shows failures only.
struct Quiet;

impl Sink for Quiet {
    fn take(&self, record: &Record) {
        if let Event::NodeFinished { status: NodeStatus::Failed, .. } = &record.event {
            print_line(&record.event, Verbosity::Quiet);
        }
    }
}

/// One line an event.
struct Plain {
    verbosity: Verbosity,
}

impl Sink for Plain {
    fn take(&self, record: &Record) {
        print_line(&record.event, self.verbosity);
    }
}

fn print_line(event: &Event, verbosity: Verbosity) {
    if let Some(line) = line(event, verbosity) {
        anstream::eprintln!("{line}");
    }
}

/// The release of a stack that a node's name begins with, in brackets, and the rest of the name.
fn owner(node: &str) -> Option<(&str, &str)> {
    let (id, rest) = node.strip_prefix('[')?.split_once(']')?;
    Some((id, rest.strip_prefix(' ').unwrap_or(rest)))
}

/// The name of the node an event is about.
fn node_of(event: &mut Event) -> Option<&mut String> {
    match event {
        Event::NodeStarted { node, .. }
        | Event::NodeRetrying { node, .. }
        | Event::NodeFinished { node, .. } => Some(node),
        Event::Object { node, .. } | Event::Log { node, .. } | Event::Progress { node, .. } => node.as_mut(),
        Event::Warning { problem } => Some(&mut problem.message),
        _ => None,
    }
}

/// What a person reads of an event; nothing for those that only machines care about. Every line about a release
/// of a stack begins with its id.
fn line(event: &Event, verbosity: Verbosity) -> Option<String> {
    let mut inner = event.clone();
    let Some((id, rest)) = node_of(&mut inner).and_then(|node| {
        let (id, rest) = owner(node)?;
        Some((id.to_owned(), rest.to_owned()))
    }) else {
        return bare_line(event, verbosity);
    };
    match &mut inner {
        Event::Object { node, .. } | Event::Log { node, .. } | Event::Progress { node, .. }
            if rest.is_empty() =>
        {
            *node = None;
        }
        inner => node_of(inner).into_iter().for_each(|node| node.clone_from(&rest)),
    }
    let lines = bare_line(&inner, verbosity)?;
    let mark = paint(DIM, format!("[{id}]"));
    Some(lines.lines().map(|line| format!("{mark} {}", line.trim_start())).collect::<Vec<_>>().join("\n"))
}

fn bare_line(event: &Event, verbosity: Verbosity) -> Option<String> {
    Some(match event {
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
            format!("{} {node}{reason} {}", status_word(*status), paint(DIM, seconds(*duration_ms)))
        }
        Event::Object { object, state, message, .. } => {
            let message = message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
            format!("  {} {}{message}", paint(DIM, format!("{state:?}").to_lowercase()), name(object))
        }
        Event::Log { node, object, container, line, .. } => {
            let container = container.as_ref().map(|container| format!("/{container}")).unwrap_or_default();
            let who = object.as_ref().map(name).or_else(|| node.clone()).unwrap_or_default();
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
        NodeStatus::Resumed => paint(DIM, "resumed"),
        NodeStatus::NotStarted => paint(DIM, "not started"),
    }
}

fn summary(totals: &Totals) -> String {
    let counts = [
        (totals.succeeded, "succeeded"),
        (totals.resumed, "resumed"),
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

fn name(object: &ObjectRef) -> String {
    if object.namespace.is_empty() {
        format!("{}/{}", object.kind, object.name)
    } else {
        format!("{}/{}/{}", object.kind, object.namespace, object.name)
    }
}

fn seconds(milliseconds: u64) -> String {
    if milliseconds < 1000 {
        format!("{milliseconds}ms")
    } else {
        format!("{:.1}s", Duration::from_millis(milliseconds).as_secs_f64())
    }
}

/// Finished nodes scroll by; running ones turn below them, over a count of the whole.
struct Live {
    verbosity: Verbosity,
    bars: MultiProgress,
    state: Mutex<LiveState>,
}

#[derive(Default)]
struct LiveState {
    overall: Option<ProgressBar>,
    running: BTreeMap<String, ProgressBar>,
}

impl Live {
    fn new(verbosity: Verbosity) -> Self {
        Self { verbosity, bars: MultiProgress::new(), state: Mutex::default() }
    }

    fn say(&self, event: &Event) {
        if let Some(line) = line(event, self.verbosity) {
            // indicatif writes to the terminal itself, so colours are settled here.
            let line = match anstream::AutoStream::choice(&std::io::stderr()) {
                anstream::ColorChoice::Never => anstream::adapter::strip_str(&line).to_string(),
                _ => line,
            };
            // A terminal that is gone shows nothing; the run goes on.
            let _ = self.bars.println(line);
        }
    }

    fn spinner(&self, node: &str) -> ProgressBar {
        let bar = self.bars.add(ProgressBar::new_spinner());
        if let Ok(style) = ProgressStyle::with_template("  {spinner} {msg} {elapsed:.dim}") {
            bar.set_style(style);
        }
        bar.set_message(node.to_owned());
        bar.enable_steady_tick(Duration::from_millis(100));
        bar
    }
}

impl Sink for Live {
    fn take(&self, record: &Record) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &record.event {
            Event::RunStarted { nodes, .. } => {
                self.say(&record.event);
                let bar = self.bars.add(ProgressBar::new(*nodes as u64));
                if let Ok(style) = ProgressStyle::with_template("  {bar:30} {pos}/{len} {elapsed:.dim}") {
                    bar.set_style(style);
                }
                state.overall = Some(bar);
            }
            // What a release of a stack does shows beside its name, and is not counted.
            Event::NodeStarted { node, .. } | Event::Progress { node: Some(node), .. }
                if owner(node).is_some_and(|(id, _)| state.running.contains_key(id)) =>
            {
                let (id, rest) = owner(node).unwrap_or_default();
                let rest = match &record.event {
                    Event::Progress { message, .. } => message.as_str(),
                    _ => rest,
                };
                state.running.get(id).into_iter().for_each(|bar| bar.set_message(format!("{id}: {rest}")));
            }
            Event::NodeFinished { node, .. } if owner(node).is_some() => self.say(&record.event),
            Event::NodeStarted { node, .. } => {
                self.say(&record.event);
                let bar = self.spinner(node);
                if let Some(old) = state.running.insert(node.clone(), bar) {
                    old.finish_and_clear();
                }
            }
            Event::NodeFinished { node, .. } => {
                if let Some(bar) = state.running.remove(node) {
                    bar.finish_and_clear();
                    self.bars.remove(&bar);
                }
                self.say(&record.event);
                state.overall.iter().for_each(|bar| bar.inc(1));
            }
            Event::Progress { node: Some(node), message, .. } => {
                if let Some(bar) = state.running.get(node) {
                    bar.set_message(format!("{node}: {message}"));
                } else {
                    self.say(&record.event);
                }
            }
            Event::RunFinished { .. } => {
                for bar in std::mem::take(&mut state.running).into_values().chain(state.overall.take()) {
                    bar.finish_and_clear();
                }
                self.say(&record.event);
            }
            _ => self.say(&record.event),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(event: &Event) -> String {
        anstream::adapter::strip_str(&line(event, Verbosity::Normal).unwrap_or_default()).to_string()
    }

    #[test]
    fn lines_say_what_a_person_wants_to_know() {
        let finished = |status, reason: Option<&str>| Event::NodeFinished {
            node: "web".into(),
            status,
            reason: reason.map(Into::into),
            duration_ms: 1234,
        };
        for (event, expected) in [
            (finished(NodeStatus::Succeeded, None), "ok web 1.2s"),
            (finished(NodeStatus::Failed, Some("exit code 3")), "failed web: exit code 3 1.2s"),
            (
                Event::Summary { totals: Totals { succeeded: 2, blocked: 1, ..Totals::default() } },
                "2 succeeded, 1 blocked",
            ),
            (Event::Summary { totals: Totals::default() }, "nothing to do"),
            (
                Event::NodeFinished {
                    node: "[c/ns/web] create ConfigMap/a".into(),
                    status: NodeStatus::Succeeded,
                    reason: None,
                    duration_ms: 7,
                },
                "[c/ns/web] ok create ConfigMap/a 7ms",
            ),
            (
                Event::Progress {
                    node: Some("[c/ns/web]".into()),
                    message: "waiting".into(),
                    done: None,
                    total: None,
                },
                "[c/ns/web] waiting",
            ),
            (Event::NodeStarted { node: "web".into(), attempt: 1 }, ""),
        ] {
            assert_eq!(plain(&event), expected);
        }
    }
}
