//! Walks through the life of pull requests on a real Gitea: `gitea ROOT USER PASSWORD` with `GITEA_TOKEN` set.
//! Prints a line a case.
#![allow(clippy::print_stdout)]

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use http_body_util::{BodyExt as _, Collected, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use slipway_event::{Redactor, SystemClock};
use slipway_git::{
    BranchLease, BranchName, CacheOptions, CheckoutBase, CheckoutRequest, CommitId, CommitIdentity,
    CommitOutcome, CommitRequest, Git, GitCredential, GitError, LandRequest, OperationId, ReplayPolicy,
    Repository, RepositoryAddress, RepositoryCache, Trailer, TransportPolicy, TreePath,
};
use slipway_http::{
    Authorization, ClientOptions, HeaderValue, HttpClient, HttpRequest, Login, Method, header, parse_url,
};
use slipway_scm::{
    CheckState, CommitCheck, ConnectOptions, MergeMethod, MergeOutcome, MergeRequest, NewPullRequest,
    OpenOutcome, ProviderKind, PullRequestState, RemoteRepository, ScmConnections, ScmCredential,
    ScmProvider, WebhookEvent, WebhookHeaders, WebhookOutcome, WebhookReceiver, WebhookSecret,
    open_pull_request,
};
use tokio_util::sync::CancellationToken;

type Failure = Box<dyn std::error::Error>;

const SECRET: &str = "hook-secret";
const MARKER: &str = "<!-- kardinal:{\"step\":\"u1\"} -->";

/// A delivery as it arrived.
type Delivery = (Vec<(String, String)>, Vec<u8>);

struct Walk {
    root: String,
    user: String,
    password: String,
    token: String,
    http: HttpClient,
    place: tempfile::TempDir,
}

fn merge(expected: &CommitId) -> MergeRequest {
    MergeRequest { expected: expected.clone(), method: MergeMethod::Merge, trailers: String::new() }
}

/// Prints how a case went, and ends the walk if it went wrong.
fn case(name: &str, is_right: bool, found: impl std::fmt::Debug) -> Result<(), Failure> {
    if is_right {
        println!("{name}: ok");
        return Ok(());
    }
    Err(format!("{name}: {found:?}").into())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let (Some(root), Some(user), Some(password)) = (args.next(), args.next(), args.next()) else {
        return Err("usage: gitea ROOT USER PASSWORD".into());
    };
    let token = std::env::var("GITEA_TOKEN")?;
    let http = HttpClient::new(&ClientOptions::default())?;
    let walk = Walk { root, user, password, token, http, place: tempfile::tempdir()? };
    let deliveries = Arc::new(Mutex::new(Vec::new()));
    let hook = listen(deliveries.clone()).await?;
    walk.prepare(&hook).await?;
    let provider = walk.provider(&walk.token)?;
    walk.access(&*provider).await?;
    let commit = walk.push_branch(&*provider, "kardinal/app/prod/1", "2\n").await?;
    let number = walk.open(&*provider).await?;
    walk.decorate(&*provider, number, &commit).await?;
    walk.review(&*provider, number).await?;
    walk.merge(&*provider, number, &commit).await?;
    walk.close(&*provider).await?;
    walk.webhooks(&deliveries, number).await?;
    walk.contend(&*provider).await
}

/// Takes deliveries, and says where.
async fn listen(deliveries: Arc<Mutex<Vec<Delivery>>>) -> Result<String, Failure> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = format!("http://{}/webhooks", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let deliveries = deliveries.clone();
            let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                let deliveries = deliveries.clone();
                async move {
                    let (head, body) = request.into_parts();
                    let body = body.collect().await.map(Collected::to_bytes).unwrap_or_default().to_vec();
                    let text = |value: &HeaderValue| value.to_str().unwrap_or_default().to_owned();
                    let headers =
                        head.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
                    if let Ok(mut deliveries) = deliveries.lock() {
                        deliveries.push((headers, body));
                    }
                    Ok::<_, std::convert::Infallible>(hyper::Response::new(Full::new(Bytes::new())))
                }
            });
            tokio::spawn(
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
            );
        }
    });
    Ok(address)
}

impl Walk {
    /// Asks Gitea for what no provider does.
    async fn ask(
        &self,
        method: Method,
        path: &str,
        login: Option<&Login>,
        body: &Value,
    ) -> Result<Value, Failure> {
        let mut request = HttpRequest::new(method, parse_url(&format!("{}/api/v1/{path}", self.root))?);
        let origin = request.url.origin();
        request.authorization = Some(match login {
            Some(login) => Authorization::from_login(login, origin)?,
            None => {
                Authorization::from_header(header::AUTHORIZATION, &format!("token {}", self.token), origin)?
            }
        });
        request.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request.content = Some(body.to_string().into_bytes());
        let answer = self.http.send_request(request).await?;
        let status = answer.status_code();
        let body = answer.read_body(1 << 20).await?;
        if !status.is_success() {
            return Err(format!("{path}: {status}: {}", String::from_utf8_lossy(&body)).into());
        }
        Ok(serde_json::from_slice(&body).unwrap_or_default())
    }

    async fn prepare(&self, hook: &str) -> Result<(), Failure> {
        let repository = json!({"name": "app", "auto_init": true, "default_branch": "main"});
        self.ask(Method::POST, "user/repos", None, &repository).await?;
        let hook = json!({
            "type": "gitea", "active": true, "events": ["pull_request", "pull_request_review"],
            "config": {"url": hook, "content_type": "json", "secret": SECRET},
        });
        self.ask(Method::POST, &format!("repos/{}/app/hooks", self.user), None, &hook).await?;
        let reviewer = json!({
            "username": "reviewer", "password": self.password, "email": "reviewer@example.com",
            "must_change_password": false,
        });
        self.ask(Method::POST, "admin/users", None, &reviewer).await?;
        let path = format!("repos/{}/app/collaborators/reviewer", self.user);
        self.ask(Method::PUT, &path, None, &json!({"permission": "write"})).await.map(drop)
    }

    fn address(&self) -> Result<RepositoryAddress, Failure> {
        Ok(RepositoryAddress::parse(
            &format!("{}/{}/app.git", self.root, self.user),
            TransportPolicy::Network,
        )?)
    }

    fn provider(&self, token: &str) -> Result<Arc<dyn ScmProvider>, Failure> {
        let remote = RemoteRepository::new(&self.address()?, Some(ProviderKind::Gitea), None)?;
        let connections = ScmConnections::new(Arc::new(SystemClock), Redactor::new());
        let credential = ScmCredential::Token(token.to_owned().into());
        Ok(connections.connect(remote, credential, &ConnectOptions::default())?)
    }

    fn repository(&self, cache: &str, credential: GitCredential) -> Result<Repository, Failure> {
        let cache = RepositoryCache::open(
            self.place.path().join(cache),
            CacheOptions::default(),
            Arc::new(Git::default()),
            Arc::new(SystemClock),
            CancellationToken::new(),
        )?;
        Ok(cache.repository(self.address()?, credential))
    }

    async fn access(&self, provider: &dyn ScmProvider) -> Result<(), Failure> {
        let access = provider.check_access().await?;
        case("a token that may push is told so", access.can_push == Some(true), access)?;
        let denied = self.provider("0000000000000000000000000000000000000000")?.check_access().await;
        case("a wrong token is denied by the API", denied.is_err(), denied)?;
        let password = "0000000000000000000000000000000000000000";
        let wrong = GitCredential::Login { user: "git".to_owned(), password: password.to_owned().into() };
        let denied = self.repository("wrong", wrong)?.fetch(&branch("main")?).await;
        let is_right = matches!(&denied, Err(error @ GitError::AccessDenied { .. }) if !error.to_string().contains(password));
        case("a wrong token is denied by Git", is_right, denied)
    }

    async fn push_branch(
        &self,
        provider: &dyn ScmProvider,
        name: &str,
        text: &str,
    ) -> Result<CommitId, Failure> {
        let repository = self.repository("cache", provider.git_credential().await?)?;
        let request = CheckoutRequest {
            operation: OperationId::parse("step-1")?,
            base: CheckoutBase::Branch(branch("main")?),
            paths: vec![TreePath::parse("environments/prod")?],
        };
        let tree = repository.check_out(&request).await?;
        write(tree.directory(), "environments/prod/tag", text)?;
        let outcome = tree.commit(&commit("Promote app", "environments/prod")?).await?;
        let CommitOutcome::Committed(made) = outcome else { return Err("nothing to commit".into()) };
        tree.push(&made, &branch(name)?, &BranchLease::Absent).await?;
        let there = repository.remote_head(&branch(name)?).await?;
        case(&format!("a commit is pushed to {name}"), there.as_ref() == Some(&made), there)?;
        Ok(made)
    }

    async fn open(&self, provider: &dyn ScmProvider) -> Result<u64, Failure> {
        let new = new("kardinal/app/prod/1")?;
        let opened = open_pull_request(provider, &new, MARKER).await?;
        let OpenOutcome::Created(made) = opened else { return Err(format!("{opened:?}").into()) };
        case("a pull request is opened", made.state == PullRequestState::Open, &made)?;
        let changed = NewPullRequest { body: format!("{MARKER}\nanother"), ..new };
        let again = open_pull_request(provider, &changed, MARKER).await?;
        let is_same = matches!(&again, OpenOutcome::Found(found) if found.number == made.number);
        case("opening it again finds it", is_same, again)?;
        let now = provider.get(made.number).await?;
        case("its text is brought up to date", now.body == changed.body, now)?;
        self.push_same(provider).await?;
        let nothing = open_pull_request(provider, &self::new("same")?, MARKER).await?;
        case("a branch without commits gets none", nothing == OpenOutcome::NothingToMerge, nothing)?;
        Ok(made.number)
    }

    /// A branch that is where `main` is.
    async fn push_same(&self, provider: &dyn ScmProvider) -> Result<(), Failure> {
        let repository = self.repository("cache", provider.git_credential().await?)?;
        let request = CheckoutRequest {
            operation: OperationId::parse("step-2")?,
            base: CheckoutBase::Branch(branch("main")?),
            paths: Vec::new(),
        };
        let tree = repository.check_out(&request).await?;
        tree.push(tree.base(), &branch("same")?, &BranchLease::Absent).await?;
        Ok(())
    }

    async fn decorate(
        &self,
        provider: &dyn ScmProvider,
        number: u64,
        head: &CommitId,
    ) -> Result<(), Failure> {
        let labels = ["kardinal".to_owned(), "kardinal/promotion".to_owned()];
        for _ in 0..2 {
            provider.add_labels(number, &labels).await?;
        }
        let listed = provider.list_open("kardinal/promotion").await?;
        case("labels are added and found", listed.len() == 1, listed)?;
        let marker = "<!-- kardinal:gates -->";
        for text in ["first", "second"] {
            provider.upsert_comment(number, marker, &format!("{marker}\n{text}")).await?;
        }
        let path = format!("repos/{}/app/issues/{number}/comments", self.user);
        let comments = self.ask(Method::GET, &path, None, &Value::Null).await?;
        let texts: Vec<&Value> = comments.as_array().into_iter().flatten().map(|one| &one["body"]).collect();
        case("one comment is edited", texts == [&json!(format!("{marker}\nsecond"))], texts)?;
        let check = CommitCheck {
            context: "kardinal/gates".to_owned(),
            state: CheckState::Success,
            url: Some("https://console.example.com".to_owned()),
            description: "all gates pass".to_owned(),
        };
        provider.set_check(head, &check).await?;
        let path = format!("repos/{}/app/commits/{head}/status", self.user);
        let status = self.ask(Method::GET, &path, None, &Value::Null).await?;
        case("a commit status is set", status["statuses"][0]["context"] == "kardinal/gates", status)
    }

    async fn review(&self, provider: &dyn ScmProvider, number: u64) -> Result<(), Failure> {
        let login = Login { username: "reviewer".to_owned(), password: self.password.clone() };
        let path = format!("repos/{}/app/pulls/{number}/reviews", self.user);
        for (event, body) in [("REQUEST_CHANGES", "no"), ("APPROVED", "yes")] {
            self.ask(Method::POST, &path, Some(&login), &json!({"event": event, "body": body})).await?;
        }
        let reviews = provider.reviews(number).await?;
        let is_right = reviews.approvers == ["reviewer"] && reviews.changes_requested.is_empty();
        case("the last word of a reviewer counts", is_right, reviews)
    }

    async fn merge(&self, provider: &dyn ScmProvider, number: u64, head: &CommitId) -> Result<(), Failure> {
        let other = CommitId::parse(&"9".repeat(40))?;
        let moved = provider.merge(number, &merge(&other)).await?;
        case("another head is not merged", matches!(moved, MergeOutcome::HeadMoved(_)), moved)?;
        // Gitea looks for conflicts on its own time.
        let mut outcome = provider.merge(number, &merge(head)).await?;
        for _ in 0..100 {
            if !matches!(outcome, MergeOutcome::NotReady(_)) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            outcome = provider.merge(number, &merge(head)).await?;
        }
        let MergeOutcome::Merged(merged) = outcome else { return Err(format!("{outcome:?}").into()) };
        case("the expected head is merged", merged.merged_by.as_deref() == Some(&self.user), &merged)?;
        let repository = self.repository("cache", provider.git_credential().await?)?;
        let tip = repository.fetch(&branch("main")?).await?;
        case("the merge commit is on main", merged.merge_commit.as_deref() == Some(tip.as_str()), &merged)?;
        let contains = repository.contains(&branch("main")?, head).await?;
        case("main contains the promoted commit", contains, contains)?;
        let again = open_pull_request(provider, &new("kardinal/app/prod/1")?, MARKER).await?;
        case("a merged pull request is not opened again", matches!(again, OpenOutcome::Merged(_)), again)
    }

    async fn close(&self, provider: &dyn ScmProvider) -> Result<(), Failure> {
        self.push_branch(provider, "kardinal/app/prod/2", "3\n").await?;
        let wanted = new("kardinal/app/prod/2")?;
        let opened = open_pull_request(provider, &wanted, MARKER).await?;
        let OpenOutcome::Created(made) = opened else { return Err(format!("{opened:?}").into()) };
        provider.close(made.number).await?;
        let closed = open_pull_request(provider, &wanted, MARKER).await?;
        case("a closed pull request is told", matches!(closed, OpenOutcome::Closed(_)), closed)?;
        provider.reopen(made.number).await?;
        let now = provider.get(made.number).await?;
        case("it can be opened again", now.state == PullRequestState::Open, now)?;
        provider.close(made.number).await?;
        for _ in 0..2 {
            provider.delete_branch(&wanted.head).await?;
        }
        let repository = self.repository("cache", provider.git_credential().await?)?;
        let gone = repository.remote_head(&wanted.head).await?;
        case("a branch is deleted, twice", gone.is_none(), gone)
    }

    async fn webhooks(&self, deliveries: &Mutex<Vec<Delivery>>, number: u64) -> Result<(), Failure> {
        let receiver = WebhookReceiver::new(Arc::new(SystemClock));
        let secret = WebhookSecret::new(SECRET);
        let take = |delivery: &Delivery, secret: &WebhookSecret| {
            let headers = WebhookHeaders::from_iter(delivery.0.clone());
            receiver.accept(ProviderKind::Gitea, &headers, &delivery.1, Some(secret))
        };
        let repository = format!("{}/app", self.user);
        let wanted = WebhookOutcome::Event(WebhookEvent::PullRequest { repository, number });
        let mut heard = Vec::new();
        for _ in 0..300 {
            let arrived = std::mem::take(&mut *deliveries.lock().map_err(|_| "poisoned")?);
            heard.extend(arrived);
            let is_merge = |delivery: &&Delivery| {
                let body: Value = serde_json::from_slice(&delivery.1).unwrap_or_default();
                body["action"] == "closed" && body["pull_request"]["merged"] == true
            };
            if let Some(delivery) = heard.iter().find(is_merge) {
                let forged = take(delivery, &WebhookSecret::new("guessed"));
                case("a delivery with a wrong signature is refused", forged.is_err(), forged)?;
                let taken = take(delivery, &secret)?;
                case("the delivery of the merge is verified", taken == wanted, taken)?;
                let repeated = take(delivery, &secret)?;
                case(
                    "the same delivery again changes nothing",
                    repeated == WebhookOutcome::Repeated,
                    repeated,
                )?;
                let others = heard.iter().filter(|other| other.1 != delivery.1);
                let bad = others.filter(|other| take(other, &secret).is_err()).count();
                return case("every delivery is verified", bad == 0, bad);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Err(format!("no delivery of the merge among {}", heard.len()).into())
    }

    /// Ten pipelines push to one branch at once, each with a cache of its own.
    async fn contend(&self, provider: &dyn ScmProvider) -> Result<(), Failure> {
        let credential = provider.git_credential().await?;
        let main = branch("main")?;
        let before = self.repository("cache", credential.clone())?.fetch(&main).await?;
        let mut repositories = Vec::new();
        for number in 0..10 {
            repositories.push(self.repository(&format!("cache-{number}"), credential.clone())?);
        }
        let landings = repositories.iter().enumerate().map(|(number, repository)| async move {
            let path = format!("environments/app-{number}");
            let request = LandRequest {
                operation: OperationId::parse(&format!("land-{number}"))?,
                branch: branch("main")?,
                commit: commit(&format!("Promote app-{number}"), &path)?,
                mark: Trailer::new("Kardinal-Step", &format!("u{number}/1"))?,
                paths: vec![TreePath::parse(&path)?],
                replay: ReplayPolicy { attempts: 60, ..ReplayPolicy::default() },
            };
            let file = format!("{path}/tag");
            let landing = repository.land(&request, |tree| {
                let written = write(tree.directory(), &file, "2\n");
                async move { written }.boxed()
            });
            landing.await?;
            Ok::<(), Failure>(())
        });
        let landed = futures::future::join_all(landings).await;
        let failed: Vec<String> = landed.into_iter().filter_map(Result::err).map(|e| e.to_string()).collect();
        case("ten pipelines land on one branch", failed.is_empty(), failed)?;
        let repository = self.repository("cache", credential)?;
        let tip = repository.fetch(&main).await?;
        let files = repository.changed_files(&main, &before, &tip).await?;
        case("no edit is lost", files.len() == 10, files)
    }
}

fn branch(name: &str) -> Result<BranchName, Failure> {
    Ok(BranchName::parse(name)?)
}

fn new(head: &str) -> Result<NewPullRequest, Failure> {
    Ok(NewPullRequest {
        title: "[kardinal] Promote app to prod".to_owned(),
        body: format!("{MARKER}\nbody"),
        head: branch(head)?,
        base: branch("main")?,
        is_draft: false,
    })
}

fn commit(subject: &str, path: &str) -> Result<CommitRequest, Failure> {
    Ok(CommitRequest {
        subject: subject.to_owned(),
        body: String::new(),
        trailers: Vec::new(),
        author: CommitIdentity::new("Promoter", "promoter@example.com"),
        committer: CommitIdentity::new("Promoter", "promoter@example.com"),
        time: "2026-11-17T05:00:00Z".parse()?,
        paths: vec![TreePath::parse(path)?],
        signing: None,
    })
}

fn write(directory: &Path, name: &str, text: &str) -> std::io::Result<()> {
    let file = directory.join(name);
    std::fs::create_dir_all(file.parent().unwrap_or(directory))?;
    std::fs::write(file, text)
}
