//! Writes a unit: beside its place first, then moved there as a whole.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, params};
use serde_json::{Value, json};

use super::blobs::BlobWriter;
use super::rows::{SealedRows, TableRows};
use super::schema::{FORMAT_VERSION, FileKind, PAGE_SIZE, SEALED};
use super::seal::{ALGORITHM, SealedDigests, compute_digests};
use super::table::{Row, insert_rows};
use crate::error::UnitError;

/// The sealed tables of rows and contents, in the order of their keys.
pub(crate) fn sealed_tables(rows: &SealedRows, blobs: &BlobWriter) -> TableRows {
    let mut tables = rows.to_tables();
    let contents = blobs.rows().into_iter().map(|(hash, size)| {
        Row::from_iter([("sha256".to_owned(), json!(hash)), ("size".to_owned(), json!(size))])
    });
    tables.insert("blobs", contents.collect());
    for table in SEALED {
        if let Some(rows) = tables.get_mut(table.name) {
            rows.sort_by_key(|row| sort_key(row, table.key));
        }
    }
    tables
}

/// Orders rows as SQLite does: numbers by size, texts by their bytes.
fn sort_key(row: &Row, key: &[&str]) -> Vec<(i64, String)> {
    let part = |name: &&str| match row.get(*name) {
        Some(Value::Number(number)) => (number.as_i64().unwrap_or_default(), String::new()),
        Some(Value::String(text)) => (0, text.clone()),
        _ => (0, String::new()),
    };
    key.iter().map(part).collect()
}

/// Writes a sealed unit and gives its digests. The file appears whole or not at all.
pub(crate) fn write_unit(
    path: &Path,
    rows: &SealedRows,
    blobs: BlobWriter,
) -> Result<SealedDigests, UnitError> {
    let tables = sealed_tables(rows, &blobs);
    let digests = compute_digests(|table| tables.get(table.name).map_or(&[][..], Vec::as_slice));
    let temporary = create_database(path, FileKind::Unit, |connection| {
        blobs.write(connection)?;
        for table in SEALED.iter().filter(|table| table.name != "blobs") {
            insert_rows(connection, table, tables.get(table.name).map_or(&[][..], Vec::as_slice))?;
        }
        let sealed = serde_json::to_value(&digests.tables).unwrap_or_default();
        let row = params![digests.unit, ALGORITHM, super::table::canonical_text(&sealed)];
        connection
            .execute("INSERT INTO seal (id, unitDigest, algorithm, tables) VALUES (1, ?1, ?2, ?3)", row)
            .map_err(UnitError::database("seal the unit"))?;
        start_ledger(connection, &digests.unit)
    })?;
    move_in_place(&temporary, path)?;
    Ok(digests)
}

/// Begins the chain of a ledger: its first hash is the unit's digest.
pub(crate) fn start_ledger(connection: &Connection, unit_digest: &str) -> Result<(), UnitError> {
    let sql = "INSERT INTO ledger_head (id, unitDigest, seq, hash) VALUES (1, ?1, 0, ?1)";
    connection.execute(sql, [unit_digest]).map_err(UnitError::database("begin the ledger"))?;
    Ok(())
}

/// Makes a database beside `path`, fills it and gives the temporary name.
pub(crate) fn create_database(
    path: &Path,
    kind: FileKind,
    fill: impl FnOnce(&Connection) -> Result<(), UnitError>,
) -> Result<PathBuf, UnitError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    let temporary = path.with_file_name(name);
    let _ = fs::remove_file(&temporary);
    create_private(&temporary)?;
    let made = (|| {
        let failed = UnitError::database;
        let connection = Connection::open(&temporary).map_err(failed("create the unit"))?;
        connection
            .execute_batch(&format!(
                "PRAGMA page_size = {PAGE_SIZE}; PRAGMA journal_mode = DELETE; PRAGMA synchronous = OFF;
                 PRAGMA application_id = {}; PRAGMA user_version = {FORMAT_VERSION}; PRAGMA foreign_keys = ON;",
                kind.application_id()
            ))
            .map_err(failed("create the unit"))?;
        let transaction = connection.unchecked_transaction().map_err(failed("create the unit"))?;
        kind.create_tables(&connection).map_err(failed("create the unit"))?;
        fill(&connection)?;
        transaction.commit().map_err(failed("write the unit"))?;
        connection.execute_batch("VACUUM").map_err(failed("write the unit"))?;
        connection.close().map_err(|(_, error)| UnitError::database("write the unit")(error))
    })();
    match made {
        Ok(()) => Ok(temporary),
        Err(error) => {
            let _ = fs::remove_file(&temporary);
            Err(error)
        }
    }
}

/// Makes an empty file that is its owner's alone.
fn create_private(path: &Path) -> Result<(), UnitError> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop).map_err(UnitError::io("create", path))
}

/// Writes a file that is its owner's alone, in the place of any other.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> Result<(), UnitError> {
    let _ = fs::remove_file(path);
    create_private(path)?;
    fs::write(path, content).map_err(UnitError::io("write", path))
}

/// Moves a whole file to its place, durably.
pub(crate) fn move_in_place(temporary: &Path, path: &Path) -> Result<(), UnitError> {
    let synced = File::open(temporary).and_then(|file| file.sync_all());
    synced.map_err(UnitError::io("write", temporary))?;
    fs::rename(temporary, path).map_err(UnitError::io("write", path))?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Not every file system can sync a directory; the file itself is safe.
    let _ = File::open(parent).and_then(|directory| directory.sync_all());
    Ok(())
}

/// Makes the ledger beside a unit that cannot be written.
pub(crate) fn create_sidecar(path: &Path, unit_digest: &str) -> Result<(), UnitError> {
    let temporary =
        create_database(path, FileKind::Sidecar, |connection| start_ledger(connection, unit_digest))?;
    move_in_place(&temporary, path)
}
