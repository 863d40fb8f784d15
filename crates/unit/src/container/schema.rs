//! The schema of a unit: tables, their columns and keys, and the statements that make them.

use std::sync::OnceLock;

use rusqlite::Connection;

/// `KTLU`: tells a unit from other SQLite files.
pub(crate) const APPLICATION_ID: i32 = 0x4B54_4C55;
/// `KTLL`: a ledger beside a unit that cannot be written.
pub(crate) const SIDECAR_ID: i32 = 0x4B54_4C4C;
pub(crate) const FORMAT_VERSION: i32 = 1;
pub(crate) const PAGE_SIZE: u16 = 4096;

/// The way a column is kept and hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnType {
    Text,
    Integer,
    /// A SHA-256 hash: 32 bytes in the file, hex digits everywhere else.
    Hash,
}

/// A sealed table: what of it makes up the identity of the unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableSchema {
    pub(crate) name: &'static str,
    pub(crate) columns: &'static [(&'static str, ColumnType)],
    pub(crate) key: &'static [&'static str],
    /// Columns that two bundles of the same inputs may differ in.
    pub(crate) unhashed: &'static [&'static str],
}

use ColumnType::{Hash, Integer, Text};

/// Every sealed table, in the order of their names.
pub(crate) const SEALED: &[TableSchema] = &[
    TableSchema {
        name: "blobs",
        columns: &[("sha256", Hash), ("size", Integer)],
        key: &["sha256"],
        unhashed: &[],
    },
    TableSchema {
        name: "builds",
        columns: &[
            ("id", Text),
            ("context", Text),
            ("dockerfile", Text),
            ("args", Text),
            ("digest", Text),
            ("startedAt", Text),
            ("endedAt", Text),
            ("logSha256", Hash),
        ],
        key: &["id"],
        unhashed: &["startedAt", "endedAt"],
    },
    TableSchema {
        name: "chart",
        columns: &[
            ("id", Integer),
            ("ref", Text),
            ("name", Text),
            ("version", Text),
            ("appVersion", Text),
            ("packageDigest", Text),
            ("treeDigest", Text),
            ("lockDigest", Text),
            ("sourceKind", Text),
        ],
        key: &["id"],
        unhashed: &["ref"],
    },
    TableSchema {
        name: "chart_files",
        columns: &[("path", Text), ("mode", Integer), ("sha256", Hash)],
        key: &["path"],
        unhashed: &[],
    },
    TableSchema {
        name: "image_bindings",
        columns: &[
            ("ordinal", Integer),
            ("imageName", Text),
            ("kind", Text),
            ("path", Text),
            ("before", Text),
            ("after", Text),
            ("rule", Text),
            ("confidence", Text),
            ("proof", Text),
        ],
        key: &["ordinal"],
        unhashed: &[],
    },
    TableSchema {
        name: "image_uses",
        columns: &[
            ("objectKey", Text),
            ("container", Text),
            ("ref", Text),
            ("digest", Text),
            ("boundTo", Text),
        ],
        key: &["objectKey", "container"],
        unhashed: &[],
    },
    TableSchema {
        name: "images",
        columns: &[
            ("name", Text),
            ("repository", Text),
            ("tag", Text),
            ("digest", Text),
            ("mediaType", Text),
            ("platforms", Text),
            ("source", Text),
            ("buildId", Text),
            ("sbomRef", Text),
            ("provenanceRef", Text),
            ("sizeBytes", Integer),
        ],
        key: &["name"],
        unhashed: &[],
    },
    TableSchema {
        name: "manifest",
        columns: &[
            ("id", Integer),
            ("maskedDigest", Text),
            ("objectSetDigest", Text),
            ("notesSha256", Hash),
            ("objectCount", Integer),
            ("nondeterministic", Text),
        ],
        key: &["id"],
        unhashed: &[],
    },
    TableSchema { name: "meta", columns: &[("key", Text), ("value", Text)], key: &["key"], unhashed: &[] },
    TableSchema {
        name: "objects",
        columns: &[
            ("key", Text),
            ("ord", Integer),
            ("apiVersion", Text),
            ("kind", Text),
            ("namespace", Text),
            ("name", Text),
            ("scope", Text),
            ("hookEvents", Text),
            ("hookWeight", Integer),
            ("source", Text),
            ("maskedSha256", Hash),
            ("objectHash", Text),
            ("tainted", Text),
        ],
        key: &["key"],
        unhashed: &[],
    },
    TableSchema {
        name: "overlay_slots",
        columns: &[("env", Text), ("allowedPaths", Text)],
        key: &["env"],
        unhashed: &[],
    },
    TableSchema {
        name: "policy",
        columns: &[("name", Text), ("sha256", Hash), ("resultAtBundle", Text)],
        key: &["name"],
        unhashed: &[],
    },
    TableSchema {
        name: "secret_refs",
        columns: &[
            ("ref", Text),
            ("provider", Text),
            ("path", Text),
            ("key", Text),
            ("valuePaths", Text),
            ("required", Integer),
        ],
        key: &["ref"],
        unhashed: &[],
    },
    TableSchema {
        name: "strategy",
        columns: &[("id", Integer), ("json", Text)],
        key: &["id"],
        unhashed: &[],
    },
    TableSchema {
        name: "value_layers",
        columns: &[("ordinal", Integer), ("kind", Text), ("origin", Text), ("sha256", Hash)],
        key: &["ordinal"],
        // The same values may lie elsewhere.
        unhashed: &["origin"],
    },
    TableSchema {
        name: "values_resolved",
        columns: &[("id", Integer), ("sha256", Hash), ("digest", Text)],
        key: &["id"],
        unhashed: &[],
    },
];

/// Rows of `meta` that are not part of the identity.
pub(crate) const UNHASHED_META: &[&str] = &["createdAt", "builder", "sourceDirty"];

/// Statements for the sealed part.
const SEALED_TABLES: &str = "
CREATE TABLE meta (key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE packs (
  id INTEGER PRIMARY KEY, codec TEXT NOT NULL CHECK (codec IN ('raw', 'zstd')), size INTEGER NOT NULL,
  sha256 BLOB NOT NULL CHECK (length(sha256) = 32), data BLOB NOT NULL
) STRICT;
CREATE TABLE blobs (
  sha256 BLOB PRIMARY KEY NOT NULL CHECK (length(sha256) = 32), size INTEGER NOT NULL,
  pack INTEGER NOT NULL REFERENCES packs (id), start INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE chart (
  id INTEGER PRIMARY KEY CHECK (id = 1), ref TEXT NOT NULL, name TEXT NOT NULL, version TEXT NOT NULL,
  appVersion TEXT NOT NULL, packageDigest TEXT NOT NULL, treeDigest TEXT NOT NULL, lockDigest TEXT NOT NULL,
  sourceKind TEXT NOT NULL
) STRICT;
CREATE TABLE chart_files (
  path TEXT PRIMARY KEY NOT NULL, mode INTEGER NOT NULL, sha256 BLOB NOT NULL REFERENCES blobs (sha256)
) STRICT, WITHOUT ROWID;
CREATE TABLE value_layers (
  ordinal INTEGER PRIMARY KEY, kind TEXT NOT NULL, origin TEXT NOT NULL,
  sha256 BLOB NOT NULL REFERENCES blobs (sha256)
) STRICT;
CREATE TABLE values_resolved (
  id INTEGER PRIMARY KEY CHECK (id = 1), sha256 BLOB NOT NULL REFERENCES blobs (sha256), digest TEXT NOT NULL
) STRICT;
CREATE TABLE secret_refs (
  ref TEXT PRIMARY KEY NOT NULL, provider TEXT NOT NULL, path TEXT NOT NULL, key TEXT NOT NULL,
  valuePaths TEXT NOT NULL, required INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE images (
  name TEXT PRIMARY KEY NOT NULL, repository TEXT NOT NULL, tag TEXT NOT NULL, digest TEXT NOT NULL,
  mediaType TEXT NOT NULL, platforms TEXT NOT NULL, source TEXT NOT NULL, buildId TEXT, sbomRef TEXT,
  provenanceRef TEXT, sizeBytes INTEGER
) STRICT, WITHOUT ROWID;
CREATE TABLE image_bindings (
  ordinal INTEGER PRIMARY KEY, imageName TEXT NOT NULL, kind TEXT NOT NULL, path TEXT NOT NULL,
  before TEXT NOT NULL, after TEXT NOT NULL, rule TEXT NOT NULL, confidence TEXT NOT NULL, proof TEXT NOT NULL
) STRICT;
CREATE TABLE image_uses (
  objectKey TEXT NOT NULL, container TEXT NOT NULL, ref TEXT NOT NULL, digest TEXT NOT NULL, boundTo TEXT,
  PRIMARY KEY (objectKey, container)
) STRICT, WITHOUT ROWID;
CREATE TABLE builds (
  id TEXT PRIMARY KEY NOT NULL, context TEXT NOT NULL, dockerfile TEXT NOT NULL, args TEXT NOT NULL,
  digest TEXT NOT NULL, startedAt TEXT NOT NULL, endedAt TEXT NOT NULL, logSha256 BLOB REFERENCES blobs (sha256)
) STRICT, WITHOUT ROWID;
CREATE TABLE objects (
  key TEXT PRIMARY KEY NOT NULL, ord INTEGER NOT NULL, apiVersion TEXT NOT NULL, kind TEXT NOT NULL,
  namespace TEXT NOT NULL, name TEXT NOT NULL, scope TEXT NOT NULL, hookEvents TEXT NOT NULL,
  hookWeight INTEGER NOT NULL, source TEXT NOT NULL, maskedSha256 BLOB NOT NULL REFERENCES blobs (sha256),
  objectHash TEXT NOT NULL, tainted TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE manifest (
  id INTEGER PRIMARY KEY CHECK (id = 1), maskedDigest TEXT NOT NULL, objectSetDigest TEXT NOT NULL,
  notesSha256 BLOB NOT NULL REFERENCES blobs (sha256), objectCount INTEGER NOT NULL, nondeterministic TEXT NOT NULL
) STRICT;
CREATE TABLE policy (
  name TEXT PRIMARY KEY NOT NULL, sha256 BLOB NOT NULL REFERENCES blobs (sha256), resultAtBundle TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE strategy (id INTEGER PRIMARY KEY CHECK (id = 1), json TEXT NOT NULL) STRICT;
CREATE TABLE overlay_slots (env TEXT PRIMARY KEY NOT NULL, allowedPaths TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE seal (
  id INTEGER PRIMARY KEY CHECK (id = 1), unitDigest TEXT NOT NULL, algorithm TEXT NOT NULL, tables TEXT NOT NULL
) STRICT;
CREATE TABLE signatures (
  keyId TEXT PRIMARY KEY NOT NULL, algorithm TEXT NOT NULL, publicKey BLOB NOT NULL, sig BLOB NOT NULL,
  signedAt TEXT NOT NULL
) STRICT, WITHOUT ROWID;
";

/// Statements for the ledger: the chain is the truth, the views are ways to read it.
const LEDGER_TABLES: &str = "
CREATE TABLE ledger_entries (
  seq INTEGER PRIMARY KEY, ts TEXT NOT NULL, kind TEXT NOT NULL, actor TEXT NOT NULL, host TEXT NOT NULL,
  target TEXT NOT NULL, payload TEXT NOT NULL, entry TEXT NOT NULL, prevHash TEXT NOT NULL, hash TEXT NOT NULL
) STRICT;
CREATE TABLE ledger_head (id INTEGER PRIMARY KEY CHECK (id = 1), unitDigest TEXT NOT NULL, seq INTEGER NOT NULL,
  hash TEXT NOT NULL) STRICT;
CREATE TABLE ledger_blobs (
  sha256 BLOB PRIMARY KEY NOT NULL CHECK (length(sha256) = 32), size INTEGER NOT NULL, data BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE VIEW ledger_plans AS SELECT seq, ts, target, payload FROM ledger_entries WHERE kind = 'plan';
CREATE VIEW ledger_applies AS SELECT seq, ts, kind, target, json_extract(payload, '$.applyId') AS applyId,
  json_extract(payload, '$.revision') AS revision, json_extract(payload, '$.status') AS status,
  json_extract(payload, '$.error') AS error FROM ledger_entries WHERE kind IN ('apply.started', 'apply.finished');
CREATE VIEW ledger_steps AS SELECT seq, ts, json_extract(payload, '$.applyId') AS applyId,
  json_extract(payload, '$.step') AS step, json_extract(payload, '$.weight') AS weight,
  json_extract(payload, '$.status') AS status, json_extract(payload, '$.signals') AS signals
  FROM ledger_entries WHERE kind = 'apply.step';
CREATE VIEW ledger_verifications AS SELECT seq, ts, target, json_extract(payload, '$.applyId') AS applyId,
  json_extract(payload, '$.status') AS status, json_extract(payload, '$.checks') AS checks
  FROM ledger_entries WHERE kind = 'verification';
CREATE VIEW ledger_diagnostics AS SELECT seq, ts, json_extract(payload, '$.applyId') AS applyId,
  json_extract(payload, '$.sha256') AS sha256 FROM ledger_entries WHERE kind = 'diagnostics';
CREATE VIEW ledger_events AS SELECT seq, ts, json_extract(payload, '$.applyId') AS applyId,
  json_extract(payload, '$.count') AS count, json_extract(payload, '$.sha256') AS sha256
  FROM ledger_entries WHERE kind = 'apply.events';
";

/// The kinds of file this crate writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Unit,
    /// A ledger of its own, for a unit that cannot be written.
    Sidecar,
}

impl FileKind {
    pub(crate) fn application_id(self) -> i32 {
        match self {
            Self::Unit => APPLICATION_ID,
            Self::Sidecar => SIDECAR_ID,
        }
    }

    /// Makes every table of an empty file.
    pub(crate) fn create_tables(self, connection: &Connection) -> rusqlite::Result<()> {
        if self == Self::Unit {
            connection.execute_batch(SEALED_TABLES)?;
        }
        connection.execute_batch(LEDGER_TABLES)
    }

    /// The schema such a file must have, whatever made it.
    pub(crate) fn expected_schema(self) -> &'static str {
        static UNIT: OnceLock<String> = OnceLock::new();
        static SIDECAR: OnceLock<String> = OnceLock::new();
        let known = match self {
            Self::Unit => &UNIT,
            Self::Sidecar => &SIDECAR,
        };
        known.get_or_init(|| {
            let made = Connection::open_in_memory().and_then(|connection| {
                self.create_tables(&connection).and_then(|()| read_schema(&connection))
            });
            // The statements are constants: they work always or never, and tests run them.
            made.unwrap_or_default()
        })
    }
}

/// The schema of a database as one text: every table, index, view and trigger.
pub(crate) fn read_schema(connection: &Connection) -> rusqlite::Result<String> {
    let sql = "SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema ORDER BY type, name";
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([], |row| {
        let parts: [String; 4] = [row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?];
        Ok(parts.join("\u{1f}"))
    })?;
    Ok(rows.collect::<rusqlite::Result<Vec<String>>>()?.join("\u{1e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The columns of a table as SQLite has them: name, type, place in the key.
    fn columns_of(connection: &Connection, table: &str) -> rusqlite::Result<Vec<(String, String, i64)>> {
        let mut statement = connection.prepare("SELECT name, type, pk FROM pragma_table_info(?1)")?;
        let rows = statement.query_map([table], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        rows.collect()
    }

    #[test]
    fn every_column_of_a_sealed_table_is_sealed() {
        let connection = Connection::open_in_memory().expect("opens");
        FileKind::Unit.create_tables(&connection).expect("are made");
        for table in SEALED {
            let made = columns_of(&connection, table.name).expect("is there");
            // Where a content lies in the file is no part of what it is.
            let made: Vec<_> = made
                .into_iter()
                .filter(|(name, ..)| table.name != "blobs" || !["pack", "start"].contains(&&**name))
                .collect();
            let names: Vec<&str> = made.iter().map(|(name, ..)| name.as_str()).collect();
            assert_eq!(
                names,
                table.columns.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
                "{}",
                table.name
            );
            for ((name, kind, _), (_, column)) in made.iter().zip(table.columns) {
                let expected = match column {
                    Text => "TEXT",
                    Integer => "INTEGER",
                    Hash => "BLOB",
                };
                assert_eq!(kind, expected, "{}.{name}", table.name);
            }
            let mut key: Vec<(i64, &str)> = made
                .iter()
                .filter(|(_, _, place)| *place > 0)
                .map(|(name, _, place)| (*place, name.as_str()))
                .collect();
            key.sort_unstable();
            assert_eq!(key.iter().map(|(_, name)| *name).collect::<Vec<_>>(), table.key, "{}", table.name);
            assert!(table.unhashed.iter().all(|name| names.contains(name)), "{}", table.name);
        }
        let all = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'ledger%'";
        let mut statement = connection.prepare(all).expect("is read");
        let names = statement.query_map([], |row| row.get::<_, String>(0)).expect("is read");
        for name in names.map(|name| name.expect("is text")) {
            let is_apart = ["packs", "seal", "signatures"].contains(&name.as_str());
            assert!(is_apart || SEALED.iter().any(|table| table.name == name), "`{name}` is not sealed");
        }
    }
}
