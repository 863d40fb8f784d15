//! Questions to the history of a branch.

use std::path::PathBuf;

use crate::commit::Trailer;
use crate::error::GitError;
use crate::mirror::Repository;
use crate::name::{BranchName, CommitId};
use crate::program::GitCall;
use crate::read::path_of;

/// A commit found by its trailer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundCommit {
    pub commit: CommitId,
    /// None for the first commit of a history, or the oldest one that was fetched.
    pub parent: Option<CommitId>,
    /// The tip of the branch it was found on.
    pub tip: CommitId,
}

impl Repository {
    /// Looks for a commit with a trailer among the last commits of a branch: what an earlier process may have pushed
    /// before it ended. Nothing if the branch does not exist.
    pub async fn find_commit(
        &self,
        branch: &BranchName,
        trailer: &Trailer,
        most: u32,
    ) -> Result<Option<FoundCommit>, GitError> {
        let tip = match self.fetch_deep(branch, most.max(1)).await {
            Err(GitError::BranchMissing { .. }) => return Ok(None),
            result => result?,
        };
        self.find_from(tip, trailer, most).await
    }

    pub(crate) async fn find_from(
        &self,
        tip: CommitId,
        trailer: &Trailer,
        most: u32,
    ) -> Result<Option<FoundCommit>, GitError> {
        let doing = format!("read the history of {}", self.address);
        let format = format!("%H %P%x1f%(trailers:key={},valueonly,separator=%x1f)%x1e", trailer.key());
        let call = GitCall::new(["log", "--no-color", "--no-show-signature"])
            .arg(format!("--format={format}"))
            .arg(format!("--max-count={most}"))
            .args(["--end-of-options", tip.as_str()])
            .directory(&self.mirror());
        let text = self.read(call, &doing).await?;
        for entry in text.split('\u{1e}').map(str::trim) {
            let mut fields = entry.split('\u{1f}');
            let mut ids = fields.next().unwrap_or_default().split_whitespace();
            if fields.any(|value| value.trim() == trailer.value())
                && let Some(commit) = ids.next()
            {
                let parent = ids.next().map(CommitId::parse).transpose()?;
                return Ok(Some(FoundCommit { commit: CommitId::parse(commit)?, parent, tip }));
            }
        }
        Ok(None)
    }

    /// Looks for the commit that brought one with a trailer into a branch: a merge, or that commit itself.
    pub async fn find_merge(
        &self,
        branch: &BranchName,
        trailer: &Trailer,
        most: u32,
    ) -> Result<Option<CommitId>, GitError> {
        let Some(FoundCommit { commit, tip, .. }) = self.find_commit(branch, trailer, most).await? else {
            return Ok(None);
        };
        let call = GitCall::new(["rev-list", "--first-parent", "--ancestry-path", "--parents", "--reverse"])
            .args(["--end-of-options", &format!("{commit}..{tip}")])
            .directory(&self.mirror());
        let text = self.read(call, &format!("read the history of {}", self.address)).await?;
        // The first of the branch's own commits that comes after ours; it follows ours where ours is one of them.
        let mut ids = text.lines().next().unwrap_or_default().split_whitespace();
        let (after, parent) = (ids.next(), ids.next());
        match after.filter(|_| parent != Some(commit.as_str())) {
            Some(merge) => Ok(Some(CommitId::parse(merge)?)),
            None => Ok(Some(commit)),
        }
    }

    /// Tells whether a branch's history holds a commit, fetching as much of it as the answer needs.
    pub async fn contains(&self, branch: &BranchName, commit: &CommitId) -> Result<bool, GitError> {
        for depth in [1, 100, 2_000, 2_147_483_647] {
            self.fetch_deep(branch, depth).await?;
            if self.is_merged(commit.as_str(), &branch.mirror_ref()).await? {
                return Ok(true);
            }
            if !self.mirror().join("shallow").is_file() {
                break;
            }
        }
        Ok(false)
    }

    /// Tells whether `ancestor` is `commit` itself or part of its history, fetching as much of the branch as the answer
    /// needs. Commits that the branch does not hold (a history that was replaced) have no part in it.
    pub async fn is_ancestor(
        &self,
        branch: &BranchName,
        ancestor: &CommitId,
        commit: &CommitId,
    ) -> Result<bool, GitError> {
        for depth in [1, 100, 2_000, 2_147_483_647] {
            self.fetch_deep(branch, depth).await?;
            // Without the second question a commit of another branch that some fetch left behind could be the answer.
            if self.is_merged(commit.as_str(), &branch.mirror_ref()).await?
                && self.is_merged(ancestor.as_str(), commit.as_str()).await?
            {
                return Ok(true);
            }
            // The other way round the answer is known too, without the rest of the history.
            let is_older = ancestor != commit && self.is_merged(commit.as_str(), ancestor.as_str()).await?;
            if is_older || !self.mirror().join("shallow").is_file() {
                break;
            }
        }
        Ok(false)
    }

    /// Tells whether the mirror's part of the history of `tip` holds a commit.
    async fn is_merged(&self, commit: &str, tip: &str) -> Result<bool, GitError> {
        let call = GitCall::new(["merge-base", "--is-ancestor", commit, tip]).directory(&self.mirror());
        Ok(self.call_local(call, "look for a commit in a history").await?.is_success())
    }

    /// The files that differ between two commits of a branch, both sides of a rename among them; sorted.
    pub async fn changed_files(
        &self,
        branch: &BranchName,
        from: &CommitId,
        to: &CommitId,
    ) -> Result<Vec<PathBuf>, GitError> {
        for commit in [from, to] {
            if !self.contains(branch, commit).await? {
                let repository = self.address.to_string();
                return Err(GitError::CommitMissing { repository, commit: commit.clone() });
            }
        }
        let doing = format!("compare two commits of {}", self.address);
        let call = GitCall::new(["diff-tree", "-r", "-z", "--name-only", "--no-renames", "--no-commit-id"])
            .args([from.as_str(), to.as_str()])
            .directory(&self.mirror());
        let output = self.call_local(call, &doing).await?;
        if !output.is_success() {
            return Err(self.failure(&doing, &output));
        }
        let names = output.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        let mut files: Vec<PathBuf> = names.map(path_of).collect();
        files.sort_unstable();
        Ok(files)
    }
}
