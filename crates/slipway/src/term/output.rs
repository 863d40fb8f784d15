//! The one writer of the process for standard output and standard error.
//!
//! Nothing here fails or waits for long: a terminal that is gone, a full disk or a reader that reads nothing
//! must not end or delay a run. What could not be written is known when the process ends ([`finish`]).
//! Everything is masked here, and foreign control characters are kept from terminals.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

use serde::Serialize;
use slipway_event::Redactor;
use slipway_problem::describe_io;

pub use super::channel::Ending;
use super::channel::{Channel, WhenFull};
use super::escape::{Colors, Controls, settle};
use super::stream::Stream;
#[cfg(unix)]
use super::stream::UnbufferedStream;

static STDOUT: OnceLock<Channel> = OnceLock::new();
static STDERR: OnceLock<Channel> = OnceLock::new();
static REDACTOR: OnceLock<Redactor> = OnceLock::new();

/// Says a line on standard error, formatted as by `format!`.
macro_rules! say {
    ($($text:tt)*) => {
        $crate::term::output::message(&format!("{}\n", format_args!($($text)*)))
    };
}

/// Settles what is masked in everything that is shown from now on.
pub fn mask_with(redactor: &Redactor) {
    // A process has one session.
    let _ = REDACTOR.set(redactor.clone());
}

/// Registers a secret, to be masked wherever something is shown.
pub fn hide(secret: impl AsRef<[u8]>) {
    if let Some(redactor) = REDACTOR.get() {
        redactor.register(secret);
    }
}

/// Masks registered secrets in a text.
pub fn masked(text: &str) -> Cow<'_, str> {
    REDACTOR.get().map_or(Cow::Borrowed(text), |redactor| redactor.redact(text))
}

/// Says a text for people on standard error.
pub fn message(text: &str) {
    let text = settle(&masked(text), colors(&io::stderr()), Controls::Show);
    if !super::progress::print_above(&text) {
        stderr().write(text.into_bytes(), WhenFull::LeaveOut);
    }
}

/// Writes a text to standard output, masked.
pub fn print(text: &str) {
    print_revealed(&masked(text));
}

/// Writes a text to standard output with the secrets in it: it is masked already, or what the user asked for.
pub fn print_revealed(text: &str) {
    let text = settle(text, colors(&io::stdout()), stdout_controls());
    stdout().write(text.into_bytes(), WhenFull::Wait);
}

/// Writes data to standard output as it is; only a terminal is kept from control characters.
pub fn data(bytes: Vec<u8>) {
    match stdout_controls() {
        Controls::Keep => stdout().write(bytes, WhenFull::Wait),
        Controls::Show => print_revealed(&String::from_utf8_lossy(&bytes)),
    }
}

/// Masks registered secrets in every text of a value; none when there is nothing to mask.
pub fn masked_data(value: &impl Serialize) -> serde_json::Result<Option<serde_json::Value>> {
    let Some(redactor) = REDACTOR.get() else { return Ok(None) };
    let mut data = serde_json::to_value(value)?;
    Ok(redactor.redact_json(&mut data).then_some(data))
}

/// The failure to write to standard output, unless the reader went away.
pub fn failure() -> Option<OutputLost> {
    let failure = STDOUT.get().and_then(Channel::failure);
    failure.filter(|error| error.kind() != io::ErrorKind::BrokenPipe).map(OutputLost)
}

/// Reports that standard output could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to standard output: {}", describe_io(.0))]
pub struct OutputLost(#[source] pub io::Error);

/// Whether standard output is known to take nothing any more.
pub fn is_closed() -> bool {
    STDOUT.get().is_some_and(|channel| channel.failure().is_some())
}

/// Waits until everything is written and says how standard output ended.
pub fn finish() -> Ending {
    STDOUT.get().map_or(Ending::Written, Channel::finish)
}

/// Waits until every message is written, if somebody reads them.
pub fn finish_messages() {
    super::progress::end();
    STDERR.get().map(Channel::finish);
}

/// Notes that the user wants the process to end, so that nobody waits for a reader any more.
pub fn hurry() {
    stdout().hurry();
    stderr().hurry();
}

/// The form of colours on a stream; `--color` and NO_COLOR settle it.
pub fn colors(stream: &impl anstream::stream::RawStream) -> Colors {
    match anstream::AutoStream::choice(stream) {
        anstream::ColorChoice::Never => Colors::Drop,
        _ => Colors::Keep,
    }
}

fn stdout_controls() -> Controls {
    static IS_TERMINAL: OnceLock<bool> = OnceLock::new();
    if *IS_TERMINAL.get_or_init(|| io::stdout().is_terminal()) { Controls::Show } else { Controls::Keep }
}

fn stdout() -> &'static Channel {
    STDOUT.get_or_init(|| open_channel(io::stdout()))
}

fn stderr() -> &'static Channel {
    STDERR.get_or_init(|| open_channel(io::stderr()))
}

#[cfg(unix)]
fn open_channel(stream: impl Stream + std::os::fd::AsFd + 'static) -> Channel {
    match UnbufferedStream::beside(&stream) {
        Ok(unbuffered) => Channel::new(unbuffered),
        Err(_) => Channel::new(stream),
    }
}

#[cfg(not(unix))]
fn open_channel(stream: impl Stream + 'static) -> Channel {
    Channel::new(stream)
}

/// Standard error for lines that are masked already and made for programs, or for the terminal itself.
#[derive(Debug, Default)]
pub struct Stderr;

impl Write for Stderr {
    fn write(&mut self, chunk: &[u8]) -> io::Result<usize> {
        stderr().write(chunk.to_vec(), WhenFull::LeaveOut);
        Ok(chunk.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        stderr().failure().map_or(Ok(()), Err)
    }
}
