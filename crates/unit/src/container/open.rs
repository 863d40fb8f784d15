//! Opens units and checks everything about them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use slipway_problem::Problem;

use super::blobs::BlobStore;
use super::connection::{Access, open_checked};
use super::rows::{SealedRows, SignatureRow, TableRows};
use super::schema::{FileKind, SEALED};
use super::seal::{ALGORITHM, SealedDigests, TableDigests, compute_digests};
use super::table::read_rows;
use crate::error::UnitError;
use crate::ledger::{LedgerEntry, read_ledger};
use crate::sign::{self, PublicKey};

/// The most objects a unit may have.
const MOST_OBJECTS: usize = 50_000;

/// Expectations of whoever opens a unit.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// The unit must be signed by one of these; none asks for no signature.
    pub trusted_keys: Vec<PublicKey>,
    /// The digest the unit must have.
    pub digest: Option<String>,
}

/// An opened unit whose seal, contents, chain and signatures are right.
#[derive(Clone, Debug)]
pub struct UnitFile {
    path: PathBuf,
    digest: String,
    rows: SealedRows,
    blobs: BlobStore,
    signatures: Vec<SignatureRow>,
    /// The ledger inside of the file when it was opened.
    ledger: Vec<LedgerEntry>,
}

impl UnitFile {
    /// Opens a unit. Every check is made before anything of it is used.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, UnitError> {
        let connection = open_checked(path, FileKind::Unit, Access::Read)?;
        // One transaction: no check sees another state than the one before.
        connection.execute_batch("BEGIN").map_err(UnitError::database("read the unit"))?;
        let (rows, blobs, digest) = read_sealed(&connection)?;
        if let Some(expected) = options.digest.as_ref().filter(|expected| **expected != digest) {
            let problem = Problem::error(format!(
                "{} is another unit: its digest is {digest}, not {expected}",
                path.display()
            ));
            return Err(problem
                .hint("get the unit again, or the digest of this one from whoever made it")
                .into());
        }
        let ledger = read_ledger(&connection, &digest)?;
        let signatures = read_signatures(&connection)?;
        for signature in &signatures {
            sign::check_signature(signature, &digest)?;
        }
        sign::require_trusted(&signatures, &options.trusted_keys)?;
        Ok(Self { path: path.to_owned(), digest, rows, blobs, signatures, ledger })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The identity of the unit, `sha256:…`.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    pub fn rows(&self) -> &SealedRows {
        &self.rows
    }

    pub fn signatures(&self) -> &[SignatureRow] {
        &self.signatures
    }

    pub(crate) fn blobs(&self) -> &BlobStore {
        &self.blobs
    }

    /// The sealed objects as YAML, without secrets, by their keys.
    pub fn object_texts(&self) -> Result<BTreeMap<String, String>, UnitError> {
        let rows = self.rows.objects.iter();
        rows.map(|row| Ok((row.key.clone(), self.blobs.text(&row.masked_sha256)?.to_owned()))).collect()
    }

    /// The entries of the ledger inside of the file.
    pub fn ledger(&self) -> &[LedgerEntry] {
        &self.ledger
    }

    /// The name of the release it is bundled for.
    pub fn release_name(&self) -> &str {
        self.rows.meta_text("releaseName")
    }

    /// The namespace it is bundled for.
    pub fn namespace(&self) -> &str {
        self.rows.meta_text("namespace")
    }

    /// The strategy the unit is rolled out with, as the user wrote it.
    pub fn strategy(&self) -> Option<&serde_json::Value> {
        self.rows.strategy.as_ref()
    }
}

/// Reads the sealed part and compares it with its seal.
fn read_sealed(connection: &Connection) -> Result<(SealedRows, BlobStore, String), UnitError> {
    let mut tables = TableRows::new();
    for table in SEALED {
        if table.name == "objects" {
            check_object_count(connection)?;
        }
        tables.insert(table.name, read_rows(connection, table)?);
    }
    let seal = read_seal(connection)?;
    let found = compute_digests(|table| tables.get(table.name).map_or(&[][..], Vec::as_slice));
    for (name, digests) in &found.tables {
        match seal.tables.get(name) {
            Some(sealed) if sealed == digests => {}
            Some(_) => return Err(UnitError::tampered(name, "has other rows")),
            None => return Err(UnitError::tampered("seal", "lacks a table")),
        }
    }
    if seal.tables.len() != found.tables.len() {
        return Err(UnitError::tampered("seal", "names more tables than there are"));
    }
    if seal.unit != found.unit {
        return Err(UnitError::tampered("seal", "has another digest"));
    }
    let blobs = BlobStore::read(connection)?;
    tables.remove("blobs");
    Ok((SealedRows::from_tables(tables)?, blobs, found.unit))
}

fn check_object_count(connection: &Connection) -> Result<(), UnitError> {
    let count: i64 = connection
        .query_row("SELECT count(*) FROM objects", [], |row| row.get(0))
        .map_err(|_| UnitError::tampered("objects", "cannot be read"))?;
    if usize::try_from(count).unwrap_or(usize::MAX) > MOST_OBJECTS {
        return Err(UnitError::problem(format!(
            "a unit may have {MOST_OBJECTS} objects; this one has {count}"
        )));
    }
    Ok(())
}

fn read_seal(connection: &Connection) -> Result<SealedDigests, UnitError> {
    let wrong = |_: rusqlite::Error| UnitError::tampered("seal", "cannot be read");
    let (unit, algorithm, tables): (String, String, String) = connection
        .query_row("SELECT unitDigest, algorithm, tables FROM seal WHERE id = 1", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .map_err(wrong)?;
    if algorithm != ALGORITHM {
        return Err(UnitError::tampered("seal", "is made with an unknown algorithm"));
    }
    let parsed: Result<BTreeMap<String, TableDigests>, _> = serde_json::from_str(&tables);
    let parsed = parsed.map_err(|_| UnitError::tampered("seal", "cannot be read"))?;
    let written = serde_json::to_value(&parsed).unwrap_or_default();
    if super::table::canonical_text(&written) != tables {
        return Err(UnitError::tampered("seal", "is not written as a seal is"));
    }
    Ok(SealedDigests { unit, tables: parsed })
}

fn read_signatures(connection: &Connection) -> Result<Vec<SignatureRow>, UnitError> {
    let wrong = |_: rusqlite::Error| UnitError::tampered("signatures", "cannot be read");
    let sql = "SELECT keyId, algorithm, publicKey, sig, signedAt FROM signatures ORDER BY keyId";
    let mut statement = connection.prepare(sql).map_err(wrong)?;
    let rows = statement.query_map([], |row| {
        Ok(SignatureRow {
            key_id: row.get(0)?,
            algorithm: row.get(1)?,
            public_key: row.get(2)?,
            signature: row.get(3)?,
            signed_at: row.get(4)?,
        })
    });
    rows.map_err(wrong)?.collect::<rusqlite::Result<_>>().map_err(wrong)
}
