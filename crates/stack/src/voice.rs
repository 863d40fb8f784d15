//! What one release of many says, told apart from the others.

use std::sync::Arc;

use slipway_event::{Clock, Event, Events, Record, Sink};

/// A stream for one release: whatever it sends reaches `events` with `[id] ` before the name of the node.
pub(crate) fn of(events: &Events, id: &str) -> Events {
    let sink = Marked { id: id.to_owned(), events: events.clone() };
    let clock = Same(events.clone());
    Events::new(events.run().clone(), Arc::new(clock), events.redactor().clone(), Arc::new(sink))
}

/// The clock of another stream.
struct Same(Events);

impl Clock for Same {
    fn now(&self) -> jiff::Timestamp {
        self.0.clock().now()
    }
}

struct Marked {
    id: String,
    events: Events,
}

impl Sink for Marked {
    fn take(&self, record: &Record) {
        let mut event = record.event.clone();
        let mark = |name: &str| {
            if name.is_empty() { format!("[{}]", self.id) } else { format!("[{}] {name}", self.id) }
        };
        match &mut event {
            // The run is the stack's; a release is a node of it.
            Event::RunStarted { .. } | Event::RunFinished { .. } | Event::Summary { .. } => return,
            Event::NodeStarted { node, .. }
            | Event::NodeRetrying { node, .. }
            | Event::NodeFinished { node, .. } => *node = mark(node),
            Event::Object { node, .. } | Event::Log { node, .. } | Event::Progress { node, .. } => {
                *node = Some(mark(node.as_deref().unwrap_or_default()));
            }
            Event::Warning { problem } => problem.message = mark(&problem.message),
        }
        self.events.send(event);
    }
}

#[cfg(test)]
mod tests {
    use slipway_event::{Memory, NodeStatus, Redactor, RunId, RunStatus, SystemClock};
    use slipway_problem::Problem;

    use super::*;

    #[test]
    fn everything_a_release_says_bears_its_name() {
        let heard = Arc::new(Memory::default());
        let events =
            Events::new(RunId::generate(&SystemClock), Arc::new(SystemClock), Redactor::new(), heard.clone());
        let release = of(&events, "c/ns/web");
        release.send(Event::RunStarted { title: "apply".into(), nodes: 3 });
        release.send(Event::NodeFinished {
            node: "create ConfigMap/a".into(),
            status: NodeStatus::Succeeded,
            reason: None,
            duration_ms: 1,
        });
        release.send(Event::Progress { node: None, message: "waiting".into(), done: None, total: None });
        release.send(Event::Warning { problem: Problem::warning("old") });
        release.send(Event::RunFinished { status: RunStatus::Succeeded, duration_ms: 2 });
        let told: Vec<String> = heard
            .drain()
            .into_iter()
            .map(|record| match record.event {
                Event::NodeFinished { node, .. } => node,
                Event::Progress { node, .. } => node.unwrap_or_default(),
                Event::Warning { problem } => problem.message,
                other => format!("{other:?}"),
            })
            .collect();
        assert_eq!(told, ["[c/ns/web] create ConfigMap/a", "[c/ns/web]", "[c/ns/web] old"]);
    }
}
