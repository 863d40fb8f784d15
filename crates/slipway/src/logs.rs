//! Log lines, shown on standard error when asked for with `-v`.

use std::io::{self, Write};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

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

    /// What is logged: of our own crates (`-vv` has a line for every request), and of others.
    fn targets(self) -> Option<Targets> {
        let (own, others) = match self {
            Self::Quiet | Self::Normal => return None,
            Self::Verbose => (LevelFilter::INFO, LevelFilter::WARN),
            Self::Debug => (LevelFilter::DEBUG, LevelFilter::WARN),
            Self::Trace => (LevelFilter::TRACE, LevelFilter::TRACE),
        };
        Some(Targets::new().with_default(others).with_target("slipway", own))
    }
}

/// Starts showing logs, through the writer that masks everything.
pub fn start(verbosity: Verbosity) {
    let Some(targets) = verbosity.targets() else { return };
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_target(verbosity == Verbosity::Trace)
        .with_writer(Lines);
    tracing_subscriber::registry().with(lines.with_filter(targets)).init();
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
