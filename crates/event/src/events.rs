//! The handle engines send through.

use std::sync::{Arc, Mutex, PoisonError};

use crate::event::{Event, FORMAT_VERSION, Record};
use crate::{Clock, Redactor, RunId, Scope, Sink, SystemClock};

/// Stamps, redacts and passes on the events of one run; cheap to clone.
///
/// Records reach the sink one at a time and in the order of their numbers, whichever threads send.
#[derive(Clone)]
pub struct Events {
    stream: Arc<Stream>,
    /// The path from the run down to this handle.
    scope: Arc<[Scope]>,
}

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
        let stream = Stream { run, clock, redactor, sink, last: Mutex::new(0) };
        Self { stream: Arc::new(stream), scope: Arc::default() }
    }

    /// The same stream for an engine that works inside of a node of this run.
    pub fn child(&self, scope: Scope) -> Self {
        let path = self.scope.iter().cloned().chain([scope]);
        Self { stream: Arc::clone(&self.stream), scope: path.collect() }
    }

    /// The same run, clock and secrets with nobody listening: what comes of it is masked all the same.
    pub fn muted(&self) -> Self {
        let Stream { run, clock, redactor, .. } = &*self.stream;
        let sink = Arc::new(crate::Tee::default());
        Self::new(run.clone(), Arc::clone(clock), redactor.clone(), sink)
    }

    /// A stream nobody listens to.
    pub fn silent() -> Self {
        let clock = SystemClock;
        let run = RunId::generate(&clock);
        Self::new(run, Arc::new(clock), Redactor::new(), Arc::new(crate::Tee::default()))
    }

    /// Sends one event.
    pub fn send(&self, mut event: Event) {
        let stream = &*self.stream;
        event.edit_texts(&mut |text| stream.redactor.redact_in_place(text));
        let mut scope = self.scope.to_vec();
        scope.iter_mut().for_each(|part| stream.redactor.redact_in_place(&mut part.name));
        let mut last = stream.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last += 1;
        let time = stream.clock.now();
        let record = Record { v: FORMAT_VERSION, run: stream.run.clone(), seq: *last, time, scope, event };
        stream.sink.take(&record);
    }

    pub fn run(&self) -> &RunId {
        &self.stream.run
    }

    pub fn clock(&self) -> &dyn Clock {
        &*self.stream.clock
    }

    /// The redactor that knows the secrets of this run.
    pub fn redactor(&self) -> &Redactor {
        &self.stream.redactor
    }
}
