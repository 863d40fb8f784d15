//! Numbers and quoted text.

use super::Token;
use crate::error::{CelError, CelErrorKind};

type Found = Result<(Token, usize), CelError>;

fn error(at: usize, message: impl Into<String>) -> CelError {
    CelError::new(CelErrorKind::Syntax, at, message)
}

/// Returns true if the text starts with a quote that has a prefix (`r"`, `b'`, `rb"`).
pub(super) fn has_prefix(text: &str) -> bool {
    let bytes = text.as_bytes();
    let quote = |at: usize| matches!(bytes.get(at), Some(b'"' | b'\''));
    let prefix = |at: usize| matches!(bytes.get(at), Some(b'r' | b'R' | b'b' | b'B'));
    prefix(0) && (quote(1) || (prefix(1) && quote(2) && !bytes[0].eq_ignore_ascii_case(&bytes[1])))
}

/// Reads a number.
pub(super) fn number(text: &str, at: usize) -> Found {
    let bytes = text.as_bytes();
    let unsigned = |length: usize| matches!(bytes.get(length), Some(b'u' | b'U'));
    if bytes[0] == b'0' && matches!(bytes.get(1), Some(b'x' | b'X')) {
        let digits = bytes[2..].iter().take_while(|b| b.is_ascii_hexdigit()).count();
        let length = 2 + digits;
        let value = u64::from_str_radix(&text[2..length], 16);
        return integer(value, unsigned(length), length, at);
    }
    let digits =
        |from: usize| bytes[from.min(bytes.len())..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut length = digits(0);
    let mut double = false;
    if bytes.get(length) == Some(&b'.') && digits(length + 1) > 0 {
        double = true;
        length += 1 + digits(length + 1);
    }
    if matches!(bytes.get(length), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
        let exponent = digits(length + 1 + sign);
        if exponent > 0 {
            double = true;
            length += 1 + sign + exponent;
        }
    }
    if double {
        let value: f64 = text[..length].parse().map_err(|_| error(at, "invalid double literal"))?;
        if value.is_infinite() {
            return Err(error(at, "invalid double literal"));
        }
        return Ok((Token::Double(value), length));
    }
    integer(text[..length].parse(), unsigned(length), length, at)
}

fn integer(value: Result<u64, std::num::ParseIntError>, unsigned: bool, length: usize, at: usize) -> Found {
    match (value, unsigned) {
        (Ok(value), true) => Ok((Token::Uint(value), length + 1)),
        // One more than the largest may follow a minus; the parser knows.
        (Ok(value), false) if value <= i64::MAX as u64 + 1 => Ok((Token::Int(value), length)),
        (_, true) => Err(error(at, "invalid uint literal")),
        (_, false) => Err(error(at, "invalid int literal")),
    }
}

/// Reads text or bytes between quotes.
pub(super) fn quoted(text: &str, at: usize) -> Found {
    let mut raw = false;
    let mut bytes = false;
    let mut start = 0;
    for byte in text.bytes() {
        match byte {
            b'r' | b'R' => raw = true,
            b'b' | b'B' => bytes = true,
            _ => break,
        }
        start += 1;
    }
    let body = &text[start..];
    let quote = &body[..1];
    let triple = [quote, quote, quote].concat();
    let delimiter = if body.starts_with(&triple) { triple.as_str() } else { quote };
    start += delimiter.len();

    let mut out: Vec<u8> = Vec::new();
    let mut here = start;
    loop {
        let rest = &text[here..];
        if rest.starts_with(delimiter) {
            here += delimiter.len();
            break;
        }
        let Some(character) = rest.chars().next() else {
            return Err(error(at, "Syntax error: the quoted text does not end"));
        };
        match character {
            '\n' | '\r' if delimiter.len() == 1 => {
                return Err(error(at, "Syntax error: the quoted text does not end on its line"));
            }
            // Line ends are the same on every system.
            '\r' if rest.starts_with("\r\n") => {
                out.push(b'\n');
                here += 2;
            }
            '\\' if !raw => here += escape(rest, bytes, &mut out, at + here)?,
            _ => {
                out.extend_from_slice(&rest.as_bytes()[..character.len_utf8()]);
                here += character.len_utf8();
            }
        }
    }
    if bytes {
        return Ok((Token::Bytes(out.into()), here));
    }
    match String::from_utf8(out) {
        Ok(text) => Ok((Token::String(text.into()), here)),
        Err(_) => Err(error(at, "Syntax error: the text is not valid UTF-8")),
    }
}

/// Reads an escape at the start of `rest`; gives its length.
fn escape(rest: &str, bytes: bool, out: &mut Vec<u8>, at: usize) -> Result<usize, CelError> {
    let fail = || error(at, "Syntax error: unable to unescape string");
    let kind = *rest.as_bytes().get(1).ok_or_else(fail)?;
    let simple = match kind {
        b'a' => 7,
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 11,
        b'\\' | b'?' | b'"' | b'\'' | b'`' => kind,
        _ => 0,
    };
    if simple != 0 {
        out.push(simple);
        return Ok(2);
    }
    let (from, length, radix) = match kind {
        b'x' | b'X' => (2, 2, 16),
        b'u' if !bytes => (2, 4, 16),
        b'U' if !bytes => (2, 8, 16),
        b'0'..=b'3' => (1, 3, 8),
        _ => return Err(fail()),
    };
    let digits = rest.get(from..from + length).ok_or_else(fail)?;
    if !digits.bytes().all(|b| (b as char).is_digit(radix)) {
        return Err(fail());
    }
    let code = u32::from_str_radix(digits, radix).map_err(|_| fail())?;
    if bytes {
        out.push(u8::try_from(code).map_err(|_| fail())?);
    } else {
        let character = char::from_u32(code).ok_or_else(fail)?;
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Ok(from + length)
}
