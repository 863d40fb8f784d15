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
use crate::term::style::paint;
use board::Board;
use lines::{Teller, line};
pub use live::{end, print_above};

/// The width of tables that nobody looks at on a terminal.
const PLAIN_WIDTH: usize = 160;

/// The sink that suits standard error. In a pipe, what is under way is told again after `silence`; zero is never.
pub fn sink(verbosity: Verbosity, silence: Duration) -> Arc<dyn Sink> {
    if verbosity == Verbosity::Quiet {
        Arc::new(Quiet)
    } else if std::io::stderr().is_terminal() {
        Arc::new(live::Live::new(verbosity))
    } else {
        Arc::new(Plain::new(verbosity, silence))
    }
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
    last_line: Instant,
}

impl Plain {
    fn new(verbosity: Verbosity, silence: Duration) -> Self {
        let state = PlainState { board: Board::default(), last_line: Instant::now() };
        let view = Arc::new(PlainView { teller: Teller::new(verbosity), state: Mutex::new(state) });
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
        state.board.take(record, Instant::now());
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
        let quiet = state.last_line.elapsed();
        wait = silence.saturating_sub(quiet);
        if wait.is_zero() {
            for line in state.board.lines(Instant::now(), PLAIN_WIDTH, usize::MAX) {
                say!("{}", paint(line.style, line.text));
            }
            state.last_line = Instant::now();
            wait = silence;
        }
    }
}
