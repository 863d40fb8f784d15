//! One pass over a text that finds every form of every secret.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};

use super::MASK;

/// Finds secrets; built once for a set of them.
pub(super) struct Matcher {
    automaton: Option<AhoCorasick>,
    /// The first so many patterns match anywhere, the others only where they stand alone.
    anywhere: usize,
    /// Sorted, for asking whether a text could be the beginning of a secret.
    sorted: Vec<Vec<u8>>,
    longest: usize,
    whole: BTreeSet<Vec<u8>>,
}

impl Matcher {
    pub(super) fn build(
        anywhere: &BTreeSet<Vec<u8>>,
        delimited: &BTreeSet<Vec<u8>>,
        whole: &BTreeSet<Vec<u8>>,
    ) -> Self {
        let patterns: Vec<Vec<u8>> = anywhere.iter().chain(delimited).cloned().collect();
        let mut sorted = patterns.clone();
        sorted.sort();
        let automaton = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&patterns).ok();
        let longest = patterns.iter().map(Vec::len).max().unwrap_or(0);
        Self { automaton, anywhere: anywhere.len(), sorted, longest, whole: whole.clone() }
    }

    /// Masks a whole text.
    pub(super) fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.whole.contains(text.trim().as_bytes()) {
            return Cow::Owned(MASK.to_owned());
        }
        let found = self.find(text.as_bytes(), 0);
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut masked = String::with_capacity(text.len());
        let mut from = 0;
        for range in found {
            // Forms begin and end on character boundaries of the text they were found in, unless the
            // secret itself was not UTF-8; widen such a match rather than leak half a character.
            let (start, end) = (floor(text, range.start), ceil(text, range.end));
            if start > from || from == 0 {
                masked.push_str(&text[from..start]);
                masked.push_str(MASK);
            }
            from = from.max(end);
        }
        masked.push_str(&text[from..]);
        Cow::Owned(masked)
    }

    /// Tells that a text is a secret from beginning to end, and one that is no common word.
    pub(super) fn is_secret(&self, text: &str) -> bool {
        self.find(text.as_bytes(), 0).first().is_some_and(|found| *found == (0..text.len()))
    }

    /// The places at or after `from` to mask, in order.
    pub(super) fn find(&self, text: &[u8], mut from: usize) -> Vec<Range<usize>> {
        let Some(automaton) = &self.automaton else { return Vec::new() };
        let mut found: Vec<Range<usize>> = Vec::new();
        while from < text.len() {
            let input = aho_corasick::Input::new(text).span(from..text.len());
            let Some(hit) = automaton.find(input) else { break };
            let standing_alone = || {
                let before = hit.start().checked_sub(1).map(|index| text[index]);
                let after = text.get(hit.end()).copied();
                !before.is_some_and(is_word) && !after.is_some_and(is_word)
            };
            if hit.pattern().as_usize() >= self.anywhere && !standing_alone() {
                from = hit.start() + 1;
            } else {
                found.push(hit.range());
                from = hit.end();
            }
        }
        found
    }

    /// The number of bytes at the end of `text` that may be (the beginning of) a secret and must wait for more:
    /// a match that ends where the text ends may still grow, or turn out not to stand alone.
    pub(super) fn undecided(&self, text: &[u8]) -> usize {
        let furthest = text.len().saturating_sub(self.longest);
        (furthest..text.len())
            .find(|&start| self.begins_a_pattern(&text[start..]))
            .map_or(0, |start| text.len() - start)
    }

    fn begins_a_pattern(&self, prefix: &[u8]) -> bool {
        let at = self.sorted.partition_point(|pattern| pattern.as_slice() < prefix);
        self.sorted.get(at).is_some_and(|pattern| pattern.starts_with(prefix))
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80
}

fn floor(text: &str, mut index: usize) -> usize {
    while !text.is_char_boundary(index) {
        index -= 1;
    }
    index
}

fn ceil(text: &str, mut index: usize) -> usize {
    while !text.is_char_boundary(index) {
        index += 1;
    }
    index
}
