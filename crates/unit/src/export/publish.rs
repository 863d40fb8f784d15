//! Puts an export on a branch of a repository and opens a pull request for it.

use jiff::Timestamp;
use slipway_git::{
    BranchLease, BranchName, CheckoutBase, CheckoutRequest, CommitId, CommitIdentity, CommitOutcome,
    CommitRequest, GitError, OperationId, PushOutcome, Repository, Trailer, TreePath,
};
use slipway_scm::{NewPullRequest, OpenOutcome, ScmError, ScmProvider, open_pull_request};

use super::{ExportFiles, write_export};
use crate::container::UnitFile;
use crate::error::UnitError;

/// The trailer that names the unit of a commit.
const TRAILER: &str = "Ktl-Unit";

/// Where an export goes.
pub struct PublishRequest<'a> {
    pub repository: &'a Repository,
    /// The branch the export is for.
    pub base: BranchName,
    /// The branch it is put on.
    pub branch: BranchName,
    /// The place of the export inside of the repository.
    pub directory: TreePath,
    pub author: CommitIdentity,
    pub time: Timestamp,
    /// The text of the pull request besides what the unit says of itself.
    pub summary: String,
    /// Opens a pull request; none only pushes.
    pub provider: Option<&'a dyn ScmProvider>,
}

/// The result of publishing an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublishOutcome {
    /// The base has exactly these files.
    Unchanged,
    Pushed {
        commit: CommitId,
        pull_request: Option<String>,
    },
}

/// The reason an export could not be published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    #[error(transparent)]
    Unit(#[from] UnitError),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Scm(#[from] ScmError),
    #[error("somebody else changed branch `{0}` at the same time")]
    Moved(BranchName),
    #[error("the pull request of branch `{0}` was closed")]
    Closed(BranchName),
}

/// Commits an export to a branch of its own, pushes it and opens a pull request. The same unit on the same base gives the
/// same commit, so that it may be repeated.
pub async fn publish_export(
    unit: &UnitFile,
    files: &ExportFiles,
    request: &PublishRequest<'_>,
) -> Result<PublishOutcome, PublishError> {
    let short = unit.digest().trim_start_matches("sha256:").get(..12).unwrap_or_default();
    let name = |kind: &'static str, text: String| {
        OperationId::parse(&text).map_err(|_| UnitError::problem(format!("`{text}` cannot name a {kind}")))
    };
    let checkout = CheckoutRequest {
        operation: name("work tree", format!("unit-{short}"))?,
        base: CheckoutBase::Branch(request.base.clone()),
        paths: vec![request.directory.clone()],
    };
    let tree = request.repository.check_out(&checkout).await?;
    write_export(files, &tree.locate(&request.directory)?)?;
    let subject = format!("Deploy {} {} ({short})", unit.release_name(), unit.rows().chart.version);
    let trailer =
        Trailer::new(TRAILER, unit.digest()).map_err(|error| UnitError::problem(error.to_string()))?;
    let committed = tree
        .commit(&CommitRequest {
            subject: subject.clone(),
            body: String::new(),
            trailers: vec![trailer],
            author: request.author.clone(),
            committer: request.author.clone(),
            time: request.time,
            paths: vec![request.directory.clone()],
            signing: None,
        })
        .await?;
    let CommitOutcome::Committed(commit) = committed else { return Ok(PublishOutcome::Unchanged) };
    let lease = match request.repository.remote_head(&request.branch).await? {
        Some(known) => BranchLease::At(known),
        None => BranchLease::Absent,
    };
    if tree.push(&commit, &request.branch, &lease).await? == PushOutcome::Moved {
        return Err(PublishError::Moved(request.branch.clone()));
    }
    let pull_request = match request.provider {
        None => None,
        Some(provider) => {
            let body = format!("{}\n\n{TRAILER}: {}\n", request.summary.trim(), unit.digest());
            let new = NewPullRequest {
                title: subject,
                body,
                head: request.branch.clone(),
                base: request.base.clone(),
                is_draft: false,
            };
            match open_pull_request(provider, &new, unit.digest()).await? {
                OpenOutcome::Created(found) | OpenOutcome::Found(found) | OpenOutcome::Merged(found) => {
                    Some(found.url)
                }
                OpenOutcome::Closed(_) => return Err(PublishError::Closed(request.branch.clone())),
                OpenOutcome::NothingToMerge => None,
            }
        }
    };
    Ok(PublishOutcome::Pushed { commit, pull_request })
}
