//! What people do on a Gitea: repositories, files, reviews and merges.

use std::collections::BTreeMap;

use data_encoding::BASE64;
use serde_json::{Value, json};
use slipway_http::{
    Authorization, ClientOptions, HeaderValue, HttpClient, HttpRequest, Login, Method, header, parse_url,
};

use crate::Failure;

/// The one who approves.
pub(crate) const REVIEWER: &str = "reviewer";

#[derive(Clone)]
pub(crate) struct Gitea {
    pub(crate) root: String,
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) token: String,
    http: HttpClient,
}

impl Gitea {
    pub(crate) fn connect(
        root: String,
        user: String,
        password: String,
        token: String,
    ) -> Result<Self, Failure> {
        let http = HttpClient::new(&ClientOptions::default())?;
        Ok(Self { root, user, password, token, http })
    }

    /// Asks as the user, or as somebody else.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        login: Option<&Login>,
        body: Option<&Value>,
    ) -> Result<Value, Failure> {
        let mut request = HttpRequest::new(method, parse_url(&format!("{}/api/v1/{path}", self.root))?);
        let origin = request.url.origin();
        request.authorization = Some(match login {
            Some(login) => Authorization::from_login(login, origin)?,
            None => {
                Authorization::from_header(header::AUTHORIZATION, &format!("token {}", self.token), origin)?
            }
        });
        if let Some(body) = body {
            request.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            request.content = Some(body.to_string().into_bytes());
        }
        let answer = self.http.send_request(request).await?;
        let status = answer.status_code();
        let body = answer.read_body(1 << 20).await?;
        if !status.is_success() {
            return Err(format!("{path}: {status}: {}", String::from_utf8_lossy(&body)).into());
        }
        Ok(serde_json::from_slice(&body).unwrap_or_default())
    }

    /// Creates a repository with files on `main`, and a reviewer who may merge.
    pub(crate) async fn create_repository(
        &self,
        name: &str,
        files: &BTreeMap<String, String>,
    ) -> Result<(), Failure> {
        let repository = json!({"name": name, "auto_init": true, "default_branch": "main"});
        self.ask(Method::POST, "user/repos", None, Some(&repository)).await?;
        let files: Vec<Value> = files
            .iter()
            .map(|(path, text)| json!({"operation": "create", "path": path, "content": BASE64.encode(text.as_bytes())}))
            .collect();
        let commit = json!({"branch": "main", "message": "first", "files": files});
        let path = format!("repos/{}/{name}/contents", self.user);
        self.ask(Method::POST, &path, None, Some(&commit)).await?;
        let reviewer = json!({
            "username": REVIEWER, "password": self.password, "email": "reviewer@example.com",
            "must_change_password": false,
        });
        // There already when a second repository is created.
        let _ = self.ask(Method::POST, "admin/users", None, Some(&reviewer)).await;
        let path = format!("repos/{}/{name}/collaborators/{REVIEWER}", self.user);
        self.ask(Method::PUT, &path, None, Some(&json!({"permission": "write"}))).await.map(drop)
    }

    /// Lets the repository be told of merges, so that one Gitea was cut off in can be mended.
    pub(crate) async fn allow_manual_merge(&self, name: &str) -> Result<(), Failure> {
        let path = format!("repos/{}/{name}", self.user);
        self.ask(Method::PATCH, &path, None, Some(&json!({"allow_manual_merge": true}))).await.map(drop)
    }

    pub(crate) async fn create_hook(&self, name: &str, url: &str, secret: &str) -> Result<(), Failure> {
        let hook = json!({
            "type": "gitea", "active": true, "events": ["pull_request", "pull_request_review"],
            "config": {"url": url, "content_type": "json", "secret": secret},
        });
        let path = format!("repos/{}/{name}/hooks", self.user);
        self.ask(Method::POST, &path, None, Some(&hook)).await.map(drop)
    }

    /// A file of `main`, now.
    pub(crate) async fn file(&self, repository: &str, path: &str) -> Result<String, Failure> {
        let path = format!("repos/{}/{repository}/contents/{path}?ref=main", self.user);
        let answer = self.ask(Method::GET, &path, None, None).await?;
        let content: String = answer["content"].as_str().unwrap_or_default().split_whitespace().collect();
        Ok(String::from_utf8(BASE64.decode(content.as_bytes())?)?)
    }

    /// A file of a branch, now; nothing if it is not there.
    pub(crate) async fn file_on(&self, repository: &str, branch: &str, path: &str) -> Option<String> {
        let path = format!("repos/{}/{repository}/contents/{path}?ref={branch}", self.user);
        let answer = self.ask(Method::GET, &path, None, None).await.ok()?;
        let content: String = answer["content"].as_str()?.split_whitespace().collect();
        String::from_utf8(BASE64.decode(content.as_bytes()).ok()?).ok()
    }

    /// A person changes a file of `main`, again while others are faster; `None` deletes it.
    pub(crate) async fn write(
        &self,
        repository: &str,
        path: &str,
        text: Option<&str>,
    ) -> Result<(), Failure> {
        self.write_on(repository, "main", path, text).await
    }

    /// A person changes a file of a branch.
    pub(crate) async fn write_on(
        &self,
        repository: &str,
        branch: &str,
        path: &str,
        text: Option<&str>,
    ) -> Result<(), Failure> {
        let mut last = None;
        for _ in 0..50 {
            let at = format!("repos/{}/{repository}/contents/{path}", self.user);
            let known = self.ask(Method::GET, &format!("{at}?ref={branch}"), None, None).await.ok();
            let sha = known.as_ref().and_then(|answer| answer["sha"].as_str());
            let mut body = json!({"branch": branch, "message": format!("by hand: {path}")});
            if let Some(sha) = sha {
                body["sha"] = json!(sha);
            }
            let method = match (text, sha) {
                (Some(text), sha) => {
                    body["content"] = json!(BASE64.encode(text.as_bytes()));
                    if sha.is_some() { Method::PUT } else { Method::POST }
                }
                (None, _) => Method::DELETE,
            };
            match self.ask(method, &at, None, Some(&body)).await {
                Ok(_) => return Ok(()),
                Err(error) => last = Some(error),
            }
            tokio::time::sleep(crate::PAUSE).await;
        }
        Err(last.unwrap_or_else(|| "was not written".into()))
    }

    /// The first lines of the messages of a branch, newest first; all of them.
    pub(crate) async fn subjects(&self, repository: &str, branch: &str) -> Result<Vec<String>, Failure> {
        let mut all = Vec::new();
        for page in 1..100 {
            let path = format!(
                "repos/{}/{repository}/commits?sha={branch}&limit=50&page={page}&stat=false&files=false",
                self.user
            );
            let answer = self.ask(Method::GET, &path, None, None).await?;
            let commits = answer.as_array().cloned().unwrap_or_default();
            let is_last = commits.len() < 50;
            let subject = |commit: &Value| {
                let message = commit["commit"]["message"].as_str().unwrap_or_default();
                message.lines().next().unwrap_or_default().to_owned()
            };
            all.extend(commits.iter().map(subject));
            if is_last {
                break;
            }
        }
        Ok(all)
    }

    /// The names of all branches.
    pub(crate) async fn branches(&self, repository: &str) -> Result<Vec<String>, Failure> {
        let path = format!("repos/{}/{repository}/branches?limit=50", self.user);
        let answer = self.ask(Method::GET, &path, None, None).await?;
        let branches = answer.as_array().into_iter().flatten();
        Ok(branches.filter_map(|branch| branch["name"].as_str()).map(str::to_owned).collect())
    }

    /// A pull request, now.
    pub(crate) async fn pull_request(&self, repository: &str, number: u64) -> Result<Value, Failure> {
        let path = format!("repos/{}/{repository}/pulls/{number}", self.user);
        self.ask(Method::GET, &path, None, None).await
    }

    /// The texts of the comments on a pull request.
    pub(crate) async fn comments(&self, repository: &str, number: u64) -> Result<Vec<String>, Failure> {
        let path = format!("repos/{}/{repository}/issues/{number}/comments", self.user);
        let answer = self.ask(Method::GET, &path, None, None).await?;
        let comments = answer.as_array().into_iter().flatten();
        Ok(comments.filter_map(|comment| comment["body"].as_str()).map(str::to_owned).collect())
    }

    /// The commits of `main`, newest first.
    pub(crate) async fn commits(&self, repository: &str) -> Result<Vec<Value>, Failure> {
        let path =
            format!("repos/{}/{repository}/commits?sha=main&limit=50&stat=false&files=true", self.user);
        let answer = self.ask(Method::GET, &path, None, None).await?;
        Ok(answer.as_array().cloned().unwrap_or_default())
    }

    pub(crate) async fn pull_requests(&self, repository: &str, state: &str) -> Result<Vec<Value>, Failure> {
        let mut all = Vec::new();
        for page in 1..100 {
            let path = format!("repos/{}/{repository}/pulls?state={state}&limit=50&page={page}", self.user);
            let answer = self.ask(Method::GET, &path, None, None).await?;
            let found = answer.as_array().cloned().unwrap_or_default();
            let is_last = found.len() < 50;
            all.extend(found);
            if is_last {
                break;
            }
        }
        Ok(all)
    }

    /// Has `main` take nothing but what a person has approved.
    pub(crate) async fn require_approval(&self, repository: &str) -> Result<(), Failure> {
        let rule = json!({"rule_name": "main", "enable_push": true, "required_approvals": 1});
        let path = format!("repos/{}/{repository}/branch_protections", self.user);
        self.ask(Method::POST, &path, None, Some(&rule)).await.map(drop)
    }

    fn reviewer(&self) -> Login {
        Login { username: REVIEWER.to_owned(), password: self.password.clone() }
    }

    /// Approves, as the reviewer.
    pub(crate) async fn approve(&self, repository: &str, number: u64) -> Result<(), Failure> {
        let review = json!({"event": "APPROVED", "body": "fine"});
        let path = format!("repos/{}/{repository}/pulls/{number}/reviews", self.user);
        self.ask(Method::POST, &path, Some(&self.reviewer()), Some(&review)).await.map(drop)
    }

    /// Approves and merges, as the reviewer.
    pub(crate) async fn merge(&self, repository: &str, number: u64, how: &str) -> Result<(), Failure> {
        let login = self.reviewer();
        let pull = format!("repos/{}/{repository}/pulls/{number}", self.user);
        self.approve(repository, number).await?;
        // Gitea works out in the background whether a pull request can be merged.
        let merge = json!({"Do": how});
        let mut last = None;
        for _ in 0..100 {
            match self.ask(Method::POST, &format!("{pull}/merge"), Some(&login), Some(&merge)).await {
                Ok(_) => return Ok(()),
                Err(error) => last = Some(error),
            }
            tokio::time::sleep(crate::PAUSE).await;
        }
        Err(last.unwrap_or_else(|| "was not merged".into()))
    }
}

/// The names of the labels of a pull request.
pub(crate) fn labels(pull: &Value) -> Vec<&str> {
    let labels = pull["labels"].as_array().into_iter().flatten();
    labels.filter_map(|label| label["name"].as_str()).collect()
}
