//! Faults between a client and the server: delays, refusals, broken connections, watches that end.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;

use crate::api::Verb;
use crate::http::negotiate::NegotiatedForm;
use crate::http::respond::{BoxError, PrintOptions, ResponseBody, render_failure};
use crate::ids::IdGenerator;
use crate::status::Status;
use crate::store::Store;

/// A fault that hits a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// The request waits before it is served.
    Delay(Duration),
    /// 429 with `Retry-After` in seconds.
    TooManyRequests { retry_after: u32 },
    /// An answer with this code, 5xx or 4xx.
    ServerError(u16),
    /// The connection breaks before an answer; the request is not served.
    Reset,
    /// The request is served, but its answer is lost.
    LoseAnswer,
    /// A watch ends after this many chunks.
    DropWatch { after: usize },
    /// History is forgotten before the request is served; watches from the past get 410. Only the
    /// sandbox's own plan ([`crate::Sandbox::faults`]) has a history to forget.
    Compact,
}

/// A rule that says which requests a fault hits.
#[derive(Debug, Clone)]
pub struct FaultRule {
    /// The HTTP method, or any.
    pub method: Option<String>,
    /// A part of the path, or any.
    pub path_contains: Option<String>,
    /// The verb as RBAC names it: get, list, watch, create, update, patch, delete, deletecollection.
    pub verb: Option<String>,
    /// The plural of the resource, or plural and group: `deployments.apps`, `pods/log`.
    pub resource: Option<String>,
    pub namespace: Option<String>,
    pub name: Option<String>,
    /// The field manager of the query, or the client's program.
    pub manager: Option<String>,
    /// Number of matching requests that pass before the first fault.
    pub skip: u64,
    /// Largest number of requests the fault hits.
    pub times: Option<u64>,
    /// Probability that a matching request is hit, from 0 to 1.
    pub probability: f64,
    pub fault: Fault,
}

impl FaultRule {
    /// The faults of a server that is overloaded or restarts, spread evenly: 429, 500, 503, broken connections and
    /// answers that are two seconds late, together with this probability.
    pub fn passing_trouble(probability: f64) -> [FaultRule; 5] {
        let faults = [
            Fault::TooManyRequests { retry_after: 1 },
            Fault::ServerError(500),
            Fault::ServerError(503),
            Fault::Reset,
            Fault::Delay(Duration::from_secs(2)),
        ];
        let share = probability / faults.len() as f64;
        faults.map(|fault| FaultRule::new(fault).probability(share))
    }

    /// A fault that hits every request.
    pub fn new(fault: Fault) -> FaultRule {
        FaultRule {
            method: None,
            path_contains: None,
            verb: None,
            resource: None,
            namespace: None,
            name: None,
            manager: None,
            skip: 0,
            times: None,
            probability: 1.0,
            fault,
        }
    }

    pub fn method(mut self, method: &str) -> FaultRule {
        self.method = Some(method.to_owned());
        self
    }

    pub fn path_contains(mut self, part: &str) -> FaultRule {
        self.path_contains = Some(part.to_owned());
        self
    }

    pub fn verb(mut self, verb: &str) -> FaultRule {
        self.verb = Some(verb.to_owned());
        self
    }

    pub fn resource(mut self, resource: &str) -> FaultRule {
        self.resource = Some(resource.to_owned());
        self
    }

    pub fn namespace(mut self, namespace: &str) -> FaultRule {
        self.namespace = Some(namespace.to_owned());
        self
    }

    pub fn name(mut self, name: &str) -> FaultRule {
        self.name = Some(name.to_owned());
        self
    }

    pub fn manager(mut self, manager: &str) -> FaultRule {
        self.manager = Some(manager.to_owned());
        self
    }

    /// Returns true if the rule applies to a request.
    fn matches_request(&self, request: &RequestFacts<'_>) -> bool {
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
        };
        let path = request.path.as_ref();
        let full = path.map(|p| match (p.group.as_str(), p.subresource.as_str()) {
            ("", "") => p.resource.clone(),
            (group, "") => format!("{}.{group}", p.resource),
            ("", sub) => format!("{}/{sub}", p.resource),
            (group, sub) => format!("{}.{group}/{sub}", p.resource),
        });
        self.method.as_deref().is_none_or(|m| m.eq_ignore_ascii_case(request.method))
            && self.path_contains.as_deref().is_none_or(|p| request.text.contains(p))
            && is(&self.verb, request.verb.map(Verb::as_str))
            && (is(&self.resource, full.as_deref()) || is(&self.resource, path.map(|p| p.resource.as_str())))
            && is(&self.namespace, path.map(|p| p.namespace.as_str()))
            && is(&self.name, path.map(|p| p.name.as_str()))
            && is(&self.manager, Some(&request.manager))
    }

    pub fn skip(mut self, requests: u64) -> FaultRule {
        self.skip = requests;
        self
    }

    pub fn times(mut self, times: u64) -> FaultRule {
        self.times = Some(times);
        self
    }

    pub fn probability(mut self, probability: f64) -> FaultRule {
        self.probability = probability;
        self
    }
}

/// The facts of a request that rules match on.
struct RequestFacts<'r> {
    method: &'r str,
    text: &'r str,
    path: Option<crate::http::route::ResourcePath>,
    verb: Option<Verb>,
    manager: String,
}

impl<'r> RequestFacts<'r> {
    fn of<B>(request: &'r Request<B>) -> RequestFacts<'r> {
        let query = crate::http::query::QueryParameters::parse(request.uri().query());
        let path = match crate::http::route::parse_path(request.uri().path()) {
            Some(crate::http::route::RequestTarget::Resource(path)) => Some(path),
            _ => None,
        };
        let verb = path.as_ref().and_then(|path| Verb::of_request(request.method(), path, &query));
        let agent = request.headers().get(http::header::USER_AGENT).and_then(|v| v.to_str().ok());
        let agent = agent.unwrap_or("").split('/').next().unwrap_or("");
        RequestFacts {
            method: request.method().as_str(),
            text: request.uri().path_and_query().map_or("", |p| p.as_str()),
            manager: query.non_empty("fieldManager").unwrap_or(agent).to_owned(),
            path,
            verb,
        }
    }
}

struct PlannedFault {
    rule: FaultRule,
    seen: AtomicU64,
    hit: AtomicU64,
}

/// A plan of faults, the same every time under its seed. Rules can be added while requests run.
#[derive(Clone)]
pub struct FaultLayer {
    rules: Arc<Mutex<Vec<Arc<PlannedFault>>>>,
    ids: Arc<IdGenerator>,
    history: Weak<Store>,
}

impl FaultLayer {
    pub fn new(seed: u64) -> FaultLayer {
        FaultLayer {
            rules: Arc::default(),
            ids: Arc::new(IdGenerator::new(Some(seed))),
            history: Weak::new(),
        }
    }

    /// The history [`Fault::Compact`] forgets.
    pub(crate) fn compacting(mut self, store: &Arc<Store>) -> FaultLayer {
        self.history = Arc::downgrade(store);
        self
    }

    /// Every rule and how many requests it has hit.
    pub fn rules(&self) -> Vec<(FaultRule, u64)> {
        let rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        rules.iter().map(|p| (p.rule.clone(), p.hit.load(Ordering::Relaxed))).collect()
    }

    pub fn add(&self, rule: FaultRule) {
        let planned = Arc::new(PlannedFault { rule, seen: AtomicU64::new(0), hit: AtomicU64::new(0) });
        self.rules.lock().unwrap_or_else(PoisonError::into_inner).push(planned);
    }

    pub fn clear(&self) {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Number of requests hit so far.
    pub fn hits(&self) -> u64 {
        let rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        rules.iter().map(|r| r.hit.load(Ordering::Relaxed)).sum()
    }

    fn pick_faults<B>(&self, request: &Request<B>) -> Vec<Fault> {
        let rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut out = Vec::new();
        if rules.is_empty() {
            return out;
        }
        let facts = RequestFacts::of(request);
        for planned in rules {
            let rule = &planned.rule;
            if !rule.matches_request(&facts) || planned.seen.fetch_add(1, Ordering::Relaxed) < rule.skip {
                continue;
            }
            let chance = (self.ids.next_number() >> 11) as f64 / (1_u64 << 53) as f64;
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

/// A service with planned faults in front of it.
#[derive(Clone)]
pub struct FaultService<S> {
    inner: S,
    plan: FaultLayer,
}

impl<S, B> tower::Service<Request<B>> for FaultService<S>
where
    S: tower::Service<Request<B>, Response = Response<ResponseBody>> + Send,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let faults = self.plan.pick_faults(&request);
        let mut delay = Duration::ZERO;
        let mut lose = false;
        let mut drop_after = None;
        for fault in faults {
            match fault {
                Fault::Delay(by) => delay += by,
                Fault::LoseAnswer => lose = true,
                Fault::DropWatch { after } => drop_after = Some(after),
                Fault::Compact => {
                    if let Some(store) = self.plan.history.upgrade() {
                        store.compact_history();
                    }
                }
                Fault::Reset => return Box::pin(async { Err(connection_reset()) }),
                Fault::TooManyRequests { retry_after } => {
                    let message =
                        "the server has received too many requests and has asked us to try again later";
                    let status = Status::too_many_requests(message, serde_json::Value::Null, retry_after);
                    return Box::pin(async move { Ok(render_failure(&status, PLAIN)) });
                }
                Fault::ServerError(code) => {
                    let reason = match code {
                        400 => "BadRequest",
                        401 => "Unauthorized",
                        403 => "Forbidden",
                        404 => "NotFound",
                        409 => "Conflict",
                        410 => "Expired",
                        422 => "Invalid",
                        503 => "ServiceUnavailable",
                        504 => "Timeout",
                        _ => "InternalError",
                    };
                    let status = Status::new(code, reason, "an injected fault");
                    return Box::pin(async move { Ok(render_failure(&status, PLAIN)) });
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
                return Err(connection_reset());
            }
            Ok(match drop_after {
                Some(after) => response.map(|body| cut_body(body, after)),
                None => response,
            })
        })
    }
}

const PLAIN: PrintOptions = PrintOptions { accept: NegotiatedForm::JSON, pretty: false, gzip: false };

fn connection_reset() -> BoxError {
    Box::new(std::io::Error::new(
        std::io::ErrorKind::ConnectionReset,
        "connection reset by an injected fault",
    ))
}

/// A body that breaks off after some chunks.
fn cut_body(body: ResponseBody, after: usize) -> ResponseBody {
    ResponseBody::stream(futures::stream::unfold((body, after), |(mut body, left)| async move {
        if left == 0 {
            return None;
        }
        let frame = body.frame().await?;
        let bytes = frame.map(|f| f.into_data().unwrap_or_else(|_| Bytes::new()));
        Some((bytes, (body, left - 1)))
    }))
}
