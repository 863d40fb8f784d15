//! The thread that writes the log: group commit, folding into a snapshot, and what happens on a full disk.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};

use tokio::sync::watch;

use super::head::HeadFile;
use super::{
    DurableError, LOG_MAGIC, LogOptions, PendingRecords, WriteProgress, frame, lock, record, start_log,
    write_snapshot,
};
use crate::store::Store;

pub(super) struct LogWriter {
    pub file: File,
    pub head: HeadFile,
    /// Length of the acknowledged records in the file.
    pub length: u64,
    /// The number of the last acknowledged record.
    pub sequence: u64,
    /// The length at which the log is folded next.
    pub fold_at: u64,
    pub dir: PathBuf,
    pub options: LogOptions,
    pub pending: Arc<(Mutex<PendingRecords>, Condvar)>,
    pub progress: Arc<watch::Sender<WriteProgress>>,
    pub store: Weak<Store>,
    /// The directory is this process's as long as something may be written to it.
    pub _lock: Arc<File>,
}

/// Records that go to disk together.
struct RecordBatch {
    bytes: Vec<u8>,
    rev: u64,
    sequence: u64,
}

impl LogWriter {
    pub(super) fn run(mut self) {
        while let Some(batch) = self.next_batch() {
            match self.commit_batch(&batch) {
                Ok(()) => self.acknowledge_revision(batch.rev),
                Err(e) => self.roll_back(&e),
            }
            if self.length > self.fold_at {
                self.fold_into_snapshot();
            }
        }
    }

    fn next_batch(&self) -> Option<RecordBatch> {
        let mut pending = lock(&self.pending.0);
        loop {
            if pending.probe {
                pending.probe = false;
                pending.sequence += 1;
                let sequence = pending.sequence;
                frame::append_frame(&mut pending.buffer, sequence, record::PROBE);
            }
            if !pending.buffer.is_empty() {
                let (rev, sequence) = (pending.rev, pending.sequence);
                return Some(RecordBatch { bytes: std::mem::take(&mut pending.buffer), rev, sequence });
            }
            if pending.closed {
                return None;
            }
            pending = self.pending.1.wait(pending).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Writes a batch, syncs it, and then says that it counts.
    fn commit_batch(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let written = self
            .options
            .disk
            .write(&mut self.file, &batch.bytes)
            .and_then(|()| self.file.sync_data())
            .and_then(|()| self.head.write_sequence(batch.sequence));
        if let Err(e) = written {
            // What was not acknowledged must not come back at the next start.
            self.file.set_len(self.length)?;
            self.file.sync_data()?;
            self.head.write_sequence(self.sequence)?;
            return Err(e);
        }
        self.length += batch.bytes.len() as u64;
        self.sequence = batch.sequence;
        Ok(())
    }

    fn acknowledge_revision(&self, rev: u64) {
        if let Some(store) = self.store.upgrade() {
            store.mark_flushed(rev);
        }
        self.progress.send_modify(|progress| {
            progress.flushed = rev;
            progress.failing = None;
            progress.attempts += 1;
        });
    }

    /// Undoes in memory what the disk refused.
    fn roll_back(&self, why: &io::Error) {
        let error = DurableError(why.to_string());
        let undone = self.store.upgrade().map(|store| {
            store.roll_back(|rev| {
                let mut pending = lock(&self.pending.0);
                pending.buffer.clear();
                pending.sequence = self.sequence;
                pending.rev = rev;
            })
        });
        self.progress.send_modify(|progress| {
            match undone {
                Some(Some(revisions)) => {
                    progress.flushed = revisions.end() + 1;
                    progress.refuse_range(revisions, &error);
                }
                Some(None) => {}
                None => progress.refuse_range(progress.flushed + 1..=u64::MAX, &error),
            }
            progress.failing = Some(error);
            progress.attempts += 1;
        });
    }

    /// Replaces the log by a snapshot. What waits to be written is in the snapshot already, so it counts
    /// as written when the snapshot does. A crash between the two renames replays records the snapshot
    /// already has, which changes nothing; a full disk leaves the log as it is.
    fn fold_into_snapshot(&mut self) {
        let Some(store) = self.store.upgrade() else { return };
        let (rev, objects, batch) = store.capture_content(|| {
            let mut pending = lock(&self.pending.0);
            let (rev, sequence) = (pending.rev, pending.sequence);
            RecordBatch { bytes: std::mem::take(&mut pending.buffer), rev, sequence }
        });
        // Nothing the log says is in doubt meanwhile: try again when it has grown by another half.
        self.fold_at = self.length + self.options.fold_at / 2;
        let disk = &*self.options.disk;
        if write_snapshot(&self.dir, disk, rev, batch.sequence, &objects).is_err() {
            if !batch.bytes.is_empty() {
                match self.commit_batch(&batch) {
                    Ok(()) => self.acknowledge_revision(batch.rev),
                    Err(e) => self.roll_back(&e),
                }
            }
            return;
        }
        self.sequence = batch.sequence;
        if let Ok(file) = start_log(&self.dir) {
            self.file = file;
            self.length = LOG_MAGIC.len() as u64;
            self.fold_at = self.options.fold_at;
        }
        // The snapshot knows how far it goes; the head may stay behind it.
        let _ = self.head.write_sequence(batch.sequence);
        self.acknowledge_revision(rev.max(batch.rev));
    }
}
