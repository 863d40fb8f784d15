//! Certificates of a keyring: which of their keys may sign at a moment, and why the others may not.
//!
//! Everything a certificate says is gathered before anything is concluded from it, so the order of packets
//! does not matter and a second copy without a revocation does not bring a revoked key back.

use std::fmt;

use super::key::{OpenPgpKey, PublicKey, hashed_key};
use super::packet::{packets, unarmour};
use super::signature::Signature;
use crate::error::ChartError;

/// Whom keys belong to.
#[derive(Clone, Debug)]
pub(super) struct KeyIdentity {
    /// `Name <address>` of every user the owner vouches for.
    pub(super) names: Vec<String>,
    /// The primary key, then the subkeys.
    pub(super) keys: Vec<IdentityKey>,
}

/// A key and the reason it must not be used, if there is one.
#[derive(Clone, Debug)]
pub(super) struct IdentityKey {
    pub(super) key: OpenPgpKey,
    pub(super) problem: Option<KeyProblem>,
}

/// Why a key's signatures count for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyProblem {
    Revoked,
    PrimaryRevoked,
    /// No user and no statement of the owner stands for the primary key.
    NotCertified,
    /// The primary key does not vouch for the subkey.
    NotBound,
    /// The subkey does not vouch for the primary key.
    NotCrossSigned,
    CannotSign,
}

impl fmt::Display for KeyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Revoked => "it has been revoked",
            Self::PrimaryRevoked => "its primary key has been revoked",
            Self::NotCertified => "its owner vouches for no name of it",
            Self::NotBound => "its primary key does not vouch for it",
            Self::NotCrossSigned => "it does not vouch for its primary key",
            Self::CannotSign => "it is not meant to sign",
        })
    }
}

/// A key with the packet it came from, without its secret part.
#[derive(Clone, Debug)]
struct KeyPacket {
    key: OpenPgpKey,
    body: Vec<u8>,
}

/// A primary key and everything said about it.
#[derive(Clone, Debug)]
pub(super) struct Certificate {
    primary: KeyPacket,
    names: Vec<Vec<u8>>,
    subkeys: Vec<KeyPacket>,
    signatures: Vec<Signature>,
}

// Kinds of signatures.
const DIRECT: u8 = 0x1f;
const BINDING: u8 = 0x18;
const CROSS: u8 = 0x19;
const KEY_REVOCATION: u8 = 0x20;
const SUBKEY_REVOCATION: u8 = 0x28;
const NAME_REVOCATION: u8 = 0x30;

/// The certificates of a keyring file, binary or armoured.
pub(super) fn keyring(bytes: &[u8]) -> Result<Vec<Certificate>, ChartError> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.contains("-----BEGIN PGP"));
    let bytes = match text {
        Some(text) if text.contains("PRIVATE KEY BLOCK") => unarmour(text, "PGP PRIVATE KEY BLOCK")?,
        Some(text) => unarmour(text, "PGP PUBLIC KEY BLOCK")?,
        None => bytes.to_vec(),
    };
    let mut certificates: Vec<Certificate> = Vec::new();
    // The certificate packets belong to; none after a primary key that cannot be read.
    let mut current: Option<usize> = None;
    for packet in packets(&bytes)? {
        match packet.tag {
            5 | 6 => {
                let read = KeyPacket::read(packet.tag, &packet.body);
                current = read.map(|primary| Certificate::place(&mut certificates, primary));
            }
            tag => {
                if let Some(certificate) = current.and_then(|at| certificates.get_mut(at)) {
                    certificate.take(tag, &packet.body);
                }
            }
        }
    }
    Ok(certificates)
}

impl KeyPacket {
    fn read(tag: u8, body: &[u8]) -> Option<Self> {
        let (mut key, secret) = OpenPgpKey::read(body).ok()?;
        if matches!(tag, 5 | 7) {
            key.secret = Some(secret.to_vec());
        }
        Some(Self { key, body: body[..body.len() - secret.len()].to_vec() })
    }

    /// Whether the signature is this key's. What cannot be checked is not.
    fn made(&self, signature: &Signature, content: &[u8]) -> bool {
        self.key.made(signature, content).unwrap_or(false)
    }

    /// Whether the key revokes what is signed. What cannot be checked is taken for a revocation.
    fn revoked(&self, signature: &Signature, content: &[u8]) -> bool {
        self.key.made(signature, content).unwrap_or(true)
    }
}

impl Certificate {
    /// Where a primary key's certificate is; copies are one.
    fn place(all: &mut Vec<Self>, primary: KeyPacket) -> usize {
        let known = all.iter().position(|one| one.primary.key.fingerprint == primary.key.fingerprint);
        if let Some(at) = known {
            let secret = &mut all[at].primary.key.secret;
            *secret = secret.take().or(primary.key.secret);
            return at;
        }
        all.push(Self { primary, names: Vec::new(), subkeys: Vec::new(), signatures: Vec::new() });
        all.len() - 1
    }

    fn take(&mut self, tag: u8, body: &[u8]) {
        match tag {
            7 | 14 => {
                let Some(packet) = KeyPacket::read(tag, body) else { return };
                let known = self.subkeys.iter_mut().find(|one| one.key.fingerprint == packet.key.fingerprint);
                match known {
                    Some(known) => known.key.secret = known.key.secret.take().or(packet.key.secret),
                    None => self.subkeys.push(packet),
                }
            }
            13 if !self.names.iter().any(|name| name == body) => self.names.push(body.to_vec()),
            2 => {
                // What others say of the key does not count.
                let signature = Signature::read(body).ok();
                let own = |signature: &Signature| {
                    signature.issuer.as_deref().is_none_or(|issuer| issuer == self.primary.key.id())
                };
                self.signatures.extend(signature.filter(own));
            }
            _ => {}
        }
    }

    /// What the certificate is worth at a moment.
    pub(super) fn identity(&self, now: u64) -> KeyIdentity {
        let primary_content = hashed_key(&self.primary.body);
        let names: Vec<(&Vec<u8>, &Signature)> = self
            .names
            .iter()
            .filter_map(|name| Some((name, self.vouched_name(name, &primary_content, now)?)))
            .collect();
        let direct = self
            .of_kind(DIRECT)
            .filter(|one| one.is_current(now) && self.primary.made(one, &primary_content));
        let latest = names.iter().map(|(_, one)| *one).chain(direct).max_by_key(|one| one.created);
        let revoked = self.of_kind(KEY_REVOCATION).any(|one| self.primary.revoked(one, &primary_content));

        let mut primary = self.primary.key.clone();
        primary.expires = latest.and_then(|latest| latest.key_expires(&self.primary.body));
        let problem = match latest {
            _ if revoked => Some(KeyProblem::Revoked),
            // Whoever uses it is told that we cannot.
            None if matches!(primary.public, PublicKey::Other(_)) => None,
            None => Some(KeyProblem::NotCertified),
            Some(latest) if latest.may_sign == Some(false) => Some(KeyProblem::CannotSign),
            Some(_) => None,
        };
        let inherited = match problem {
            Some(KeyProblem::Revoked) => Some(KeyProblem::PrimaryRevoked),
            Some(KeyProblem::NotCertified) => problem,
            _ => None,
        };
        let end = primary.expires;
        let mut keys = vec![IdentityKey { key: primary, problem }];
        keys.extend(self.subkeys.iter().map(|subkey| {
            let mut judged = self.judge(subkey, &primary_content, now);
            judged.problem = inherited.or(judged.problem);
            judged.key.expires = [judged.key.expires, end].into_iter().flatten().min();
            judged
        }));
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let names = names.into_iter().map(|(name, _)| text(name)).collect();
        KeyIdentity { names, keys }
    }

    fn of_kind(&self, kind: u8) -> impl Iterator<Item = &Signature> {
        self.signatures.iter().filter(move |one| one.kind == kind)
    }

    /// The owner's newest word for a name, unless it was taken back since.
    fn vouched_name(&self, name: &[u8], primary: &[u8], now: u64) -> Option<&Signature> {
        let length = u32::try_from(name.len()).ok()?;
        let content = [primary, &[0xb4], &length.to_be_bytes(), name].concat();
        let certifies = |one: &&Signature| matches!(one.kind, 0x10..=0x13);
        let latest = self
            .signatures
            .iter()
            .filter(certifies)
            .filter(|one| one.is_current(now) && self.primary.made(one, &content))
            .max_by_key(|one| one.created)?;
        let taken_back = self
            .of_kind(NAME_REVOCATION)
            .any(|one| one.created >= latest.created && self.primary.made(one, &content));
        (!taken_back).then_some(latest)
    }

    fn judge(&self, subkey: &KeyPacket, primary: &[u8], now: u64) -> IdentityKey {
        let content = [primary, &hashed_key(&subkey.body)].concat();
        let binding = self
            .of_kind(BINDING)
            .filter(|one| one.is_current(now) && self.primary.made(one, &content))
            .max_by_key(|one| one.created);
        let mut key = subkey.key.clone();
        key.expires = binding.and_then(|binding| binding.key_expires(&subkey.body));
        let crosses = |binding: &Signature| {
            let cross = binding.embedded.as_ref().and_then(|bytes| Signature::read(bytes).ok());
            cross.is_some_and(|one| one.kind == CROSS && one.is_current(now) && subkey.made(&one, &content))
        };
        let problem = match binding {
            _ if self.of_kind(SUBKEY_REVOCATION).any(|one| self.primary.revoked(one, &content)) => {
                Some(KeyProblem::Revoked)
            }
            None => Some(KeyProblem::NotBound),
            Some(binding) if binding.may_sign == Some(false) => Some(KeyProblem::CannotSign),
            Some(binding) if !crosses(binding) => Some(KeyProblem::NotCrossSigned),
            Some(_) => None,
        };
        IdentityKey { key, problem }
    }
}
