//! One pull request a branch, whatever happened before.

use crate::error::ScmError;
use crate::provider::{NewPullRequest, PullRequest, PullRequestChange, PullRequestState, ScmProvider};

/// The result of opening a pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenOutcome {
    Created(PullRequest),
    /// It was open already; its text is up to date now.
    Found(PullRequest),
    /// It was merged before.
    Merged(PullRequest),
    /// Somebody has closed it: reopen it, or take another branch.
    Closed(PullRequest),
    /// The branch has nothing its base has not.
    NothingToMerge,
}

/// Opens a pull request unless its branch has one. `marker` tells ours from those of others that are over.
pub async fn open_pull_request(
    provider: &dyn ScmProvider,
    new: &NewPullRequest,
    marker: &str,
) -> Result<OpenOutcome, ScmError> {
    if let Some(outcome) = find_ours(provider, new, marker).await? {
        return Ok(outcome);
    }
    if !provider.has_commits(&new.head, &new.base).await? {
        return Ok(OpenOutcome::NothingToMerge);
    }
    match provider.create(new).await {
        Ok(pull_request) => Ok(OpenOutcome::Created(pull_request)),
        // Somebody, or we a moment ago, may have been faster.
        Err(error) if matches!(error.refusal(), Some(400 | 409 | 422)) => {
            find_ours(provider, new, marker).await?.ok_or(error)
        }
        Err(error) => Err(error),
    }
}

async fn find_ours(
    provider: &dyn ScmProvider,
    new: &NewPullRequest,
    marker: &str,
) -> Result<Option<OpenOutcome>, ScmError> {
    let Some(found) = provider.find(&new.head, &new.base).await? else { return Ok(None) };
    Ok(match found.state {
        PullRequestState::Open => {
            if found.body.trim() != new.body.trim() || found.title != new.title {
                let change =
                    PullRequestChange { title: Some(new.title.clone()), body: Some(new.body.clone()) };
                provider.update(found.number, &change).await?;
            }
            Some(OpenOutcome::Found(found))
        }
        PullRequestState::Merged if found.body.contains(marker) => Some(OpenOutcome::Merged(found)),
        PullRequestState::Closed if found.body.contains(marker) => Some(OpenOutcome::Closed(found)),
        PullRequestState::Merged | PullRequestState::Closed => None,
    })
}
