//! The fuzz targets: each takes any bytes at all and must neither panic, hang nor eat the memory.
//!
//! `cargo xtask fuzz` feeds them mutated seeds for as long as it is told; the test of this crate does
//! the same for a moment in every CI run. A finding becomes a seed, which keeps it found.

mod mutate;
mod packages;
mod server;
pub mod targets;

use std::time::{Duration, Instant};

pub use mutate::Mutator;
pub use targets::{TARGETS, Target};

/// Feeds a target mutated seeds until the time is up or `rounds` are done. Gives how many it took and
/// how long the slowest one was.
pub fn run(target: &Target, seed: u64, limit: Duration, rounds: u64) -> (u64, Duration) {
    let mut mutator = Mutator::new(target.seeds, seed);
    let started = Instant::now();
    let mut done = 0;
    let mut slowest = Duration::ZERO;
    while done < rounds && started.elapsed() < limit {
        let input = mutator.next();
        let before = Instant::now();
        let result = std::panic::catch_unwind(|| (target.run)(&input));
        slowest = slowest.max(before.elapsed());
        if result.is_err() {
            let text = String::from_utf8_lossy(&input);
            panic!("{}: input of {} bytes failed: {text:?}", target.name, input.len());
        }
        done += 1;
    }
    (done, slowest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_survives_a_moment() {
        for target in TARGETS {
            run(target, 1, Duration::from_secs(3), 2_000);
        }
    }
}
