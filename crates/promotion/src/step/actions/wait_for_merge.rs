//! `wait-for-merge`: looks whether the pull request was merged, closed or is in conflict, and merges it where nobody has to.
//!
//! Only the server's answer counts. Webhooks and polls are reasons to look, nothing else. Where it says that a pull request is
//! not merged and cannot be, or is about to be merged by us, the history of the base has the last word: a server that was cut
//! off may have pushed a merge it does not know of.

use std::time::Duration;

use jiff::Timestamp;
use slipway_git::{BranchLease, CommitId};
use slipway_scm::{
    ErrorClass, MergeMethod, MergeOutcome, MergeRequest, Mergeability, ProviderKind, PullRequest,
    PullRequestState, ScmProvider,
};

use super::git_commit::{MadeCommit, commit_request, make_commit};
use super::git_push::push_with;
use crate::kinds::{ApprovalMode, ConditionStatus, WebhookMode};
use crate::step::context::{StepContext, outputs};
use crate::step::outcome::{StepError, StepOutput, StepProgressed};
use crate::step::plain_merge;
use crate::step::pull_request::{GateStanding, publish_gates};
use crate::step::status::set_step_condition;

/// The longest wait for a pull request that nobody has to approve, unless the pipeline says otherwise.
const AUTO_TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// The time between two looks at a pull request we merge ourselves, or at one in polling mode.
const SHORT_POLL: Duration = Duration::from_secs(30);

pub(super) async fn run(context: &mut StepContext<'_>) -> Result<StepProgressed, StepError> {
    if context.has_no_change() {
        return Ok(StepOutput::new("nothing to merge").into());
    }
    set_deadline(context);
    let access = context.access().await?;
    if access.kind == ProviderKind::None {
        return plain_merge::look(context, next_look(context)).await;
    }
    let Some(number) = context.status.pr_number else {
        return Err(StepError::failed("NoPullRequest", "`open-pr` has to come before `wait-for-merge`"));
    };
    let scm = access.scm()?;
    let found = scm.get(number).await?;
    match found.state {
        PullRequestState::Merged => record_merge(context, scm, &found).await,
        PullRequestState::Closed => match find_merge(context).await? {
            Some(commit) => adopt_merge(context, scm, found, &commit).await,
            None => {
                let message = format!("pull request {number} was closed without being merged");
                Err(StepError::failed("PRClosed", message))
            }
        },
        PullRequestState::Open => wait_or_merge(context, scm, found).await,
    }
}

/// Sets the deadline, once.
fn set_deadline(context: &mut StepContext<'_>) {
    let limit = context.step.spec.wait_for_merge_timeout.map(|limit| limit.0);
    let limit = limit.or((context.step.spec.approval == ApprovalMode::Auto).then_some(AUTO_TIMEOUT));
    if context.status.wait_for_merge_expiry.is_none()
        && let Some(limit) = limit
    {
        context.status.wait_for_merge_expiry = context.now().checked_add(limit).ok();
    }
}

/// The time of the next look.
fn next_look(context: &StepContext<'_>) -> Timestamp {
    let git = &context.step.spec.git;
    let pause = match (git.webhook_mode, context.step.spec.approval) {
        (WebhookMode::Polling, _) => git.poll_interval.map_or(SHORT_POLL, |interval| interval.0),
        (_, ApprovalMode::Auto) => SHORT_POLL,
        (WebhookMode::Webhook, ApprovalMode::PrReview) => context.shared.options.promotion.safety_poll,
    };
    let next = context.now().saturating_add(pause).unwrap_or(Timestamp::MAX);
    // A deadline that is frozen by a pause does not matter now.
    match context.status.wait_for_merge_expiry.filter(|_| context.pause.is_none()) {
        Some(expiry) => next.min(expiry),
        None => next,
    }
}

async fn wait_or_merge(
    context: &mut StepContext<'_>,
    scm: &dyn ScmProvider,
    found: PullRequest,
) -> Result<StepProgressed, StepError> {
    let number = found.number;
    let expired = context.status.wait_for_merge_expiry.is_some_and(|expiry| expiry <= context.now());
    let is_over = expired && context.pause.is_none();
    if (is_over || matches!(found.mergeability, Mergeability::Contained | Mergeability::Conflict))
        && let Some(commit) = find_merge(context).await?
    {
        return adopt_merge(context, scm, found, &commit).await;
    }
    if is_over {
        context.check_running()?;
        scm.close(number).await?;
        let message = format!("pull request {number} was not merged in time, and was closed");
        return Err(StepError::failed("MergeTimeout", message));
    }
    adopt_refreshed_head(context, &found);
    let ours = context.status.head_sha.as_deref().and_then(|text| CommitId::parse(text).ok());
    let has_ours = ours.as_ref().is_some_and(|ours| found.ends_in(ours));
    if found.mergeability == Mergeability::Conflict {
        return resolve_conflict(context, scm, &found, has_ours).await;
    }
    set_step_condition(
        context.status,
        context.step,
        "PRConflict",
        ConditionStatus::False,
        "Mergeable",
        "",
        context.now(),
    );
    let standing = publish_gates(context).await?;
    let until = next_look(context);
    let wait = |message: String| Ok(StepProgressed::Wait { until, message });
    if context.step.spec.approval == ApprovalMode::PrReview {
        return wait(format!("waiting for pull request {number} to be merged"));
    }
    if let Some(reason) = context.pause {
        return wait(format!("pull request {number} is not merged: {reason}"));
    }
    if standing == GateStanding::Closed {
        return wait(format!("pull request {number} is not merged while a gate is closed"));
    }
    let Some(expected) = ours.filter(|_| has_ours) else {
        return wait(format!("pull request {number} has commits of others, and is left to people"));
    };
    let method = match context.text("mergeMethod") {
        Some("squash") => MergeMethod::Squash,
        Some("rebase") => MergeMethod::Rebase,
        _ => MergeMethod::Merge,
    };
    // A squashed commit would be made a second time.
    if let Some(commit) = find_merge(context).await? {
        return adopt_merge(context, scm, found, &commit).await;
    }
    let trailers = commit_request(context).await?.trailers;
    let trailers =
        trailers.iter().map(|trailer| format!("{}: {}\n", trailer.key(), trailer.value())).collect();
    context.check_running()?;
    match scm.merge(number, &MergeRequest { expected, method, trailers }).await? {
        MergeOutcome::Merged(merged) => record_merge(context, scm, &merged).await,
        MergeOutcome::NotReady(_) => wait(format!("pull request {number} cannot be merged yet")),
        MergeOutcome::HeadMoved(_) => {
            wait(format!("pull request {number} has commits of others, and is left to people"))
        }
    }
}

/// The commits of a base that are searched for a merge nobody told of.
const SEARCHED: u32 = 2_000;

/// Looks in the history of the base for a merge of this step.
async fn find_merge(context: &mut StepContext<'_>) -> Result<Option<CommitId>, StepError> {
    let access = context.access().await?;
    let branches = context.branches()?;
    Ok(access.repository.find_merge(&branches.base, &context.mark()?, SEARCHED).await?)
}

/// Takes over a merge the server has not written down, and tells it.
async fn adopt_merge(
    context: &mut StepContext<'_>,
    scm: &dyn ScmProvider,
    found: PullRequest,
    commit: &CommitId,
) -> Result<StepProgressed, StepError> {
    let number = found.number;
    context.check_running()?;
    let is_open = found.state == PullRequestState::Open;
    let told = match is_open {
        true => scm.declare_merged(number, commit).await.map(Some),
        false => Ok(None),
    };
    let merged = match told {
        Ok(Some(merged)) => merged,
        Err(error) if matches!(error.class(), ErrorClass::Transient { .. }) => return Err(error.into()),
        // The server does not take it: it may have found out by itself, or people are told instead.
        Ok(None) | Err(_) => {
            let found = scm.get(number).await?;
            if found.state == PullRequestState::Merged {
                return record_merge(context, scm, &found).await;
            }
            let text = format!("{LOST_MERGE_MARKER}\nMerged as {commit}, which the server has not noted.");
            scm.upsert_comment(number, LOST_MERGE_MARKER, &text).await?;
            if is_open {
                scm.close(number).await?;
            }
            PullRequest {
                state: PullRequestState::Merged,
                merge_commit: Some(commit.to_string()),
                merged_at: None,
                ..found
            }
        }
    };
    record_merge(context, scm, &merged).await
}

/// The marker of the comment on a merge that only the history knows of.
const LOST_MERGE_MARKER: &str = "<!-- kardinal:merged -->";

/// Writes a merge down, with who approved it.
async fn record_merge(
    context: &mut StepContext<'_>,
    scm: &dyn ScmProvider,
    merged: &PullRequest,
) -> Result<StepProgressed, StepError> {
    adopt_refreshed_head(context, merged);
    let reviews = scm.reviews(merged.number).await?;
    let branches = context.branches()?;
    let commit = match &merged.merge_commit {
        Some(commit) => commit.clone(),
        None => {
            let access = context.access().await?;
            access.repository.fetch(&branches.base).await?.to_string()
        }
    };
    let ours = context.status.head_sha.as_deref().and_then(|text| CommitId::parse(text).ok());
    let has_extra = !ours.is_some_and(|ours| merged.ends_in(&ours));
    let now = context.now();
    let status = &mut *context.status;
    status.approvers = reviews.approvers;
    status.merge_sha = Some(commit.clone());
    status.merged_at = Some(on_our_clock(merged.merged_at, status.promoted_at, now));
    status.merged_by = merged.merged_by.clone();
    set_step_condition(status, context.step, "PRConflict", ConditionStatus::False, "Merged", "", now);
    let by = merged.merged_by.as_deref().unwrap_or("somebody");
    let mut output = StepOutput::new(format!("pull request {} was merged by {by}", merged.number))
        .output("mergeSHA", commit);
    if has_extra {
        output = output.output(outputs::EXTRA_COMMITS, "true");
    }
    Ok(output.into())
}

/// The time of a merge. Servers have clocks of their own; on ours the merge came after the push, and it is over now. Versions are
/// put in order by it, so that a clock that is behind would hide what to return to.
fn on_our_clock(merged: Option<Timestamp>, pushed: Option<Timestamp>, now: Timestamp) -> Timestamp {
    merged.unwrap_or(now).max(pushed.unwrap_or(Timestamp::MIN)).min(now)
}

/// Takes over a head that was announced before it was pushed.
fn adopt_refreshed_head(context: &mut StepContext<'_>, found: &PullRequest) {
    let status = &mut *context.status;
    let announced = status.refresh.as_ref().and_then(|refresh| CommitId::parse(&refresh.head).ok());
    if let Some(announced) = announced
        && found.ends_in(&announced)
        && let Some(refresh) = status.refresh.take()
    {
        status.outputs.insert(outputs::BASE_COMMIT.to_owned(), refresh.base);
        status.outputs.insert(outputs::COMMIT_SHA.to_owned(), refresh.head.clone());
        status.head_sha = Some(refresh.head);
    }
}

/// Rebuilds a branch that is in conflict with its base, unless people have worked on it.
async fn resolve_conflict(
    context: &mut StepContext<'_>,
    scm: &dyn ScmProvider,
    found: &PullRequest,
    has_ours: bool,
) -> Result<StepProgressed, StepError> {
    let until = next_look(context);
    let conflict = |context: &mut StepContext<'_>, message: String| {
        let (step, now) = (context.step, context.now());
        set_step_condition(
            context.status,
            step,
            "PRConflict",
            ConditionStatus::True,
            "Conflict",
            &message,
            now,
        );
        Ok(StepProgressed::Wait { until, message })
    };
    let number = found.number;
    if !has_ours {
        let message = format!("pull request {number} is in conflict, and has commits of others");
        return conflict(context, message);
    }
    if let Some(reason) = context.pause {
        return conflict(
            context,
            format!("pull request {number} is in conflict, and is not rebuilt: {reason}"),
        );
    }
    // Announced first, so that a later process knows the new head for ours.
    let Some(refresh) = context.status.refresh.clone() else {
        context.workspace.clear();
        let before = context.status.outputs.remove(outputs::BASE_COMMIT);
        let made = make_commit(context).await;
        if let Some(before) = before {
            context.status.outputs.insert(outputs::BASE_COMMIT.to_owned(), before);
        }
        let head = match made? {
            MadeCommit::Made(commit) => commit,
            MadeCommit::NothingChanged { base } => {
                context.check_running()?;
                scm.close(number).await?;
                return Ok(super::git_commit::nothing_changed(&base).into());
            }
        };
        let base = context.workspace.target.as_ref().map_or_else(String::new, |tree| tree.base().to_string());
        context.status.refresh = Some(crate::kinds::BranchRefresh { head: head.to_string(), base });
        return Ok(StepProgressed::Wait {
            until: context.now(),
            message: format!("pull request {number} is in conflict: its branch is rebuilt"),
        });
    };
    context.workspace.clear();
    context.status.outputs.insert(outputs::BASE_COMMIT.to_owned(), refresh.base.clone());
    let MadeCommit::Made(head) = make_commit(context).await? else {
        context.status.refresh = None;
        return Ok(StepProgressed::Wait { until: context.now(), message: "looking again".to_owned() });
    };
    if head.as_str() != refresh.head {
        // The base is gone from the branch: begin anew.
        context.status.refresh = None;
        return Ok(StepProgressed::Wait { until: context.now(), message: "looking again".to_owned() });
    }
    let branches = context.branches()?;
    let old = context.status.head_sha.as_deref().and_then(|text| CommitId::parse(text).ok());
    let lease = old.map_or(BranchLease::Absent, BranchLease::At);
    push_with(context, &head, &branches.head, &lease).await?;
    context.status.head_sha = Some(refresh.head.clone());
    context.status.outputs.insert(outputs::COMMIT_SHA.to_owned(), refresh.head);
    context.status.refresh = None;
    context.status.published_gates = None;
    let text = format!("The branch was rebuilt on `{}`, which had changed the same lines.", branches.base);
    let _ = scm.upsert_comment(number, REFRESH_MARKER, &format!("{REFRESH_MARKER}\n{text}")).await;
    publish_gates(context).await?;
    Ok(StepProgressed::Wait { until, message: format!("pull request {number} was rebuilt on its base") })
}

/// The marker of the comment on rebuilt branches.
const REFRESH_MARKER: &str = "<!-- kardinal:refresh -->";
