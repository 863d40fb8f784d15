//! Pushes that overwrite nothing their caller does not know of.

use crate::error::GitError;
use crate::mirror::Repository;
use crate::name::{BranchName, CommitId};
use crate::program::GitCall;
use crate::tree::WorkTree;

/// The state a branch must have for a push to change it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BranchLease {
    Absent,
    At(CommitId),
}

/// The result of a push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushOutcome {
    Pushed,
    /// The branch is where it should be already.
    AlreadyThere,
    /// The branch has another state than the lease says; nothing was changed.
    Moved,
}

impl WorkTree {
    /// Pushes a commit to a branch that is as the lease says.
    pub async fn push(
        &self,
        commit: &CommitId,
        branch: &BranchName,
        lease: &BranchLease,
    ) -> Result<PushOutcome, GitError> {
        let call = self.call(push_call(commit.as_str(), branch, lease));
        self.repository.push_call(call, branch).await
    }
}

impl Repository {
    /// Deletes a branch that is where the caller knows it to be. One that is gone is deleted.
    pub async fn delete_branch(&self, branch: &BranchName, at: &CommitId) -> Result<PushOutcome, GitError> {
        match self.remote_head(branch).await? {
            None => return Ok(PushOutcome::AlreadyThere),
            Some(other) if other != *at => return Ok(PushOutcome::Moved),
            Some(_) => {}
        }
        let call = push_call("", branch, &BranchLease::At(at.clone())).directory(&self.mirror());
        self.push_call(call, branch).await
    }

    async fn push_call(&self, call: GitCall, branch: &BranchName) -> Result<PushOutcome, GitError> {
        let doing = format!("push to `{branch}` of {}", self.address);
        let _guard = self.lock().await?;
        let output = self.call_remote(call, &doing).await?;
        let text = String::from_utf8_lossy(&output.stdout);
        match PushLine::find(&text, branch) {
            Some(PushLine { flag: '!', summary }) => {
                if is_race(summary) {
                    return Ok(PushOutcome::Moved);
                }
                let told = self.message(&output);
                let summary = summary.trim_start_matches("[remote rejected] ").trim_matches(['(', ')']);
                Err(GitError::PushDenied { branch: branch.clone(), message: format!("{summary}: {told}") })
            }
            Some(PushLine { flag: '=', .. }) => Ok(PushOutcome::AlreadyThere),
            Some(_) if output.is_success() => Ok(PushOutcome::Pushed),
            _ => Err(self.remote_failure(&doing, &output)),
        }
    }
}

fn push_call(commit: &str, branch: &BranchName, lease: &BranchLease) -> GitCall {
    let (name, expected) = match lease {
        BranchLease::Absent => (branch.remote_ref(), ""),
        BranchLease::At(commit) => (branch.remote_ref(), commit.as_str()),
    };
    GitCall::new(["push", "--porcelain", "--no-verify", "--no-recurse-submodules", "--no-signed"])
        .arg(format!("--force-with-lease={name}:{expected}"))
        .arg("origin")
        .arg(format!("{commit}:{name}"))
}

/// A line of `git push --porcelain`: `FLAG \t FROM:TO \t SUMMARY`.
struct PushLine<'t> {
    flag: char,
    summary: &'t str,
}

impl<'t> PushLine<'t> {
    fn find(text: &'t str, branch: &BranchName) -> Option<Self> {
        text.lines().find_map(|line| {
            let mut fields = line.splitn(3, '\t');
            let (flag, names, summary) = (fields.next()?, fields.next()?, fields.next()?);
            let is_ours = names.rsplit_once(':').is_some_and(|(_, to)| to == branch.remote_ref());
            Some(Self { flag: flag.chars().next().filter(|_| is_ours)?, summary })
        })
    }
}

/// Tells a lost race from a refusal. `[rejected]` is Git's own word for a branch that is not where it should be; the
/// others are what servers say when two pushes meet.
fn is_race(summary: &str) -> bool {
    const RACES: [&str; 6] = [
        "non-fast-forward",
        "fetch first",
        "cannot lock ref",
        "incorrect old value provided",
        "failed to update ref",
        "reference already exists",
    ];
    summary.starts_with("[rejected]") || RACES.iter().any(|race| summary.contains(race))
}
