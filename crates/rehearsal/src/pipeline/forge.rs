//! Pull requests without a server: kept in this process, merged in a repository on this machine.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use slipway_event::Clock;
use slipway_git::{BranchName, CommitId, CommitIdentity, GitCredential, GitError, LocalRepository};
use slipway_scm::{
    AccessReport, CommitCheck, MergeOutcome, MergeRequest, Mergeability, NewPullRequest, ProviderKind,
    PullRequest, PullRequestChange, PullRequestState, ReviewRequest, ReviewSummary, ScmError, ScmProvider,
};

/// A forge in this process. Cheap to clone.
#[derive(Clone)]
pub struct LocalForge {
    repository: LocalRepository,
    clock: Arc<dyn Clock>,
    pulls: Arc<Mutex<Vec<Pull>>>,
}

struct Pull {
    shown: PullRequest,
    head: BranchName,
    base: BranchName,
    approvers: Vec<String>,
}

fn trouble(error: &GitError) -> ScmError {
    ScmError::Refused { doing: "work on the repository".to_owned(), status: 500, reason: error.to_string() }
}

impl LocalForge {
    pub fn new(repository: LocalRepository, clock: Arc<dyn Clock>) -> Self {
        Self { repository, clock, pulls: Arc::default() }
    }

    pub fn repository(&self) -> &LocalRepository {
        &self.repository
    }

    fn pulls(&self) -> MutexGuard<'_, Vec<Pull>> {
        self.pulls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Approves and merges a pull request, as a reviewer would.
    pub async fn approve(&self, number: u64, by: &str) -> Result<(), ScmError> {
        if let Some(pull) = self.pulls().iter_mut().find(|pull| pull.shown.number == number) {
            pull.approvers.push(by.to_owned());
        }
        self.merge_now(number, by).await.map(drop)
    }

    /// Closes a pull request without merging it, as a reviewer would.
    pub fn reject(&self, number: u64) {
        if let Some(pull) = self.pulls().iter_mut().find(|pull| pull.shown.number == number) {
            pull.shown.state = PullRequestState::Closed;
        }
    }

    async fn merge_now(&self, number: u64, by: &str) -> Result<PullRequest, ScmError> {
        let found = self.refreshed(number).await?;
        if found.state != PullRequestState::Open {
            return Ok(found);
        }
        let Some((head, base)) = self.branches(number) else { return Ok(found) };
        let identity = CommitIdentity::new(by, &format!("{by}@rehearsal.invalid"));
        let now = self.clock.now();
        let merged = self.repository.merge(&head, &base, &found.title, &identity, now).await;
        let merged = merged.map_err(|error| trouble(&error))?;
        let mut pulls = self.pulls();
        let Some(pull) = pulls.iter_mut().find(|pull| pull.shown.number == number) else { return Ok(found) };
        if let Some(commit) = merged {
            pull.shown.state = PullRequestState::Merged;
            pull.shown.merge_commit = Some(commit.to_string());
            pull.shown.merged_at = Some(now);
            pull.shown.merged_by = Some(by.to_owned());
        }
        Ok(pull.shown.clone())
    }

    fn branches(&self, number: u64) -> Option<(BranchName, BranchName)> {
        let pulls = self.pulls();
        let pull = pulls.iter().find(|pull| pull.shown.number == number)?;
        Some((pull.head.clone(), pull.base.clone()))
    }

    /// A pull request with its branch as it is now.
    async fn refreshed(&self, number: u64) -> Result<PullRequest, ScmError> {
        let missing = || ScmError::NotFound { doing: format!("read pull request {number}") };
        let (head, base) = self.branches(number).ok_or_else(missing)?;
        let head = self.repository.head(&head).await.map_err(|error| trouble(&error))?;
        let base = self.repository.head(&base).await.map_err(|error| trouble(&error))?;
        let can_merge = match (&base, &head) {
            (Some(base), Some(head)) => {
                self.repository.merged_tree(base, head).await.map_err(|error| trouble(&error))?.is_some()
            }
            _ => false,
        };
        let mut pulls = self.pulls();
        let pull = pulls.iter_mut().find(|pull| pull.shown.number == number).ok_or_else(missing)?;
        let shown = &mut pull.shown;
        if shown.state != PullRequestState::Merged {
            if let Some(head) = head {
                shown.head_commit = head.to_string();
            }
            shown.base_commit = base.map(|base| base.to_string());
            shown.mergeability = if can_merge { Mergeability::Possible } else { Mergeability::Conflict };
        }
        Ok(shown.clone())
    }

    fn change(&self, number: u64, change: impl FnOnce(&mut PullRequest)) {
        if let Some(pull) = self.pulls().iter_mut().find(|pull| pull.shown.number == number) {
            change(&mut pull.shown);
        }
    }
}

impl ScmProvider for LocalForge {
    fn kind(&self) -> ProviderKind {
        ProviderKind::GitLab
    }

    fn git_credential(&self) -> BoxFuture<'_, Result<GitCredential, ScmError>> {
        ready(Ok(GitCredential::Anonymous)).boxed()
    }

    fn check_access(&self) -> BoxFuture<'_, Result<AccessReport, ScmError>> {
        ready(Ok(AccessReport { can_push: Some(true), missing_scopes: Vec::new() })).boxed()
    }

    fn find<'a>(
        &'a self,
        head: &'a BranchName,
        base: &'a BranchName,
    ) -> BoxFuture<'a, Result<Option<PullRequest>, ScmError>> {
        async move {
            let number = {
                let pulls = self.pulls();
                let newest = pulls.iter().rev().find(|pull| pull.head == *head && pull.base == *base);
                newest.map(|pull| pull.shown.number)
            };
            match number {
                Some(number) => self.refreshed(number).await.map(Some),
                None => Ok(None),
            }
        }
        .boxed()
    }

    fn has_commits<'a>(
        &'a self,
        head: &'a BranchName,
        base: &'a BranchName,
    ) -> BoxFuture<'a, Result<bool, ScmError>> {
        async move { self.repository.is_ahead(head, base).await.map_err(|error| trouble(&error)) }.boxed()
    }

    fn create<'a>(&'a self, new: &'a NewPullRequest) -> BoxFuture<'a, Result<PullRequest, ScmError>> {
        async move {
            let number = {
                let mut pulls = self.pulls();
                let number = pulls.len() as u64 + 1;
                let shown = PullRequest {
                    number,
                    url: format!("rehearsal://pulls/{number}"),
                    state: PullRequestState::Open,
                    title: new.title.clone(),
                    body: new.body.clone(),
                    head_branch: new.head.to_string(),
                    base_branch: new.base.to_string(),
                    head_commit: String::new(),
                    base_commit: None,
                    merge_commit: None,
                    merged_at: None,
                    merged_by: None,
                    mergeability: Mergeability::Possible,
                    is_draft: new.is_draft,
                };
                let (head, base) = (new.head.clone(), new.base.clone());
                pulls.push(Pull { shown, head, base, approvers: Vec::new() });
                number
            };
            self.refreshed(number).await
        }
        .boxed()
    }

    fn get(&self, number: u64) -> BoxFuture<'_, Result<PullRequest, ScmError>> {
        self.refreshed(number).boxed()
    }

    fn update<'a>(
        &'a self,
        number: u64,
        change: &'a PullRequestChange,
    ) -> BoxFuture<'a, Result<(), ScmError>> {
        self.change(number, |pull| {
            if let Some(title) = &change.title {
                pull.title.clone_from(title);
            }
            if let Some(body) = &change.body {
                pull.body.clone_from(body);
            }
        });
        ready(Ok(())).boxed()
    }

    fn close(&self, number: u64) -> BoxFuture<'_, Result<(), ScmError>> {
        self.change(number, |pull| {
            if pull.state == PullRequestState::Open {
                pull.state = PullRequestState::Closed;
            }
        });
        ready(Ok(())).boxed()
    }

    fn reopen(&self, number: u64) -> BoxFuture<'_, Result<(), ScmError>> {
        self.change(number, |pull| pull.state = PullRequestState::Open);
        ready(Ok(())).boxed()
    }

    fn merge<'a>(
        &'a self,
        number: u64,
        request: &'a MergeRequest,
    ) -> BoxFuture<'a, Result<MergeOutcome, ScmError>> {
        async move {
            let found = self.refreshed(number).await?;
            if !found.ends_in(&request.expected) {
                return Ok(MergeOutcome::HeadMoved(found));
            }
            let merged = self.merge_now(number, "slipway").await?;
            Ok(match merged.state {
                PullRequestState::Merged => MergeOutcome::Merged(merged),
                PullRequestState::Open | PullRequestState::Closed => MergeOutcome::NotReady(merged),
            })
        }
        .boxed()
    }

    fn upsert_comment<'a>(&'a self, _: u64, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<(), ScmError>> {
        ready(Ok(())).boxed()
    }

    fn add_labels<'a>(&'a self, _: u64, _: &'a [String]) -> BoxFuture<'a, Result<(), ScmError>> {
        ready(Ok(())).boxed()
    }

    fn reviews(&self, number: u64) -> BoxFuture<'_, Result<ReviewSummary, ScmError>> {
        let pulls = self.pulls();
        let pull = pulls.iter().find(|pull| pull.shown.number == number);
        let approvers = pull.map(|pull| pull.approvers.clone()).unwrap_or_default();
        ready(Ok(ReviewSummary { approvers, changes_requested: Vec::new() })).boxed()
    }

    /// Nobody is there to be asked: `approve` speaks for reviewers.
    fn request_reviews<'a>(&'a self, _: u64, _: &'a ReviewRequest) -> BoxFuture<'a, Result<(), ScmError>> {
        ready(Ok(())).boxed()
    }

    fn set_check<'a>(&'a self, _: &'a CommitId, _: &'a CommitCheck) -> BoxFuture<'a, Result<(), ScmError>> {
        ready(Ok(())).boxed()
    }

    fn delete_branch<'a>(&'a self, branch: &'a BranchName) -> BoxFuture<'a, Result<(), ScmError>> {
        async move { self.repository.delete_branch(branch).await.map_err(|error| trouble(&error)) }.boxed()
    }

    fn list_open<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<PullRequest>, ScmError>> {
        let pulls = self.pulls();
        let open = pulls.iter().filter(|pull| pull.shown.state == PullRequestState::Open);
        ready(Ok(open.map(|pull| pull.shown.clone()).collect())).boxed()
    }

    fn compare_url(&self, _: &CommitId, _: &CommitId) -> Option<String> {
        None
    }
}
