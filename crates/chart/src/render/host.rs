//! A host whose time and randomness are fixed, so that a rendering can be repeated.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};
use slipway_gotmpl::TemplateHost;

/// Gives the same "random" bytes and the same time in every run with the same seed.
#[derive(Debug)]
pub struct SeededHost {
    seed: u64,
    blocks: AtomicU64,
    now: SystemTime,
}

impl SeededHost {
    /// Starts a stream for `seed` at `now`, seconds since 1970.
    pub fn new(seed: u64, now: u64) -> Self {
        Self { seed, blocks: AtomicU64::new(0), now: SystemTime::UNIX_EPOCH + Duration::from_secs(now) }
    }
}

impl TemplateHost for SeededHost {
    fn now(&self) -> SystemTime {
        self.now
    }

    fn is_seeded(&self) -> bool {
        true
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(32) {
            let block = self.blocks.fetch_add(1, Ordering::Relaxed);
            let mut hash = Sha256::new();
            hash.update(self.seed.to_le_bytes());
            hash.update(block.to_le_bytes());
            chunk.copy_from_slice(&hash.finalize()[..chunk.len()]);
        }
    }
}
