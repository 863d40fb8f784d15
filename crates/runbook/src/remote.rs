//! What a runbook takes from outside the cluster and this machine; the binary knows how.

use std::path::PathBuf;

use futures::future::BoxFuture;

use crate::model::ChartSource;

/// The most a manifest or values file may have.
pub const LARGEST_FILE: usize = 32 << 20;

/// Why something could not be fetched. The text holds no credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FetchError {
    pub message: String,
    /// Asking again will not help.
    pub permanent: bool,
}

impl FetchError {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), permanent: false }
    }
}

/// Fetches charts and files.
pub trait Remote: Send + Sync {
    /// Brings a chart of a repository or registry to this machine and says where it is.
    fn chart<'a>(&'a self, source: &'a ChartSource) -> BoxFuture<'a, Result<PathBuf, FetchError>>;

    /// Reads a file by its HTTP(S) address, up to [`LARGEST_FILE`] bytes.
    fn file<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Vec<u8>, FetchError>>;
}

/// Nothing outside can be reached.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offline;

impl Remote for Offline {
    fn chart<'a>(&'a self, source: &'a ChartSource) -> BoxFuture<'a, Result<PathBuf, FetchError>> {
        let error = FetchError::new(format!("chart {source} cannot be fetched: there is no network here"));
        Box::pin(std::future::ready(Err(error)))
    }

    fn file<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Vec<u8>, FetchError>> {
        let error = FetchError::new(format!("{} cannot be fetched: there is no network here", shown(url)));
        Box::pin(std::future::ready(Err(error)))
    }
}

/// An address as it may be printed: without a user and a password.
pub fn shown(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    match authority.rfind('@') {
        Some(end) => format!("{scheme}://{}", &rest[end + 1..]),
        None => url.to_owned(),
    }
}
