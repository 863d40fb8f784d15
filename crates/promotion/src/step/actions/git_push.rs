//! `git-push`: puts the commit on the promotion branch, or on the base that others push to as well.

use slipway_git::{
    BranchLease, BranchName, CommitId, LandError, LandOutcome, LandRequest, PushOutcome, Trailer,
};

use super::git_commit::{MadeCommit, commit_request, make_commit, nothing_changed};
use crate::kinds::DeploymentLayout;
use crate::step::actions::StepAction;
use crate::step::context::{StepContext, TreeUse, outputs};
use crate::step::edit::environment_path;
use crate::step::outcome::{Dependency, StepError, StepOutput, StepProgressed};
use crate::step::workspace::{prepare, read_config, replay};

pub(super) async fn run(context: &mut StepContext<'_>) -> Result<StepProgressed, StepError> {
    if context.has_no_change() {
        return Ok(StepOutput::new("nothing to push").into());
    }
    let branches = context.branches()?;
    if branches.head == branches.base {
        push_base(context, branches.base).await
    } else {
        Ok(push_branch(context, &branches.head).await?.into())
    }
}

/// The commits of a branch that are searched for one of ours.
const SEARCHED: u32 = 50;

/// Pushes the promotion branch. What is there already and is ours counts; what others have put there stays.
pub(super) async fn push_branch(
    context: &mut StepContext<'_>,
    branch: &BranchName,
) -> Result<StepOutput, StepError> {
    let commit = match make_commit(context).await? {
        MadeCommit::Made(commit) => commit,
        MadeCommit::NothingChanged { base } => return Ok(nothing_changed(&base)),
    };
    let access = context.access().await?;
    let lease = match access.repository.remote_head(branch).await? {
        None => BranchLease::Absent,
        Some(tip) if tip == commit => return Ok(pushed(context, branch, &commit)),
        Some(tip) => {
            if access.repository.contains(branch, &commit).await? {
                return Ok(pushed(context, branch, &commit));
            }
            let ours = Trailer::new("Bundle", context.bundle.name())?;
            let found = access.repository.find_commit(branch, &ours, SEARCHED).await?;
            if found.is_none_or(|found| found.commit != tip) {
                let message = format!("`{branch}` holds commits of somebody else");
                return Err(StepError::failed("BranchTaken", message));
            }
            BranchLease::At(tip)
        }
    };
    push_with(context, &commit, branch, &lease).await?;
    Ok(pushed(context, branch, &commit))
}

/// Pushes over exactly what the lease says.
pub(super) async fn push_with(
    context: &mut StepContext<'_>,
    commit: &CommitId,
    branch: &BranchName,
    lease: &BranchLease,
) -> Result<(), StepError> {
    context.check_running()?;
    let Some(tree) = &context.workspace.target else {
        return Err(StepError::failed("NoWorkTree", "`git-clone` has to come before `git-push`"));
    };
    match tree.push(commit, branch, lease).await? {
        PushOutcome::Pushed | PushOutcome::AlreadyThere => Ok(()),
        PushOutcome::Moved => {
            let message = format!("`{branch}` has moved");
            Err(StepError::trouble(Dependency::Git, "BranchContended", message))
        }
    }
}

fn pushed(context: &mut StepContext<'_>, branch: &BranchName, commit: &CommitId) -> StepOutput {
    context.status.head_branch = Some(branch.to_string());
    context.status.head_sha = Some(commit.to_string());
    context.status.promoted_at = context.status.promoted_at.or(Some(context.now()));
    StepOutput::new(format!("pushed {} to `{branch}`", commit.short()))
        .output(outputs::BRANCH, branch.as_str())
        .output(outputs::COMMIT_SHA, commit.as_str())
}

/// Pushes to the base, again on top of others' commits while they are faster.
async fn push_base(context: &mut StepContext<'_>, base: BranchName) -> Result<StepProgressed, StepError> {
    let access = context.access().await?;
    if context.step.spec.layout == DeploymentLayout::Branch {
        prepare(context).await?;
    }
    if context.sequence.iter().any(|entry| StepAction::parse(&entry.uses) == Some(StepAction::ConfigMerge)) {
        read_config(context).await?;
    }
    context.check_running()?;
    let reads_all = context
        .sequence
        .iter()
        .any(|entry| StepAction::parse(&entry.uses).is_some_and(StepAction::reads_whole_repository));
    let paths = match (context.step.spec.layout, reads_all) {
        (DeploymentLayout::Directory, false) => vec![environment_path(&context.step.spec)?],
        _ => Vec::new(),
    };
    let request = LandRequest {
        operation: context.operation(TreeUse::Landing)?,
        branch: base.clone(),
        commit: commit_request(context).await?,
        mark: context.mark()?,
        paths,
        replay: context.shared.options.replay,
    };
    let edits = replay(context, &access);
    let outcome = access.repository.land(&request, edits).await.map_err(|error| match error {
        LandError::Git(error) => error.into(),
        LandError::Edit(error) => error,
    })?;
    Ok(match outcome {
        LandOutcome::Landed { commit, .. } | LandOutcome::AlreadyLanded { commit } => {
            pushed(context, &base, &commit).into()
        }
        LandOutcome::NothingChanged { base } => nothing_changed(&base).into(),
    })
}
