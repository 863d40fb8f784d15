//! `open-pr`: has exactly one pull request for the promotion branch.

use slipway_scm::{
    NewPullRequest, OpenOutcome, ProviderKind, PullRequest, PullRequestState, ReviewRequest, ScmError,
    open_pull_request,
};

use super::git_push::push_branch;
use crate::step::context::{StepContext, outputs};
use crate::step::outcome::{StepError, StepFailure, StepOutput, StepProgressed, explain};
use crate::step::pull_request::{publish_gates, summarize};

pub(super) async fn run(context: &mut StepContext<'_>) -> Result<StepProgressed, StepError> {
    if context.has_no_change() {
        return Ok(StepOutput::new("nothing to review").into());
    }
    let access = context.access().await?;
    if access.kind == ProviderKind::None {
        return Ok(StepOutput::new(
            "the server has no pull requests: merge the branch, or approve the bundle",
        )
        .into());
    }
    let scm = access.scm()?;
    let summary = summarize(context).await?;
    let marker = summary.marker.to_comment();
    let marker = bundle_part(&marker).to_owned();
    loop {
        let branches = context.branches()?;
        let new = NewPullRequest {
            title: summary.title(),
            body: summary.body(),
            head: branches.head.clone(),
            base: branches.base.clone(),
            is_draft: context.entry().config.get("draft").and_then(serde_json::Value::as_bool) == Some(true),
        };
        context.check_running()?;
        let outcome = open_pull_request(scm, &new, &marker).await.map_err(create_failed)?;
        let opened = match outcome {
            OpenOutcome::Created(one) | OpenOutcome::Found(one) | OpenOutcome::Merged(one) => one,
            OpenOutcome::Closed(one) => match reopen(scm, &one).await? {
                Some(opened) => opened,
                None => {
                    // The server does not open it again: another branch gets another one.
                    let turn = context.output(outputs::BRANCH_TURN).and_then(|turn| turn.parse::<u32>().ok());
                    let next = (turn.unwrap_or(1) + 1).to_string();
                    context.status.outputs.insert(outputs::BRANCH_TURN.to_owned(), next);
                    let branch = context.branches()?.head;
                    let pushed = push_branch(context, &branch).await?;
                    context.status.outputs.extend(pushed.outputs);
                    continue;
                }
            },
            OpenOutcome::NothingToMerge => {
                return Ok(StepOutput::new("the base has everything already")
                    .output(outputs::NO_CHANGE, "true")
                    .into());
            }
        };
        // Labels help people; a promotion does not depend on them.
        let _ = scm.add_labels(opened.number, &summary.labels()).await;
        let asked = ask_for_reviews(context, scm, opened.number).await;
        record(context, &opened, &access.slug);
        publish_gates(context).await?;
        return Ok(StepOutput::new(format!("pull request {} is open{asked}", opened.number))
            .output("prURL", opened.url.as_str())
            .output("prNumber", opened.number.to_string())
            .into());
    }
}

/// Asks the people and teams the pipeline names for a review; returns what to say about it.
async fn ask_for_reviews(
    context: &StepContext<'_>,
    scm: &dyn slipway_scm::ScmProvider,
    number: u64,
) -> String {
    let names = |field: &str| -> Vec<String> {
        let listed = context.entry().config.get(field).and_then(serde_json::Value::as_array);
        listed.into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect()
    };
    let wanted = ReviewRequest { users: names("reviewers"), teams: names("teamReviewers") };
    if wanted.is_empty() {
        return String::new();
    }
    match scm.request_reviews(number, &wanted).await {
        Ok(()) => String::new(),
        // Somebody else may review as well: the promotion goes on.
        Err(error) => format!("; reviewers were not asked: {}", explain(&error)),
    }
}

fn record(context: &mut StepContext<'_>, pull_request: &PullRequest, slug: &str) {
    let status = &mut *context.status;
    status.pr_url = Some(pull_request.url.clone());
    status.pr_number = Some(pull_request.number);
    status.pr_repo = Some(slug.to_owned());
}

/// Opens a closed pull request again; `None` where the server does not do that.
async fn reopen(
    scm: &dyn slipway_scm::ScmProvider,
    closed: &PullRequest,
) -> Result<Option<PullRequest>, StepError> {
    match scm.reopen(closed.number).await {
        Ok(()) => {
            let now = scm.get(closed.number).await?;
            Ok((now.state == PullRequestState::Open).then_some(now))
        }
        Err(ScmError::Refused { .. } | ScmError::NotFound { .. } | ScmError::Unsupported { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A refusal that will not pass, under its own name.
fn create_failed(error: ScmError) -> StepError {
    let message = explain(&error);
    match StepError::from(error) {
        StepError::Failed(_) => StepError::Failed(StepFailure::new("PRCreateFailed", message)),
        other => other,
    }
}

/// The part of a marker that names bundle and environment: a step made anew for the same bundle has another id.
pub(super) fn bundle_part(marker: &str) -> &str {
    let part = marker.find("\"bundle\"").map_or(marker, |at| &marker[at..]);
    part.find(",\"v\":").map_or(part, |at| &part[..at])
}
