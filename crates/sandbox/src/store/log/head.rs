//! The number of the last acknowledged record, kept beside the log.
//!
//! A log cut short looks like one that was never longer. This file, written after each sync of the log and
//! before the answer, tells a torn write from lost records. Two places take turns, so that a crash while
//! one is written leaves the other.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use super::frame::crc_checksum;
use crate::store::private;

const FILE: &str = "head";
const MAGIC: &[u8; 8] = b"sliphead";
/// Far enough apart that one torn block does not hit both.
const DISTANCE: u64 = 4096;
const LENGTH: usize = 20;

/// The file while the log is open.
pub(super) struct HeadFile {
    file: File,
    turn: u64,
}

/// The state of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeadState {
    /// Everything up to this record was acknowledged.
    Upto(u64),
    /// The file exists and cannot be read.
    Damaged,
    Missing,
}

/// Reads the file without changing it.
pub(super) fn read_head(dir: &Path) -> io::Result<HeadState> {
    let mut text = Vec::new();
    match File::open(dir.join(FILE)) {
        Ok(file) => file.take(4 * DISTANCE).read_to_end(&mut text)?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(HeadState::Missing),
        Err(e) => return Err(e),
    };
    let newest =
        [0, DISTANCE as usize].into_iter().filter_map(|at| read_slot(text.get(at..at + LENGTH)?)).max();
    Ok(newest.map_or(HeadState::Damaged, HeadState::Upto))
}

fn read_slot(bytes: &[u8]) -> Option<u64> {
    let (text, sum) = bytes.split_last_chunk::<4>()?;
    let (magic, sequence) = text.split_last_chunk::<8>()?;
    (magic == MAGIC && crc_checksum(text) == u32::from_le_bytes(*sum)).then(|| u64::from_le_bytes(*sequence))
}

impl HeadFile {
    /// Opens the file for writing and makes it say `sequence`.
    pub(super) fn open(dir: &Path, sequence: u64) -> io::Result<HeadFile> {
        let mut options = OpenOptions::new();
        let file = private::open_private(&dir.join(FILE), options.read(true).write(true).create(true))?;
        let mut head = HeadFile { file, turn: 0 };
        // Both: an old number must not outlive what was cut off.
        head.write_sequence(sequence)?;
        head.write_sequence(sequence)?;
        head.file.set_len(DISTANCE + LENGTH as u64)?;
        Ok(head)
    }

    /// Makes the file say that everything up to `sequence` was acknowledged.
    pub(super) fn write_sequence(&mut self, sequence: u64) -> io::Result<()> {
        let mut text = [0; LENGTH];
        text[..8].copy_from_slice(MAGIC);
        text[8..16].copy_from_slice(&sequence.to_le_bytes());
        let sum = crc_checksum(&text[..16]);
        text[16..].copy_from_slice(&sum.to_le_bytes());
        self.file.seek(SeekFrom::Start((self.turn % 2) * DISTANCE))?;
        self.file.write_all(&text)?;
        self.file.sync_data()?;
        self.turn += 1;
        Ok(())
    }
}
