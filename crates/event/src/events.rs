//! The handle engines send through.

use std::sync::{Arc, Mutex, PoisonError};

use crate::event::{Event, FORMAT_VERSION, Record};
use crate::{Clock, Redactor, RunId, Sink, SystemClock};

/// Stamps, redacts and passes on the events of one run; cheap to clone.
///
/// Records reach the sink one at a time and in the order of their numbers, whichever threads send.
#[derive(Clone)]
pub struct Events(Arc<Stream>);

struct Stream {
    run: RunId,
    clock: Arc<dyn Clock>,
    redactor: Redactor,
    sink: Arc<dyn Sink>,
    /// The number of the last record; held while the sink takes it, which is what keeps the order.
    last: Mutex<u64>,
}

impl Events {
    /// Starts the stream of a run.
    pub fn new(run: RunId, clock: Arc<dyn Clock>, redactor: Redactor, sink: Arc<dyn Sink>) -> Self {
        Self(Arc::new(Stream { run, clock, redactor, sink, last: Mutex::new(0) }))
    }

    /// A stream nobody listens to.
    pub fn silent() -> Self {
        let clock = SystemClock;
        let run = RunId::generate(&clock);
        Self::new(run, Arc::new(clock), Redactor::new(), Arc::new(crate::Tee::default()))
    }

    /// Sends one event.
    pub fn send(&self, mut event: Event) {
        let stream = &*self.0;
        event.edit_texts(&mut |text| stream.redactor.redact_in_place(text));
        let mut last = stream.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last += 1;
        let time = stream.clock.now();
        let record = Record { v: FORMAT_VERSION, run: stream.run.clone(), seq: *last, time, event };
        stream.sink.take(&record);
    }

    pub fn run(&self) -> &RunId {
        &self.0.run
    }

    pub fn clock(&self) -> &dyn Clock {
        &*self.0.clock
    }

    /// Where secrets of this run are registered.
    pub fn redactor(&self) -> &Redactor {
        &self.0.redactor
    }
}
