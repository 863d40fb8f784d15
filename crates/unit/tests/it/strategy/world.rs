//! A cluster with a release in it that is rolled out anew.

use std::time::Duration;

use serde_json::{Value, json};
use slipway_cluster::{ApplyOptions, Cluster, ListOptions, WriteOptions};
use slipway_event::Events;
use slipway_manifest::{Gvk, ObjectRef};
use slipway_release::{ExecuteOptions, PlanOptions, ReleaseContent, ReleaseRequest};
use slipway_sandbox::Sandbox;
use slipway_source::{Document, DocumentOrigin, RecordPart, RenderedSource};
use slipway_unit::strategy::{
    AbortOutcome, AbortRequest, MemoryLog, OWNED_BY_RUN, Pace, RolloutContext, Strategy, abort, deploy,
};
use slipway_unit::{DeployOutcome, UnitError};
use tokio_util::sync::CancellationToken;

pub(super) const NAMESPACE: &str = "shop";
const LEASE: Duration = Duration::from_millis(100);
const KINDS: [(&str, &str, &str); 6] = [
    ("apps", "v1", "Deployment"),
    ("", "v1", "Service"),
    ("", "v1", "ConfigMap"),
    ("", "v1", "Secret"),
    ("networking.k8s.io", "v1", "Ingress"),
    ("autoscaling", "v2", "HorizontalPodAutoscaler"),
];

pub(super) struct World {
    _sandbox: Sandbox,
    pub(super) cluster: Cluster,
    pub(super) options: ExecuteOptions,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let sandbox = Sandbox::builder().seed(seed).build().expect("the sandbox starts");
        // A run that is killed leaves its lock: the next one waits for its lease to end.
        let cluster = Cluster::new(sandbox.client()).with_lease(LEASE);
        let options = ExecuteOptions {
            logs: false,
            readiness_timeout: Some(Duration::from_secs(20)),
            ..ExecuteOptions::default()
        };
        Self { _sandbox: sandbox, cluster, options }
    }

    /// A world in which a release is deployed already.
    pub(super) async fn with_release(seed: u64, objects: &[Value]) -> Self {
        let world = Self::new(seed);
        world.release(objects).await;
        world
    }

    pub(super) async fn release(&self, objects: &[Value]) {
        let request = request(&rendered(objects));
        let events = Events::silent();
        let applied =
            slipway_release::apply(&self.cluster, &request, &self.options, &events, CancellationToken::new())
                .await;
        applied.unwrap_or_else(|failure| panic!("{failure}"));
    }

    pub(super) async fn deploy(
        &self,
        strategy: &Strategy,
        objects: &[Value],
        log: &MemoryLog,
    ) -> Result<DeployOutcome, UnitError> {
        let rendered = rendered(objects);
        let (request, events) = (request(&rendered), Events::silent());
        let context = RolloutContext {
            cluster: &self.cluster,
            request: &request,
            rendered: &rendered,
            options: &self.options,
            log,
            events: &events,
            cancel: CancellationToken::new(),
            pace: Pace::AsWritten,
        };
        deploy(strategy, &context).await
    }

    pub(super) async fn abort(&self, log: Option<&MemoryLog>) -> Result<AbortOutcome, UnitError> {
        let events = Events::silent();
        abort(&AbortRequest {
            cluster: &self.cluster,
            namespace: NAMESPACE,
            release: "demo",
            log: log.map(|log| log as _),
            events: &events,
            timeout: self.options.readiness_timeout,
        })
        .await
    }

    pub(super) async fn get(&self, kind: &str, name: &str) -> Option<Value> {
        self.cluster.get(&place(kind, name)).await.expect("can be read")
    }

    /// Writes an object as somebody else.
    pub(super) async fn create(&self, object: &Value, manager: &str) {
        let at = place(text(object, "/kind"), text(object, "/metadata/name"));
        let made = self.cluster.create(&at, object, &WriteOptions::for_manager(manager)).await;
        made.unwrap_or_else(|error| panic!("{error}"));
    }

    pub(super) async fn apply_as(&self, object: &Value, manager: &str) {
        let at = place(text(object, "/kind"), text(object, "/metadata/name"));
        let made = self.cluster.apply(&at, object, &ApplyOptions::new(manager)).await;
        made.unwrap_or_else(|error| panic!("{error}"));
    }

    /// Everything that carries the label of a rollout.
    pub(super) async fn leftovers(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (group, version, kind) in KINDS {
            let served = self.cluster.find_kind(&Gvk::new(group, version, kind)).await.expect("can be asked");
            let list = self
                .cluster
                .list(&served.expect("is served"), Some(NAMESPACE), &ListOptions::with_labels(OWNED_BY_RUN))
                .await
                .expect("can be listed");
            found.extend(list.items.iter().map(|item| ObjectRef::of(item).to_string()));
        }
        found
    }

    /// The image, the replicas and the ready replicas of a Deployment.
    pub(super) async fn stand(&self, name: &str) -> Option<(String, u64, u64)> {
        let live = self.get("Deployment", name).await?;
        let image = text(&live, "/spec/template/spec/containers/0/image").to_owned();
        let number = |pointer: &str| live.pointer(pointer).and_then(Value::as_u64).unwrap_or_default();
        Some((image, number("/spec/replicas"), number("/status/readyReplicas")))
    }
}

pub(super) fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn place(kind: &str, name: &str) -> ObjectRef {
    let gvk = match kind {
        "Deployment" => Gvk::new("apps", "v1", kind),
        "Ingress" => Gvk::new("networking.k8s.io", "v1", kind),
        "HorizontalPodAutoscaler" => Gvk::new("autoscaling", "v2", kind),
        "HTTPRoute" => Gvk::new("gateway.networking.k8s.io", "v1", kind),
        "PodDisruptionBudget" => Gvk::new("policy", "v1", kind),
        "CustomResourceDefinition" => {
            return ObjectRef::new(Gvk::new("apiextensions.k8s.io", "v1", kind), None, name);
        }
        _ => Gvk::new("", "v1", kind),
    };
    ObjectRef::new(gvk, Some(NAMESPACE), name)
}

pub(super) fn rendered(objects: &[Value]) -> RenderedSource {
    let document = |object: &Value| Document {
        object: object.clone(),
        origin: DocumentOrigin::new("demo/templates/all.yaml"),
        stored: RecordPart::Regular,
    };
    let metadata = json!({"apiVersion": "v2", "name": "demo", "version": "1.0.0"});
    RenderedSource {
        documents: objects.iter().map(document).collect(),
        metadata: metadata.as_object().cloned().unwrap_or_default(),
        ..RenderedSource::default()
    }
}

fn request(rendered: &RenderedSource) -> ReleaseRequest {
    ReleaseRequest {
        name: "demo".into(),
        namespace: NAMESPACE.into(),
        content: ReleaseContent::Rendered(Box::new(rendered.clone())),
        options: PlanOptions::default(),
    }
}

pub(super) fn deployment(image: &str, replicas: u64) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "api"}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": "api"}},
        "template": {"metadata": {"labels": {"app": "api"}}, "spec": {"containers": [{"name": "c", "image": image}]}}}})
}

pub(super) fn service() -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "api"},
        "spec": {"selector": {"app": "api"}, "ports": [{"port": 80}]}})
}

/// The objects of one version.
pub(super) fn version(image: &str, replicas: u64) -> Vec<Value> {
    vec![deployment(image, replicas), service()]
}

/// Lets the pods of a Deployment fail.
pub(super) fn failing(mut deployment: Value) -> Value {
    deployment["spec"]["template"]["metadata"]["annotations"] = json!({"sim/fail": "crashloop"});
    deployment
}

pub(super) fn strategy(text: &str) -> Strategy {
    Strategy::load(text, "strategy.yaml").unwrap_or_else(|problems| panic!("{problems}"))
}

pub(super) fn canary(steps: &str) -> Strategy {
    strategy(&format!(
        "type: canary\ntargets: [{{kind: Deployment, name: api}}]\ncanary: {{ steps: [{steps}], maxWeightError: 20 }}\n"
    ))
}
