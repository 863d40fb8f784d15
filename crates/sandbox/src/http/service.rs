//! The server as a tower service: one request in, one answer out, no sockets needed.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderValue, USER_AGENT};
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use slipway_http::server::ConnectionProof;

use crate::api::{Verb, handlers};
use crate::auth::{self, User, rbac};
use crate::core::Core;
use crate::http::documents::unknown_path;
use crate::http::negotiate::{self, NegotiatedForm};
use crate::http::query::QueryParameters;
use crate::http::respond::{BoxError, PrintOptions, Reply, ResponseBody, render_failure, render_reply};
use crate::http::route::{self, RequestTarget};
use crate::status::{Result, Status};

/// Bodies longer than this are refused.
const LARGEST_BODY: usize = 3 * 1024 * 1024;

/// Time limit for the arrival of a body.
const BODY_PATIENCE: Duration = Duration::from_secs(30);

/// Subresources whose requests last as long as the client wants.
const LONG_RUNNING: [&str; 5] = ["attach", "exec", "proxy", "log", "portforward"];

pub(super) const HEALTH: [&str; 3] = ["/healthz", "/livez", "/readyz"];

/// The identity a service serves requests for.
#[derive(Clone)]
pub(crate) enum CallerIdentity {
    /// Every caller of this service is this user: in-process clients.
    Fixed(Arc<User>),
    /// Callers show credentials: a certificate on the connection, or a token with each request.
    Network {
        certificate: Option<Arc<User>>,
        /// Told when somebody has authenticated.
        proof: ConnectionProof,
    },
}

/// Serves the Kubernetes API. Cheap to clone.
#[derive(Clone)]
pub struct ApiService {
    core: Arc<Core>,
    caller: CallerIdentity,
}

impl ApiService {
    pub(crate) fn new(core: Arc<Core>, caller: CallerIdentity) -> ApiService {
        ApiService { core, caller }
    }
}

impl<B> tower::Service<Request<B>> for ApiService
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future =
        Pin<Box<dyn Future<Output = std::result::Result<Response<ResponseBody>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::result::Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (core, caller) = (self.core.clone(), self.caller.clone());
        Box::pin(async move { Ok(serve_request(core, caller, request).await) })
    }
}

async fn serve_request<B>(
    core: Arc<Core>,
    caller: CallerIdentity,
    request: Request<B>,
) -> Response<ResponseBody>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let (parts, body) = request.into_parts();
    let headers = parts.headers;
    let query = QueryParameters::parse(parts.uri.query());
    let mut printing = PrintOptions {
        accept: NegotiatedForm::JSON,
        pretty: query.bool_value("pretty").unwrap_or_else(|| is_for_people(&headers)),
        gzip: header_text(&headers, &ACCEPT_ENCODING).contains("gzip"),
    };
    let audit = core.ids.new_uid();
    let exchange = RequestExchange {
        core: core.clone(),
        method: parts.method,
        path: parts.uri.path().to_owned(),
        query,
        headers,
        body: Bytes::new(),
    };
    // A failure in here concerns this request alone.
    let mut response = match answer(exchange, &caller, body, &mut printing).await {
        Ok(RequestAnswer::Slow(reply, wait)) => {
            tokio::time::sleep(wait).await;
            print_durable(&core, reply, printing).await
        }
        Ok(RequestAnswer::Reply(reply)) => print_durable(&core, reply, printing).await,
        Ok(RequestAnswer::Raw(response)) => *response,
        Err(status) => render_failure(&status, printing),
    };
    if let Ok(value) = HeaderValue::from_str(&audit) {
        response.headers_mut().insert("audit-id", value);
    }
    response
}

/// Authorizes the caller, and only then reads the body: a caller without permission cannot make the server wait
/// for the rest of the request.
async fn answer<B>(
    mut exchange: RequestExchange,
    caller: &CallerIdentity,
    body: B,
    printing: &mut PrintOptions,
) -> Result<RequestAnswer>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    exchange.check_time_limit()?;
    let admitted = exchange.admit_caller(caller)?;
    let body = Limited::new(body, LARGEST_BODY).collect();
    let collected = match caller {
        // The body of an in-process request has arrived already.
        CallerIdentity::Fixed(_) => Ok(body.await),
        CallerIdentity::Network { .. } => tokio::time::timeout(BODY_PATIENCE, body).await,
    };
    exchange.body = match collected {
        Ok(Ok(collected)) => collected.to_bytes(),
        Ok(Err(e)) if e.is::<LengthLimitError>() => return Err(Status::too_large(LARGEST_BODY)),
        Ok(Err(e)) => return Err(Status::bad_request(e.to_string())),
        Err(_) => return Err(Status::request_timeout("the request's body did not arrive in time")),
    };
    let ready = exchange.path.trim_end_matches('/');
    let asks_ready = HEALTH.iter().any(|path| ready.starts_with(path));
    if exchange.method != Method::GET || asks_ready {
        // The disk is probed once more; while it is full, nothing is changed.
        let writable = exchange.core.store.check_writable().await;
        if let Err(e) = writable.as_ref()
            && !asks_ready
        {
            return Err(Status::internal(e));
        }
        if asks_ready {
            return exchange.answer_health(writable.err());
        }
    }
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| exchange.answer(admitted, printing)))
        .unwrap_or_else(|_| Err(Status::internal("the request made the server panic")))
}

/// Prints a reply when everything it shows is on disk.
async fn print_durable(core: &Core, reply: Reply, printing: PrintOptions) -> Response<ResponseBody> {
    let seen = reply.wrote.unwrap_or_else(|| core.store.current_revision());
    match core.store.wait_durable(seen).await {
        Ok(()) => render_reply(reply, printing),
        Err(e) => render_failure(&Status::internal(e), printing),
    }
}

/// Returns true if somebody reads the answers: browsers and programs of the command line get them indented.
fn is_for_people(headers: &HeaderMap) -> bool {
    let agent = header_text(headers, &USER_AGENT);
    ["curl", "Wget", "Mozilla/5.0"].iter().any(|name| agent.starts_with(name))
}

pub(super) fn header_text<'h>(headers: &'h HeaderMap, name: &http::HeaderName) -> &'h str {
    headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or("")
}

pub(super) enum RequestAnswer {
    Reply(Reply),
    /// The object wants its requests to take this long.
    Slow(Reply, Duration),
    Raw(Box<Response<ResponseBody>>),
}

/// A request that may be answered.
enum AdmittedRequest {
    Request {
        target: RequestTarget,
        user: Arc<User>,
    },
    /// The path is not well escaped; every caller gets the same answer.
    BadEscape,
}

pub(super) struct RequestExchange {
    pub(super) core: Arc<Core>,
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) query: QueryParameters,
    pub(super) headers: HeaderMap,
    body: Bytes,
}

impl RequestExchange {
    /// Refuses a time limit that is none, whoever asks. A watch and a followed log have no limit of this kind.
    fn check_time_limit(&self) -> Result<()> {
        let Some(text) = self.query.non_empty("timeout") else { return Ok(()) };
        let Err(error) = slipway_go::time::Duration::parse(text.as_bytes()) else { return Ok(()) };
        if let Some(RequestTarget::Resource(path)) = route::parse_path(&self.path)
            && (Verb::of_request(&self.method, &path, &self.query) == Some(Verb::Watch)
                || LONG_RUNNING.contains(&path.subresource.as_str()))
        {
            return Ok(());
        }
        Err(Status::bad_request(format!("invalid timeout specified in the request URL - {error}")))
    }

    /// Authenticates the caller, parses the target and authorizes the request.
    fn admit_caller(&self, caller: &CallerIdentity) -> Result<AdmittedRequest> {
        let user = match caller {
            CallerIdentity::Fixed(user) => user.clone(),
            CallerIdentity::Network { certificate, proof } => {
                let user = auth::authenticate(&self.core, &self.headers, certificate.as_ref())?;
                if !user.is_anonymous() {
                    proof.mark_given();
                }
                user
            }
        };
        let user = auth::impersonate(&self.core, &self.headers, user)?;
        // Whether it is well, a server says however it is asked.
        let health = HEALTH.iter().any(|path| self.path.starts_with(path));
        if !health && matches!(self.method, Method::HEAD | Method::OPTIONS | Method::CONNECT | Method::TRACE)
        {
            return Err(Status::method_not_allowed());
        }
        if !well_escaped(&self.path) {
            return Ok(AdmittedRequest::BadEscape);
        }
        let Some(target) = route::parse_path(&self.path) else {
            return Err(bad_path(&self.path));
        };
        match &target {
            RequestTarget::Resource(path) => self.authorize_resource(path, &user)?,
            _ => self.authorize_path(&user)?,
        }
        Ok(AdmittedRequest::Request { target, user })
    }

    fn answer(self, admitted: AdmittedRequest, printing: &mut PrintOptions) -> Result<RequestAnswer> {
        match admitted {
            AdmittedRequest::BadEscape => {
                let content = crate::http::respond::ReplyContent::Text("400 Bad Request".into());
                Ok(RequestAnswer::Reply(Reply { code: 400, content, warnings: vec![], wrote: None }))
            }
            AdmittedRequest::Request { target: RequestTarget::Resource(path), user } => {
                self.answer_resource(path, user, printing)
            }
            AdmittedRequest::Request { target, .. } => {
                if self.method != Method::GET && target != RequestTarget::Other {
                    return Err(Status::method_not_allowed());
                }
                self.answer_document(target, printing)
            }
        }
    }

    fn authorize_path(&self, user: &User) -> Result<()> {
        let verb = match self.method {
            Method::GET | Method::HEAD => "get",
            Method::POST => "post",
            Method::PUT => "put",
            Method::PATCH => "patch",
            _ => "delete",
        };
        let request = rbac::RequestAttributes {
            verb,
            group: "",
            resource: "",
            subresource: "",
            namespace: "",
            name: "",
            path: &self.path,
        };
        rbac::authorize(&self.core, user, &request)
    }

    fn authorize_resource(&self, path: &route::ResourcePath, user: &User) -> Result<()> {
        let verb = Verb::of_request(&self.method, path, &self.query);
        let named = self.query.non_empty("fieldSelector").and_then(|s| s.strip_prefix("metadata.name="));
        let name = if path.name.is_empty() { named.unwrap_or("") } else { &path.name };
        let request = rbac::RequestAttributes {
            verb: verb.map_or("", Verb::as_str),
            group: &path.group,
            resource: &path.resource,
            subresource: &path.subresource,
            namespace: if path.resource == "namespaces" && !path.name.is_empty() {
                &path.name
            } else {
                &path.namespace
            },
            name: if verb == Some(Verb::Create) && path.subresource.is_empty() { "" } else { name },
            path: "",
        };
        rbac::authorize(&self.core, user, &request)
    }

    fn answer_resource(
        self,
        path: route::ResourcePath,
        user: Arc<User>,
        printing: &mut PrintOptions,
    ) -> Result<RequestAnswer> {
        let registry = self.core.registry();
        let verb = Verb::of_request(&self.method, &path, &self.query);
        if registry.of_version(&path.group, &path.version).is_none() {
            return if path.group.is_empty() {
                Err(Status::no_such_resource())
            } else {
                Ok(RequestAnswer::Reply(unknown_path()))
            };
        }
        let Some(served) = registry.find_resource(&path.group, &path.version, &path.resource) else {
            // A custom group knows no other resources; its handler answers as for any unknown path.
            let custom = registry.groups.iter().any(|g| g.name == path.group && g.custom);
            return if custom {
                Ok(RequestAnswer::Reply(unknown_path()))
            } else {
                Err(Status::no_such_resource())
            };
        };
        let accept_header = header_text(&self.headers, &ACCEPT);
        let listed = self.method == Method::GET && path.name.is_empty();
        printing.accept = negotiate::negotiate_response(accept_header, served.type_origin(), listed)?;
        let agent = header_text(&self.headers, &USER_AGENT).split('/').next().unwrap_or("").to_owned();
        let request = handlers::ResourceRequest {
            served: served.clone(),
            path,
            accept: printing.accept,
            content_type: header_text(&self.headers, &CONTENT_TYPE).to_owned(),
            query: self.query,
            body: self.body,
            user,
            agent,
            core: self.core,
        };
        let verb = verb.ok_or_else(Status::method_not_allowed)?;
        let wait = request.simulated_latency(verb);
        let reply = handlers::handle_request(&request, verb)?;
        Ok(match wait {
            Some(wait) => RequestAnswer::Slow(reply, wait),
            None => RequestAnswer::Reply(reply),
        })
    }
}

/// The refusal of a path: a segment of dots, or no such path.
fn bad_path(path: &str) -> Box<Status> {
    let dotted = path.split('/').filter_map(route::decode_segment).find(|part| part == "." || part == "..");
    match dotted {
        Some(part) => Status::bad_request(format!("Name parameter invalid: {part:?}: may not be '{part}'")),
        None => Status::no_such_resource(),
    }
}

/// Returns true if every `%` starts an escape.
fn well_escaped(path: &str) -> bool {
    path.split('%').skip(1).all(|rest| {
        let mut digits = rest.bytes();
        let mut hex = || digits.next().is_some_and(|b| b.is_ascii_hexdigit());
        hex() && hex()
    })
}
