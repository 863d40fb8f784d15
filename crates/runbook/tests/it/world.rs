//! A sandbox, a runbook on it, and a wire in between that counts, meddles and breaks.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use slipway_cluster::Cluster;
use slipway_event::{Events, ManualClock, Memory, Redactor, RunId};
use slipway_manifest::{Gvk, ObjectRef};
use slipway_runbook::{
    Document, Inputs, LoadOptions, RunContext, RunError, RunOptions, RunReport, RunTarget, Variables, load,
};
use slipway_sandbox::{ApiService, FaultLayer, ResponseBody, Sandbox, User};
use slipway_source::{ChartReference, FetchError, FetchedChart, Fetcher, LoadContext};
use tokio_util::sync::CancellationToken;
use tower::Layer as _;

/// What happens to requests on their way.
#[derive(Clone)]
pub(crate) struct Wire {
    inner: ApiService,
    state: Arc<WireState>,
}

#[derive(Default)]
pub(crate) struct WireState {
    /// `METHOD path?query` of everything sent.
    pub(crate) sent: Mutex<Vec<String>>,
    pub(crate) count: AtomicU64,
    /// The request that never comes back, counted from 1; 0 is none.
    pub(crate) break_at: AtomicU64,
    /// Whether that request is served before its answer is lost.
    pub(crate) served: std::sync::atomic::AtomicBool,
    /// Fires when the wire broke.
    pub(crate) broken: CancellationToken,
    /// Annotations for the pods of jobs that are created.
    pub(crate) pods: Mutex<BTreeMap<String, String>>,
    /// Whether somebody puts a second container into the pods of jobs, before the first.
    pub(crate) sidecar: std::sync::atomic::AtomicBool,
    /// What happens when a request is sent, before it is served.
    pub(crate) react: Mutex<Option<Reaction>>,
    /// Requests that are served only once this many of them came, and a part of their lines.
    pub(crate) together: Mutex<Option<(&'static str, Arc<tokio::sync::Barrier>)>>,
    /// What comes back instead of being served, for requests with this method and part of a line.
    pub(crate) answers: Mutex<Vec<Answer>>,
    /// What was sent in the words of the specification's table of calls.
    calls: Mutex<Vec<String>>,
}

type Reaction = Box<dyn Fn(&str) + Send + Sync>;

/// An answer by other hands than the sandbox's.
pub(crate) struct Answer {
    pub(crate) method: &'static str,
    pub(crate) part: String,
    /// How often; it is never used up at `usize::MAX`.
    pub(crate) times: usize,
    pub(crate) what: Reply,
}

/// A code and a body, or trouble of the connection.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Body(u16, String),
    /// Nobody listens.
    Refused,
    /// The server's certificate is not trusted.
    Untrusted,
}

/// The answer to a request, if it is one that is not served.
fn scripted(state: &WireState, line: &str) -> Option<Result<Response<ResponseBody>, tower::BoxError>> {
    let mut answers = state.answers.lock().unwrap();
    let answer = answers
        .iter_mut()
        .find(|answer| answer.times > 0 && line.starts_with(answer.method) && line.contains(&answer.part))?;
    answer.times -= usize::from(answer.times != usize::MAX);
    Some(match answer.what.clone() {
        Reply::Refused => {
            let text = "tcp connect error: connection refused";
            Err(io::Error::new(io::ErrorKind::ConnectionRefused, text).into())
        }
        Reply::Untrusted => {
            let error = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
            Err(io::Error::new(io::ErrorKind::InvalidData, error).into())
        }
        Reply::Body(code, body) => {
            let body = futures::stream::once(async move { Ok(Bytes::from(body)) });
            let answer = Response::builder().status(code).header("content-type", "application/json");
            Ok(answer.body(ResponseBody::stream(body)).expect("is an answer"))
        }
    })
}

/// A request with the parts that matter: the query without what every request has, how a patch is made,
/// how a deletion is passed on.
fn call(parts: &http::request::Parts, body: &[u8]) -> String {
    let query = parts.uri.query().unwrap_or_default();
    let mut words: Vec<String> = query
        .split('&')
        .filter(|pair| {
            let key = pair.split('=').next().unwrap_or_default();
            !["", "fieldValidation", "limit", "timestamps"].contains(&key)
        })
        .map(|pair| pair.replace("%3D", "=").replace("%2C", ",").replace("%2F", "/"))
        .collect();
    words.sort();
    let mut line = format!("{} {}", parts.method, parts.uri.path());
    if !words.is_empty() {
        line.push_str(&format!("?{}", words.join("&")));
    }
    if parts.method == "PATCH" {
        let how = parts.headers.get("content-type").and_then(|how| how.to_str().ok()).unwrap_or_default();
        line.push_str(&format!(" {}", how.trim_start_matches("application/")));
    }
    if parts.method == "DELETE" {
        let options: Value = serde_json::from_slice(body).unwrap_or_default();
        line.push_str(&format!(" {}", options["propagationPolicy"].as_str().unwrap_or("as it likes")));
    }
    line
}

impl tower::Service<Request<kube::client::Body>> for Wire {
    type Response = Response<ResponseBody>;
    type Error = tower::BoxError;
    type Future = BoxFuture<'static, Result<Response<ResponseBody>, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let (state, mut inner) = (Arc::clone(&self.state), self.inner.clone());
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let path = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
            let line = format!("{} {path}", parts.method);
            state.sent.lock().unwrap().push(line.clone());
            if let Some(react) = &*state.react.lock().unwrap() {
                react(&line);
            }
            if let Some(answer) = scripted(&state, &line) {
                return answer;
            }
            let barrier = state.together.lock().unwrap().clone().filter(|(part, _)| line.contains(part));
            if let Some((_, barrier)) = barrier {
                barrier.wait().await;
            }
            let number = state.count.fetch_add(1, Ordering::SeqCst) + 1;
            let breaks = state.break_at.load(Ordering::SeqCst);
            // A process that is killed sends nothing afterwards either.
            let dead = breaks > 0 && number > breaks;
            let dies = breaks > 0 && number == breaks;
            if dead || (dies && !state.served.load(Ordering::SeqCst)) {
                state.broken.cancel();
                return std::future::pending().await;
            }
            let mut bytes = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            state.calls.lock().unwrap().push(call(&parts, &bytes));
            if state.sidecar.load(Ordering::SeqCst) && parts.method == "POST" && path.contains("/jobs") {
                let mut job: Value = serde_json::from_slice(&bytes).unwrap();
                let containers = job["spec"]["template"]["spec"]["containers"].as_array_mut().unwrap();
                containers.insert(0, json!({"name": "proxy", "image": "proxy"}));
                bytes = Bytes::from(job.to_string());
            }
            let pods = state.pods.lock().unwrap().clone();
            if !pods.is_empty() && parts.method == "POST" && path.contains("/jobs") {
                let mut job: Value = serde_json::from_slice(&bytes).unwrap();
                job["spec"]["template"]["metadata"]["annotations"] = json!(pods);
                bytes = Bytes::from(job.to_string());
            }
            let answer = tower::Service::call(&mut inner, Request::from_parts(parts, Full::new(bytes))).await;
            if dies {
                state.broken.cancel();
                return std::future::pending().await;
            }
            Ok(answer?)
        })
    }
}

/// Charts and files of a network that is a map.
#[derive(Default)]
pub(crate) struct Shelf {
    pub(crate) files: Mutex<BTreeMap<String, Vec<u8>>>,
    pub(crate) charts: Mutex<BTreeMap<String, PathBuf>>,
}

impl Fetcher for Shelf {
    fn fetch_chart<'a>(
        &'a self,
        chart: &'a ChartReference,
    ) -> BoxFuture<'a, Result<FetchedChart, FetchError>> {
        let found = self.charts.lock().unwrap().get(&chart.to_string()).cloned();
        let found = found.map(|path| FetchedChart { path, notes: Vec::new() });
        Box::pin(async move { found.ok_or_else(|| FetchError::new("404 Not Found")) })
    }

    fn fetch_file<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Vec<u8>, FetchError>> {
        let found = self.files.lock().unwrap().get(url).cloned();
        let name = slipway_source::shown_address(url);
        Box::pin(async move { found.ok_or_else(|| FetchError::new(format!("{name}: connection refused"))) })
    }
}

pub(crate) struct World {
    pub(crate) sandbox: Sandbox,
    /// Trouble on the run's way to the cluster.
    pub(crate) faults: FaultLayer,
    pub(crate) cluster: Cluster,
    pub(crate) wire: Arc<WireState>,
    pub(crate) dir: tempfile::TempDir,
    pub(crate) shelf: Arc<Shelf>,
    pub(crate) sources: LoadContext,
    pub(crate) events: Events,
    pub(crate) heard: Arc<Memory>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) redactor: Redactor,
    pub(crate) options: RunOptions,
    pub(crate) cancel: CancellationToken,
    pub(crate) set: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::on(Sandbox::builder().seed(1).build().expect("the sandbox starts"), User::admin())
    }

    pub(crate) fn on(sandbox: Sandbox, user: User) -> Self {
        let wire = Arc::new(WireState::default());
        let faults = FaultLayer::new(1);
        let cluster = wired(&sandbox, &wire, &faults, user);
        let heard = Arc::new(Memory::default());
        let redactor = Redactor::new();
        let shelf = Arc::new(Shelf::default());
        let clock = Arc::new(ManualClock::at(jiff::Timestamp::now()));
        let events = Events::new(RunId::generate(&*clock), clock.clone(), redactor.clone(), heard.clone());
        Self {
            sandbox,
            faults,
            cluster,
            wire,
            dir: tempfile::tempdir().expect("a directory"),
            sources: LoadContext {
                fetcher: shelf.clone(),
                redactor: redactor.clone(),
                ..LoadContext::default()
            },
            shelf,
            events,
            heard,
            clock,
            redactor,
            options: RunOptions::default(),
            cancel: CancellationToken::new(),
            set: Vec::new(),
            environment: Vec::new(),
        }
    }

    /// The same cluster over a new connection, as another process has it.
    pub(crate) fn reconnect(&mut self) {
        self.wire = Arc::new(WireState::default());
        self.cluster = wired(&self.sandbox, &self.wire, &self.faults, User::admin());
        self.cancel = CancellationToken::new();
    }

    pub(crate) fn place(&self) -> RunContext<'_> {
        RunContext {
            cluster: &self.cluster,
            base: self.dir.path(),
            sources: &self.sources,
            events: &self.events,
            poll: Duration::from_millis(10),
            target: RunTarget::Cluster,
        }
    }

    /// A document with these steps, and with a record if the head says so.
    pub(crate) fn document(&self, head: &str, steps: &str) -> Document {
        let text = format!(
            "apiVersion: khook.io/v1\nkind: Khook\nmetadata: {{name: demo}}\n{head}\nsteps:\n{steps}"
        );
        self.text(&text)
    }

    pub(crate) fn text(&self, text: &str) -> Document {
        let inputs =
            Inputs { set: self.set.clone(), environment: self.environment.clone(), ..Inputs::default() };
        let variables = Variables::gather(&inputs).expect("good variables");
        match load("f.yaml", text, &variables, LoadOptions::default(), &self.redactor) {
            Ok(loaded) => loaded.document,
            Err(found) => panic!("{}\n{text}", found.into_problems()),
        }
    }

    pub(crate) async fn try_apply(&self, document: &Document) -> Result<RunReport, RunError> {
        soon(slipway_runbook::apply(document, self.place(), &self.options, self.cancel.clone())).await
    }

    pub(crate) async fn apply(&self, steps: &str) -> RunReport {
        self.try_apply(&self.document("", steps)).await.expect("runs")
    }

    pub(crate) async fn apply_with(&self, head: &str, steps: &str) -> RunReport {
        self.try_apply(&self.document(head, steps)).await.expect("runs")
    }

    pub(crate) async fn destroy_with(&self, head: &str, steps: &str) -> RunReport {
        let document = self.document(head, steps);
        soon(slipway_runbook::destroy(&document, self.place(), &self.options, self.cancel.clone()))
            .await
            .expect("runs")
    }

    pub(crate) async fn get(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Option<Value> {
        let namespace = (!namespace.is_empty()).then_some(namespace);
        let at = ObjectRef::new(Gvk::from_api_version(api_version, kind), namespace, name);
        // Looked at from beside: the wire is the run's.
        let cluster = Cluster::new(self.sandbox.client());
        match cluster.get(&at).await {
            Ok(found) => found,
            Err(error) if error.is_absent() => None,
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) async fn config_map(&self, name: &str) -> Option<Value> {
        self.get("v1", "ConfigMap", "default", name).await
    }

    /// Puts an object there by other hands.
    pub(crate) async fn put(&self, object: Value) {
        let cluster = Cluster::new(self.sandbox.client());
        let gvk = slipway_manifest::object::gvk(&object);
        let kind = cluster.find_kind(&gvk).await.unwrap().expect("is served");
        let at = kind.object_ref(&object, "default");
        cluster
            .apply(&at, &object, &slipway_cluster::ApplyOptions::new("somebody"))
            .await
            .expect("can be written");
    }

    pub(crate) async fn remove(&self, api_version: &str, kind: &str, namespace: &str, name: &str) {
        let cluster = Cluster::new(self.sandbox.client());
        let namespace = (!namespace.is_empty()).then_some(namespace);
        let at = ObjectRef::new(Gvk::from_api_version(api_version, kind), namespace, name);
        cluster.delete(&at, &slipway_cluster::DeleteOptions::default()).await.expect("can be deleted");
    }

    /// The record, decoded.
    pub(crate) async fn record(&self) -> Option<Value> {
        use base64::Engine as _;
        let secret = self.get("v1", "Secret", "default", "khook-state-demo").await?;
        let text = secret["data"]["record.json"].as_str().expect("has a record");
        let bytes = base64::engine::general_purpose::STANDARD.decode(text).expect("is base64");
        Some(serde_json::from_slice(&bytes).expect("is JSON"))
    }

    pub(crate) fn file(&self, path: &str, text: &str) {
        write(&self.dir.path().join(path), text);
    }

    /// A chart with one template.
    pub(crate) fn chart(&self, name: &str, values: &str, template: &str) {
        self.file(&format!("{name}/Chart.yaml"), &format!("apiVersion: v2\nname: {name}\nversion: 1.0.0\n"));
        self.file(&format!("{name}/values.yaml"), values);
        self.file(&format!("{name}/templates/all.yaml"), template);
    }

    /// Requests sent so far, without what only asks what is served.
    pub(crate) fn sent(&self) -> Vec<String> {
        let sent = self.wire.sent.lock().unwrap().clone();
        sent.into_iter().filter(|line| !is_discovery(line)).collect()
    }

    /// Calls since the last time this was asked, without what only asks what is served; a call that is
    /// repeated until something happens counts once.
    pub(crate) fn calls(&self) -> Vec<String> {
        let mut calls = std::mem::take(&mut *self.wire.calls.lock().unwrap());
        calls.retain(|line| !is_discovery(line));
        calls.dedup();
        calls
    }

    /// Everything said so far, as text.
    pub(crate) fn said(&self) -> String {
        format!("{:?}", self.heard.drain())
    }
}

fn is_discovery(line: &str) -> bool {
    let path = line.split(' ').nth(1).unwrap_or_default().split('?').next().unwrap_or_default();
    ["/api", "/apis", "/version", "/api/v1"].contains(&path)
        || path.matches('/').count() == 3 && path.starts_with("/apis/")
}

fn wired(sandbox: &Sandbox, state: &Arc<WireState>, faults: &FaultLayer, user: User) -> Cluster {
    let wire = Wire { inner: sandbox.service_as(user), state: Arc::clone(state) };
    // A lock of a killed run is free after a moment.
    Cluster::new(kube::Client::new(faults.layer(wire), "default")).with_lease(Duration::from_millis(300))
}

pub(crate) fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("has a parent")).expect("can be made");
    std::fs::write(path, text).expect("can be written");
}

/// Tests wait for the sandbox's threads, never for longer than this.
pub(crate) async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(300), work).await.expect("takes far less than minutes")
}

/// `name status` of every step.
pub(crate) fn statuses(report: &RunReport) -> Vec<String> {
    report
        .steps
        .iter()
        .map(|step| format!("{} {}", step.name, slipway_runbook::state::node_word(step.status)))
        .collect()
}

pub(crate) fn error(report: &RunReport, step: &str) -> String {
    report.step(step).and_then(|step| step.error.clone()).unwrap_or_else(|| panic!("{report:#?}"))
}

/// An inline ConfigMap as a manifest source.
pub(crate) fn inline(name: &str, value: &str) -> String {
    format!(
        "{{inline: '{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}, data: {{key: \"{value}\"}}}}'}}"
    )
}

/// A step that applies one ConfigMap.
pub(crate) fn map_step(name: &str, more: &str) -> String {
    format!("  - {{name: {name}, apply: {{manifests: [{}]}}{more}}}\n", inline(name, "1"))
}

/// A step that never succeeds: what it deletes is not there.
pub(crate) fn bad_step(name: &str, more: &str) -> String {
    format!("  - {{name: {name}, delete: {{resource: configmap/none, ignoreNotFound: false}}{more}}}\n")
}
