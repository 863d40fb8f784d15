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
    /// Whether `a` is written after `b`.
    pub(crate) fn is_after(self, a: &str, b: &str) -> bool {
        match self {
            Self::AsGiven => false,
            Self::Bytes => a > b,
            Self::Natural => natural(a, b, false) == Ordering::Greater,
            Self::Natural3 => natural(a, b, true) == Ordering::Greater,
        }
    }

    /// Sorts by `is_after`. A merge sort of our own: Go's order is no total order, which the standard library's
    /// sorts may answer with a panic.
    pub(crate) fn sort<T>(keys: &mut Vec<T>, is_after: impl Fn(&T, &T) -> bool + Copy) {
        if keys.len() < 2 {
            return;
        }
        let mut right = keys.split_off(keys.len() / 2);
        let mut left = std::mem::take(keys);
        Self::sort(&mut left, is_after);
        Self::sort(&mut right, is_after);
        keys.reserve(left.len() + right.len());
        let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
        while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
            keys.extend(if is_after(a, b) { right.next() } else { left.next() });
        }
        keys.extend(left);
        keys.extend(right);
    }
}

fn natural(a: &str, b: &str, letters_after_digits: bool) -> Ordering {
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
