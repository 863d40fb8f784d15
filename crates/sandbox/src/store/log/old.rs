//! The first format of log and snapshot: a length and a checksum before each record, nothing else. Such
//! files are read once and written anew in the present format.

use super::frame::{ByteSpan, crc_checksum};

pub(super) const MAGIC: &[u8; 8] = b"slipwal1";
const HEADER: usize = 8;
/// The beginning of every record's JSON.
const BEGINNING: &[u8] = b"{\"t\":\"";

/// The records of a file, and what lies between and behind them.
#[derive(Default)]
pub(super) struct OldScan<'a> {
    pub payloads: Vec<&'a [u8]>,
    pub damage: Vec<ByteSpan>,
    pub tail: Option<OldTail>,
}

/// The bytes after the last whole record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OldTail {
    /// A record that was not written to its end, or space the file system had not filled yet.
    Torn(ByteSpan),
    /// A record of full length whose content is wrong.
    Damaged(ByteSpan),
}

fn payload_at(text: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let header = text.get(at..at.checked_add(HEADER)?)?;
    let length = u32::from_le_bytes(*header.first_chunk()?) as usize;
    let sum = u32::from_le_bytes(*header.last_chunk()?);
    let end = at.checked_add(HEADER)?.checked_add(length)?;
    let payload = text.get(at + HEADER..end)?;
    (payload.starts_with(BEGINNING) && crc_checksum(payload) == sum).then_some((payload, end))
}

pub(super) fn scan_old(text: &[u8], start: usize) -> OldScan<'_> {
    let mut found = OldScan::default();
    let mut at = start;
    while at < text.len() {
        if let Some((payload, end)) = payload_at(text, at) {
            found.payloads.push(payload);
            at = end;
            continue;
        }
        let mut candidates = memchr::memmem::find_iter(&text[at..], BEGINNING)
            .filter_map(|offset| (at + offset).checked_sub(HEADER))
            .filter(|begin| *begin > at);
        match candidates.find(|begin| payload_at(text, *begin).is_some()) {
            Some(next) => {
                found.damage.push(ByteSpan { start: at, end: next });
                at = next;
            }
            None => {
                let rest = ByteSpan { start: at, end: text.len() };
                let length = text[at..].first_chunk().map(|bytes| u32::from_le_bytes(*bytes) as usize);
                let torn = length.is_none_or(|length| length > rest.len().saturating_sub(HEADER))
                    || text[at..].iter().all(|byte| *byte == 0);
                found.tail = Some(if torn { OldTail::Torn(rest) } else { OldTail::Damaged(rest) });
                break;
            }
        }
    }
    found
}
