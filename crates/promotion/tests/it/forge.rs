//! A forge: a bare repository served over HTTP by Git itself, and Gitea's API on top of it.
//!
//! Pull requests are computed from the repository: mergeable means that Git can merge them, merged means that the base has
//! a new commit. Requests no client of Gitea may send are violations.

use std::collections::{BTreeMap, VecDeque};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use data_encoding::BASE64;
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::effects::Effects;

pub(crate) const TOKEN: &str = "tok-3b1c9f0a77";
pub(crate) const WEBHOOK_SECRET: &str = "hook-9d2e41";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PullState {
    Open,
    Closed,
    Merged,
}

#[derive(Clone, Debug)]
pub(crate) struct Pull {
    pub(crate) number: u64,
    pub(crate) title: String,
    pub(crate) body: String,
    pub(crate) head: String,
    pub(crate) base: String,
    pub(crate) head_commit: String,
    pub(crate) state: PullState,
    pub(crate) merge_commit: Option<String>,
    pub(crate) merged_by: Option<String>,
    pub(crate) labels: Vec<String>,
    pub(crate) comments: Vec<(u64, String)>,
    pub(crate) approvers: Vec<String>,
    /// People and teams that were asked for a review.
    pub(crate) asked: Vec<String>,
}

impl Pull {
    fn note_merge(&mut self, commit: &str, by: &str) {
        self.state = PullState::Merged;
        self.merge_commit = Some(commit.to_owned());
        self.merged_by = Some(by.to_owned());
    }
}

/// What the server does wrong on purpose, and what it has seen.
#[derive(Default)]
pub(crate) struct ForgeState {
    pub(crate) pulls: Vec<Pull>,
    labels: Vec<String>,
    /// Commit, context and state, newest last.
    pub(crate) checks: Vec<(String, String, String)>,
    next_id: u64,
    /// Answers "not found" so often to a pull request that exists.
    pub(crate) hidden: u32,
    /// Statuses API requests are answered with before anything else.
    pub(crate) faults: VecDeque<u16>,
    /// Every API request is answered with this.
    pub(crate) outage: Option<u16>,
    /// The token may read only.
    pub(crate) is_read_only: bool,
    /// Is cut off in the middle of a merge: the commit is on the base, and the pull request stays open.
    pub(crate) loses_merges: bool,
    /// Can be told of a merge.
    pub(crate) allows_manual_merge: bool,
    /// Has not worked out yet whether pull requests can be merged: so many of its answers say that they cannot.
    pub(crate) undecided: u32,
    /// Refuses to open closed pull requests again.
    pub(crate) refuses_reopen: bool,
    pub(crate) requests: Vec<String>,
    pub(crate) violations: Vec<String>,
}

/// A running forge with one repository, `org/app`.
pub(crate) struct Forge {
    place: TempDir,
    pub(crate) root: String,
    pub(crate) state: Arc<Mutex<ForgeState>>,
    pub(crate) effects: Arc<Effects>,
}

/// Runs Git as a person would.
pub(crate) fn git(directory: &Path, args: &[&str]) -> Result<String, String> {
    let output = Command::new("git")
        .current_dir(directory)
        .args(["-c", "user.name=Human", "-c", "user.email=human@example.com", "-c", "commit.gpgSign=false"])
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .expect("git runs");
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

impl Forge {
    /// A forge whose `main` has these files.
    pub(crate) async fn start(files: &[(&str, &str)]) -> Self {
        let place = tempfile::tempdir().expect("a directory");
        git(place.path(), &["init", "-q", "--bare", "-b", "main", "org/app.git"]).expect("init");
        let repository = place.path().join("org/app.git");
        for (name, value) in [
            ("uploadpack.allowFilter", "true"),
            ("uploadpack.allowAnySHA1InWant", "true"),
            ("http.receivepack", "true"),
            ("receive.denyNonFastForwards", "false"),
        ] {
            git(&repository, &["config", name, value]).expect("config");
        }
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let root = format!("http://{}", listener.local_addr().expect("an address"));
        let state = Arc::new(Mutex::new(ForgeState { next_id: 1, ..ForgeState::default() }));
        let effects = Arc::new(Effects::default());
        let server = Server {
            projects: place.path().to_owned(),
            repository,
            state: state.clone(),
            effects: effects.clone(),
        };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = server.clone();
                let service = service_fn(move |request| server.clone().answer(request));
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        let forge = Self { place, root, state, effects };
        forge.person("main", "first", files);
        forge
    }

    pub(crate) fn repository(&self) -> PathBuf {
        self.place.path().join("org/app.git")
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/org/app.git", self.root)
    }

    /// A person clones, changes files and pushes to a branch; again if somebody was faster.
    pub(crate) fn person(&self, branch: &str, subject: &str, files: &[(&str, &str)]) -> String {
        let clone = tempfile::tempdir_in(self.place.path()).expect("a directory");
        let repository = self.repository();
        let remote = repository.to_str().expect("a path");
        git(clone.path(), &["init", "-q", "-b", "work", "."]).expect("init");
        let has_branch = git(clone.path(), &["fetch", "-q", remote, branch]).is_ok();
        if has_branch {
            git(clone.path(), &["reset", "-q", "--hard", "FETCH_HEAD"]).expect("reset");
        }
        for (name, content) in files {
            let path = clone.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            std::fs::write(path, content).expect("written");
        }
        git(clone.path(), &["add", "-A"]).expect("add");
        git(clone.path(), &["commit", "-q", "-m", subject]).expect("commit");
        for _ in 0..200 {
            if git(clone.path(), &["push", "-q", remote, &format!("HEAD:refs/heads/{branch}")]).is_ok() {
                return git(clone.path(), &["rev-parse", "HEAD"]).expect("a commit");
            }
            git(clone.path(), &["pull", "-q", "--rebase", remote, branch]).expect("rebased");
        }
        panic!("a person could not push");
    }

    /// A file on a branch.
    pub(crate) fn file(&self, branch: &str, path: &str) -> Option<String> {
        git(&self.repository(), &["show", &format!("{branch}:{path}")]).ok()
    }

    /// The subjects of a branch, newest first.
    pub(crate) fn subjects(&self, branch: &str) -> Vec<String> {
        let log = git(&self.repository(), &["log", "--format=%s", branch]).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    /// The commits of all branches whose subject says that they promote.
    pub(crate) fn promotion_commits(&self) -> usize {
        let log =
            git(&self.repository(), &["log", "--all", "--no-merges", "--format=%s"]).unwrap_or_default();
        log.lines().filter(|line| line.starts_with("[kardinal] ")).count()
    }

    pub(crate) fn branches(&self) -> Vec<String> {
        let list = git(&self.repository(), &["for-each-ref", "--format=%(refname:short)", "refs/heads"]);
        list.unwrap_or_default().lines().map(str::to_owned).collect()
    }

    pub(crate) fn pulls(&self) -> Vec<Pull> {
        self.state.lock().expect("not poisoned").pulls.clone()
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        self.state.lock().expect("not poisoned").violations.clone()
    }

    /// A reviewer approves and merges.
    pub(crate) fn merge(&self, number: u64, method: &str, by: &str) -> String {
        let repository = self.repository();
        let mut state = self.state.lock().expect("not poisoned");
        let pull = state.pulls.iter_mut().find(|pull| pull.number == number).expect("a pull request");
        pull.approvers.push(by.to_owned());
        merge_pull(&repository, pull, method, by).expect("can be merged")
    }

    /// A reviewer merges, and goes away before the server has written it down.
    pub(crate) fn merge_unnoted(&self, number: u64, method: &str) -> String {
        let repository = self.repository();
        let state = self.state.lock().expect("not poisoned");
        let pull = state.pulls.iter().find(|pull| pull.number == number).expect("a pull request");
        push_merge(&repository, pull, method, "").expect("can be merged")
    }

    pub(crate) fn close(&self, number: u64) {
        let mut state = self.state.lock().expect("not poisoned");
        let pull = state.pulls.iter_mut().find(|pull| pull.number == number).expect("a pull request");
        pull.state = PullState::Closed;
    }

    /// A pull request of another installation that works on the same repository.
    pub(crate) fn foreign_pull(&self, label: &str) -> u64 {
        let mut state = self.state.lock().expect("not poisoned");
        let number = state.pulls.iter().map(|pull| pull.number).max().unwrap_or(0) + 1;
        let body = "<!-- kardinal:{\"step\":\"theirs\",\"bundle\":\"app-9\",\"env\":\"prod\",\"v\":1,\"owner\":\"theirs\"} -->";
        let mut pull = state.pulls.first().cloned().expect("there is one");
        (pull.number, pull.body, pull.head) = (number, body.to_owned(), "kardinal/app/prod/9".to_owned());
        (pull.state, pull.labels) = (PullState::Open, vec!["kardinal".to_owned(), label.to_owned()]);
        state.pulls.push(pull);
        number
    }

    /// The last state of a check of a commit.
    pub(crate) fn check(&self, context: &str) -> Option<String> {
        let state = self.state.lock().expect("not poisoned");
        state.checks.iter().rev().find(|(_, known, _)| known == context).map(|(_, _, state)| state.clone())
    }
}

fn head_of(repository: &Path, branch: &str) -> Option<String> {
    git(repository, &["rev-parse", "--verify", "--quiet", &format!("refs/heads/{branch}")]).ok()
}

fn merged_tree(repository: &Path, base: &str, head: &str) -> Option<String> {
    let tree = git(repository, &["merge-tree", "--write-tree", base, head]).ok()?;
    tree.lines().next().map(str::to_owned)
}

/// Tells whether the history of a branch has a commit.
fn contains(repository: &Path, branch: &str, commit: &str) -> bool {
    git(repository, &["merge-base", "--is-ancestor", commit, &format!("refs/heads/{branch}")]).is_ok()
}

/// Puts a merge on the base. What is there already is squashed again, into a commit that changes nothing.
fn push_merge(repository: &Path, pull: &Pull, method: &str, message: &str) -> Option<String> {
    let base = head_of(repository, &pull.base)?;
    let head = head_of(repository, &pull.head)?;
    let tree = merged_tree(repository, &base, &head)?;
    let title = match method {
        "rebase" => git(repository, &["log", "-1", "--format=%B", &head]).ok()?,
        _ => format!("{} (#{})", pull.title, pull.number),
    };
    let mut args = vec!["commit-tree", &tree, "-p", &base, "-m", &title];
    if method == "merge" {
        args.splice(4..4, ["-p", &head]);
    }
    if !message.is_empty() {
        args.extend(["-m", message]);
    }
    let commit = git(repository, &args).ok()?;
    git(repository, &["update-ref", &format!("refs/heads/{}", pull.base), &commit, &base]).ok()?;
    Some(commit)
}

fn merge_pull(repository: &Path, pull: &mut Pull, method: &str, by: &str) -> Option<String> {
    let commit = push_merge(repository, pull, method, "")?;
    pull.head_commit = head_of(repository, &pull.head)?;
    pull.note_merge(&commit, by);
    Some(commit)
}

#[derive(Clone)]
struct Server {
    projects: PathBuf,
    repository: PathBuf,
    state: Arc<Mutex<ForgeState>>,
    effects: Arc<Effects>,
}

/// An answer of the API.
struct Reply(u16, Value);

type Answer = Result<hyper::Response<Full<Bytes>>, std::convert::Infallible>;

impl Server {
    async fn answer(self, request: hyper::Request<hyper::body::Incoming>) -> Answer {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let header = |name: &str| {
            head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
        };
        let (path, query) = (head.uri.path().to_owned(), head.uri.query().unwrap_or_default().to_owned());
        if path.starts_with("/org/app.git/") {
            let login = format!("Basic {}", BASE64.encode(format!("git:{TOKEN}").as_bytes()));
            if header("authorization") != login {
                let denied =
                    hyper::Response::builder().status(401).header("www-authenticate", "Basic realm=forge");
                return Ok(denied.body(Full::default()).expect("an answer"));
            }
            let is_push = path.ends_with("/git-receive-pack") && head.method == "POST";
            let server = self.clone();
            let call = GitRequest {
                method: head.method.to_string(),
                path,
                query,
                content_type: header("content-type"),
                protocol: header("git-protocol"),
                body: body.to_vec(),
                is_zipped: header("content-encoding") == "gzip",
            };
            let response = tokio::task::spawn_blocking(move || server.serve_git(&call)).await.expect("runs");
            if is_push {
                self.effects.happened("push").await;
            }
            return Ok(response);
        }
        let name = format!("{} {}", head.method, head.uri);
        let reply = {
            let mut state = self.state.lock().expect("not poisoned");
            state.requests.push(name.clone());
            let fault = state.outage.or_else(|| state.faults.pop_front());
            match fault {
                Some(status) => Reply(status, json!({"message": "trouble"})),
                None if header("authorization") != format!("token {TOKEN}") => {
                    Reply(401, json!({"message": "Bad credentials"}))
                }
                None => {
                    let content: Value = serde_json::from_slice(&body).unwrap_or_default();
                    let rest = path.strip_prefix("/api/v1/repos/org/app").unwrap_or("?");
                    let parts: Vec<String> =
                        rest.split('/').filter(|part| !part.is_empty()).map(decoded).collect();
                    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
                    match self.handle(&mut state, head.method.as_str(), &parts, &query, &content) {
                        Some(reply) => reply,
                        None => {
                            state.violations.push(format!("{name} {content}"));
                            Reply(501, json!({"message": "no such call"}))
                        }
                    }
                }
            }
        };
        if head.method != "GET" && reply.0 < 300 {
            self.effects.happened(&format!("scm {} {path}", head.method)).await;
        }
        let content = if reply.1.is_null() { Bytes::new() } else { Bytes::from(reply.1.to_string()) };
        Ok(hyper::Response::builder().status(reply.0).body(Full::new(content)).expect("an answer"))
    }

    fn shown(&self, pull: &mut Pull) -> Value {
        if pull.state != PullState::Merged
            && let Some(head) = head_of(&self.repository, &pull.head)
        {
            pull.head_commit = head;
        }
        let base = head_of(&self.repository, &pull.base).unwrap_or_default();
        let is_open = pull.state == PullState::Open;
        let is_merged = pull.state == PullState::Merged;
        let mergeable = is_open && merged_tree(&self.repository, &base, &pull.head_commit).is_some();
        let shared = git(&self.repository, &["merge-base", &base, &pull.head_commit]).unwrap_or_default();
        json!({
            "number": pull.number, "html_url": format!("https://forge.example/org/app/pulls/{}", pull.number),
            "state": if is_open { "open" } else { "closed" }, "title": pull.title, "body": pull.body,
            "draft": false, "merged": is_merged, "merged_at": is_merged.then_some("2026-04-10T12:30:00Z"),
            "merge_commit_sha": pull.merge_commit, "mergeable": mergeable, "merge_base": shared,
            "merged_by": pull.merged_by.as_ref().map(|login| json!({"login": login})),
            "labels": pull.labels.iter().map(|name| json!({"id": 1, "name": name})).collect::<Vec<_>>(),
            "head": {"ref": pull.head, "sha": pull.head_commit}, "base": {"ref": pull.base, "sha": base},
        })
    }

    fn handle(
        &self,
        state: &mut ForgeState,
        method: &str,
        parts: &[&str],
        query: &str,
        body: &Value,
    ) -> Option<Reply> {
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        let not_found = || Reply(404, json!({"message": "not found"}));
        let index = |state: &ForgeState, number: &str| {
            state.pulls.iter().position(|pull| pull.number.to_string() == number)
        };
        Some(match (method, parts) {
            ("GET", []) => {
                let permissions = json!({"pull": true, "push": !state.is_read_only});
                Reply(200, json!({"full_name": "org/app", "permissions": permissions}))
            }
            ("GET", ["pulls"]) => {
                let only_open = query.contains("state=open");
                let mut shown = Vec::new();
                for pull in &mut state.pulls {
                    if !only_open || pull.state == PullState::Open {
                        shown.push(self.shown(pull));
                    }
                }
                if query.contains("page=") && !query.contains("page=1") {
                    Reply(200, json!([]))
                } else {
                    Reply(200, json!(shown))
                }
            }
            ("POST", ["pulls"]) => {
                let (head, base) = (text("head"), text("base"));
                let head_commit = head_of(&self.repository, &head)?;
                head_of(&self.repository, &base)?;
                let is_same =
                    |pull: &&Pull| pull.state == PullState::Open && pull.head == head && pull.base == base;
                if state.pulls.iter().any(|pull| is_same(&pull)) {
                    return Some(Reply(409, json!({"message": "pull request already exists"})));
                }
                state.next_id += 1;
                let mut pull = Pull {
                    number: state.next_id,
                    title: text("title"),
                    body: text("body"),
                    head,
                    base,
                    head_commit,
                    state: PullState::Open,
                    merge_commit: None,
                    merged_by: None,
                    labels: Vec::new(),
                    asked: Vec::new(),
                    comments: Vec::new(),
                    approvers: Vec::new(),
                };
                let shown = self.shown(&mut pull);
                state.pulls.push(pull);
                Reply(201, shown)
            }
            ("GET", ["pulls", number]) => {
                if state.hidden > 0 {
                    state.hidden -= 1;
                    return Some(not_found());
                }
                match index(state, number) {
                    Some(at) => {
                        let mut shown = self.shown(&mut state.pulls[at]);
                        if state.undecided > 0 {
                            state.undecided -= 1;
                            shown["mergeable"] = json!(false);
                        }
                        Reply(200, shown)
                    }
                    None => not_found(),
                }
            }
            ("PATCH", ["pulls", number]) => {
                let at = index(state, number)?;
                match body["state"].as_str() {
                    Some("closed") => state.pulls[at].state = PullState::Closed,
                    Some("open") if state.refuses_reopen => {
                        return Some(Reply(422, json!({"message": "cannot be opened again"})));
                    }
                    Some("open") => state.pulls[at].state = PullState::Open,
                    Some(_) => return None,
                    None => {
                        state.pulls[at].title = text("title");
                        state.pulls[at].body = text("body");
                    }
                }
                Reply(201, self.shown(&mut state.pulls[at]))
            }
            ("POST", ["pulls", number, "merge"]) => {
                let at = index(state, number)?;
                let (loses_merges, allows_manual_merge) = (state.loses_merges, state.allows_manual_merge);
                let pull = &mut state.pulls[at];
                if text("Do") == "manually-merged" {
                    let commit = text("MergeCommitID");
                    return Some(match allows_manual_merge {
                        _ if pull.state != PullState::Open => not_found(),
                        false => Reply(405, json!({"message": "not an allowed merge style"})),
                        true if !contains(&self.repository, &pull.base, &commit) => {
                            Reply(409, json!({"message": "Wrong commit ID"}))
                        }
                        true => {
                            pull.note_merge(&commit, "slipway");
                            Reply(200, Value::Null)
                        }
                    });
                }
                let expected = text("head_commit_id");
                if head_of(&self.repository, &pull.head).as_deref() != Some(expected.as_str()) {
                    return Some(Reply(409, json!({"message": "head out of date"})));
                }
                if contains(&self.repository, &pull.base, &expected) {
                    return Some(Reply(405, json!({"message": "Please try again later"})));
                }
                let merged = push_merge(&self.repository, pull, &text("Do"), &text("MergeMessageField"));
                match merged {
                    Some(_) if loses_merges => Reply(502, json!({"message": "gone"})),
                    Some(commit) => {
                        pull.head_commit = expected;
                        pull.note_merge(&commit, "slipway");
                        Reply(200, Value::Null)
                    }
                    None => Reply(405, json!({"message": "not mergeable"})),
                }
            }
            ("GET", ["pulls", number, "reviews"]) => {
                let at = index(state, number)?;
                let show = |login: &String| json!({"user": {"login": login}, "state": "APPROVED", "dismissed": false, "stale": false});
                Reply(200, json!(state.pulls[at].approvers.iter().map(show).collect::<Vec<_>>()))
            }
            ("GET", ["compare", range @ ..]) => {
                let range = range.join("/");
                let (base, head) = range.split_once("...")?;
                let count =
                    git(&self.repository, &["rev-list", "--count", &format!("{base}..{head}")]).ok()?;
                Reply(200, json!({"total_commits": count.parse::<u64>().ok()?, "commits": []}))
            }
            ("GET", ["labels"]) => {
                let show = |(id, name): (usize, &String)| json!({"id": id, "name": name});
                Reply(200, json!(state.labels.iter().enumerate().map(show).collect::<Vec<_>>()))
            }
            ("POST", ["labels"]) => {
                state.labels.push(text("name"));
                Reply(201, json!({"id": state.labels.len() - 1, "name": text("name")}))
            }
            ("POST", ["pulls", number, "requested_reviewers"]) => {
                let names = |field: &str| {
                    serde_json::from_value::<Vec<String>>(body[field].clone()).unwrap_or_default()
                };
                let at = index(state, number)?;
                state.pulls[at].asked.extend(names("reviewers").into_iter().chain(names("team_reviewers")));
                Reply(201, json!([]))
            }
            ("POST", ["issues", number, "labels"]) => {
                let ids: Vec<usize> = serde_json::from_value(body["labels"].clone()).ok()?;
                let names: Option<Vec<String>> =
                    ids.iter().map(|id| state.labels.get(*id).cloned()).collect();
                let at = index(state, number)?;
                for name in names? {
                    if !state.pulls[at].labels.contains(&name) {
                        state.pulls[at].labels.push(name);
                    }
                }
                Reply(200, json!([]))
            }
            ("GET", ["issues", number, "comments"]) => {
                let at = index(state, number)?;
                let show = |(id, body): &(u64, String)| json!({"id": id, "body": body});
                Reply(200, json!(state.pulls[at].comments.iter().map(show).collect::<Vec<_>>()))
            }
            ("POST", ["issues", number, "comments"]) => {
                let at = index(state, number)?;
                state.next_id += 1;
                let id = state.next_id;
                state.pulls[at].comments.push((id, text("body")));
                Reply(201, json!({"id": id}))
            }
            ("PATCH", ["issues", "comments", id]) => {
                let mut all = state.pulls.iter_mut().flat_map(|pull| pull.comments.iter_mut());
                all.find(|(known, _)| known.to_string() == *id)?.1 = text("body");
                Reply(200, json!({}))
            }
            ("POST", ["statuses", commit]) => {
                if text("description").chars().count() > 140 {
                    return None;
                }
                state.checks.push(((*commit).to_owned(), text("context"), text("state")));
                Reply(201, json!({}))
            }
            ("DELETE", ["branches", parts @ ..]) => {
                let branch = parts.join("/");
                match head_of(&self.repository, &branch) {
                    Some(_) => {
                        git(&self.repository, &["update-ref", "-d", &format!("refs/heads/{branch}")]).ok()?;
                        Reply(204, Value::Null)
                    }
                    None => not_found(),
                }
            }
            _ => return None,
        })
    }

    /// Lets `git http-backend` answer.
    fn serve_git(&self, call: &GitRequest) -> hyper::Response<Full<Bytes>> {
        let mut command = Command::new("git");
        command
            .arg("http-backend")
            .env("GIT_PROJECT_ROOT", &self.projects)
            .env("GIT_HTTP_EXPORT_ALL", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("REQUEST_METHOD", &call.method)
            .env("PATH_INFO", &call.path)
            .env("QUERY_STRING", &call.query)
            .env("CONTENT_TYPE", &call.content_type)
            .env("GIT_PROTOCOL", &call.protocol)
            .env("REMOTE_USER", "git")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        if call.is_zipped {
            command.env("HTTP_CONTENT_ENCODING", "gzip");
        }
        let mut child = command.spawn().expect("git http-backend runs");
        let mut input = child.stdin.take().expect("is piped");
        let body = call.body.clone();
        let writer = std::thread::spawn(move || drop(input.write_all(&body)));
        let output = child.wait_with_output().expect("git http-backend ends");
        let _ = writer.join();
        let end =
            output.stdout.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(output.stdout.len());
        let head = String::from_utf8_lossy(&output.stdout[..end]).into_owned();
        let mut response = hyper::Response::builder();
        for line in head.lines() {
            match line.split_once(": ") {
                Some(("Status", status)) => {
                    response = response.status(status.split(' ').next().unwrap_or("500"));
                }
                Some((name, value)) => response = response.header(name, value),
                None => {}
            }
        }
        let content = output.stdout.get(end + 4..).unwrap_or_default().to_vec();
        response.body(Full::new(Bytes::from(content))).expect("an answer")
    }
}

struct GitRequest {
    method: String,
    path: String,
    query: String,
    content_type: String,
    protocol: String,
    body: Vec<u8>,
    is_zipped: bool,
}

fn decoded(part: &str) -> String {
    let pair = format!("x={}", part.replace('+', "%2B"));
    let values: BTreeMap<String, String> =
        url::form_urlencoded::parse(pair.as_bytes()).into_owned().collect();
    values.get("x").cloned().unwrap_or_default()
}
