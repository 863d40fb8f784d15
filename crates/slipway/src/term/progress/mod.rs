//! Progress of a run on standard error: a live view on a terminal, plain lines elsewhere.

mod board;
mod lines;
mod live;
mod region;

use std::io::IsTerminal;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use slipway_event::{Event, NodeOutcome, Record, Sink};

use crate::logs::Verbosity;
use crate::term::style::{DIM, paint};
use board::{Board, BoardLine, short_time};
use lines::{Teller, line};
pub use live::{end, print_above};

/// The width of tables that nobody looks at on a terminal.
const PLAIN_WIDTH: usize = 160;

/// The sink that suits standard error. In a pipe, what is under way is told again after `silence`; zero is never.
pub fn sink(verbosity: Verbosity, silence: Duration) -> Arc<dyn Sink> {
    if verbosity == Verbosity::Quiet {
        Arc::new(Quiet)
    } else if std::io::stderr().is_terminal() && !is_dumb() {
        Arc::new(live::Live::new(verbosity))
    } else {
        Arc::new(Plain::new(verbosity, silence))
    }
}

/// Returns true if the terminal says that it cannot move its cursor: that of an editor, for example.
fn is_dumb() -> bool {
    crate::config::variable("TERM").is_some_and(|term| term == "dumb")
}

/// Shows failures, and locks that were taken from others.
struct Quiet;

impl Sink for Quiet {
    fn take(&self, record: &Record) {
        if let Event::NodeFinished { status: NodeOutcome::Failed, .. } | Event::LockTakenOver { .. } =
            &record.event
            && let Some(line) = line(record, Verbosity::Quiet)
        {
            say!("{line}");
        }
    }
}

/// One line an event, and a table of what is under way when nothing was said for a while.
struct Plain(Arc<PlainView>);

struct PlainView {
    teller: Teller,
    state: Mutex<PlainState>,
}

struct PlainState {
    board: Board,
    started: Instant,
    last_line: Instant,
    /// The run has ended; what follows is told by the command.
    is_over: bool,
}

impl PlainState {
    fn new(now: Instant) -> Self {
        Self { board: Board::default(), started: now, last_line: now, is_over: false }
    }

    fn take(&mut self, record: &Record, now: Instant) {
        self.board.take(record, now);
        match record.event {
            Event::RunStarted { .. } if record.scope.is_empty() => self.is_over = false,
            Event::RunFinished { .. } if record.scope.is_empty() => self.is_over = true,
            _ => {}
        }
    }

    /// What to tell after a silence, and the time until the next look. Nothing is told too early.
    fn break_silence(&mut self, now: Instant, silence: Duration) -> (Vec<BoardLine>, Duration) {
        let left = silence.saturating_sub(now.saturating_duration_since(self.last_line));
        if !left.is_zero() {
            return (Vec::new(), left);
        }
        self.last_line = now;
        let mut lines = self.board.lines(now, PLAIN_WIDTH, usize::MAX);
        if lines.is_empty() && !self.is_over {
            let time = short_time(now.saturating_duration_since(self.started));
            lines.push(BoardLine { text: format!("  still working · {time}"), style: DIM });
        }
        (lines, silence)
    }
}

impl Plain {
    fn new(verbosity: Verbosity, silence: Duration) -> Self {
        let state = Mutex::new(PlainState::new(Instant::now()));
        let view = Arc::new(PlainView { teller: Teller::new(verbosity), state });
        if !silence.is_zero() {
            let followed = Arc::downgrade(&view);
            // Without the thread a long wait is silent.
            let _ = std::thread::Builder::new()
                .name("progress".to_owned())
                .spawn(move || break_silence(&followed, silence));
        }
        Self(view)
    }
}

impl PlainView {
    fn lock(&self) -> MutexGuard<'_, PlainState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for Plain {
    fn take(&self, record: &Record) {
        let mut state = self.0.lock();
        state.take(record, Instant::now());
        if let Some(line) = self.0.teller.line(record) {
            state.last_line = Instant::now();
            say!("{line}");
        }
    }
}

/// Tells what is under way whenever nothing was said for a while, until the run's sink is gone.
fn break_silence(view: &Weak<PlainView>, silence: Duration) {
    let mut wait = silence;
    loop {
        std::thread::sleep(wait);
        let Some(view) = view.upgrade() else { return };
        let mut state = view.lock();
        let lines;
        (lines, wait) = state.break_silence(Instant::now(), silence);
        for line in lines {
            say!("{}", paint(line.style, line.text));
        }
    }
}

#[cfg(test)]
mod tests {
    use slipway_event::{ObjectState, RunOutcome};
    use slipway_manifest::{Gvk, ObjectRef};

    use super::*;
    use crate::config::ProgressInterval;

    fn record(event: Event) -> Record {
        let (run, time) = ("r1".parse().unwrap(), jiff::Timestamp::UNIX_EPOCH);
        Record { v: 1, run, seq: 1, time, scope: Vec::new(), event }
    }

    fn waiting(name: &str, state: ObjectState) -> Event {
        let object = ObjectRef::new(Gvk::new("apps", "v1", "Deployment"), None, name);
        Event::Object { node: Some(name.into()), object, state, message: None, replicas: None }
    }

    /// An hour of a run in simulated time: planning that takes minutes, objects that become ready one by one with long
    /// pauses in between, and work that has no object.
    #[test]
    fn a_pipe_is_never_silent_for_ten_seconds() {
        const LONGEST: Duration = Duration::from_secs(10);
        let silence = ProgressInterval::default().0;
        let mut happens: Vec<(u64, Event)> =
            vec![(150, Event::RunStarted { title: "apply web".into(), nodes: 9 })];
        for (index, seconds) in [151, 152, 160, 777].into_iter().enumerate() {
            happens.push((seconds, waiting(&format!("web-{index}"), ObjectState::Waiting)));
        }
        for (index, seconds) in [900, 901, 1300, 2000].into_iter().enumerate() {
            happens.push((seconds, waiting(&format!("web-{index}"), ObjectState::Ready)));
        }
        happens.push((3600, Event::RunFinished { status: RunOutcome::Succeeded, duration_ms: 1 }));
        let start = Instant::now();
        let teller = Teller::new(Verbosity::Normal);
        let mut state = PlainState::new(start);
        let (mut told, mut look) = (vec![Duration::ZERO], silence);
        let mut events = happens.into_iter().peekable();
        while let Some(next) = events.peek().map(|(seconds, _)| Duration::from_secs(*seconds)) {
            if look <= next {
                let (lines, wait) = state.break_silence(start + look, silence);
                told.extend((!lines.is_empty()).then_some(look));
                look += wait;
                continue;
            }
            let record = record(events.next().expect("was just seen").1);
            state.take(&record, start + next);
            if teller.line(&record).is_some() {
                state.last_line = start + next;
                told.push(next);
            }
        }
        assert_eq!(told.last(), Some(&Duration::from_secs(3600)));
        let longest = told.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(longest <= Some(LONGEST), "silent for {longest:?}: {told:?}");
        // Once the run has ended nobody is told that it goes on.
        let late = start + Duration::from_secs(3700);
        assert_eq!(state.break_silence(late, silence).0, Vec::new());
    }
}
