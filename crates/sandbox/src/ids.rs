//! Generated names and uids: random, or repeatable under a seed.

use std::sync::atomic::{AtomicU64, Ordering};

/// The letters generated names end with: no vowels, nothing easily confused.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Longest prefix kept in front of a generated suffix.
const LONGEST_PREFIX: usize = 58;

/// A stream of identifiers.
pub(crate) struct IdGenerator {
    state: AtomicU64,
}

impl IdGenerator {
    pub(crate) fn new(seed: Option<u64>) -> IdGenerator {
        let seed = seed.unwrap_or_else(|| {
            let mut bytes = [0; 8];
            // Without entropy the time still differs between runs; secrets are not drawn from here.
            if aws_lc_rs::rand::fill(&mut bytes).is_err() {
                bytes = jiff::Timestamp::now().as_microsecond().to_le_bytes();
            }
            u64::from_le_bytes(bytes)
        });
        IdGenerator { state: AtomicU64::new(seed) }
    }

    /// The next random number (splitmix64).
    pub(crate) fn next_number(&self) -> u64 {
        let mut z = self
            .state
            .fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed)
            .wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn new_uid(&self) -> String {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.next_number().to_le_bytes());
        bytes[8..].copy_from_slice(&self.next_number().to_le_bytes());
        uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
    }

    /// Five letters for the end of a generated name.
    pub(crate) fn name_suffix(&self) -> String {
        let mut number = self.next_number();
        let mut out = String::with_capacity(5);
        for _ in 0..5 {
            let index = usize::try_from(number % ALPHABET.len() as u64).unwrap_or(0);
            out.push(char::from(ALPHABET[index]));
            number /= ALPHABET.len() as u64;
        }
        out
    }

    /// `prefix` as far as it fits, and a suffix.
    pub(crate) fn generate_name(&self, prefix: &str) -> String {
        let mut end = prefix.len().min(LONGEST_PREFIX);
        while !prefix.is_char_boundary(end) {
            end -= 1;
        }
        format!("{}{}", &prefix[..end], self.name_suffix())
    }
}

/// A 32-bit hash in the letters of generated names, as `pod-template-hash` shows it.
pub fn safe_encode(hash: u32) -> String {
    hash.to_string().bytes().map(|b| char::from(ALPHABET[usize::from(b) % ALPHABET.len()])).collect()
}

/// FNV-1a, the hash behind template hashes.
pub fn fnv32a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, b| (hash ^ u32::from(*b)).wrapping_mul(0x0100_0193))
}
