//! Brings the ledger beside a unit into the unit.

use std::collections::HashSet;
use std::path::Path;

use super::entry::read_ledger;
use super::store::{append_entries, read_content};
use crate::container::UnitFile;
use crate::container::connection::{Access, open_checked};
use crate::container::schema::FileKind;
use crate::error::UnitError;

/// The result of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MergeOutcome {
    pub added: usize,
    pub already_known: usize,
}

/// Adds the facts of a ledger beside a unit that the unit does not know; facts are the same if their hashes are.
pub fn merge_ledger(unit: &UnitFile, sidecar: &Path) -> Result<MergeOutcome, UnitError> {
    let other = open_checked(sidecar, FileKind::Sidecar, Access::Read)?;
    let entries = read_ledger(&other, unit.digest())?;
    let mut connection = open_checked(unit.path(), FileKind::Unit, Access::Append)?;
    let known: HashSet<String> =
        read_ledger(&connection, unit.digest())?.into_iter().map(|entry| entry.entry).collect();
    let total = entries.len();
    let mut missing = Vec::new();
    for entry in entries.into_iter().filter(|entry| !known.contains(&entry.entry)) {
        let content = match entry.content_hash() {
            Some(hash) => read_content(&other, &hash)?,
            None => None,
        };
        missing.push((entry, content));
    }
    let added = missing.len();
    if added > 0 {
        append_entries(&mut connection, unit.digest(), missing)?;
    }
    Ok(MergeOutcome { added, already_known: total - added })
}
