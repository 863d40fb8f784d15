//! Writes the ledger: inside of the unit, or beside it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{Connection, TransactionBehavior, params};
use serde_json::Value;
use slipway_event::{Clock, SystemClock};

use super::entry::{EntryKind, LedgerEntry, UnitTarget, canonical, read_ledger};
use crate::container::connection::{Access, open_checked};
use crate::container::schema::FileKind;
use crate::container::{ContentHash, UnitFile, create_sidecar};
use crate::error::UnitError;

/// The most a content of the ledger may have once unpacked.
const LARGEST_CONTENT: usize = 256 << 20;
const LEVEL: i32 = 9;

/// Who writes the ledger.
#[derive(Clone, Debug, Default)]
pub struct LedgerIdentity {
    pub actor: String,
    pub host: String,
}

/// The file a ledger is written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerPlace {
    /// The unit itself.
    Unit(PathBuf),
    /// A file beside a unit that cannot be written.
    Sidecar(PathBuf),
}

impl LedgerPlace {
    pub fn path(&self) -> &Path {
        match self {
            Self::Unit(path) | Self::Sidecar(path) => path,
        }
    }

    fn file_kind(&self) -> FileKind {
        match self {
            Self::Unit(_) => FileKind::Unit,
            Self::Sidecar(_) => FileKind::Sidecar,
        }
    }
}

/// The ledger of a unit, to be read and added to.
#[derive(Clone)]
pub struct UnitLedger {
    place: LedgerPlace,
    unit: PathBuf,
    digest: String,
    identity: LedgerIdentity,
    clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for UnitLedger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UnitLedger").field("place", &self.place).finish_non_exhaustive()
    }
}

impl UnitLedger {
    /// The ledger of a unit: inside of it if it can be written, else beside it.
    pub fn of(unit: &UnitFile, identity: LedgerIdentity) -> Self {
        let path = unit.path();
        let place = if is_writable(path) {
            LedgerPlace::Unit(path.to_owned())
        } else {
            LedgerPlace::Sidecar(sidecar_path(path, &identity.host))
        };
        Self {
            place,
            unit: path.to_owned(),
            digest: unit.digest().to_owned(),
            identity,
            clock: Arc::new(SystemClock),
        }
    }

    /// The same with another source of time.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    pub fn place(&self) -> &LedgerPlace {
        &self.place
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Every fact known of the unit: those inside of it, then those of each file beside it.
    pub fn entries(&self) -> Result<Vec<LedgerEntry>, UnitError> {
        let connection = open_checked(&self.unit, FileKind::Unit, Access::Read)?;
        let mut entries = read_ledger(&connection, &self.digest)?;
        for path in sidecars_of(&self.unit) {
            let connection = open_checked(&path, FileKind::Sidecar, Access::Read)?;
            let known: Vec<String> = entries.iter().map(|entry| entry.entry.clone()).collect();
            let beside = read_ledger(&connection, &self.digest)?;
            entries.extend(beside.into_iter().filter(|entry| !known.contains(&entry.entry)));
        }
        Ok(entries)
    }

    /// A content an entry names.
    pub fn content(&self, entry: &LedgerEntry) -> Result<Option<Vec<u8>>, UnitError> {
        let Some(hash) = entry.content_hash() else { return Ok(None) };
        let beside = sidecars_of(&self.unit).into_iter().map(LedgerPlace::Sidecar);
        for place in std::iter::once(LedgerPlace::Unit(self.unit.clone())).chain(beside) {
            let connection = open_checked(place.path(), place.file_kind(), Access::Read)?;
            if let Some(content) = read_content(&connection, &hash)? {
                return Ok(Some(content));
            }
        }
        Ok(None)
    }

    /// Writes a fact, durably.
    pub fn append(
        &self,
        kind: EntryKind,
        target: &UnitTarget,
        payload: Value,
    ) -> Result<LedgerEntry, UnitError> {
        self.append_with(kind, target, payload, None)
    }

    /// Writes a fact with a content, which its payload then names as `sha256`.
    pub fn append_content(
        &self,
        kind: EntryKind,
        target: &UnitTarget,
        mut payload: Value,
        content: &[u8],
    ) -> Result<LedgerEntry, UnitError> {
        if let Some(fields) = payload.as_object_mut() {
            fields.insert("sha256".to_owned(), ContentHash::of(content).to_string().into());
        }
        self.append_with(kind, target, payload, Some(content))
    }

    fn append_with(
        &self,
        kind: EntryKind,
        target: &UnitTarget,
        payload: Value,
        content: Option<&[u8]>,
    ) -> Result<LedgerEntry, UnitError> {
        if let LedgerPlace::Sidecar(path) = &self.place
            && !path.exists()
        {
            create_sidecar(path, &self.digest)?;
        }
        let entry = LedgerEntry {
            seq: 0,
            ts: self.clock.now().to_string(),
            kind,
            actor: self.identity.actor.clone(),
            host: self.identity.host.clone(),
            target: target.clone(),
            payload,
            entry: String::new(),
            prev_hash: String::new(),
            hash: String::new(),
        };
        let mut connection = open_checked(self.place.path(), self.place.file_kind(), Access::Append)?;
        let mut appended =
            append_entries(&mut connection, &self.digest, vec![(entry, content.map(<[u8]>::to_vec))])?;
        appended.pop().ok_or_else(|| UnitError::problem("nothing was written to the ledger"))
    }
}

/// Adds facts to a chain in one transaction.
pub(super) fn append_entries(
    connection: &mut Connection,
    unit_digest: &str,
    entries: Vec<(LedgerEntry, Option<Vec<u8>>)>,
) -> Result<Vec<LedgerEntry>, UnitError> {
    let failed = UnitError::database;
    connection
        .execute_batch("PRAGMA synchronous = FULL; PRAGMA busy_timeout = 10000; PRAGMA secure_delete = ON;")
        .map_err(failed("write the ledger"))?;
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(failed("write the ledger"))?;
    // Under the write lock: nobody adds to a chain that is broken.
    let known = read_ledger(&transaction, unit_digest)?;
    let mut prev = known.last().map_or_else(|| unit_digest.to_owned(), |last| last.hash.clone());
    let mut seq = known.len() as i64;
    let mut appended = Vec::with_capacity(entries.len());
    for (mut entry, content) in entries {
        seq += 1;
        entry.seq = seq;
        entry.entry = entry.hash_fact();
        entry.hash = LedgerEntry::hash_link(&prev, seq, &entry.entry);
        entry.prev_hash = std::mem::replace(&mut prev, entry.hash.clone());
        let target = canonical(&serde_json::to_value(&entry.target).unwrap_or_default());
        transaction
            .execute(
                "INSERT INTO ledger_entries (seq, ts, kind, actor, host, target, payload, entry, prevHash, hash)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
                params![
                    entry.seq,
                    entry.ts,
                    entry.kind.as_str(),
                    entry.actor,
                    entry.host,
                    target,
                    canonical(&entry.payload),
                    entry.entry,
                    entry.prev_hash,
                    entry.hash
                ],
            )
            .map_err(failed("write the ledger"))?;
        if let Some(content) = content {
            let packed = zstd::bulk::compress(&content, LEVEL)
                .map_err(UnitError::io("compress", Path::new("a content of the ledger")))?;
            let hash = ContentHash::of(&content);
            let row = params![hash.0.as_slice(), content.len() as i64, packed];
            transaction
                .execute("INSERT OR IGNORE INTO ledger_blobs (sha256, size, data) VALUES (?1, ?2, ?3)", row)
                .map_err(failed("write the ledger"))?;
        }
        appended.push(entry);
    }
    transaction
        .execute("UPDATE ledger_head SET seq = ?1, hash = ?2 WHERE id = 1", params![seq, prev])
        .map_err(failed("write the ledger"))?;
    transaction.commit().map_err(failed("write the ledger"))?;
    Ok(appended)
}

/// A content of a ledger by its hash.
pub(super) fn read_content(
    connection: &Connection,
    hash: &ContentHash,
) -> Result<Option<Vec<u8>>, UnitError> {
    let found = connection.query_row(
        "SELECT size, data FROM ledger_blobs WHERE sha256 = ?1",
        [hash.0.as_slice()],
        |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?)),
    );
    match found {
        Ok((size, data)) => {
            let wrong = || UnitError::tampered("ledger_blobs", "cannot be unpacked");
            unpack(&data, size).ok_or_else(wrong).map(Some)
        }
        Err(rusqlite::Error::QueryReturnedNoRows) => Ok(None),
        Err(error) => Err(UnitError::database("read the ledger")(error)),
    }
}

pub(super) fn unpack(data: &[u8], size: i64) -> Option<Vec<u8>> {
    let size = usize::try_from(size).ok().filter(|size| *size <= LARGEST_CONTENT)?;
    zstd::bulk::decompress(data, size).ok().filter(|content| content.len() == size)
}

/// Tells that a unit can be written: what is marked as read-only is left alone, whoever asks.
fn is_writable(path: &Path) -> bool {
    let marked = fs::metadata(path).is_ok_and(|about| about.permissions().readonly());
    !marked && fs::OpenOptions::new().write(true).open(path).is_ok()
}

fn sidecar_path(unit: &Path, host: &str) -> PathBuf {
    let host: String = host
        .chars()
        .map(|character| if character.is_ascii_alphanumeric() || character == '-' { character } else { '_' })
        .collect();
    let mut name = unit.file_name().unwrap_or_default().to_owned();
    name.push(format!(".ledger.{}.sqlite", if host.is_empty() { "host" } else { &host }));
    unit.with_file_name(name)
}

/// The ledgers beside a unit, in the order of their names.
pub(super) fn sidecars_of(unit: &Path) -> Vec<PathBuf> {
    let Some(name) = unit.file_name().and_then(|name| name.to_str()) else { return Vec::new() };
    let prefix = format!("{name}.ledger.");
    let parent = unit.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut found: Vec<PathBuf> = fs::read_dir(parent)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.starts_with(&prefix) && name.ends_with(".sqlite")
        })
        .collect();
    found.sort_unstable();
    found
}
