//! The sandbox's certificate authority, its server certificate, token and signing key.

use std::path::{Path, PathBuf};

use base64::Engine;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use serde::{Deserialize, Serialize};

use crate::auth::TokenKey;
use crate::store::private;

/// All secrets of a sandbox. Kept beside the data so that kubeconfigs survive restarts.
#[derive(Serialize, Deserialize)]
struct KeptIdentity {
    ca_certificate: String,
    ca_key: String,
    token: String,
    token_key: String,
    /// Over everything else; files of older versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    checksum: Option<String>,
}

impl KeptIdentity {
    fn content_checksum(&self) -> String {
        let mut digest = <sha2::Sha256 as sha2::Digest>::new();
        for part in [&self.ca_certificate, &self.ca_key, &self.token, &self.token_key] {
            sha2::Digest::update(&mut digest, part.len().to_le_bytes());
            sha2::Digest::update(&mut digest, part);
        }
        data_encoding::HEXLOWER.encode(&sha2::Digest::finalize(digest))
    }
}

pub(crate) struct CertificateAuthority {
    kept: KeptIdentity,
    token_key: Vec<u8>,
    made_in: Option<PathBuf>,
}

const FILE: &str = "identity.json";

impl CertificateAuthority {
    /// Reads the authority kept in `dir`, or makes a new one.
    pub(crate) fn open(dir: Option<&Path>) -> Result<CertificateAuthority, Box<dyn std::error::Error>> {
        if let Some(dir) = dir
            && let Some(text) = read_if_there(&dir.join(FILE))?
        {
            let kept =
                parse_identity(&text).map_err(|e| format!("{} is damaged: {e}", dir.join(FILE).display()))?;
            let token_key = base64::engine::general_purpose::STANDARD.decode(&kept.token_key)?;
            let authority = CertificateAuthority { kept, token_key, made_in: None };
            if authority.kept.checksum.is_none() {
                authority.write_file(&dir.join(FILE))?;
            }
            return Ok(authority);
        }
        let key = KeyPair::generate()?;
        let certificate = ca_params().self_signed(&key)?;
        let (_, token_key) = TokenKey::generate()?;
        let mut token = [0; 32];
        aws_lc_rs::rand::fill(&mut token).map_err(|_| "no randomness for a token")?;
        let kept = KeptIdentity {
            ca_certificate: certificate.pem(),
            ca_key: key.serialize_pem(),
            token: base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(token),
            token_key: base64::engine::general_purpose::STANDARD.encode(&token_key),
            checksum: None,
        };
        let authority = CertificateAuthority { kept, token_key, made_in: dir.map(|dir| dir.join(FILE)) };
        if let Some(file) = &authority.made_in {
            authority.write_file(file)?;
        }
        Ok(authority)
    }

    /// The file that was missing and is now written anew.
    pub(crate) fn made_in(&self) -> Option<&Path> {
        self.made_in.as_deref()
    }

    fn write_file(&self, file: &Path) -> Result<(), Box<dyn std::error::Error>> {
        let mut text = serde_json::to_value(&self.kept)?;
        text["checksum"] = self.kept.content_checksum().into();
        Ok(private::replace_file(file, text.to_string().as_bytes())?)
    }

    /// PEM of the authority's certificate.
    pub(crate) fn certificate_pem(&self) -> &str {
        &self.kept.ca_certificate
    }

    /// The administrator's bearer token.
    pub(crate) fn admin_token(&self) -> &str {
        &self.kept.token
    }

    pub(crate) fn token_key(&self) -> &[u8] {
        &self.token_key
    }

    fn issuer(&self) -> Result<Issuer<'static, KeyPair>, rcgen::Error> {
        Issuer::from_ca_cert_pem(&self.kept.ca_certificate, KeyPair::from_pem(&self.kept.ca_key)?)
    }

    /// Number of groups a certificate of ours can hold.
    pub(crate) const MOST_GROUPS: usize = 2;

    /// PEM of a certificate for somebody, signed by the authority, and its key.
    pub(crate) fn client_certificate(
        &self,
        name: &str,
        groups: &[String],
    ) -> Result<(String, String), rcgen::Error> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        for (number, group) in groups.iter().take(Self::MOST_GROUPS).enumerate() {
            params.distinguished_name.push(organization_attribute(number), group.as_str());
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer()?)?;
        Ok((certificate.pem(), key.serialize_pem()))
    }

    /// A certificate for the server and its key, both DER.
    pub(crate) fn server_certificate(&self, names: &[String]) -> Result<(Vec<u8>, Vec<u8>), rcgen::Error> {
        let mut params = CertificateParams::new(names.to_vec())?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer()?)?;
        Ok((certificate.der().to_vec(), key.serialize_der()))
    }
}

/// The attribute a certificate's subject keeps a group in. The library writes each attribute once, so
/// the second group goes under the same attribute spelt out.
fn organization_attribute(number: usize) -> DnType {
    if number == 0 { DnType::OrganizationName } else { DnType::CustomDnType(vec![2, 5, 4, 10]) }
}

fn read_if_there(path: &Path) -> std::io::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

fn ca_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "sandbox-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    params
}

/// Reads a kept identity and checks that its parts are whole and belong together.
fn parse_identity(text: &str) -> Result<KeptIdentity, Box<dyn std::error::Error>> {
    let kept: KeptIdentity = serde_json::from_str(text)?;
    if kept.checksum.as_ref().is_some_and(|sum| *sum != kept.content_checksum()) {
        return Err("its checksum is wrong".into());
    }
    let token_key = base64::engine::general_purpose::STANDARD
        .decode(&kept.token_key)
        .map_err(|e| format!("the token signing key cannot be read: {e}"))?;
    TokenKey::from_pkcs8(&token_key).map_err(|_| "the token signing key cannot be read")?;
    let key = KeyPair::from_pem(&kept.ca_key).map_err(|_| "the authority's key cannot be read")?;
    let (_, pem) = x509_parser::pem::parse_x509_pem(kept.ca_certificate.as_bytes())
        .map_err(|_| "the authority's certificate cannot be read")?;
    let certificate = pem.parse_x509().map_err(|_| "the authority's certificate cannot be read")?;
    if certificate.public_key().subject_public_key.data.as_ref() != key.public_key_raw() {
        return Err("the authority's certificate and key do not belong together".into());
    }
    if kept.token.len() < 16 || !kept.token.bytes().all(|b| b.is_ascii_graphic()) {
        return Err("the administrator's token is cut short".into());
    }
    Ok(kept)
}
