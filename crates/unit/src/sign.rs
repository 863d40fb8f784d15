//! Signatures of units: ed25519 over the digest and the time. A key inside of a unit proves nothing by itself; whoever
//! opens the unit names the keys to trust.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der};
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::container::{ContentHash, SignatureRow};
use crate::error::UnitError;

pub(crate) const ALGORITHM: &str = "ed25519";
const DOMAIN: &str = "ktl.unit.v1.signature";

/// A public key; prints as `ed25519:` and 64 hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Reads a key as text or as PEM.
    pub fn parse_file(text: &str) -> Result<Self, UnitError> {
        /// The first bytes of an ed25519 key in DER.
        const PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
        match pem_content(text, "PUBLIC KEY") {
            Some(der) => der
                .strip_prefix(&PREFIX)
                .and_then(Self::from_bytes)
                .ok_or_else(|| UnitError::Signature("the file holds no ed25519 public key".to_owned())),
            None => text.trim().parse(),
        }
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ALGORITHM}:{}", ContentHash(self.0))
    }
}

impl FromStr for PublicKey {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let hex = text.strip_prefix("ed25519:").and_then(ContentHash::parse);
        let wrong = || {
            UnitError::Signature("a public key is written `ed25519:` and 64 hex digits, or as PEM".to_owned())
        };
        hex.map(|bytes| Self(bytes.0)).ok_or_else(wrong)
    }
}

/// A private key. It never prints.
pub struct SigningKey {
    pair: Ed25519KeyPair,
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("public", &self.public_key().ok()).finish_non_exhaustive()
    }
}

impl SigningKey {
    /// Makes a new key.
    pub fn generate() -> Result<Self, UnitError> {
        let pair = Ed25519KeyPair::generate();
        Ok(Self { pair: pair.map_err(|_| UnitError::Signature("a key cannot be made".to_owned()))? })
    }

    /// Reads a key in PEM (PKCS #8), as `openssl genpkey -algorithm ed25519` writes it.
    pub fn from_pem(text: &str) -> Result<Self, UnitError> {
        let wrong =
            || UnitError::Signature("the file holds no ed25519 private key in PEM (PKCS #8)".to_owned());
        let der = pem_content(text, "PRIVATE KEY").ok_or_else(wrong)?;
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der).map_err(|_| wrong())?;
        Ok(Self { pair })
    }

    /// Writes the key as PEM.
    pub fn to_pem(&self) -> Result<String, UnitError> {
        let failed = |_| UnitError::Signature("the key cannot be written".to_owned());
        let der: Pkcs8V1Der<'static> = self.pair.as_der().map_err(failed)?;
        let body = STANDARD.encode(der.as_ref());
        let lines: Vec<&str> =
            body.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
        Ok(format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n")))
    }

    pub fn public_key(&self) -> Result<PublicKey, UnitError> {
        let bytes = self.pair.public_key().as_ref();
        PublicKey::from_bytes(bytes)
            .ok_or_else(|| UnitError::Signature("the key has the wrong length".to_owned()))
    }

    /// Signs a unit's digest.
    pub(crate) fn sign_digest(&self, digest: &str, signed_at: &str) -> Result<SignatureRow, UnitError> {
        let public = self.public_key()?;
        Ok(SignatureRow {
            key_id: public.to_string(),
            algorithm: ALGORITHM.to_owned(),
            public_key: public.0.to_vec(),
            signature: self.pair.sign(&message(digest, signed_at)).as_ref().to_vec(),
            signed_at: signed_at.to_owned(),
        })
    }
}

fn message(digest: &str, signed_at: &str) -> Vec<u8> {
    format!("{DOMAIN}\0{digest}\0{signed_at}").into_bytes()
}

/// Checks a signature against the key that stands beside it.
pub(crate) fn check_signature(signature: &SignatureRow, digest: &str) -> Result<(), UnitError> {
    let wrong = || UnitError::Signature(format!("the signature of `{}` is not valid", signature.key_id));
    let key = PublicKey::from_bytes(&signature.public_key).ok_or_else(wrong)?;
    if signature.algorithm != ALGORITHM || key.to_string() != signature.key_id {
        return Err(wrong());
    }
    let verified = UnparsedPublicKey::new(&ED25519, key.0)
        .verify(&message(digest, &signature.signed_at), &signature.signature);
    verified.map_err(|_| wrong())
}

/// Checks that one of the trusted keys signed; the signatures themselves are checked already.
pub(crate) fn require_trusted(signatures: &[SignatureRow], trusted: &[PublicKey]) -> Result<(), UnitError> {
    if trusted.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = trusted.iter().map(PublicKey::to_string).collect();
    if signatures.iter().any(|signature| names.contains(&signature.key_id)) {
        return Ok(());
    }
    Err(UnitError::Signature(match signatures {
        [] => "the unit is not signed".to_owned(),
        [first, ..] => format!("the unit is signed by `{}`, which is not trusted", first.key_id),
    }))
}

/// The content of the first PEM block with a label.
fn pem_content(text: &str, label: &str) -> Option<Vec<u8>> {
    let (_, after) = text.split_once(&format!("-----BEGIN {label}-----"))?;
    let (body, _) = after.split_once("-----END")?;
    let body: String = body.chars().filter(|character| !character.is_whitespace()).collect();
    STANDARD.decode(body).ok()
}

/// Signs a unit in place; a key signs once, its second signature replaces the first.
pub fn sign_unit(
    path: &std::path::Path,
    digest: &str,
    key: &SigningKey,
    now: jiff::Timestamp,
) -> Result<PublicKey, UnitError> {
    use crate::container::connection::{Access, open_checked};
    use crate::container::schema::FileKind;
    let row = key.sign_digest(digest, &now.to_string())?;
    let connection = open_checked(path, FileKind::Unit, Access::Append)?;
    connection
        .execute(
            "INSERT OR REPLACE INTO signatures (keyId, algorithm, publicKey, sig, signedAt) VALUES (?1, ?2, ?3, ?4, ?5)",
            rusqlite::params![row.key_id, row.algorithm, row.public_key, row.signature, row.signed_at],
        )
        .map_err(UnitError::database("sign the unit"))?;
    key.public_key()
}
