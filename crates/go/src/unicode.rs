//! Runes as Go sees them: byte-wise decoding with U+FFFD for bad bytes, simple case mapping, classes.

use std::sync::LazyLock;

use regex::Regex;

/// Decodes the first rune of `bytes`; a bad byte is U+FFFD of width one, as in Go.
///
/// The last member tells whether the bytes were valid UTF-8.
pub fn decode_rune(bytes: &[u8]) -> Option<(char, usize, bool)> {
    let first = *bytes.first()?;
    let len = match first {
        0..=0x7f => return Some((char::from(first), 1, true)),
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return Some(('\u{fffd}', 1, false)),
    };
    let rune =
        bytes.get(..len).and_then(|part| std::str::from_utf8(part).ok()).and_then(|part| part.chars().next());
    Some(rune.map_or(('\u{fffd}', 1, false), |rune| (rune, len, true)))
}

/// The runes of a byte string with their byte offsets.
pub fn runes(bytes: &[u8]) -> impl Iterator<Item = (usize, char)> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (rune, width, _) = decode_rune(&bytes[at..])?;
        let start = at;
        at += width;
        Some((start, rune))
    })
}

/// Appends a rune in UTF-8.
pub fn push_rune(out: &mut Vec<u8>, rune: char) {
    out.extend_from_slice(rune.encode_utf8(&mut [0; 4]).as_bytes());
}

/// The bytes with every bad byte replaced by U+FFFD.
pub fn to_valid(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => runes(bytes).map(|(_, rune)| rune).collect(),
    }
}

/// Returns true if the rune is white space (`unicode.IsSpace`).
pub fn is_space(rune: char) -> bool {
    rune.is_whitespace()
}

static LETTER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{L}$").ok());
static DIGIT: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{Nd}$").ok());
static UPPER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{Lu}$").ok());
static LOWER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{Ll}$").ok());
static PUNCT: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{P}$").ok());

fn in_class(class: &LazyLock<Option<Regex>>, rune: char) -> bool {
    class.as_ref().is_some_and(|regex| regex.is_match(rune.encode_utf8(&mut [0; 4])))
}

/// Returns true if the rune has category L.
pub fn is_letter(rune: char) -> bool {
    if rune.is_ascii() { rune.is_ascii_alphabetic() } else { in_class(&LETTER, rune) }
}

/// Returns true if the rune has category Nd.
pub fn is_digit(rune: char) -> bool {
    if rune.is_ascii() { rune.is_ascii_digit() } else { in_class(&DIGIT, rune) }
}

/// Returns true if the rune has category Lu.
pub fn is_upper(rune: char) -> bool {
    if rune.is_ascii() { rune.is_ascii_uppercase() } else { in_class(&UPPER, rune) }
}

/// Returns true if the rune has category Ll.
pub fn is_lower(rune: char) -> bool {
    if rune.is_ascii() { rune.is_ascii_lowercase() } else { in_class(&LOWER, rune) }
}

/// Returns true if the rune has category P.
pub fn is_punct(rune: char) -> bool {
    if rune.is_ascii() {
        rune.is_ascii_punctuation() && !matches!(rune, '$' | '+' | '<' | '=' | '>' | '^' | '`' | '|' | '~')
    } else {
        in_class(&PUNCT, rune)
    }
}

/// Returns true if the rune is one of the title-case digraphs (category Lt).
pub fn is_title(rune: char) -> bool {
    matches!(rune, '\u{1c5}' | '\u{1c8}' | '\u{1cb}' | '\u{1f2}' | '\u{1f88}'..='\u{1f8f}' | '\u{1f98}'..='\u{1f9f}'
        | '\u{1fa8}'..='\u{1faf}' | '\u{1fbc}' | '\u{1fcc}' | '\u{1ffc}')
}

/// Simple (one rune to one rune) upper-case mapping.
pub fn to_upper(rune: char) -> char {
    match rune {
        // Their full mappings are two runes long, their simple ones are the title-case letters.
        '\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}' => shift_rune(rune, 8),
        '\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}' => shift_rune(rune, 9),
        _ => single_rune(rune, rune.to_uppercase()),
    }
}

/// Simple lower-case mapping.
pub fn to_lower(rune: char) -> char {
    if rune == '\u{130}' { 'i' } else { single_rune(rune, rune.to_lowercase()) }
}

/// Simple title-case mapping.
pub fn to_title(rune: char) -> char {
    match rune {
        '\u{1c4}'..='\u{1c6}' => '\u{1c5}',
        '\u{1c7}'..='\u{1c9}' => '\u{1c8}',
        '\u{1ca}'..='\u{1cc}' => '\u{1cb}',
        '\u{1f1}'..='\u{1f3}' => '\u{1f2}',
        // Georgian letters have upper-case forms but are their own title case.
        '\u{10d0}'..='\u{10fa}' | '\u{10fd}'..='\u{10ff}' => rune,
        _ => to_upper(rune),
    }
}

fn single_rune(rune: char, mut mapped: impl Iterator<Item = char>) -> char {
    match (mapped.next(), mapped.next()) {
        (Some(one), None) => one,
        _ => rune,
    }
}

fn shift_rune(rune: char, by: u32) -> char {
    char::from_u32(u32::from(rune) + by).unwrap_or(rune)
}
