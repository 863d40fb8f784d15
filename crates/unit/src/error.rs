//! Failures of units.

use std::io;
use std::path::{Path, PathBuf};

use slipway_problem::{Problem, Problems};

/// Tells why something could not be done with a unit.
#[derive(Debug, thiserror::Error)]
pub enum UnitError {
    /// Something is wrong with what was asked for.
    #[error("{0}")]
    Problems(Problems),
    #[error("cannot {doing} {}", path.display())]
    Io {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The file is not a unit this program can read.
    #[error("{} is not a unit: {why}", path.display())]
    NotAUnit { path: PathBuf, why: String },
    /// The database could not be read or written.
    #[error("cannot {doing}")]
    Database {
        doing: &'static str,
        #[source]
        source: rusqlite::Error,
    },
    /// The sealed part is not what was sealed.
    #[error("the unit was changed after it was sealed: table `{table}` {what}")]
    Tampered { table: String, what: String },
    /// The ledger is not what was written.
    #[error("the ledger was changed: entry {seq} {what}")]
    LedgerChanged { seq: i64, what: String },
    /// A signature is missing, wrong or of a key nobody trusts.
    #[error("{0}")]
    Signature(String),
    /// Rendering the sealed source gives something else than what was sealed.
    #[error("unit does not reproduce: {} differ ({})", count_objects(.0.len()), .0.join(", "))]
    NotReproduced(Vec<String>),
    /// The evidence a promotion needs is not there.
    #[error("{0}")]
    NoEvidence(Box<Problem>),
    /// A policy denies it; nothing was written.
    #[error("{0}")]
    Refused(Problems),
    /// Another run holds the lock.
    #[error("{0}")]
    Locked(String),
    /// A source could not be read.
    #[error(transparent)]
    Load(#[from] slipway_source::LoadError),
    /// A release could not be planned or carried out.
    #[error(transparent)]
    Release(Box<slipway_release::Failure>),
    /// A request to the cluster failed.
    #[error(transparent)]
    Cluster(#[from] slipway_cluster::Error),
    /// A registry did not give or take something.
    #[error("{doing}")]
    Registry {
        doing: String,
        #[source]
        source: slipway_chart::ChartError,
    },
}

impl UnitError {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }

    pub(crate) fn database(doing: &'static str) -> impl FnOnce(rusqlite::Error) -> Self {
        move |source| match source.sqlite_error_code() {
            // The database says it twice, with a number.
            Some(rusqlite::ErrorCode::DiskFull) => {
                let problem = Problem::error(format!("cannot {doing}: no space left on device"));
                Self::Problems(problem.hint("make room on the disk, or name another place").into())
            }
            _ => Self::Database { doing, source },
        }
    }

    pub(crate) fn not_a_unit(path: &Path, why: impl Into<String>) -> Self {
        Self::NotAUnit { path: path.to_owned(), why: why.into() }
    }

    pub(crate) fn tampered(table: &str, what: impl Into<String>) -> Self {
        Self::Tampered { table: table.to_owned(), what: what.into() }
    }

    pub(crate) fn problem(message: impl Into<String>) -> Self {
        Self::Problems(Problem::error(message).into())
    }
}

impl From<Problems> for UnitError {
    fn from(problems: Problems) -> Self {
        Self::Problems(problems)
    }
}

impl From<Problem> for UnitError {
    fn from(problem: Problem) -> Self {
        Self::Problems(problem.into())
    }
}

impl From<slipway_release::Failure> for UnitError {
    fn from(failure: slipway_release::Failure) -> Self {
        Self::Release(Box::new(failure))
    }
}

fn count_objects(count: usize) -> String {
    if count == 1 { "1 object".to_owned() } else { format!("{count} objects") }
}
