//! Reads a data directory: finds every whole record behind whatever damage, and says what is missing.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::frame::{self, Frame, Span};
use super::head::{self, Acknowledged};
use super::record::{self, Record};
use super::{LOG, LOG_MAGIC, SNAPSHOT, SnapshotHeader, old};

/// What to do when acknowledged writes are missing from a data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recovery {
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

/// What was read from a directory.
#[derive(Default)]
pub(super) struct Recovered {
    /// The number of the last record.
    pub sequence: u64,
    /// The snapshot's revision.
    pub floor: u64,
    pub notices: Vec<DataNotice>,
    /// How long the log is when it can be written on; otherwise log and snapshot must be written anew.
    pub log_length: Option<u64>,
}

/// What one file turned out to hold.
#[derive(Default)]
struct FileFindings {
    text: Vec<u8>,
    /// Why acknowledged writes are missing.
    losses: Vec<String>,
    /// Bytes that belong to no record, between records.
    damaged: usize,
    tail: Option<Span>,
    old: bool,
}

/// Reads everything in `dir` and hands each record to `replay`. Changes nothing when it refuses.
pub(super) fn recover(
    dir: &Path,
    recovery: Recovery,
    replay: &mut dyn FnMut(Record),
) -> io::Result<Recovered> {
    let mut out = Recovered::default();
    let snapshot = read_snapshot(dir, &mut out, replay)?;
    let acknowledged = head::read(dir)?;
    let mut log = read_log(dir, &mut out, replay)?;
    match acknowledged {
        Acknowledged::Upto(sequence) if sequence > out.sequence && !log.old => {
            log.losses.push(missing(out.sequence + 1, sequence));
            out.sequence = sequence;
        }
        Acknowledged::Damaged | Acknowledged::Missing if log.tail.is_some() && !log.old => {
            log.losses.push("its end is damaged, and nothing says whether that was acknowledged".into());
        }
        Acknowledged::Damaged => out.notices.push(DataNotice::HeadRebuilt { file: dir.join("head") }),
        Acknowledged::Upto(_) | Acknowledged::Missing => {}
    }
    let files = [(SNAPSHOT, snapshot), (LOG, log)];
    if recovery == Recovery::Strict {
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
    out: &mut Recovered,
    replay: &mut dyn FnMut(Record),
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
        let scan = old::scan(&text, 16.min(text.len()));
        // A snapshot is renamed into place when it is whole: anything broken in it is damage.
        if !scan.damage.is_empty() || scan.tail.is_some() {
            found.losses.push("a record is broken".into());
        }
        payloads = scan.payloads;
    } else {
        let header = SnapshotHeader::parse(&text);
        let scan = frame::scan(&text, if header.is_some() { SnapshotHeader::LENGTH } else { 0 });
        found.damaged = scan.damage.iter().copied().chain(scan.tail).map(Span::len).sum();
        let mut last = 0;
        for Frame { sequence, payload, .. } in scan.frames {
            if sequence <= last {
                found.damaged += payload.len();
                continue;
            }
            if sequence > last + 1 {
                found.losses.push(missing(last + 1, sequence - 1));
            }
            last = sequence;
            payloads.push(payload);
        }
        match header {
            Some(header) => {
                (out.floor, out.sequence) = (header.floor, header.sequence);
                if last < header.count {
                    found.losses.push(missing(last + 1, header.count));
                }
            }
            None => found.losses.push("its header is broken".into()),
        }
    }
    let floor = out.floor;
    let records: Vec<Option<Record>> = payloads.into_iter().map(|p| record::decode(p, floor)).collect();
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

fn read_log(dir: &Path, out: &mut Recovered, replay: &mut dyn FnMut(Record)) -> io::Result<FileFindings> {
    let Some(text) = read_if_there(&dir.join(LOG))? else { return Ok(FileFindings::default()) };
    let mut found = FileFindings::default();
    let floor = out.floor;
    let mut unreadable = false;
    let mut take = |payload: &[u8]| {
        if payload != record::PROBE {
            match record::decode(payload, floor) {
                // A fold that crashed half way leaves records the snapshot already holds.
                Some(record) if record.rev <= floor => {}
                Some(record) => replay(record),
                None => unreadable = true,
            }
        }
    };
    if text.starts_with(old::MAGIC) {
        found.old = true;
        let scan = old::scan(&text, old::MAGIC.len());
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
        let scan = frame::scan(&text, if whole { LOG_MAGIC.len() } else { 0 });
        found.damaged = scan.damage.iter().copied().map(Span::len).sum();
        found.tail = scan.tail;
        if !whole && scan.frames.is_empty() {
            found.losses.push("it is not a sandbox's log".into());
        }
        let folded = out.sequence;
        for Frame { sequence, payload, .. } in &scan.frames {
            if *sequence <= out.sequence {
                // Twice in the file, unless the snapshot has it.
                found.damaged += if *sequence > folded { payload.len() } else { 0 };
                continue;
            }
            if *sequence > out.sequence + 1 {
                found.losses.push(missing(out.sequence + 1, *sequence - 1));
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

fn missing(first: u64, last: u64) -> String {
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
            crate::store::private::replace(&path, bytes)?;
            return Ok(path);
        }
    }
    Err(io::Error::other("no name is free"))
}
