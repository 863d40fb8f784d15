//! Numbers that look like chance and are always the same.

use super::objects::NAMES;

/// A sequence of numbers that looks like chance.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit.max(1) as u64) as usize
    }

    pub(super) fn one_in(&mut self, odds: usize) -> bool {
        self.below(odds) == 0
    }

    pub(super) fn pick<'t, T: ?Sized>(&mut self, from: &[&'t T]) -> &'t T {
        from[self.below(from.len())]
    }

    /// As many different ones as chance has it, in order.
    pub(super) fn some<'t>(&mut self, from: &[&'t str], odds: usize) -> Vec<&'t str> {
        from.iter().copied().filter(|_| self.one_in(odds)).collect()
    }

    pub(super) fn name(&mut self) -> &'static str {
        self.pick(NAMES)
    }
}
