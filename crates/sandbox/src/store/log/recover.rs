//! Reads a data directory: finds every whole record behind whatever damage, and says what is missing.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::frame::{self, ByteSpan, LogFrame};
use super::head::{self, HeadState};
use super::record::{self, LogRecord};
use super::{LOG, LOG_MAGIC, SNAPSHOT, SnapshotHeader, old};

/// The reaction to acknowledged writes that are missing from a data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RecoveryMode {
    /// Refuse to start.
    #[default]
    Strict,
    /// Start with what is left, and keep the damaged files aside.
    Salvage,
}

/// Something about a data directory that its owner should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataNotice {
    /// Damage between whole records; no record is missing.
    Recovered { file: PathBuf, bytes: usize, kept: PathBuf },
    /// The end of the log, which was never acknowledged.
    TornTail { file: PathBuf, bytes: usize, kept: PathBuf },
    /// Acknowledged writes are gone, and the sandbox was told to start all the same.
    Salvaged { file: PathBuf, why: String, kept: PathBuf },
    /// The file that remembers the last acknowledged write was damaged; the log itself is whole.
    HeadRebuilt { file: PathBuf },
    /// There are objects but no identity: certificates and tokens from before are worth nothing now.
    IdentityMissing { file: PathBuf },
}

impl fmt::Display for DataNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataNotice::Recovered { file, bytes, kept } => write!(
                f,
                "{} was damaged ({bytes} bytes); no write is lost, and the damaged file is kept as {}",
                file.display(),
                kept.display()
            ),
            DataNotice::TornTail { file, bytes, kept } => write!(
                f,
                "cut {bytes} bytes off {} that were never acknowledged; they are kept as {}",
                file.display(),
                kept.display()
            ),
            DataNotice::Salvaged { file, why, kept } => write!(
                f,
                "{} was damaged: {why}; the rest was saved, and the damaged file is kept as {}",
                file.display(),
                kept.display()
            ),
            DataNotice::HeadRebuilt { file } => {
                write!(f, "{} was damaged and written anew; no write is lost", file.display())
            }
            DataNotice::IdentityMissing { file } => write!(
                f,
                "{} was missing; a new one was made, and kubeconfigs and tokens from before do not work any more",
                file.display()
            ),
        }
    }
}

/// The result of reading a directory.
#[derive(Default)]
pub(super) struct RecoveredLog {
    /// The number of the last record.
    pub sequence: u64,
    /// The snapshot's revision.
    pub floor: u64,
    pub notices: Vec<DataNotice>,
    /// Length of the log if it can be appended to; otherwise log and snapshot must be rewritten.
    pub log_length: Option<u64>,
}

/// The findings about one file.
#[derive(Default)]
struct FileFindings {
    text: Vec<u8>,
    /// The reasons acknowledged writes are missing.
    losses: Vec<String>,
    /// Bytes that belong to no record, between records.
    damaged: usize,
    tail: Option<ByteSpan>,
    old: bool,
}

/// Reads everything in `dir` and hands each record to `replay`. Changes nothing when it refuses.
pub(super) fn recover_directory(
    dir: &Path,
    recovery: RecoveryMode,
    replay: &mut dyn FnMut(LogRecord),
) -> io::Result<RecoveredLog> {
    let mut out = RecoveredLog::default();
    let snapshot = read_snapshot(dir, &mut out, replay)?;
    let acknowledged = head::read_head(dir)?;
    let mut log = read_log(dir, &mut out, replay)?;
    match acknowledged {
        HeadState::Upto(sequence) if sequence > out.sequence && !log.old => {
            log.losses.push(missing_records(out.sequence + 1, sequence));
            out.sequence = sequence;
        }
        HeadState::Damaged | HeadState::Missing if log.tail.is_some() && !log.old => {
            log.losses.push("its end is damaged, and nothing says whether that was acknowledged".into());
        }
        HeadState::Damaged => out.notices.push(DataNotice::HeadRebuilt { file: dir.join("head") }),
        HeadState::Upto(_) | HeadState::Missing => {}
    }
    let files = [(SNAPSHOT, snapshot), (LOG, log)];
    if recovery == RecoveryMode::Strict {
        let problems: Vec<String> = files
            .iter()
            .filter(|(_, found)| !found.losses.is_empty())
            .map(|(name, found)| {
                format!("{} is damaged: {}", dir.join(name).display(), found.losses.join("; "))
            })
            .collect();
        if !problems.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, problems.join("; ")));
        }
    }
    let mut rewrite = false;
    for (name, found) in &files {
        let file = dir.join(name);
        rewrite |= found.old || found.damaged > 0 || !found.losses.is_empty();
        if !found.losses.is_empty() {
            let kept = keep_aside(&file, &found.text)?;
            out.notices.push(DataNotice::Salvaged { file, why: found.losses.join("; "), kept });
        } else if found.damaged > 0 {
            let kept = keep_aside(&file, &found.text)?;
            out.notices.push(DataNotice::Recovered { file, bytes: found.damaged, kept });
        } else if let Some(tail) = found.tail {
            let kept = keep_aside(&file, &found.text[tail.start..tail.end])?;
            out.notices.push(DataNotice::TornTail { file, bytes: tail.len(), kept });
        }
    }
    let log = &files[1].1;
    if !rewrite {
        out.log_length = Some(log.tail.map_or(log.text.len(), |tail| tail.start) as u64);
    }
    Ok(out)
}

fn read_snapshot(
    dir: &Path,
    out: &mut RecoveredLog,
    replay: &mut dyn FnMut(LogRecord),
) -> io::Result<FileFindings> {
    let Some(text) = read_if_there(&dir.join(SNAPSHOT))? else { return Ok(FileFindings::default()) };
    let mut found = FileFindings::default();
    let mut payloads: Vec<&[u8]> = Vec::new();
    if text.starts_with(old::MAGIC) {
        found.old = true;
        match text.get(8..16).and_then(|b| b.first_chunk::<8>()) {
            Some(floor) => out.floor = u64::from_le_bytes(*floor),
            None => found.losses.push("its header is cut off".into()),
        }
        let scan = old::scan_old(&text, 16.min(text.len()));
        // A snapshot is renamed into place when it is whole: anything broken in it is damage.
        if !scan.damage.is_empty() || scan.tail.is_some() {
            found.losses.push("a record is broken".into());
        }
        payloads = scan.payloads;
    } else {
        let header = SnapshotHeader::parse(&text);
        let scan = frame::scan_frames(&text, if header.is_some() { SnapshotHeader::LENGTH } else { 0 });
        found.damaged = scan.damage.iter().copied().chain(scan.tail).map(ByteSpan::len).sum();
        let mut last = 0;
        for LogFrame { sequence, payload, .. } in scan.frames {
            if sequence <= last {
                found.damaged += payload.len();
                continue;
            }
            if sequence > last + 1 {
                found.losses.push(missing_records(last + 1, sequence - 1));
            }
            last = sequence;
            payloads.push(payload);
        }
        match header {
            Some(header) => {
                (out.floor, out.sequence) = (header.floor, header.sequence);
                if last < header.count {
                    found.losses.push(missing_records(last + 1, header.count));
                }
            }
            None => found.losses.push("its header is broken".into()),
        }
    }
    let floor = out.floor;
    let records: Vec<Option<LogRecord>> =
        payloads.into_iter().map(|p| record::decode_record(p, floor)).collect();
    if records.iter().any(Option::is_none) {
        found.losses.push("a record cannot be read".into());
    }
    for mut record in records.into_iter().flatten() {
        // Without a header the newest object is the best guess at the snapshot's revision.
        out.floor = out.floor.max(record.rev);
        record.floor = record.floor.max(record.rev);
        replay(record);
    }
    found.text = text;
    Ok(found)
}

fn read_log(
    dir: &Path,
    out: &mut RecoveredLog,
    replay: &mut dyn FnMut(LogRecord),
) -> io::Result<FileFindings> {
    let Some(text) = read_if_there(&dir.join(LOG))? else { return Ok(FileFindings::default()) };
    let mut found = FileFindings::default();
    let floor = out.floor;
    let mut unreadable = false;
    let mut take = |payload: &[u8]| {
        if payload != record::PROBE {
            match record::decode_record(payload, floor) {
                // A fold that crashed half way leaves records the snapshot already holds.
                Some(record) if record.rev <= floor => {}
                Some(record) => replay(record),
                None => unreadable = true,
            }
        }
    };
    if text.starts_with(old::MAGIC) {
        found.old = true;
        let scan = old::scan_old(&text, old::MAGIC.len());
        scan.payloads.iter().for_each(|payload| take(payload));
        for span in &scan.damage {
            let (start, end) = (span.start, span.end);
            found
                .losses
                .push(format!("the record at byte {start} is broken, yet whole ones follow at byte {end}"));
        }
        match scan.tail {
            Some(old::OldTail::Torn(span)) => found.tail = Some(span),
            Some(old::OldTail::Damaged(span)) => {
                found.losses.push(format!("the record at byte {} is broken", span.start));
            }
            None => {}
        }
    } else if !LOG_MAGIC.starts_with(&text) {
        let whole = text.starts_with(LOG_MAGIC);
        let scan = frame::scan_frames(&text, if whole { LOG_MAGIC.len() } else { 0 });
        found.damaged = scan.damage.iter().copied().map(ByteSpan::len).sum();
        found.tail = scan.tail;
        if !whole && scan.frames.is_empty() {
            found.losses.push("it is not a sandbox's log".into());
        }
        let folded = out.sequence;
        for LogFrame { sequence, payload, .. } in &scan.frames {
            if *sequence <= out.sequence {
                // Twice in the file, unless the snapshot has it.
                found.damaged += if *sequence > folded { payload.len() } else { 0 };
                continue;
            }
            if *sequence > out.sequence + 1 {
                found.losses.push(missing_records(out.sequence + 1, *sequence - 1));
            }
            out.sequence = *sequence;
            take(payload);
        }
    } else if text.len() < LOG_MAGIC.len() && !text.is_empty() {
        found.damaged = text.len();
    }
    if unreadable {
        found.losses.push("a record cannot be read".into());
    }
    found.text = text;
    Ok(found)
}

fn missing_records(first: u64, last: u64) -> String {
    if first == last {
        format!("write {first} is missing")
    } else {
        format!("writes {first} to {last} are missing")
    }
}

fn read_if_there(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match std::fs::read(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Keeps bytes beside `file` under a name that is free.
fn keep_aside(file: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let names = (1..).map(|n| if n == 1 { format!("{name}.damaged") } else { format!("{name}.damaged-{n}") });
    for path in names.map(|name| file.with_file_name(name)) {
        if !path.exists() {
            crate::store::private::replace_file(&path, bytes)?;
            return Ok(path);
        }
    }
    Err(io::Error::other("no name is free"))
}
