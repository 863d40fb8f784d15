//! The HTTP side of a process, the same on every replica.
//!
//! A request comes in through a listener with a role (`ListenerRole`), is matched to a handler by its path here, and every
//! handler does nothing but read and write objects. `access` says who may call, `form` reads bodies, `rate` counts.

mod access;
mod approvals;
mod bundles;
mod form;
mod rate;
mod reply;
mod timeline;
mod webhooks;

pub use access::tokens_schema;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use slipway_cluster::{Cluster, Error, WatchSink};
use slipway_event::{Clock, Redactor};
use slipway_http::server::{AcceptedConnection, ConnectionProof, ServerOptions, serve_connections};
use slipway_promotion::step::StepReconciler;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::access::{ApiAccess, IdentifiedCaller};
use self::rate::RateLimit;
pub(crate) use self::reply::{Refusal, Reply};
use self::reply::{json_reply, typed_reply};
use crate::metrics::MetricRegistry;
use crate::process::ProcessState;

/// Time limit for the arrival of a body.
const BODY_PATIENCE: Duration = Duration::from_secs(30);
/// The largest body of a webhook.
const LARGEST_DELIVERY: usize = 5 << 20;
/// The time requests under way are given when the process ends.
const DRAIN: Duration = Duration::from_secs(10);

/// The namespace and name of a bundle that changed last.
pub(crate) type ChangedBundle = Option<(String, String)>;

/// The paths a listener serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListenerRole {
    Api,
    Metrics,
    Probes,
}

/// The values of a query, the first of each name.
pub(crate) struct QueryValues(BTreeMap<String, String>);

impl QueryValues {
    fn of(query: Option<&str>) -> Self {
        let mut values = BTreeMap::new();
        for (name, value) in url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            values.entry(name.into_owned()).or_insert_with(|| value.into_owned());
        }
        Self(values)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}

/// Everything handlers work with.
pub(crate) struct ApiServer {
    pub(crate) cluster: Cluster,
    pub(crate) clock: Arc<dyn Clock>,
    access: ApiAccess,
    rate: RateLimit,
    /// Tells true deliveries from forged ones; carries nothing out.
    receiver: Option<StepReconciler>,
    pub(crate) metrics: Arc<MetricRegistry>,
    pub(crate) state: Arc<ProcessState>,
    changes: watch::Sender<ChangedBundle>,
    bundle_namespace: String,
    stop: CancellationToken,
}

/// What a server is made of.
pub(crate) struct ServerParts {
    pub(crate) cluster: Cluster,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) redactor: Redactor,
    pub(crate) receiver: Option<StepReconciler>,
    pub(crate) metrics: Arc<MetricRegistry>,
    pub(crate) state: Arc<ProcessState>,
    pub(crate) namespace: String,
    pub(crate) bundle_namespace: String,
    pub(crate) stop: CancellationToken,
}

impl ApiServer {
    pub(crate) fn new(parts: ServerParts) -> Arc<Self> {
        let ServerParts {
            cluster,
            clock,
            redactor,
            receiver,
            metrics,
            state,
            namespace,
            bundle_namespace,
            stop,
        } = parts;
        Arc::new(Self {
            access: ApiAccess::new(cluster.clone(), namespace, redactor),
            rate: RateLimit::default(),
            cluster,
            clock,
            receiver,
            metrics,
            state,
            changes: watch::Sender::new(None),
            bundle_namespace,
            stop,
        })
    }

    /// A sink for a watch of bundles: wakes those who wait for one.
    pub(crate) fn bundle_sink(self: &Arc<Self>) -> Arc<dyn WatchSink> {
        Arc::new(BundleSink(self.clone()))
    }

    /// Listens and serves until the process ends; returns the address.
    pub(crate) async fn listen(
        self: &Arc<Self>,
        role: ListenerRole,
        address: SocketAddr,
        mut options: ServerOptions,
    ) -> io::Result<(SocketAddr, tokio::task::JoinHandle<io::Result<()>>)> {
        let listener = TcpListener::bind(address).await?;
        let bound = listener.local_addr()?;
        options.drain = Some(DRAIN);
        let (server, stop) = (self.clone(), self.stop.clone());
        let service = move |connection: AcceptedConnection| {
            let (server, proof) = (server.clone(), connection.proof);
            tower::service_fn(move |request| {
                let (server, proof) = (server.clone(), proof.clone());
                async move { Ok::<_, Infallible>(server.answer(role, request, &proof).await) }
            })
        };
        let serving =
            async move { serve_connections(listener, options, service, stop.cancelled_owned()).await };
        Ok((bound, tokio::spawn(serving)))
    }

    async fn answer(&self, role: ListenerRole, request: Request<Incoming>, proof: &ConnectionProof) -> Reply {
        let path = request.uri().path().to_owned();
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let answered = match role {
            ListenerRole::Metrics => self.answer_metrics(&parts, request.method()),
            ListenerRole::Probes => self.answer_probe(&parts),
            ListenerRole::Api => {
                // Builds wait for minutes: connections of strangers make room for others, theirs do not.
                let caller = self.access.identify(request.headers(), self.clock.now()).await;
                if caller.is_ok() {
                    proof.mark_given();
                }
                Box::pin(self.answer_api(&parts, request, caller)).await
            }
        };
        answered.unwrap_or_else(Reply::from)
    }

    fn answer_metrics(&self, parts: &[&str], method: &Method) -> Result<Reply, Refusal> {
        if parts != ["metrics"] || method != Method::GET {
            return Err(unknown_path());
        }
        let text = self.metrics.text(&self.state, self.receiver.as_ref());
        Ok(typed_reply(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text))
    }

    fn answer_probe(&self, parts: &[&str]) -> Result<Reply, Refusal> {
        let plain =
            |status, text: &str| Ok(typed_reply(status, "text/plain; charset=utf-8", format!("{text}\n")));
        match parts {
            ["healthz" | "livez"] => plain(StatusCode::OK, "ok"),
            ["readyz"] if self.state.is_ready() => plain(StatusCode::OK, "ok"),
            ["readyz"] => plain(StatusCode::SERVICE_UNAVAILABLE, "not everything is read yet"),
            _ => Err(unknown_path()),
        }
    }

    async fn answer_api(
        &self,
        parts: &[&str],
        request: Request<Incoming>,
        caller: IdentifiedCaller,
    ) -> Result<Reply, Refusal> {
        let (head, body) = request.into_parts();
        let (method, headers) = (&head.method, &head.headers);
        let query = QueryValues::of(head.uri.query());
        let only = |wanted: Method| if *method == wanted { Ok(()) } else { Err(wrong_method(&wanted)) };
        match parts {
            ["api", "v1", "bundles"] => {
                only(Method::POST)?;
                let body = read_body(body, bundles::LARGEST).await?;
                self.create_bundle(&caller?, headers, &body).await
            }
            ["api", "v1", "bundles", namespace, name] => {
                only(Method::GET)?;
                self.show_bundle(&caller?, namespace, name).await
            }
            ["api", "v1", "bundles", namespace, name, "wait"] => {
                only(Method::GET)?;
                self.wait_for_bundle(&caller?, namespace, name, &query).await
            }
            ["api", "v1", "approvals", namespace, gate] => {
                only(Method::POST)?;
                let body = read_body(body, bundles::LARGEST).await?;
                self.take_approval(&caller?, headers, &body, namespace, gate).await
            }
            ["api", "v1", "timeline"] => {
                only(Method::GET)?;
                self.show_timeline(&caller?, &query).await
            }
            ["webhook", "scm", "health"] => {
                Ok(json_reply(StatusCode::OK, &serde_json::json!({"status": "ok"})))
            }
            ["webhooks"] | ["webhook", "scm"] => {
                only(Method::POST)?;
                let body = read_body(body, LARGEST_DELIVERY).await?;
                self.take_delivery(None, headers, &body).await
            }
            ["webhooks", "registry", namespace, name] => {
                only(Method::POST)?;
                // Registries say many things; all that counts is that they said something.
                read_body(body, LARGEST_DELIVERY).await?;
                self.poll_subscription(&caller?, namespace, name).await
            }
            ["webhooks", provider] => {
                only(Method::POST)?;
                let body = read_body(body, LARGEST_DELIVERY).await?;
                self.take_delivery(Some(provider), headers, &body).await
            }
            ["healthz" | "livez" | "readyz"] => self.answer_probe(parts),
            _ => Err(unknown_path()),
        }
    }
}

fn unknown_path() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "not-found", "nothing is served at this path")
}

fn wrong_method(allowed: &Method) -> Refusal {
    let message = format!("only {allowed} is served at this path");
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", message)
}

async fn read_body(body: Incoming, largest: usize) -> Result<Vec<u8>, Refusal> {
    let too_large = || {
        let message = format!("the body is larger than {largest} bytes");
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", message)
    };
    if hyper::body::Body::size_hint(&body).lower() > largest as u64 {
        return Err(too_large());
    }
    match tokio::time::timeout(BODY_PATIENCE, Limited::new(body, largest).collect()).await {
        Ok(Ok(read)) => Ok(read.to_bytes().to_vec()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Refusal::new(StatusCode::BAD_REQUEST, "invalid", "the body broke off")),
        Err(_) => {
            Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "timeout", "the body did not arrive in time"))
        }
    }
}

/// Wakes those who wait for a bundle.
struct BundleSink(Arc<ApiServer>);

impl BundleSink {
    fn tell(&self, object: &serde_json::Value) {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        self.0.changes.send_replace(Some((text("namespace"), text("name"))));
    }
}

impl WatchSink for BundleSink {
    fn list_began(&self) {}
    fn list_page(&self, objects: Vec<serde_json::Value>) {
        objects.iter().for_each(|object| self.tell(object));
    }
    fn list_ended(&self, _version: &str) {
        self.0.state.mark_synced();
    }
    fn changed(&self, object: serde_json::Value) {
        self.tell(&object);
    }
    fn deleted(&self, object: serde_json::Value) {
        self.tell(&object);
    }
    fn denied(&self, error: Error) {
        tracing::error!(%error, "bundles cannot be watched");
    }
}
