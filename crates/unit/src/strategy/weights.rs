//! The share of traffic a number of replicas gives.

/// The replicas of both versions at one weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplicaSplit {
    pub(crate) canary: u64,
    pub(crate) stable: u64,
}

impl ReplicaSplit {
    /// Splits `total` replicas by a weight below 100: both versions keep at least one pod.
    pub(crate) fn by_replicas(total: u64, weight: u8) -> Self {
        let wanted = (total * u64::from(weight) + 50) / 100;
        let canary = wanted.clamp(1, total.saturating_sub(1).max(1));
        // One replica cannot be split: the old pod stays beside the new one.
        Self { canary, stable: total.saturating_sub(canary).max(1) }
    }

    /// Enough new pods for a share of traffic that something else splits; the old ones all stay.
    pub(crate) fn by_traffic(total: u64, weight: u8) -> Self {
        Self { canary: (total * u64::from(weight)).div_ceil(100).max(1), stable: total }
    }

    /// The share the new pods get, in percent.
    pub(crate) fn effective_weight(self) -> f64 {
        let all = self.canary + self.stable;
        if all == 0 { 0.0 } else { self.canary as f64 * 100.0 / all as f64 }
    }

    /// The difference to a wanted weight, in percentage points.
    pub(crate) fn weight_error(self, weight: u8) -> f64 {
        (self.effective_weight() - f64::from(weight)).abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_split_with_one_left_on_each_side() {
        for (total, weight, canary, stable) in [
            (10, 10, 1, 9),
            (10, 50, 5, 5),
            (10, 1, 1, 9),
            (10, 99, 9, 1),
            (3, 50, 2, 1),
            (2, 10, 1, 1),
            (1, 10, 1, 1),
            (4, 25, 1, 3),
        ] {
            let split = ReplicaSplit::by_replicas(total, weight);
            assert_eq!(split, ReplicaSplit { canary, stable }, "{total} at {weight}");
        }
        assert!(ReplicaSplit::by_replicas(1, 10).weight_error(10) > 39.0);
        assert!(ReplicaSplit::by_replicas(10, 10).weight_error(10) < 0.001);
    }

    #[test]
    fn split_traffic_needs_only_enough_new_pods() {
        assert_eq!(ReplicaSplit::by_traffic(10, 5), ReplicaSplit { canary: 1, stable: 10 });
        assert_eq!(ReplicaSplit::by_traffic(10, 51), ReplicaSplit { canary: 6, stable: 10 });
        assert_eq!(ReplicaSplit::by_traffic(1, 10), ReplicaSplit { canary: 1, stable: 1 });
    }
}
