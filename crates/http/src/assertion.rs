//! Signed assertions (JWT) that services trade for tokens.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaEncoding, RsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

/// A private key that cannot sign, or a certificate that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the private key cannot be used: expected an RSA key in PEM form")]
pub struct AssertionError;

/// Signs claims with a PEM private key (PKCS #8 or PKCS #1).
pub fn sign_rs256(claims: &Value, key_id: Option<&str>, pem: &str) -> Result<String, AssertionError> {
    let mut header = json!({"alg": "RS256", "typ": "JWT"});
    if let Some(id) = key_id {
        header["kid"] = id.into();
    }
    sign(&header, claims, pem, &RSA_PKCS1_SHA256)
}

/// Signs claims with the private key of a PEM file that holds its certificate as well. The header names the certificate
/// by its SHA-256.
pub fn sign_with_certificate(claims: &Value, pem: &str) -> Result<String, AssertionError> {
    let certificate = pem_block(pem, |label| label == "CERTIFICATE").ok_or(AssertionError)?;
    let thumbprint = URL_SAFE_NO_PAD.encode(digest(&SHA256, &certificate));
    let header = json!({"alg": "PS256", "typ": "JWT", "x5t#S256": thumbprint});
    sign(&header, claims, pem, &RSA_PSS_SHA256)
}

fn sign(
    header: &Value,
    claims: &Value,
    pem: &str,
    encoding: &'static dyn RsaEncoding,
) -> Result<String, AssertionError> {
    let der = pem_block(pem, |label| label.ends_with("PRIVATE KEY")).ok_or(AssertionError)?;
    let key =
        RsaKeyPair::from_pkcs8(&der).or_else(|_| RsaKeyPair::from_der(&der)).map_err(|_| AssertionError)?;
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", encode(header), encode(claims));
    let mut signature = vec![0; key.public_modulus_len()];
    key.sign(encoding, &SystemRandom::new(), message.as_bytes(), &mut signature)
        .map_err(|_| AssertionError)?;
    Ok(format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

/// The content of the first block whose label is wanted.
fn pem_block(pem: &str, is_wanted: impl Fn(&str) -> bool) -> Option<Vec<u8>> {
    let label = |line: &str| Some(line.trim().strip_prefix("-----BEGIN ")?.strip_suffix("-----")?.to_owned());
    let mut lines = pem.lines().skip_while(|line| !label(line).is_some_and(|label| is_wanted(&label)));
    lines.next()?;
    let body: String = lines
        .map(str::trim)
        .take_while(|line| !line.starts_with("-----"))
        .flat_map(str::split_whitespace)
        .collect();
    STANDARD.decode(body).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wanted_block_of_several_is_read() {
        let pem = "junk\n-----BEGIN CERTIFICATE-----\nAQID\n-----END CERTIFICATE-----\n\
                   -----BEGIN RSA PRIVATE KEY-----\nBA\nUG\n-----END RSA PRIVATE KEY-----\n";
        assert_eq!(pem_block(pem, |label| label == "CERTIFICATE"), Some(vec![1, 2, 3]));
        assert_eq!(pem_block(pem, |label| label.ends_with("PRIVATE KEY")), Some(vec![4, 5, 6]));
        assert_eq!(pem_block(pem, |label| label == "PUBLIC KEY"), None);
        assert_eq!(pem_block("-----BEGIN PRIVATE KEY-----\n!\n", |_| true), None);
    }
}
