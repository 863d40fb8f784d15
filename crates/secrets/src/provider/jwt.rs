//! Signed assertions that services trade for tokens, with their mistakes as a provider's.

use serde_json::Value;

use super::{ErrorCode, ProviderError};

/// Signs claims with a PEM private key (PKCS #8 or PKCS #1).
pub(crate) fn sign_rs256(claims: &Value, key_id: Option<&str>, pem: &str) -> Result<String, ProviderError> {
    slipway_http::sign_rs256(claims, key_id, pem).map_err(|_| {
        ProviderError::new(ErrorCode::Config, "the private key cannot be used")
            .hint("expected an RSA key in PEM form")
    })
}

/// Signs claims with the private key of a PEM file that holds its certificate as well.
pub(crate) fn sign_with_certificate(claims: &Value, pem: &str) -> Result<String, ProviderError> {
    slipway_http::sign_with_certificate(claims, pem).map_err(|_| {
        ProviderError::new(ErrorCode::Config, "the client certificate cannot be used")
            .hint("expected a certificate and its RSA key in one PEM file, without a password")
    })
}
