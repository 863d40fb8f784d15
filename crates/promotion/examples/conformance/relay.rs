//! The way of a controller to the cluster and to Gitea: every change passes here, and a life ends right before or after one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Either, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use slipway_http::server::{
    AcceptedConnection, CertificateFiles, ServerOptions, TlsSettings, serve_connections,
};
use slipway_sandbox::{ApiService, ResponseBody};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use crate::Failure;

/// The side of a change a life ends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    /// The change does not happen.
    Before,
    /// The server is at it when its client goes away.
    During,
    /// The change happens, and nobody hears of it.
    After,
}

/// A change by its name, with a side.
pub(crate) type KillPoint = (String, Side);

/// The end of a life.
#[derive(Clone, Debug)]
pub(crate) enum Death {
    /// At the change of this number.
    At(usize, Side),
    /// At the first change that is one of these.
    AtOneOf(BTreeSet<KillPoint>),
    /// So long after the first merge was asked for, with the server at it.
    InMerge(Duration),
    Never,
}

/// A life under way.
struct Life {
    death: Death,
    seen: Vec<String>,
    /// Fires when it is to be killed; what is held back is let go when `over` fires.
    fatal: CancellationToken,
    over: CancellationToken,
    died_at: Option<KillPoint>,
}

#[derive(Default)]
struct State {
    life: Option<Life>,
    /// The environments of pull requests.
    pulls: BTreeMap<u64, String>,
    /// The time the last merge took that nobody cut off.
    merge_time: Option<Duration>,
    /// Changes Gitea was asked for and has perhaps not made yet.
    under_way: Vec<JoinHandle<()>>,
}

/// Two servers in front of the cluster and of Gitea.
pub(crate) struct Relay {
    /// The addresses to use instead of the real ones.
    pub(crate) cluster: String,
    pub(crate) gitea: String,
    state: Arc<Mutex<State>>,
    /// The directory of the certificate.
    _place: tempfile::TempDir,
    tasks: Vec<JoinHandle<()>>,
}

/// A life that has ended.
pub(crate) struct LifeRecord {
    /// The names of its changes, in order.
    pub(crate) changes: Vec<String>,
    /// The change it was killed at.
    pub(crate) died_at: Option<KillPoint>,
}

type Answer = Response<Either<Full<Bytes>, Either<ResponseBody, Incoming>>>;

/// What is to happen to a change.
struct Verdict {
    side: Option<Side>,
    /// The time a server is let work on a change that is cut off.
    delay: Duration,
    fatal: CancellationToken,
    over: CancellationToken,
}

impl Relay {
    pub(crate) async fn start(cluster: ApiService, gitea: &str) -> Result<Self, Failure> {
        let upstream = gitea.strip_prefix("http://").ok_or("Gitea is not served in the clear")?.to_owned();
        let state = Arc::<Mutex<State>>::default();
        let (for_cluster, for_gitea) =
            (TcpListener::bind("127.0.0.1:0").await?, TcpListener::bind("127.0.0.1:0").await?);
        let cluster_address = format!("https://{}", for_cluster.local_addr()?);
        let gitea_address = format!("http://{}", for_gitea.local_addr()?);
        let known = state.clone();
        let relay = move |request| {
            let (cluster, state) = (cluster.clone(), known.clone());
            async move { relay_to_cluster(cluster, &state, request).await }
        };
        let place = tempfile::tempdir()?;
        let certificate = Arc::new(make_certificate(place.path())?);
        let cluster_task = tokio::spawn(serve_securely(for_cluster, certificate, relay));
        let known = state.clone();
        let gitea_task = tokio::spawn(serve(for_gitea, move |request| {
            let (upstream, state) = (upstream.clone(), known.clone());
            async move { relay_to_gitea(&upstream, &state, request).await }
        }));
        Ok(Self {
            cluster: cluster_address,
            gitea: gitea_address,
            state,
            _place: place,
            tasks: vec![cluster_task, gitea_task],
        })
    }

    /// Begins a life; the token fires when it has to end.
    pub(crate) fn begin(&self, death: Death) -> CancellationToken {
        let (fatal, over) = (CancellationToken::new(), CancellationToken::new());
        let life = Life { death, seen: Vec::new(), fatal: fatal.clone(), over, died_at: None };
        lock(&self.state).life = Some(life);
        fatal
    }

    /// The time the last merge took.
    pub(crate) fn merge_time(&self) -> Option<Duration> {
        lock(&self.state).merge_time
    }

    /// Ends a life whose process is gone, once Gitea has made the changes that were asked for.
    pub(crate) async fn end(&self) -> LifeRecord {
        let under_way = std::mem::take(&mut lock(&self.state).under_way);
        for change in under_way {
            let _ = change.await;
        }
        match lock(&self.state).life.take() {
            Some(life) => {
                life.over.cancel();
                LifeRecord { changes: life.seen, died_at: life.died_at }
            }
            None => LifeRecord { changes: Vec::new(), died_at: None },
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve<F>(listener: TcpListener, relay: impl Fn(Request<Incoming>) -> F + Clone + Send + 'static)
where
    F: Future<Output = Result<Answer, Failure>> + Send + 'static,
{
    while let Ok((stream, _)) = listener.accept().await {
        let service = service_fn(relay.clone());
        let connection = hyper::server::conn::http1::Builder::new();
        tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
    }
}

/// Serves as API servers do: over TLS, with HTTP/2 for those who ask for it.
async fn serve_securely<F>(
    listener: TcpListener,
    tls: Arc<dyn TlsSettings>,
    relay: impl Fn(Request<Incoming>) -> F + Clone + Send + 'static,
) where
    F: Future<Output = Result<Answer, Failure>> + Send + 'static,
{
    let service = move |connection: AcceptedConnection| {
        connection.proof.mark_given();
        tower::service_fn(relay.clone())
    };
    let options = ServerOptions { tls: Some(tls), drain: None };
    let _ = serve_connections(listener, options, service, std::future::pending()).await;
}

/// Makes a certificate that nobody vouches for, with its files in a directory.
fn make_certificate(directory: &Path) -> Result<CertificateFiles, Failure> {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])?;
    let (certificate, key) = (directory.join("tls.crt"), directory.join("tls.key"));
    std::fs::write(&certificate, made.cert.pem())?;
    std::fs::write(&key, made.signing_key.serialize_pem())?;
    Ok(CertificateFiles::load(certificate, key)?)
}

/// Counts a change, and says whether the life ends with it.
fn judge(state: &Mutex<State>, name: String) -> Option<Verdict> {
    let mut state = lock(state);
    let life = state.life.as_mut()?;
    // Once a life is to end nothing more is counted; what programs it started do still happens.
    if life.died_at.is_some() {
        return None;
    }
    life.seen.push(name.clone());
    let side = match &life.death {
        Death::At(number, side) if life.seen.len() == *number => Some(*side),
        Death::AtOneOf(points) => points.iter().find(|(wanted, _)| *wanted == name).map(|(_, side)| *side),
        Death::InMerge(_) if name.starts_with("gitea POST pulls/#/merge") => Some(Side::During),
        Death::At(..) | Death::InMerge(_) | Death::Never => None,
    };
    let delay = match &life.death {
        Death::InMerge(delay) => *delay,
        Death::At(..) | Death::AtOneOf(_) | Death::Never => Duration::ZERO,
    };
    life.died_at = side.map(|side| (name, side));
    Some(Verdict { side, delay, fatal: life.fatal.clone(), over: life.over.clone() })
}

impl Verdict {
    /// Has the process killed, and keeps its request without an answer until it is gone.
    async fn hold(&self) -> Failure {
        self.fatal.cancel();
        self.over.cancelled().await;
        "the life is over".into()
    }
}

async fn relay_to_cluster(
    mut cluster: ApiService,
    state: &Mutex<State>,
    request: Request<Incoming>,
) -> Result<Answer, Failure> {
    let (head, body) = request.into_parts();
    let path = head.uri.path();
    // Events are told, and a Lease is kept, beside the work.
    let is_beside = path.ends_with("/events") || path.contains("/leases");
    let is_read = head.method == Method::GET || is_beside;
    if is_read {
        let answer = cluster.call(Request::from_parts(head, body)).await?;
        return Ok(answer.map(|body| Either::Right(Either::Left(body))));
    }
    let body = body.collect().await?.to_bytes();
    let verdict = judge(state, cluster_change(&head.method, head.uri.path(), &body));
    if let Some(verdict) = verdict.as_ref().filter(|verdict| verdict.side == Some(Side::Before)) {
        return Err(verdict.hold().await);
    }
    let answer = cluster.call(Request::from_parts(head, Full::new(body))).await?;
    match verdict.filter(|verdict| verdict.side == Some(Side::After)) {
        Some(verdict) => Err(verdict.hold().await),
        None => Ok(answer.map(|body| Either::Right(Either::Left(body)))),
    }
}

async fn relay_to_gitea(
    upstream: &str,
    state: &Arc<Mutex<State>>,
    request: Request<Incoming>,
) -> Result<Answer, Failure> {
    let path = request.uri().path().to_owned();
    let is_push = path.ends_with("/git-receive-pack") && request.method() == Method::POST;
    let is_change = is_push || (request.method() != Method::GET && path.starts_with("/api/"));
    let stream = TcpStream::connect(upstream).await?;
    if !is_change {
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let answer = sender.send_request(request).await?;
        return Ok(answer.map(|body| Either::Right(Either::Right(body))));
    }
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let method = head.method.clone();
    let name = if is_push { push_name(&body) } else { gitea_change(state, &method, &path, &body) };
    let verdict = judge(state, name);
    if let Some(verdict) = verdict.as_ref().filter(|verdict| verdict.side == Some(Side::Before)) {
        return Err(verdict.hold().await);
    }
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let learner = state.clone();
    let change = async move {
        let began = Instant::now();
        // The connection goes with its sender, as it does when the process at the other end is gone.
        let answer = sender.send_request(Request::from_parts(head, Full::new(body))).await?;
        // A push has happened when its report has come to its end.
        let (head, body) = answer.into_parts();
        let body = body.collect().await?.to_bytes();
        if method == Method::POST && path.ends_with("/pulls") {
            learn_pull(&learner, &body);
        }
        if path.ends_with("/merge") && head.status.is_success() {
            lock(&learner).merge_time = Some(began.elapsed());
        }
        Ok((head, body))
    };
    if let Some(verdict) = verdict.as_ref().filter(|verdict| verdict.side == Some(Side::During)) {
        let _ = tokio::time::timeout(verdict.delay, change).await;
        return Err(verdict.hold().await);
    }
    let (head, body) = make_whole(state, change).await?;
    match verdict.filter(|verdict| verdict.side == Some(Side::After)) {
        Some(verdict) => Err(verdict.hold().await),
        None => Ok(Response::from_parts(head, Either::Left(Full::new(body)))),
    }
}

/// Has a change made to its end, also when nobody waits for it any more.
///
/// A Gitea that is cut off kills its own `git`, which leaves a lock in the repository when it deletes a branch just then. No branch
/// is deleted any more until somebody removes the lock by hand.
async fn make_whole<T: Send + 'static>(
    state: &Mutex<State>,
    change: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    let (tell, told) = tokio::sync::oneshot::channel();
    let change = tokio::spawn(async move {
        let _ = tell.send(change.await);
    });
    lock(state).under_way.push(change);
    told.await?
}

/// Remembers which environment a new pull request belongs to.
fn learn_pull(state: &Mutex<State>, answer: &[u8]) {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    if let (Some(number), Some(head)) = (answer["number"].as_u64(), answer["head"]["ref"].as_str()) {
        lock(state).pulls.insert(number, plain(head));
    }
}

/// The name of a change of the cluster: its object, and for a step how far it is.
fn cluster_change(method: &Method, path: &str, body: &[u8]) -> String {
    let words: Vec<&str> = path.split('/').collect();
    let from = words.iter().position(|word| *word == "namespaces").map_or(0, |at| at + 2);
    let object = plain(&words[from.min(words.len())..].join("/"));
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let status = body.pointer("/status");
    let told = |name: &str| status.and_then(|status| status[name].as_str()).unwrap_or_default();
    let mut name = format!("{method} {object}");
    for more in
        [told("state"), told("currentStep"), told("phase")].into_iter().filter(|more| !more.is_empty())
    {
        name.push(' ');
        name.push_str(more);
    }
    name
}

/// The last word of a change that tells Gitea of a merge.
pub(crate) const DECLARED: &str = "declared";

/// The name of a change of Gitea, with the environment of the pull request.
fn gitea_change(state: &Mutex<State>, method: &Method, path: &str, body: &[u8]) -> String {
    let words: Vec<&str> = path.split('/').skip(6).collect();
    let number = match words.as_slice() {
        ["pulls" | "issues", number, ..] => number.parse::<u64>().ok(),
        _ => None,
    };
    let of = number.and_then(|number| lock(state).pulls.get(&number).cloned());
    let name = format!("gitea {method} {} {}", plain(&words.join("/")), of.unwrap_or_default());
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    match body["Do"] == "manually-merged" {
        true => format!("{} {DECLARED}", name.trim_end()),
        false => name.trim_end().to_owned(),
    }
}

/// The name of a push: its branch, which its first line says.
fn push_name(body: &[u8]) -> String {
    let first = String::from_utf8_lossy(&body[..body.len().min(400)]).into_owned();
    let branch = first.split_once("refs/heads/").map(|(_, rest)| rest);
    let branch = branch.and_then(|rest| rest.split(['\0', ' ', '\n']).next()).unwrap_or_default();
    format!("push {}", plain(branch))
}

/// A name without what differs between versions: every word with a digit in it is `#`.
fn plain(name: &str) -> String {
    let mut plain = String::new();
    for word in name.split_inclusive(|letter: char| !letter.is_ascii_alphanumeric()) {
        let (text, end) = match word.char_indices().last() {
            Some((at, last)) if !last.is_ascii_alphanumeric() => word.split_at(at),
            _ => (word, ""),
        };
        let is_number = text.chars().any(|letter| letter.is_ascii_digit());
        plain.push_str(if is_number { "#" } else { text });
        plain.push_str(end);
    }
    while plain.contains("#-#") || plain.contains("#.#") {
        plain = plain.replace("#-#", "#").replace("#.#", "#");
    }
    plain
}
