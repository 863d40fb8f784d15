//! GitLab, API v4.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use slipway_git::{BranchName, CommitId, GitCredential};
use slipway_http::Method;
use url::Url;

use crate::api::ApiClient;
use crate::error::ScmError;
use crate::github::{CommentAnswer, already_gone, merge_outcome, write_comment};
use crate::provider::{
    AccessReport, CheckState, CommitCheck, MergeMethod, MergeOutcome, MergeRequest, Mergeability,
    NewPullRequest, PullRequest, PullRequestChange, PullRequestState, ReviewRequest, ReviewSummary,
    ScmProvider,
};
use crate::remote::{ProviderKind, RemoteRepository};

pub(crate) struct GitLab {
    api: ApiClient,
    repository: RemoteRepository,
}

#[derive(Deserialize)]
struct MergeRequestAnswer {
    iid: u64,
    web_url: String,
    state: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    description: Option<String>,
    source_branch: String,
    target_branch: String,
    #[serde(default)]
    sha: Option<String>,
    #[serde(default)]
    merge_commit_sha: Option<String>,
    #[serde(default)]
    squash_commit_sha: Option<String>,
    #[serde(default)]
    merged_at: Option<Timestamp>,
    #[serde(default)]
    merge_user: Option<UserAnswer>,
    #[serde(default)]
    merged_by: Option<UserAnswer>,
    #[serde(default)]
    detailed_merge_status: Option<String>,
    #[serde(default)]
    draft: bool,
    #[serde(default)]
    diff_refs: Option<DiffRefs>,
}

#[derive(Deserialize)]
struct DiffRefs {
    base_sha: Option<String>,
}

#[derive(Deserialize)]
struct UserAnswer {
    username: String,
}

#[derive(Deserialize)]
struct ReviewersAnswer {
    #[serde(default)]
    reviewers: Vec<UserIdAnswer>,
}

#[derive(Deserialize)]
struct UserIdAnswer {
    id: u64,
}

#[derive(Deserialize)]
struct ApprovalsAnswer {
    #[serde(default)]
    approved_by: Vec<ApproverAnswer>,
}

#[derive(Deserialize)]
struct ApproverAnswer {
    user: UserAnswer,
}

#[derive(Deserialize)]
struct CompareAnswer {
    #[serde(default)]
    commits: Vec<Value>,
}

#[derive(Deserialize)]
struct ProjectAnswer {
    #[serde(default)]
    permissions: Option<ProjectPermissions>,
}

#[derive(Deserialize)]
struct ProjectPermissions {
    #[serde(default)]
    project_access: Option<AccessLevel>,
    #[serde(default)]
    group_access: Option<AccessLevel>,
}

#[derive(Deserialize)]
struct AccessLevel {
    access_level: u32,
}

#[derive(Deserialize)]
struct TokenAnswer {
    #[serde(default)]
    scopes: Vec<String>,
}

/// The level from which on one may push.
const DEVELOPER: u32 = 30;

impl From<MergeRequestAnswer> for PullRequest {
    fn from(answer: MergeRequestAnswer) -> Self {
        let state = match answer.state.as_str() {
            "merged" => PullRequestState::Merged,
            // Locked: a merge is going on.
            "opened" | "locked" => PullRequestState::Open,
            _ => PullRequestState::Closed,
        };
        let is_merged = state == PullRequestState::Merged;
        let head = answer.sha.unwrap_or_default();
        let merge_commit = answer.merge_commit_sha.or(answer.squash_commit_sha);
        Self {
            number: answer.iid,
            url: answer.web_url,
            state,
            title: answer.title,
            body: answer.description.unwrap_or_default(),
            head_branch: answer.source_branch,
            base_branch: answer.target_branch,
            // A fast-forward has no commit of its own.
            merge_commit: merge_commit.or_else(|| Some(head.clone())).filter(|_| is_merged),
            head_commit: head,
            base_commit: answer.diff_refs.and_then(|refs| refs.base_sha),
            merged_at: answer.merged_at,
            merged_by: answer.merge_user.or(answer.merged_by).map(|user| user.username),
            mergeability: match answer.detailed_merge_status.as_deref() {
                Some("mergeable") => Mergeability::Possible,
                Some("conflict" | "broken_status" | "need_rebase") => Mergeability::Conflict,
                _ => Mergeability::Unknown,
            },
            is_draft: answer.draft,
        }
    }
}

impl GitLab {
    pub(crate) fn new(api: ApiClient, repository: RemoteRepository) -> Self {
        Self { api, repository }
    }

    /// An address below the project, whose path is one encoded segment.
    fn url(&self, segments: &[&str], query: &[(&str, &str)]) -> Url {
        let project = self.repository.slug();
        self.api.url(&[&["projects", &project], segments].concat(), query)
    }

    fn request_url(&self, number: u64, segments: &[&str], query: &[(&str, &str)]) -> Url {
        self.url(&[&["merge_requests", &number.to_string()], segments].concat(), query)
    }

    async fn request(&self, number: u64) -> Result<PullRequest, ScmError> {
        let doing = format!("read merge request {number}");
        let url = self.request_url(number, &[], &[]);
        Ok(self.api.get_settled::<MergeRequestAnswer>(url, &doing).await?.into())
    }

    async fn put(&self, number: u64, body: &Value) -> Result<(), ScmError> {
        let url = self.request_url(number, &[], &[]);
        self.api.command(Method::PUT, url, Some(body), &format!("change merge request {number}")).await
    }
}

impl ScmProvider for GitLab {
    fn kind(&self) -> ProviderKind {
        ProviderKind::GitLab
    }

    fn git_credential(&self) -> BoxFuture<'_, Result<GitCredential, ScmError>> {
        futures::future::ready(Ok(self.api.credential.for_git(ProviderKind::GitLab))).boxed()
    }

    fn check_access(&self) -> BoxFuture<'_, Result<AccessReport, ScmError>> {
        async move {
            let project: ProjectAnswer = self.api.get(self.url(&[], &[]), "look at the project").await?;
            let can_push = project.permissions.map(|permissions| {
                let levels = [permissions.project_access, permissions.group_access];
                levels.into_iter().flatten().any(|access| access.access_level >= DEVELOPER)
            });
            let own = self.api.url(&["personal_access_tokens", "self"], &[]);
            let missing_scopes = match self.api.get::<TokenAnswer>(own, "look at the token").await {
                Ok(token) if !token.scopes.iter().any(|scope| scope == "api") => vec!["api".to_owned()],
                // Tokens of jobs and of old versions cannot look at themselves.
                _ => Vec::new(),
            };
            Ok(AccessReport { can_push, missing_scopes })
        }
        .boxed()
    }

    fn find<'a>(
        &'a self,
        head: &'a BranchName,
        base: &'a BranchName,
    ) -> BoxFuture<'a, Result<Option<PullRequest>, ScmError>> {
        async move {
            let query = [
                ("source_branch", head.as_str()),
                ("target_branch", base.as_str()),
                ("state", "all"),
                ("per_page", "100"),
            ];
            let found: Vec<MergeRequestAnswer> =
                self.api.list(self.url(&["merge_requests"], &query), "look for a merge request").await?;
            Ok(found.into_iter().max_by_key(|request| request.iid).map(PullRequest::from))
        }
        .boxed()
    }

    fn has_commits<'a>(
        &'a self,
        head: &'a BranchName,
        base: &'a BranchName,
    ) -> BoxFuture<'a, Result<bool, ScmError>> {
        async move {
            let query = [("from", base.as_str()), ("to", head.as_str()), ("straight", "false")];
            let url = self.url(&["repository", "compare"], &query);
            let compared: CompareAnswer = self.api.get_settled(url, "compare two branches").await?;
            Ok(!compared.commits.is_empty())
        }
        .boxed()
    }

    fn create<'a>(&'a self, new: &'a NewPullRequest) -> BoxFuture<'a, Result<PullRequest, ScmError>> {
        async move {
            let title = if new.is_draft { format!("Draft: {}", new.title) } else { new.title.clone() };
            let body = json!({
                "source_branch": new.head.as_str(), "target_branch": new.base.as_str(), "title": title,
                "description": new.body, "remove_source_branch": false,
            });
            let url = self.url(&["merge_requests"], &[]);
            let made: MergeRequestAnswer =
                self.api.change(Method::POST, url, &body, "open a merge request").await?;
            Ok(made.into())
        }
        .boxed()
    }

    fn get(&self, number: u64) -> BoxFuture<'_, Result<PullRequest, ScmError>> {
        self.request(number).boxed()
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
                body["description"] = text.as_str().into();
            }
            self.put(number, &body).await
        }
        .boxed()
    }

    fn close(&self, number: u64) -> BoxFuture<'_, Result<(), ScmError>> {
        async move { self.put(number, &json!({"state_event": "close"})).await }.boxed()
    }

    fn reopen(&self, number: u64) -> BoxFuture<'_, Result<(), ScmError>> {
        async move { self.put(number, &json!({"state_event": "reopen"})).await }.boxed()
    }

    fn merge<'a>(
        &'a self,
        number: u64,
        request: &'a MergeRequest,
    ) -> BoxFuture<'a, Result<MergeOutcome, ScmError>> {
        async move {
            let MergeRequest { expected, method, .. } = request;
            // Rebasing is a setting of the project.
            let body = json!({"sha": expected.as_str(), "squash": *method == MergeMethod::Squash});
            let url = self.request_url(number, &["merge"], &[]);
            let doing = format!("merge merge request {number}");
            let asked = self.api.command(Method::PUT, url, Some(&body), &doing).await;
            merge_outcome(asked, self.request(number).await?, expected)
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
            let doing = format!("comment on merge request {number}");
            let list = self.request_url(number, &["notes"], &[("per_page", "100")]);
            let notes: Vec<CommentAnswer> = self.api.list(list, &doing).await?;
            let url = |id: Option<u64>| match id {
                Some(id) => (Method::PUT, self.request_url(number, &["notes", &id.to_string()], &[])),
                None => (Method::POST, self.request_url(number, &["notes"], &[])),
            };
            write_comment(&self.api, &notes, marker, body, url, &doing).await
        }
        .boxed()
    }

    fn add_labels<'a>(&'a self, number: u64, labels: &'a [String]) -> BoxFuture<'a, Result<(), ScmError>> {
        // `labels` would replace those of others.
        async move { self.put(number, &json!({"add_labels": labels.join(",")})).await }.boxed()
    }

    fn request_reviews<'a>(
        &'a self,
        number: u64,
        wanted: &'a ReviewRequest,
    ) -> BoxFuture<'a, Result<(), ScmError>> {
        async move {
            if !wanted.teams.is_empty() {
                return Err(ScmError::Unsupported {
                    provider: ProviderKind::GitLab,
                    operation: "ask teams for reviews",
                });
            }
            let doing = format!("ask for reviews of {number}");
            let now: ReviewersAnswer = self.api.get(self.request_url(number, &[], &[]), &doing).await?;
            // The list is replaced as a whole.
            let mut ids: Vec<u64> = now.reviewers.iter().map(|user| user.id).collect();
            for name in &wanted.users {
                let url = self.api.url(&["users"], &[("username", name)]);
                let found: Vec<UserIdAnswer> = self.api.get(url, &doing).await?;
                let user = found.first().ok_or_else(|| ScmError::NotFound { doing: doing.clone() })?;
                if !ids.contains(&user.id) {
                    ids.push(user.id);
                }
            }
            self.put(number, &json!({"reviewer_ids": ids})).await
        }
        .boxed()
    }

    fn reviews(&self, number: u64) -> BoxFuture<'_, Result<ReviewSummary, ScmError>> {
        async move {
            let url = self.request_url(number, &["approvals"], &[]);
            let approvals: ApprovalsAnswer =
                self.api.get(url, &format!("read approvals of {number}")).await?;
            let approvers =
                approvals.approved_by.into_iter().map(|approver| approver.user.username).collect();
            Ok(ReviewSummary { approvers, changes_requested: Vec::new() })
        }
        .boxed()
    }

    fn set_check<'a>(
        &'a self,
        commit: &'a CommitId,
        check: &'a CommitCheck,
    ) -> BoxFuture<'a, Result<(), ScmError>> {
        async move {
            let state = match check.state {
                CheckState::Pending => "pending",
                CheckState::Success => "success",
                CheckState::Failure | CheckState::Error => "failed",
            };
            let mut body =
                json!({"state": state, "name": check.context, "description": check.short_description()});
            if let Some(url) = &check.url {
                body["target_url"] = url.as_str().into();
            }
            let url = self.url(&["statuses", commit.as_str()], &[]);
            self.api.command(Method::POST, url, Some(&body), "set a commit status").await
        }
        .boxed()
    }

    fn delete_branch<'a>(&'a self, branch: &'a BranchName) -> BoxFuture<'a, Result<(), ScmError>> {
        async move {
            let url = self.url(&["repository", "branches", branch.as_str()], &[]);
            already_gone(self.api.command(Method::DELETE, url, None, "delete a branch").await)
        }
        .boxed()
    }

    fn list_open<'a>(&'a self, label: &'a str) -> BoxFuture<'a, Result<Vec<PullRequest>, ScmError>> {
        async move {
            let query = [("state", "opened"), ("labels", label), ("per_page", "100")];
            let url = self.url(&["merge_requests"], &query);
            let found: Vec<MergeRequestAnswer> = self.api.list(url, "list merge requests").await?;
            Ok(found.into_iter().map(PullRequest::from).collect())
        }
        .boxed()
    }

    fn compare_url(&self, from: &CommitId, to: &CommitId) -> Option<String> {
        Some(format!("{}/{}/-/compare/{from}...{to}", self.repository.web_root, self.repository.slug()))
    }
}
