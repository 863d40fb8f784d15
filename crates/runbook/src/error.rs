//! Failures of steps, sorted by what a person or a program can do about them.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use slipway_cluster::{ConnectionFault, ErrorClass};
use slipway_graph::{Classify, RetryClass as Class};
use slipway_problem::Problems;
use slipway_release::{FailedPart, Failure, FailureCause};

/// The kind of a failure, as results name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ErrorKind {
    Timeout,
    Canceled,
    NotFound,
    Forbidden,
    Conflict,
    /// Something of that name belongs to somebody else.
    Ownership,
    Render,
    Fetch,
    Hook,
    Rollback,
    Unsupported,
    Api,
    Internal,
}

impl ErrorKind {
    /// Its name in results.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Canceled => "canceled",
            Self::NotFound => "notFound",
            Self::Forbidden => "forbidden",
            Self::Conflict => "conflict",
            Self::Ownership => "ownership",
            Self::Render => "render",
            Self::Fetch => "fetch",
            Self::Hook => "hook",
            Self::Rollback => "rollback",
            Self::Unsupported => "unsupported",
            Self::Api => "api",
            Self::Internal => "internal",
        }
    }
}

/// The failure of one attempt at a step.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct AttemptError {
    pub kind: ErrorKind,
    pub message: String,
    /// The error it was made from, for whoever follows the chain.
    #[source]
    pub cause: Option<Arc<dyn std::error::Error + Send + Sync>>,
    /// Trying again cannot help.
    pub permanent: bool,
    pub retry_after: Option<Duration>,
}

impl AttemptError {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), cause: None, permanent: false, retry_after: None }
    }

    /// The same with the error it was made from.
    #[must_use]
    pub(crate) fn caused_by(mut self, cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.cause = Some(Arc::new(cause));
        self
    }

    /// The same, not worth another attempt.
    #[must_use]
    pub fn permanent(mut self) -> Self {
        self.permanent = true;
        self
    }

    /// Something belongs to somebody else; that does not pass.
    pub(crate) fn foreign(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Ownership, message).permanent()
    }

    pub(crate) fn canceled() -> Self {
        Self::new(ErrorKind::Canceled, "canceled").permanent()
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: &str) -> Self {
        self.message.push_str("\nhint: ");
        self.message.push_str(hint);
        self
    }
}

impl Classify for AttemptError {
    fn class(&self) -> Class {
        match self.kind {
            ErrorKind::Canceled => Class::Cancelled,
            _ if self.permanent => Class::Permanent,
            ErrorKind::Timeout => Class::Timeout,
            ErrorKind::Conflict => Class::Conflict,
            _ => Class::Transient,
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}

impl From<slipway_cluster::Error> for AttemptError {
    fn from(error: slipway_cluster::Error) -> Self {
        use slipway_cluster::ErrorClass as Api;
        let kind = match error.class {
            Api::NotFound | Api::NoKind => ErrorKind::NotFound,
            Api::Forbidden | Api::Unauthorized => ErrorKind::Forbidden,
            Api::Conflict | Api::AlreadyExists => ErrorKind::Conflict,
            Api::Timeout => ErrorKind::Timeout,
            _ => ErrorKind::Api,
        };
        let hint = advice(&error);
        let retry_after = error.retry_after;
        let failed = Self { retry_after, ..Self::new(kind, error.to_string()).caused_by(error) };
        match hint {
            Some(hint) => failed.hint(hint),
            None => failed,
        }
    }
}

/// Returns what a person can do about an answer of the server.
pub(crate) fn advice(error: &slipway_cluster::Error) -> Option<&'static str> {
    use slipway_cluster::ErrorClass as Api;
    match (error.class, error.status_code()) {
        (Api::WebhookUnavailable, _) => {
            Some("the webhook is not ready yet: give the step retries, or wait for it in a step before")
        }
        (Api::Immutable, _) => Some("such a field never changes: delete the object in a step before"),
        (Api::Unauthorized, _) => Some("the server does not take these credentials: log in again"),
        (Api::NotFound, _) if error.is_missing_namespace() => {
            Some("createNamespace: true makes the namespace")
        }
        (_, Some(413)) => Some("the server takes no request that large: split it"),
        _ if error.fault == Some(ConnectionFault::Untrusted) => Some(
            "the server's certificate is not trusted: is the context's certificate-authority the right one?",
        ),
        _ => None,
    }
}

impl From<Problems> for AttemptError {
    fn from(problems: Problems) -> Self {
        Self::new(ErrorKind::Render, problems.to_string()).caused_by(problems)
    }
}

impl From<Failure> for AttemptError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Cluster(error) => error.into(),
            Failure::Ownership(problems) => Self::foreign(problems.to_string()).caused_by(problems),
            Failure::Problems(problems)
            | Failure::Source(problems)
            | Failure::Immutable(problems)
            | Failure::Refused(problems)
            | Failure::Stale(problems) => {
                Self::new(ErrorKind::Render, problems.to_string()).caused_by(problems)
            }
            Failure::NotFound(message) => Self::new(ErrorKind::NotFound, message),
            Failure::Cancelled { .. } => Self::canceled(),
            Failure::Locked(message) => Self::new(ErrorKind::Conflict, message),
            Failure::Run { cause, part, ref report, .. } => {
                let kind = match cause {
                    _ if report.rollback.is_some() => ErrorKind::Rollback,
                    FailureCause::Timeout => ErrorKind::Timeout,
                    FailureCause::LockLost => ErrorKind::Conflict,
                    FailureCause::Cluster(ErrorClass::Forbidden) => ErrorKind::Forbidden,
                    // An admission webhook that does not answer is no hook of the release.
                    FailureCause::Cluster(ErrorClass::WebhookUnavailable) => ErrorKind::Api,
                    _ if part == FailedPart::Hook => ErrorKind::Hook,
                    _ => ErrorKind::Api,
                };
                Self::new(kind, failure.to_string()).caused_by(failure)
            }
        }
    }
}
