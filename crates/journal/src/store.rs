//! Runs in a directory: one directory a run, its documents whole or not there, its log appended to.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use slipway_event::{Clock, RunId};

use crate::error::RecordError;
use crate::event::RunEvent;
use crate::files;
use crate::log::{FileDisk, Log};

/// Seconds a directory without a plan is left alone; somebody may be writing it.
const SWEEP_AFTER: i64 = 24 * 3600;

/// The file of a run that is written last when it is created and removed first: without it there is no run.
const PLAN: &str = "plan.json";
const LOG: &str = "events.jsonl";

/// Runs below a directory that is theirs alone.
#[derive(Clone)]
pub struct DirectoryStore {
    directory: PathBuf,
    clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for DirectoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("DirectoryStore").field(&self.directory).finish()
    }
}

impl DirectoryStore {
    /// Keeps runs in `directory/runs`.
    pub fn new(directory: PathBuf, clock: Arc<dyn Clock>) -> Self {
        Self { directory, clock }
    }

    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The directory that holds everything.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn runs_directory(&self) -> PathBuf {
        self.directory.join("runs")
    }

    /// The directory of a run.
    pub fn run_path(&self, run_id: &str) -> PathBuf {
        self.runs_directory().join(run_id)
    }

    /// The file of a run's log.
    pub fn log_path(&self, run_id: &str) -> PathBuf {
        self.run_path(run_id).join(LOG)
    }

    /// The file of a run's plan.
    pub fn plan_path(&self, run_id: &str) -> PathBuf {
        self.run_path(run_id).join(PLAN)
    }

    /// Makes sure that the directories are there and open to nobody else.
    pub fn prepare(&self) -> Result<(), RecordError> {
        for directory in [&self.directory, &self.runs_directory()] {
            files::directories(directory).map_err(RecordError::io("create", directory))?;
        }
        let above = self.directory.parent().unwrap_or(&self.directory);
        files::ignore(above).map_err(RecordError::io("write", above))
    }

    /// Makes a directory for a new run and gives its id. It is no run before it has a [plan](Self::write_plan).
    pub fn create_run(&self) -> Result<RunId, RecordError> {
        self.prepare()?;
        self.sweep();
        loop {
            let run_id = RunId::generate(&*self.clock);
            let path = self.run_path(&run_id.to_string());
            match files::directory(&path) {
                Ok(()) => return Ok(run_id),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(RecordError::io("create", path)(error)),
            }
        }
    }

    /// Writes the plan of a new run; it never changes.
    pub fn write_plan(&self, run_id: &str, content: &[u8]) -> Result<(), RecordError> {
        let path = self.plan_path(run_id);
        files::create(&path, content).map_err(RecordError::io("write", &path))?;
        let path = self.run_path(run_id);
        files::sync_directory(&path).map_err(RecordError::io("write", &path))
    }

    /// Reads the plan of a run; none if there is no such run.
    pub fn read_plan(&self, run_id: &str) -> Result<Option<Vec<u8>>, RecordError> {
        let path = self.plan_path(run_id);
        match fs::read(&path) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(RecordError::io("read", path)(error)),
        }
    }

    /// Tells that a run came as far as to have a plan.
    pub fn is_planned(&self, run_id: &str) -> bool {
        self.plan_path(run_id).exists()
    }

    /// Opens the log of a run for writing, after `history`.
    pub fn open_log(&self, run_id: &str, history: &[RunEvent]) -> Result<Log, RecordError> {
        let path = self.log_path(run_id);
        let disk = FileDisk::open(&path).map_err(|error| RecordError::Unwritable(error.to_string()))?;
        Ok(Log::new(&path, run_id, Arc::clone(&self.clock), Box::new(disk), history))
    }

    /// The names of run directories, newest first.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.runs_directory());
        let names =
            entries.into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<_> = names
            .filter(|name| name.parse::<RunId>().is_ok())
            .map(|name| {
                // Ids count seconds; of runs of one second the one planned last is the newest.
                let second = name.split('_').next().unwrap_or_default().to_owned();
                let planned = fs::metadata(self.plan_path(&name)).and_then(|about| about.modified());
                (second, planned.ok(), name)
            })
            .collect();
        names.sort_unstable_by(|a, b| b.cmp(a));
        names.into_iter().map(|(_, _, name)| name).collect()
    }

    /// Removes a run.
    pub fn remove(&self, run_id: &str) -> Result<(), RecordError> {
        let path = self.run_path(run_id);
        // Without its plan it is no run any more, wherever this is interrupted.
        fs::remove_file(self.plan_path(run_id)).map_err(RecordError::io("remove", &path))?;
        fs::remove_dir_all(&path).map_err(RecordError::io("remove", &path))
    }

    /// Removes what crashed runs left before they had a plan.
    fn sweep(&self) {
        for name in self.names().iter().filter(|name| !self.is_planned(name)) {
            let path = self.run_path(name);
            let age =
                fs::metadata(&path).and_then(|metadata| metadata.modified()).ok().and_then(|modified| {
                    let modified = Timestamp::try_from(modified).ok()?;
                    Some(self.clock.now().duration_since(modified).as_secs())
                });
            if age.is_some_and(|age| age > SWEEP_AFTER) {
                // What cannot be swept stays; it does no harm.
                let _ = fs::remove_dir_all(&path);
            }
        }
    }
}
