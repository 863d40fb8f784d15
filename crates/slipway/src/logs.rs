//! What libraries log, shown on standard error when asked for with `-v`.

use std::io::{self, Write};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::term::output;

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

/// Starts showing logs, through the writer that masks everything.
pub fn start(verbosity: Verbosity) {
    let Some(level) = verbosity.level() else { return };
    tracing_subscriber::fmt().with_max_level(level).with_ansi(false).with_writer(Lines).init();
}

struct Lines;

impl MakeWriter<'_> for Lines {
    type Writer = Line;

    fn make_writer(&self) -> Line {
        Line { text: Vec::new() }
    }
}

/// One log line; written when it is complete.
struct Line {
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
        output::message(&String::from_utf8_lossy(&self.text));
    }
}
