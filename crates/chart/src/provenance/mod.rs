//! Signed charts: `.prov` files as Helm writes and checks them.
//!
//! The signature is OpenPGP's "cleartext" kind. Only what charts need of OpenPGP is here, on the key
//! provider the rest of the tree uses: version 4 keys, RSA and Ed25519. A library for all of OpenPGP would bring
//! a second implementation of every cipher, curve and hash (`pgp` 0.21 without features: 107 crates more), and
//! still leave the decision which keys count to us. `cargo xtask conformance provenance` compares with GnuPG.

mod certificate;
mod key;
mod packet;
mod signature;

use crate::codec;
use crate::deps::sha256_hex;
use crate::error::ChartError;
use crate::metadata::ChartMetadata;
use certificate::{Certificate, KeyIdentity};
use packet::publish_error;
use serde_json::json;

/// Keys to check signatures with or to sign with.
#[derive(Clone, Debug)]
pub struct Keyring(Vec<Certificate>);

/// The content of a valid signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedSignature {
    /// `Name <address>` of the signer.
    pub signed_by: Vec<String>,
    /// Of the key, in upper-case hexadecimal.
    pub fingerprint: String,
    /// Of the archive, `sha256:…`.
    pub hash: String,
}

impl Keyring {
    /// Reads a keyring: GnuPG's older `.gpg` files or an export, binary or armoured.
    pub fn parse(bytes: &[u8]) -> Result<Self, ChartError> {
        certificate::read_certificates(bytes).map(Self)
    }

    fn identities_at(&self, now: u64) -> Vec<KeyIdentity> {
        self.0.iter().map(|certificate| certificate.identity_at(now)).collect()
    }

    /// Signs a packed chart with the key whose name contains `name`; gives the content of the `.prov`.
    pub fn sign_chart(
        &self,
        name: &str,
        passphrase: &[u8],
        metadata: &ChartMetadata,
        file_name: &str,
        archive: &[u8],
        now: u64,
    ) -> Result<String, ChartError> {
        let identities = self.identities_at(now);
        let named: Vec<&KeyIdentity> = identities
            .iter()
            .filter(|identity| identity.names.iter().any(|one| one.contains(name)))
            .collect();
        let identity = match named.as_slice() {
            [one] => *one,
            [] => return publish_error(format!("private key not found: no key is named {name:?}")),
            many => match many.iter().find(|identity| identity.names.iter().any(|one| one == name)) {
                Some(exact) => *exact,
                None => return publish_error(format!("the key name {name:?} fits more than one key")),
            },
        };
        let usable: Vec<_> = identity
            .keys
            .iter()
            .filter(|one| one.problem.is_none() && !one.key.is_expired(now))
            .map(|one| &one.key)
            .collect();
        let Some(key) = usable.iter().find(|key| key.secret.is_some()).or(usable.first()) else {
            return match identity.keys.first().and_then(|one| one.problem) {
                Some(problem) => publish_error(format!("the key cannot sign: {problem}")),
                None => publish_error("the key cannot sign: it has expired"),
            };
        };
        let signer = key.signing_key(passphrase)?;
        let sums = json!({"files": {file_name: format!("sha256:{}", sha256_hex(archive))}});
        let text =
            format!("{}\n...\n{}", codec::write_document(&metadata.to_json()), codec::write_document(&sums));
        signature::clear_sign(&text, &signer, &key.fingerprint, now)
    }

    /// Checks a packed chart against its `.prov`.
    pub fn verify_chart(
        &self,
        file_name: &str,
        archive: &[u8],
        provenance: &str,
        now: u64,
    ) -> Result<VerifiedSignature, ChartError> {
        let (text, signature) = signature::clear_read(provenance)?;
        let identities = self.identities_at(now);
        let (identity, fingerprint) = signature::find_signer(&text, &signature, &identities, now)?;
        let Some((_, sums)) = text.split_once("\n...\n") else {
            return publish_error("message block must have at least two parts");
        };
        let sums =
            codec::read_document(sums.as_bytes()).map_err(|error| ChartError::Publish(error.into()))?;
        let Some(promised) = sums.pointer("/files").and_then(|files| files.get(file_name)?.as_str()) else {
            return publish_error(format!(
                "provenance does not contain a SHA for a file named {file_name:?}"
            ));
        };
        let found = format!("sha256:{}", sha256_hex(archive));
        if found != promised {
            return publish_error(format!(
                "sha256 sum does not match for {file_name}: {promised:?} != {found:?}"
            ));
        }
        Ok(VerifiedSignature {
            signed_by: identity.names.clone(),
            fingerprint: crate::secret::to_hex(&fingerprint).to_uppercase(),
            hash: found,
        })
    }
}

impl std::fmt::Display for VerifiedSignature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for name in &self.signed_by {
            writeln!(f, "Signed by: {name}")?;
        }
        writeln!(f, "Using Key With Fingerprint: {}", self.fingerprint)?;
        writeln!(f, "Chart Hash Verified: {}", self.hash)
    }
}
