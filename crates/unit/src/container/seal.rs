//! The identity of a unit: hashes over rows, which do not depend on the bytes SQLite writes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use slipway_journal::digest;

use super::schema::{SEALED, TableSchema, UNHASHED_META};
use super::table::{Row, canonical_text};

/// The first bytes of what is hashed.
const DOMAIN: &str = "ktl.unit.v1";
pub(crate) const ALGORITHM: &str = "sha256";

/// The digests of the sealed part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SealedDigests {
    /// The identity: two bundles of the same inputs have the same.
    pub(crate) unit: String,
    pub(crate) tables: BTreeMap<String, TableDigests>,
}

/// The digests of one table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TableDigests {
    /// Without times and places.
    pub(crate) identity: String,
    /// Over every column.
    pub(crate) content: String,
}

/// Computes the digests of all tables; `rows` gives those of one, in the order of their keys.
pub(crate) fn compute_digests<'r>(mut rows: impl FnMut(&TableSchema) -> &'r [Row]) -> SealedDigests {
    let mut unit = Sha256::new();
    unit.update(DOMAIN.as_bytes());
    unit.update([0]);
    let mut tables = BTreeMap::new();
    for table in SEALED {
        let rows = rows(table);
        let identity = hash_table(table, rows.iter().filter(|row| is_identity(table, row)), |name| {
            !table.unhashed.contains(&name)
        });
        // Most tables have no times or places.
        let content = match table.unhashed.is_empty() && table.name != "meta" {
            true => identity,
            false => hash_table(table, rows.iter(), |_| true),
        };
        unit.update(table.name.as_bytes());
        unit.update([0]);
        unit.update(identity);
        let hex = |hash: [u8; 32]| digest::hex(&hash);
        tables.insert(table.name.to_owned(), TableDigests { identity: hex(identity), content: hex(content) });
    }
    SealedDigests { unit: digest::hex(unit.finalize().as_slice()), tables }
}

fn is_identity(table: &TableSchema, row: &Row) -> bool {
    table.name != "meta"
        || !row.get("key").and_then(Value::as_str).is_some_and(|key| UNHASHED_META.contains(&key))
}

fn hash_table<'r>(
    table: &TableSchema,
    rows: impl Iterator<Item = &'r Row>,
    counts: impl Fn(&str) -> bool,
) -> [u8; 32] {
    let mut hash = Sha256::new();
    for row in rows {
        let cells: Row = row
            .iter()
            .filter(|(name, _)| counts(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let mut row_hash = Sha256::new();
        row_hash.update(table.name.as_bytes());
        row_hash.update([0]);
        row_hash.update(canonical_text(&Value::Object(cells)).as_bytes());
        hash.update(row_hash.finalize());
    }
    hash.finalize().into()
}
