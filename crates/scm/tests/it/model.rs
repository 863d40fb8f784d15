//! A forge in memory: what every server in these tests stores.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use url::Url;

pub(crate) const TOKEN: &str = "tok-5f0e7ab1c9";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
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
    pub(crate) state: State,
    pub(crate) labels: Vec<String>,
    pub(crate) comments: Vec<(u64, String)>,
    /// User and `APPROVED`, `CHANGES_REQUESTED`, `COMMENTED` or `DISMISSED`.
    pub(crate) reviews: Vec<(String, String)>,
    /// People and teams that were asked for a review.
    pub(crate) asked: Vec<String>,
}

#[derive(Default)]
pub(crate) struct Forge {
    pub(crate) pulls: Vec<Pull>,
    pub(crate) branches: BTreeMap<String, String>,
    /// Commit, context and state.
    pub(crate) checks: Vec<(String, String, String)>,
    pub(crate) labels: Vec<String>,
    pub(crate) next_id: u64,
    /// Answers "not found" so often to a pull request that exists.
    pub(crate) hidden: u32,
    /// Refuses to merge.
    pub(crate) is_blocked: bool,
    /// Somebody else opens the pull request just before us.
    pub(crate) is_raced: bool,
    /// Somebody else's pull request is opened at the same moment as ours.
    pub(crate) is_doubled: bool,
    /// Can be told of merges.
    pub(crate) allows_manual_merge: bool,
    /// Answers given before anything else.
    pub(crate) faults: VecDeque<Reply>,
    pub(crate) requests: Vec<String>,
    /// What no client may send.
    pub(crate) violations: Vec<String>,
}

/// One request, as far as servers look at it.
pub(crate) struct Call {
    pub(crate) method: String,
    /// Decoded segments of the path.
    pub(crate) path: Vec<String>,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Value,
    pub(crate) address: Url,
}

#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
}

impl Reply {
    pub(crate) fn new(status: u16, body: Value) -> Self {
        Self { status, headers: Vec::new(), body }
    }

    pub(crate) fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }
}

impl Call {
    pub(crate) fn query(&self, name: &str) -> &str {
        self.query.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub(crate) fn text(&self, pointer: &str) -> String {
        self.body.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    }
}

pub(crate) type Handler = fn(&mut Forge, &Call) -> Option<Reply>;

pub(crate) const MAIN: &str = "1111111111111111111111111111111111111111";
pub(crate) const HEAD: &str = "2222222222222222222222222222222222222222";
pub(crate) const MERGED: &str = "3333333333333333333333333333333333333333";

impl Forge {
    pub(crate) fn new() -> Self {
        let branches = [("main", MAIN), ("kardinal/app/prod/1", HEAD), ("same", MAIN), ("other", HEAD)];
        let branches = branches.map(|(name, commit)| (name.to_owned(), commit.to_owned()));
        Self { branches: branches.into(), next_id: 1, ..Self::default() }
    }

    pub(crate) fn add(&mut self, title: &str, body: &str, head: &str, base: &str) -> Pull {
        let number = self.next_id();
        let pull = Pull {
            number,
            title: title.to_owned(),
            body: body.to_owned(),
            head: head.to_owned(),
            base: base.to_owned(),
            state: State::Open,
            labels: Vec::new(),
            comments: Vec::new(),
            reviews: Vec::new(),
            asked: Vec::new(),
        };
        self.pulls.push(pull.clone());
        pull
    }

    pub(crate) fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    pub(crate) fn pull(&mut self, number: &str) -> Option<&mut Pull> {
        self.pulls.iter_mut().find(|pull| pull.number.to_string() == number)
    }

    pub(crate) fn commit_of(&self, branch: &str) -> String {
        self.branches.get(branch).cloned().unwrap_or_default()
    }

    /// Opens one, unless there is one: then nothing.
    pub(crate) fn create(&mut self, title: &str, body: &str, head: &str, base: &str) -> Option<Pull> {
        if !self.branches.contains_key(head) || !self.branches.contains_key(base) {
            self.violations.push(format!("no branch {head} or {base}"));
        }
        if std::mem::take(&mut self.is_raced) {
            self.add(title, body, head, base);
        }
        let is_open = |pull: &Pull| pull.state == State::Open && pull.head == head && pull.base == base;
        if self.pulls.iter().any(is_open) {
            return None;
        }
        if std::mem::take(&mut self.is_doubled) {
            self.add(title, body, head, base);
        }
        Some(self.add(title, body, head, base))
    }

    /// Merges if the commit is the expected one and nothing is in the way.
    pub(crate) fn merge(&mut self, number: &str, expected: Option<&str>) -> bool {
        let is_blocked = self.is_blocked;
        let branches = self.branches.clone();
        let Some(pull) = self.pull(number) else { return false };
        if is_blocked
            || expected.is_some_and(|expected| branches.get(&pull.head).is_none_or(|c| c != expected))
        {
            return false;
        }
        pull.state = State::Merged;
        true
    }
}

/// One page of a list, two at a time, and the address of the next in a `Link` header.
pub(crate) fn page(call: &Call, all: &[Value]) -> Reply {
    let number: usize = call.query("page").parse().unwrap_or(1);
    let items: Vec<Value> = all.iter().skip((number - 1) * 2).take(2).cloned().collect();
    let reply = Reply::new(200, json!(items));
    if all.len() <= number * 2 {
        return reply;
    }
    let next = next_page(call, number + 1);
    reply.header("link", format!("<{next}>; rel=\"next\", <{next}>; rel=\"last\""))
}

/// The address of a page.
pub(crate) fn next_page(call: &Call, number: usize) -> Url {
    let mut next = call.address.clone();
    let others: Vec<(String, String)> =
        call.query.iter().filter(|(name, _)| name != "page").cloned().collect();
    next.query_pairs_mut().clear().extend_pairs(others).append_pair("page", &number.to_string());
    next
}

/// A running server.
pub(crate) struct Server {
    pub(crate) forge: Arc<Mutex<Forge>>,
    pub(crate) root: String,
}

impl Server {
    pub(crate) async fn start(handler: Handler) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let root = format!("http://{}", listener.local_addr().unwrap());
        let forge = Arc::new(Mutex::new(Forge::new()));
        let (shared, origin) = (forge.clone(), root.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (shared, origin) = (shared.clone(), origin.clone());
                let service =
                    service_fn(move |request| answer(shared.clone(), origin.clone(), handler, request));
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        Self { forge, root }
    }
}

async fn answer(
    forge: Arc<Mutex<Forge>>,
    origin: String,
    handler: Handler,
    request: hyper::Request<hyper::body::Incoming>,
) -> Result<hyper::Response<Full<Bytes>>, std::convert::Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let address = Url::parse(&format!("{origin}{}", head.uri)).unwrap();
    let decode = |part: &str| percent_decode(part);
    let call = Call {
        method: head.method.to_string(),
        path: address.path().trim_matches('/').split('/').map(decode).collect(),
        query: address.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect(),
        headers: head
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap_or_default().to_owned()))
            .collect(),
        body: serde_json::from_slice(&body).unwrap_or_default(),
        address,
    };
    let mut forge = forge.lock().unwrap();
    forge.requests.push(format!("{} {}", call.method, head.uri));
    if !body.is_empty() && call.header("content-type") != "application/json" {
        forge.violations.push(format!("{} {}: a body that is not JSON", call.method, head.uri));
    }
    let reply = match forge.faults.pop_front() {
        Some(fault) => fault,
        None => handler(&mut forge, &call).unwrap_or_else(|| {
            forge.violations.push(format!("{} {} {}", call.method, head.uri, call.body));
            Reply::new(501, json!({"message": "no such call"}))
        }),
    };
    let mut response = hyper::Response::builder().status(reply.status);
    for (name, value) in reply.headers {
        response = response.header(name, value);
    }
    let content = if reply.body.is_null() { Bytes::new() } else { Bytes::from(reply.body.to_string()) };
    Ok(response.body(Full::new(content)).unwrap())
}

fn percent_decode(text: &str) -> String {
    let pair = format!("x={}", text.replace('+', "%2B"));
    url::form_urlencoded::parse(pair.as_bytes())
        .next()
        .map(|(_, value)| value.into_owned())
        .unwrap_or_default()
}
