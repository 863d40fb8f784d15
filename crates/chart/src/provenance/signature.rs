//! OpenPGP signatures, and text signed in the clear.

use super::certificate::{IdentityKey, KeyIdentity};
use super::key::SigningKey;
use super::packet::{ByteReader, armour, fail, length, packet, packets, unarmour};
use crate::error::ChartError;

/// A signature of version 4.
#[derive(Clone, Debug)]
pub(super) struct Signature {
    pub(super) kind: u8,
    pub(super) hash: u8,
    /// The id of the key that made it.
    pub(super) issuer: Option<Vec<u8>>,
    /// What is hashed after the content.
    pub(super) trailer: Vec<u8>,
    pub(super) values: Vec<Vec<u8>>,
    /// Whether the key it speaks of may sign, if it says so.
    pub(super) may_sign: Option<bool>,
    /// A signature inside this one: a subkey's word that it belongs to the primary key.
    pub(super) embedded: Option<Vec<u8>>,
    pub(super) created: u64,
    expires_after: Option<u64>,
    key_expires_after: Option<u64>,
}

impl Signature {
    pub(super) fn read(body: &[u8]) -> Result<Self, ChartError> {
        let mut bytes = ByteReader(body);
        if bytes.byte()? != 4 {
            return fail("only OpenPGP signatures of version 4 are supported");
        }
        let (kind, algorithm, hash) = (bytes.byte()?, bytes.byte()?, bytes.byte()?);
        let count = bytes.number(2)?;
        let hashed = bytes.take(count)?;
        let mut trailer = body[..6 + count].to_vec();
        trailer.extend([4, 0xff]);
        trailer.extend(((6 + count) as u32).to_be_bytes());
        let count = bytes.number(2)?;
        let unhashed = bytes.take(count)?;
        bytes.take(2)?;
        let mut signature = Self {
            kind,
            hash,
            issuer: None,
            trailer,
            values: Vec::new(),
            may_sign: None,
            embedded: None,
            created: 0,
            expires_after: None,
            key_expires_after: None,
        };
        signature.subpackets(unhashed, false)?;
        signature.subpackets(hashed, true)?;
        if algorithm == 27 {
            signature.values.push(bytes.take(64)?.to_vec());
        } else {
            while !bytes.0.is_empty() {
                signature.values.push(bytes.mpi()?.to_vec());
            }
        }
        Ok(signature)
    }

    /// Only what is hashed is vouched for; the issuer is a mere hint.
    fn subpackets(&mut self, area: &[u8], hashed: bool) -> Result<(), ChartError> {
        let mut bytes = ByteReader(area);
        while !bytes.0.is_empty() {
            let first = bytes.number(1)?;
            let count = match first {
                0..192 => first,
                192..255 => ((first - 192) << 8) + bytes.number(1)? + 192,
                _ => bytes.number(4)?,
            };
            let mut content = ByteReader(bytes.take(count)?);
            let kind = content.byte()?;
            match kind & 0x7f {
                2 if hashed => self.created = content.number(4)? as u64,
                3 if hashed => self.expires_after = Some(content.number(4)? as u64),
                9 if hashed => self.key_expires_after = Some(content.number(4)? as u64),
                16 => self.issuer = Some(content.take(8)?.to_vec()),
                27 if hashed => self.may_sign = content.0.first().map(|flags| flags & 2 != 0),
                // Signed by the subkey, so it may stand where nothing else vouches for it.
                32 => self.embedded = Some(content.0.to_vec()),
                33 if content.0.len() == 21 => self.issuer = Some(content.0[13..].to_vec()),
                // Kinds we know and have no use for, and those that may be ignored.
                _ if kind & 0x80 == 0 || matches!(kind & 0x7f, 4..=34) => {}
                other => return fail(format!("the signature has a critical part {other} we do not know")),
            }
        }
        Ok(())
    }

    /// Whether it was made before `now` and is still meant.
    pub(super) fn is_current(&self, now: u64) -> bool {
        self.created <= now + CLOCK_SKEW && !self.is_expired(now)
    }

    fn is_expired(&self, now: u64) -> bool {
        self.expires_after.is_some_and(|after| after > 0 && self.created + after <= now)
    }

    /// Whether its digest can be forged: MD5, SHA-1 and RIPEMD-160.
    pub(super) fn is_weak(&self) -> bool {
        matches!(self.hash, 1..=3)
    }

    /// When the key in a packet ends by what this signature says, in seconds since 1970.
    pub(super) fn key_expires(&self, key: &[u8]) -> Option<u64> {
        let created = key.get(1..5)?.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        self.key_expires_after.filter(|after| *after > 0).map(|after| created + after)
    }
}

/// Seconds by which clocks of two machines may differ.
const CLOCK_SKEW: u64 = 60 * 60;

/// The text as it is hashed: lines without trailing blanks, joined by CR LF.
fn canonical(text: &str) -> Vec<u8> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let lines: Vec<&str> = text.split('\n').map(|line| line.trim_end_matches([' ', '\t', '\r'])).collect();
    lines.join("\r\n").into_bytes()
}

/// Signs text in the clear, as Helm and GnuPG do.
pub(super) fn clear_sign(
    text: &str,
    signer: &SigningKey,
    fingerprint: &[u8; 20],
    now: u64,
) -> Result<String, ChartError> {
    let mut hashed = vec![5, 2];
    hashed.extend((now as u32).to_be_bytes());
    hashed.extend([22, 33, 4]);
    hashed.extend_from_slice(fingerprint);
    let mut body = vec![4, 0x01, signer.algorithm(), 10];
    body.extend((hashed.len() as u16).to_be_bytes());
    body.extend(&hashed);
    let trailer = [&body[..], &[4, 0xff], &(body.len() as u32).to_be_bytes()].concat();
    let message = [canonical(text), trailer].concat();
    let mut unhashed = Vec::new();
    length(9, &mut unhashed);
    unhashed.push(16);
    unhashed.extend_from_slice(&fingerprint[12..]);
    body.extend((unhashed.len() as u16).to_be_bytes());
    body.extend(unhashed);
    body.extend_from_slice(&<sha2::Sha512 as sha2::Digest>::digest(&message)[..2]);
    body.extend(signer.sign(&message)?);
    let escaped: String = text
        .split_inclusive('\n')
        .map(|line| if line.starts_with('-') { format!("- {line}") } else { line.to_owned() })
        .collect();
    let end = if escaped.ends_with('\n') { "" } else { "\n" };
    Ok(format!(
        "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n{escaped}{end}{}",
        armour("PGP SIGNATURE", &packet(2, &body))
    ))
}

/// The signed text, without what protects its dashes, and the signature's data.
pub(super) fn clear_read(message: &str) -> Result<(String, Vec<u8>), ChartError> {
    let missing = || ChartError::Publish("signature block not found".into());
    let message = message.replace("\r\n", "\n");
    let (_, rest) = message.split_once("-----BEGIN PGP SIGNED MESSAGE-----\n").ok_or_else(missing)?;
    // Headers end with an empty line; there may be none.
    let text = match rest.strip_prefix('\n') {
        Some(text) => text,
        None => rest.split_once("\n\n").ok_or_else(missing)?.1,
    };
    let (text, _) = text.split_once("\n-----BEGIN PGP SIGNATURE-----").ok_or_else(missing)?;
    let text: Vec<&str> = text.split('\n').map(|line| line.strip_prefix("- ").unwrap_or(line)).collect();
    Ok((text.join("\n"), unarmour(&message, "PGP SIGNATURE")?))
}

/// Finds whose signature is under the text; the fingerprint is that of the key which made it.
pub(super) fn check<'k>(
    text: &str,
    signatures: &[u8],
    identities: &'k [KeyIdentity],
    now: u64,
) -> Result<(&'k KeyIdentity, [u8; 20]), ChartError> {
    let content = canonical(text);
    for packet in packets(signatures)?.iter().filter(|packet| packet.tag == 2) {
        let signature = Signature::read(&packet.body)?;
        if signature.kind > 1 {
            continue;
        }
        let all = identities.iter().flat_map(|identity| identity.keys.iter().map(move |key| (identity, key)));
        for (identity, IdentityKey { key, problem }) in all {
            if signature.issuer.as_deref().is_some_and(|issuer| issuer != key.id()) {
                continue;
            }
            if signature.is_weak() {
                let hash = signature.hash;
                return fail(format!("openpgp: signatures with the weak hash {hash} are not accepted"));
            }
            if !key.made(&signature, &content)? {
                // Without a name on it, another key may have made it.
                if signature.issuer.is_none() {
                    continue;
                }
                return fail("openpgp: invalid signature: the text was changed after it was signed");
            }
            if let Some(problem) = problem {
                return fail(format!("openpgp: the key that signed is not to be trusted: {problem}"));
            }
            let earliest = key.created.max(signature.created);
            if key.created > signature.created || earliest > now + CLOCK_SKEW {
                return fail("openpgp: the signature or its key is from the future");
            }
            if key.is_expired(now) || signature.is_expired(now) {
                return fail("openpgp: the signature or its key has expired");
            }
            return Ok((identity, key.fingerprint));
        }
    }
    fail("openpgp: signature made by unknown entity")
}
