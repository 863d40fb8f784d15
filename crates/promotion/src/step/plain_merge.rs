//! Approval on plain Git servers, which have no pull requests: the branch is merged by hand, or the bundle approved.

use jiff::Timestamp;
use slipway_git::{CommitId, LandError, LandOutcome, LandRequest};

use crate::kinds::{ApprovalMode, Bundle, PromotionStep};

use super::actions::commit_request;
use super::context::{StepContext, TreeUse, outputs};
use super::outcome::{StepError, StepOutput, StepProgressed};
use super::workspace::{prepare, replay};

/// Label on bundles: `true`, or the environment that may be promoted to.
const APPROVED: &str = "kardinal.io/approved";
/// Label on bundles: the environment that may be promoted to.
const APPROVED_FOR: &str = "kardinal.io/approved-for";

/// Looks whether the branch is part of its base; pushes to the base where the bundle is approved.
pub(super) async fn look(
    context: &mut StepContext<'_>,
    until: Timestamp,
) -> Result<StepProgressed, StepError> {
    let access = context.access().await?;
    let branches = context.branches()?;
    let head = context.status.head_sha.as_deref().and_then(|text| CommitId::parse(text).ok());
    let Some(head) = head else {
        return Err(StepError::failed("NoBranch", "`git-push` has to come before `wait-for-merge`"));
    };
    if access.repository.contains(&branches.base, &head).await? {
        let merged = access.repository.fetch(&branches.base).await?;
        return Ok(merged_at(context, &merged, "by hand"));
    }
    let expired = context.status.wait_for_merge_expiry.is_some_and(|expiry| expiry <= context.now());
    if expired && context.pause.is_none() {
        return Err(StepError::failed("MergeTimeout", format!("`{}` was not merged in time", branches.head)));
    }
    if !is_approved(context.step, context.bundle) || context.pause.is_some() {
        let message =
            format!("waiting for `{}` to be merged, or for the bundle to be approved", branches.head);
        return Ok(StepProgressed::Wait { until, message });
    }
    prepare(context).await?;
    context.check_running()?;
    let request = LandRequest {
        operation: context.operation(TreeUse::Landing)?,
        branch: branches.base.clone(),
        commit: commit_request(context).await?,
        mark: context.mark()?,
        paths: Vec::new(),
        replay: context.shared.options.replay,
    };
    let edits = replay(context, &access);
    let outcome = access.repository.land(&request, edits).await.map_err(|error| match error {
        LandError::Git(error) => error.into(),
        LandError::Edit(error) => error,
    })?;
    let commit = match outcome {
        LandOutcome::Landed { commit, .. } | LandOutcome::AlreadyLanded { commit } => commit,
        LandOutcome::NothingChanged { base } => base,
    };
    Ok(merged_at(context, &commit, "after approval of the bundle"))
}

/// Returns true if a person has approved the bundle for the environment of a step, or nobody has to.
pub(super) fn is_approved(step: &PromotionStep, bundle: &Bundle) -> bool {
    let environment = step.spec.environment.as_str();
    let says = |label: &str| bundle.metadata.label(label);
    step.spec.approval == ApprovalMode::Auto
        || says(APPROVED).is_some_and(|value| value == "true" || value == environment)
        || says(APPROVED_FOR) == Some(environment)
}

fn merged_at(context: &mut StepContext<'_>, commit: &CommitId, how: &str) -> StepProgressed {
    let now = context.now();
    context.status.merge_sha = Some(commit.to_string());
    context.status.merged_at = Some(now);
    StepOutput::new(format!("merged {how}"))
        .output("mergeSHA", commit.as_str())
        .output(outputs::COMMIT_SHA, commit.as_str())
        .into()
}
