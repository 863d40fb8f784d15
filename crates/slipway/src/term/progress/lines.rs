//! Lines of a run: what a person reads of an event, and what needs no saying.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use slipway_event::{
    Event, NodeId, NodeKind, NodeName, NodeOutcome, NodeTotals, ObjectState, PlannedChanges, Record,
    RunOutcome, Scope, ScopeKind,
};

use crate::logs::Verbosity;
use crate::term::report;
use crate::term::style::{BOLD, DIM, ERROR, GOOD, WARNING, paint};

/// Leaves out what a reader was told already: that a node ended well whose object is known to be done, and that
/// an object is ready nobody had to wait for.
#[derive(Debug)]
pub struct Teller {
    verbosity: Verbosity,
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    nodes: HashSet<(Vec<Scope>, NodeId)>,
    waiting: HashSet<String>,
    changes: ChangeCounts,
}

/// The objects of a release by what was done to them, and by what became of those that were waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ChangeCounts {
    created: usize,
    updated: usize,
    recreated: usize,
    deleted: usize,
    unchanged: usize,
    ready: usize,
    /// Waited for until something else failed.
    abandoned: usize,
    not_reached: usize,
}

impl ChangeCounts {
    fn count(&mut self, state: ObjectState) {
        match state {
            ObjectState::Created => self.created += 1,
            ObjectState::Updated => self.updated += 1,
            ObjectState::Recreated => self.recreated += 1,
            ObjectState::Deleted => self.deleted += 1,
            ObjectState::Unchanged => self.unchanged += 1,
            ObjectState::Waiting | ObjectState::Ready | ObjectState::Failed => {}
        }
    }

    /// Counts what became of an object that was written or waited for.
    fn count_end(&mut self, kind: NodeKind, status: NodeOutcome) {
        match (kind, status) {
            (NodeKind::TrackReadiness, NodeOutcome::Succeeded) => self.ready += 1,
            (NodeKind::TrackReadiness, NodeOutcome::Cancelled) => self.abandoned += 1,
            (NodeKind::Deploy | NodeKind::Delete, NodeOutcome::Blocked | NodeOutcome::NotStarted) => {
                self.not_reached += 1;
            }
            _ => {}
        }
    }

    /// The end of a release in objects. Where all went well, everything is ready.
    fn summary(self, totals: &NodeTotals) -> String {
        let is_whole = totals.failed + totals.cancelled == 0;
        join_counts(&[
            (self.created, "created"),
            (self.updated, "updated"),
            (self.recreated, "recreated"),
            (self.deleted, "deleted"),
            (self.unchanged, "unchanged"),
            (if is_whole { 0 } else { self.ready }, "ready"),
            (totals.failed, "failed"),
            (self.abandoned, "not ready yet"),
            (self.not_reached, "not reached"),
        ])
    }
}

/// Tells that the end of a node says nothing beyond what is said of objects.
fn is_silent(kind: NodeKind) -> bool {
    matches!(kind, NodeKind::Delete | NodeKind::TrackAbsence | NodeKind::Record)
}

impl Teller {
    pub fn new(verbosity: Verbosity) -> Self {
        Self { verbosity, told: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The line for a record; none if it says nothing new.
    pub fn line(&self, record: &Record) -> Option<String> {
        if self.is_known(record) && self.verbosity < Verbosity::Verbose {
            return None;
        }
        if let (Event::Summary { totals }, []) = (&record.event, record.scope.as_slice()) {
            let changes = self.lock().changes;
            if changes != ChangeCounts::default() {
                return Some(changes.summary(totals));
            }
        }
        line(record, self.verbosity)
    }

    fn is_known(&self, record: &Record) -> bool {
        let mut told = self.lock();
        let key = |node: &NodeId| (record.scope.clone(), node.clone());
        // Of a release among others the lines about its records tell that it is done.
        let is_silent = |node: &NodeName| record.scope.is_empty() && is_silent(node.kind);
        match &record.event {
            Event::RunStarted { .. } if record.scope.is_empty() => {
                told.changes = ChangeCounts::default();
                false
            }
            Event::Object { node, object, state, .. } => {
                if record.scope.is_empty() {
                    told.changes.count(*state);
                }
                if *state == ObjectState::Waiting {
                    told.waiting.insert(object.to_string());
                    return false;
                }
                told.nodes.extend(node.as_ref().map(key));
                // The end of the node says the same of its object; a pod may recover.
                if *state == ObjectState::Failed && node.is_some() && object.gvk.kind != "Pod" {
                    return true;
                }
                *state == ObjectState::Ready && !told.waiting.remove(&object.to_string())
            }
            Event::NodeFinished { node, status, .. } => {
                if record.scope.is_empty() {
                    told.changes.count_end(node.kind, *status);
                }
                match status {
                    NodeOutcome::Succeeded => told.nodes.remove(&key(&node.id)) || is_silent(node),
                    NodeOutcome::Blocked => is_silent(node),
                    _ => false,
                }
            }
            _ => false,
        }
    }
}

/// Whether a person is told of an event at all. A run inside of a run is told by the node it is in, and so are the
/// operations of a release that is a step of a runbook.
fn is_shown(record: &Record) -> bool {
    match (&record.event, record.scope.last()) {
        (_, None) => true,
        (
            Event::PlanMade { .. }
            | Event::RunStarted { .. }
            | Event::RunFinished { .. }
            | Event::Summary { .. },
            Some(_),
        ) => false,
        (
            Event::NodeStarted { .. } | Event::NodeRetrying { .. } | Event::NodeFinished { .. },
            Some(inside),
        ) => inside.kind != ScopeKind::Step,
        _ => true,
    }
}

/// What a person reads of an event; nothing for those that only machines care about. Every line about work inside of
/// a node begins with the node's name.
pub fn line(record: &Record, verbosity: Verbosity) -> Option<String> {
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
        Event::PlanMade { changes: Some(changes), .. } => {
            format!("{} {}", paint(DIM, "plan:"), planned_text(*changes))
        }
        // The command that asked for the plan, or for an answer, shows it.
        Event::PlanMade { changes: None, .. } | Event::PromptAnswered { .. } => return None,
        Event::LockWaiting { lock, holder } => {
            let holder = holder.as_deref().unwrap_or("another run");
            format!("  waiting for {lock}: {holder} holds it")
        }
        Event::LockTakenOver { holder, .. } => {
            let holder = holder.as_deref().unwrap_or("a run that was not heard of any more");
            format!("{} took the lock from {holder}", paint(WARNING, "notice:"))
        }
        Event::RunStarted { title, .. } => paint(BOLD, title),
        Event::RunFinished { status, duration_ms } => {
            let word = match status {
                RunOutcome::Succeeded => paint(GOOD, "done"),
                RunOutcome::Failed => paint(ERROR, "failed"),
                RunOutcome::Cancelled => paint(WARNING, "cancelled"),
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
            // The reason names the object that was waited for.
            let first = match (node.kind, status, first.strip_prefix(": ")) {
                (NodeKind::TrackReadiness, NodeOutcome::Failed, Some(reason)) => reason.to_owned(),
                _ => format!("{node}{first}"),
            };
            format!("{} {first} {time}{more}", status_word(*status))
        }
        Event::Object { object, state, message, replicas, .. } => {
            let replicas = replicas.map(|replicas| format!(" {replicas}")).unwrap_or_default();
            let message = message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
            format!("  {} {object}{replicas}{message}", paint(DIM, format!("{state:?}").to_lowercase()))
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

fn status_word(status: NodeOutcome) -> String {
    match status {
        NodeOutcome::Succeeded => paint(GOOD, "ok"),
        NodeOutcome::Failed => paint(ERROR, "failed"),
        NodeOutcome::Skipped => paint(DIM, "skipped"),
        NodeOutcome::Blocked => paint(WARNING, "blocked"),
        NodeOutcome::Cancelled => paint(WARNING, "cancelled"),
        NodeOutcome::Resumed => paint(DIM, "already done"),
        NodeOutcome::NotStarted => paint(DIM, "not started"),
    }
}

fn summary(totals: &NodeTotals) -> String {
    join_counts(&[
        (totals.succeeded, "succeeded"),
        (totals.resumed, "already done"),
        (totals.skipped, "skipped"),
        (totals.failed, "failed"),
        (totals.blocked, "blocked"),
        (totals.cancelled, "cancelled"),
        (totals.not_started, "not started"),
    ])
}

/// What a plan would do to objects, in the words of `slipway plan`.
fn planned_text(changes: PlannedChanges) -> String {
    let PlannedChanges { create, recreate, update, apply, delete } = changes;
    if changes == PlannedChanges::default() {
        return "no object changes".to_owned();
    }
    join_counts(&[
        (create, "to create"),
        (recreate, "to recreate"),
        (update, "to update"),
        (apply, "to apply"),
        (delete, "to delete"),
    ])
}

fn join_counts(counts: &[(usize, &str)]) -> String {
    let shown = counts.iter().filter(|(count, _)| *count > 0);
    let shown: Vec<String> = shown.map(|(count, word)| format!("{count} {word}")).collect();
    if shown.is_empty() { "nothing to do".to_owned() } else { shown.join(", ") }
}

fn seconds(milliseconds: u64) -> String {
    if milliseconds < 1000 {
        format!("{milliseconds}ms")
    } else {
        format!("{:.1}s", Duration::from_millis(milliseconds).as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use slipway_event::ReplicaCounts;
    use slipway_manifest::{Gvk, ObjectRef};

    use super::*;
    use crate::term::escape::{Colors, Controls, settle};

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
        let planned =
            |changes| Event::PlanMade { title: "apply web".into(), nodes: 3, changes: Some(changes) };
        for (event, expected) in [
            (finished(NodeOutcome::Succeeded, None), "ok web 1.2s"),
            (finished(NodeOutcome::Failed, Some("exit code 3")), "failed web: exit code 3 1.2s"),
            (
                finished(NodeOutcome::Failed, Some("exit code 3\n  | no file\nhint: look")),
                "failed web: exit code 3 1.2s\n  | no file\n  hint: look",
            ),
            (
                Event::Summary { totals: NodeTotals { succeeded: 2, blocked: 1, ..NodeTotals::default() } },
                "2 succeeded, 1 blocked",
            ),
            (Event::Summary { totals: NodeTotals::default() }, "nothing to do"),
            (
                planned(PlannedChanges { create: 2, delete: 1, ..PlannedChanges::default() }),
                "plan: 2 to create, 1 to delete",
            ),
            (planned(PlannedChanges::default()), "plan: no object changes"),
            (Event::NodeStarted { node: named(NodeKind::Release, "web"), attempt: 1 }, ""),
            (
                Event::Object {
                    node: None,
                    object: ObjectRef::new(Gvk::new("apps", "v1", "Deployment"), None, "web"),
                    state: ObjectState::Waiting,
                    message: Some("2 of 3 replicas updated".into()),
                    replicas: Some(ReplicaCounts { ready: 1, desired: 3 }),
                },
                "  waiting Deployment/web 1/3: 2 of 3 replicas updated",
            ),
        ] {
            assert_eq!(plain(&[], &event), expected);
        }
    }

    #[test]
    fn lines_about_work_inside_of_a_node_begin_with_its_name() {
        let created = Event::NodeFinished {
            node: named(NodeKind::Deploy, "create ConfigMap/a"),
            status: NodeOutcome::Succeeded,
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
            replicas: None,
        };
        let done = |kind, node: &str| Event::NodeFinished {
            node: named(kind, node),
            status: NodeOutcome::Succeeded,
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
