//! Private keys: making them, reading them from PEM, signing with them.

use aws_lc_rs::encoding::{AsBigEndian as _, Curve25519SeedBin, EcPrivateKeyBin};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_P521_SHA512_ASN1_SIGNING,
    EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use num_bigint::BigUint;
use sha2::Digest as _;

use super::super::random;
use super::der;
use crate::func::{FuncContext, FuncError, FuncResult};
use slipway_go::GoError;
use slipway_primes::{DsaParameters, PrimeSeed};

pub(super) const RSA_ENCRYPTION: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const SHA256_WITH_RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b];
const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];

/// An elliptic curve keys are made on.
#[derive(Clone, Copy)]
pub(super) struct EllipticCurve {
    oid: &'static [u8],
    /// Signature algorithm: ECDSA with the hash of the curve's size.
    signature: &'static [u8],
    signing: &'static EcdsaSigningAlgorithm,
    exchange: &'static aws_lc_rs::agreement::Algorithm,
    /// Bytes of a private key.
    size: usize,
    /// The number of points, in hexadecimal.
    order: &'static str,
    hash: fn(&[u8]) -> Vec<u8>,
}

static CURVES: [EllipticCurve; 3] = [
    EllipticCurve {
        oid: &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07],
        signature: &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02],
        signing: &ECDSA_P256_SHA256_ASN1_SIGNING,
        exchange: &aws_lc_rs::agreement::ECDH_P256,
        size: 32,
        order: "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551",
        hash: |message| sha2::Sha256::digest(message).to_vec(),
    },
    EllipticCurve {
        oid: &[0x2b, 0x81, 0x04, 0x00, 0x22],
        signature: &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03],
        signing: &ECDSA_P384_SHA384_ASN1_SIGNING,
        exchange: &aws_lc_rs::agreement::ECDH_P384,
        size: 48,
        order: "ffffffffffffffffffffffffffffffffffffffffffffffffc7634d81f4372ddf581a0db248b0a77aecec196accc52973",
        hash: |message| sha2::Sha384::digest(message).to_vec(),
    },
    EllipticCurve {
        oid: &[0x2b, 0x81, 0x04, 0x00, 0x23],
        signature: &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x04],
        signing: &ECDSA_P521_SHA512_ASN1_SIGNING,
        exchange: &aws_lc_rs::agreement::ECDH_P521,
        size: 66,
        order: "01fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffa51868783bf2f966b7fcc0148f709a5d03bb5c9b8899c47aebb6fb71e91386409",
        hash: |message| sha2::Sha512::digest(message).to_vec(),
    },
];

/// A private key that can be written, and mostly sign.
pub(super) enum PrivateKey {
    Rsa {
        pair: RsaKeyPair,
        /// The key in PKCS #1.
        der: Vec<u8>,
    },
    Ecdsa {
        pair: EcdsaKeyPair,
        curve: EllipticCurve,
        scalar: Vec<u8>,
    },
    Ed25519 {
        pair: Ed25519KeyPair,
        seed: Vec<u8>,
    },
    /// Certificates cannot be signed with DSA.
    Dsa,
}

fn generation_error(what: &str) -> FuncError {
    FuncError::new(format!("failed to generate private key: {what}"))
}

/// A new key in PEM; an unknown kind is told in the result.
pub(super) fn generate_pem(ctx: &mut FuncContext<'_>, kind: &[u8]) -> FuncResult {
    let key = match kind {
        b"" | b"rsa" => {
            ctx.charge_steps(3_000_000)?;
            generate_rsa(ctx, 4096)?
        }
        b"ecdsa" => generate_ecdsa(ctx)?,
        b"ed25519" => generate_ed25519(ctx)?,
        b"dsa" => {
            ctx.charge_steps(5_000_000)?;
            return Ok(dsa_pem(ctx).into());
        }
        _ => return Ok([b"Unknown type ", kind].concat().into()),
    };
    Ok(key.to_pem().into())
}

/// A new RSA key. Its primes are looked for here, two at a time, which takes half of the library's time; the library checks
/// the key.
pub(super) fn generate_rsa(ctx: &FuncContext<'_>, bits: u64) -> Result<PrivateKey, FuncError> {
    rsa_from_der(rsa_from_primes(ctx, bits)).ok_or_else(|| generation_error("RSA"))
}

fn rsa_from_der(der: Vec<u8>) -> Option<PrivateKey> {
    RsaKeyPair::from_der(&der).ok().map(|pair| PrivateKey::Rsa { pair, der })
}

/// A seed drawn from the host, so that a seeded host gives the same keys again.
fn prime_seed(ctx: &FuncContext<'_>) -> PrimeSeed {
    PrimeSeed(random::random_array(ctx))
}

fn rsa_from_primes(ctx: &FuncContext<'_>, bits: u64) -> Vec<u8> {
    let one = BigUint::from(1_u8);
    let exponent = BigUint::from(65_537_u32);
    loop {
        let (p, q) = slipway_primes::prime_pair(bits, [prime_seed(ctx), prime_seed(ctx)]);
        let (p, q) = if p > q { (p, q) } else { (q, p) };
        let (less_p, less_q) = (&p - &one, &q - &one);
        let (Some(d), Some(inverse)) = (exponent.modinv(&(&less_p * &less_q)), q.modinv(&p)) else {
            continue;
        };
        let modulus = &p * &q;
        if modulus.bits() != bits {
            continue;
        }
        return der::write_sequence(&[
            der::write_integer(&[0]),
            der::write_number(&modulus),
            der::write_number(&exponent),
            der::write_number(&d),
            der::write_number(&p),
            der::write_number(&q),
            der::write_number(&(&d % &less_p)),
            der::write_number(&(&d % &less_q)),
            der::write_number(&inverse),
        ]);
    }
}

fn generate_ecdsa(ctx: &FuncContext<'_>) -> Result<PrivateKey, FuncError> {
    let curve = CURVES[0];
    if !ctx.host().is_seeded() {
        let pair = EcdsaKeyPair::generate(curve.signing).map_err(|_| generation_error("ECDSA"))?;
        let scalar: EcPrivateKeyBin<'_> =
            pair.private_key().as_be_bytes().map_err(|_| generation_error("ECDSA"))?;
        let scalar = scalar.as_ref().to_vec();
        return Ok(PrivateKey::Ecdsa { pair, curve, scalar });
    }
    // Nearly every number of the curve's size is a valid key.
    for _ in 0..64 {
        if let Some(key) = ecdsa_from_scalar(curve, random::random_bytes(ctx, curve.size)) {
            return Ok(key);
        }
    }
    Err(generation_error("ECDSA"))
}

fn ecdsa_from_scalar(curve: EllipticCurve, scalar: Vec<u8>) -> Option<PrivateKey> {
    let private = aws_lc_rs::agreement::PrivateKey::from_private_key(curve.exchange, &scalar).ok()?;
    let public = private.compute_public_key().ok()?;
    let pair = EcdsaKeyPair::from_private_key_and_public_key(curve.signing, &scalar, public.as_ref()).ok()?;
    Some(PrivateKey::Ecdsa { pair, curve, scalar })
}

/// An ECDSA signature whose random number comes from the host: the library draws its own.
fn seeded_ecdsa(
    ctx: &FuncContext<'_>,
    curve: &EllipticCurve,
    scalar: &[u8],
    message: &[u8],
) -> Option<Vec<u8>> {
    let order = BigUint::parse_bytes(curve.order.as_bytes(), 16)?;
    let one = BigUint::from(1_u8);
    // As many bits of the hash as the order has: all of them, on the curves we have.
    let hash = BigUint::from_bytes_be(&(curve.hash)(message));
    let key = BigUint::from_bytes_be(scalar);
    for _ in 0..64 {
        let once =
            BigUint::from_bytes_be(&random::random_bytes(ctx, curve.size + 8)) % (&order - &one) + &one;
        let digits = once.to_bytes_be();
        let mut padded = vec![0; curve.size.checked_sub(digits.len())?];
        padded.extend_from_slice(&digits);
        let point = aws_lc_rs::agreement::PrivateKey::from_private_key(curve.exchange, &padded).ok()?;
        let point = point.compute_public_key().ok()?;
        // Uncompressed: a tag, x, y.
        let r = BigUint::from_bytes_be(point.as_ref().get(1..=curve.size)?) % &order;
        let s = once.modinv(&order)? * (&hash + &r * &key) % &order;
        if r.bits() > 0 && s.bits() > 0 {
            return Some(der::write_sequence(&[der::write_number(&r), der::write_number(&s)]));
        }
    }
    None
}

fn generate_ed25519(ctx: &FuncContext<'_>) -> Result<PrivateKey, FuncError> {
    if ctx.host().is_seeded() {
        return ed25519_from_seed(&random::random_array(ctx));
    }
    let failed = |_| generation_error("Ed25519");
    let pair = Ed25519KeyPair::generate().map_err(failed)?;
    let seed: Curve25519SeedBin<'_> = pair.seed().map_err(failed)?.as_be_bytes().map_err(failed)?;
    let seed = seed.as_ref().to_vec();
    Ok(PrivateKey::Ed25519 { pair, seed })
}

fn ed25519_from_seed(seed: &[u8; 32]) -> Result<PrivateKey, FuncError> {
    let pair = Ed25519KeyPair::from_seed_unchecked(seed).map_err(|_| generation_error("Ed25519"))?;
    Ok(PrivateKey::Ed25519 { pair, seed: seed.to_vec() })
}

fn dsa_pem(ctx: &FuncContext<'_>) -> Vec<u8> {
    let DsaParameters { p, q, g } = slipway_primes::dsa_parameters(prime_seed(ctx));
    let one = BigUint::from(1_u8);
    let x = BigUint::from_bytes_be(&random::random_bytes(ctx, 40)) % (&q - &one) + &one;
    let y = g.modpow(&x, &p);
    let parts = [
        der::write_integer(&[0]),
        der::write_number(&p),
        der::write_number(&q),
        der::write_number(&g),
        der::write_number(&y),
        der::write_number(&x),
    ];
    der::write_pem("DSA PRIVATE KEY", &der::write_sequence(&parts))
}

fn algorithm_identifier(oid: &[u8], parameters: &[u8]) -> Vec<u8> {
    der::write_sequence(&[der::write_element(der::OID, oid), parameters.to_vec()])
}

/// Algorithm and key of a PKCS #8 structure: (content of the algorithm, key).
fn pkcs8_parts(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (info, _) = der::expect_element(bytes, der::SEQUENCE)?;
    let (_, rest) = der::expect_element(info, der::INTEGER)?;
    let (algorithm, rest) = der::expect_element(rest, der::SEQUENCE)?;
    let (key, _) = der::expect_element(rest, der::OCTET_STRING)?;
    Some((algorithm, key))
}

fn curve_of(oid: &[u8]) -> Option<EllipticCurve> {
    CURVES.iter().find(|curve| curve.oid == oid).copied()
}

/// Reads a SEC 1 key; its curve may be known from outside.
fn read_sec1(bytes: &[u8], known: Option<EllipticCurve>) -> Option<PrivateKey> {
    let (content, _) = der::expect_element(bytes, der::SEQUENCE)?;
    let (_, rest) = der::expect_element(content, der::INTEGER)?;
    let (scalar, rest) = der::expect_element(rest, der::OCTET_STRING)?;
    let named = der::expect_element(rest, 0xa0)
        .and_then(|(inner, _)| der::expect_element(inner, der::OID))
        .map(|(oid, _)| oid);
    let curve = known.or_else(|| curve_of(named?))?;
    let mut padded = vec![0; curve.size.checked_sub(scalar.len())?];
    padded.extend_from_slice(scalar);
    ecdsa_from_scalar(curve, padded)
}

fn read_pkcs8(bytes: &[u8]) -> Option<PrivateKey> {
    let (algorithm, key) = pkcs8_parts(bytes)?;
    let (oid, parameters) = der::expect_element(algorithm, der::OID)?;
    match oid {
        RSA_ENCRYPTION => rsa_from_der(key.to_vec()),
        EC_PUBLIC_KEY => {
            let (curve, _) = der::expect_element(parameters, der::OID)?;
            read_sec1(key, curve_of(curve))
        }
        ED25519 => {
            let (seed, _) = der::expect_element(key, der::OCTET_STRING)?;
            ed25519_from_seed(&seed.try_into().ok()?).ok()
        }
        _ => None,
    }
}

/// Go's words for bytes that are not the structure `name`.
fn structure_error(bytes: &[u8], name: &str) -> String {
    match der::read_element(bytes) {
        None => "asn1: syntax error: data truncated".to_owned(),
        Some((tag, ..)) if tag != der::SEQUENCE => {
            let (class, number, compound) = (tag >> 6, tag & 0x1f, tag & 0x20 != 0);
            let len = der::read_element(bytes).map_or(0, |(_, content, _)| content.len());
            format!(
                "asn1: structure error: tags don't match (16 vs {{class:{class} tag:{number} length:{len} isCompound:{compound}}}) \
                 {{optional:false explicit:false application:false private:false defaultValue:<nil> tag:<nil> \
                 stringType:0 timeType:0 set:false omitEmpty:false}} {name} @2"
            )
        }
        Some(_) => format!("asn1: structure error: malformed {name}"),
    }
}

impl PrivateKey {
    /// Reads a key in PEM.
    pub(super) fn from_pem(text: &[u8]) -> Result<Self, GoError> {
        let (kind, bytes) = der::from_pem(text).ok_or("no PEM data in input")?;
        match kind.as_str() {
            "PRIVATE KEY" => read_pkcs8(&bytes).ok_or_else(|| {
                GoError::new(format!("decoding PEM as PKCS#8: {}", structure_error(&bytes, "pkcs8")))
            }),
            "RSA PRIVATE KEY" => rsa_from_der(bytes.clone()).ok_or_else(|| {
                GoError::new(format!(
                    "parsing RSA private key from PEM: {}",
                    structure_error(&bytes, "pkcs1PrivateKey")
                ))
            }),
            "EC PRIVATE KEY" => read_sec1(&bytes, None).ok_or_else(|| {
                let error = structure_error(&bytes, "ecPrivateKey");
                GoError::new(format!(
                    "parsing EC private key from PEM: x509: failed to parse EC private key: {error}"
                ))
            }),
            "DSA PRIVATE KEY" => {
                let numbers = der::expect_element(&bytes, der::SEQUENCE)
                    .and_then(|(content, _)| der::read_elements(content));
                match numbers {
                    Some(numbers)
                        if numbers.len() == 6 && numbers.iter().all(|(tag, _)| *tag == der::INTEGER) =>
                    {
                        Ok(Self::Dsa)
                    }
                    _ => {
                        let error = structure_error(&bytes, "DSAKeyFormat");
                        Err(format!("parsing DSA private key from PEM: {error}").into())
                    }
                }
            }
            _ => Err(format!("no private key data in PEM block of type {kind}").into()),
        }
    }

    /// The key in PEM, in the form usual for its kind.
    pub(super) fn to_pem(&self) -> Vec<u8> {
        match self {
            Self::Rsa { der, .. } => der::write_pem("RSA PRIVATE KEY", der),
            Self::Ecdsa { pair, curve, scalar } => {
                let parts = [
                    der::write_integer(&[1]),
                    der::write_element(der::OCTET_STRING, scalar),
                    der::write_element(0xa0, &der::write_element(der::OID, curve.oid)),
                    der::write_element(0xa1, &der::write_bits(pair.public_key().as_ref())),
                ];
                der::write_pem("EC PRIVATE KEY", &der::write_sequence(&parts))
            }
            Self::Ed25519 { seed, .. } => {
                let inner = der::write_element(der::OCTET_STRING, seed);
                let parts = [
                    der::write_integer(&[0]),
                    algorithm_identifier(ED25519, &[]),
                    der::write_element(der::OCTET_STRING, &inner),
                ];
                der::write_pem("PRIVATE KEY", &der::write_sequence(&parts))
            }
            Self::Dsa => Vec::new(),
        }
    }

    /// The public key's bits, as a certificate's key holds them.
    pub(super) fn public_bits(&self) -> Vec<u8> {
        match self {
            Self::Rsa { pair, .. } => pair.public_key().as_ref().to_vec(),
            Self::Ecdsa { pair, .. } => pair.public_key().as_ref().to_vec(),
            Self::Ed25519 { pair, .. } => pair.public_key().as_ref().to_vec(),
            Self::Dsa => Vec::new(),
        }
    }

    /// The public key with its algorithm.
    pub(super) fn public_info(&self) -> Vec<u8> {
        let kind = match self {
            Self::Rsa { .. } => algorithm_identifier(RSA_ENCRYPTION, &der::write_element(der::NULL, &[])),
            Self::Ecdsa { curve, .. } => {
                algorithm_identifier(EC_PUBLIC_KEY, &der::write_element(der::OID, curve.oid))
            }
            Self::Ed25519 { .. } | Self::Dsa => algorithm_identifier(ED25519, &[]),
        };
        der::write_sequence(&[kind, der::write_bits(&self.public_bits())])
    }

    /// The algorithm of this key's signatures.
    pub(super) fn signature_algorithm(&self) -> Vec<u8> {
        match self {
            Self::Rsa { .. } => algorithm_identifier(SHA256_WITH_RSA, &der::write_element(der::NULL, &[])),
            Self::Ecdsa { curve, .. } => algorithm_identifier(curve.signature, &[]),
            Self::Ed25519 { .. } | Self::Dsa => algorithm_identifier(ED25519, &[]),
        }
    }

    /// Signs a message; with a seeded host, always the same way.
    pub(super) fn sign_message(&self, ctx: &FuncContext<'_>, message: &[u8]) -> Result<Vec<u8>, GoError> {
        let random = SystemRandom::new();
        let failed = || GoError::new("x509: signing failed");
        match self {
            Self::Rsa { pair, .. } => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).map_err(|_| failed())?;
                Ok(signature)
            }
            Self::Ecdsa { curve, scalar, .. } if ctx.host().is_seeded() => {
                seeded_ecdsa(ctx, curve, scalar, message).ok_or_else(failed)
            }
            Self::Ecdsa { pair, .. } => {
                pair.sign(&random, message).map(|signature| signature.as_ref().to_vec()).map_err(|_| failed())
            }
            Self::Ed25519 { pair, .. } => Ok(pair.sign(message).as_ref().to_vec()),
            Self::Dsa => Err("x509: certificate private key does not implement crypto.Signer".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, ECDSA_P521_SHA512_ASN1, UnparsedPublicKey};

    use super::*;
    use crate::host::{NoHost, RenderLimits};

    #[test]
    fn our_own_signatures_are_accepted() {
        let limits = RenderLimits::default();
        let ctx = FuncContext::new(&limits, &NoHost);
        for (curve, verifies) in [(0, &ECDSA_P256_SHA256_ASN1), (2, &ECDSA_P521_SHA512_ASN1)] {
            let curve = CURVES[curve];
            let mut scalar = random::random_bytes(&ctx, curve.size);
            scalar[0] = 0;
            let key = ecdsa_from_scalar(curve, scalar.clone()).unwrap();
            let signature = seeded_ecdsa(&ctx, &curve, &scalar, b"message").unwrap();
            let public = UnparsedPublicKey::new(verifies, key.public_bits());
            public.verify(b"message", &signature).unwrap();
            assert!(public.verify(b"other", &signature).is_err());
        }
    }
}
