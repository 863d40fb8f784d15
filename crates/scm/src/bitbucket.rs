//! Bitbucket Cloud, API 2.0.

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

pub(crate) struct Bitbucket {
    api: ApiClient,
    repository: RemoteRepository,
}

#[derive(Deserialize)]
struct Page<T> {
    #[serde(default = "Vec::new")]
    values: Vec<T>,
    #[serde(default)]
    next: Option<Url>,
}

#[derive(Deserialize)]
struct PullAnswer {
    id: u64,
    state: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    description: Option<String>,
    links: Links,
    source: SideAnswer,
    destination: SideAnswer,
    #[serde(default)]
    merge_commit: Option<CommitAnswer>,
    #[serde(default)]
    closed_by: Option<UserAnswer>,
    #[serde(default)]
    updated_on: Option<Timestamp>,
    #[serde(default)]
    draft: bool,
    #[serde(default)]
    participants: Vec<Participant>,
}

#[derive(Deserialize)]
struct Links {
    html: Href,
}

#[derive(Deserialize)]
struct Href {
    href: String,
}

#[derive(Deserialize)]
struct SideAnswer {
    branch: BranchAnswer,
    #[serde(default)]
    commit: Option<CommitAnswer>,
}

#[derive(Deserialize)]
struct BranchAnswer {
    name: String,
}

#[derive(Deserialize)]
struct CommitAnswer {
    hash: String,
}

#[derive(Deserialize)]
struct UserAnswer {
    #[serde(default)]
    nickname: Option<String>,
    #[serde(default)]
    display_name: Option<String>,
}

#[derive(Deserialize)]
struct Participant {
    user: UserAnswer,
    #[serde(default)]
    approved: bool,
    #[serde(default)]
    state: Option<String>,
}

#[derive(Deserialize)]
struct CommentAnswer {
    id: u64,
    content: ContentAnswer,
    #[serde(default)]
    deleted: bool,
}

#[derive(Deserialize)]
struct ContentAnswer {
    #[serde(default)]
    raw: String,
}

impl UserAnswer {
    fn name(self) -> Option<String> {
        self.nickname.or(self.display_name)
    }
}

/// The line that stands for labels, which Bitbucket does not have.
const LABELS: &str = "Labels: ";

impl From<PullAnswer> for PullRequest {
    fn from(answer: PullAnswer) -> Self {
        let state = match answer.state.as_str() {
            "OPEN" => PullRequestState::Open,
            "MERGED" => PullRequestState::Merged,
            _ => PullRequestState::Closed,
        };
        let is_merged = state == PullRequestState::Merged;
        let hash = |side: Option<CommitAnswer>| side.map(|commit| commit.hash);
        Self {
            number: answer.id,
            url: answer.links.html.href,
            state,
            title: answer.title,
            body: answer.description.unwrap_or_default(),
            head_branch: answer.source.branch.name,
            base_branch: answer.destination.branch.name,
            head_commit: hash(answer.source.commit).unwrap_or_default(),
            base_commit: hash(answer.destination.commit),
            merge_commit: hash(answer.merge_commit).filter(|_| is_merged),
            merged_at: answer.updated_on.filter(|_| is_merged),
            merged_by: answer.closed_by.filter(|_| is_merged).and_then(UserAnswer::name),
            mergeability: Mergeability::Unknown,
            is_draft: answer.draft,
        }
    }
}

impl Bitbucket {
    pub(crate) fn new(api: ApiClient, repository: RemoteRepository) -> Self {
        Self { api, repository }
    }

    fn url(&self, segments: &[&str], query: &[(&str, &str)]) -> Url {
        let path = ["repositories", self.repository.owner(), self.repository.name()];
        self.api.url(&[&path, segments].concat(), query)
    }

    fn pull_url(&self, number: u64, segments: &[&str]) -> Url {
        self.url(&[&["pullrequests", &number.to_string()], segments].concat(), &[])
    }

    async fn answer(&self, number: u64) -> Result<PullAnswer, ScmError> {
        self.api.get_settled(self.pull_url(number, &[]), &format!("read pull request {number}")).await
    }

    /// Reads every page of a list; the next one is named in the answer.
    async fn list<T: DeserializeOwned>(&self, url: Url, doing: &str) -> Result<Vec<T>, ScmError> {
        let origin = url.origin();
        let mut all = Vec::new();
        let mut next = Some(url);
        for _ in 0..100 {
            let Some(url) = next.filter(|next| next.origin() == origin) else { break };
            let page: Page<T> = self.api.get(url, doing).await?;
            all.extend(page.values);
            next = page.next;
        }
        Ok(all)
    }

    /// Looks for pull requests by a query.
    async fn query(&self, query: &str, states: &[&str], doing: &str) -> Result<Vec<PullAnswer>, ScmError> {
        let mut pairs = vec![("q", query), ("sort", "-id"), ("pagelen", "50")];
        pairs.extend(states.iter().map(|state| ("state", *state)));
        self.list(self.url(&["pullrequests"], &pairs), doing).await
    }

    async fn put(&self, number: u64, body: &Value) -> Result<(), ScmError> {
        let doing = format!("change pull request {number}");
        self.api.command(Method::PUT, self.pull_url(number, &[]), Some(body), &doing).await
    }
}

impl ScmProvider for Bitbucket {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Bitbucket
    }

    fn git_credential(&self) -> BoxFuture<'_, Result<GitCredential, ScmError>> {
        futures::future::ready(Ok(self.api.credential.for_git(ProviderKind::Bitbucket))).boxed()
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
            let quoted = |branch: &BranchName| branch.as_str().replace('"', "\\\"");
            let query = format!(
                "source.branch.name=\"{}\" AND destination.branch.name=\"{}\"",
                quoted(head),
                quoted(base)
            );
            let states = ["OPEN", "MERGED", "DECLINED", "SUPERSEDED"];
            let found = self.query(&query, &states, "look for a pull request").await?;
            Ok(found.into_iter().max_by_key(|pull| pull.id).map(PullRequest::from))
        }
        .boxed()
    }

    fn has_commits<'a>(
        &'a self,
        head: &'a BranchName,
        base: &'a BranchName,
    ) -> BoxFuture<'a, Result<bool, ScmError>> {
        async move {
            let query = [("include", head.as_str()), ("exclude", base.as_str()), ("pagelen", "1")];
            let page: Page<Value> =
                self.api.get_settled(self.url(&["commits"], &query), "compare two branches").await?;
            Ok(!page.values.is_empty())
        }
        .boxed()
    }

    fn create<'a>(&'a self, new: &'a NewPullRequest) -> BoxFuture<'a, Result<PullRequest, ScmError>> {
        async move {
            let body = json!({
                "title": new.title, "description": new.body, "draft": new.is_draft,
                "source": {"branch": {"name": new.head.as_str()}},
                "destination": {"branch": {"name": new.base.as_str()}},
                "close_source_branch": false,
            });
            let url = self.url(&["pullrequests"], &[]);
            let made: PullAnswer = self.api.change(Method::POST, url, &body, "open a pull request").await?;
            Ok(made.into())
        }
        .boxed()
    }

    fn get(&self, number: u64) -> BoxFuture<'_, Result<PullRequest, ScmError>> {
        async move { Ok(self.answer(number).await?.into()) }.boxed()
    }

    fn update<'a>(
        &'a self,
        number: u64,
        change: &'a PullRequestChange,
    ) -> BoxFuture<'a, Result<(), ScmError>> {
        async move {
            let now = self.answer(number).await?;
            // A change without a title is refused.
            let title = change.title.clone().unwrap_or(now.title);
            let mut body = json!({"title": title});
            if let Some(text) = &change.body {
                body["description"] = text.as_str().into();
            }
            self.put(number, &body).await
        }
        .boxed()
    }

    fn close(&self, number: u64) -> BoxFuture<'_, Result<(), ScmError>> {
        async move {
            if self.answer(number).await?.state != "OPEN" {
                return Ok(());
            }
            let url = self.pull_url(number, &["decline"]);
            self.api.command(Method::POST, url, None, &format!("decline pull request {number}")).await
        }
        .boxed()
    }

    fn reopen(&self, _: u64) -> BoxFuture<'_, Result<(), ScmError>> {
        let operation = "reopen pull requests";
        futures::future::ready(Err(ScmError::Unsupported { provider: ProviderKind::Bitbucket, operation }))
            .boxed()
    }

    fn merge<'a>(
        &'a self,
        number: u64,
        request: &'a MergeRequest,
    ) -> BoxFuture<'a, Result<MergeOutcome, ScmError>> {
        async move {
            let MergeRequest { expected, method, .. } = request;
            // The API takes no expected commit, so it is compared just before.
            let before = PullRequest::from(self.answer(number).await?);
            if before.state == PullRequestState::Open && !before.ends_in(expected) {
                return Ok(MergeOutcome::HeadMoved(before));
            }
            let method = match method {
                MergeMethod::Merge => "merge_commit",
                MergeMethod::Squash => "squash",
                MergeMethod::Rebase => "fast_forward",
            };
            let body = json!({"merge_strategy": method, "close_source_branch": false});
            let url = self.pull_url(number, &["merge"]);
            let doing = format!("merge pull request {number}");
            let asked = self.api.command(Method::POST, url, Some(&body), &doing).await;
            merge_outcome(asked, self.answer(number).await?.into(), expected)
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
            let comments: Vec<CommentAnswer> =
                self.list(self.pull_url(number, &["comments"]), &doing).await?;
            let ours =
                comments.iter().find(|comment| !comment.deleted && comment.content.raw.contains(marker));
            let content = json!({"content": {"raw": body}});
            let (method, url) = match ours {
                Some(comment) if comment.content.raw == body => return Ok(()),
                Some(comment) => (Method::PUT, self.pull_url(number, &["comments", &comment.id.to_string()])),
                None => (Method::POST, self.pull_url(number, &["comments"])),
            };
            self.api.command(method, url, Some(&content), &doing).await
        }
        .boxed()
    }

    fn add_labels<'a>(&'a self, number: u64, labels: &'a [String]) -> BoxFuture<'a, Result<(), ScmError>> {
        async move {
            let now = self.answer(number).await?;
            let text = now.description.unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix(LABELS)).unwrap_or_default();
            let mut all: Vec<&str> = line.split(", ").filter(|label| !label.is_empty()).collect();
            let before = all.len();
            all.extend(
                labels.iter().map(String::as_str).filter(|label| !line.split(", ").any(|had| had == *label)),
            );
            if all.len() == before {
                return Ok(());
            }
            let others: Vec<&str> = text.lines().filter(|line| !line.starts_with(LABELS)).collect();
            let text = format!("{}\n\n{LABELS}{}", others.join("\n").trim_end(), all.join(", "));
            self.put(number, &json!({"title": now.title, "description": text})).await
        }
        .boxed()
    }

    fn request_reviews<'a>(&'a self, _: u64, _: &'a ReviewRequest) -> BoxFuture<'a, Result<(), ScmError>> {
        // Reviewers are account ids there, which nobody writes into a pipeline.
        let unsupported =
            ScmError::Unsupported { provider: ProviderKind::Bitbucket, operation: "ask for reviews by name" };
        futures::future::ready(Err(unsupported)).boxed()
    }

    fn reviews(&self, number: u64) -> BoxFuture<'_, Result<ReviewSummary, ScmError>> {
        async move {
            let mut summary = ReviewSummary::default();
            for participant in self.answer(number).await?.participants {
                let wants_changes = participant.state.as_deref() == Some("changes_requested");
                let Some(name) = participant.user.name() else { continue };
                if participant.approved {
                    summary.approvers.push(name);
                } else if wants_changes {
                    summary.changes_requested.push(name);
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
                CheckState::Pending => "INPROGRESS",
                CheckState::Success => "SUCCESSFUL",
                CheckState::Failure | CheckState::Error => "FAILED",
            };
            // An address is required, and a key has at most forty characters.
            let url = check.url.clone().unwrap_or_else(|| self.repository.web_root.clone());
            let key: String = check.context.chars().take(40).collect();
            let body = json!({
                "state": state, "key": key, "name": check.context, "url": url,
                "description": check.short_description(),
            });
            let url = self.url(&["commit", commit.as_str(), "statuses", "build"], &[]);
            self.api.command(Method::POST, url, Some(&body), "set a commit status").await
        }
        .boxed()
    }

    fn delete_branch<'a>(&'a self, branch: &'a BranchName) -> BoxFuture<'a, Result<(), ScmError>> {
        async move {
            let parts: Vec<&str> =
                ["refs", "branches"].into_iter().chain(branch.as_str().split('/')).collect();
            already_gone(
                self.api.command(Method::DELETE, self.url(&parts, &[]), None, "delete a branch").await,
            )
        }
        .boxed()
    }

    fn list_open<'a>(&'a self, label: &'a str) -> BoxFuture<'a, Result<Vec<PullRequest>, ScmError>> {
        async move {
            let found = self.query("state=\"OPEN\"", &["OPEN"], "list pull requests").await?;
            let has_label = |pull: &PullRequest| {
                let lines = pull.body.lines().filter_map(|line| line.strip_prefix(LABELS));
                lines.flat_map(|line| line.split(", ")).any(|known| known == label)
            };
            Ok(found.into_iter().map(PullRequest::from).filter(has_label).collect())
        }
        .boxed()
    }

    fn compare_url(&self, from: &CommitId, to: &CommitId) -> Option<String> {
        Some(format!("{}/{}/branches/compare/{to}..{from}", self.repository.web_root, self.repository.slug()))
    }
}
