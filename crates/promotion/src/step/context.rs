//! Everything one entry of a sequence works with.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use slipway_git::{BranchName, OperationId, Trailer};

use crate::kinds::{
    Bundle, DeploymentLayout, PromotionStep, PromotionStepStatus, StepProgressState, StepSpec, labels,
};

use super::access::RepositoryAccess;
use super::actions::StepAction;
use super::outcome::StepError;
use super::reconciler::StepShared;
use super::workspace::Workspace;

/// One entry of a sequence that is being carried out.
pub(super) struct StepContext<'r> {
    pub(super) shared: &'r StepShared,
    /// The step as it was read: its spec and metadata.
    pub(super) step: &'r PromotionStep,
    /// The status as it is going to be written.
    pub(super) status: &'r mut PromotionStepStatus,
    pub(super) bundle: &'r Bundle,
    pub(super) sequence: &'r [StepSpec],
    pub(super) index: usize,
    pub(super) workspace: &'r mut Workspace,
    /// The reason nothing may change outside, while the pipeline is paused.
    pub(super) pause: Option<&'r str>,
}

impl StepContext<'_> {
    pub(super) fn entry(&self) -> &StepSpec {
        &self.sequence[self.index]
    }

    pub(super) fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// Fails once the process is to end: nothing outside may change any more.
    pub(super) fn check_running(&self) -> Result<(), StepError> {
        if self.shared.stop.is_cancelled() { Err(StepError::Stopped) } else { Ok(()) }
    }

    /// The output of an entry before this one.
    pub(super) fn output(&self, name: &str) -> Option<&str> {
        self.status.outputs.get(name).map(String::as_str)
    }

    /// Tells that there was nothing to commit: pushes and pull requests are left out.
    pub(super) fn has_no_change(&self) -> bool {
        self.output(outputs::NO_CHANGE) == Some("true")
    }

    pub(super) fn attempt(&self) -> u32 {
        self.status.attempt.unwrap_or(1)
    }

    /// A setting of the entry that is a text.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.entry().config.get(name).and_then(serde_json::Value::as_str).filter(|text| !text.is_empty())
    }

    /// The repository the step writes to, and its server.
    pub(super) async fn access(&mut self) -> Result<Arc<RepositoryAccess>, StepError> {
        if let Some(access) = &self.workspace.access {
            return Ok(access.clone());
        }
        let access = Arc::new(self.shared.connect(self.step).await?);
        self.workspace.access = Some(access.clone());
        Ok(access)
    }

    pub(super) fn branches(&self) -> Result<StepBranches, StepError> {
        StepBranches::of(self.step, self.bundle, self.sequence, &self.status.outputs)
    }

    /// The mark of everything this step does outside.
    pub(super) fn mark(&self) -> Result<Trailer, StepError> {
        let value = format!("{}/{}", self.step.metadata.uid, self.attempt());
        Ok(Trailer::new("Kardinal-Step", &value)?)
    }

    /// The name of the step's work tree.
    pub(super) fn operation(&self, use_: TreeUse) -> Result<OperationId, StepError> {
        let suffix = match use_ {
            TreeUse::Target => "",
            TreeUse::Source => "-source",
            TreeUse::Landing => "-landing",
        };
        Ok(OperationId::parse(&format!("{}{suffix}", self.step.metadata.uid))?)
    }
}

/// The uses a step has for work trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TreeUse {
    Target,
    Source,
    Landing,
}

/// Names of outputs that several steps share.
pub(super) mod outputs {
    pub(in crate::step) const BASE_COMMIT: &str = "baseCommit";
    pub(in crate::step) const SOURCE_COMMIT: &str = "sourceCommit";
    pub(in crate::step) const COMMIT_SHA: &str = "commitSHA";
    pub(in crate::step) const NO_CHANGE: &str = "noChange";
    pub(in crate::step) const BRANCH: &str = "branch";
    /// Versions before and after, as JSON.
    pub(in crate::step) const CHANGES: &str = "changes";
    pub(in crate::step) const EXTRA_COMMITS: &str = "extraCommits";
    /// Counts branches that were taken because a pull request could not be opened again.
    pub(in crate::step) const BRANCH_TURN: &str = "branchTurn";
}

/// The branches a step reads and writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StepBranches {
    /// The branch that is promoted to.
    pub(super) base: BranchName,
    /// The branch with the files people write, where that is another.
    pub(super) source: Option<BranchName>,
    /// The branch that is pushed: that of the pull request, or the base.
    pub(super) head: BranchName,
}

impl StepBranches {
    pub(super) fn of(
        step: &PromotionStep,
        bundle: &Bundle,
        sequence: &[StepSpec],
        outputs: &BTreeMap<String, String>,
    ) -> Result<Self, StepError> {
        let git = &step.spec.git;
        let written = BranchName::parse(&git.branch)?;
        let (base, source) = match step.spec.layout {
            DeploymentLayout::Directory => (written, None),
            DeploymentLayout::Branch => {
                let environment = match &step.spec.region {
                    Some(region) => format!("{}-{region}", step.spec.environment),
                    None => step.spec.environment.clone(),
                };
                let rendered = BranchName::parse(&format!("{}{environment}", git.branch_prefix))?;
                let source = git.source_branch.as_deref().map(BranchName::parse).transpose()?;
                (rendered, Some(source.unwrap_or(written)))
            }
        };
        let opens = sequence.iter().any(|entry| StepAction::parse(&entry.uses) == Some(StepAction::OpenPr));
        let head = if opens { head_branch(step, bundle, outputs)? } else { base.clone() };
        Ok(Self { base, source, head })
    }
}

/// `kardinal/<pipeline>/<environment>/<version>-<6 digits of the bundle>`.
fn head_branch(
    step: &PromotionStep,
    bundle: &Bundle,
    outputs: &BTreeMap<String, String>,
) -> Result<BranchName, StepError> {
    let version = branch_word(&bundle.spec.version());
    let place = match &step.spec.region {
        Some(region) => format!("{}-{region}", step.spec.environment),
        None => step.spec.environment.clone(),
    };
    let digits = labels::short_hash(&bundle.metadata.uid, 6);
    let turn = outputs.get(outputs::BRANCH_TURN).map_or_else(String::new, |turn| format!("-{turn}"));
    let name = format!(
        "kardinal/{}/{}/{version}-{digits}{turn}",
        branch_word(&step.spec.pipeline),
        branch_word(&place)
    );
    Ok(BranchName::parse(&name)?)
}

/// A text as part of a branch's name.
fn branch_word(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    let word: String = text.chars().map(plain).take(60).collect();
    let word = word.replace("..", "-");
    let word = word.trim_matches(['.', '-']);
    if word.is_empty() { "version".to_owned() } else { word.to_owned() }
}

/// Tells that an entry was carried out, as opposed to left out.
pub(super) fn is_carried_out(status: &PromotionStepStatus, index: usize) -> bool {
    status.steps.get(index).is_some_and(|progress| progress.state != StepProgressState::Skipped)
}
