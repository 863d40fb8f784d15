//! A stream that is written at once while its reader takes everything, and else by a thread of its own, so that a reader who
//! stops reading stops nobody else.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::stream::Stream;

/// Bytes that wait for a reader before writers wait too, or leave something out.
const CAPACITY: usize = 4 << 20;
/// Time a writer waits for its text to be out. Usually it is at once, which keeps what is said on both streams
/// in order.
const PATIENCE: Duration = Duration::from_millis(100);
/// Time the last texts have once the user wants the process to end.
const GRACE: Duration = Duration::from_secs(1);
/// Time until a stream that is not ready, and was opened not to block, is tried again.
const AGAIN: Duration = Duration::from_millis(10);

/// One stream, and once its reader does not keep up, its queue and its thread.
pub struct Channel(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// The stream, until the thread has it.
    idle: Option<Box<dyn Stream>>,
    queue: VecDeque<Vec<u8>>,
    /// Bytes not written yet, those the thread holds included.
    waiting: usize,
    /// Set when the reader takes nothing at the moment; cleared when everything is out.
    is_stuck: bool,
    /// Set when the user wants the process to end.
    is_ending: bool,
    /// Texts left out since the last one that was not.
    left_out: u64,
    failure: Option<(io::ErrorKind, String)>,
}

/// Tells what becomes of a text when too much waits for the reader already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// Data: the writer waits for the reader.
    Wait,
    /// Messages: the text is left out, and how many were is said later.
    LeaveOut,
}

/// Tells how a stream ended.
#[derive(Debug)]
pub enum Ending {
    /// Everything is written.
    Written,
    /// The reader went away.
    Closed,
    /// The system refused.
    Failed(io::Error),
    /// The user did not want to wait for the reader.
    Abandoned,
}

impl Channel {
    /// A channel to `out`.
    pub fn new(out: impl Stream + 'static) -> Self {
        let state = State {
            idle: Some(Box::new(out)),
            queue: VecDeque::new(),
            waiting: 0,
            is_stuck: false,
            is_ending: false,
            left_out: 0,
            failure: None,
        };
        Self(Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() }))
    }

    /// Starts the thread that writes to `out`.
    fn start_thread(&self, out: Box<dyn Stream>, state: &mut State) {
        let thread = Arc::clone(&self.0);
        let started =
            std::thread::Builder::new().name("output".to_owned()).spawn(move || thread.write_out(out));
        if let Err(error) = started {
            state.failure = Some((error.kind(), error.to_string()));
        }
    }

    /// Writes a text, or hands it to the thread and waits for it to be out, though never for long.
    pub fn write(&self, mut text: Vec<u8>, when_full: WhenFull) {
        let shared = &*self.0;
        let mut state = shared.lock();
        if let Some(mut out) = state.idle.take() {
            let written = out.write_at_once(&text);
            if written == text.len() {
                state.idle = Some(out);
                return;
            }
            text.drain(..written);
            self.start_thread(out, &mut state);
        }
        while state.waiting > CAPACITY && state.failure.is_none() {
            if when_full == WhenFull::LeaveOut || state.is_ending {
                state.left_out += 1;
                return;
            }
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.failure.is_some() || text.is_empty() {
            return;
        }
        state.waiting += text.len();
        state.queue.push_back(text);
        shared.changed.notify_all();
        let deadline = Instant::now() + PATIENCE;
        while !state.is_stuck && state.waiting > 0 && state.failure.is_none() {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                state.is_stuck = true;
                return;
            };
            state = shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The failure to write, if there was one.
    pub fn failure(&self) -> Option<io::Error> {
        self.0.lock().failure.as_ref().map(|(kind, message)| io::Error::new(*kind, message.clone()))
    }

    /// Waits until everything is written; once the user wants the process to end, only for a moment.
    pub fn finish(&self) -> Ending {
        let shared = &*self.0;
        let mut state = shared.lock();
        let mut deadline = None;
        while state.waiting > 0 && state.failure.is_none() {
            if !state.is_ending {
                state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let end = *deadline.get_or_insert_with(|| Instant::now() + GRACE);
            let Some(left) = end.checked_duration_since(Instant::now()) else { return Ending::Abandoned };
            state = shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        match &state.failure {
            Some((io::ErrorKind::BrokenPipe, _)) => Ending::Closed,
            Some((kind, message)) => Ending::Failed(io::Error::new(*kind, message.clone())),
            None if state.left_out > 0 && state.is_ending => Ending::Abandoned,
            None => Ending::Written,
        }
    }

    /// Notes that the user wants the process to end: from now on nobody waits for the reader.
    pub fn hurry(&self) {
        self.0.lock().is_ending = true;
        self.0.changed.notify_all();
    }
}

impl Shared {
    /// A poisoned lock only means that another thread panicked between whole texts.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what is queued until the process ends or the stream fails.
    fn write_out(&self, mut out: Box<dyn Stream>) {
        let mut state = self.lock();
        loop {
            let Some(text) = state.queue.pop_front() else {
                if state.left_out > 0 && !state.is_ending {
                    let note = format!("({} lines were left out: nobody read them)\n", state.left_out);
                    state.left_out = 0;
                    state.waiting += note.len();
                    state.queue.push_back(note.into_bytes());
                    continue;
                }
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(state);
            let written = write_whole(&mut out, &text);
            state = self.lock();
            state.waiting -= text.len();
            if let Err(error) = written {
                state.failure = Some((error.kind(), error.to_string()));
                state.queue.clear();
                state.waiting = 0;
                self.changed.notify_all();
                return;
            }
            state.is_stuck &= state.waiting > 0;
            self.changed.notify_all();
        }
    }
}

/// Writes everything, also to a stream that somebody else opened not to block.
fn write_whole(out: &mut impl Write, mut text: &[u8]) -> io::Result<()> {
    while !text.is_empty() {
        match out.write(text) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => text = &text[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(AGAIN),
            Err(error) => return Err(error),
        }
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Takes what it is allowed to take, one permission a write.
    struct Gate {
        permits: mpsc::Receiver<io::Result<()>>,
        taken: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Gate {
        fn write(&mut self, chunk: &[u8]) -> io::Result<usize> {
            // Without the sender the gate stands open.
            self.permits.recv().unwrap_or(Ok(()))?;
            self.taken.lock().unwrap().extend_from_slice(chunk);
            Ok(chunk.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Stream for Gate {}

    type Permits = mpsc::Sender<io::Result<()>>;

    fn gate() -> (Channel, Permits, Arc<Mutex<Vec<u8>>>) {
        let (permits, receiver) = mpsc::channel();
        let taken = Arc::new(Mutex::new(Vec::new()));
        let channel = Channel::new(Gate { permits: receiver, taken: Arc::clone(&taken) });
        (channel, permits, taken)
    }

    #[test]
    fn a_reader_that_takes_nothing_stops_no_writer_and_gets_all_later() {
        let (channel, permits, taken) = gate();
        for text in ["a", "b", "c"] {
            channel.write(text.into(), WhenFull::LeaveOut);
        }
        drop(permits);
        assert!(matches!(channel.finish(), Ending::Written));
        assert_eq!(*taken.lock().unwrap(), b"abc");
    }

    #[test]
    fn messages_beyond_the_capacity_are_counted_and_left_out() {
        let (channel, permits, taken) = gate();
        channel.write(vec![b'x'; CAPACITY + 1], WhenFull::LeaveOut);
        for _ in 0..3 {
            channel.write(b"lost".to_vec(), WhenFull::LeaveOut);
        }
        drop(permits);
        assert!(matches!(channel.finish(), Ending::Written));
        channel.write(b"after".to_vec(), WhenFull::LeaveOut);
        assert!(matches!(channel.finish(), Ending::Written));
        let text = String::from_utf8(taken.lock().unwrap()[CAPACITY + 1..].to_vec()).unwrap();
        assert!(
            text.contains("(3 lines were left out: nobody read them)\n") && text.contains("after"),
            "{text}"
        );
        assert!(!text.contains("lost"), "{text}");
    }

    #[test]
    fn an_ending_process_waits_only_a_moment() {
        let (channel, permits, _) = gate();
        channel.write(vec![b'x'; CAPACITY + 1], WhenFull::Wait);
        channel.hurry();
        channel.write(b"late".to_vec(), WhenFull::Wait);
        assert!(matches!(channel.finish(), Ending::Abandoned));
        drop(permits);
    }

    #[test]
    fn failures_are_kept_and_later_texts_dropped() {
        for (kind, closed) in [(io::ErrorKind::StorageFull, false), (io::ErrorKind::BrokenPipe, true)] {
            let (channel, permits, taken) = gate();
            permits.send(Err(kind.into())).unwrap();
            channel.write(b"a".to_vec(), WhenFull::Wait);
            channel.write(b"b".to_vec(), WhenFull::Wait);
            assert_eq!(channel.failure().unwrap().kind(), kind);
            assert_eq!(matches!(channel.finish(), Ending::Closed), closed);
            assert!(taken.lock().unwrap().is_empty());
        }
    }

    #[test]
    fn streams_that_do_not_block_are_tried_again() {
        let (channel, permits, taken) = gate();
        permits.send(Err(io::ErrorKind::WouldBlock.into())).unwrap();
        permits.send(Err(io::ErrorKind::Interrupted.into())).unwrap();
        drop(permits);
        channel.write(b"a".to_vec(), WhenFull::Wait);
        assert!(matches!(channel.finish(), Ending::Written));
        assert_eq!(*taken.lock().unwrap(), b"a");
    }
}
