//! The live view: lines scroll by, and what is under way stands below them.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use slipway_event::{Event, ObjectState, Record, Sink};

use super::board::Board;
use super::lines::Teller;
use super::region::{Region, terminal_size};
use crate::logs::Verbosity;
use crate::term::escape::{Controls, settle};
use crate::term::output;

/// The shortest time between two frames: many events at once make one of them.
const FRAME: Duration = Duration::from_millis(250);
/// Bytes a second that frames may take. A frame that changes much is followed by a longer pause, at most [`TICK`].
const PACE: u32 = 2000;
/// The time after which timers are looked at.
const TICK: Duration = Duration::from_secs(1);

/// The view on the terminal, if there is one: everything else that is said goes above it.
static ON_SCREEN: Mutex<Weak<View>> = Mutex::new(Weak::new());

/// Says a settled text above the view; false if there is no view.
pub fn print_above(text: &str) -> bool {
    let view = ON_SCREEN.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
    let Some(view) = view else { return false };
    let mut state = view.lock();
    if state.is_over {
        return false;
    }
    state.above.push_str(text);
    state.draw(Instant::now());
    true
}

/// Takes the view away, so that the process leaves only lines behind.
pub fn end() {
    if let Some(view) = ON_SCREEN.lock().unwrap_or_else(PoisonError::into_inner).upgrade() {
        view.lock().close();
    }
}

/// A sink that draws on the terminal.
pub struct Live(Arc<View>);

#[derive(Debug)]
struct View {
    state: Mutex<ViewState>,
    changed: Condvar,
}

#[derive(Debug)]
struct ViewState {
    teller: Teller,
    board: Board,
    region: Region,
    /// Lines to be printed with the next frame.
    above: String,
    last_frame: Option<Instant>,
    /// The time until the next frame.
    pause: Duration,
    is_over: bool,
}

impl Live {
    pub fn new(verbosity: Verbosity) -> Self {
        let state = ViewState {
            teller: Teller::new(verbosity),
            board: Board::default(),
            region: Region::new(output::colors(&io::stderr())),
            above: String::new(),
            last_frame: None,
            pause: FRAME,
            is_over: false,
        };
        let view = Arc::new(View { state: Mutex::new(state), changed: Condvar::new() });
        *ON_SCREEN.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&view);
        let followed = Arc::downgrade(&view);
        // Without the thread timers stand still until something happens.
        let _ =
            std::thread::Builder::new().name("progress".to_owned()).spawn(move || keep_drawing(&followed));
        Self(view)
    }
}

/// Draws what the events left to draw, and timers, until the view is gone.
fn keep_drawing(view: &Weak<View>) {
    while let Some(view) = view.upgrade() {
        let mut state = view.lock();
        let wait = if state.above.is_empty() { TICK } else { state.pause };
        state = view.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
        if !state.is_over && state.is_due(Instant::now()) {
            state.draw(Instant::now());
        }
    }
}

impl View {
    fn lock(&self) -> MutexGuard<'_, ViewState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ViewState {
    fn draw(&mut self, now: Instant) {
        let (width, height) = terminal_size();
        let rows = self.board.lines(now, width, height.saturating_sub(1));
        let written = self.region.show(&std::mem::take(&mut self.above), rows, (width, height));
        let written = u32::try_from(written).unwrap_or(u32::MAX);
        self.pause = (Duration::from_secs(1) * written / PACE).clamp(FRAME, TICK);
        self.last_frame = Some(now);
    }

    /// Returns true once the pause after the last frame is over.
    fn is_due(&self, now: Instant) -> bool {
        self.last_frame.is_none_or(|last| now.duration_since(last) >= self.pause)
    }

    fn close(&mut self) {
        if !self.is_over {
            self.draw(Instant::now());
            self.region.clear();
            self.is_over = true;
        }
    }
}

impl Sink for Live {
    fn take(&self, record: &Record) {
        let mut state = self.0.lock();
        let now = Instant::now();
        let line = state.teller.line(record);
        state.board.take(record, now);
        // What is waited for shows in its row.
        let is_in_row = match &record.event {
            Event::Object { state: ObjectState::Waiting, .. } => true,
            // The end of a pod's row says it.
            Event::Object { state: ObjectState::Ready | ObjectState::Failed, object, .. } => {
                object.gvk.kind == "Pod"
            }
            Event::Progress { node, .. } => node.is_some() || !record.scope.is_empty(),
            _ => false,
        };
        if let Some(line) = line.filter(|_| !is_in_row) {
            let line = settle(&line, output::colors(&io::stderr()), Controls::Show);
            state.above.push_str(&line);
            state.above.push('\n');
        }
        if state.is_over {
            // Another run of the same command.
            if !matches!(record.event, Event::RunStarted { .. }) {
                let rest = std::mem::take(&mut state.above);
                drop(state);
                output::message(&rest);
                return;
            }
            state.is_over = false;
        }
        if matches!(record.event, Event::RunFinished { .. }) && record.scope.is_empty() {
            state.close();
        } else if state.is_due(now) {
            state.draw(now);
        } else {
            self.0.changed.notify_all();
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.0.lock().close();
    }
}
