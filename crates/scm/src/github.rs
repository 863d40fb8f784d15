//! GitHub and GitHub Enterprise Server, REST API 2022-11-28.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use slipway_git::{BranchName, CommitId, GitCredential};
use slipway_http::Method;
use url::Url;

use crate::api::{ApiClient, read};
use crate::content::label_colour;
use crate::credential::{ScmCredential, token_user};
use crate::error::ScmError;
use crate::provider::{
    AccessReport, CheckState, CommitCheck, MergeMethod, MergeOutcome, MergeRequest, Mergeability,
    NewPullRequest, PullRequest, PullRequestChange, PullRequestState, ReviewRequest, ReviewSummary,
    ScmProvider,
};
use crate::remote::{ProviderKind, RemoteRepository};

pub(crate) struct GitHub {
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
    body: Option<String>,
    /// Absent in lists.
    #[serde(default)]
    merged: Option<bool>,
    #[serde(default)]
    merged_at: Option<Timestamp>,
    #[serde(default)]
    merge_commit_sha: Option<String>,
    #[serde(default)]
    merged_by: Option<UserAnswer>,
    #[serde(default)]
    mergeable: Option<bool>,
    #[serde(default)]
    draft: bool,
    head: SideAnswer,
    base: SideAnswer,
}

#[derive(Deserialize)]
struct SideAnswer {
    #[serde(rename = "ref")]
    branch: String,
    sha: String,
}

#[derive(Deserialize)]
pub(crate) struct UserAnswer {
    pub(crate) login: String,
}

#[derive(Deserialize)]
struct ReviewAnswer {
    user: Option<UserAnswer>,
    state: String,
}

#[derive(Deserialize)]
pub(crate) struct CommentAnswer {
    pub(crate) id: u64,
    #[serde(default)]
    pub(crate) body: Option<String>,
}

#[derive(Deserialize)]
struct CompareAnswer {
    ahead_by: u64,
}

#[derive(Deserialize)]
struct IssueAnswer {
    number: u64,
    #[serde(default)]
    pull_request: Option<Value>,
}

#[derive(Deserialize)]
struct RepositoryAnswer {
    #[serde(default)]
    permissions: Option<PermissionsAnswer>,
}

#[derive(Deserialize)]
pub(crate) struct PermissionsAnswer {
    #[serde(default)]
    pub(crate) push: bool,
}

impl From<PullAnswer> for PullRequest {
    fn from(answer: PullAnswer) -> Self {
        let is_merged = answer.merged.unwrap_or(false) || answer.merged_at.is_some();
        let state = match answer.state.as_str() {
            _ if is_merged => PullRequestState::Merged,
            "open" => PullRequestState::Open,
            _ => PullRequestState::Closed,
        };
        Self {
            number: answer.number,
            url: answer.html_url,
            state,
            title: answer.title,
            body: answer.body.unwrap_or_default(),
            head_branch: answer.head.branch,
            base_branch: answer.base.branch,
            head_commit: answer.head.sha,
            base_commit: Some(answer.base.sha),
            // Before the merge this is a trial merge of GitHub's.
            merge_commit: answer.merge_commit_sha.filter(|_| is_merged),
            merged_at: answer.merged_at,
            merged_by: answer.merged_by.map(|user| user.login),
            mergeability: match answer.mergeable {
                Some(true) => Mergeability::Possible,
                Some(false) => Mergeability::Conflict,
                None => Mergeability::Unknown,
            },
            is_draft: answer.draft,
        }
    }
}

impl GitHub {
    pub(crate) fn new(api: ApiClient, repository: RemoteRepository) -> Self {
        Self { api, repository }
    }

    /// An address below the repository.
    fn url(&self, segments: &[&str], query: &[(&str, &str)]) -> Url {
        let path = ["repos", self.repository.owner(), self.repository.name()];
        self.api.url(&[&path, segments].concat(), query)
    }

    async fn pull(&self, number: u64) -> Result<PullRequest, ScmError> {
        let url = self.url(&["pulls", &number.to_string()], &[]);
        let doing = format!("read pull request {number}");
        Ok(self.api.get_settled::<PullAnswer>(url, &doing).await?.into())
    }

    async fn patch(&self, number: u64, body: &Value) -> Result<(), ScmError> {
        let url = self.url(&["pulls", &number.to_string()], &[]);
        self.api.command(Method::PATCH, url, Some(body), &format!("change pull request {number}")).await
    }
}

impl ScmProvider for GitHub {
    fn kind(&self) -> ProviderKind {
        ProviderKind::GitHub
    }

    fn git_credential(&self) -> BoxFuture<'_, Result<GitCredential, ScmError>> {
        async move {
            match (&self.api.credential, &self.api.app_tokens) {
                (ScmCredential::App(_), Some(tokens)) => {
                    let password = tokens.token(&self.api).await?;
                    Ok(GitCredential::Login { user: token_user(ProviderKind::GitHub).to_owned(), password })
                }
                (credential, _) => Ok(credential.for_git(ProviderKind::GitHub)),
            }
        }
        .boxed()
    }

    fn check_access(&self) -> BoxFuture<'_, Result<AccessReport, ScmError>> {
        async move {
            let doing = "look at the repository";
            let answer = self.api.send(Method::GET, self.url(&[], &[]), None, doing).await?;
            let repository: RepositoryAnswer = read(&answer.body, doing)?;
            // Apps and fine-grained tokens have permissions instead of scopes.
            let scopes = answer.scopes.filter(|scopes| !scopes.is_empty());
            let lacks = scopes.is_some_and(|scopes| {
                !scopes.split(',').any(|scope| matches!(scope.trim(), "repo" | "public_repo"))
            });
            Ok(AccessReport {
                can_push: repository.permissions.map(|permissions| permissions.push),
                missing_scopes: if lacks { vec!["repo".to_owned()] } else { Vec::new() },
            })
        }
        .boxed()
    }

    fn find<'a>(
        &'a self,
        head: &'a BranchName,
        base: &'a BranchName,
    ) -> BoxFuture<'a, Result<Option<PullRequest>, ScmError>> {
        async move {
            let head = format!("{}:{head}", self.repository.owner());
            let query = [("state", "all"), ("head", &head), ("base", base.as_str()), ("per_page", "100")];
            let found: Vec<PullAnswer> =
                self.api.list(self.url(&["pulls"], &query), "look for a pull request").await?;
            Ok(found.into_iter().max_by_key(|pull| pull.number).map(PullRequest::from))
        }
        .boxed()
    }

    fn has_commits<'a>(
        &'a self,
        head: &'a BranchName,
        base: &'a BranchName,
    ) -> BoxFuture<'a, Result<bool, ScmError>> {
        async move {
            let url = self.url(&["compare", &format!("{base}...{head}")], &[("per_page", "1")]);
            let compared: CompareAnswer = self.api.get_settled(url, "compare two branches").await?;
            Ok(compared.ahead_by > 0)
        }
        .boxed()
    }

    fn create<'a>(&'a self, new: &'a NewPullRequest) -> BoxFuture<'a, Result<PullRequest, ScmError>> {
        async move {
            let body = json!({
                "title": new.title, "body": new.body, "head": new.head.as_str(), "base": new.base.as_str(),
                "draft": new.is_draft,
            });
            let url = self.url(&["pulls"], &[]);
            let made: PullAnswer = self.api.change(Method::POST, url, &body, "open a pull request").await?;
            Ok(made.into())
        }
        .boxed()
    }

    fn get(&self, number: u64) -> BoxFuture<'_, Result<PullRequest, ScmError>> {
        self.pull(number).boxed()
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
            let body = json!({"sha": expected.as_str(), "merge_method": method});
            let url = self.url(&["pulls", &number.to_string(), "merge"], &[]);
            let doing = format!("merge pull request {number}");
            let asked = self.api.command(Method::PUT, url, Some(&body), &doing).await;
            merge_outcome(asked, self.pull(number).await?, expected)
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
            let list = self.url(&["issues", &number.to_string(), "comments"], &[("per_page", "100")]);
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
            for label in labels {
                let body = json!({"name": label, "color": label_colour(label)});
                let made =
                    self.api.command(Method::POST, self.url(&["labels"], &[]), Some(&body), &doing).await;
                // 422: it exists.
                made.or_else(|error| if error.refusal() == Some(422) { Ok(()) } else { Err(error) })?;
            }
            let url = self.url(&["issues", &number.to_string(), "labels"], &[]);
            self.api.command(Method::POST, url, Some(&json!({"labels": labels})), &doing).await
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
            let url = self.url(&["pulls", &number.to_string(), "reviews"], &[("per_page", "100")]);
            let reviews: Vec<ReviewAnswer> = self.api.list(url, &format!("read reviews of {number}")).await?;
            let words = reviews.into_iter().filter_map(|review| Some((review.user?.login, review.state)));
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
            let parts: Vec<&str> =
                ["git", "refs", "heads"].into_iter().chain(branch.as_str().split('/')).collect();
            let gone = self.api.command(Method::DELETE, self.url(&parts, &[]), None, "delete a branch").await;
            already_gone(gone)
        }
        .boxed()
    }

    fn list_open<'a>(&'a self, label: &'a str) -> BoxFuture<'a, Result<Vec<PullRequest>, ScmError>> {
        async move {
            let query = [("state", "open"), ("labels", label), ("per_page", "100")];
            let issues: Vec<IssueAnswer> =
                self.api.list(self.url(&["issues"], &query), "list pull requests").await?;
            let mut found = Vec::new();
            for issue in issues.into_iter().filter(|issue| issue.pull_request.is_some()) {
                found.push(self.pull(issue.number).await?);
            }
            Ok(found)
        }
        .boxed()
    }

    fn compare_url(&self, from: &CommitId, to: &CommitId) -> Option<String> {
        Some(format!("{}/{}/compare/{from}...{to}", self.repository.web_root, self.repository.slug()))
    }
}

/// Judges a merge by what the pull request is afterwards, not by what the server said.
pub(crate) fn merge_outcome(
    asked: Result<(), ScmError>,
    now: PullRequest,
    expected: &CommitId,
) -> Result<MergeOutcome, ScmError> {
    match asked {
        _ if now.state == PullRequestState::Merged => Ok(MergeOutcome::Merged(now)),
        _ if !now.ends_in(expected) => Ok(MergeOutcome::HeadMoved(now)),
        Ok(()) => Ok(MergeOutcome::NotReady(now)),
        Err(error) if matches!(error.refusal(), Some(400 | 405 | 406 | 409 | 422 | 555)) => {
            Ok(MergeOutcome::NotReady(now))
        }
        Err(error) => Err(error),
    }
}

/// Posts a comment, or edits the one that holds the marker.
pub(crate) async fn write_comment(
    api: &ApiClient,
    comments: &[CommentAnswer],
    marker: &str,
    body: &str,
    url: impl Fn(Option<u64>) -> (Method, Url),
    doing: &str,
) -> Result<(), ScmError> {
    let ours =
        comments.iter().find(|comment| comment.body.as_ref().is_some_and(|text| text.contains(marker)));
    if ours.is_some_and(|comment| comment.body.as_deref() == Some(body)) {
        return Ok(());
    }
    let (method, url) = url(ours.map(|comment| comment.id));
    api.command(method, url, Some(&json!({"body": body})), doing).await
}

/// The last word of each reviewer; a comment is none, and a dismissal takes it back.
pub(crate) fn last_words(words: impl Iterator<Item = (String, String)>) -> ReviewSummary {
    let mut last = indexmap::IndexMap::new();
    for (user, state) in words {
        match state.as_str() {
            "APPROVED" | "CHANGES_REQUESTED" | "REQUEST_CHANGES" => {
                last.insert(user, state);
            }
            "DISMISSED" => {
                last.shift_remove(&user);
            }
            _ => {}
        }
    }
    let mut summary = ReviewSummary::default();
    for (user, state) in last {
        if state == "APPROVED" { summary.approvers.push(user) } else { summary.changes_requested.push(user) }
    }
    summary
}

/// The body of a status, as GitHub and Gitea take it.
pub(crate) fn check_body(check: &CommitCheck) -> Value {
    let state = match check.state {
        CheckState::Pending => "pending",
        CheckState::Success => "success",
        CheckState::Failure => "failure",
        CheckState::Error => "error",
    };
    let mut body =
        json!({"state": state, "context": check.context, "description": check.short_description()});
    if let Some(url) = &check.url {
        body["target_url"] = url.as_str().into();
    }
    body
}

/// Something that is gone need not be deleted.
pub(crate) fn already_gone(result: Result<(), ScmError>) -> Result<(), ScmError> {
    match result {
        Err(ScmError::NotFound { .. }) => Ok(()),
        Err(error) if error.refusal() == Some(422) => Ok(()),
        result => result,
    }
}
