//! Deletions the watch has told of.

use std::collections::HashMap;

use crate::names::Place;

/// The versions objects were last seen to be gone at. The answer to a write of ours may arrive after the watch has told
/// of the deletion that followed; without them it would bring the object back for good.
#[derive(Default)]
pub(crate) struct Tombstones {
    recent: HashMap<Place, u64>,
    /// Those before; they go when `recent` is full again.
    older: HashMap<Place, u64>,
}

impl Tombstones {
    /// Answers are seconds late, not thousands of deletions.
    const MOST: usize = 2_048;

    pub(crate) fn add(&mut self, place: &Place, version: u64) {
        if self.recent.len() >= Self::MOST {
            self.older = std::mem::take(&mut self.recent);
        }
        let latest = self.recent.entry(place.clone()).or_default();
        *latest = version.max(*latest);
    }

    /// Returns true if an object of a version was seen to be gone since.
    pub(crate) fn covers(&self, place: &Place, version: u64) -> bool {
        [&self.recent, &self.older]
            .iter()
            .any(|gone| gone.get(place).is_some_and(|&at| at >= version && version > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_latest_tombstones_are_kept() {
        let mut gone = Tombstones::default();
        let place = |n: usize| Place { namespace: String::new(), name: n.to_string() };
        for n in 0..3 * Tombstones::MOST {
            gone.add(&place(n), 1);
        }
        assert!(gone.recent.len() + gone.older.len() <= 2 * Tombstones::MOST);
        assert!(gone.covers(&place(3 * Tombstones::MOST - 1), 1) && !gone.covers(&place(0), 1));
    }
}
