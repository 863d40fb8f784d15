//! The server as a tower service: one request in, one answer out, no sockets needed.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, USER_AGENT};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::json;

use crate::auth::{self, User, rbac};
use crate::core::Core;
use crate::discovery::AGGREGATED;
use crate::handlers;
use crate::negotiate::{self, Accept};
use crate::query::Query;
use crate::respond::{Body, BoxError, Printing, Reply, refuse, render};
use crate::route::{self, Target};
use crate::status::{Result, Status};

/// Bodies longer than this are refused.
const LARGEST_BODY: usize = 3 * 1024 * 1024;

/// Who a service speaks for.
#[derive(Clone)]
pub(crate) enum Caller {
    /// Everybody who comes through this service is this user: in-process clients.
    Fixed(Arc<User>),
    /// Callers show credentials: a certificate on the connection, or a token with each request.
    Network(Option<Arc<User>>),
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
    let mut response = match Limited::new(body, LARGEST_BODY).collect().await {
        Ok(collected) => {
            let exchange = Exchange {
                core: core.clone(),
                method: parts.method,
                path: parts.uri.path().to_owned(),
                query,
                headers,
                body: collected.to_bytes(),
            };
            // Whatever goes wrong in here is one request's trouble.
            let answered = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                exchange.answer(&caller, &mut printing)
            }))
            .unwrap_or_else(|_| Err(Status::internal("the request made the server panic")));
            match answered {
                Ok(Answer::Slow(reply, wait)) => {
                    tokio::time::sleep(wait).await;
                    match wait_durable(&core, reply.wrote).await {
                        Ok(()) => render(reply, printing),
                        Err(status) => refuse(&status, printing),
                    }
                }
                Ok(Answer::Reply(reply)) => match wait_durable(&core, reply.wrote).await {
                    Ok(()) => render(reply, printing),
                    Err(status) => refuse(&status, printing),
                },
                Ok(Answer::Raw(response)) => *response,
                Err(status) => refuse(&status, printing),
            }
        }
        Err(e) if e.is::<LengthLimitError>() => refuse(&Status::too_large(LARGEST_BODY), printing),
        Err(e) => refuse(&Status::bad_request(e.to_string()), printing),
    };
    if let Ok(value) = HeaderValue::from_str(&audit) {
        response.headers_mut().insert("audit-id", value);
    }
    response
}

async fn wait_durable(core: &Core, wrote: Option<u64>) -> Result<()> {
    match wrote {
        Some(rev) => core.store.durable(rev).await.map_err(Status::internal),
        None => Ok(()),
    }
}

fn header<'h>(headers: &'h HeaderMap, name: &http::HeaderName) -> &'h str {
    headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or("")
}

enum Answer {
    Reply(Reply),
    /// The object wants its requests to take this long.
    Slow(Reply, std::time::Duration),
    Raw(Box<Response<Body>>),
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
    fn answer(self, caller: &Caller, printing: &mut Printing) -> Result<Answer> {
        let user = match caller {
            Caller::Fixed(user) => user.clone(),
            Caller::Network(certificate) => {
                auth::authenticate(&self.core, &self.headers, certificate.as_ref())?
            }
        };
        let user = auth::impersonate(&self.core, &self.headers, user)?;
        if matches!(self.method, Method::HEAD | Method::OPTIONS | Method::CONNECT | Method::TRACE) {
            return Err(Status::method_not_allowed());
        }
        if !well_escaped(&self.path) {
            let content = crate::respond::Content::Text("400 Bad Request".into());
            return Ok(Answer::Reply(Reply { code: 400, content, warnings: vec![], wrote: None }));
        }
        let Some(target) = route::parse(&self.path) else {
            return Err(bad_path(&self.path));
        };
        match target {
            Target::Resource(path) => self.resource(path, user, printing),
            other => {
                self.authorize_path(&user)?;
                if self.method != Method::GET && other != Target::Other {
                    return Err(Status::method_not_allowed());
                }
                self.document(other, printing)
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

    fn resource(self, path: route::Path, user: Arc<User>, printing: &mut Printing) -> Result<Answer> {
        let registry = self.core.registry();
        let verb = handlers::verb(&self.method, &path, &self.query);
        let named = self.query.some("fieldSelector").and_then(|s| s.strip_prefix("metadata.name="));
        let name = if path.name.is_empty() { named.unwrap_or("") } else { &path.name };
        let request = rbac::Attributes {
            verb,
            group: &path.group,
            resource: &path.resource,
            subresource: &path.subresource,
            namespace: if path.resource == "namespaces" && !path.name.is_empty() {
                &path.name
            } else {
                &path.namespace
            },
            name: if verb == "create" && path.subresource.is_empty() { "" } else { name },
            path: "",
        };
        rbac::authorize(&self.core, &user, &request)?;
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
        printing.accept = negotiate::accept(accept_header)?;
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
    fn tagged(&self, document: &crate::discovery::Document, content_type: &'static str) -> Response<Body> {
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

    fn other(self, _: &mut Printing) -> Result<Answer> {
        let path = self.path.trim_end_matches('/');
        let health = ["/healthz", "/livez", "/readyz"]
            .iter()
            .find_map(|p| path.strip_prefix(p))
            .filter(|rest| matches!(*rest, "" | "/ping" | "/etcd" | "/log"));
        if health.is_some() {
            return Ok(Answer::Reply(Reply {
                code: 200,
                content: crate::respond::Content::Text("ok".into()),
                warnings: vec![],
                wrote: None,
            }));
        }
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
                for path in ["/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"] {
                    paths.push(path.to_owned());
                }
                paths.sort();
                Reply::value(200, json!({"paths": paths}))
            }
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
                return crate::openapi::answer(&self.core, path, &self.query, &self.headers)
                    .map(|r| r.map_or_else(|| Answer::Reply(missing()), |r| Answer::Raw(Box::new(r))));
            }
            _ => not_a_path(),
        }))
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

/// What the path of a document that does not exist answers: nothing at all.
fn no_document() -> Reply {
    Reply {
        code: 404,
        content: crate::respond::Content::Stream { content_type: "", body: Body::empty() },
        warnings: vec![],
        wrote: None,
    }
}

/// What an unknown path answers.
pub(crate) fn not_a_path() -> Reply {
    Reply {
        code: 404,
        content: crate::respond::Content::Text("404 page not found\n".into()),
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
