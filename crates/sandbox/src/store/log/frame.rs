//! The frame around each record: a mark, a checked header and a checked payload.
//!
//! The mark holds bytes that occur in no UTF-8 text, and payloads are JSON: wherever a mark is found, a
//! record begins, so reading can go on behind any damage. Sequence numbers have no gaps; a missing record
//! is noticed by its neighbours.

/// Bytes before the payload: mark, length, sequence number, payload checksum, header checksum.
pub(super) const HEADER: usize = 24;
const MARK: [u8; 4] = [0xff, b'S', b'W', 0xfe];
/// A record longer than this can only be damage: the server refuses bodies of 3 MiB.
const LONGEST: u32 = 64 << 20;

/// One record found in a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogFrame<'a> {
    pub sequence: u64,
    pub payload: &'a [u8],
    end: usize,
}

/// A piece of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ByteSpan {
    pub start: usize,
    pub end: usize,
}

impl ByteSpan {
    pub(super) fn len(self) -> usize {
        self.end - self.start
    }
}

/// Everything a file holds behind its header.
#[derive(Debug, Default)]
pub(super) struct FrameScan<'a> {
    pub frames: Vec<LogFrame<'a>>,
    /// Bytes between whole records that belong to none.
    pub damage: Vec<ByteSpan>,
    /// Bytes behind the last whole record.
    pub tail: Option<ByteSpan>,
}

/// Appends a frame around what `payload` writes.
pub(super) fn append_frame(out: &mut Vec<u8>, sequence: u64, payload: &[u8]) {
    // A payload that does not fit is refused long before: bodies are bounded.
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    let start = out.len();
    out.extend_from_slice(&MARK);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&sequence.to_le_bytes());
    out.extend_from_slice(&crc_checksum(payload).to_le_bytes());
    let header = crc_checksum(&out[start..]);
    out.extend_from_slice(&header.to_le_bytes());
    out.extend_from_slice(payload);
}

/// Reads the frame that begins at `at`.
fn frame_at(text: &[u8], at: usize) -> Option<LogFrame<'_>> {
    let header = text.get(at..at.checked_add(HEADER)?)?;
    if header[..4] != MARK || crc_checksum(&header[..20]) != read_number(&header[20..]) {
        return None;
    }
    let length = read_number(&header[4..8]);
    if length > LONGEST {
        return None;
    }
    let end = at + HEADER + length as usize;
    let payload = text.get(at + HEADER..end)?;
    let sequence = u64::from_le_bytes(header[8..16].try_into().ok()?);
    (crc_checksum(payload) == read_number(&header[16..20])).then_some(LogFrame { sequence, payload, end })
}

/// Reads every whole record from `start` on, whatever lies between them.
pub(super) fn scan_frames(text: &[u8], start: usize) -> FrameScan<'_> {
    let mut found = FrameScan::default();
    let mut at = start.min(text.len());
    while at < text.len() {
        if let Some(frame) = frame_at(text, at) {
            at = frame.end;
            found.frames.push(frame);
            continue;
        }
        let marks = memchr::memmem::find_iter(&text[at..], &MARK).map(|offset| at + offset);
        match marks.into_iter().find(|mark| frame_at(text, *mark).is_some()) {
            Some(next) => {
                found.damage.push(ByteSpan { start: at, end: next });
                at = next;
            }
            None => {
                found.tail = Some(ByteSpan { start: at, end: text.len() });
                break;
            }
        }
    }
    found
}

fn read_number(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

pub(super) fn crc_checksum(text: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(text);
    crc.sum()
}
