//! Trouble between a client and the server: delays, refusals, broken connections, watches that end.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;

use crate::ids::Ids;
use crate::negotiate::Accept;
use crate::respond::{Body, BoxError, Printing, refuse};
use crate::status::Status;

/// What goes wrong.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// The request waits before it is served.
    Delay(Duration),
    /// 429 with `Retry-After` in seconds.
    TooManyRequests { retry_after: u32 },
    /// A 5xx answer.
    ServerError(u16),
    /// The connection breaks before an answer; the request is not served.
    Reset,
    /// The request is served, but its answer is lost.
    LoseAnswer,
    /// A watch ends after this many chunks.
    DropWatch { after: usize },
}

/// When something goes wrong.
#[derive(Debug, Clone)]
pub struct Rule {
    /// The HTTP method, or any.
    pub method: Option<String>,
    /// A part of the path, or any.
    pub path_contains: Option<String>,
    /// How many matching requests pass before the first fault.
    pub skip: u64,
    /// How many requests the fault hits at most.
    pub times: Option<u64>,
    /// How likely a matching request is hit, from 0 to 1.
    pub probability: f64,
    pub fault: Fault,
}

impl Rule {
    /// A fault that hits every request.
    pub fn new(fault: Fault) -> Rule {
        Rule { method: None, path_contains: None, skip: 0, times: None, probability: 1.0, fault }
    }

    pub fn method(mut self, method: &str) -> Rule {
        self.method = Some(method.to_owned());
        self
    }

    pub fn path_contains(mut self, part: &str) -> Rule {
        self.path_contains = Some(part.to_owned());
        self
    }

    pub fn skip(mut self, requests: u64) -> Rule {
        self.skip = requests;
        self
    }

    pub fn times(mut self, times: u64) -> Rule {
        self.times = Some(times);
        self
    }

    pub fn probability(mut self, probability: f64) -> Rule {
        self.probability = probability;
        self
    }
}

struct Planned {
    rule: Rule,
    seen: AtomicU64,
    hit: AtomicU64,
}

/// A plan of faults, the same every time under its seed. Rules can be added while requests run.
#[derive(Clone)]
pub struct FaultLayer {
    rules: Arc<Mutex<Vec<Arc<Planned>>>>,
    ids: Arc<Ids>,
}

impl FaultLayer {
    pub fn new(seed: u64) -> FaultLayer {
        FaultLayer { rules: Arc::default(), ids: Arc::new(Ids::new(Some(seed))) }
    }

    pub fn add(&self, rule: Rule) {
        let planned = Arc::new(Planned { rule, seen: AtomicU64::new(0), hit: AtomicU64::new(0) });
        self.rules.lock().unwrap_or_else(PoisonError::into_inner).push(planned);
    }

    pub fn clear(&self) {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// How many requests were hit so far.
    pub fn hits(&self) -> u64 {
        let rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        rules.iter().map(|r| r.hit.load(Ordering::Relaxed)).sum()
    }

    fn pick(&self, method: &str, uri: &http::Uri) -> Vec<Fault> {
        let rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let path = uri.path_and_query().map_or("", |p| p.as_str());
        let mut out = Vec::new();
        for planned in rules {
            let rule = &planned.rule;
            let matches = rule.method.as_deref().is_none_or(|m| m.eq_ignore_ascii_case(method))
                && rule.path_contains.as_deref().is_none_or(|p| path.contains(p));
            if !matches || planned.seen.fetch_add(1, Ordering::Relaxed) < rule.skip {
                continue;
            }
            let chance = (self.ids.next() >> 11) as f64 / (1_u64 << 53) as f64;
            if chance >= rule.probability {
                continue;
            }
            if planned.hit.fetch_add(1, Ordering::Relaxed) >= rule.times.unwrap_or(u64::MAX) {
                planned.hit.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            out.push(rule.fault.clone());
        }
        out
    }
}

impl<S> tower::Layer<S> for FaultLayer {
    type Service = FaultService<S>;

    fn layer(&self, inner: S) -> FaultService<S> {
        FaultService { inner, plan: self.clone() }
    }
}

/// A service with trouble in front of it.
#[derive(Clone)]
pub struct FaultService<S> {
    inner: S,
    plan: FaultLayer,
}

impl<S, B> tower::Service<Request<B>> for FaultService<S>
where
    S: tower::Service<Request<B>, Response = Response<Body>> + Send,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let faults = self.plan.pick(request.method().as_str(), request.uri());
        let mut delay = Duration::ZERO;
        let mut lose = false;
        let mut drop_after = None;
        for fault in faults {
            match fault {
                Fault::Delay(by) => delay += by,
                Fault::LoseAnswer => lose = true,
                Fault::DropWatch { after } => drop_after = Some(after),
                Fault::Reset => return Box::pin(async { Err(reset()) }),
                Fault::TooManyRequests { retry_after } => {
                    let message =
                        "the server has received too many requests and has asked us to try again later";
                    let status = Status::too_many_requests(message, serde_json::Value::Null, retry_after);
                    return Box::pin(async move { Ok(refuse(&status, PLAIN)) });
                }
                Fault::ServerError(code) => {
                    let reason = if code == 503 { "ServiceUnavailable" } else { "InternalError" };
                    let status = Status::new(code, reason, "an injected fault");
                    return Box::pin(async move { Ok(refuse(&status, PLAIN)) });
                }
            }
        }
        let answer = self.inner.call(request);
        Box::pin(async move {
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            let response = answer.await.map_err(Into::into)?;
            if lose {
                return Err(reset());
            }
            Ok(match drop_after {
                Some(after) => response.map(|body| cut(body, after)),
                None => response,
            })
        })
    }
}

const PLAIN: Printing = Printing { accept: Accept::JSON, pretty: false, gzip: false };

fn reset() -> BoxError {
    Box::new(std::io::Error::new(
        std::io::ErrorKind::ConnectionReset,
        "connection reset by an injected fault",
    ))
}

/// A body that breaks off after some chunks.
fn cut(body: Body, after: usize) -> Body {
    Body::stream(futures::stream::unfold((body, after), |(mut body, left)| async move {
        if left == 0 {
            return None;
        }
        let frame = body.frame().await?;
        let bytes = frame.map(|f| f.into_data().unwrap_or_else(|_| Bytes::new()));
        Some((bytes, (body, left - 1)))
    }))
}
