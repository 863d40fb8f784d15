//! The deliveries that were taken, as many as fit.

use indexmap::IndexSet;

/// Remembers the ids of the last deliveries.
#[derive(Debug)]
pub struct DeliveryLog {
    seen: IndexSet<String>,
    most: usize,
}

impl Default for DeliveryLog {
    fn default() -> Self {
        Self::new(10_000)
    }
}

impl DeliveryLog {
    /// A log of so many deliveries.
    pub fn new(most: usize) -> Self {
        Self { seen: IndexSet::new(), most: most.max(1) }
    }

    /// Writes an id down, and tells whether it was not there.
    pub fn is_new(&mut self, id: &str) -> bool {
        if self.seen.contains(id) {
            return false;
        }
        if self.seen.len() >= self.most {
            // A whole quarter at once, so that moving the rest is rare.
            self.seen.drain(..self.most.div_ceil(4));
        }
        self.seen.insert(id.to_owned())
    }
}
