//! The fuzz targets: each takes any bytes at all and must neither panic, hang nor eat the memory.
//!
//! `cargo xtask fuzz` feeds them mutated seeds for as long as it is told; the test of this crate does
//! the same for a moment in every CI run. A finding becomes a seed, which keeps it found.

mod forge;
mod mutate;
mod packages;
mod server;
pub mod targets;

use std::time::{Duration, Instant};

pub use mutate::Mutator;
pub use targets::{TARGETS, Target};

/// How feeding a target went.
pub struct Fed {
    pub inputs: u64,
    pub slowest: Duration,
    /// The input that took longest.
    pub slow: Vec<u8>,
}

/// Feeds a target mutated seeds until the time is up or `rounds` are done.
pub fn run(target: &Target, seed: u64, limit: Duration, rounds: u64) -> Fed {
    let mut mutator = Mutator::new(target.seeds, seed);
    // Tables that are read once are nothing an input can be blamed for.
    target.seeds.iter().for_each(|seed| (target.run)(seed.as_bytes()));
    let started = Instant::now();
    let mut fed = Fed { inputs: 0, slowest: Duration::ZERO, slow: Vec::new() };
    while fed.inputs < rounds && started.elapsed() < limit {
        let input = mutator.next();
        let before = Instant::now();
        let result = std::panic::catch_unwind(|| (target.run)(&input));
        let took = before.elapsed();
        if result.is_err() {
            let text = String::from_utf8_lossy(&input);
            panic!("{}: input of {} bytes failed: {text:?}", target.name, input.len());
        }
        if took > fed.slowest {
            fed.slowest = took;
            fed.slow = input;
        }
        fed.inputs += 1;
    }
    fed
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
