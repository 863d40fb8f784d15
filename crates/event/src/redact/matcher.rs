//! One pass over a text that finds every form of every secret.
//!
//! Forms are kept in order and behind a filter of their first bytes, so that one more secret costs one more entry and
//! nothing is ever rebuilt, whatever the number of secrets and however often texts are masked in between.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::{Bound, Range};

use super::MASK;
use super::filter::PrefixFilter;
use super::forms::SHORTEST_FORM;

/// The secrets to find.
#[derive(Default)]
pub(super) struct Matcher {
    /// Forms that match anywhere, none shorter than [`SHORTEST_FORM`].
    anywhere: BTreeSet<Vec<u8>>,
    prefixes: PrefixFilter,
    /// Shorter values, which match only where they stand alone.
    delimited: BTreeSet<Vec<u8>>,
    /// Values that match only as a whole text.
    whole: BTreeSet<Vec<u8>>,
    longest: usize,
}

impl Matcher {
    pub(super) fn add_forms(&mut self, forms: BTreeSet<Vec<u8>>) {
        for form in forms {
            self.longest = self.longest.max(form.len());
            self.prefixes.insert(&form);
            self.anywhere.insert(form);
        }
        if self.prefixes.is_crowded() {
            self.prefixes = PrefixFilter::of(&self.anywhere);
        }
    }

    pub(super) fn add_delimited(&mut self, value: &[u8]) {
        self.longest = self.longest.max(value.len());
        self.delimited.insert(value.to_vec());
    }

    pub(super) fn add_whole(&mut self, value: &[u8]) {
        self.whole.insert(value.to_vec());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.anywhere.is_empty() && self.delimited.is_empty() && self.whole.is_empty()
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

    /// The places at or after `from` to mask, in order: the leftmost first, the longest of those that begin together.
    pub(super) fn find(&self, text: &[u8], from: usize) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = Vec::new();
        let mut at = from;
        while at < text.len() {
            match self.longest_at(text, at) {
                Some(length) => {
                    found.push(at..at + length);
                    at += length;
                }
                None => at += 1,
            }
        }
        found
    }

    /// The length of the longest secret that begins at a place.
    fn longest_at(&self, text: &[u8], at: usize) -> Option<usize> {
        let rest = &text[at..];
        let form = if self.prefixes.may_begin(rest) { self.longest_form(rest) } else { None };
        form.or_else(|| self.longest_alone(text, at))
    }

    /// The longest form a text begins with. Of all forms that sort before the text, the last one either is it or shares
    /// as many bytes with the text as the longest can have.
    fn longest_form(&self, text: &[u8]) -> Option<usize> {
        let mut bound = &text[..text.len().min(self.longest)];
        while bound.len() >= SHORTEST_FORM {
            let range = (Bound::Unbounded, Bound::Included(bound));
            let candidate = self.anywhere.range::<[u8], _>(range).next_back()?;
            let common = candidate.iter().zip(bound).take_while(|(a, b)| a == b).count();
            if common == candidate.len() {
                return Some(common);
            }
            bound = &bound[..common];
        }
        None
    }

    /// The longest short value that begins here and has neither letters nor digits around it.
    fn longest_alone(&self, text: &[u8], at: usize) -> Option<usize> {
        if self.delimited.is_empty() || at.checked_sub(1).is_some_and(|before| is_word(text[before])) {
            return None;
        }
        let ends_alone = |length: &usize| !text.get(at + length).copied().is_some_and(is_word);
        let is_value =
            |length: &usize| text.get(at..at + length).is_some_and(|value| self.delimited.contains(value));
        (1..SHORTEST_FORM).rev().filter(ends_alone).find(is_value)
    }

    /// The number of bytes at the end of `text` that may be (the beginning of) a secret and must wait for more:
    /// a match that ends where the text ends may still grow, or turn out not to stand alone.
    pub(super) fn undecided(&self, text: &[u8]) -> usize {
        let furthest = text.len().saturating_sub(self.longest);
        (furthest..text.len())
            .find(|&start| self.begins_a_secret(&text[start..]))
            .map_or(0, |start| text.len() - start)
    }

    fn begins_a_secret(&self, prefix: &[u8]) -> bool {
        if prefix.len() >= SHORTEST_FORM && !self.prefixes.may_begin(prefix) {
            return false;
        }
        let begins = |set: &BTreeSet<Vec<u8>>| {
            let range = (Bound::Included(prefix), Bound::Unbounded);
            set.range::<[u8], _>(range).next().is_some_and(|form| form.starts_with(prefix))
        };
        begins(&self.anywhere) || begins(&self.delimited)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn matcher(forms: &[&str]) -> Matcher {
        let mut matcher = Matcher::default();
        matcher.add_forms(forms.iter().map(|form| form.as_bytes().to_vec()).collect());
        matcher
    }

    #[test]
    fn the_longest_of_forms_with_a_common_beginning_is_found() {
        let matcher = matcher(&["secret", "secret-a", "secret-abcdef", "secret-b", "secret-abz"]);
        for (text, expected) in [
            ("secret", Some(0..6)),
            ("secret-abc", Some(0..8)),
            ("secret-abcdefg", Some(0..13)),
            ("secret-abzz", Some(0..10)),
            ("a secret-z", Some(2..8)),
            ("a secre", None),
        ] {
            assert_eq!(matcher.find(text.as_bytes(), 0).first().cloned(), expected, "{text}");
        }
    }

    /// Compared with the obvious way: try every form at every place.
    #[test]
    fn finds_what_a_search_for_every_form_finds() {
        let mut state = 7_u32;
        let mut letter = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            char::from(b'a' + (state >> 24) as u8 % 3)
        };
        for round in 0..200 {
            let forms: Vec<String> = (0..8).map(|n| (0..6 + n % 5).map(|_| letter()).collect()).collect();
            let text: String = (0..200).map(|_| letter()).collect();
            let forms: Vec<&str> = forms.iter().map(String::as_str).collect();
            let mut expected = Vec::new();
            let mut at = 0;
            while at < text.len() {
                let fits = forms.iter().filter(|form| text[at..].starts_with(**form)).map(|form| form.len());
                match fits.max() {
                    Some(length) => {
                        expected.push(at..at + length);
                        at += length;
                    }
                    None => at += 1,
                }
            }
            assert_eq!(matcher(&forms).find(text.as_bytes(), 0), expected, "round {round}");
        }
    }
}
