//! Reasons a provider did not do what it was asked for.

use jiff::Timestamp;
use slipway_http::HttpError;

use crate::remote::ProviderKind;

/// The reason a provider did not do what it was asked for. No text of it holds a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScmError {
    #[error("{doing}")]
    Unreachable {
        doing: String,
        #[source]
        source: HttpError,
    },
    #[error("{doing}: the server is in trouble (HTTP {status})")]
    Unavailable { doing: String, status: u16, retry_at: Option<Timestamp> },
    /// Too many failures in a row: nothing is sent for a while.
    #[error("{host} has failed too often; it is asked again at {until}")]
    CircuitOpen { host: String, until: Timestamp },
    #[error("{host} allows no more requests until {until}")]
    RateLimited { host: String, until: Timestamp },
    #[error("{doing}: refused (HTTP {status}): {reason}")]
    Denied { doing: String, status: u16, reason: String },
    #[error("{doing}: not found")]
    NotFound { doing: String },
    #[error("{doing}: HTTP {status}: {reason}")]
    Refused { doing: String, status: u16, reason: String },
    #[error("{doing}: the answer cannot be understood")]
    Unreadable { doing: String },
    #[error("the credentials cannot be used: {reason}")]
    Credential { reason: String },
    #[error("{provider} cannot {operation}")]
    Unsupported { provider: ProviderKind, operation: &'static str },
}

/// What may be tried after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// The same again, not before this time where there is one.
    Transient {
        retry_at: Option<Timestamp>,
    },
    /// The same again once somebody has changed credentials or rights.
    Denied,
    NotFound,
    Permanent,
}

impl ScmError {
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Unreachable { source: HttpError::Invalid(_) | HttpError::Redirect(_), .. } => {
                ErrorClass::Permanent
            }
            Self::Unreachable { .. } => ErrorClass::Transient { retry_at: None },
            Self::Unavailable { retry_at, .. } => ErrorClass::Transient { retry_at: *retry_at },
            Self::CircuitOpen { until, .. } | Self::RateLimited { until, .. } => {
                ErrorClass::Transient { retry_at: Some(*until) }
            }
            Self::Denied { .. } | Self::Credential { .. } => ErrorClass::Denied,
            Self::NotFound { .. } => ErrorClass::NotFound,
            Self::Refused { .. } | Self::Unreadable { .. } | Self::Unsupported { .. } => {
                ErrorClass::Permanent
            }
        }
    }

    /// The HTTP status of a refusal that is about the request itself.
    pub(crate) fn refusal(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }
}
