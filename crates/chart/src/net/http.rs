//! The way charts use the one HTTP client: its errors are Helm's.

use slipway_http::HttpError;
pub use slipway_http::{Client, ClientOptions, NetworkLimits, NetworkOptions};

use crate::error::Error;

impl From<HttpError> for Error {
    fn from(error: HttpError) -> Self {
        match error {
            HttpError::Interrupted(address) => Self::Interrupted(address),
            other => Self::Publish(other.to_string()),
        }
    }
}
