//! Simulated workload controllers, scheduler and kubelet.

use super::Controller;

/// The controllers that bring workloads to life.
pub(crate) fn all() -> Vec<Box<dyn Controller>> {
    vec![]
}
