//! Everything promotion asks of a server, whatever its kind.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use slipway_git::{BranchName, CommitId, GitCredential};

use crate::error::ScmError;
use crate::remote::ProviderKind;

/// A pull request as its server says it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullRequest {
    pub number: u64,
    pub url: String,
    pub state: PullRequestState,
    pub title: String,
    pub body: String,
    pub head_branch: String,
    pub base_branch: String,
    /// The last commit of the branch; Bitbucket gives its first twelve digits.
    pub head_commit: String,
    pub base_commit: Option<String>,
    /// The commit on the base branch: another one than the head's after a squash or rebase.
    pub merge_commit: Option<String>,
    pub merged_at: Option<Timestamp>,
    pub merged_by: Option<String>,
    pub mergeability: Mergeability,
    pub is_draft: bool,
}

impl PullRequest {
    /// Tells that the branch ends in this commit.
    pub fn ends_in(&self, commit: &CommitId) -> bool {
        self.head_commit.len() >= 12 && commit.as_str().starts_with(&self.head_commit)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullRequestState {
    Open,
    /// Closed without being merged.
    Closed,
    Merged,
}

/// The server's opinion on merging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mergeability {
    Possible,
    /// Somebody has changed the same lines.
    Conflict,
    /// The base has every commit of the branch already: there is nothing left to merge.
    Contained,
    /// Not computed yet, or held up by checks.
    Unknown,
}

/// A pull request to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPullRequest {
    pub title: String,
    pub body: String,
    pub head: BranchName,
    pub base: BranchName,
    pub is_draft: bool,
}

/// What to change of a pull request; what is none stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullRequestChange {
    pub title: Option<String>,
    pub body: Option<String>,
}

/// Who said what; the last word of each counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReviewSummary {
    pub approvers: Vec<String>,
    pub changes_requested: Vec<String>,
}

/// People and teams to ask for a review.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReviewRequest {
    /// Names of users; Azure DevOps takes the ids of identities.
    pub users: Vec<String>,
    /// Names of teams, where a server has such.
    pub teams: Vec<String>,
}

impl ReviewRequest {
    pub fn is_empty(&self) -> bool {
        self.users.is_empty() && self.teams.is_empty()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeMethod {
    Merge,
    Squash,
    Rebase,
}

/// A merge to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeRequest {
    /// The commit the branch has to end in.
    pub expected: CommitId,
    pub method: MergeMethod,
    /// The last lines of the message of a squashed commit, by which it is found in the history if the server loses track of
    /// the merge. Servers that write both down together do not need them.
    pub trailers: String,
}

/// The result of asking for a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeOutcome {
    Merged(PullRequest),
    /// Checks are running, reviews are missing, or there is a conflict.
    NotReady(PullRequest),
    /// The branch ends in another commit than the one that was to be merged.
    HeadMoved(PullRequest),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckState {
    Pending,
    Success,
    Failure,
    Error,
}

/// A check of a commit, which servers can require before a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitCheck {
    pub context: String,
    pub state: CheckState,
    pub url: Option<String>,
    /// Cut to the 140 characters servers take.
    pub description: String,
}

impl CommitCheck {
    pub(crate) fn short_description(&self) -> String {
        self.description.chars().take(140).collect()
    }
}

/// What the credentials are good for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessReport {
    /// None where the server does not say.
    pub can_push: Option<bool>,
    /// Scopes the token lacks.
    pub missing_scopes: Vec<String>,
}

/// One repository of one server. Every method can be repeated without doing more.
pub trait ScmProvider: Send + Sync {
    fn kind(&self) -> ProviderKind;

    /// The credentials for Git; a GitHub App gets a token for them.
    fn git_credential(&self) -> BoxFuture<'_, Result<GitCredential, ScmError>>;

    /// Looks whether the repository can be read and written.
    fn check_access(&self) -> BoxFuture<'_, Result<AccessReport, ScmError>>;

    /// The newest pull request of a branch, in any state.
    fn find<'a>(
        &'a self,
        head: &'a BranchName,
        base: &'a BranchName,
    ) -> BoxFuture<'a, Result<Option<PullRequest>, ScmError>>;

    /// Tells whether a branch has commits that another has not.
    fn has_commits<'a>(
        &'a self,
        head: &'a BranchName,
        base: &'a BranchName,
    ) -> BoxFuture<'a, Result<bool, ScmError>>;

    /// Opens a pull request; use [`open_pull_request`](crate::open_pull_request), which looks first.
    fn create<'a>(&'a self, new: &'a NewPullRequest) -> BoxFuture<'a, Result<PullRequest, ScmError>>;

    /// Reads a pull request; one that was opened a moment ago may need a moment.
    fn get(&self, number: u64) -> BoxFuture<'_, Result<PullRequest, ScmError>>;

    fn update<'a>(
        &'a self,
        number: u64,
        change: &'a PullRequestChange,
    ) -> BoxFuture<'a, Result<(), ScmError>>;

    fn close(&self, number: u64) -> BoxFuture<'_, Result<(), ScmError>>;

    fn reopen(&self, number: u64) -> BoxFuture<'_, Result<(), ScmError>>;

    /// Merges if the branch ends in the expected commit, and in no other.
    fn merge<'a>(
        &'a self,
        number: u64,
        request: &'a MergeRequest,
    ) -> BoxFuture<'a, Result<MergeOutcome, ScmError>>;

    /// Tells the server that an open pull request was merged by a commit of its base, where it does not find out by itself.
    fn declare_merged<'a>(
        &'a self,
        number: u64,
        commit: &'a CommitId,
    ) -> BoxFuture<'a, Result<PullRequest, ScmError>> {
        let _ = (number, commit);
        let (provider, operation) = (self.kind(), "be told of merges");
        futures::future::ready(Err(ScmError::Unsupported { provider, operation })).boxed()
    }

    /// Writes the one comment that holds a marker: posted once, edited ever after.
    fn upsert_comment<'a>(
        &'a self,
        number: u64,
        marker: &'a str,
        body: &'a str,
    ) -> BoxFuture<'a, Result<(), ScmError>>;

    /// Adds labels, and takes none away.
    fn add_labels<'a>(&'a self, number: u64, labels: &'a [String]) -> BoxFuture<'a, Result<(), ScmError>>;

    /// Asks for reviews, and takes no reviewer away. Not every server can ask teams, or ask at all.
    fn request_reviews<'a>(
        &'a self,
        number: u64,
        wanted: &'a ReviewRequest,
    ) -> BoxFuture<'a, Result<(), ScmError>>;

    fn reviews(&self, number: u64) -> BoxFuture<'_, Result<ReviewSummary, ScmError>>;

    fn set_check<'a>(
        &'a self,
        commit: &'a CommitId,
        check: &'a CommitCheck,
    ) -> BoxFuture<'a, Result<(), ScmError>>;

    /// Deletes a branch; one that is gone is deleted.
    fn delete_branch<'a>(&'a self, branch: &'a BranchName) -> BoxFuture<'a, Result<(), ScmError>>;

    /// The open pull requests that carry a label.
    fn list_open<'a>(&'a self, label: &'a str) -> BoxFuture<'a, Result<Vec<PullRequest>, ScmError>>;

    /// The page that shows what lies between two commits.
    fn compare_url(&self, from: &CommitId, to: &CommitId) -> Option<String>;
}
