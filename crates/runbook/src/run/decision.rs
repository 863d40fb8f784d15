//! Decides which steps of a document do not run, and why.

use std::collections::{BTreeSet, HashMap};

use slipway_problem::{Problem, Problems};

use super::RunError;
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
    pub(super) fn as_str(self) -> &'static str {
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

/// Why a step does not run, decided before anything does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SkippedStep {
    pub(crate) code: SkipCode,
    pub(crate) reason: String,
}

impl SkippedStep {
    pub(super) fn new(code: SkipCode, reason: impl Into<String>) -> Self {
        Self { code, reason: reason.into() }
    }
}

/// Why a step whose condition does not hold is left out.
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

/// Which steps the record proves.
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

pub(super) fn known_steps(document: &Document, names: &[String], flag: &str) -> Result<(), RunError> {
    let mut problems = Problems::new();
    for name in names {
        if !document.steps.iter().any(|step| step.name == *name) {
            let problem = Problem::error(format!("{flag}: there is no step `{name}`"));
            problems.push(problem.did_you_mean(name, document.steps.iter().map(|step| step.name.as_str())));
        }
    }
    if problems.has_errors() { Err(RunError::Usage(problems)) } else { Ok(()) }
}

/// The steps asked for and everything they need that is not done.
pub(super) fn selected(document: &Document, only: &[String], done: &BTreeSet<String>) -> BTreeSet<String> {
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

/// Steps a killed run may have left half done, and since when.
pub(super) fn interrupted(before: Option<&RunSnapshot>) -> HashMap<String, jiff::Timestamp> {
    let Some(before) = before.filter(|before| before.run_status == RunStatus::Running) else {
        return HashMap::new();
    };
    let Ok(since) = before.started_at.parse::<jiff::Timestamp>() else { return HashMap::new() };
    let open = before.steps.iter().filter(|entry| entry.status.is_none());
    open.map(|entry| (entry.name.clone(), since)).collect()
}

/// The entry a step starts a run with.
pub(super) fn seed(
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
