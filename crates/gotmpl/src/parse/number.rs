//! Numeric literals.

use super::ast::{ByteOffset, NumberLiteral};
use super::lex::TokenKind;
use slipway_go::GoError;
use slipway_go::strconv::{self, UnquotedText, parse_float, parse_int, parse_uint};

impl NumberLiteral {
    /// Reads a literal; the error is Go's text.
    pub(super) fn parse_literal(
        pos: ByteOffset,
        text: &str,
        kind: TokenKind,
    ) -> Result<NumberLiteral, GoError> {
        let mut n =
            NumberLiteral { pos, text: text.to_owned(), int: None, uint: None, float: None, complex: None };
        match kind {
            TokenKind::CharConstant => {
                let bytes = text.as_bytes();
                let (c, len) = strconv::unquote_char(bytes.get(1..).unwrap_or_default(), b'\'')
                    .ok_or("invalid syntax")?;
                if &bytes[1 + len..] != b"'" {
                    return Err(format!("malformed character constant: {text}").into());
                }
                let c = match c {
                    UnquotedText::Byte(b) => u32::from(b),
                    UnquotedText::Char(c) => u32::from(c),
                };
                n.int = Some(i64::from(c));
                n.uint = Some(u64::from(c));
                n.float = Some(f64::from(c));
                return Ok(n);
            }
            TokenKind::Complex => {
                let (re, im) = split_complex(text).ok_or("expected complex")?;
                let read = |s: &str| parse_float(s).map_err(|_| GoError::new("expected complex"));
                n.set_complex(read(re)?, read(im)?);
                return Ok(n);
            }
            _ => {}
        }
        if let Some(im) = text.strip_suffix('i').and_then(|t| parse_float(t).ok()) {
            n.set_complex(0.0, im);
            return Ok(n);
        }
        n.uint = parse_uint(text, 0).ok();
        n.int = parse_int(text, 0).ok();
        if n.int == Some(0) {
            n.uint = Some(0);
        }
        if let Some(i) = n.int {
            n.float = Some(i as f64);
        } else if let Some(u) = n.uint {
            n.float = Some(u as f64);
        } else if let Ok(f) = parse_float(text) {
            if !text.contains(['.', 'e', 'E', 'p', 'P']) {
                return Err(format!("integer overflow: {}", go_quoted(text)).into());
            }
            n.float = Some(f);
            n.integers_of(f);
        }
        if n.int.is_none() && n.uint.is_none() && n.float.is_none() {
            return Err(format!("illegal number syntax: {}", go_quoted(text)).into());
        }
        Ok(n)
    }

    fn set_complex(&mut self, re: f64, im: f64) {
        self.complex = Some((re, im));
        if im == 0.0 {
            self.float = Some(re);
            self.integers_of(re);
        }
    }

    /// A float that is a whole number passes as an integer too.
    fn integers_of(&mut self, f: f64) {
        if f.trunc() == f && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&f) {
            self.int = Some(f as i64);
        }
        if f.trunc() == f && (0.0..18_446_744_073_709_551_616.0).contains(&f) {
            self.uint = Some(f as u64);
        }
    }
}

fn go_quoted(text: &str) -> String {
    String::from_utf8_lossy(&strconv::quote(text.as_bytes())).into_owned()
}

/// `1.5e+3-2i` into its parts.
fn split_complex(text: &str) -> Option<(&str, &str)> {
    let body = text.strip_suffix('i')?;
    let bytes = body.as_bytes();
    let at = (1..bytes.len())
        .rev()
        .find(|i| matches!(bytes[*i], b'+' | b'-') && !matches!(bytes[i - 1], b'e' | b'E' | b'p' | b'P'))?;
    Some(body.split_at(at))
}
