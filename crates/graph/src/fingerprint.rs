//! The fingerprint of a graph, which a journal is bound to.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::Graph;

/// A hash of a graph's ids and edges and of whatever else its nodes' effects depend on.
///
/// Two runs with one fingerprint do the same work, so one may go on where the other ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// The hash as text: `sha256:` and 64 hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<N> Graph<N> {
    /// Hashes the ids, the edges and `input`, the caller's own hash of what the nodes do.
    pub fn fingerprint(&self, input: &[u8]) -> Fingerprint {
        let mut hash = Sha256::new();
        hash.update(b"slipway-graph 1\n");
        hash.update((input.len() as u64).to_le_bytes());
        hash.update(input);
        hash.update((self.len() as u64).to_le_bytes());
        for node in self.nodes() {
            hash.update((node.id().len() as u64).to_le_bytes());
            hash.update(node.id().as_bytes());
            hash.update((node.needs().len() as u64).to_le_bytes());
            for need in node.needs() {
                hash.update((need.position() as u64).to_le_bytes());
            }
        }
        let mut text = String::from("sha256:");
        for byte in hash.finalize() {
            text.push(char::from(b"0123456789abcdef"[usize::from(byte >> 4)]));
            text.push(char::from(b"0123456789abcdef"[usize::from(byte & 15)]));
        }
        Fingerprint(text)
    }
}
