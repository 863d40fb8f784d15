//! The order in which keys are written.

use std::cmp::Ordering;

/// In which order the keys of a mapping are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyOrder {
    /// Go's natural order (go-yaml v2): numbers by value, punctuation before letters.
    #[default]
    Natural,
    /// Go's natural order as go-yaml v3 has it: after a digit, letters come before punctuation.
    Natural3,
    /// By bytes.
    Bytes,
    /// As the value gives them.
    AsGiven,
}

impl KeyOrder {
    /// Returns true if `a` is written after `b`.
    pub(crate) fn is_after(self, a: &str, b: &str) -> bool {
        match self {
            Self::AsGiven => false,
            Self::Bytes => a > b,
            Self::Natural => natural_order(a, b, false) == Ordering::Greater,
            Self::Natural3 => natural_order(a, b, true) == Ordering::Greater,
        }
    }

    /// Sorts entries, whose keys `text` gives.
    ///
    /// Go's natural order is no total order (`a10 < a1b < a9 < a10`), so what Go writes for such keys
    /// varies from run to run. This gives what it writes most often, always, and unlike the standard
    /// library's sorts it never panics over the contradiction.
    pub(crate) fn sort_entries<'k, T: Copy>(self, entries: &mut Vec<T>, text: impl Fn(T) -> &'k str) {
        let mut keyed: Vec<(&'k str, T)> = entries.iter().map(|entry| (text(*entry), *entry)).collect();
        keyed.sort_by_key(|(key, _)| *key);
        self.merge_sort(&mut keyed);
        entries.clear();
        entries.extend(keyed.into_iter().map(|(_, entry)| entry));
    }

    fn merge_sort<T>(self, keyed: &mut Vec<(&str, T)>) {
        const FEW: usize = 12;
        if keyed.len() <= FEW {
            for end in 1..keyed.len() {
                let mut at = end;
                while at > 0 && self.is_after(keyed[at - 1].0, keyed[at].0) {
                    keyed.swap(at - 1, at);
                    at -= 1;
                }
            }
            return;
        }
        let mut right = keyed.split_off(keyed.len() / 2);
        let mut left = std::mem::take(keyed);
        self.merge_sort(&mut left);
        self.merge_sort(&mut right);
        keyed.reserve(left.len() + right.len());
        let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
        while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
            let from_right = self.is_after(a.0, b.0);
            keyed.extend(if from_right { right.next() } else { left.next() });
        }
        keyed.extend(left);
        keyed.extend(right);
    }
}

fn natural_order(a: &str, b: &str, letters_after_digits: bool) -> Ordering {
    // Equal prefixes compare as bytes; step back to a character boundary.
    let mut same = a.bytes().zip(b.bytes()).take_while(|(x, y)| x == y).count();
    while !a.is_char_boundary(same) || !b.is_char_boundary(same) {
        same -= 1;
    }
    let (rest_a, rest_b) = (&a[same..], &b[same..]);
    let (Some(first_a), Some(first_b)) = (rest_a.chars().next(), rest_b.chars().next()) else {
        return a.len().cmp(&b.len());
    };
    let after_digit = a[..same].ends_with(|c: char| c.is_ascii_digit());
    match (first_a.is_alphabetic(), first_b.is_alphabetic()) {
        (true, true) => return first_a.cmp(&first_b),
        (true, false) if letters_after_digits && after_digit => return Ordering::Less,
        (false, true) if letters_after_digits && after_digit => return Ordering::Greater,
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    let mut seed = 0i64;
    if first_a == '0' || first_b == '0' {
        let digits = a[..same].bytes().rev().take_while(u8::is_ascii_digit);
        seed = i64::from(digits.into_iter().any(|digit| digit != b'0'));
    }
    let (number_a, length_a) = leading_number(rest_a, seed);
    let (number_b, length_b) = leading_number(rest_b, seed);
    number_a.cmp(&number_b).then(length_a.cmp(&length_b)).then(first_a.cmp(&first_b))
}

fn leading_number(text: &str, seed: i64) -> (i64, usize) {
    let length = text.bytes().take_while(u8::is_ascii_digit).count();
    let number = text
        .bytes()
        .take(length)
        .fold(seed, |number, digit| number.wrapping_mul(10).wrapping_add(i64::from(digit - b'0')));
    (number, length)
}
