//! A filter that says of most places of a text that no secret begins there.

use std::collections::BTreeSet;

use super::forms::SHORTEST_FORM;

/// Bits for each form: with so many, one place in sixteen at most is looked at in vain.
const BITS_A_FORM: usize = 16;
const FEWEST_BITS: usize = 1 << 12;
const MOST_BITS: usize = 1 << 24;

/// A set of beginnings of forms that may say yes in vain, and never no.
pub(super) struct PrefixFilter {
    /// A power of two of bits.
    words: Vec<u64>,
    entries: usize,
}

impl Default for PrefixFilter {
    fn default() -> Self {
        Self::with_bits(FEWEST_BITS)
    }
}

impl PrefixFilter {
    fn with_bits(bits: usize) -> Self {
        Self { words: vec![0; bits / 64], entries: 0 }
    }

    /// A filter with room for as many forms again.
    pub(super) fn of(forms: &BTreeSet<Vec<u8>>) -> Self {
        let bits = (forms.len() * 2 * BITS_A_FORM).next_power_of_two();
        let mut filter = Self::with_bits(bits.clamp(FEWEST_BITS, MOST_BITS));
        for form in forms {
            filter.insert(form);
        }
        filter
    }

    pub(super) fn insert(&mut self, form: &[u8]) {
        if let Some(bit) = self.bit(form) {
            self.words[bit / 64] |= 1 << (bit % 64);
            self.entries += 1;
        }
    }

    /// True once a larger filter would be of use.
    pub(super) fn is_crowded(&self) -> bool {
        let bits = self.words.len() * 64;
        bits < MOST_BITS && self.entries * BITS_A_FORM > bits
    }

    /// Tells whether a form may begin where the text does.
    pub(super) fn may_begin(&self, text: &[u8]) -> bool {
        self.bit(text).is_some_and(|bit| self.words[bit / 64] & (1 << (bit % 64)) != 0)
    }

    /// The bit of the first bytes; none for a text shorter than any form.
    fn bit(&self, text: &[u8]) -> Option<usize> {
        let first: &[u8; SHORTEST_FORM] = text.first_chunk()?;
        let mut bytes = [0; 8];
        bytes[..SHORTEST_FORM].copy_from_slice(first);
        // Fibonacci hashing: the high bits of the product depend on every byte.
        let mixed = u64::from_le_bytes(bytes).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let width = (self.words.len() * 64).trailing_zeros();
        Some((mixed >> (64 - width)) as usize)
    }
}
