//! Puts one edit on a branch that others push to as well.
//!
//! The edit is a function, not a patch: when somebody was faster, the tree starts again from their commit and the edit is
//! made anew, so that history stays linear and nobody's change is lost.

use std::time::Duration;

use futures::future::BoxFuture;

use crate::commit::{CommitOutcome, CommitRequest, Trailer};
use crate::error::GitError;
use crate::mirror::Repository;
use crate::name::{BranchName, CommitId, OperationId, TreePath};
use crate::push::{BranchLease, PushOutcome};
use crate::tree::{CheckoutBase, CheckoutRequest, WorkTree};

/// The patience with others who push to the same branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayPolicy {
    pub attempts: u32,
    /// The pause after the first lost race; it grows up to `longest_pause`.
    pub first_pause: Duration,
    pub longest_pause: Duration,
    /// The commits looked through for one that an earlier process has pushed.
    pub searched_commits: u32,
}

impl Default for ReplayPolicy {
    fn default() -> Self {
        Self {
            attempts: 10,
            first_pause: Duration::from_millis(200),
            longest_pause: Duration::from_secs(5),
            searched_commits: 200,
        }
    }
}

/// An edit to put on a branch.
#[derive(Clone, Debug)]
pub struct LandRequest {
    pub operation: OperationId,
    pub branch: BranchName,
    pub commit: CommitRequest,
    /// Marks the commit: one that has it on the branch already is the result of an earlier try.
    pub mark: Trailer,
    /// The directories the edit needs; all if empty.
    pub paths: Vec<TreePath>,
    pub replay: ReplayPolicy,
}

/// The result of putting an edit on a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LandOutcome {
    Landed {
        commit: CommitId,
        base: CommitId,
        attempts: u32,
    },
    /// An earlier try has done it.
    AlreadyLanded {
        commit: CommitId,
    },
    /// The branch has what the edit would make.
    NothingChanged {
        base: CommitId,
    },
}

/// The reason an edit is not on its branch.
#[derive(Debug, thiserror::Error)]
pub enum LandError<E: std::error::Error + 'static> {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error("the edit failed")]
    Edit(#[source] E),
}

impl Repository {
    /// Makes an edit and pushes it, again on top of others' commits while they are faster.
    pub async fn land<E: std::error::Error + 'static>(
        &self,
        request: &LandRequest,
        edit: impl for<'t> Fn(&'t WorkTree) -> BoxFuture<'t, Result<(), E>>,
    ) -> Result<LandOutcome, LandError<E>> {
        let _turn = self.state.writing.lock().await;
        let mut commit = request.commit.clone();
        if !commit.trailers.contains(&request.mark) {
            commit.trailers.push(request.mark.clone());
        }
        let most = request.replay.searched_commits;
        let mut tree: Option<WorkTree> = None;
        for attempt in 1..=request.replay.attempts {
            // An answer that was lost, or a process that ended: the commit may be there.
            if let Some(found) = self.find_commit(&request.branch, &request.mark, most).await? {
                return Ok(LandOutcome::AlreadyLanded { commit: found.commit });
            }
            let current = match tree.as_mut() {
                Some(tree) => {
                    tree.reset_to_branch(&request.branch).await?;
                    tree
                }
                None => {
                    let base = CheckoutBase::BranchOrEmpty(request.branch.clone());
                    let paths = request.paths.clone();
                    let wanted = CheckoutRequest { operation: request.operation.clone(), base, paths };
                    tree.insert(self.check_out(&wanted).await?)
                }
            };
            edit(current).await.map_err(LandError::Edit)?;
            let base = current.base().clone();
            let made = match current.commit(&commit).await? {
                CommitOutcome::Committed(made) => made,
                CommitOutcome::NothingChanged => return Ok(LandOutcome::NothingChanged { base }),
            };
            let lease = if current.is_rootless { BranchLease::Absent } else { BranchLease::At(base.clone()) };
            match current.push(&made, &request.branch, &lease).await? {
                PushOutcome::Pushed | PushOutcome::AlreadyThere => {
                    return Ok(LandOutcome::Landed { commit: made, base, attempts: attempt });
                }
                PushOutcome::Moved if attempt < request.replay.attempts => {
                    let pause = request.replay.first_pause * 2u32.saturating_pow(attempt - 1);
                    // Jitter keeps those who lost from meeting again.
                    let jitter = rand::random_range(0.5..1.0);
                    tokio::time::sleep(pause.min(request.replay.longest_pause).mul_f64(jitter)).await;
                }
                PushOutcome::Moved => {}
            }
        }
        let branch = request.branch.clone();
        Err(GitError::Contended { branch, attempts: request.replay.attempts }.into())
    }
}
