//! The time a thread has spent on a processor: what others do on the machine does not count.

use std::time::{Duration, Instant};

/// Measures from its start, by the processor where the system tells, else by the clock.
pub(crate) struct CpuTimer {
    on_processor: Option<Duration>,
    started: Instant,
}

impl CpuTimer {
    pub(crate) fn start() -> Self {
        Self { on_processor: on_processor(), started: Instant::now() }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        match (self.on_processor, on_processor()) {
            (Some(before), Some(now)) => now.saturating_sub(before),
            _ => self.started.elapsed(),
        }
    }
}

fn on_processor() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}
