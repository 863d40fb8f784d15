//! The service of a listener: the API with planned faults before it, and `/sandbox/…` to steer the sandbox
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
use slipway_http::server::ConnectionProof;
use tower::{Layer, Service};

use crate::auth::pki::CertificateAuthority;
use crate::auth::{self, User};
use crate::clock::{ClockSpeed, rfc3339};
use crate::http::fault::{FaultRule, FaultService};
use crate::http::negotiate::NegotiatedForm;
use crate::http::respond::{
    BoxError, PrintOptions, Reply, ReplyContent, ResponseBody, render_failure, render_reply,
};
use crate::http::service::{ApiService, CallerIdentity};
use crate::sandbox::Sandbox;
use crate::setting::{SettingError, parse_duration};
use crate::status::{NamedResource, Result as Answer, Status};
use crate::store::Snapshot;

/// Snapshots and imports may be long, up to here.
pub const LARGEST_SNAPSHOT: usize = 512 << 20;
const PREFIX: &str = "/sandbox/";

/// The credentials of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientCredentials {
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
    pub fn server(&self) -> SandboxServer {
        SandboxServer::new(self.clone(), None, ConnectionProof::default())
    }

    /// A token that makes its bearer `user`. It works as long as the sandbox's identity is kept.
    pub fn token_for(&self, user: &User, lifetime: Duration) -> ClientCredentials {
        let core = self.core();
        // Tokens outlive the jumps of a fast clock: their time is counted from the present either way.
        let now = core.clock.now();
        let expires = now.checked_add(lifetime).unwrap_or(jiff::Timestamp::MAX);
        ClientCredentials::Token(core.auth.key.sign_user(user, now, expires))
    }

    /// A client certificate that makes its holder `user`; it can name at most two groups.
    pub fn certificate_for(&self, user: &User) -> Result<ClientCredentials, SettingError> {
        let groups: Vec<String> =
            user.groups.iter().filter(|g| *g != "system:authenticated").cloned().collect();
        if groups.len() > CertificateAuthority::MOST_GROUPS {
            return Err(format!(
                "a certificate of the sandbox holds at most {} groups, not {}",
                CertificateAuthority::MOST_GROUPS,
                groups.len()
            )
            .into());
        }
        let made = self.authority().client_certificate(&user.name, &groups);
        let (certificate, key) = made.map_err(|e| e.to_string())?;
        Ok(ClientCredentials::Certificate { certificate, key })
    }
}

/// Serves one connection of a listener. Cheap to clone.
#[derive(Clone)]
pub struct SandboxServer {
    sandbox: Sandbox,
    certificate: Option<Arc<User>>,
    api: FaultService<ApiService>,
}

impl SandboxServer {
    /// `certificate` is who the connection's client certificate names.
    pub(crate) fn new(
        sandbox: Sandbox,
        certificate: Option<Arc<User>>,
        proof: ConnectionProof,
    ) -> SandboxServer {
        let caller = CallerIdentity::Network { certificate: certificate.clone(), proof };
        let api = ApiService::new(sandbox.core().clone(), caller);
        SandboxServer { api: sandbox.faults().layer(api), sandbox, certificate }
    }
}

impl<B> Service<Request<B>> for SandboxServer
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if !request.uri().path().starts_with(PREFIX) {
            return self.api.call(request);
        }
        let (sandbox, certificate) = (self.sandbox.clone(), self.certificate.clone());
        Box::pin(async move {
            let printing = PrintOptions { accept: NegotiatedForm::JSON, pretty: false, gzip: false };
            Ok(match steer_sandbox(&sandbox, certificate.as_ref(), request).await {
                Ok(reply) => render_reply(reply, printing),
                Err(status) => render_failure(&status, printing),
            })
        })
    }
}

async fn steer_sandbox<B>(
    sandbox: &Sandbox,
    certificate: Option<&Arc<User>>,
    request: Request<B>,
) -> Answer<Reply>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let (parts, body) = request.into_parts();
    authorize_steering(sandbox, &parts.headers, certificate, parts.uri.path())?;
    let body = Limited::new(body, LARGEST_SNAPSHOT).collect().await;
    let body = body.map_err(|e| Status::bad_request(e.to_string()))?.to_bytes();
    let what = parts.uri.path().strip_prefix(PREFIX).unwrap_or("").trim_end_matches('/');
    let reply = match (parts.method, what) {
        (Method::GET, "status") => Reply::value(200, sandbox_status(sandbox)),
        (Method::GET, "snapshot") => snapshot_reply(sandbox)?,
        (Method::PUT | Method::POST, "snapshot") => {
            let read = Snapshot::read(&mut &body[..]).map_err(|e| Status::bad_request(e.to_string()))?;
            sandbox.restore(&read);
            Reply::value(200, json!({"objects": read.len()}))
        }
        (Method::POST, "reset") => {
            sandbox.reset();
            Reply::value(200, sandbox_status(sandbox))
        }
        (Method::POST, "import") => {
            let collected = parse_request(&body)?;
            let report = sandbox.import(collected);
            Reply::value(200, serde_json::to_value(report).map_err(Status::internal)?)
        }
        (Method::GET, "clock") => Reply::value(200, clock_status(sandbox)),
        (Method::POST, "clock") => {
            let asked: AdvanceRequest = parse_request(&body)?;
            sandbox
                .advance(parse_duration(&asked.advance).map_err(|e| Status::bad_request(e.to_string()))?)
                .await;
            Reply::value(200, clock_status(sandbox))
        }
        (Method::POST, "settle") => {
            sandbox.settle().await;
            Reply::value(200, clock_status(sandbox))
        }
        (Method::POST, "compact") => {
            sandbox.store().compact_history();
            Reply::value(200, json!({"revision": sandbox.store().current_revision()}))
        }
        (Method::GET, "faults") => faults_reply(sandbox),
        (Method::POST, "faults") => {
            let rules: RuleList = parse_request(&body)?;
            let rules = match rules {
                RuleList::One(rule) => vec![*rule],
                RuleList::Many(rules) => rules,
            };
            for rule in rules {
                sandbox.faults().add(rule);
            }
            faults_reply(sandbox)
        }
        (Method::DELETE, "faults") => {
            sandbox.faults().clear();
            faults_reply(sandbox)
        }
        (Method::POST, "credentials") => credentials_reply(sandbox, &parse_request(&body)?)?,
        (_, "status" | "snapshot" | "reset" | "import" | "clock" | "settle" | "compact" | "faults") => {
            return Err(Status::method_not_allowed());
        }
        _ => return Ok(crate::http::documents::unknown_path()),
    };
    sandbox.durable().await.map_err(Status::internal)?;
    Ok(reply)
}

/// Refuses everybody but the administrator.
fn authorize_steering(
    sandbox: &Sandbox,
    headers: &HeaderMap,
    certificate: Option<&Arc<User>>,
    path: &str,
) -> Answer<()> {
    let user = auth::authenticate(sandbox.core(), headers, certificate)?;
    let user = auth::impersonate(sandbox.core(), headers, user)?;
    if user.is_master() {
        return Ok(());
    }
    let why = format!("User \"{}\" cannot steer the sandbox through \"{path}\"", user.name);
    Err(Status::forbidden(NamedResource { group: "", what: "" }, "", &why))
}

fn parse_request<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Answer<T> {
    serde_json::from_slice(body).map_err(|e| Status::bad_request(format!("the body cannot be read: {e}")))
}

fn sandbox_status(sandbox: &Sandbox) -> Value {
    let core = sandbox.core();
    let store = &core.store;
    let tables = store.table_names();
    json!({
        "version": format!("v{}", core.options.version),
        "rbac": core.options.rbac,
        "speed": speed_text(core.clock.speed()),
        "time": rfc3339(core.clock.now()),
        "revision": store.current_revision(),
        "objects": tables.iter().map(|t| store.count_objects(t)).sum::<usize>(),
        "resources": tables.iter().map(|t| (t.to_string(), store.count_objects(t).into())).collect::<serde_json::Map<_, _>>(),
        "faults": sandbox.faults().rules().len(),
    })
}

fn speed_text(speed: ClockSpeed) -> String {
    match speed {
        ClockSpeed::Real => "real".into(),
        ClockSpeed::Max => "max".into(),
        ClockSpeed::Manual => "manual".into(),
        ClockSpeed::Times(times) => times.to_string(),
    }
}

fn clock_status(sandbox: &Sandbox) -> Value {
    json!({"time": rfc3339(sandbox.clock().now()), "speed": speed_text(sandbox.clock().speed())})
}

fn snapshot_reply(sandbox: &Sandbox) -> Answer<Reply> {
    let mut out = Vec::new();
    sandbox.save(&mut out).map_err(Status::internal)?;
    // The snapshot must be readable again.
    if out.len() > LARGEST_SNAPSHOT {
        let most = LARGEST_SNAPSHOT >> 20;
        return Err(Status::internal(format!(
            "the objects take more than {most} MiB; nothing could load them"
        )));
    }
    let body = ResponseBody::whole(out);
    Ok(Reply {
        code: 200,
        content: ReplyContent::Stream { content_type: "application/jsonl", body },
        warnings: vec![],
        wrote: None,
    })
}

fn faults_reply(sandbox: &Sandbox) -> Reply {
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
struct AdvanceRequest {
    advance: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RuleList {
    Many(Vec<FaultRule>),
    One(Box<FaultRule>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CredentialsRequest {
    user: String,
    #[serde(default)]
    groups: Vec<String>,
    #[serde(default)]
    certificate: bool,
}

/// Credentials are valid as long as a sandbox is likely to be kept.
const LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);

fn credentials_reply(sandbox: &Sandbox, asked: &CredentialsRequest) -> Answer<Reply> {
    let groups: Vec<&str> = asked.groups.iter().map(String::as_str).collect();
    let user = User::new(&asked.user, &groups);
    if asked.user.is_empty() {
        return Err(Status::bad_request("the user needs a name"));
    }
    let made = if asked.certificate {
        sandbox.certificate_for(&user).map_err(|e| Status::bad_request(e.to_string()))?
    } else {
        sandbox.token_for(&user, LIFETIME)
    };
    let address = sandbox.core().options.address.get();
    let address = address.parse().map_err(Status::internal)?;
    let mut shown = match &made {
        ClientCredentials::Token(token) => json!({"token": token}),
        ClientCredentials::Certificate { certificate, key } => {
            json!({"certificate": certificate, "key": key})
        }
    };
    shown["kubeconfig"] = sandbox.kubeconfig_with(address, &made).into();
    shown["rbac"] = sandbox.core().options.rbac.into();
    Ok(Reply::value(201, shown))
}
