//! Gitea and Forgejo, API v1.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use slipway_git::{BranchName, CommitId, GitCredential};
use slipway_http::Method;
use url::Url;

use crate::api::ApiClient;
use crate::content::label_colour;
use crate::error::ScmError;
use crate::github::{
    CommentAnswer, PermissionsAnswer, UserAnswer, already_gone, check_body, last_words, merge_outcome,
    write_comment,
};
use crate::provider::{
    AccessReport, CommitCheck, MergeMethod, MergeOutcome, MergeRequest, Mergeability, NewPullRequest,
    PullRequest, PullRequestChange, PullRequestState, ReviewRequest, ReviewSummary, ScmProvider,
};
use crate::remote::{ProviderKind, RemoteRepository};

pub(crate) struct Gitea {
    api: ApiClient,
    repository: RemoteRepository,
}

#[derive(Deserialize)]
struct PullAnswer {
    number: u64,
    html_url: String,
    state: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    body: String,
    #[serde(default)]
    merged: bool,
    #[serde(default)]
    merged_at: Option<Timestamp>,
    #[serde(default)]
    merge_commit_sha: Option<String>,
    #[serde(default)]
    merged_by: Option<UserAnswer>,
    /// The last commit that branch and base share.
    #[serde(default)]
    merge_base: String,
    #[serde(default)]
    mergeable: Option<bool>,
    #[serde(default)]
    draft: bool,
    #[serde(default)]
    labels: Vec<LabelAnswer>,
    head: SideAnswer,
    base: SideAnswer,
}

#[derive(Deserialize)]
struct SideAnswer {
    #[serde(rename = "ref")]
    branch: String,
    #[serde(default)]
    sha: String,
}

#[derive(Deserialize)]
struct LabelAnswer {
    id: u64,
    name: String,
}

#[derive(Deserialize)]
struct ReviewAnswer {
    user: Option<UserAnswer>,
    state: String,
    #[serde(default)]
    dismissed: bool,
    #[serde(default)]
    stale: bool,
}

#[derive(Deserialize)]
struct CompareAnswer {
    total_commits: u64,
}

#[derive(Deserialize)]
struct RepositoryAnswer {
    #[serde(default)]
    permissions: Option<PermissionsAnswer>,
}

impl From<PullAnswer> for PullRequest {
    fn from(answer: PullAnswer) -> Self {
        let state = match answer.state.as_str() {
            _ if answer.merged => PullRequestState::Merged,
            "open" => PullRequestState::Open,
            _ => PullRequestState::Closed,
        };
        let is_contained = !answer.head.sha.is_empty() && answer.merge_base == answer.head.sha;
        Self {
            number: answer.number,
            url: answer.html_url,
            state,
            title: answer.title,
            body: answer.body,
            head_branch: answer.head.branch,
            base_branch: answer.base.branch,
            head_commit: answer.head.sha,
            base_commit: Some(answer.base.sha).filter(|sha| !sha.is_empty()),
            merge_commit: answer.merge_commit_sha.filter(|_| answer.merged),
            merged_at: answer.merged_at,
            merged_by: answer.merged_by.map(|user| user.login),
            mergeability: match answer.mergeable {
                _ if state == PullRequestState::Open && is_contained => Mergeability::Contained,
                Some(true) => Mergeability::Possible,
                Some(false) if state == PullRequestState::Open => Mergeability::Conflict,
                _ => Mergeability::Unknown,
            },
            is_draft: answer.draft,
        }
    }
}

impl Gitea {
    pub(crate) fn new(api: ApiClient, repository: RemoteRepository) -> Self {
        Self { api, repository }
    }

    fn url(&self, segments: &[&str], query: &[(&str, &str)]) -> Url {
        let path = ["repos", self.repository.owner(), self.repository.name()];
        self.api.url(&[&path, segments].concat(), query)
    }

    async fn pull(&self, number: u64) -> Result<PullRequest, ScmError> {
        let url = self.url(&["pulls", &number.to_string()], &[]);
        Ok(self.api.get_settled::<PullAnswer>(url, &format!("read pull request {number}")).await?.into())
    }

    async fn patch(&self, number: u64, body: &Value) -> Result<(), ScmError> {
        let url = self.url(&["pulls", &number.to_string()], &[]);
        self.api.command(Method::PATCH, url, Some(body), &format!("change pull request {number}")).await
    }

    /// Closes a pull request that was created a moment ago if its branch had one already.
    ///
    /// Gitea looks for an open pull request of the branch before it creates one, but not within the same transaction: two
    /// requests at the same time both find none. Their numbers are in the order of their transactions, so that whoever has a
    /// higher one sees the first, which both keep.
    async fn keep_first(&self, created: PullAnswer) -> Result<PullRequest, ScmError> {
        let is_rival = |pull: &PullAnswer| {
            pull.head.branch == created.head.branch && pull.base.branch == created.base.branch
        };
        let open: Vec<PullAnswer> = self.all("open").await?.into_iter().filter(is_rival).collect();
        match first_open(&open).filter(|first| first.number < created.number) {
            Some(first) => {
                let why = format!("Opened at the same time as #{}, which stays.", first.number);
                let body = json!({"state": "closed", "body": format!("{DUPLICATE_MARKER}\n{why}")});
                self.patch(created.number, &body).await?;
                self.pull(first.number).await
            }
            None => Ok(created.into()),
        }
    }

    async fn all(&self, state: &str) -> Result<Vec<PullAnswer>, ScmError> {
        let query = [("state", state), ("sort", "recentupdate"), ("limit", "50")];
        self.api.list(self.url(&["pulls"], &query), "list pull requests").await
    }
}

/// The marker of a pull request that was one too many for its branch.
const DUPLICATE_MARKER: &str = "<!-- kardinal:duplicate -->";

/// The oldest open pull request.
fn first_open(pulls: &[PullAnswer]) -> Option<&PullAnswer> {
    pulls.iter().filter(|pull| pull.state == "open").min_by_key(|pull| pull.number)
}

impl ScmProvider for Gitea {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Gitea
    }

    fn git_credential(&self) -> BoxFuture<'_, Result<GitCredential, ScmError>> {
        futures::future::ready(Ok(self.api.credential.for_git(ProviderKind::Gitea))).boxed()
    }

    fn check_access(&self) -> BoxFuture<'_, Result<AccessReport, ScmError>> {
        async move {
            let answer: RepositoryAnswer = self.api.get(self.url(&[], &[]), "look at the repository").await?;
            let can_push = answer.permissions.map(|permissions| permissions.push);
            Ok(AccessReport { can_push, missing_scopes: Vec::new() })
        }
        .boxed()
    }

    fn find<'a>(
        &'a self,
        head: &'a BranchName,
        base: &'a BranchName,
    ) -> BoxFuture<'a, Result<Option<PullRequest>, ScmError>> {
        async move {
            let fits = |pull: &PullAnswer| {
                let is_of_branch = pull.head.branch == head.as_str() && pull.base.branch == base.as_str();
                is_of_branch && !pull.body.starts_with(DUPLICATE_MARKER)
            };
            let found: Vec<PullAnswer> = self.all("all").await?.into_iter().filter(fits).collect();
            let open = first_open(&found).map(|pull| pull.number);
            let number = open.or_else(|| found.iter().map(|pull| pull.number).max());
            Ok(found.into_iter().find(|pull| Some(pull.number) == number).map(PullRequest::from))
        }
        .boxed()
    }

    fn has_commits<'a>(
        &'a self,
        head: &'a BranchName,
        base: &'a BranchName,
    ) -> BoxFuture<'a, Result<bool, ScmError>> {
        async move {
            // Branches with slashes are separate segments for Gitea's router.
            let range = format!("{base}...{head}");
            let parts: Vec<&str> = ["compare"].into_iter().chain(range.split('/')).collect();
            let compared: CompareAnswer =
                self.api.get_settled(self.url(&parts, &[]), "compare two branches").await?;
            Ok(compared.total_commits > 0)
        }
        .boxed()
    }

    fn create<'a>(&'a self, new: &'a NewPullRequest) -> BoxFuture<'a, Result<PullRequest, ScmError>> {
        async move {
            // A draft is a title that begins like this.
            let title = if new.is_draft { format!("WIP: {}", new.title) } else { new.title.clone() };
            let body =
                json!({"title": title, "body": new.body, "head": new.head.as_str(), "base": new.base.as_str()});
            // A branch that was pushed a moment ago may not be known yet.
            for _ in 0..12 {
                let url = self.url(&["pulls"], &[]);
                match self.api.change::<PullAnswer>(Method::POST, url, &body, "open a pull request").await {
                    Err(ScmError::NotFound { .. }) => tokio::time::sleep(self.api.settle_pause).await,
                    result => return self.keep_first(result?).await,
                }
            }
            Err(ScmError::NotFound { doing: "open a pull request".to_owned() })
        }
        .boxed()
    }

    fn get(&self, number: u64) -> BoxFuture<'_, Result<PullRequest, ScmError>> {
        async move {
            let mut found = self.pull(number).await?;
            // While Gitea works it out after every push to the base, it says the same as of a conflict.
            for _ in 0..4 {
                if found.mergeability != Mergeability::Conflict {
                    break;
                }
                tokio::time::sleep(self.api.settle_pause).await;
                found = self.pull(number).await?;
            }
            Ok(found)
        }
        .boxed()
    }

    fn update<'a>(
        &'a self,
        number: u64,
        change: &'a PullRequestChange,
    ) -> BoxFuture<'a, Result<(), ScmError>> {
        async move {
            let mut body = json!({});
            if let Some(title) = &change.title {
                body["title"] = title.as_str().into();
            }
            if let Some(text) = &change.body {
                body["body"] = text.as_str().into();
            }
            self.patch(number, &body).await
        }
        .boxed()
    }

    fn close(&self, number: u64) -> BoxFuture<'_, Result<(), ScmError>> {
        async move { self.patch(number, &json!({"state": "closed"})).await }.boxed()
    }

    fn reopen(&self, number: u64) -> BoxFuture<'_, Result<(), ScmError>> {
        async move { self.patch(number, &json!({"state": "open"})).await }.boxed()
    }

    fn merge<'a>(
        &'a self,
        number: u64,
        request: &'a MergeRequest,
    ) -> BoxFuture<'a, Result<MergeOutcome, ScmError>> {
        async move {
            let MergeRequest { expected, method, .. } = request;
            let method = match method {
                MergeMethod::Merge => "merge",
                MergeMethod::Squash => "squash",
                MergeMethod::Rebase => "rebase",
            };
            let mut body =
                json!({"Do": method, "head_commit_id": expected.as_str(), "delete_branch_after_merge": false});
            if method == "squash" && !request.trailers.is_empty() {
                body["MergeMessageField"] = request.trailers.as_str().into();
            }
            let url = self.url(&["pulls", &number.to_string(), "merge"], &[]);
            let doing = format!("merge pull request {number}");
            let asked = self.api.command(Method::POST, url, Some(&body), &doing).await;
            merge_outcome(asked, self.pull(number).await?, expected)
        }
        .boxed()
    }

    /// Gitea pushes a merge to the base, and the push tells it to mark the pull request as merged. When the caller goes away in
    /// between, the push is ended and the second half never happens: the commit is on the base, the pull request stays open and
    /// cannot be merged. Where the repository allows manual merges, it can be told.
    fn declare_merged<'a>(
        &'a self,
        number: u64,
        commit: &'a CommitId,
    ) -> BoxFuture<'a, Result<PullRequest, ScmError>> {
        async move {
            let body = json!({"Do": "manually-merged", "MergeCommitID": commit.as_str()});
            let url = self.url(&["pulls", &number.to_string(), "merge"], &[]);
            let doing = format!("declare pull request {number} merged");
            let told = self.api.command(Method::POST, url, Some(&body), &doing).await;
            // Judged by what it is afterwards: somebody else may have told it.
            let now = self.pull(number).await?;
            match told {
                _ if now.state == PullRequestState::Merged => Ok(now),
                Ok(()) => {
                    let reason = "the pull request is not merged".to_owned();
                    Err(ScmError::Refused { doing, status: 200, reason })
                }
                Err(error) => Err(error),
            }
        }
        .boxed()
    }

    fn upsert_comment<'a>(
        &'a self,
        number: u64,
        marker: &'a str,
        body: &'a str,
    ) -> BoxFuture<'a, Result<(), ScmError>> {
        async move {
            let doing = format!("comment on pull request {number}");
            let list = self.url(&["issues", &number.to_string(), "comments"], &[]);
            let comments: Vec<CommentAnswer> = self.api.list(list, &doing).await?;
            let url = |id: Option<u64>| match id {
                Some(id) => (Method::PATCH, self.url(&["issues", "comments", &id.to_string()], &[])),
                None => (Method::POST, self.url(&["issues", &number.to_string(), "comments"], &[])),
            };
            write_comment(&self.api, &comments, marker, body, url, &doing).await
        }
        .boxed()
    }

    fn add_labels<'a>(&'a self, number: u64, labels: &'a [String]) -> BoxFuture<'a, Result<(), ScmError>> {
        async move {
            let doing = format!("label pull request {number}");
            let known: Vec<LabelAnswer> =
                self.api.list(self.url(&["labels"], &[("limit", "50")]), &doing).await?;
            let mut ids = Vec::new();
            for label in labels {
                if let Some(found) = known.iter().find(|known| known.name == *label) {
                    ids.push(found.id);
                    continue;
                }
                let body = json!({"name": label, "color": format!("#{}", label_colour(label))});
                let made: LabelAnswer =
                    self.api.change(Method::POST, self.url(&["labels"], &[]), &body, &doing).await?;
                ids.push(made.id);
            }
            // Numbers are understood by old and new versions.
            let url = self.url(&["issues", &number.to_string(), "labels"], &[]);
            self.api.command(Method::POST, url, Some(&json!({"labels": ids})), &doing).await
        }
        .boxed()
    }

    fn request_reviews<'a>(
        &'a self,
        number: u64,
        wanted: &'a ReviewRequest,
    ) -> BoxFuture<'a, Result<(), ScmError>> {
        async move {
            let url = self.url(&["pulls", &number.to_string(), "requested_reviewers"], &[]);
            let body = json!({"reviewers": wanted.users, "team_reviewers": wanted.teams});
            self.api.command(Method::POST, url, Some(&body), &format!("ask for reviews of {number}")).await
        }
        .boxed()
    }

    fn reviews(&self, number: u64) -> BoxFuture<'_, Result<ReviewSummary, ScmError>> {
        async move {
            let url = self.url(&["pulls", &number.to_string(), "reviews"], &[("limit", "50")]);
            let reviews: Vec<ReviewAnswer> = self.api.list(url, &format!("read reviews of {number}")).await?;
            let words = reviews.into_iter().filter_map(|review| {
                // An approval of commits that are no longer there is none.
                let is_over = review.dismissed || (review.stale && review.state == "APPROVED");
                let state = if is_over { "DISMISSED".to_owned() } else { review.state };
                Some((review.user?.login, state))
            });
            Ok(last_words(words))
        }
        .boxed()
    }

    fn set_check<'a>(
        &'a self,
        commit: &'a CommitId,
        check: &'a CommitCheck,
    ) -> BoxFuture<'a, Result<(), ScmError>> {
        async move {
            let url = self.url(&["statuses", commit.as_str()], &[]);
            self.api.command(Method::POST, url, Some(&check_body(check)), "set a commit status").await
        }
        .boxed()
    }

    fn delete_branch<'a>(&'a self, branch: &'a BranchName) -> BoxFuture<'a, Result<(), ScmError>> {
        async move {
            let parts: Vec<&str> = ["branches"].into_iter().chain(branch.as_str().split('/')).collect();
            already_gone(
                self.api.command(Method::DELETE, self.url(&parts, &[]), None, "delete a branch").await,
            )
        }
        .boxed()
    }

    fn list_open<'a>(&'a self, label: &'a str) -> BoxFuture<'a, Result<Vec<PullRequest>, ScmError>> {
        async move {
            let has_label = |pull: &PullAnswer| pull.labels.iter().any(|known| known.name == label);
            Ok(self.all("open").await?.into_iter().filter(has_label).map(PullRequest::from).collect())
        }
        .boxed()
    }

    fn compare_url(&self, from: &CommitId, to: &CommitId) -> Option<String> {
        Some(format!("{}/{}/compare/{from}...{to}", self.repository.web_root, self.repository.slug()))
    }
}
