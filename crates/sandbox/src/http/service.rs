//! The server as a tower service: one request in, one answer out, no sockets needed.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, USER_AGENT};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::json;

use crate::api::discovery::AGGREGATED;
use crate::api::{Verb, handlers};
use crate::auth::{self, User, rbac};
use crate::core::Core;
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

const HEALTH: [&str; 3] = ["/healthz", "/livez", "/readyz"];

/// The checks a healthy server reports.
const CHECKS: [&str; 4] = ["ping", "log", "etcd", "poststarthook/start-apiextensions-controllers"];

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

fn header<'h>(headers: &'h HeaderMap, name: &http::HeaderName) -> &'h str {
    headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or("")
}

enum Answer {
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

struct Exchange {
    core: Arc<Core>,
    method: Method,
    path: String,
    query: Query,
    headers: HeaderMap,
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

    fn document(self, target: Target, printing: &mut Printing) -> Result<Answer> {
        let registry = self.core.registry();
        let reply = match target {
            Target::Versions | Target::Groups => {
                let core_group = target == Target::Versions;
                let accept = header(&self.headers, &ACCEPT);
                let aggregated = negotiate::clauses(accept)
                    .next()
                    .is_some_and(|c| c.param("as") == "APIGroupDiscoveryList")
                    && negotiate::clauses(accept)
                        .any(|c| c.param("as") == "APIGroupDiscoveryList" && c.param("v") == "v2");
                if aggregated {
                    let document = registry.aggregated(core_group);
                    return Ok(Answer::Raw(Box::new(self.tagged(&document, AGGREGATED))));
                }
                if core_group {
                    Reply::value(
                        200,
                        json!({
                            "kind": "APIVersions",
                            "versions": ["v1"],
                            "serverAddressByClientCIDRs": [
                                {"clientCIDR": "0.0.0.0/0", "serverAddress": self.core.options.address.get()},
                            ],
                        }),
                    )
                } else {
                    Reply::json(200, registry.group_list().body)
                }
            }
            Target::Group(name) => match registry.group(&name) {
                Some(group) => Reply::value(200, group),
                None => not_a_path(),
            },
            Target::Resources { group, version } => match registry.resource_list(&group, &version) {
                // There is nothing to tabulate, and most clients leave another way out.
                Some(_)
                    if !header(&self.headers, &ACCEPT).trim().is_empty()
                        && negotiate::clauses(header(&self.headers, &ACCEPT))
                            .all(|clause| !matches!(clause.param("as"), "" | "APIGroupDiscoveryList")) =>
                {
                    return Err(negotiate::other_view());
                }
                Some(list) => Reply::json(200, list.body),
                None if registry.groups.iter().any(|g| g.name == group && !g.custom) => {
                    return Err(Status::no_such_resource());
                }
                None => not_a_path(),
            },
            Target::Resource(_) => return Err(Status::no_such_resource()),
            Target::Other => return self.other(printing),
        };
        Ok(Answer::Reply(reply))
    }

    /// A document with an entity tag, or 304.
    fn tagged(
        &self,
        document: &crate::api::discovery::Document,
        content_type: &'static str,
    ) -> Response<Body> {
        let tag = format!("\"{}\"", document.tag);
        let known = header(&self.headers, &IF_NONE_MATCH) == tag;
        let body = if known { Body::empty() } else { Body::whole(document.body.clone()) };
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            headers.insert(ETAG, tag);
        }
        headers.insert(http::header::VARY, HeaderValue::from_static("Accept"));
        headers.insert(http::header::CACHE_CONTROL, HeaderValue::from_static("public"));
        if known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        } else {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        }
        response
    }

    /// Says whether the server is alive or ready: a server whose disk refuses writes is alive, not ready.
    fn health(&self, refused: Option<crate::store::DurableError>) -> Result<Answer> {
        let path = self.path.trim_end_matches('/');
        let Some((kind, check)) = HEALTH.iter().find_map(|kind| Some((*kind, path.strip_prefix(kind)?)))
        else {
            return Ok(Answer::Reply(not_a_path()));
        };
        let check = check.strip_prefix('/').unwrap_or(check);
        if !check.is_empty() && !CHECKS.contains(&check) {
            return Ok(Answer::Reply(not_a_path()));
        }
        let excluded: Vec<&str> = self.query.all("exclude").collect();
        let mut text = String::new();
        let mut failed = Vec::new();
        for name in CHECKS.iter().filter(|name| check.is_empty() || **name == check) {
            if excluded.contains(name) {
                text.push_str(&format!("[+]{name} excluded: ok\n"));
            } else if *name == "etcd" && kind != "/livez" && refused.is_some() {
                failed.push(*name);
                text.push_str(&format!("[-]{name} failed: reason withheld\n"));
            } else {
                text.push_str(&format!("[+]{name} ok\n"));
            }
        }
        let verbose = self.query.all("verbose").next().is_some();
        let kind = kind.trim_start_matches('/');
        let (code, text) = match (failed.is_empty(), verbose) {
            (true, true) => (200, format!("{text}{kind} check passed\n")),
            (true, false) => (200, "ok".to_owned()),
            (false, _) => (500, format!("{text}{kind} check failed\n")),
        };
        let content = crate::http::respond::Content::Text(text);
        Ok(Answer::Reply(Reply { code, content, warnings: vec![], wrote: None }))
    }

    fn other(self, _: &mut Printing) -> Result<Answer> {
        let path = self.path.trim_end_matches('/');
        if path == "/version" && self.method != Method::GET {
            return Err(Status::method_not_allowed());
        }
        Ok(Answer::Reply(match path {
            "/version" => Reply::value(200, version(&self.core.options.version)),
            "" => {
                let registry = self.core.registry();
                let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
                for group in registry.groups.iter().filter(|g| !g.name.is_empty()) {
                    paths.push(format!("/apis/{}", group.name));
                    paths.extend(group.versions.iter().map(|v| format!("/apis/{}/{v}", group.name)));
                }
                for path in
                    ["/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
                {
                    paths.push(path.to_owned());
                }
                paths.sort();
                Reply::value(200, json!({"paths": paths}))
            }
            "/metrics" => metrics(&self.core),
            "/.well-known/openid-configuration" => Reply::value(
                200,
                json!({
                    "issuer": "https://kubernetes.default.svc.cluster.local",
                    "jwks_uri": format!("https://{}/openid/v1/jwks", self.core.options.address.get()),
                    "response_types_supported": ["id_token"],
                    "subject_types_supported": ["public"],
                    "id_token_signing_alg_values_supported": ["ES256"],
                }),
            ),
            _ if path.starts_with("/openapi/") => {
                let missing = || if path.starts_with("/openapi/v3/") { no_document() } else { not_a_path() };
                return crate::api::openapi::answer(&self.core, path, &self.query, &self.headers)
                    .map(|r| r.map_or_else(|| Answer::Reply(missing()), |r| Answer::Raw(Box::new(r))));
            }
            _ => not_a_path(),
        }))
    }
}

/// What there is to measure, as Prometheus reads it.
fn metrics(core: &Core) -> Reply {
    let mut text = String::from(
        "# HELP apiserver_storage_objects [STABLE] Number of stored objects at the time of last check split by kind.\n\
         # TYPE apiserver_storage_objects gauge\n",
    );
    for table in core.store.tables() {
        text.push_str(&format!(
            "apiserver_storage_objects{{resource=\"{table}\"}} {}\n",
            core.store.count(&table)
        ));
    }
    text.push_str(&format!(
        "# HELP kubernetes_build_info [ALPHA] A metric with a constant '1' value labeled by the version.\n\
         # TYPE kubernetes_build_info gauge\n\
         kubernetes_build_info{{git_version=\"v{}\"}} 1\n",
        core.options.version
    ));
    Reply { code: 200, content: crate::http::respond::Content::Text(text), warnings: vec![], wrote: None }
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

/// What the path of a document that does not exist answers: nothing at all.
fn no_document() -> Reply {
    Reply {
        code: 404,
        content: crate::http::respond::Content::Stream { content_type: "", body: Body::empty() },
        warnings: vec![],
        wrote: None,
    }
}

/// What an unknown path answers.
pub(crate) fn not_a_path() -> Reply {
    Reply {
        code: 404,
        content: crate::http::respond::Content::Text("404 page not found\n".into()),
        warnings: vec![],
        wrote: None,
    }
}

fn version(version: &str) -> serde_json::Value {
    let mut parts = version.split('.');
    let major = parts.next().unwrap_or("1");
    let minor = parts.next().unwrap_or("0");
    let before = minor.parse::<u32>().map_or_else(|_| minor.to_owned(), |m| m.saturating_sub(1).to_string());
    json!({
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": before,
        "gitVersion": format!("v{version}"),
        "gitCommit": "0000000000000000000000000000000000000000",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "go1.27.3",
        "compiler": "gc",
        "platform": "linux/amd64",
    })
}
