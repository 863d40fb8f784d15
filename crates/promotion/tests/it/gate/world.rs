//! A sandbox with the kinds of promotion, the reconcilers of gates, a clock, and a server to ask.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_cluster::{Cluster, ListOptions, WriteOptions, crd};
use slipway_event::{Clock, ManualClock};
use slipway_manifest::{Gvk, ObjectRef};
use slipway_promotion::gate::{GateEvaluator, GateReconciler};
use slipway_promotion::kinds::{
    self, AuditEvent, AuditEventSpec, Bundle, BundlePhase, BundleSpec, KindSpec, MetricCheck,
    MetricCheckSpec, PolicyGate, PolicyGateSpec, PromotionStepSpec, Resource, StepState,
};
use slipway_promotion::metric::MetricReconciler;
use slipway_promotion::window::WindowReconciler;
use slipway_promotion::{OutboundClients, OutboundPolicy, PromotionOptions, Requeue};
use slipway_sandbox::Sandbox;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::support::time;

const KINDS: &[&str] = &[
    "Pipeline",
    "Bundle",
    "PromotionStep",
    "PolicyGate",
    "MetricCheck",
    "ChangeWindow",
    "PRStatus",
    "AuditEvent",
];

pub(crate) struct World {
    _sandbox: Sandbox,
    pub(crate) cluster: Cluster,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) gates: GateReconciler,
    pub(crate) metrics: MetricReconciler,
    pub(crate) windows: WindowReconciler,
}

impl World {
    pub(crate) async fn start(now: &str) -> Self {
        Self::with_options(now, PromotionOptions::default()).await
    }

    pub(crate) async fn with_options(now: &str, options: PromotionOptions) -> Self {
        let sandbox = Sandbox::builder().without_workloads().seed(1).build().expect("the sandbox starts");
        let cluster = Cluster::new(sandbox.client());
        let clock = Arc::new(ManualClock::at(time(now)));
        let mut policy = OutboundPolicy::default();
        policy.addresses.allowed_hosts.insert("127.0.0.1".to_owned());
        let forbidden = "169.254.169.254".parse().expect("is an address");
        policy.addresses.known_hosts.insert("metadata.example".to_owned(), vec![forbidden]);
        let outbound = OutboundClients::new(policy, CancellationToken::new());
        let gates = GateReconciler::new(
            cluster.clone(),
            clock.clone(),
            Arc::new(GateEvaluator::new()),
            outbound.clone(),
            options,
        );
        let metrics = MetricReconciler::new(cluster.clone(), clock.clone(), outbound);
        let windows = WindowReconciler::new(cluster.clone(), clock.clone());
        let world = Self { _sandbox: sandbox, cluster, clock, gates, metrics, windows };
        for definition in kinds::definitions() {
            let kind = definition["spec"]["names"]["kind"].as_str().expect("has a kind");
            if KINDS.contains(&kind) {
                world.create(definition.clone()).await;
                let served = crd::wait_until_served(&world.cluster, &definition, Duration::from_secs(20));
                served.await.expect("is served");
            }
        }
        for namespace in ["team", "platform-policies"] {
            world
                .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))
                .await;
        }
        world
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn advance(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    /// Moves the clock to the moment a reconciler asked for.
    pub(crate) fn advance_to(&self, requeue: Requeue) {
        let Requeue::At(at) = requeue else { panic!("nothing was asked for") };
        let ahead = at.duration_since(self.now());
        self.clock.advance(Duration::try_from(ahead).unwrap_or_default());
    }

    pub(crate) async fn create(&self, object: Value) -> Value {
        let (group, version) = match object["apiVersion"].as_str().expect("has a version").split_once('/') {
            Some((group, version)) => (group, version),
            None => ("", object["apiVersion"].as_str().unwrap_or_default()),
        };
        let gvk = Gvk::new(group, version, object["kind"].as_str().expect("has a kind"));
        let name = object["metadata"]["name"].as_str().expect("has a name");
        let at = ObjectRef::new(gvk, object["metadata"]["namespace"].as_str(), name);
        let created = self.cluster.create(&at, &object, &WriteOptions::default()).await;
        created.unwrap_or_else(|error| panic!("{at}: {error}"))
    }

    async fn create_kind<S: KindSpec>(
        &self,
        namespace: &str,
        name: &str,
        labels: Value,
        spec: Value,
    ) -> Resource<S> {
        let metadata = json!({"name": name, "namespace": namespace, "labels": labels});
        let object = json!({"apiVersion": "kardinal.io/v1alpha1", "kind": S::KIND, "metadata": metadata, "spec": spec});
        kinds::parse(self.create(object).await).expect("is of its kind")
    }

    /// A bundle of `shop` that is being promoted.
    pub(crate) async fn bundle(&self, name: &str, labels: Value) -> Bundle {
        let spec = json!({"type": "image", "pipeline": "shop",
            "artifacts": {"images": [{"name": "shop", "reference": "ghcr.io/acme/shop:1.29.0"}]}});
        let bundle = self.create_kind::<BundleSpec>("team", name, labels, spec).await;
        let mut status = bundle.status.clone();
        status.phase = Some(BundlePhase::Promoting);
        kinds::patch_status(&self.cluster, &bundle, &status).await.expect("is written")
    }

    /// A step of the bundle in a state; verified when the clock says so.
    pub(crate) async fn step(&self, bundle: &str, environment: &str, state: StepState) {
        let name = format!("{bundle}-{environment}");
        let known = kinds::get::<PromotionStepSpec>(&self.cluster, "team", &name).await.expect("can be read");
        let step = match known {
            Some(step) => step,
            None => {
                let labels = json!({"kardinal.io/bundle": bundle, "kardinal.io/environment": environment});
                let spec = json!({"pipeline": "shop", "environment": environment, "bundleRef": bundle,
                    "git": {"url": "https://git.example/x"}});
                self.create_kind::<PromotionStepSpec>("team", &name, labels, spec).await
            }
        };
        let mut status = step.status.clone();
        status.state = Some(state);
        status.verified_at = (state == StepState::Verified).then(|| self.now());
        kinds::patch_status(&self.cluster, &step, &status).await.expect("is written");
    }

    /// A template of a gate in the namespace of the platform.
    pub(crate) async fn template(&self, name: &str, spec: Value) -> PolicyGate {
        let labels = json!({"kardinal.io/scope": "org", "kardinal.io/applies-to": "prod"});
        self.create_kind("platform-policies", name, labels, spec).await
    }

    /// The gate of `shop-1` before prod, made from a template as the translator makes it.
    pub(crate) async fn instance(&self, template: &PolicyGate, upstreams: &[&str]) -> PolicyGate {
        let mut spec = serde_json::to_value(&template.spec).expect("is JSON");
        let more = json!({
            "scope": "org", "pipeline": "shop", "environment": "prod", "bundleRef": "shop-1", "bundleNamespace": "team",
            "upstreamNames": upstreams,
            "templateRef": {"namespace": template.namespace(), "name": template.name(), "uid": template.metadata.uid},
        });
        for (key, value) in more.as_object().expect("is an object") {
            spec[key] = value.clone();
        }
        spec.as_object_mut().expect("is an object").remove("overrides");
        let labels = json!({
            "kardinal.io/instance": "true", "kardinal.io/bundle": "shop-1", "kardinal.io/environment": "prod",
            "kardinal.io/pipeline": "shop", "kardinal.io/gate-name": template.name(),
        });
        let name = format!("shop-1-prod-{}", template.name());
        self.create_kind("platform-policies", &name, labels, spec).await
    }

    pub(crate) async fn gate(&self, name: &str) -> PolicyGate {
        let found = kinds::get::<PolicyGateSpec>(&self.cluster, "platform-policies", name).await;
        found.expect("can be read").unwrap_or_else(|| panic!("{name} is there"))
    }

    /// Reconciles a gate and gives it with the moment it is to be looked at again.
    pub(crate) async fn reconcile(&self, gate: &PolicyGate) -> (PolicyGate, Requeue) {
        let requeue = self.gates.reconcile(&gate.reference()).await.expect("is reconciled");
        (self.gate(gate.name()).await, requeue)
    }

    pub(crate) async fn metric_check(&self, name: &str, spec: Value) -> MetricCheck {
        self.create_kind("platform-policies", name, json!({}), spec).await
    }

    pub(crate) async fn reconcile_metric(&self, check: &MetricCheck) -> (MetricCheck, Requeue) {
        let requeue = self.metrics.reconcile(&check.reference()).await.expect("is reconciled");
        let found = kinds::get::<MetricCheckSpec>(&self.cluster, check.namespace(), check.name()).await;
        (found.expect("can be read").expect("is there"), requeue)
    }

    pub(crate) async fn audit_events(&self) -> Vec<AuditEvent> {
        let all = kinds::list::<AuditEventSpec>(&self.cluster, Some("team"), &ListOptions::default()).await;
        all.expect("can be listed")
    }
}

const REDIRECT: u16 = 303;

/// A server that gives the same answer until it is told another.
pub(crate) struct Server {
    pub(crate) address: String,
    answer: Arc<Mutex<(u16, String)>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = format!("http://{}", listener.local_addr().expect("has an address"));
        let answer = Arc::new(Mutex::new((200, String::new())));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (answers, seen) = (answer.clone(), requests.clone());
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                let request = read_request(&mut connection).await;
                seen.lock().expect("is whole").push(request);
                let (status, body) = answers.lock().expect("is whole").clone();
                if status == 0 {
                    // Never answers; the connection stays open until the client gives up.
                    tokio::spawn(async move {
                        let mut rest = [0; 16];
                        let _ = connection.read(&mut rest).await;
                    });
                    continue;
                }
                let length = body.len();
                let location =
                    if status == REDIRECT { format!("location: {body}\r\n") } else { String::new() };
                let text = format!(
                    "HTTP/1.1 {status} X\r\n{location}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
                );
                let _ = connection.write_all(text.as_bytes()).await;
            }
        });
        Self { address, answer, requests }
    }

    pub(crate) fn answers(&self, status: u16, body: impl ToString) {
        *self.answer.lock().expect("is whole") = (status, body.to_string());
    }

    /// Sends whoever asks somewhere else from now on.
    pub(crate) fn redirects(&self, target: &str) {
        self.answers(REDIRECT, target);
    }

    /// Never answers from now on.
    pub(crate) fn hangs(&self) {
        self.answers(0, "");
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("is whole").clone()
    }
}

/// Reads a request with its body.
async fn read_request(connection: &mut tokio::net::TcpStream) -> String {
    let mut text = Vec::new();
    let mut part = [0; 4096];
    loop {
        let count = connection.read(&mut part).await.unwrap_or(0);
        text.extend_from_slice(&part[..count]);
        let shown = String::from_utf8_lossy(&text);
        let Some((head, body)) = shown.split_once("\r\n\r\n") else {
            if count == 0 {
                return shown.into_owned();
            }
            continue;
        };
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok()).flatten()
        });
        if count == 0 || body.len() >= length.unwrap_or(0) {
            return shown.into_owned();
        }
    }
}
