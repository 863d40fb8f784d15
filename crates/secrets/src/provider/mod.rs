//! Backends behind one trait. Each provider is a file or a folder; `build` makes one from its configuration.

pub(crate) mod aws;
pub(crate) mod azure;
pub(crate) mod build;
pub(crate) mod dotenv;
pub(crate) mod env;
pub(crate) mod exec;
pub(crate) mod file;
pub(crate) mod gcp;
pub(crate) mod jwt;
pub(crate) mod program;
pub(crate) mod rest;
pub(crate) mod vault;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::Timestamp;

use crate::material::SecretContent;
use crate::reference::Locator;

/// A secret backend. One instance serves one run; it logs in at most once and is shared by all tasks.
pub trait Provider: Send + Sync {
    /// The number of paths one call of the backend can ask for.
    fn batch_size(&self) -> usize {
        1
    }

    /// Fetches paths, each answered on its own.
    fn fetch<'a>(&'a self, locators: &'a [Locator]) -> BoxFuture<'a, FetchOutcomes>;

    /// Names what is below a path; values are never asked for.
    fn list<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Vec<ListEntry>, ProviderError>>;

    /// Logs in, or shows that no login is needed.
    fn login(&self) -> BoxFuture<'_, Result<LoginInfo, ProviderError>>;

    /// Gives the login back that the user keeps between runs.
    fn logout(&self) -> BoxFuture<'_, Result<LogoutOutcome, ProviderError>> {
        Box::pin(async { Ok(LogoutOutcome::NothingKept) })
    }

    /// Takes back what this run created: tokens it logged in for, and the leases given.
    fn finish<'a>(&'a self, leases: &'a [String]) -> BoxFuture<'a, Result<(), ProviderError>> {
        let _ = leases;
        Box::pin(async { Ok(()) })
    }
}

/// One answer a path.
pub type FetchOutcomes = BTreeMap<Locator, Result<Arc<FetchedSecret>, ProviderError>>;

/// A secret as its backend gave it.
#[derive(Debug)]
pub struct FetchedSecret {
    pub content: SecretContent,
    /// The version the backend names.
    pub version: Option<String>,
    /// To be given back when the run ends.
    pub lease: Option<String>,
}

impl FetchedSecret {
    pub(crate) fn new(content: SecretContent, version: Option<String>) -> Self {
        Self { content, version, lease: None }
    }
}

/// A name below a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListEntry {
    pub name: String,
    pub kind: EntryKind,
    pub updated: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    Folder,
    Secret,
}

impl ListEntry {
    pub(crate) fn secret(name: impl Into<String>) -> Self {
        Self { name: name.into(), kind: EntryKind::Secret, updated: None }
    }

    pub(crate) fn folder(name: impl Into<String>) -> Self {
        Self { name: name.into(), kind: EntryKind::Folder, updated: None }
    }
}

/// Who the backend takes us for, and until when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoginInfo {
    pub identity: String,
    pub expires: Option<Timestamp>,
}

/// The end of a logout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogoutOutcome {
    /// The user's token is of no use any more.
    Revoked,
    /// The backend keeps no login between runs.
    NothingKept,
}

/// The kind of a provider's failure; decides on retries and on what is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
    NotFound,
    Forbidden,
    Unauthenticated,
    Unavailable,
    RateLimited,
    Invalid,
    Timeout,
    Config,
    /// The user ended the work.
    Interrupted,
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NotFound => "not found",
            Self::Forbidden => "forbidden",
            Self::Unauthenticated => "not authenticated",
            Self::Unavailable => "unavailable",
            Self::RateLimited => "rate limited",
            Self::Invalid => "invalid",
            Self::Timeout => "timed out",
            Self::Config => "configuration",
            Self::Interrupted => "interrupted",
        })
    }
}

/// The reason a backend gave no value. Its texts are ours: bodies of answers are never repeated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {reason}")]
pub struct ProviderError {
    pub code: ErrorCode,
    pub reason: String,
    pub hint: Option<String>,
}

impl ProviderError {
    pub(crate) fn new(code: ErrorCode, reason: impl Into<String>) -> Self {
        Self { code, reason: reason.into(), hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// The same answer for every path.
pub(crate) fn all_failed(locators: &[Locator], error: &ProviderError) -> FetchOutcomes {
    locators.iter().map(|locator| (locator.clone(), Err(error.clone()))).collect()
}

/// Fetches path after path.
pub(crate) async fn fetch_singly<'a, F>(
    locators: &'a [Locator],
    one: impl Fn(&'a Locator) -> F,
) -> FetchOutcomes
where
    F: Future<Output = Result<FetchedSecret, ProviderError>>,
{
    let mut outcomes = FetchOutcomes::new();
    for locator in locators {
        outcomes.insert(locator.clone(), one(locator).await.map(Arc::new));
    }
    outcomes
}
