//! The store of a stack's runs: `.slipway/stack` under its root.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use slipway_event::{Clock, NodeTotals, RunId};
use slipway_journal::{
    DirectoryStore, Disk, LockError, Log, Replayed, RunEvent, RunLock, RunProcess, RunStatus, Summary,
    Takeover, files, log, settled_status,
};
use slipway_problem::{Location, Problem, Problems};

use crate::error::Error;
use crate::git::Head;
use crate::plan::{Command, RUN_FORMAT, StackPlan};

/// The runs of a stack.
#[derive(Clone, Debug)]
pub struct RunStore {
    /// In `.slipway/stack`.
    runs: DirectoryStore,
}

/// The user, machine and commit of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunMeta {
    pub user: String,
    pub host: String,
    pub pid: u32,
    /// With secrets masked.
    pub argv: Vec<String>,
    pub cwd: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci_url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<Head>,
    pub tool_version: String,
    pub platform: String,
    /// The context of each cluster.
    pub kube: BTreeMap<String, Option<String>>,
}

/// A run read back.
#[derive(Clone, Debug)]
pub struct StoredRun {
    pub path: PathBuf,
    pub plan: StackPlan,
    pub events: Vec<RunEvent>,
    pub summary: Summary,
}

/// A line of the list of runs.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListedRun {
    pub run_id: String,
    pub stack_name: String,
    pub profile: Option<String>,
    pub command: Command,
    pub status: RunStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    #[serde(with = "slipway_journal::totals")]
    #[schemars(with = "slipway_journal::totals::KtlTotals")]
    pub totals: NodeTotals,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    pub path: String,
    /// The reason why the run cannot be read, if it cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The runs that are old enough to go.
#[derive(Clone, Copy, Debug, Default)]
pub struct Prune {
    /// The number of newest runs that stay whatever their age.
    pub keep: usize,
    /// Only those that were not written to for so long.
    pub older_than: Option<std::time::Duration>,
}

/// `last-run.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastRun {
    pub api_version: String,
    pub run_id: String,
    pub command: Command,
    pub status: RunStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    pub releases: Vec<Value>,
    /// Chart, values and the keys that were set, never what they were set to.
    pub inputs: Vec<Value>,
}

impl RunStore {
    /// The runs of the stack whose root is `root`.
    pub fn new(root: &Path, clock: Arc<dyn Clock>) -> Self {
        Self { runs: DirectoryStore::new(root.join(".slipway/stack"), clock) }
    }

    pub fn clock(&self) -> &Arc<dyn Clock> {
        self.runs.clock()
    }

    /// The directory of a run.
    pub fn run_path(&self, run_id: &str) -> PathBuf {
        self.runs.run_path(run_id)
    }

    /// Takes the lock of a stack and profile.
    pub fn lock(
        &self,
        stack: &str,
        profile: Option<&str>,
        owner: &str,
        takeover: Takeover,
    ) -> Result<RunLock, Error> {
        self.runs.prepare()?;
        let path =
            self.runs.directory().join("locks").join(format!("{stack}.{}.lock", profile.unwrap_or("-")));
        RunLock::acquire(&path, owner, self.clock().now(), takeover).map_err(|error| match error {
            LockError::Record(error) => error.into(),
            LockError::Held(holder) => {
                let (stack, profile) = (stack.to_owned(), profile.map(str::to_owned));
                Error::Locked { stack, profile, holder: holder.map(Box::new) }
            }
        })
    }

    /// Starts a run: the plan is named, hashed and on disk when it returns.
    pub fn create(&self, plan: &mut StackPlan, meta: &RunMeta) -> Result<StoredRun, Error> {
        plan.run_id = self.runs.create_run()?.to_string();
        let path = self.run_path(&plan.run_id);
        plan.api_version = RUN_FORMAT.to_owned();
        plan.created_at = Some(self.clock().now());
        plan.plan_hash = plan.hash();
        let file = path.join("meta.json");
        files::replace(&file, &text(meta)).map_err(Error::io("write", &file))?;
        self.runs.write_plan(&plan.run_id, &text(plan))?;
        Ok(StoredRun { path, summary: plan.summary(&[]), plan: plan.clone(), events: Vec::new() })
    }

    /// Reads a run's plan and checks it against its hash.
    pub fn plan(&self, run_id: &str) -> Result<StackPlan, Error> {
        let plan = self.read_plan(run_id)?;
        if plan.hash() != plan.plan_hash || plan.run_id != run_id {
            let at = Location::file(self.runs.plan_path(run_id).to_string_lossy());
            let problem = Problem::error("plan.json does not match its planHash").code("ST056").at(at);
            let hint = "it was changed after the run began; restore it from a copy, or start a new run";
            return Err(problem.hint(hint).into());
        }
        Ok(plan)
    }

    /// Reads a run's plan, be it what was written or not.
    fn read_plan(&self, run_id: &str) -> Result<StackPlan, Error> {
        if run_id.parse::<RunId>().is_err() {
            return Err(Error::invalid("ST053", format!("there is no run \"{run_id}\"")));
        }
        let Some(text) = self.runs.read_plan(run_id)? else {
            return Err(Error::invalid("ST053", format!("there is no run \"{run_id}\"")));
        };
        let path = self.runs.plan_path(run_id);
        serde_json::from_slice(&text).map_err(|error| {
            let place = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
            let at = Location::new(path.to_string_lossy(), place(error.line()), place(error.column()));
            let what = match error.classify() {
                serde_json::error::Category::Eof => "it ends too early",
                serde_json::error::Category::Data => "a field is missing or is not what it should be",
                _ => "this is not JSON",
            };
            let message = format!("the plan of run {run_id} is damaged: {what}");
            let hint = "restore the file from a copy, or start a new run: what is deployed already stays as it is; \
                        `--run-id` goes on with another run";
            Problem::error(message).code("ST056").at(at).hint(hint).into()
        })
    }

    /// Everything that is wrong with the plans of runs, newest first.
    pub fn damaged(&self) -> Problems {
        let mut problems = Problems::new();
        for name in self.runs.names().iter().filter(|name| self.runs.is_planned(name)) {
            if let Err(Error::Invalid(found)) = self.plan(name) {
                found.into_iter().for_each(|problem| problems.push(problem));
            }
        }
        problems
    }

    /// The id of the newest run.
    pub fn newest(&self) -> Option<String> {
        self.runs.names().into_iter().find(|name| self.runs.is_planned(name))
    }

    /// Reads a run as far as it can be read: up to the line of its log that is damaged, and what is wrong there.
    pub fn inspect(&self, run_id: &str) -> Result<(StoredRun, Option<Problem>), Error> {
        let plan = self.plan(run_id)?;
        let path = self.run_path(run_id);
        let (Replayed { events, .. }, damage) = log::inspect(&self.runs.log_path(run_id))?;
        let summary = plan.summary(&events);
        Ok((StoredRun { path, plan, events, summary }, damage))
    }

    /// Reads a run without touching it.
    pub fn open(&self, run_id: &str) -> Result<StoredRun, Error> {
        let plan = self.plan(run_id)?;
        let path = self.run_path(run_id);
        let Replayed { events, .. } = log::read(&self.runs.log_path(run_id))?;
        let summary = plan.summary(&events);
        Ok(StoredRun { path, plan, events, summary })
    }

    /// Reads a run to go on with it: a torn end of its log is put aside.
    pub fn reopen(&self, run_id: &str) -> Result<StoredRun, Error> {
        let plan = self.plan(run_id)?;
        let path = self.run_path(run_id);
        let Replayed { events, .. } = log::repair(&self.runs.log_path(run_id), &**self.clock())?;
        let summary = plan.summary(&events);
        Ok(StoredRun { path, plan, events, summary })
    }

    /// Reads the events of a run as far as they can be read.
    pub fn events(&self, run_id: &str) -> Vec<RunEvent> {
        log::read(&self.runs.log_path(run_id)).map(|replayed| replayed.events).unwrap_or_default()
    }

    /// Opens the log of a run for writing.
    pub fn log(&self, stored: &StoredRun) -> Result<Log, Error> {
        Ok(self.runs.open_log(&stored.plan.run_id, &stored.events)?)
    }

    /// Writes the log of a run to another disk.
    pub fn log_on(&self, stored: &StoredRun, disk: Box<dyn Disk>) -> Log {
        let path = self.runs.log_path(&stored.plan.run_id);
        Log::new(&path, &stored.plan.run_id, Arc::clone(self.clock()), disk, &stored.events)
    }

    /// The runs of a stack and profile, newest first. One that cannot be read is an error where it may be one of
    /// theirs: passing it over would go on with an older run than the user means.
    pub fn runs_of<'s>(
        &'s self,
        stack: &'s str,
        profile: Option<&'s str>,
    ) -> impl Iterator<Item = Result<StoredRun, Error>> + 's {
        self.runs.names().into_iter().filter(|name| self.runs.is_planned(name)).filter_map(move |name| {
            let other = |plan: &StackPlan| plan.stack_name != stack || plan.profile.as_deref() != profile;
            if self.read_plan(&name).is_ok_and(|plan| other(&plan)) {
                return None;
            }
            Some(self.open(&name))
        })
    }

    /// The newest runs first. A run that ended without saying so and is not alive was interrupted.
    pub fn list(&self, limit: usize, is_alive: impl Fn(&RunProcess) -> bool) -> Vec<ListedRun> {
        let mut listed = Vec::new();
        for name in self.runs.names() {
            if listed.len() == limit {
                break;
            }
            let path = self.run_path(&name);
            let Ok(plan) = self.plan(&name) else { continue };
            let (summary, events, problem) = match log::read(&self.runs.log_path(&name)) {
                Ok(replayed) => (plan.summary(&replayed.events), replayed.events, None),
                Err(error) => (plan.summary(&[]), Vec::new(), Some(error.to_string())),
            };
            let process = RunProcess::of(&events);
            listed.push(ListedRun {
                run_id: name,
                stack_name: plan.stack_name.clone(),
                profile: plan.profile.clone(),
                command: plan.command,
                status: settled_status(&summary, &events, &is_alive),
                started_at: summary.started_at.or(plan.created_at),
                updated_at: summary.updated_at.or(plan.created_at),
                ended_at: summary.ended_at,
                totals: summary.totals,
                pid: process.as_ref().map(|process| process.pid),
                host: process.map(|process| process.host),
                path: path.to_string_lossy().into_owned(),
                problem,
            });
        }
        listed
    }

    /// Removes old runs, newest first kept; gives the ids of those removed. The last run of a stack and profile
    /// stays, and so does every run without an end: it may be gone on with.
    pub fn prune(&self, prune: &Prune, is_alive: impl Fn(&RunProcess) -> bool) -> Result<Vec<String>, Error> {
        let mut seen = std::collections::BTreeSet::new();
        let mut removed = Vec::new();
        for (position, run) in self.list(usize::MAX, is_alive).into_iter().enumerate() {
            let last = seen.insert((run.stack_name.clone(), run.profile.clone()));
            let open = matches!(run.status, RunStatus::Running | RunStatus::Interrupted);
            let age = run.updated_at.map(|at| self.clock().now().duration_since(at).as_secs());
            let old = prune.older_than.is_none_or(|limit| {
                age.and_then(|age| u64::try_from(age).ok()).is_some_and(|age| age > limit.as_secs())
            });
            if last || open || position < prune.keep || !old || run.problem.is_some() {
                continue;
            }
            self.runs.remove(&run.run_id)?;
            removed.push(run.run_id);
        }
        Ok(removed)
    }

    /// Writes `summary.json`.
    pub(crate) fn write_summary(&self, path: &Path, summary: &Summary) -> io::Result<()> {
        files::replace(&path.join("summary.json"), &text(summary))
    }

    /// Writes `last-run.json` of the stack and profile.
    pub(crate) fn write_last_run(&self, plan: &StackPlan, summary: &Summary) -> io::Result<()> {
        let directory =
            self.runs.directory().join(&plan.stack_name).join(plan.profile.as_deref().unwrap_or("-"));
        files::directories(&directory)?;
        let node = |id: &String| summary.nodes.get(id).cloned().unwrap_or_default();
        let last = LastRun {
            api_version: RUN_FORMAT.to_owned(),
            run_id: plan.run_id.clone(),
            command: plan.command,
            status: summary.status,
            started_at: summary.started_at,
            ended_at: summary.ended_at,
            releases: plan
                .order
                .iter()
                .map(|id| json!({"id": id, "status": node(id).status, "attempt": node(id).attempt}))
                .collect(),
            inputs: plan
                .nodes
                .iter()
                .map(|node| {
                    let keys: Vec<&String> = node.set.keys().collect();
                    json!({"id": node.id, "chart": node.chart, "values": node.values, "setKeys": keys})
                })
                .collect(),
        };
        files::replace(&directory.join("last-run.json"), &text(&last))
    }
}

impl StoredRun {
    /// The status of the run, which is running only while its process is alive.
    pub fn state(&self, is_alive: impl Fn(&RunProcess) -> bool) -> RunStatus {
        settled_status(&self.summary, &self.events, is_alive)
    }

    /// The number of nodes that are not done.
    pub fn left(&self) -> usize {
        self.summary.remaining()
    }
}

/// Anything as the text of a JSON file.
fn text<T: Serialize>(value: &T) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).unwrap_or_default();
    text.push(b'\n');
    text
}
