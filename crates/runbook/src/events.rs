//! The events of engines a step calls, told as the step's own or not at all.

use std::sync::Arc;

use slipway_event::{Clock, Event, Events, Record, RunId, Sink, Tee};

/// The same run, clock and secrets with nobody listening: what comes of it is masked all the same.
pub fn silenced(events: &Events) -> Events {
    with_sink(events, Arc::new(Tee::default()))
}

/// An engine's events without its account of nodes: here the step is the node.
pub(crate) fn step_events(events: &Events, step: &str) -> Events {
    with_sink(events, Arc::new(StepSink { events: events.clone(), step: step.to_owned() }))
}

fn with_sink(events: &Events, sink: Arc<dyn Sink>) -> Events {
    let clock = Arc::new(SameClock(events.clone()));
    Events::new(RunId::clone(events.run()), clock, events.redactor().clone(), sink)
}

struct SameClock(Events);

impl Clock for SameClock {
    fn now(&self) -> jiff::Timestamp {
        self.0.clock().now()
    }
}

struct StepSink {
    events: Events,
    step: String,
}

impl Sink for StepSink {
    fn take(&self, record: &Record) {
        let mut event = record.event.clone();
        match &mut event {
            Event::RunStarted { .. }
            | Event::RunFinished { .. }
            | Event::NodeStarted { .. }
            | Event::NodeRetrying { .. }
            | Event::NodeFinished { .. }
            | Event::Summary { .. } => return,
            Event::Object { node, .. } | Event::Log { node, .. } | Event::Progress { node, .. } => {
                // The mark of work inside of a node: its end is still to be told.
                *node = Some(format!("[{}]", self.step));
            }
            Event::Warning { problem } => {
                problem.message = format!("step \"{}\": {}", self.step, problem.message);
            }
        }
        self.events.send(event);
    }
}
