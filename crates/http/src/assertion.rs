//! Signed assertions (JWT, RS256) that services trade for tokens.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

/// A private key that cannot sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the private key cannot be used: expected an RSA key in PEM form")]
pub struct AssertionError;

/// Signs claims with a PEM private key (PKCS #8 or PKCS #1).
pub fn sign_rs256(claims: &Value, key_id: Option<&str>, pem: &str) -> Result<String, AssertionError> {
    let body: String = pem
        .lines()
        .filter(|line| !line.starts_with("-----"))
        .collect::<String>()
        .split_whitespace()
        .collect();
    let der = STANDARD.decode(body).map_err(|_| AssertionError)?;
    let key =
        RsaKeyPair::from_pkcs8(&der).or_else(|_| RsaKeyPair::from_der(&der)).map_err(|_| AssertionError)?;
    let mut header = json!({"alg": "RS256", "typ": "JWT"});
    if let Some(id) = key_id {
        header["kid"] = id.into();
    }
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", encode(&header), encode(claims));
    let mut signature = vec![0; key.public_modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message.as_bytes(), &mut signature)
        .map_err(|_| AssertionError)?;
    Ok(format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature)))
}
