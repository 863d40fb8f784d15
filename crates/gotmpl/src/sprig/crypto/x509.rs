//! X.509 certificates in the shape Go writes them.

use std::net::IpAddr;

use sha1::Digest as _;

use super::super::{dates, random};
use super::keys::PrivateKey;
use super::{CertificatePair, der};
use crate::func::{FuncArgs, FuncContext, FuncError, FuncResult};
use crate::value::GoValue;
use slipway_go::binary;
use slipway_go::time::{Duration, GoTime, GoZone};

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const SUBJECT_KEY_ID: &[u8] = &[0x55, 0x1d, 0x0e];
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
const AUTHORITY_KEY_ID: &[u8] = &[0x55, 0x1d, 0x23];
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
const SERVER_AUTH: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01];
const CLIENT_AUTH: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x02];

const HOURS_24: i64 = 24 * 3600 * 1_000_000_000;

/// What a certificate is to say.
struct Template {
    subject: Vec<u8>,
    ips: Vec<Vec<u8>>,
    names: Vec<Vec<u8>>,
    days: i64,
    authority: bool,
}

/// Who signs.
struct Issuer {
    subject: Vec<u8>,
    key_id: Vec<u8>,
    key: PrivateKey,
}

fn creation(problem: impl std::fmt::Display) -> FuncError {
    FuncError::new(format!("error creating certificate: {problem}"))
}

fn private_key(ctx: &mut FuncContext<'_>, pem: Option<&[u8]>) -> Result<PrivateKey, FuncError> {
    match pem {
        Some(pem) => {
            PrivateKey::from_pem(pem).map_err(|error| FuncError::new(format!("parsing private key: {error}")))
        }
        None => {
            ctx.work(400_000)?;
            super::keys::rsa(ctx, 2048)
        }
    }
}

/// `genCA`.
pub(super) fn authority(ctx: &mut FuncContext<'_>, name: &[u8], days: i64, pem: Option<&[u8]>) -> FuncResult {
    let key = private_key(ctx, pem)?;
    let template =
        Template { subject: subject(name), ips: Vec::new(), names: Vec::new(), days, authority: true };
    finish(ctx, &template, &key, None)
}

/// `genSelfSignedCert`.
pub(super) fn self_signed(ctx: &mut FuncContext<'_>, args: FuncArgs<'_>, pem: Option<&[u8]>) -> FuncResult {
    let key = private_key(ctx, pem)?;
    let template = leaf(args)?;
    finish(ctx, &template, &key, None)
}

/// `genSignedCert`.
pub(super) fn signed(ctx: &mut FuncContext<'_>, args: FuncArgs<'_>, pem: Option<&[u8]>) -> FuncResult {
    let key = private_key(ctx, pem)?;
    let authority = match args.get(4) {
        GoValue::Object(object) | GoValue::Ptr(object) => object.downcast::<CertificatePair>(),
        _ => None,
    };
    let Some(authority) = authority else { return Err(FuncError::nil_dereference()) };
    let issuer = issuer(authority)?;
    let template = leaf(args)?;
    finish(ctx, &template, &key, Some(&issuer.0)).and_then(|certificate| {
        if issuer.0.key.public_bits() == issuer.1 {
            Ok(certificate)
        } else {
            Err(creation("x509: provided PrivateKey doesn't match parent's PublicKey"))
        }
    })
}

fn leaf(args: FuncArgs<'_>) -> Result<Template, FuncError> {
    let ips = args.list(1).to_vec();
    let names = args.list(2).to_vec();
    let text = |value: &GoValue, what: &str| match value {
        GoValue::Str(text) => Ok(text.to_vec()),
        other => {
            let shown = crate::fmt::sprint_value(other, 1 << 16)?;
            Err(FuncError::new(format!("{what}: {} is not a string", String::from_utf8_lossy(&shown))))
        }
    };
    let ips = ips
        .iter()
        .map(|ip| {
            let ip = text(ip, "error parsing ip")?;
            let shown = String::from_utf8_lossy(&ip).into_owned();
            match shown.parse::<IpAddr>() {
                Ok(IpAddr::V4(ip)) => Ok(ip.octets().to_vec()),
                Ok(IpAddr::V6(ip)) => {
                    Ok(ip.to_ipv4_mapped().map_or_else(|| ip.octets().to_vec(), |ip| ip.octets().to_vec()))
                }
                Err(_) => Err(FuncError::new(format!("error parsing ip: {shown}"))),
            }
        })
        .collect::<Result<Vec<_>, FuncError>>()?;
    let names = names
        .iter()
        .map(|name| text(name, "error processing alternate dns name"))
        .collect::<Result<Vec<_>, FuncError>>()?;
    if let Some(name) = names.iter().find(|name| !name.is_ascii()) {
        let shown = super::super::quoted(name);
        return Err(creation(format!("x509: {shown} cannot be encoded as an IA5String")));
    }
    Ok(Template { subject: subject(args.str(0)), ips, names, days: args.int(3), authority: false })
}

/// A name of nothing but a common name, printable text if it can be.
fn subject(name: &[u8]) -> Vec<u8> {
    if name.is_empty() {
        return der::sequence(&[]);
    }
    let printable = |byte: &u8| byte.is_ascii_alphanumeric() || b" '()+,-./:=?*&".contains(byte);
    let tag = if name.iter().all(printable) { 0x13 } else { 0x0c };
    let attribute = der::sequence(&[der::element(der::OID, COMMON_NAME), der::element(tag, name)]);
    der::sequence(&[der::element(der::SET, &attribute)])
}

fn extension(oid: &[u8], critical: bool, content: &[u8]) -> Vec<u8> {
    let mut parts = vec![der::element(der::OID, oid)];
    if critical {
        parts.push(der::element(der::BOOLEAN, &[0xff]));
    }
    parts.push(der::element(der::OCTET_STRING, content));
    der::sequence(&parts)
}

fn instant(time: &GoTime) -> Vec<u8> {
    let year = time.civil().year;
    if (1950..2050).contains(&year) {
        der::element(0x17, &time.format(b"060102150405Z"))
    } else {
        der::element(0x18, &time.format(b"20060102150405Z"))
    }
}

fn finish(
    ctx: &mut FuncContext<'_>,
    template: &Template,
    key: &PrivateKey,
    issuer: Option<&Issuer>,
) -> FuncResult {
    let signer = issuer.map_or(key, |issuer| &issuer.key);
    if matches!(key, PrivateKey::Dsa) || matches!(signer, PrivateKey::Dsa) {
        return Err(creation("x509: certificate private key does not implement crypto.Signer"));
    }
    let issuer_name = issuer.map_or(&template.subject, |issuer| &issuer.subject);
    let mut start = dates::now(ctx).in_zone(GoZone::Utc);
    start.monotonic = None;
    let end = start.add(Duration(HOURS_24.wrapping_mul(template.days)));
    if end.civil().year > 9999 || end.civil().year < 0 {
        return Err(creation("asn1: structure error: cannot represent time as GeneralizedTime"));
    }

    // Digital signature and key encipherment, for an authority also certificate signing.
    let usage: &[u8] = if template.authority { &[2, 0xa4] } else { &[5, 0xa0] };
    let purposes = der::sequence(&[der::element(der::OID, SERVER_AUTH), der::element(der::OID, CLIENT_AUTH)]);
    let constraints = if template.authority {
        der::sequence(&[der::element(der::BOOLEAN, &[0xff])])
    } else {
        der::sequence(&[])
    };
    let mut extensions = vec![
        extension(KEY_USAGE, true, &der::element(der::BIT_STRING, usage)),
        extension(EXTENDED_KEY_USAGE, false, &purposes),
        extension(BASIC_CONSTRAINTS, true, &constraints),
    ];
    if template.authority {
        let id = sha1::Sha1::digest(key.public_bits());
        extensions.push(extension(SUBJECT_KEY_ID, false, &der::element(der::OCTET_STRING, &id)));
    }
    if let Some(issuer) = issuer
        && issuer.subject != template.subject
        && !issuer.key_id.is_empty()
    {
        let id = der::sequence(&[der::element(0x80, &issuer.key_id)]);
        extensions.push(extension(AUTHORITY_KEY_ID, false, &id));
    }
    if !template.names.is_empty() || !template.ips.is_empty() {
        let names = template.names.iter().map(|name| der::element(0x82, name));
        let ips = template.ips.iter().map(|ip| der::element(0x87, ip));
        let all: Vec<Vec<u8>> = names.chain(ips).collect();
        // Names that stand for an empty subject must be understood.
        let critical = template.subject == der::sequence(&[]);
        extensions.push(extension(ALTERNATIVE_NAMES, critical, &der::sequence(&all)));
    }

    let serial: [u8; 16] = random::array(ctx);
    let body = der::sequence(&[
        der::element(0xa0, &der::integer(&[2])),
        der::integer(&serial),
        signer.signature_algorithm(),
        issuer_name.clone(),
        der::sequence(&[instant(&start), instant(&end)]),
        template.subject.clone(),
        key.public_info(),
        der::element(0xa3, &der::sequence(&extensions)),
    ]);
    let signature = signer.sign(ctx, &body).map_err(creation)?;
    let whole = der::sequence(&[body, signer.signature_algorithm(), der::bits(&signature)]);
    Ok(GoValue::object(CertificatePair {
        cert: der::pem("CERTIFICATE", &whole).into(),
        key: key.to_pem().into(),
    }))
}

/// What signing needs of a parsed certificate.
struct Parsed {
    subject: Vec<u8>,
    key_bits: Vec<u8>,
    key_id: Vec<u8>,
}

fn parse(bytes: &[u8]) -> Result<Parsed, &'static str> {
    let (whole, _) = der::expect(bytes, der::SEQUENCE).ok_or("x509: malformed certificate")?;
    let malformed = "x509: malformed tbs certificate";
    let (body, _) = der::expect(whole, der::SEQUENCE).ok_or(malformed)?;
    let mut rest = body;
    if let Some((_, after)) = der::expect(rest, 0xa0) {
        rest = after;
    }
    let (_, rest) = der::expect(rest, der::INTEGER).ok_or("x509: malformed serial number")?;
    let (_, rest) =
        der::expect(rest, der::SEQUENCE).ok_or("x509: malformed signature algorithm identifier")?;
    let (_, rest) = der::expect(rest, der::SEQUENCE).ok_or("x509: malformed issuer")?;
    let (_, rest) = der::expect(rest, der::SEQUENCE).ok_or("x509: malformed validity")?;
    let (subject, rest) = der::expect(rest, der::SEQUENCE).ok_or("x509: malformed issuer")?;
    let (key, rest) = der::expect(rest, der::SEQUENCE).ok_or("x509: malformed spki")?;
    let key = der::elements(key).ok_or("x509: malformed public key algorithm identifier")?;
    let key_bits = match key.as_slice() {
        [_, (der::BIT_STRING, bits)] => bits.get(1..).unwrap_or_default().to_vec(),
        _ => return Err("x509: malformed subjectPublicKey"),
    };
    let mut key_id = Vec::new();
    let optional = der::elements(rest).ok_or(malformed)?;
    if let Some((_, extensions)) = optional.iter().find(|(tag, _)| *tag == 0xa3) {
        let (extensions, _) = der::expect(extensions, der::SEQUENCE).ok_or("x509: malformed extensions")?;
        for (_, extension) in der::elements(extensions).ok_or("x509: malformed extension")? {
            let parts = der::elements(extension).ok_or("x509: malformed extension")?;
            if parts.first() == Some(&(der::OID, SUBJECT_KEY_ID))
                && let Some((der::OCTET_STRING, value)) = parts.last()
            {
                let (id, _) =
                    der::expect(value, der::OCTET_STRING).ok_or("x509: invalid subject key identifier")?;
                key_id = id.to_vec();
            }
        }
    }
    Ok(Parsed { subject: der::element(der::SEQUENCE, subject), key_bits, key_id })
}

/// The signer, and the public key its certificate holds.
fn issuer(authority: &CertificatePair) -> Result<(Issuer, Vec<u8>), FuncError> {
    let Some((_, bytes)) = der::from_pem(&authority.cert) else {
        return Err(FuncError::new("unable to decode certificate"));
    };
    let parsed = parse(&bytes).map_err(|error| {
        FuncError::new(format!("error parsing certificate: decodedSignerCert.Bytes: {error}"))
    })?;
    let key = PrivateKey::from_pem(&authority.key)
        .map_err(|error| FuncError::new(format!("error parsing private key: {error}")))?;
    let public = if matches!(key, PrivateKey::Dsa) { Vec::new() } else { parsed.key_bits };
    Ok((Issuer { subject: parsed.subject, key_id: parsed.key_id, key }, public))
}

/// `buildCustomCert`: a certificate made elsewhere.
pub(super) fn build_custom(cert: &[u8], key: &[u8]) -> FuncResult {
    let cert =
        binary::base64_decode(cert).map_err(|_| FuncError::new("unable to decode base64 certificate"))?;
    let key =
        binary::base64_decode(key).map_err(|_| FuncError::new("unable to decode base64 private key"))?;
    let Some((_, bytes)) = der::from_pem(&cert) else {
        return Err(FuncError::new("unable to decode certificate"));
    };
    parse(&bytes)
        .map_err(|error| FuncError::new(format!("error parsing certificate: decodedCert.Bytes: {error}")))?;
    PrivateKey::from_pem(&key)
        .map_err(|error| FuncError::new(format!("error parsing private key: {error}")))?;
    Ok(GoValue::object(CertificatePair { cert: cert.into(), key: key.into() }))
}
