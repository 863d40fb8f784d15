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

use crate::api::{Verb, handlers};
use crate::auth::{self, User, rbac};
use crate::core::Core;
use crate::http::documents::not_a_path;
use crate::http::negotiate::{self, Accept};
use crate::http::net::ConnectionProof;
use crate::http::query::Query;
use crate::http::respond::{Body, BoxError, Printing, Reply, refuse, render};
use crate::http::route::{self, Target};
use crate::status::{Result, Status};

/// Bodies longer than this are refused.
const LARGEST_BODY: usize = 3 * 1024 * 1024;

/// A body that has not arrived by then never will.
const BODY_PATIENCE: Duration = Duration::from_secs(30);

pub(super) const HEALTH: [&str; 3] = ["/healthz", "/livez", "/readyz"];

/// Who a service speaks for.
#[derive(Clone)]
pub(crate) enum Caller {
    /// Everybody who comes through this service is this user: in-process clients.
    Fixed(Arc<User>),
    /// Callers show credentials: a certificate on the connection, or a token with each request.
    Network {
        certificate: Option<Arc<User>>,
        /// Told when somebody has shown who they are.
        proof: ConnectionProof,
    },
}

/// Serves the Kubernetes API. Cheap to clone.
#[derive(Clone)]
pub struct ApiService {
    core: Arc<Core>,
    caller: Caller,
}

impl ApiService {
    pub(crate) fn new(core: Arc<Core>, caller: Caller) -> ApiService {
        ApiService { core, caller }
    }
}

impl<B> tower::Service<Request<B>> for ApiService
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = std::result::Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::result::Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (core, caller) = (self.core.clone(), self.caller.clone());
        Box::pin(async move { Ok(serve(core, caller, request).await) })
    }
}

async fn serve<B>(core: Arc<Core>, caller: Caller, request: Request<B>) -> Response<Body>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let (parts, body) = request.into_parts();
    let headers = parts.headers;
    let query = Query::parse(parts.uri.query());
    let mut printing = Printing {
        accept: Accept::JSON,
        pretty: query.flag("pretty") == Some(true),
        gzip: header(&headers, &ACCEPT_ENCODING).contains("gzip"),
    };
    let audit = core.ids.uid();
    let exchange = Exchange {
        core: core.clone(),
        method: parts.method,
        path: parts.uri.path().to_owned(),
        query,
        headers,
        body: Bytes::new(),
    };
    // Whatever goes wrong in here is one request's trouble.
    let mut response = match answer(exchange, &caller, body, &mut printing).await {
        Ok(Answer::Slow(reply, wait)) => {
            tokio::time::sleep(wait).await;
            print_durable(&core, reply, printing).await
        }
        Ok(Answer::Reply(reply)) => print_durable(&core, reply, printing).await,
        Ok(Answer::Raw(response)) => *response,
        Err(status) => refuse(&status, printing),
    };
    if let Ok(value) = HeaderValue::from_str(&audit) {
        response.headers_mut().insert("audit-id", value);
    }
    response
}

/// Lets the caller in, and only then reads the body: whoever may not ask cannot make the server wait for
/// the rest of the request.
async fn answer<B>(
    mut exchange: Exchange,
    caller: &Caller,
    body: B,
    printing: &mut Printing,
) -> Result<Answer>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let admitted = exchange.admit(caller)?;
    let body = Limited::new(body, LARGEST_BODY).collect();
    let collected = match caller {
        // What comes from this process is there already.
        Caller::Fixed(_) => Ok(body.await),
        Caller::Network { .. } => tokio::time::timeout(BODY_PATIENCE, body).await,
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
        // A full disk is asked once more; while it is full, nothing is changed.
        let writable = exchange.core.store.writable().await;
        if let Err(e) = writable.as_ref()
            && !asks_ready
        {
            return Err(Status::internal(e));
        }
        if asks_ready {
            return exchange.health(writable.err());
        }
    }
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| exchange.answer(admitted, printing)))
        .unwrap_or_else(|_| Err(Status::internal("the request made the server panic")))
}

/// Prints a reply when everything it shows is on disk.
async fn print_durable(core: &Core, reply: Reply, printing: Printing) -> Response<Body> {
    let seen = reply.wrote.unwrap_or_else(|| core.store.rev());
    match core.store.durable(seen).await {
        Ok(()) => render(reply, printing),
        Err(e) => refuse(&Status::internal(e), printing),
    }
}

pub(super) fn header<'h>(headers: &'h HeaderMap, name: &http::HeaderName) -> &'h str {
    headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or("")
}

pub(super) enum Answer {
    Reply(Reply),
    /// The object wants its requests to take this long.
    Slow(Reply, Duration),
    Raw(Box<Response<Body>>),
}

/// A request that may be answered.
enum Admitted {
    Request {
        target: Target,
        user: Arc<User>,
    },
    /// The path is not well escaped; everybody is told.
    BadEscape,
}

pub(super) struct Exchange {
    pub(super) core: Arc<Core>,
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) query: Query,
    pub(super) headers: HeaderMap,
    body: Bytes,
}

impl Exchange {
    /// Finds out who asks for what, and whether that is allowed.
    fn admit(&self, caller: &Caller) -> Result<Admitted> {
        let user = match caller {
            Caller::Fixed(user) => user.clone(),
            Caller::Network { certificate, proof } => {
                let user = auth::authenticate(&self.core, &self.headers, certificate.as_ref())?;
                if !user.is_anonymous() {
                    proof.give();
                }
                user
            }
        };
        let user = auth::impersonate(&self.core, &self.headers, user)?;
        if matches!(self.method, Method::HEAD | Method::OPTIONS | Method::CONNECT | Method::TRACE) {
            return Err(Status::method_not_allowed());
        }
        if !well_escaped(&self.path) {
            return Ok(Admitted::BadEscape);
        }
        let Some(target) = route::parse(&self.path) else {
            return Err(bad_path(&self.path));
        };
        match &target {
            Target::Resource(path) => self.authorize_resource(path, &user)?,
            _ => self.authorize_path(&user)?,
        }
        Ok(Admitted::Request { target, user })
    }

    fn answer(self, admitted: Admitted, printing: &mut Printing) -> Result<Answer> {
        match admitted {
            Admitted::BadEscape => {
                let content = crate::http::respond::Content::Text("400 Bad Request".into());
                Ok(Answer::Reply(Reply { code: 400, content, warnings: vec![], wrote: None }))
            }
            Admitted::Request { target: Target::Resource(path), user } => self.resource(path, user, printing),
            Admitted::Request { target, .. } => {
                if self.method != Method::GET && target != Target::Other {
                    return Err(Status::method_not_allowed());
                }
                self.document(target, printing)
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
        let request = rbac::Attributes {
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

    fn authorize_resource(&self, path: &route::Path, user: &User) -> Result<()> {
        let verb = Verb::of_request(&self.method, path, &self.query);
        let named = self.query.some("fieldSelector").and_then(|s| s.strip_prefix("metadata.name="));
        let name = if path.name.is_empty() { named.unwrap_or("") } else { &path.name };
        let request = rbac::Attributes {
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

    fn resource(self, path: route::Path, user: Arc<User>, printing: &mut Printing) -> Result<Answer> {
        let registry = self.core.registry();
        let verb = Verb::of_request(&self.method, &path, &self.query);
        if registry.of_version(&path.group, &path.version).is_none() {
            return if path.group.is_empty() {
                Err(Status::no_such_resource())
            } else {
                Ok(Answer::Reply(not_a_path()))
            };
        }
        let Some(served) = registry.find(&path.group, &path.version, &path.resource) else {
            // A custom group knows no other resources; its handler answers as for any unknown path.
            let custom = registry.groups.iter().any(|g| g.name == path.group && g.custom);
            return if custom { Ok(Answer::Reply(not_a_path())) } else { Err(Status::no_such_resource()) };
        };
        let accept_header = header(&self.headers, &ACCEPT);
        printing.accept = negotiate::accept(accept_header, served.origin())?;
        let agent = header(&self.headers, &USER_AGENT).split('/').next().unwrap_or("").to_owned();
        let request = handlers::Request {
            served: served.clone(),
            path,
            accept: printing.accept,
            content_type: header(&self.headers, &CONTENT_TYPE).to_owned(),
            query: self.query,
            body: self.body,
            user,
            agent,
            core: self.core,
        };
        let verb = verb.ok_or_else(Status::method_not_allowed)?;
        let wait = request.latency(verb);
        let reply = handlers::handle(&request, verb)?;
        Ok(match wait {
            Some(wait) => Answer::Slow(reply, wait),
            None => Answer::Reply(reply),
        })
    }
}

/// Why a path is refused: a name that would climb, or simply no such path.
fn bad_path(path: &str) -> Box<Status> {
    let dotted = path.split('/').filter_map(route::decode).find(|part| part == "." || part == "..");
    match dotted {
        Some(part) => Status::bad_request(format!("Name parameter invalid: {part:?}: may not be '{part}'")),
        None => Status::no_such_resource(),
    }
}

/// Whether every `%` starts an escape.
fn well_escaped(path: &str) -> bool {
    path.split('%').skip(1).all(|rest| {
        let mut digits = rest.bytes();
        let mut hex = || digits.next().is_some_and(|b| b.is_ascii_hexdigit());
        hex() && hex()
    })
}
