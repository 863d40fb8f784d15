//! The way charts use the one HTTP client: its errors are Helm's.

use slipway_http::HttpError;
pub use slipway_http::{ClientOptions, HttpClient, NetworkLimits, NetworkOptions};

use crate::error::ChartError;

/// Tells that the server wants other credentials than it got.
pub(super) fn is_denied(error: &HttpError) -> bool {
    matches!(error, HttpError::Status { status: 401 | 403, .. })
}

impl From<HttpError> for ChartError {
    fn from(error: HttpError) -> Self {
        match error {
            HttpError::Interrupted(address) => Self::Interrupted(address),
            denied if is_denied(&denied) => Self::Denied(denied.to_string()),
            other => Self::Publish(other.to_string()),
        }
    }
}
