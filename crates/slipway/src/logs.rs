//! What libraries log, shown on standard error when asked for with `-v`.

use std::io::{self, Write};

use slipway_event::Redactor;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

/// How much to say: `-q` warnings only off, `-v` more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    Quiet,
    Normal,
    Verbose,
    Debug,
    Trace,
}

impl Verbosity {
    pub fn from_flags(verbose: u8, quiet: bool) -> Self {
        match (quiet, verbose) {
            (true, _) => Self::Quiet,
            (false, 0) => Self::Normal,
            (false, 1) => Self::Verbose,
            (false, 2) => Self::Debug,
            (false, _) => Self::Trace,
        }
    }

    fn level(self) -> Option<LevelFilter> {
        match self {
            Self::Quiet | Self::Normal => None,
            Self::Verbose => Some(LevelFilter::INFO),
            Self::Debug => Some(LevelFilter::DEBUG),
            Self::Trace => Some(LevelFilter::TRACE),
        }
    }
}

/// Starts showing logs; every line passes the redactor.
pub fn start(verbosity: Verbosity, redactor: &Redactor) {
    let Some(level) = verbosity.level() else { return };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(false)
        .with_writer(Redacted(redactor.clone()))
        .init();
}

struct Redacted(Redactor);

impl<'a> MakeWriter<'a> for Redacted {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line { redactor: self.0.clone(), text: Vec::new() }
    }
}

/// One log line; masked and written when it is complete.
struct Line {
    redactor: Redactor,
    text: Vec<u8>,
}

impl Write for Line {
    fn write(&mut self, chunk: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(chunk);
        Ok(chunk.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let text = String::from_utf8_lossy(&self.text);
        let _ = io::stderr().lock().write_all(self.redactor.redact(&text).as_bytes());
    }
}
