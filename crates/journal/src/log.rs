//! The append-only log of a run: what is in it survived, what is torn off its end did not happen.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use slipway_event::Clock;
use slipway_problem::{Location, Problem};

use crate::error::RecordError;
use crate::event::RunEvent;
use crate::files;

/// A destination of the bytes of a log.
pub trait Disk: Send {
    /// Appends whole lines, in one write.
    fn append(&mut self, lines: &[u8]) -> io::Result<()>;

    /// Returns once everything appended would survive a crash.
    fn sync(&mut self) -> io::Result<()>;
}

/// A file opened for appending.
#[derive(Debug)]
pub struct FileDisk(File);

impl FileDisk {
    /// Opens or creates the file, for its owner alone.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = files::private().append(true).create(true).open(path)?;
        files::sync_directory(path)?;
        Ok(Self(file))
    }
}

impl Disk for FileDisk {
    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        self.0.write_all(lines)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }
}

/// The content of a log.
#[derive(Clone, Debug, Default)]
pub struct Replayed {
    pub events: Vec<RunEvent>,
    /// Bytes of the end that are no whole line.
    pub torn: Vec<u8>,
    /// The end of the whole lines.
    end: u64,
}

/// Reads a log. Whatever is wrong with its last line is torn off; anything wrong before it is an error.
pub fn read(path: &Path) -> Result<Replayed, RecordError> {
    match inspect(path)? {
        (replayed, None) => Ok(replayed),
        (_, Some(damage)) => Err(RecordError::Damaged(Box::new(damage))),
    }
}

/// Reads a log as far as it can be trusted; gives also what is wrong with the line that ends it early.
pub fn inspect(path: &Path) -> Result<(Replayed, Option<Problem>), RecordError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(source) => return Err(RecordError::Io { doing: "read", path: path.to_owned(), source }),
    };
    let mut replayed = Replayed::default();
    let mut rest = bytes.as_slice();
    let mut number = 0;
    let mut damage = None;
    let mut last_digest: Option<String> = None;
    while let Some(length) = rest.iter().position(|byte| *byte == b'\n') {
        let (line, after) = (&rest[..length], &rest[length + 1..]);
        number += 1;
        let event = serde_json::from_slice::<RunEvent>(line).ok().filter(|event| {
            event.is_whole() && (event.prev_digest.is_none() || event.prev_digest == last_digest)
        });
        match event {
            Some(event) => {
                last_digest = event.digest.clone();
                replayed.events.push(event);
            }
            None if after.is_empty() => break,
            None => {
                let at = Location { line: number, ..Location::file(path.to_string_lossy()) };
                let hint = "nothing from this line on can be trusted; restore the file from a copy, or start a new run: \
                            what is deployed already stays as it is";
                damage = Some(Problem::error("corrupt").code("ST054").at(at).hint(hint));
                break;
            }
        }
        rest = after;
    }
    replayed.end = (bytes.len() - rest.len()) as u64;
    if damage.is_none() {
        replayed.torn = rest.to_vec();
    }
    Ok((replayed, damage))
}

/// Reads a log to go on with it: torn bytes are put aside and cut off.
pub fn repair(path: &Path, clock: &dyn Clock) -> Result<Replayed, RecordError> {
    let replayed = read(path)?;
    if !replayed.torn.is_empty() {
        let stamp = clock.now().strftime("%Y-%m-%dT%H-%M-%SZ");
        let mut aside = path.with_file_name(format!("events.torn-{stamp}"));
        let mut number = 1;
        while aside.exists() {
            number += 1;
            aside = path.with_file_name(format!("events.torn-{stamp}-{number}"));
        }
        files::create(&aside, &replayed.torn).map_err(RecordError::io("write", aside))?;
        let cut = files::private().open(path).and_then(|file| {
            file.set_len(replayed.end)?;
            file.sync_all()
        });
        cut.map_err(RecordError::io("repair", path))?;
    }
    Ok(replayed)
}

/// The writing end of a log: numbers, stamps and chains events.
pub struct Log {
    disk: Box<dyn Disk>,
    path: PathBuf,
    run_id: String,
    clock: Arc<dyn Clock>,
    seq: u64,
    last_digest: Option<String>,
    /// The first failure; nothing is written after it, so that no gap can hide.
    failure: Option<String>,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log").field("path", &self.path).field("seq", &self.seq).finish_non_exhaustive()
    }
}

impl Log {
    pub fn new(
        path: &Path,
        run_id: &str,
        clock: Arc<dyn Clock>,
        disk: Box<dyn Disk>,
        history: &[RunEvent],
    ) -> Self {
        let last = history.last();
        Self {
            disk,
            path: path.to_owned(),
            run_id: run_id.to_owned(),
            clock,
            seq: last.map_or(0, |event| event.seq),
            last_digest: last.and_then(|event| event.digest.clone()),
            failure: None,
        }
    }

    /// Appends events; those that mark a boundary are on disk when it returns. Gives them as written.
    pub fn append(&mut self, events: Vec<RunEvent>) -> Result<Vec<RunEvent>, RecordError> {
        if let Some(failure) = &self.failure {
            return Err(RecordError::Unwritable(failure.clone()));
        }
        let mut lines = Vec::new();
        let mut written = Vec::with_capacity(events.len());
        let mut boundary = false;
        for mut event in events {
            self.seq += 1;
            event.seq = self.seq;
            event.ts = self.clock.now();
            event.run_id.clone_from(&self.run_id);
            event.prev_digest = self.last_digest.take();
            event.seal();
            self.last_digest.clone_from(&event.digest);
            boundary |= event.is_boundary();
            if let Ok(line) = serde_json::to_vec(&event) {
                lines.extend(line);
                lines.push(b'\n');
            }
            written.push(event);
        }
        let mut done = self.disk.append(&lines);
        if done.is_ok() && boundary {
            done = self.disk.sync();
        }
        if let Err(error) = done {
            let failure = slipway_problem::describe_io(&error);
            self.failure = Some(failure.clone());
            return Err(RecordError::Unwritable(failure));
        }
        Ok(written)
    }
}
