//! Reasons a request got no answer.

use std::time::Duration;

/// The reason a request got no answer, or none that can be used. No text of it holds credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    /// The options, an address or a header cannot be used.
    #[error("{0}")]
    Invalid(String),
    /// The connection could not be made, or broke.
    #[error("{0}")]
    Transport(String),
    #[error("failed to fetch {address}: no connection within {limit:?} (connect limit)")]
    ConnectTimeout { address: String, limit: Duration },
    #[error("failed to fetch {address}: the server sent nothing for {limit:?} (idle limit)")]
    IdleTimeout { address: String, limit: Duration },
    #[error("failed to fetch {address}: not complete within {limit:?} (total limit)")]
    TotalTimeout { address: String, limit: Duration },
    #[error("{address} is larger than {limit} bytes")]
    TooLarge { address: String, limit: usize },
    /// The server sends the client somewhere it does not go.
    #[error("{0}")]
    Redirect(String),
    /// The target belongs to this machine, its link or its cloud, and is not allowed.
    #[error("{address} leads to {leads_to}, which may not be called from here")]
    ForbiddenAddress { address: String, leads_to: std::net::IpAddr },
    /// The server answered with a failure.
    #[error("failed to fetch {address} : {status} {reason}")]
    Status { address: String, status: u16, reason: &'static str },
    /// The user ended the work.
    #[error("stopped while fetching {0}")]
    Interrupted(String),
}

impl HttpError {
    /// Tells a limit of time from other failures.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::ConnectTimeout { .. } | Self::IdleTimeout { .. } | Self::TotalTimeout { .. })
    }
}
