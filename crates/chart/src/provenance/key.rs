//! Keys and keyrings: public keys to check signatures with, secret keys to make them.

use aes::cipher::{BlockCipherEncrypt as _, KeyInit as _};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{self, Ed25519KeyPair, KeyPair as _, RsaKeyPair, UnparsedPublicKey};
use sha1::Sha1;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

use super::packet::{ByteReader, fail, mpi};
use super::signature::Signature;
use crate::error::ChartError;

/// One key that may sign.
#[derive(Clone, Debug)]
pub(super) struct OpenPgpKey {
    pub(super) fingerprint: [u8; 20],
    pub(super) public: PublicKey,
    /// When it was made, in seconds since 1970.
    pub(super) created: u64,
    /// The packet from which the secret part can be had.
    pub(super) secret: Option<Vec<u8>>,
    pub(super) expires: Option<u64>,
}

/// The public part, by algorithm.
#[derive(Clone, Debug)]
pub(super) enum PublicKey {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    Ed25519(Vec<u8>),
    /// Known to be a key, but not one we can use.
    Other(u8),
}

/// Ed25519 in the older encoding.
const ED25519_OID: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0xda, 0x47, 0x0f, 0x01];

impl OpenPgpKey {
    /// Reads the public fields; what is left of the packet is the secret part.
    pub(super) fn read(body: &[u8]) -> Result<(Self, &[u8]), ChartError> {
        let mut bytes = ByteReader(body);
        if bytes.byte()? != 4 {
            return fail("only OpenPGP keys of version 4 are supported");
        }
        let created = bytes.number(4)? as u64;
        let algorithm = bytes.byte()?;
        let public = match algorithm {
            1 | 3 => PublicKey::Rsa { n: bytes.mpi()?.to_vec(), e: bytes.mpi()?.to_vec() },
            22 => {
                let length = bytes.number(1)?;
                let curve = bytes.take(length)?;
                let point = bytes.mpi()?;
                match point.split_first() {
                    Some((0x40, point)) if curve == ED25519_OID => PublicKey::Ed25519(point.to_vec()),
                    _ => PublicKey::Other(algorithm),
                }
            }
            27 => PublicKey::Ed25519(bytes.take(32)?.to_vec()),
            _ => PublicKey::Other(algorithm),
        };
        let public_length = body.len() - bytes.0.len();
        let fingerprint = Sha1::digest(hashed_key(&body[..public_length])).into();
        Ok((Self { fingerprint, public, created, secret: None, expires: None }, bytes.0))
    }

    pub(super) fn id(&self) -> &[u8] {
        &self.fingerprint[12..]
    }

    pub(super) fn is_expired(&self, now: u64) -> bool {
        self.expires.is_some_and(|end| end <= now)
    }

    /// Whether the signature is this key's over the given content.
    pub(super) fn made(&self, signature: &Signature, content: &[u8]) -> Result<bool, ChartError> {
        let message = [content, &signature.trailer].concat();
        match &self.public {
            PublicKey::Rsa { n, e } => {
                let parameters = match signature.hash {
                    2 => &signature::RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY,
                    8 => &signature::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
                    9 => &signature::RSA_PKCS1_2048_8192_SHA384,
                    10 => &signature::RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY,
                    other => return fail(format!("signatures with hash {other} are not accepted")),
                };
                let mut value = signature.values.first().cloned().unwrap_or_default();
                // A number loses its leading zeros; the signature is as long as the modulus.
                while value.len() < n.len() {
                    value.insert(0, 0);
                }
                let key = signature::RsaPublicKeyComponents { n, e };
                Ok(key.verify(parameters, &message, &value).is_ok())
            }
            PublicKey::Ed25519(point) => {
                let digest = digest(signature.hash, &message)?;
                let value: Vec<u8> = match signature.values.as_slice() {
                    [whole] => whole.clone(),
                    [r, s] if r.len() <= 32 && s.len() <= 32 => {
                        let mut both = vec![0; 64];
                        both[32 - r.len()..32].copy_from_slice(r);
                        both[64 - s.len()..].copy_from_slice(s);
                        both
                    }
                    _ => return Ok(false),
                };
                Ok(UnparsedPublicKey::new(&signature::ED25519, point).verify(&digest, &value).is_ok())
            }
            PublicKey::Other(algorithm) => {
                fail(format!("keys of algorithm {algorithm} are not supported; RSA and Ed25519 are"))
            }
        }
    }

    /// The secret key, ready to sign.
    pub(super) fn unlock(&self, passphrase: &[u8]) -> Result<SigningKey, ChartError> {
        let Some(secret) = &self.secret else {
            return fail("the keyring has only the public part of the key");
        };
        let plain = unlock(secret, passphrase)?;
        let mut bytes = ByteReader(&plain);
        let bad = || ChartError::Publish("the secret key is damaged".into());
        match &self.public {
            PublicKey::Rsa { n, e } => {
                let (d, p, q, u) = (bytes.mpi()?, bytes.mpi()?, bytes.mpi()?, bytes.mpi()?);
                // OpenPGP keeps p⁻¹ mod q, PKCS#1 wants q⁻¹ mod p: the two primes change places.
                let (p, q) = (q, p);
                let one_less = |prime: &[u8]| {
                    let mut value = prime.to_vec();
                    if let Some(last) = value.last_mut() {
                        *last &= !1;
                    }
                    value
                };
                let rest = |prime: &[u8]| remainder(d, &one_less(prime));
                let der = der_sequence(&[&[0], n, e, d, p, q, &rest(p), &rest(q), u]);
                let pair = RsaKeyPair::from_der(&der).map_err(|_| bad())?;
                Ok(SigningKey::Rsa(pair))
            }
            PublicKey::Ed25519(public) => {
                let seed = if plain.len() == 32 { plain.as_slice() } else { bytes.mpi()? };
                let mut whole = [0; 32];
                whole[32usize.saturating_sub(seed.len())..].copy_from_slice(seed);
                let pair = Ed25519KeyPair::from_seed_and_public_key(&whole, public).map_err(|_| bad())?;
                debug_assert_eq!(pair.public_key().as_ref(), public);
                Ok(SigningKey::Ed25519(pair))
            }
            PublicKey::Other(algorithm) => fail(format!("keys of algorithm {algorithm} cannot sign here")),
        }
    }
}

/// A secret key in use.
pub(super) enum SigningKey {
    Rsa(RsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl SigningKey {
    /// The algorithm's number.
    pub(super) fn algorithm(&self) -> u8 {
        match self {
            Self::Rsa(_) => 1,
            Self::Ed25519(_) => 22,
        }
    }

    /// Signs with SHA-512; gives the numbers of the signature as they are written.
    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, ChartError> {
        let mut out = Vec::new();
        match self {
            Self::Rsa(pair) => {
                let mut value = vec![0; pair.public_modulus_len()];
                pair.sign(&signature::RSA_PKCS1_SHA512, &SystemRandom::new(), message, &mut value)
                    .map_err(|_| ChartError::Publish("signing failed".into()))?;
                mpi(&value, &mut out);
            }
            Self::Ed25519(pair) => {
                let value = pair.sign(&digest(10, message)?);
                let (r, s) = value.as_ref().split_at(32);
                mpi(r, &mut out);
                mpi(s, &mut out);
            }
        }
        Ok(out)
    }
}

/// Long division of unsigned big-endian numbers, bit by bit: used twice a signing.
fn remainder(number: &[u8], divisor: &[u8]) -> Vec<u8> {
    let mut rest = vec![0_u8; divisor.len() + 1];
    let divisor = [&[0], divisor].concat();
    for byte in number {
        for bit in (0..8).rev() {
            let mut carry = byte >> bit & 1;
            for digit in rest.iter_mut().rev() {
                let next = *digit >> 7;
                *digit = *digit << 1 | carry;
                carry = next;
            }
            if rest >= divisor {
                let mut borrow = 0_i16;
                for (digit, other) in rest.iter_mut().zip(&divisor).rev() {
                    let value = i16::from(*digit) - i16::from(*other) - borrow;
                    borrow = i16::from(value < 0);
                    *digit = value.rem_euclid(256) as u8;
                }
            }
        }
    }
    rest
}

/// A DER sequence of unsigned integers.
fn der_sequence(numbers: &[&[u8]]) -> Vec<u8> {
    fn length(length: usize, out: &mut Vec<u8>) {
        match length {
            0..128 => out.push(length as u8),
            128..256 => out.extend([0x81, length as u8]),
            _ => out.extend([0x82, (length >> 8) as u8, length as u8]),
        }
    }
    let mut body = Vec::new();
    for number in numbers {
        let start = number.iter().position(|byte| *byte != 0).unwrap_or(number.len().saturating_sub(1));
        let number = &number[start..];
        let padded = number.first().is_some_and(|first| first & 0x80 != 0);
        body.push(2);
        length(number.len() + usize::from(padded), &mut body);
        body.extend(padded.then_some(0));
        body.extend_from_slice(number);
    }
    let mut out = vec![0x30];
    length(body.len(), &mut out);
    out.append(&mut body);
    out
}

/// How a key goes into a hash.
pub(super) fn hashed_key(body: &[u8]) -> Vec<u8> {
    let mut out = vec![0x99];
    out.extend((body.len() as u16).to_be_bytes());
    out.extend_from_slice(body);
    out
}

/// A digest by OpenPGP's number.
fn digest(algorithm: u8, bytes: &[u8]) -> Result<Vec<u8>, ChartError> {
    Ok(match algorithm {
        2 => Sha1::digest(bytes).to_vec(),
        8 => Sha256::digest(bytes).to_vec(),
        9 => Sha384::digest(bytes).to_vec(),
        10 => Sha512::digest(bytes).to_vec(),
        11 => Sha224::digest(bytes).to_vec(),
        other => return fail(format!("hash {other} is not supported")),
    })
}

/// The digest of some zeros and of `unit` repeated up to a length.
fn stretched(algorithm: u8, zeros: usize, unit: &[u8], total: usize) -> Result<Vec<u8>, ChartError> {
    fn run<D: Digest>(zeros: usize, unit: &[u8], total: usize) -> Vec<u8> {
        let mut hash = D::new();
        hash.update(vec![0; zeros]);
        // Whole pages of repetitions, then what is left.
        let page = unit.repeat((4096 / unit.len().max(1)).max(1));
        let mut left = if unit.is_empty() { 0 } else { total };
        while left > 0 {
            let now = left.min(page.len());
            hash.update(&page[..now]);
            left -= now;
        }
        hash.finalize().to_vec()
    }
    Ok(match algorithm {
        2 => run::<Sha1>(zeros, unit, total),
        8 => run::<Sha256>(zeros, unit, total),
        9 => run::<Sha384>(zeros, unit, total),
        10 => run::<Sha512>(zeros, unit, total),
        11 => run::<Sha224>(zeros, unit, total),
        other => return fail(format!("hash {other} is not supported")),
    })
}

/// The secret fields in the clear.
fn unlock(secret: &[u8], passphrase: &[u8]) -> Result<Vec<u8>, ChartError> {
    let mut bytes = ByteReader(secret);
    let usage = bytes.byte()?;
    if usage == 0 {
        // The last two bytes are a sum.
        let plain = bytes.0.len().checked_sub(2).map(|end| &bytes.0[..end]);
        return plain
            .map(<[u8]>::to_vec)
            .ok_or_else(|| ChartError::Publish("the secret key is cut off".into()));
    }
    if usage != 254 && usage != 255 {
        return fail(format!("secret keys protected by method {usage} are not supported"));
    }
    let (cipher, kind, hash) = (bytes.byte()?, bytes.byte()?, bytes.byte()?);
    let key_length = match cipher {
        7 => 16,
        8 => 24,
        9 => 32,
        other => return fail(format!("secret keys encrypted with cipher {other} are not supported; AES is")),
    };
    let (salt, count) = match kind {
        0 => (&[][..], 0),
        1 => (bytes.take(8)?, 0),
        3 => {
            let salt = bytes.take(8)?;
            let coded = bytes.number(1)?;
            (salt, (16 + (coded & 15)) << ((coded >> 4) + 6))
        }
        101 => return fail("the keyring has no secret part for this key: export it from GnuPG first"),
        other => return fail(format!("passphrases stretched by method {other} are not supported")),
    };
    let unit = [salt, passphrase].concat();
    let mut key = Vec::new();
    let mut zeros = 0;
    while key.len() < key_length {
        key.extend(stretched(hash, zeros, &unit, count.max(unit.len()))?);
        zeros += 1;
    }
    key.truncate(key_length);
    let iv = bytes.take(16)?;
    let mut plain = cfb_decrypt(&key, iv, bytes.0)?;
    let wrong = || ChartError::Publish("the passphrase does not fit the key".into());
    if usage == 254 {
        let at = plain.len().checked_sub(20).ok_or_else(wrong)?;
        if Sha1::digest(&plain[..at])[..] != plain[at..] {
            return Err(wrong());
        }
        plain.truncate(at);
    } else {
        let at = plain.len().checked_sub(2).ok_or_else(wrong)?;
        let sum = plain[..at].iter().fold(0_u16, |sum, byte| sum.wrapping_add(u16::from(*byte)));
        if sum.to_be_bytes() != plain[at..] {
            return Err(wrong());
        }
        plain.truncate(at);
    }
    Ok(plain)
}

fn cfb_decrypt(key: &[u8], iv: &[u8], data: &[u8]) -> Result<Vec<u8>, ChartError> {
    let bad = |_| ChartError::Publish("the secret key is damaged".into());
    let mut before: [u8; 16] = iv.try_into().unwrap_or_default();
    let mut plain = Vec::with_capacity(data.len());
    let encrypt: Box<dyn Fn(&mut aes::Block)> = match key.len() {
        16 => {
            let cipher = aes::Aes128::new_from_slice(key).map_err(bad)?;
            Box::new(move |block| cipher.encrypt_block(block))
        }
        24 => {
            let cipher = aes::Aes192::new_from_slice(key).map_err(bad)?;
            Box::new(move |block| cipher.encrypt_block(block))
        }
        _ => {
            let cipher = aes::Aes256::new_from_slice(key).map_err(bad)?;
            Box::new(move |block| cipher.encrypt_block(block))
        }
    };
    for chunk in data.chunks(16) {
        let mut block = aes::Block::from(before);
        encrypt(&mut block);
        plain.extend(chunk.iter().zip(block.iter()).map(|(byte, mask)| byte ^ mask));
        before[..chunk.len()].copy_from_slice(chunk);
    }
    Ok(plain)
}
