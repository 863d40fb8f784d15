//! Signatures of deliveries, compared in constant time.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use data_encoding::HEXLOWER_PERMISSIVE;
use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::Sha256;

use super::{WebhookError, WebhookHeaders};
use crate::remote::ProviderKind;

/// The secret a server signs its deliveries with.
#[derive(Clone, Debug)]
pub struct WebhookSecret(SecretString);

impl WebhookSecret {
    pub fn new(secret: impl Into<String>) -> Self {
        Self(SecretString::from(secret.into()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.expose_secret().is_empty()
    }

    fn bytes(&self) -> &[u8] {
        self.0.expose_secret().as_bytes()
    }
}

/// Checks a delivery; gives the time it was signed at, where that is part of the signature.
pub(super) fn verify(
    kind: ProviderKind,
    headers: &WebhookHeaders,
    body: &[u8],
    secret: &WebhookSecret,
) -> Result<Option<Timestamp>, WebhookError> {
    let first =
        |names: &[&str]| names.iter().find_map(|name| headers.get(name)).ok_or(WebhookError::Unsigned);
    match kind {
        ProviderKind::GitHub => verify_hex(first(&["x-hub-signature-256"])?, "sha256=", body, secret)?,
        ProviderKind::Gitea => {
            match headers.get("x-gitea-signature").or_else(|| headers.get("x-forgejo-signature")) {
                Some(signature) => verify_hex(signature, "", body, secret)?,
                None => verify_hex(first(&["x-hub-signature-256"])?, "sha256=", body, secret)?,
            }
        }
        ProviderKind::Bitbucket => verify_hex(first(&["x-hub-signature"])?, "sha256=", body, secret)?,
        ProviderKind::GitLab => {
            // A signature is better than the secret itself in a header.
            if let Some(signature) = headers.get("webhook-signature") {
                return verify_standard(signature, headers, body, secret).map(Some);
            }
            verify_equal(first(&["x-gitlab-token"])?.as_bytes(), secret)?;
        }
        ProviderKind::AzureDevOps => verify_basic(first(&["authorization"])?, secret)?,
        ProviderKind::None => return Err(WebhookError::Unsupported { provider: kind }),
    }
    Ok(None)
}

fn mac(key: &[u8]) -> Result<Hmac<Sha256>, WebhookError> {
    Hmac::new_from_slice(key).map_err(|_| WebhookError::NoSecret)
}

/// A signature of the body in hexadecimal.
fn verify_hex(text: &str, prefix: &str, body: &[u8], secret: &WebhookSecret) -> Result<(), WebhookError> {
    let digits = text.trim().strip_prefix(prefix).ok_or(WebhookError::BadSignature)?;
    let signature = HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).map_err(|_| WebhookError::BadSignature)?;
    let mut mac = mac(secret.bytes())?;
    mac.update(body);
    mac.verify_slice(&signature).map_err(|_| WebhookError::BadSignature)
}

/// Signatures of the form GitLab has taken over: `v1,BASE64` over id, time and body.
fn verify_standard(
    text: &str,
    headers: &WebhookHeaders,
    body: &[u8],
    secret: &WebhookSecret,
) -> Result<Timestamp, WebhookError> {
    let id = headers.get("webhook-id").ok_or(WebhookError::Unsigned)?;
    let time = headers.get("webhook-timestamp").ok_or(WebhookError::Unsigned)?;
    let key = match secret.0.expose_secret().strip_prefix("whsec_") {
        Some(encoded) => STANDARD.decode(encoded).map_err(|_| WebhookError::NoSecret)?,
        None => secret.bytes().to_vec(),
    };
    let mut keyed = mac(&key)?;
    for part in [id.as_bytes(), b".", time.as_bytes(), b".", body] {
        keyed.update(part);
    }
    // While secrets are changed there is one for each.
    let signatures = text.split_whitespace().filter_map(|one| one.strip_prefix("v1,"));
    let mut decoded = signatures.filter_map(|one| STANDARD.decode(one).ok());
    if !decoded.any(|signature| keyed.clone().verify_slice(&signature).is_ok()) {
        return Err(WebhookError::BadSignature);
    }
    let seconds = time.parse::<i64>().map_err(|_| WebhookError::Malformed)?;
    Timestamp::from_second(seconds).map_err(|_| WebhookError::Malformed)
}

/// The secret as the password of any user.
fn verify_basic(text: &str, secret: &WebhookSecret) -> Result<(), WebhookError> {
    let encoded = text.strip_prefix("Basic ").ok_or(WebhookError::BadSignature)?;
    let pair = STANDARD.decode(encoded.trim()).map_err(|_| WebhookError::BadSignature)?;
    let split = pair.iter().position(|byte| *byte == b':').ok_or(WebhookError::BadSignature)?;
    verify_equal(&pair[split + 1..], secret)
}

/// The secret itself. Both sides are hashed first, so that not even its length shows in the time.
fn verify_equal(given: &[u8], secret: &WebhookSecret) -> Result<(), WebhookError> {
    use sha2::Digest as _;
    let (given, known) = (Sha256::digest(given), Sha256::digest(secret.bytes()));
    verify_slices_are_equal(&given, &known).map_err(|_| WebhookError::BadSignature)
}
