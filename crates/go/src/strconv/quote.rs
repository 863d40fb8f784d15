//! Quote and Unquote.

use super::unicode::is_print;

/// Go's `strconv.Quote`.
pub fn quote(s: &[u8]) -> Vec<u8> {
    quote_with(s, b'"', false)
}

/// Go's `strconv.QuoteToASCII`.
pub fn quote_ascii(s: &[u8]) -> Vec<u8> {
    quote_with(s, b'"', true)
}

/// Go's `strconv.QuoteRune`; what is no character becomes U+FFFD.
pub fn quote_rune(c: char) -> Vec<u8> {
    quote_with(c.encode_utf8(&mut [0; 4]).as_bytes(), b'\'', false)
}

/// Go's `strconv.QuoteRuneToASCII`.
pub fn quote_rune_ascii(c: char) -> Vec<u8> {
    quote_with(c.encode_utf8(&mut [0; 4]).as_bytes(), b'\'', true)
}

fn quote_with(s: &[u8], mark: u8, ascii: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(s.len() + 2);
    out.push(mark);
    for chunk in s.utf8_chunks() {
        for c in chunk.valid().chars() {
            quote_char(&mut out, c, mark, ascii);
        }
        for b in chunk.invalid() {
            out.extend(format!("\\x{b:02x}").bytes());
        }
    }
    out.push(mark);
    out
}

fn quote_char(out: &mut Vec<u8>, c: char, mark: u8, ascii: bool) {
    match c {
        '\\' => out.extend(b"\\\\"),
        _ if u32::from(c) == u32::from(mark) => out.extend([b'\\', mark]),
        ' '..='~' => out.push(c as u8),
        '\x07' => out.extend(b"\\a"),
        '\x08' => out.extend(b"\\b"),
        '\x0c' => out.extend(b"\\f"),
        '\n' => out.extend(b"\\n"),
        '\r' => out.extend(b"\\r"),
        '\t' => out.extend(b"\\t"),
        '\x0b' => out.extend(b"\\v"),
        _ if !ascii && is_print(c) => out.extend(c.encode_utf8(&mut [0; 4]).bytes()),
        _ => {
            let n = u32::from(c);
            let text = match n {
                0..=0x1f | 0x7f => format!("\\x{n:02x}"),
                0x80..=0xffff => format!("\\u{n:04x}"),
                _ => format!("\\U{n:08x}"),
            };
            out.extend(text.bytes());
        }
    }
}

/// Go's `strconv.CanBackquote`.
pub fn can_backquote(s: &[u8]) -> bool {
    std::str::from_utf8(s).is_ok_and(|s| {
        s.chars().all(|c| c != '\u{feff}' && c != '`' && c != '\x7f' && (c >= ' ' || c == '\t'))
    })
}

/// Go's `strconv.Unquote` of a `"…"`, `` `…` `` or `'c'` literal; none is a syntax error.
pub fn unquote(s: &[u8]) -> Option<Vec<u8>> {
    let (mark, body) = (*s.first()?, s.get(1..s.len().checked_sub(1)?)?);
    if s.len() < 2 || *s.last()? != mark {
        return None;
    }
    match mark {
        b'`' => {
            if body.contains(&b'`') {
                return None;
            }
            if !body.contains(&b'\r') {
                return Some(body.to_vec());
            }
            Some(body.iter().copied().filter(|b| *b != b'\r').collect())
        }
        b'"' | b'\'' => {
            if body.contains(&b'\n') {
                return None;
            }
            let plain = mark == b'"' && !body.iter().any(|b| matches!(b, b'\\' | b'"'));
            if plain && std::str::from_utf8(body).is_ok() {
                return Some(body.to_vec());
            }
            let mut out = Vec::with_capacity(body.len());
            let mut rest = body;
            let mut count = 0;
            while !rest.is_empty() {
                let (c, len) = unquote_char(rest, mark)?;
                match c {
                    UnquotedText::Byte(b) => out.push(b),
                    UnquotedText::Char(c) => out.extend(c.encode_utf8(&mut [0; 4]).bytes()),
                }
                rest = &rest[len..];
                count += 1;
                if mark == b'\'' && count > 1 {
                    return None;
                }
            }
            if mark == b'\'' && count != 1 {
                return None;
            }
            Some(out)
        }
        _ => None,
    }
}

pub enum UnquotedText {
    Byte(u8),
    Char(char),
}

/// One character or escape at the start of `s`, and how many bytes it took.
pub fn unquote_char(s: &[u8], mark: u8) -> Option<(UnquotedText, usize)> {
    match *s.first()? {
        b if b == mark => None,
        b'\\' => {
            let c = *s.get(1)?;
            let simple = |b| Some((UnquotedText::Byte(b), 2));
            match c {
                b'a' => simple(7),
                b'b' => simple(8),
                b'f' => simple(12),
                b'n' => simple(b'\n'),
                b'r' => simple(b'\r'),
                b't' => simple(b'\t'),
                b'v' => simple(11),
                b'\\' => simple(b'\\'),
                b'\'' | b'"' => (c == mark).then_some((UnquotedText::Byte(c), 2)),
                b'x' | b'u' | b'U' => {
                    let len = match c {
                        b'x' => 2,
                        b'u' => 4,
                        _ => 8,
                    };
                    let hex = s.get(2..2 + len)?;
                    if !hex.iter().all(u8::is_ascii_hexdigit) {
                        return None;
                    }
                    let n = u32::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()?;
                    if c == b'x' {
                        return Some((UnquotedText::Byte(u8::try_from(n).ok()?), 4));
                    }
                    Some((UnquotedText::Char(char::from_u32(n)?), 2 + len))
                }
                b'0'..=b'7' => {
                    let digits = s.get(1..4)?;
                    let mut n = 0u32;
                    for d in digits {
                        if !(b'0'..=b'7').contains(d) {
                            return None;
                        }
                        n = n * 8 + u32::from(d - b'0');
                    }
                    Some((UnquotedText::Byte(u8::try_from(n).ok()?), 4))
                }
                _ => None,
            }
        }
        b if b < 0x80 => Some((UnquotedText::Byte(b), 1)),
        b => Some(match decode_char(s) {
            (Some(c), len) => (UnquotedText::Char(c), len),
            // A bad byte in an interpreted literal becomes U+FFFD.
            (None, _) => {
                let _ = b;
                (UnquotedText::Char('\u{fffd}'), 1)
            }
        }),
    }
}

/// The first character of `s` and its length; none and 1 for a byte that starts no character.
pub(crate) fn decode_char(s: &[u8]) -> (Option<char>, usize) {
    let Some(&first) = s.first() else { return (None, 0) };
    let len = match first {
        0..=0x7f => return (Some(char::from(first)), 1),
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return (None, 1),
    };
    let text = s.get(..len).and_then(|b| std::str::from_utf8(b).ok());
    match text.and_then(|t| t.chars().next()) {
        Some(c) => (Some(c), len),
        None => (None, 1),
    }
}
