//! Proof that nothing in a trail was changed, removed or put in between.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::kinds::{AuditEvent, AuditEventSpec};

/// Something wrong with a trail.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainFault {
    #[error("{event}: its content is not what its hash says")]
    Changed { event: String },
    #[error("{event}: it does not follow the entry before it")]
    Broken { event: String },
    #[error("entries {first} to {last} are missing")]
    Missing { first: u64, last: u64 },
    #[error("{event}: it stands at a place that is taken")]
    Doubled { event: String },
    #[error("{event}: it is not part of the chain")]
    Unchained { event: String },
}

/// The trail of one pipeline, looked at from its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainReport {
    pub namespace: String,
    pub pipeline: String,
    /// Entries of the chain.
    pub entries: usize,
    /// The hash of the last entry: whoever keeps it can tell later that nothing was cut off.
    pub head: Option<String>,
    pub faults: Vec<ChainFault>,
}

/// The hash of an entry: over all it says, and over the hash of the one before.
pub fn event_hash(spec: &AuditEventSpec) -> String {
    let hashed = AuditEventSpec { hash: None, ..spec.clone() };
    // Fields are written in the order of the type, so that the same entry has the same bytes.
    HEXLOWER.encode(&Sha256::digest(serde_json::to_vec(&hashed).unwrap_or_default()))
}

/// Looks at every trail of these entries.
pub fn verify_chain(events: &[AuditEvent]) -> Vec<ChainReport> {
    let mut trails: BTreeMap<(&str, &str), Vec<&AuditEvent>> = BTreeMap::new();
    for event in events {
        trails.entry((event.namespace(), &event.spec.pipeline_name)).or_default().push(event);
    }
    trails
        .into_iter()
        .map(|((namespace, pipeline), events)| verify_trail(namespace, pipeline, events))
        .collect()
}

fn verify_trail(namespace: &str, pipeline: &str, mut events: Vec<&AuditEvent>) -> ChainReport {
    events.sort_by(|one, other| (one.spec.sequence, one.name()).cmp(&(other.spec.sequence, other.name())));
    let mut faults = Vec::new();
    let mut last: Option<(u64, &str)> = None;
    let mut entries = 0;
    for event in events {
        let name = event.name().to_owned();
        let (Some(sequence), Some(hash)) = (event.spec.sequence, event.spec.hash.as_deref()) else {
            faults.push(ChainFault::Unchained { event: name });
            continue;
        };
        entries += 1;
        if event_hash(&event.spec) != hash {
            faults.push(ChainFault::Changed { event: name.clone() });
        }
        let expected = last.map_or(1, |(sequence, _)| sequence + 1);
        if sequence < expected {
            faults.push(ChainFault::Doubled { event: name });
            continue;
        }
        if sequence > expected {
            faults.push(ChainFault::Missing { first: expected, last: sequence - 1 });
        } else if event.spec.prev_hash.as_deref() != last.map(|(_, hash)| hash) {
            faults.push(ChainFault::Broken { event: name });
        }
        last = Some((sequence, hash));
    }
    ChainReport {
        namespace: namespace.to_owned(),
        pipeline: pipeline.to_owned(),
        entries,
        head: last.map(|(_, hash)| hash.to_owned()),
        faults,
    }
}
