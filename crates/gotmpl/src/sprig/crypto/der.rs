//! DER and PEM: as much as keys and certificates need.

use base64::Engine as _;
use num_bigint::BigUint;

pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;
pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const NULL: u8 = 0x05;
pub(super) const OID: u8 = 0x06;
pub(super) const BOOLEAN: u8 = 0x01;

/// One element.
pub(super) fn write_element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let len = content.len();
    if len < 0x80 {
        out.push(len as u8);
    } else {
        let bytes = len.to_be_bytes();
        let skip = bytes.iter().take_while(|&&byte| byte == 0).count();
        out.push(0x80 | (bytes.len() - skip) as u8);
        out.extend_from_slice(&bytes[skip..]);
    }
    out.extend_from_slice(content);
    out
}

/// A sequence of elements.
pub(super) fn write_sequence(parts: &[Vec<u8>]) -> Vec<u8> {
    write_element(SEQUENCE, &parts.concat())
}

/// A non-negative integer by its big-endian bytes.
pub(super) fn write_integer(bytes: &[u8]) -> Vec<u8> {
    let skip = bytes.iter().take_while(|&&byte| byte == 0).count();
    let bytes = &bytes[skip..];
    if bytes.first().is_none_or(|&byte| byte >= 0x80) {
        return write_element(INTEGER, &[&[0], bytes].concat());
    }
    write_element(INTEGER, bytes)
}

/// A non-negative integer.
pub(super) fn write_number(number: &BigUint) -> Vec<u8> {
    write_integer(&number.to_bytes_be())
}

/// A bit string of whole bytes.
pub(super) fn write_bits(bytes: &[u8]) -> Vec<u8> {
    write_element(BIT_STRING, &[&[0], bytes].concat())
}

/// Reads the first element: tag, content, what follows.
pub(super) fn read_element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (len, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let count = usize::from(first & 0x7f);
        if count == 0 || count > 4 {
            return None;
        }
        let (len, rest) = rest.split_at_checked(count)?;
        (len.iter().fold(0_usize, |len, &byte| len << 8 | usize::from(byte)), rest)
    };
    let (content, rest) = rest.split_at_checked(len)?;
    Some((tag, content, rest))
}

/// Reads an element of a given tag: content and what follows.
pub(super) fn expect_element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    read_element(bytes).filter(|(found, ..)| *found == tag).map(|(_, content, rest)| (content, rest))
}

/// The elements inside a constructed element's content.
pub(super) fn read_elements(mut content: &[u8]) -> Option<Vec<(u8, &[u8])>> {
    let mut out = Vec::new();
    while !content.is_empty() {
        let (tag, inner, rest) = read_element(content)?;
        out.push((tag, inner));
        content = rest;
    }
    Some(out)
}

/// PEM text of one block.
pub(super) fn write_pem(kind: &str, der: &[u8]) -> Vec<u8> {
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let mut out = format!("-----BEGIN {kind}-----\n").into_bytes();
    for line in text.as_bytes().chunks(64) {
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    out.extend_from_slice(format!("-----END {kind}-----\n").as_bytes());
    out
}

/// The first PEM block: its kind and bytes.
pub(super) fn from_pem(text: &[u8]) -> Option<(String, Vec<u8>)> {
    let text = String::from_utf8_lossy(text);
    let mut rest: &str = &text;
    loop {
        let start = if rest.starts_with("-----BEGIN ") { 11 } else { rest.find("\n-----BEGIN ")? + 12 };
        rest = &rest[start..];
        let (kind, after) = rest.split_once('\n')?;
        let Some(kind) = kind.trim_end().strip_suffix("-----") else { continue };
        let end = format!("-----END {kind}-----");
        let Some(at) = after.find(&end) else { continue };
        let (mut body, tail) = after.split_at(at);
        let line_start = body.is_empty() || body.ends_with('\n');
        let closes = tail[end.len()..].lines().next().is_none_or(|line| line.trim().is_empty());
        // Headers, if any, end with a blank line.
        while let Some((line, next)) = body.split_once('\n') {
            if !line.contains(':') {
                break;
            }
            body = next;
        }
        let clean: Vec<u8> = body.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        match base64::engine::general_purpose::STANDARD.decode(&clean) {
            Ok(bytes) if line_start && closes => return Some((kind.to_owned(), bytes)),
            _ => {}
        }
    }
}
