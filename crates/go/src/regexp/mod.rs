//! Go's regular expressions on top of the `regex` crate: same syntax, same errors, same matches.
//!
//! `syntax` reads Go's syntax and writes the equivalent pattern for the `regex` crate. Both engines
//! are leftmost-first and linear, so what is left is the byte-string view of text: Go reads a bad
//! UTF-8 byte as U+FFFD of width one.

mod syntax;

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use regex::{Captures, Regex, RegexBuilder};

use super::unicode::{decode_rune, is_digit, is_letter};

/// A pattern that Go refuses; prints as Go's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error parsing regexp: {problem}: `{}`", String::from_utf8_lossy(.expression))]
pub struct RegexpError {
    /// The message, in Go's words.
    pub problem: &'static str,
    /// The offending part of the pattern.
    pub expression: Vec<u8>,
}

/// A compiled pattern.
#[derive(Debug)]
pub struct Regexp {
    regex: Regex,
    /// Names by group number; group 0 has none.
    names: Vec<Option<String>>,
    is_empty: bool,
}

/// Memory for one compiled program.
const PROGRAM_LIMIT: usize = 64 << 20;
/// Patterns remembered per thread.
const CACHE_LIMIT: usize = 256;

thread_local! {
    static CACHE: RefCell<HashMap<Vec<u8>, Rc<Regexp>>> = RefCell::new(HashMap::new());
}

/// Text for the engine, with the way back to byte offsets when bad bytes were replaced.
struct Haystack<'a> {
    text: Cow<'a, str>,
    /// Original offset by engine offset.
    offsets: Option<Vec<usize>>,
}

impl<'a> Haystack<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        if let Ok(text) = std::str::from_utf8(bytes) {
            return Self { text: Cow::Borrowed(text), offsets: None };
        }
        let mut text = String::with_capacity(bytes.len() + 16);
        let mut offsets = Vec::with_capacity(bytes.len() + 16);
        let mut at = 0;
        while let Some((rune, width, _)) = decode_rune(&bytes[at..]) {
            text.push(rune);
            offsets.resize(text.len(), at);
            at += width;
        }
        offsets.push(at);
        Self { text: Cow::Owned(text), offsets: Some(offsets) }
    }

    fn text_range(&self, range: Range<usize>) -> Range<usize> {
        self.offsets.as_ref().map_or(range.clone(), |offsets| offsets[range.start]..offsets[range.end])
    }
}

/// Compiles a pattern in Go's syntax into a program of at most `size_limit` bytes, for texts that are UTF-8.
pub fn compile_text_pattern(pattern: &str, size_limit: usize) -> Result<Regex, RegexpError> {
    let translated = syntax::translate_pattern(pattern.as_bytes())?;
    build_regex(&translated.pattern, size_limit).ok_or_else(|| RegexpError::too_large(pattern.as_bytes()))
}

fn build_regex(translated: &str, size_limit: usize) -> Option<Regex> {
    RegexBuilder::new(translated).size_limit(size_limit).nest_limit(10_000).build().ok()
}

impl RegexpError {
    fn too_large(pattern: &[u8]) -> Self {
        Self { problem: "expression too large", expression: pattern.to_vec() }
    }
}

impl Regexp {
    /// Compiles a pattern; recent patterns are remembered.
    pub fn compile(pattern: &[u8]) -> Result<Rc<Self>, RegexpError> {
        if let Some(known) = CACHE.with_borrow(|cache| cache.get(pattern).map(Rc::clone)) {
            return Ok(known);
        }
        let translated = syntax::translate_pattern(pattern)?;
        let regex =
            build_regex(&translated.pattern, PROGRAM_LIMIT).ok_or_else(|| RegexpError::too_large(pattern))?;
        let compiled = Rc::new(Self { regex, names: translated.names, is_empty: pattern.is_empty() });
        CACHE.with_borrow_mut(|cache| {
            if cache.len() >= CACHE_LIMIT {
                cache.clear();
            }
            cache.insert(pattern.to_vec(), Rc::clone(&compiled));
        });
        Ok(compiled)
    }

    /// Returns true if the pattern matches anywhere.
    pub fn is_match(&self, text: &[u8]) -> bool {
        self.regex.is_match(&Haystack::new(text).text)
    }

    /// The leftmost match.
    pub fn find(&self, text: &[u8]) -> Option<Range<usize>> {
        let haystack = Haystack::new(text);
        self.regex.find(&haystack.text).map(|found| haystack.text_range(found.range()))
    }

    /// The first `limit` matches, all when negative.
    pub fn find_all(&self, text: &[u8], limit: i64) -> Vec<Range<usize>> {
        let haystack = Haystack::new(text);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        self.regex
            .find_iter(&haystack.text)
            .take(limit)
            .map(|found| haystack.text_range(found.range()))
            .collect()
    }

    /// Replaces every match by `template` with its `$1`, `${name}` and `$$` expanded.
    ///
    /// None if the result would be longer than `max` bytes.
    pub fn replace_all(&self, text: &[u8], template: &[u8], max: usize) -> Option<Vec<u8>> {
        self.replace_with(text, max, |captures, haystack, out| {
            self.expand_template(template, captures, haystack, text, out);
        })
    }

    /// Replaces every match by `replacement` as it is.
    ///
    /// None if the result would be longer than `max` bytes.
    pub fn replace_all_literal(&self, text: &[u8], replacement: &[u8], max: usize) -> Option<Vec<u8>> {
        self.replace_with(text, max, |_, _, out| out.extend_from_slice(replacement))
    }

    fn replace_with(
        &self,
        text: &[u8],
        max: usize,
        mut put: impl FnMut(&Captures<'_>, &Haystack<'_>, &mut Vec<u8>),
    ) -> Option<Vec<u8>> {
        let haystack = Haystack::new(text);
        let mut out = Vec::with_capacity(text.len());
        let mut at = 0;
        for captures in self.regex.captures_iter(&haystack.text) {
            let range = haystack.text_range(captures.get_match().range());
            out.extend_from_slice(&text[at..range.start]);
            put(&captures, &haystack, &mut out);
            if out.len() > max {
                return None;
            }
            at = range.end;
        }
        out.extend_from_slice(&text[at..]);
        Some(out)
    }

    fn expand_template(
        &self,
        template: &[u8],
        captures: &Captures<'_>,
        haystack: &Haystack<'_>,
        text: &[u8],
        out: &mut Vec<u8>,
    ) {
        let mut rest = template;
        while let Some(dollar) = rest.iter().position(|&byte| byte == b'$') {
            out.extend_from_slice(&rest[..dollar]);
            rest = &rest[dollar + 1..];
            if rest.first() == Some(&b'$') {
                out.push(b'$');
                rest = &rest[1..];
                continue;
            }
            let Some((name, after)) = read_reference(rest) else {
                out.push(b'$');
                continue;
            };
            rest = after;
            let group = match group_number(name) {
                Some(number) => captures.get(number),
                None => (1..self.names.len())
                    .filter(|&index| self.names[index].as_deref().map(str::as_bytes) == Some(name))
                    .find_map(|index| captures.get(index)),
            };
            if let Some(group) = group {
                out.extend_from_slice(&text[haystack.text_range(group.range())]);
            }
        }
        out.extend_from_slice(rest);
    }

    /// Splits between matches into at most `limit` parts, all when negative.
    pub fn split(&self, text: &[u8], limit: i64) -> Vec<Vec<u8>> {
        if limit == 0 {
            return Vec::new();
        }
        if !self.is_empty && text.is_empty() {
            return vec![Vec::new()];
        }
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut out = Vec::new();
        let (mut begin, mut end) = (0, 0);
        for found in self.find_all(text, limit) {
            if out.len() + 1 == most {
                break;
            }
            end = found.start;
            if found.end != 0 {
                out.push(text[begin..end].to_vec());
            }
            begin = found.end;
        }
        if end != text.len() {
            out.push(text[begin..].to_vec());
        }
        out
    }
}

/// Reads `name` or `{name}` after a dollar sign.
fn read_reference(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let braced = text.first() == Some(&b'{');
    let text = if braced { &text[1..] } else { text };
    let mut end = 0;
    while let Some((rune, width, _)) = decode_rune(&text[end..]) {
        if !is_letter(rune) && !is_digit(rune) && rune != '_' {
            break;
        }
        end += width;
    }
    if end == 0 {
        return None;
    }
    let (name, rest) = text.split_at(end);
    if !braced {
        return Some((name, rest));
    }
    rest.strip_prefix(b"}").map(|rest| (name, rest))
}

fn group_number(name: &[u8]) -> Option<usize> {
    if name.len() > 1 && name[0] == b'0' || name.len() > 9 || !name.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(name).ok()?.parse().ok()
}

/// Escapes everything that has a meaning in a pattern.
pub fn quote_meta(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for &byte in text {
        if b"\\.+*?()|[]{}^$".contains(&byte) {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out
}
