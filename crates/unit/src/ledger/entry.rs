//! Entries of the ledger and the chain they form.

use std::fmt;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use slipway_journal::digest;

use crate::container::{ContentHash, LARGEST_CONTENT};
use crate::error::UnitError;

/// The kinds of facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntryKind {
    #[serde(rename = "plan")]
    Plan,
    /// Written before anything in the cluster changes.
    #[serde(rename = "apply.started")]
    ApplyStarted,
    #[serde(rename = "apply.step")]
    ApplyStep,
    #[serde(rename = "apply.finished")]
    ApplyFinished,
    /// The events of an apply, kept as a content.
    #[serde(rename = "apply.events")]
    ApplyEvents,
    #[serde(rename = "verification")]
    Verification,
    /// What was collected after a failed verification, kept as a content.
    #[serde(rename = "diagnostics")]
    Diagnostics,
    #[serde(rename = "promotion")]
    Promotion,
    #[serde(rename = "rollback")]
    Rollback,
}

impl EntryKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::ApplyStarted => "apply.started",
            Self::ApplyStep => "apply.step",
            Self::ApplyFinished => "apply.finished",
            Self::ApplyEvents => "apply.events",
            Self::Verification => "verification",
            Self::Diagnostics => "diagnostics",
            Self::Promotion => "promotion",
            Self::Rollback => "rollback",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        serde_json::from_value(Value::from(text)).ok()
    }
}

impl fmt::Display for EntryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The place a unit is deployed to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnitTarget {
    /// The environment, where it has a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<String>,
    /// The cluster as the user knows it: a context or an address.
    pub cluster: String,
    /// The identity of the cluster: the UID of its `kube-system` namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_uid: Option<String>,
    pub namespace: String,
    pub release: String,
}

impl UnitTarget {
    /// Tells that two targets are the same place, whatever they are called.
    pub fn is_same_place(&self, other: &Self) -> bool {
        let same_cluster = match (&self.cluster_uid, &other.cluster_uid) {
            (Some(own), Some(theirs)) => own == theirs,
            _ => self.cluster == other.cluster,
        };
        same_cluster && self.namespace == other.namespace && self.release == other.release
    }
}

impl fmt::Display for UnitTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(env) = &self.env {
            write!(f, "{env} ")?;
        }
        write!(f, "{}/{}/{}", self.cluster, self.namespace, self.release)
    }
}

/// One fact.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LedgerEntry {
    /// Counts from 1 without gaps.
    pub seq: i64,
    pub ts: String,
    pub kind: EntryKind,
    pub actor: String,
    pub host: String,
    pub target: UnitTarget,
    pub payload: Value,
    /// The hash of the fact itself, wherever it stands.
    pub entry: String,
    pub prev_hash: String,
    pub hash: String,
}

impl LedgerEntry {
    /// The apply a fact belongs to.
    pub fn apply_id(&self) -> Option<&str> {
        self.payload.get("applyId").and_then(Value::as_str)
    }

    pub(crate) fn content_hash(&self) -> Option<ContentHash> {
        self.payload.get("sha256").and_then(Value::as_str).and_then(ContentHash::parse)
    }

    /// The hash of a fact.
    pub(crate) fn hash_fact(&self) -> String {
        digest::json(&json!({
            "ts": self.ts, "kind": self.kind, "actor": self.actor, "host": self.host, "target": self.target,
            "payload": self.payload,
        }))
    }

    /// The hash of the chain up to a fact.
    pub(crate) fn hash_link(prev: &str, seq: i64, entry: &str) -> String {
        digest::bytes(format!("ktl.unit.ledger.v1\0{prev}\0{seq}\0{entry}").as_bytes())
    }
}

/// Reads a ledger and checks its chain, head and contents.
pub(crate) fn read_ledger(connection: &Connection, unit_digest: &str) -> Result<Vec<LedgerEntry>, UnitError> {
    let unreadable =
        |_: rusqlite::Error| UnitError::LedgerChanged { seq: 0, what: "cannot be read".to_owned() };
    let head = "SELECT unitDigest, seq, hash FROM ledger_head WHERE id = 1";
    let (of_unit, last, head): (String, i64, String) = connection
        .query_row(head, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .map_err(unreadable)?;
    if of_unit != unit_digest {
        let what = "belongs to another unit".to_owned();
        return Err(UnitError::LedgerChanged { seq: 0, what });
    }
    let sql = "SELECT seq, ts, kind, actor, host, target, payload, entry, prevHash, hash
               FROM ledger_entries ORDER BY seq";
    let mut statement = connection.prepare(sql).map_err(unreadable)?;
    let mut rows = statement.query([]).map_err(unreadable)?;
    let mut entries: Vec<LedgerEntry> = Vec::new();
    let mut prev = unit_digest.to_owned();
    while let Some(row) = rows.next().map_err(unreadable)? {
        let seq: i64 = row.get(0).map_err(unreadable)?;
        let wrong = |what: &str| UnitError::LedgerChanged { seq, what: what.to_owned() };
        let text = |index: usize| -> Result<String, UnitError> {
            row.get(index).map_err(|_| wrong("has a wrong value"))
        };
        let kind = EntryKind::parse(&text(2)?).ok_or_else(|| wrong("is of an unknown kind"))?;
        let entry = LedgerEntry {
            seq,
            ts: text(1)?,
            kind,
            actor: text(3)?,
            host: text(4)?,
            target: serde_json::from_str(&text(5)?).map_err(|_| wrong("has a target that cannot be read"))?,
            payload: serde_json::from_str(&text(6)?)
                .map_err(|_| wrong("has a payload that cannot be read"))?,
            entry: text(7)?,
            prev_hash: text(8)?,
            hash: text(9)?,
        };
        let written = [json!(entry.target), entry.payload.clone()].map(|value| canonical(&value));
        if written != [text(5)?, text(6)?] {
            return Err(wrong("is not written as an entry is"));
        }
        if seq != entries.len() as i64 + 1 {
            return Err(wrong("does not follow the one before"));
        }
        if entry.hash_fact() != entry.entry {
            return Err(wrong("says something else than was written"));
        }
        if entry.prev_hash != prev || LedgerEntry::hash_link(&prev, seq, &entry.entry) != entry.hash {
            return Err(wrong("is not linked to the one before"));
        }
        prev.clone_from(&entry.hash);
        entries.push(entry);
    }
    if last != entries.len() as i64 || head != prev {
        let what = "is not the last that was written".to_owned();
        return Err(UnitError::LedgerChanged { seq: entries.len() as i64, what });
    }
    check_contents(connection, &entries)?;
    Ok(entries)
}

pub(crate) fn canonical(value: &Value) -> String {
    let mut text = String::new();
    digest::canonical(value, &mut text);
    text
}

/// Checks that the contents of a ledger are those its entries name.
fn check_contents(connection: &Connection, entries: &[LedgerEntry]) -> Result<(), UnitError> {
    let wrong = |what: &str| UnitError::tampered("ledger_blobs", what);
    let mut named: std::collections::BTreeSet<ContentHash> =
        entries.iter().filter_map(LedgerEntry::content_hash).collect();
    let mut statement = connection
        .prepare("SELECT sha256, size, data FROM ledger_blobs")
        .map_err(|_| wrong("cannot be read"))?;
    let mut rows = statement.query([]).map_err(|_| wrong("cannot be read"))?;
    let mut total = 0_u64;
    while let Some(row) = rows.next().map_err(|_| wrong("cannot be read"))? {
        let hash: [u8; 32] = row.get(0).map_err(|_| wrong("has a row of the wrong kind"))?;
        let size: i64 = row.get(1).map_err(|_| wrong("has a row of the wrong kind"))?;
        let data = row.get_ref(2).map_err(|_| wrong("has a row of the wrong kind"))?;
        let data = data.as_blob().map_err(|_| wrong("has a row of the wrong kind"))?;
        // Before it is unpacked: a small file may hold a great many large contents.
        total = total.saturating_add(u64::try_from(size).unwrap_or(u64::MAX));
        if total > LARGEST_CONTENT {
            return Err(wrong("holds more than 1 GiB"));
        }
        let content = super::store::unpack(data, size).ok_or_else(|| wrong("cannot be unpacked"))?;
        if ContentHash::of(&content).0 != hash {
            return Err(wrong("has a content with another hash"));
        }
        if !named.remove(&ContentHash(hash)) {
            return Err(wrong("holds a content no entry names"));
        }
    }
    if named.is_empty() { Ok(()) } else { Err(wrong("lacks a content")) }
}
