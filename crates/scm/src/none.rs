//! Plain Git servers: they have branches and nothing else.
//!
//! Whether a promotion branch was merged is a question to Git there
//! ([`Repository::contains`](slipway_git::Repository::contains)).

use futures::FutureExt as _;
use futures::future::BoxFuture;
use slipway_git::{BranchName, CommitId, GitCredential};

use crate::credential::ScmCredential;
use crate::error::ScmError;
use crate::provider::{
    AccessReport, CommitCheck, MergeOutcome, MergeRequest, NewPullRequest, PullRequest, PullRequestChange,
    ReviewRequest, ReviewSummary, ScmProvider,
};
use crate::remote::ProviderKind;

/// A server without pull requests.
pub(crate) struct PlainServer {
    pub(crate) credential: ScmCredential,
}

fn cannot<'a, T: Send + 'a>(operation: &'static str) -> BoxFuture<'a, Result<T, ScmError>> {
    futures::future::ready(Err(ScmError::Unsupported { provider: ProviderKind::None, operation })).boxed()
}

impl ScmProvider for PlainServer {
    fn kind(&self) -> ProviderKind {
        ProviderKind::None
    }

    fn git_credential(&self) -> BoxFuture<'_, Result<GitCredential, ScmError>> {
        futures::future::ready(Ok(self.credential.for_git(ProviderKind::None))).boxed()
    }

    fn check_access(&self) -> BoxFuture<'_, Result<AccessReport, ScmError>> {
        futures::future::ready(Ok(AccessReport::default())).boxed()
    }

    fn find<'a>(
        &'a self,
        _: &'a BranchName,
        _: &'a BranchName,
    ) -> BoxFuture<'a, Result<Option<PullRequest>, ScmError>> {
        futures::future::ready(Ok(None)).boxed()
    }

    fn has_commits<'a>(
        &'a self,
        _: &'a BranchName,
        _: &'a BranchName,
    ) -> BoxFuture<'a, Result<bool, ScmError>> {
        cannot("compare branches")
    }

    fn create<'a>(&'a self, _: &'a NewPullRequest) -> BoxFuture<'a, Result<PullRequest, ScmError>> {
        cannot("open pull requests")
    }

    fn get(&self, _: u64) -> BoxFuture<'_, Result<PullRequest, ScmError>> {
        cannot("show pull requests")
    }

    fn update<'a>(&'a self, _: u64, _: &'a PullRequestChange) -> BoxFuture<'a, Result<(), ScmError>> {
        cannot("change pull requests")
    }

    fn close(&self, _: u64) -> BoxFuture<'_, Result<(), ScmError>> {
        cannot("close pull requests")
    }

    fn reopen(&self, _: u64) -> BoxFuture<'_, Result<(), ScmError>> {
        cannot("reopen pull requests")
    }

    fn merge<'a>(&'a self, _: u64, _: &'a MergeRequest) -> BoxFuture<'a, Result<MergeOutcome, ScmError>> {
        cannot("merge pull requests")
    }

    fn upsert_comment<'a>(&'a self, _: u64, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<(), ScmError>> {
        cannot("comment")
    }

    fn add_labels<'a>(&'a self, _: u64, _: &'a [String]) -> BoxFuture<'a, Result<(), ScmError>> {
        cannot("label pull requests")
    }

    fn request_reviews<'a>(&'a self, _: u64, _: &'a ReviewRequest) -> BoxFuture<'a, Result<(), ScmError>> {
        cannot("ask for reviews")
    }

    fn reviews(&self, _: u64) -> BoxFuture<'_, Result<ReviewSummary, ScmError>> {
        cannot("show reviews")
    }

    fn set_check<'a>(&'a self, _: &'a CommitId, _: &'a CommitCheck) -> BoxFuture<'a, Result<(), ScmError>> {
        cannot("set commit statuses")
    }

    fn delete_branch<'a>(&'a self, _: &'a BranchName) -> BoxFuture<'a, Result<(), ScmError>> {
        cannot("delete branches by an API")
    }

    fn list_open<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<PullRequest>, ScmError>> {
        futures::future::ready(Ok(Vec::new())).boxed()
    }

    fn compare_url(&self, _: &CommitId, _: &CommitId) -> Option<String> {
        None
    }
}
