//! Decides which steps of a document do not run, and why.

use std::collections::{BTreeSet, HashMap};

use slipway_problem::{Problem, Problems};

use crate::execute::{Command, RESUMED, ResumePolicy, RunError, RunOptions};
use crate::hash;
use crate::model::{Document, Step};
use crate::state::{NodeSnapshot, NodeStatus, RunSnapshot, RunStatus};

/// The kinds of reasons why a step does not run; results name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SkipCode {
    When,
    Resumed,
    NotReversible,
    NotSelected,
    Canceled,
    Stopped,
    Needs,
}

impl SkipCode {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::When => "when",
            Self::Resumed => "resumed",
            Self::NotReversible => "not-reversible",
            Self::NotSelected => "not-selected",
            Self::Canceled => "canceled",
            Self::Stopped => "stopped",
            Self::Needs => "needs",
        }
    }
}

/// The reason why a step does not run, decided before anything does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SkippedStep {
    pub(crate) code: SkipCode,
    pub(crate) reason: String,
}

impl SkippedStep {
    pub(crate) fn new(code: SkipCode, reason: impl Into<String>) -> Self {
        Self { code, reason: reason.into() }
    }
}

/// Everything that is decided before a run: which steps do not run and why, and what the record said.
#[derive(Clone, Debug)]
pub(crate) struct RunDecisions {
    pub(crate) command: Command,
    pub(crate) options: RunOptions,
    /// Steps that do not run, whatever happens.
    pub(crate) skipped: HashMap<String, SkippedStep>,
    /// The hashes of the inputs of steps that may run.
    hashes: HashMap<String, Option<String>>,
    /// The hash of the document.
    pub(crate) spec_hash: String,
    /// The record as it was found, and its version in the cluster.
    pub(crate) before: Option<RunSnapshot>,
    pub(crate) record_version: Option<String>,
}

impl RunDecisions {
    /// Decides about every step of a document.
    pub(crate) fn new(
        document: &Document,
        base: &std::path::Path,
        command: Command,
        options: &RunOptions,
        before: Option<RunSnapshot>,
    ) -> Self {
        let hashes = match (command, &document.state) {
            (Command::Apply, Some(_)) => hashes(document, base),
            _ => HashMap::new(),
        };
        let mut done = match options.resume {
            ResumePolicy::LeaveOut => resumable(document, before.as_ref(), &hashes),
            ResumePolicy::RunAll => BTreeSet::new(),
        };
        for name in &options.rerun {
            done.remove(name);
        }
        let chosen = (!options.only.is_empty()).then(|| selected(document, &options.only, &done));
        let mut skipped = HashMap::new();
        for step in &document.steps {
            let why = skipped_by_when(step).or_else(|| match command {
                Command::Apply if done.contains(&step.name) => {
                    Some(SkippedStep::new(SkipCode::Resumed, RESUMED))
                }
                Command::Apply => chosen
                    .as_ref()
                    .filter(|chosen| !chosen.contains(&step.name))
                    .map(|_| SkippedStep::new(SkipCode::NotSelected, "not selected (--only)")),
                Command::Destroy => {
                    let why = step.action.as_step().irreversible()?;
                    Some(SkippedStep::new(SkipCode::NotReversible, why))
                }
            });
            if let Some(why) = why {
                skipped.insert(step.name.clone(), why);
            }
        }
        let spec_hash = hash::document(document);
        let options = options.clone();
        Self { command, options, skipped, hashes, spec_hash, before, record_version: None }
    }

    /// The record a run begins with.
    pub(crate) fn first_record(&self, document: &Document, now: &str) -> RunSnapshot {
        let before = self.before.as_ref();
        let entries = document
            .steps
            .iter()
            .map(|step| seed(step, before, self.skipped.get(&step.name), &self.hashes, now))
            .collect();
        let version = env!("CARGO_PKG_VERSION");
        RunSnapshot::new(&document.name, self.spec_hash.clone(), version, now, entries)
    }

    /// Steps a killed run may have left half done, and since when.
    pub(crate) fn interrupted(&self) -> HashMap<String, jiff::Timestamp> {
        let is_open = |before: &&RunSnapshot| before.run_status == RunStatus::Running;
        let before = self.before.as_ref().filter(|_| self.command == Command::Apply).filter(is_open);
        let since = before.and_then(|before| before.started_at.parse::<jiff::Timestamp>().ok());
        let (Some(before), Some(since)) = (before, since) else { return HashMap::new() };
        let open = before.steps.iter().filter(|entry| entry.status.is_none());
        open.map(|entry| (entry.name.clone(), since)).collect()
    }
}

/// Gives the reason why a step whose condition does not hold is left out.
///
/// The expression was masked when the document was read.
pub(crate) fn skipped_by_when(step: &Step) -> Option<SkippedStep> {
    let when = step.when.as_ref().filter(|when| !when.holds)?;
    Some(SkippedStep::new(SkipCode::When, format!("when condition is false ({})", when.expression)))
}

/// The digests of all steps that may run.
pub(crate) fn hashes(document: &Document, base: &std::path::Path) -> HashMap<String, Option<String>> {
    let included = document.steps.iter().filter(|step| skipped_by_when(step).is_none());
    let credentials = match &document.state {
        Some(state) if state.ignore_auth => hash::Credentials::Ignored,
        _ => hash::Credentials::Counted,
    };
    included.map(|step| (step.name.clone(), hash::input(step, base, credentials))).collect()
}

/// Finds the steps the record proves.
pub(crate) fn resumable(
    document: &Document,
    record: Option<&RunSnapshot>,
    hashes: &HashMap<String, Option<String>>,
) -> BTreeSet<String> {
    let Some(record) = record else { return BTreeSet::new() };
    let known: HashMap<&str, &NodeSnapshot> =
        record.steps.iter().map(|entry| (entry.name.as_str(), entry)).collect();
    let proven = document.steps.iter().filter(|step| {
        let hash = hashes.get(&step.name).and_then(Option::as_deref);
        known
            .get(step.name.as_str())
            .is_some_and(|entry| entry.kind == step.action.kind() && entry.proves(hash))
    });
    proven.map(|step| step.name.clone()).collect()
}

/// Refuses steps that are asked for by name and are not there.
pub(super) fn check_names(document: &Document, options: &RunOptions) -> Result<(), RunError> {
    known_steps(document, &options.rerun, "--rerun")?;
    known_steps(document, &options.only, "--only")
}

fn known_steps(document: &Document, names: &[String], flag: &str) -> Result<(), RunError> {
    let mut problems = Problems::new();
    for name in names {
        if !document.steps.iter().any(|step| step.name == *name) {
            let problem = Problem::error(format!("{flag}: there is no step `{name}`"));
            let known: Vec<&str> = document.steps.iter().map(|step| step.name.as_str()).collect();
            let problem = problem.did_you_mean(name, known.iter().copied());
            let hint = problem.hint.clone().unwrap_or_else(|| format!("the steps are {}", known.join(", ")));
            problems.push(problem.hint(hint));
        }
    }
    if problems.has_errors() { Err(RunError::Usage(problems)) } else { Ok(()) }
}

/// The steps asked for and everything they need that is not done.
fn selected(document: &Document, only: &[String], done: &BTreeSet<String>) -> BTreeSet<String> {
    let mut chosen = BTreeSet::new();
    let mut open: Vec<&str> = only.iter().map(String::as_str).collect();
    while let Some(name) = open.pop() {
        if !chosen.insert(name.to_owned()) {
            continue;
        }
        if let Some(step) = document.steps.iter().find(|step| step.name == name) {
            open.extend(step.needs.iter().map(String::as_str).filter(|need| !done.contains(*need)));
        }
    }
    chosen
}

/// The entry a step starts a run with.
fn seed(
    step: &Step,
    before: Option<&RunSnapshot>,
    skipped: Option<&SkippedStep>,
    hashes: &HashMap<String, Option<String>>,
    now: &str,
) -> NodeSnapshot {
    let known = before.and_then(|before| before.step(&step.name));
    match (skipped, known) {
        (Some(SkippedStep { code: SkipCode::Resumed | SkipCode::NotSelected, .. }), Some(known)) => {
            known.clone()
        }
        (Some(SkippedStep { code: SkipCode::When, reason }), known) => {
            let same = known.filter(|known| known.skip_reason.as_ref() == Some(reason));
            same.cloned().unwrap_or_else(|| NodeSnapshot {
                status: Some(NodeStatus::Skipped),
                skip_reason: Some(reason.clone()),
                finished_at: Some(now.to_owned()),
                ..NodeSnapshot::new(&step.name, step.action.kind(), None)
            })
        }
        _ => {
            let hash = hashes.get(&step.name).cloned().flatten();
            NodeSnapshot::new(&step.name, step.action.kind(), hash)
        }
    }
}
