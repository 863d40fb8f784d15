//! What a listener serves: the API with planned faults before it, and `/sandbox/…` to steer the sandbox
//! itself. Only `system:masters` may steer; `kubectl create --raw /sandbox/faults -f rule.json` works.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Limited};
use serde::Deserialize;
use serde_json::{Value, json};
use tower::{Layer, Service};

use crate::auth::pki::Authority;
use crate::auth::{self, User};
use crate::clock::{Speed, rfc3339};
use crate::http::fault::{FaultService, Rule};
use crate::http::negotiate::Accept;
use crate::http::net::ConnectionProof;
use crate::http::respond::{Body, BoxError, Content, Printing, Reply, refuse, render};
use crate::http::service::{ApiService, Caller};
use crate::sandbox::Sandbox;
use crate::status::{Named, Result as Answer, Status};
use crate::store::Snapshot;

/// Snapshots and imports may be long, up to here.
pub const LARGEST_SNAPSHOT: usize = 512 << 20;
const PREFIX: &str = "/sandbox/";

/// What somebody shows to be let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credentials {
    Token(String),
    /// PEM of both.
    Certificate {
        certificate: String,
        key: String,
    },
}

impl Sandbox {
    /// The service a listener puts on the network: callers show credentials, planned faults hit, and
    /// `/sandbox/…` steers the sandbox.
    pub fn server(&self) -> Server {
        Server::new(self.clone(), None, ConnectionProof::default())
    }

    /// A token that makes its bearer `user`. It works as long as the sandbox's identity is kept.
    pub fn token_for(&self, user: &User, lifetime: Duration) -> Credentials {
        let core = self.core();
        // Tokens outlive the jumps of a fast clock: their time is counted from the present either way.
        let now = core.clock.now();
        let expires = now.checked_add(lifetime).unwrap_or(jiff::Timestamp::MAX);
        Credentials::Token(core.auth.key.sign_user(user, now, expires))
    }

    /// A client certificate that makes its holder `user`; it can name at most two groups.
    pub fn certificate_for(&self, user: &User) -> Result<Credentials, String> {
        let groups: Vec<String> =
            user.groups.iter().filter(|g| *g != "system:authenticated").cloned().collect();
        if groups.len() > Authority::MOST_GROUPS {
            return Err(format!(
                "a certificate of the sandbox holds at most {} groups, not {}",
                Authority::MOST_GROUPS,
                groups.len()
            ));
        }
        let made = self.authority().client_certificate(&user.name, &groups);
        let (certificate, key) = made.map_err(|e| e.to_string())?;
        Ok(Credentials::Certificate { certificate, key })
    }
}

/// Serves one connection of a listener. Cheap to clone.
#[derive(Clone)]
pub struct Server {
    sandbox: Sandbox,
    certificate: Option<Arc<User>>,
    api: FaultService<ApiService>,
}

impl Server {
    /// `certificate` is who the connection's client certificate names.
    pub(crate) fn new(sandbox: Sandbox, certificate: Option<Arc<User>>, proof: ConnectionProof) -> Server {
        let caller = Caller::Network { certificate: certificate.clone(), proof };
        let api = ApiService::new(sandbox.core().clone(), caller);
        Server { api: sandbox.faults().layer(api), sandbox, certificate }
    }
}

impl<B> Service<Request<B>> for Server
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if !request.uri().path().starts_with(PREFIX) {
            return self.api.call(request);
        }
        let (sandbox, certificate) = (self.sandbox.clone(), self.certificate.clone());
        Box::pin(async move {
            let printing = Printing { accept: Accept::JSON, pretty: false, gzip: false };
            Ok(match steer(&sandbox, certificate.as_ref(), request).await {
                Ok(reply) => render(reply, printing),
                Err(status) => refuse(&status, printing),
            })
        })
    }
}

async fn steer<B>(sandbox: &Sandbox, certificate: Option<&Arc<User>>, request: Request<B>) -> Answer<Reply>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let (parts, body) = request.into_parts();
    allow(sandbox, &parts.headers, certificate, parts.uri.path())?;
    let body = Limited::new(body, LARGEST_SNAPSHOT).collect().await;
    let body = body.map_err(|e| Status::bad_request(e.to_string()))?.to_bytes();
    let what = parts.uri.path().strip_prefix(PREFIX).unwrap_or("").trim_end_matches('/');
    let reply = match (parts.method, what) {
        (Method::GET, "status") => Reply::value(200, status(sandbox)),
        (Method::GET, "snapshot") => snapshot(sandbox)?,
        (Method::PUT | Method::POST, "snapshot") => {
            let read = Snapshot::read(&mut &body[..]).map_err(|e| Status::bad_request(e.to_string()))?;
            sandbox.restore(&read);
            Reply::value(200, json!({"objects": read.len()}))
        }
        (Method::POST, "reset") => {
            sandbox.reset();
            Reply::value(200, status(sandbox))
        }
        (Method::POST, "import") => {
            let collected = parse(&body)?;
            let report = sandbox.import(collected);
            Reply::value(200, serde_json::to_value(report).map_err(Status::internal)?)
        }
        (Method::GET, "clock") => Reply::value(200, clock(sandbox)),
        (Method::POST, "clock") => {
            let asked: Advance = parse(&body)?;
            sandbox.advance(duration(&asked.advance).map_err(Status::bad_request)?).await;
            Reply::value(200, clock(sandbox))
        }
        (Method::POST, "settle") => {
            sandbox.settle().await;
            Reply::value(200, clock(sandbox))
        }
        (Method::POST, "compact") => {
            sandbox.store().compact();
            Reply::value(200, json!({"revision": sandbox.store().rev()}))
        }
        (Method::GET, "faults") => faults(sandbox),
        (Method::POST, "faults") => {
            let rules: Rules = parse(&body)?;
            let rules = match rules {
                Rules::One(rule) => vec![*rule],
                Rules::Many(rules) => rules,
            };
            for rule in rules {
                sandbox.faults().add(rule);
            }
            faults(sandbox)
        }
        (Method::DELETE, "faults") => {
            sandbox.faults().clear();
            faults(sandbox)
        }
        (Method::POST, "credentials") => credentials(sandbox, &parse(&body)?)?,
        (_, "status" | "snapshot" | "reset" | "import" | "clock" | "settle" | "compact" | "faults") => {
            return Err(Status::method_not_allowed());
        }
        _ => return Ok(crate::http::documents::not_a_path()),
    };
    sandbox.durable().await.map_err(Status::internal)?;
    Ok(reply)
}

/// Steering is for the administrator.
fn allow(sandbox: &Sandbox, headers: &HeaderMap, certificate: Option<&Arc<User>>, path: &str) -> Answer<()> {
    let user = auth::authenticate(sandbox.core(), headers, certificate)?;
    let user = auth::impersonate(sandbox.core(), headers, user)?;
    if user.is_master() {
        return Ok(());
    }
    let why = format!("User \"{}\" cannot steer the sandbox through \"{path}\"", user.name);
    Err(Status::forbidden(Named { group: "", what: "" }, "", &why))
}

fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Answer<T> {
    serde_json::from_slice(body).map_err(|e| Status::bad_request(format!("the body cannot be read: {e}")))
}

fn status(sandbox: &Sandbox) -> Value {
    let core = sandbox.core();
    let store = &core.store;
    let tables = store.tables();
    json!({
        "version": format!("v{}", core.options.version),
        "rbac": core.options.rbac,
        "speed": speed(core.clock.speed()),
        "time": rfc3339(core.clock.now()),
        "revision": store.rev(),
        "objects": tables.iter().map(|t| store.count(t)).sum::<usize>(),
        "resources": tables.iter().map(|t| (t.to_string(), store.count(t).into())).collect::<serde_json::Map<_, _>>(),
        "faults": sandbox.faults().rules().len(),
    })
}

fn speed(speed: Speed) -> String {
    match speed {
        Speed::Real => "real".into(),
        Speed::Max => "max".into(),
        Speed::Manual => "manual".into(),
        Speed::Times(times) => times.to_string(),
    }
}

fn clock(sandbox: &Sandbox) -> Value {
    json!({"time": rfc3339(sandbox.clock().now()), "speed": speed(sandbox.clock().speed())})
}

fn snapshot(sandbox: &Sandbox) -> Answer<Reply> {
    let mut out = Vec::new();
    sandbox.save(&mut out).map_err(Status::internal)?;
    // What is written must be readable again.
    if out.len() > LARGEST_SNAPSHOT {
        let most = LARGEST_SNAPSHOT >> 20;
        return Err(Status::internal(format!(
            "the objects take more than {most} MiB; nothing could load them"
        )));
    }
    let body = Body::whole(out);
    Ok(Reply {
        code: 200,
        content: Content::Stream { content_type: "application/jsonl", body },
        warnings: vec![],
        wrote: None,
    })
}

fn faults(sandbox: &Sandbox) -> Reply {
    let rules: Vec<Value> = sandbox
        .faults()
        .rules()
        .into_iter()
        .map(|(rule, hits)| {
            let mut shown = serde_json::to_value(rule).unwrap_or_default();
            shown["hits"] = hits.into();
            shown
        })
        .collect();
    Reply::value(200, json!({"rules": rules}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Advance {
    advance: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Rules {
    Many(Vec<Rule>),
    One(Box<Rule>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    user: String,
    #[serde(default)]
    groups: Vec<String>,
    #[serde(default)]
    certificate: bool,
}

/// Users come back as long as a sandbox is likely to be kept.
const LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);

fn credentials(sandbox: &Sandbox, asked: &Asked) -> Answer<Reply> {
    let groups: Vec<&str> = asked.groups.iter().map(String::as_str).collect();
    let user = User::new(&asked.user, &groups);
    if asked.user.is_empty() {
        return Err(Status::bad_request("the user needs a name"));
    }
    let made = if asked.certificate {
        sandbox.certificate_for(&user).map_err(Status::bad_request)?
    } else {
        sandbox.token_for(&user, LIFETIME)
    };
    let address = sandbox.core().options.address.get();
    let address = address.parse().map_err(Status::internal)?;
    let mut shown = match &made {
        Credentials::Token(token) => json!({"token": token}),
        Credentials::Certificate { certificate, key } => json!({"certificate": certificate, "key": key}),
    };
    shown["kubeconfig"] = sandbox.kubeconfig_with(address, &made).into();
    shown["rbac"] = sandbox.core().options.rbac.into();
    Ok(Reply::value(201, shown))
}

/// `200ms`, `3s`, `10m`, `1h30m`, or a number of seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).map_err(|e| format!("`{text}` is no duration: {e}"));
    }
    let parsed: jiff::SignedDuration =
        text.parse().map_err(|_| format!("`{text}` is no duration: write 200ms, 3s, 10m or 1h30m"))?;
    Duration::try_from(parsed).map_err(|_| format!("`{text}` is negative"))
}
