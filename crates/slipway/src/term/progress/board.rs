//! The state of a run as people follow it: what is under way, since when, and why it is not done. It is a fold of the
//! run's events and draws nothing.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use slipway_event::{Event, NodeId, NodeKind, ObjectState, Record, ReplicaCounts};

use crate::term::style::{DIM, ERROR, WARNING};

/// Lines of a failing workload that stay in view.
const LAST_LINES: usize = 3;

/// Something under way: an object that becomes ready, a release of a stack, a step of a runbook.
#[derive(Clone, Debug)]
struct Row {
    name: String,
    since: Instant,
    condition: RowCondition,
    /// The replicas of a workload.
    replicas: Option<ReplicaCounts>,
    detail: String,
    /// The node that works on it.
    node: Option<NodeId>,
    place: RowPlace,
    /// What its container wrote last.
    last_lines: Vec<String>,
}

/// How something under way stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowCondition {
    Waiting,
    Failing,
}

impl RowCondition {
    /// The condition of an object in a state; none where nothing is under way.
    fn of_object(state: ObjectState) -> Option<Self> {
        match state {
            ObjectState::Waiting => Some(Self::Waiting),
            ObjectState::Failed => Some(Self::Failing),
            ObjectState::Ready
            | ObjectState::Unchanged
            | ObjectState::Created
            | ObjectState::Updated
            | ObjectState::Recreated
            | ObjectState::Deleted => None,
        }
    }
}

/// The place of a row: a pod stands beneath the object it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowPlace {
    Top,
    Beneath,
}

/// A row as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoardLine {
    pub text: String,
    pub style: anstyle::Style,
}

/// What is under way in a run.
#[derive(Debug, Default)]
pub struct Board {
    started: Option<Instant>,
    rows: Vec<Row>,
    /// Objects that were waited for and are done.
    ready: usize,
    /// The row of the object each node works on.
    owners: HashMap<NodeId, String>,
}

impl Board {
    /// Takes a record in.
    pub fn take(&mut self, record: &Record, now: Instant) {
        // Work inside of a node shows beside the node's name.
        if let Some(inside) = record.scope.first() {
            let detail = match &record.event {
                Event::NodeStarted { node, .. } => Some(node.to_string()),
                Event::Progress { message, .. } => Some(message.clone()),
                Event::Object { object, state: ObjectState::Waiting, message, .. } => Some(
                    message.as_ref().map_or(object.to_string(), |message| format!("{object}: {message}")),
                ),
                _ => None,
            };
            let row =
                self.rows.iter_mut().find(|row| row.node.as_ref().is_some_and(|node| *node == *inside.name));
            if let (Some(row), Some(detail)) = (row, detail) {
                row.detail = detail;
            }
            return;
        }
        match &record.event {
            Event::RunStarted { .. } => {
                *self = Self { started: Some(now), ..Self::default() };
            }
            Event::NodeStarted { node, .. } if is_followed(node.kind) => {
                let mut row = Row::new(node.to_string(), Some(node.id.clone()), now);
                if let Some(at) = self.rows.iter().position(|known| known.name == row.name) {
                    // Another attempt goes on with the work.
                    row.since = self.rows.remove(at).since;
                }
                self.rows.push(row);
            }
            Event::NodeRetrying { node, error, .. } => {
                if let Some(row) = self.row_of_node(&node.id) {
                    row.condition = RowCondition::Failing;
                    row.detail.clone_from(error);
                }
            }
            Event::NodeFinished { node, .. } => {
                self.rows.retain(|row| row.node.as_ref() != Some(&node.id));
            }
            Event::Object { node, object, state, message, replicas } => {
                let (name, detail) = (object.to_string(), message.as_deref().unwrap_or_default());
                let Some(condition) = RowCondition::of_object(*state) else {
                    return self.drop_object(&name, *state);
                };
                let row = self.row_of_object(node.as_ref(), name, &object.gvk.kind, now);
                row.condition = condition;
                detail.clone_into(&mut row.detail);
                // What failed may not be counted any more.
                row.replicas = replicas.or(row.replicas);
            }
            Event::Log { object: Some(object), line, .. } => {
                let name = object.to_string();
                if let Some(row) = self.rows.iter_mut().find(|row| row.name == name) {
                    row.last_lines.push(line.clone());
                    let surplus = row.last_lines.len().saturating_sub(LAST_LINES);
                    row.last_lines.drain(..surplus);
                }
            }
            Event::Progress { node: Some(node), message, .. } => {
                if let Some(row) = self.row_of_node(node) {
                    row.detail.clone_from(message);
                }
            }
            Event::RunFinished { .. } => self.rows.clear(),
            _ => {}
        }
    }

    /// Takes away what needs no row any more.
    fn drop_object(&mut self, name: &str, state: ObjectState) {
        if state == ObjectState::Ready {
            let is_own = |row: &&Row| row.name == name && row.place == RowPlace::Top;
            self.ready += self.rows.iter().filter(is_own).count();
        }
        self.rows.retain(|row| row.name != name);
    }

    /// The row of an object, begun if it has none.
    fn row_of_object(&mut self, node: Option<&NodeId>, name: String, kind: &str, now: Instant) -> &mut Row {
        let known = self.rows.iter().position(|row| row.name == name);
        let at = known.unwrap_or_else(|| self.begin_row(node, name, kind, now));
        &mut self.rows[at]
    }

    /// Begins a row and returns its position.
    fn begin_row(&mut self, node: Option<&NodeId>, name: String, kind: &str, now: Instant) -> usize {
        let mut row = Row::new(name.clone(), node.cloned(), now);
        let owner = node.and_then(|node| self.owners.get(node)).filter(|owner| **owner != name);
        let above = owner.and_then(|owner| self.rows.iter().position(|row| row.name == *owner));
        if let (Some(above), "Pod") = (above, kind) {
            row.place = RowPlace::Beneath;
            let behind =
                self.rows[above + 1..].iter().take_while(|row| row.place == RowPlace::Beneath).count();
            self.rows.insert(above + 1 + behind, row);
            return above + 1 + behind;
        }
        if let Some(node) = node {
            self.owners.entry(node.clone()).or_insert(name);
        }
        self.rows.push(row);
        self.rows.len() - 1
    }

    fn row_of_node(&mut self, node: &NodeId) -> Option<&mut Row> {
        self.rows.iter_mut().find(|row| row.place == RowPlace::Top && row.node.as_ref() == Some(node))
    }

    /// The rows for a screen of this size, and a last line that sums up. Rows that fail come first when not all fit.
    pub fn lines(&self, now: Instant, width: usize, height: usize) -> Vec<BoardLine> {
        let Some(started) = self.started.filter(|_| !self.rows.is_empty()) else { return Vec::new() };
        let most = height.saturating_sub(2).max(1);
        let mut shown: Vec<(&Row, RowCondition)> = self.conditions().collect();
        if shown.len() > most {
            shown.sort_by_key(|(row, condition)| {
                (*condition == RowCondition::Waiting, row.place == RowPlace::Beneath)
            });
            shown.truncate(most);
        }
        let name_width = |row: &Row| row.indent() + row.name.chars().count();
        let names = shown.iter().map(|(row, _)| name_width(row)).max().unwrap_or(0).min(width / 2);
        let counts = shown.iter().map(|(row, _)| row.counts().len()).max().unwrap_or(0);
        let mut lines = Vec::new();
        for (row, condition) in &shown {
            let name = cut(&format!("{}{}", " ".repeat(row.indent()), row.name), names);
            let age = short_time(now.saturating_duration_since(row.since));
            let detail = row.detail.replace(['\n', '\t'], " ");
            let text = match counts {
                0 => format!("  {name:names$}  {age:>5}  {detail}"),
                _ => format!("  {name:names$}  {age:>5}  {:>counts$}  {detail}", row.counts()),
            };
            let style = match (condition, row.place) {
                (RowCondition::Failing, _) => ERROR,
                (RowCondition::Waiting, RowPlace::Top) => anstyle::Style::new(),
                (RowCondition::Waiting, RowPlace::Beneath) => DIM,
            };
            lines.push(BoardLine { text: cut(text.trim_end(), width), style });
            if row.condition == RowCondition::Failing {
                let room = most.saturating_sub(lines.len());
                for line in row.last_lines.iter().take(room) {
                    let text = cut(&format!("  {}| {line}", " ".repeat(row.indent() + 2)), width);
                    lines.push(BoardLine { text, style: DIM });
                }
            }
        }
        lines.truncate(most);
        lines.push(self.summary(
            self.rows.len() - shown.len(),
            now.saturating_duration_since(started),
            width,
        ));
        lines
    }

    /// Every row with its condition: what has a failing pod is failing.
    fn conditions(&self) -> impl Iterator<Item = (&Row, RowCondition)> {
        self.rows.iter().enumerate().map(|(at, row)| {
            let mut pods = self.rows[at + 1..].iter().take_while(|below| below.place == RowPlace::Beneath);
            let has_failing_pod =
                row.place == RowPlace::Top && pods.any(|pod| pod.condition == RowCondition::Failing);
            (row, if has_failing_pod { RowCondition::Failing } else { row.condition })
        })
    }

    fn summary(&self, hidden: usize, elapsed: Duration, width: usize) -> BoardLine {
        let count = |wanted| {
            let rows = self.conditions();
            rows.filter(|(row, condition)| row.place == RowPlace::Top && *condition == wanted).count()
        };
        let (waiting, failing) = (count(RowCondition::Waiting), count(RowCondition::Failing));
        let parts =
            [(self.ready, "ready"), (waiting, "under way"), (failing, "failing"), (hidden, "not shown")];
        let parts = parts.iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> = parts.map(|(count, word)| format!("{count} {word}")).collect();
        let text = cut(&format!("  {} · {}", parts.join(", "), short_time(elapsed)), width);
        BoardLine { text, style: if failing > 0 { WARNING } else { DIM } }
    }
}

impl Row {
    fn new(name: String, node: Option<NodeId>, since: Instant) -> Self {
        Self {
            name: name.replace(['\n', '\t'], " "),
            since,
            condition: RowCondition::Waiting,
            replicas: None,
            detail: String::new(),
            node,
            place: RowPlace::Top,
            last_lines: Vec::new(),
        }
    }

    /// The replicas as they are shown; nothing where there are none to count.
    fn counts(&self) -> String {
        self.replicas.map(|replicas| replicas.to_string()).unwrap_or_default()
    }

    fn indent(&self) -> usize {
        if self.place == RowPlace::Beneath { 2 } else { 0 }
    }
}

/// Tells that a node is worth a row of its own: operations on objects show as the objects.
fn is_followed(kind: NodeKind) -> bool {
    match kind {
        NodeKind::Release | NodeKind::Step | NodeKind::Command | NodeKind::Other => true,
        NodeKind::Deploy
        | NodeKind::Delete
        | NodeKind::TrackReadiness
        | NodeKind::TrackPresence
        | NodeKind::TrackAbsence
        | NodeKind::Record
        | NodeKind::Boundary => false,
    }
}

/// The beginning of a text that fits a number of columns.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// `7s`, `1m12s`, `2h05m`.
pub fn short_time(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use slipway_event::{LogStream, NodeName, NodeOutcome, Scope};
    use slipway_manifest::{Gvk, ObjectRef};

    use super::*;

    fn object(kind: &str, name: &str, state: ObjectState, message: &str) -> Event {
        counted(kind, name, state, message, None)
    }

    fn counted(
        kind: &str,
        name: &str,
        state: ObjectState,
        message: &str,
        replicas: Option<ReplicaCounts>,
    ) -> Event {
        let object = ObjectRef::new(Gvk::new("", "v1", kind), None, name);
        let (node, message) = (Some("track web".into()), Some(message.to_owned()));
        Event::Object { node, object, state, message, replicas }
    }

    struct Run {
        board: Board,
        start: Instant,
    }

    impl Run {
        fn new() -> Self {
            let mut run = Self { board: Board::default(), start: Instant::now() };
            run.at(0, &[], Event::RunStarted { title: "apply web".into(), nodes: 9 });
            run
        }

        fn at(&mut self, seconds: u64, scope: &[Scope], event: Event) {
            let (run, time) = ("r1".parse().unwrap(), jiff::Timestamp::UNIX_EPOCH);
            let record = Record { v: 1, run, seq: 1, time, scope: scope.to_vec(), event };
            self.board.take(&record, self.start + Duration::from_secs(seconds));
        }

        fn shown(&self, seconds: u64, width: usize, height: usize) -> Vec<String> {
            let lines = self.board.lines(self.start + Duration::from_secs(seconds), width, height);
            lines.into_iter().map(|line| line.text).collect()
        }
    }

    #[test]
    fn a_row_counts_from_the_first_attempt() {
        let mut run = Run::new();
        let node = NodeName::new(NodeKind::Step, "dns");
        let started = |attempt| Event::NodeStarted { node: node.clone(), attempt };
        run.at(1, &[], started(1));
        let error = "no server".to_owned();
        run.at(4, &[], Event::NodeRetrying { node: node.clone(), attempt: 1, error, delay_ms: 5000 });
        run.at(9, &[], started(2));
        assert_eq!(run.shown(11, 80, 24)[0], "  dns    10s");
    }

    #[test]
    fn pods_stand_beneath_what_they_belong_to_and_done_rows_fold() {
        let mut run = Run::new();
        run.at(1, &[], object("Deployment", "web", ObjectState::Waiting, "0 of 2 replicas ready"));
        run.at(3, &[], object("Pod", "web-a", ObjectState::Waiting, "ContainerCreating"));
        run.at(4, &[], object("StatefulSet", "db", ObjectState::Waiting, "0 of 1 replicas ready"));
        run.at(5, &[], object("Pod", "web-b", ObjectState::Failed, "CrashLoopBackOff"));
        let pod = ObjectRef::new(Gvk::new("", "v1", "Pod"), None, "web-b");
        let (stream, line) = (LogStream::Stdout, "no database".to_owned());
        run.at(5, &[], Event::Log { node: None, object: Some(pod), container: None, stream, line });
        assert_eq!(
            run.shown(75, 60, 24),
            [
                "  Deployment/web  1m14s  0 of 2 replicas ready",
                "    Pod/web-a     1m12s  ContainerCreating",
                "    Pod/web-b     1m10s  CrashLoopBackOff",
                "      | no database",
                "  StatefulSet/db  1m11s  0 of 1 replicas ready",
                "  1 under way, 1 failing · 1m15s",
            ]
        );
        for name in ["web-a", "web-b"] {
            run.at(76, &[], object("Pod", name, ObjectState::Ready, ""));
        }
        run.at(76, &[], object("Deployment", "web", ObjectState::Ready, ""));
        assert_eq!(
            run.shown(77, 40, 24),
            ["  StatefulSet/db  1m13s  0 of 1 replica…", "  1 ready, 1 under way · 1m17s"]
        );
    }

    #[test]
    fn replicas_have_a_column_where_there_are_any() {
        let mut run = Run::new();
        let replicas = |ready, desired| Some(ReplicaCounts { ready, desired });
        let waiting = ObjectState::Waiting;
        run.at(0, &[], counted("Deployment", "web", waiting, "3 of 10 replicas updated", replicas(3, 10)));
        run.at(0, &[], object("Pod", "web-a", ObjectState::Waiting, "Pending"));
        run.at(0, &[], counted("StatefulSet", "db", waiting, "0 of 1 replicas ready", replicas(0, 1)));
        assert_eq!(
            run.shown(1, 60, 24),
            [
                "  Deployment/web     1s  3/10  3 of 10 replicas updated",
                "    Pod/web-a        1s        Pending",
                "  StatefulSet/db     1s   0/1  0 of 1 replicas ready",
                "  2 under way · 1s",
            ]
        );
        run.at(2, &[], counted("Deployment", "web", ObjectState::Failed, "too slow", None));
        let shown = run.shown(3, 60, 24);
        assert_eq!(shown[0], "  Deployment/web     3s  3/10  too slow", "the last count stays");
    }

    #[test]
    fn a_low_screen_shows_what_fails_and_counts_the_rest() {
        let mut run = Run::new();
        for index in 0..10 {
            let state = if index == 7 { ObjectState::Failed } else { ObjectState::Waiting };
            run.at(0, &[], object("Job", &format!("j{index}"), state, "pods"));
        }
        let shown = run.shown(1, 80, 5);
        assert_eq!(shown.len(), 4);
        assert!(shown[0].contains("Job/j7"), "{shown:?}");
        assert_eq!(shown[3], "  9 under way, 1 failing, 7 not shown · 1s");
    }

    #[test]
    fn a_stack_has_a_row_a_release_that_says_what_it_waits_for() {
        let mut run = Run::new();
        let name = || NodeName::new(NodeKind::Release, "prod/shop/web");
        run.at(0, &[], Event::NodeStarted { node: name(), attempt: 1 });
        let inside = [Scope::release("prod/shop/web")];
        run.at(1, &inside, object("Deployment", "web", ObjectState::Waiting, "0 of 2 replicas ready"));
        assert_eq!(
            run.shown(9, 80, 24),
            ["  prod/shop/web     9s  Deployment/web: 0 of 2 replicas ready", "  1 under way · 9s"]
        );
        let (status, reason, duration_ms) = (NodeOutcome::Succeeded, None, 9000);
        run.at(9, &[], Event::NodeFinished { node: name(), status, reason, duration_ms });
        assert_eq!(run.shown(9, 80, 24), [""; 0]);
    }
}
