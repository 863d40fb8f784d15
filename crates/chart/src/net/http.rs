//! The way charts use the one HTTP client: its errors are Helm's.

use slipway_http::HttpError;
pub use slipway_http::{ClientOptions, HttpClient, NetworkLimits, NetworkOptions};

use crate::error::ChartError;

impl From<HttpError> for ChartError {
    fn from(error: HttpError) -> Self {
        match error {
            HttpError::Interrupted(address) => Self::Interrupted(address),
            other => Self::Publish(other.to_string()),
        }
    }
}
