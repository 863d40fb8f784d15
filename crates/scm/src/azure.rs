//! Azure DevOps, REST API 7.1.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use slipway_git::{BranchName, CommitId, GitCredential};
use slipway_http::Method;
use url::Url;

use crate::api::ApiClient;
use crate::error::ScmError;
use crate::github::{already_gone, merge_outcome};
use crate::provider::{
    AccessReport, CheckState, CommitCheck, MergeMethod, MergeOutcome, MergeRequest, Mergeability,
    NewPullRequest, PullRequest, PullRequestChange, PullRequestState, ReviewRequest, ReviewSummary,
    ScmProvider,
};
use crate::remote::{ProviderKind, RemoteRepository};

pub(crate) struct AzureDevOps {
    api: ApiClient,
    repository: RemoteRepository,
}

#[derive(Deserialize)]
struct List<T> {
    #[serde(default = "Vec::new")]
    value: Vec<T>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PullAnswer {
    pull_request_id: u64,
    status: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    description: Option<String>,
    source_ref_name: String,
    target_ref_name: String,
    #[serde(default)]
    last_merge_source_commit: Option<CommitAnswer>,
    #[serde(default)]
    last_merge_target_commit: Option<CommitAnswer>,
    #[serde(default)]
    last_merge_commit: Option<CommitAnswer>,
    #[serde(default)]
    merge_status: Option<String>,
    #[serde(default)]
    closed_date: Option<Timestamp>,
    #[serde(default)]
    closed_by: Option<Identity>,
    #[serde(default)]
    is_draft: bool,
    #[serde(default)]
    reviewers: Vec<Reviewer>,
    #[serde(default)]
    labels: Vec<LabelAnswer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CommitAnswer {
    commit_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Identity {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    unique_name: Option<String>,
    #[serde(default)]
    display_name: Option<String>,
}

#[derive(Deserialize)]
struct Reviewer {
    #[serde(flatten)]
    identity: Identity,
    #[serde(default)]
    vote: i32,
}

#[derive(Deserialize)]
struct LabelAnswer {
    name: String,
}

#[derive(Deserialize)]
struct ThreadAnswer {
    id: u64,
    #[serde(default)]
    comments: Vec<CommentAnswer>,
}

#[derive(Deserialize)]
struct CommentAnswer {
    id: u64,
    #[serde(default)]
    content: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DiffAnswer {
    ahead_count: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RefAnswer {
    name: String,
    object_id: String,
}

const VERSION: (&str, &str) = ("api-version", "7.1");
/// The longest description the server takes.
const LONGEST_BODY: usize = 4_000;
/// The most of a list that is asked for at once.
const PAGE: usize = 100;

impl Identity {
    fn name(self) -> Option<String> {
        self.unique_name.or(self.display_name)
    }
}

fn short(branch: &str) -> String {
    branch.strip_prefix("refs/heads/").unwrap_or(branch).to_owned()
}

/// The part of a text the server takes.
fn short_body(body: &str) -> String {
    if body.encode_utf16().count() <= LONGEST_BODY {
        return body.to_owned();
    }
    let mut length = 0;
    let fits = |c: &char| {
        length += c.len_utf16();
        length < LONGEST_BODY
    };
    body.chars().take_while(fits).chain(['…']).collect()
}

impl From<PullAnswer> for PullRequest {
    fn from(answer: PullAnswer) -> Self {
        let state = match answer.status.as_str() {
            "active" => PullRequestState::Open,
            "completed" => PullRequestState::Merged,
            _ => PullRequestState::Closed,
        };
        let is_merged = state == PullRequestState::Merged;
        let id = |commit: Option<CommitAnswer>| commit.map(|commit| commit.commit_id);
        Self {
            number: answer.pull_request_id,
            url: String::new(),
            state,
            title: answer.title,
            body: answer.description.unwrap_or_default(),
            head_branch: short(&answer.source_ref_name),
            base_branch: short(&answer.target_ref_name),
            head_commit: id(answer.last_merge_source_commit).unwrap_or_default(),
            base_commit: id(answer.last_merge_target_commit),
            merge_commit: id(answer.last_merge_commit).filter(|_| is_merged),
            merged_at: answer.closed_date.filter(|_| is_merged),
            merged_by: answer.closed_by.filter(|_| is_merged).and_then(Identity::name),
            mergeability: match answer.merge_status.as_deref() {
                Some("succeeded") => Mergeability::Possible,
                Some("conflicts") => Mergeability::Conflict,
                _ => Mergeability::Unknown,
            },
            is_draft: answer.is_draft,
        }
    }
}

impl AzureDevOps {
    pub(crate) fn new(api: ApiClient, repository: RemoteRepository) -> Self {
        Self { api, repository }
    }

    fn url(&self, segments: &[&str], query: &[(&str, &str)]) -> Url {
        let [organisation, project, name] = [0, 1, 2].map(|index| self.repository.path[index].as_str());
        let path = [organisation, project, "_apis", "git", "repositories", name];
        self.api.url(&[&path, segments].concat(), &[query, &[VERSION]].concat())
    }

    fn pull_url(&self, number: u64, segments: &[&str]) -> Url {
        self.url(&[&["pullrequests", &number.to_string()], segments].concat(), &[])
    }

    fn pull_request(&self, answer: PullAnswer) -> PullRequest {
        let [organisation, project, name] = [0, 1, 2].map(|index| self.repository.path[index].as_str());
        let number = answer.pull_request_id;
        let url =
            format!("{}/{organisation}/{project}/_git/{name}/pullrequest/{number}", self.repository.web_root);
        PullRequest { url, ..answer.into() }
    }

    async fn answer(&self, number: u64) -> Result<PullAnswer, ScmError> {
        self.api.get_settled(self.pull_url(number, &[]), &format!("read pull request {number}")).await
    }

    async fn patch(&self, number: u64, body: &Value) -> Result<(), ScmError> {
        let doing = format!("change pull request {number}");
        self.api.command(Method::PATCH, self.pull_url(number, &[]), Some(body), &doing).await
    }

    /// Reads a list piece by piece.
    async fn list<T: DeserializeOwned>(
        &self,
        segments: &[&str],
        query: &[(&str, &str)],
        doing: &str,
    ) -> Result<Vec<T>, ScmError> {
        let mut all = Vec::new();
        for _ in 0..100 {
            let (top, skip) = (PAGE.to_string(), all.len().to_string());
            let paged = [query, &[("$top", top.as_str()), ("$skip", skip.as_str())]].concat();
            let page: List<T> = self.api.get(self.url(segments, &paged), doing).await?;
            let count = page.value.len();
            all.extend(page.value);
            if count < PAGE {
                break;
            }
        }
        Ok(all)
    }
}

impl ScmProvider for AzureDevOps {
    fn kind(&self) -> ProviderKind {
        ProviderKind::AzureDevOps
    }

    fn git_credential(&self) -> BoxFuture<'_, Result<GitCredential, ScmError>> {
        futures::future::ready(Ok(self.api.credential.for_git(ProviderKind::AzureDevOps))).boxed()
    }

    fn check_access(&self) -> BoxFuture<'_, Result<AccessReport, ScmError>> {
        async move {
            let _: Value = self.api.get(self.url(&[], &[]), "look at the repository").await?;
            Ok(AccessReport::default())
        }
        .boxed()
    }

    fn find<'a>(
        &'a self,
        head: &'a BranchName,
        base: &'a BranchName,
    ) -> BoxFuture<'a, Result<Option<PullRequest>, ScmError>> {
        async move {
            let (head, base) = (format!("refs/heads/{head}"), format!("refs/heads/{base}"));
            let query = [
                ("searchCriteria.sourceRefName", head.as_str()),
                ("searchCriteria.targetRefName", base.as_str()),
                ("searchCriteria.status", "all"),
            ];
            let found: Vec<PullAnswer> =
                self.list(&["pullrequests"], &query, "look for a pull request").await?;
            let newest = found.into_iter().max_by_key(|pull| pull.pull_request_id);
            Ok(newest.map(|pull| self.pull_request(pull)))
        }
        .boxed()
    }

    fn has_commits<'a>(
        &'a self,
        head: &'a BranchName,
        base: &'a BranchName,
    ) -> BoxFuture<'a, Result<bool, ScmError>> {
        async move {
            let query = [
                ("baseVersion", base.as_str()),
                ("baseVersionType", "branch"),
                ("targetVersion", head.as_str()),
                ("targetVersionType", "branch"),
                ("$top", "1"),
            ];
            let url = self.url(&["diffs", "commits"], &query);
            let compared: DiffAnswer = self.api.get_settled(url, "compare two branches").await?;
            Ok(compared.ahead_count > 0)
        }
        .boxed()
    }

    fn create<'a>(&'a self, new: &'a NewPullRequest) -> BoxFuture<'a, Result<PullRequest, ScmError>> {
        async move {
            let body = json!({
                "sourceRefName": format!("refs/heads/{}", new.head),
                "targetRefName": format!("refs/heads/{}", new.base),
                "title": new.title, "description": short_body(&new.body), "isDraft": new.is_draft,
            });
            let url = self.url(&["pullrequests"], &[]);
            let made: PullAnswer = self.api.change(Method::POST, url, &body, "open a pull request").await?;
            Ok(self.pull_request(made))
        }
        .boxed()
    }

    fn get(&self, number: u64) -> BoxFuture<'_, Result<PullRequest, ScmError>> {
        async move { Ok(self.pull_request(self.answer(number).await?)) }.boxed()
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
                body["description"] = short_body(text).into();
            }
            self.patch(number, &body).await
        }
        .boxed()
    }

    fn close(&self, number: u64) -> BoxFuture<'_, Result<(), ScmError>> {
        async move { self.patch(number, &json!({"status": "abandoned"})).await }.boxed()
    }

    fn reopen(&self, number: u64) -> BoxFuture<'_, Result<(), ScmError>> {
        async move { self.patch(number, &json!({"status": "active"})).await }.boxed()
    }

    fn merge<'a>(
        &'a self,
        number: u64,
        request: &'a MergeRequest,
    ) -> BoxFuture<'a, Result<MergeOutcome, ScmError>> {
        async move {
            let MergeRequest { expected, method, .. } = request;
            let method = match method {
                MergeMethod::Merge => "noFastForward",
                MergeMethod::Squash => "squash",
                MergeMethod::Rebase => "rebase",
            };
            let body = json!({
                "status": "completed",
                "lastMergeSourceCommit": {"commitId": expected.as_str()},
                "completionOptions": {"mergeStrategy": method, "deleteSourceBranch": false},
            });
            let asked = self.patch(number, &body).await;
            merge_outcome(asked, self.pull_request(self.answer(number).await?), expected)
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
            let threads: List<ThreadAnswer> =
                self.api.get(self.pull_url(number, &["threads"]), &doing).await?;
            for thread in &threads.value {
                let ours =
                    |comment: &&CommentAnswer| comment.content.as_deref().is_some_and(|c| c.contains(marker));
                let Some(comment) = thread.comments.iter().find(ours) else { continue };
                if comment.content.as_deref() == Some(body) {
                    return Ok(());
                }
                let url = self.pull_url(
                    number,
                    &["threads", &thread.id.to_string(), "comments", &comment.id.to_string()],
                );
                return self.api.command(Method::PATCH, url, Some(&json!({"content": body})), &doing).await;
            }
            let thread = json!({
                "comments": [{"parentCommentId": 0, "content": body, "commentType": "text"}],
                "status": "closed",
            });
            self.api.command(Method::POST, self.pull_url(number, &["threads"]), Some(&thread), &doing).await
        }
        .boxed()
    }

    fn add_labels<'a>(&'a self, number: u64, labels: &'a [String]) -> BoxFuture<'a, Result<(), ScmError>> {
        async move {
            for label in labels {
                let url = self.pull_url(number, &["labels"]);
                let doing = format!("label pull request {number}");
                self.api.command(Method::POST, url, Some(&json!({"name": label})), &doing).await?;
            }
            Ok(())
        }
        .boxed()
    }

    fn request_reviews<'a>(
        &'a self,
        number: u64,
        wanted: &'a ReviewRequest,
    ) -> BoxFuture<'a, Result<(), ScmError>> {
        async move {
            // Teams are identities as well.
            for id in wanted.users.iter().chain(&wanted.teams) {
                let url = self.pull_url(number, &["reviewers", id]);
                let doing = format!("ask for reviews of {number}");
                let now = self.answer(number).await?;
                // Asking somebody again would take their vote away.
                if now.reviewers.iter().any(|known| known.identity.id.as_deref() == Some(id.as_str())) {
                    continue;
                }
                self.api.command(Method::PUT, url, Some(&json!({"id": id, "vote": 0})), &doing).await?;
            }
            Ok(())
        }
        .boxed()
    }

    fn reviews(&self, number: u64) -> BoxFuture<'_, Result<ReviewSummary, ScmError>> {
        async move {
            let mut summary = ReviewSummary::default();
            for reviewer in self.answer(number).await?.reviewers {
                let vote = reviewer.vote;
                let Some(name) = reviewer.identity.name() else { continue };
                match vote {
                    // Approved, with or without suggestions.
                    10 | 5 => summary.approvers.push(name),
                    // Rejected, or waiting for the author.
                    -10 | -5 => summary.changes_requested.push(name),
                    _ => {}
                }
            }
            Ok(summary)
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
                CheckState::Success => "succeeded",
                CheckState::Failure => "failed",
                CheckState::Error => "error",
            };
            let (genre, name) = check.context.split_once('/').unwrap_or(("slipway", &check.context));
            let mut body = json!({
                "state": state, "description": check.short_description(),
                "context": {"genre": genre, "name": name},
            });
            if let Some(url) = &check.url {
                body["targetUrl"] = url.as_str().into();
            }
            let url = self.url(&["commits", commit.as_str(), "statuses"], &[]);
            self.api.command(Method::POST, url, Some(&body), "set a commit status").await
        }
        .boxed()
    }

    fn delete_branch<'a>(&'a self, branch: &'a BranchName) -> BoxFuture<'a, Result<(), ScmError>> {
        async move {
            let doing = "delete a branch";
            let filter = format!("heads/{branch}");
            let refs: Vec<RefAnswer> = self.list(&["refs"], &[("filter", &filter)], doing).await?;
            let Some(found) = refs.into_iter().find(|one| one.name == format!("refs/{filter}")) else {
                return Ok(());
            };
            let nothing = "0".repeat(found.object_id.len());
            let body = json!([{"name": found.name, "oldObjectId": found.object_id, "newObjectId": nothing}]);
            already_gone(self.api.command(Method::POST, self.url(&["refs"], &[]), Some(&body), doing).await)
        }
        .boxed()
    }

    fn list_open<'a>(&'a self, label: &'a str) -> BoxFuture<'a, Result<Vec<PullRequest>, ScmError>> {
        async move {
            let query = [("searchCriteria.status", "active")];
            let found: Vec<PullAnswer> = self.list(&["pullrequests"], &query, "list pull requests").await?;
            let has_label = |pull: &PullAnswer| pull.labels.iter().any(|known| known.name == label);
            Ok(found.into_iter().filter(has_label).map(|pull| self.pull_request(pull)).collect())
        }
        .boxed()
    }

    fn compare_url(&self, from: &CommitId, to: &CommitId) -> Option<String> {
        let [organisation, project, name] = [0, 1, 2].map(|index| self.repository.path[index].as_str());
        let root = &self.repository.web_root;
        Some(format!(
            "{root}/{organisation}/{project}/_git/{name}/branchCompare?baseVersion=GC{from}&targetVersion=GC{to}"
        ))
    }
}
