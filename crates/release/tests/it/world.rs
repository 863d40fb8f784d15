//! A cluster, a release in it, and what is asked of it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_chart::UserValues;
use slipway_cluster::helm::{Driver, History, Status, Storage};
use slipway_cluster::{Cluster, Retry, WriteOptions};
use slipway_event::{Clock, Events, Memory, Redactor, RunId, SystemClock};
use slipway_manifest::{Gvk, ObjectRef};
use slipway_release::{
    Content, ExecuteOptions, Failure, PlanOptions, ReleasePlan, ReleaseRequest, Report, apply, plan,
};
use slipway_sandbox::{FaultLayer, Sandbox};
use slipway_source::{
    Document, LoadContext, LoadedSource, Origin, RenderedSource, SourcePath, SourceRequest, Stored,
};
use tokio_util::sync::CancellationToken;
use tower::Layer;

use crate::tap::Tap;

pub(crate) struct World {
    pub(crate) sandbox: Sandbox,
    pub(crate) cluster: Cluster,
    pub(crate) options: PlanOptions,
    pub(crate) apply: ExecuteOptions,
    pub(crate) notes: String,
    pub(crate) values: Value,
    pub(crate) version: String,
    /// Definitions of `crds/`.
    pub(crate) aside: Vec<Value>,
    pub(crate) events: Events,
    pub(crate) heard: Arc<Memory>,
}

/// Time as a paused runtime tells it.
pub(crate) struct Virtual {
    base: Timestamp,
    started: tokio::time::Instant,
}

impl Clock for Virtual {
    fn now(&self) -> Timestamp {
        self.base.saturating_add(self.started.elapsed()).expect("is in range")
    }
}

fn events(clock: Arc<dyn Clock>) -> (Events, Arc<Memory>) {
    let heard = Arc::new(Memory::default());
    (Events::new(RunId::generate(&*clock), clock, Redactor::new(), heard.clone()), heard)
}

impl World {
    pub(crate) fn new() -> Self {
        Self::on(Sandbox::builder().seed(1).build().expect("the sandbox starts"))
    }

    /// Without controllers of workloads: nothing happens but what is written, so time may be virtual.
    pub(crate) fn bare() -> Self {
        let sandbox = Sandbox::builder().seed(1).without_workloads().build().expect("the sandbox starts");
        let mut world = Self::on(sandbox);
        let clock = Virtual { base: Timestamp::now(), started: tokio::time::Instant::now() };
        (world.events, world.heard) = events(Arc::new(clock));
        world
    }

    pub(crate) fn on(sandbox: Sandbox) -> Self {
        let cluster = Cluster::new(sandbox.client());
        let (events, heard) = events(Arc::new(SystemClock));
        Self {
            sandbox,
            cluster,
            options: PlanOptions::default(),
            apply: ExecuteOptions::default(),
            notes: String::new(),
            values: json!({}),
            version: "1.0.0".into(),
            aside: Vec::new(),
            events,
            heard,
        }
    }

    /// The same world seen through a tap.
    pub(crate) fn tapped(self) -> (Self, Tap) {
        let tap = Tap::on(self.sandbox.service());
        (Self { cluster: Cluster::new(tap.client()), ..self }, tap)
    }

    /// The same world through trouble, with little patience between attempts.
    pub(crate) fn troubled(self, faults: &FaultLayer) -> Self {
        let client = kube::Client::new(faults.layer(self.sandbox.service()), "default");
        Self { cluster: Cluster::new(client).with_retry(hasty()), ..self }
    }

    /// The same world at a later time.
    pub(crate) fn later(self, by: Duration) -> Self {
        let now = Timestamp::now().saturating_add(by).expect("is in range");
        let (events, heard) = events(Arc::new(slipway_event::ManualClock::at(now)));
        Self { events, heard, ..self }
    }

    pub(crate) fn request(&self, objects: &[Value]) -> ReleaseRequest {
        let document = |object: &Value, stored| Document {
            object: object.clone(),
            origin: Origin::new("demo/templates/all.yaml"),
            stored,
        };
        let stored = |object: &Value| {
            let is_hook = object["metadata"]["annotations"].get("helm.sh/hook").is_some();
            if is_hook { Stored::Hook } else { Stored::Regular }
        };
        let mut rendered = RenderedSource { notes: self.notes.clone(), ..RenderedSource::default() };
        rendered.documents = objects.iter().map(|object| document(object, stored(object))).collect();
        rendered.documents.extend(self.aside.iter().map(|object| document(object, Stored::Aside)));
        rendered.values = self.values.as_object().cloned().unwrap_or_default();
        let metadata = json!({"apiVersion": "v2", "name": "demo", "version": self.version});
        rendered.metadata = metadata.as_object().cloned().unwrap_or_default();
        self.with(Content::Rendered(Box::new(rendered)))
    }

    /// A request for the source at a path, as it is now.
    pub(crate) fn source(&self, path: &std::path::Path, values: UserValues) -> ReleaseRequest {
        let found = SourcePath::detect(path).unwrap_or_else(|problem| panic!("{problem}"));
        let request = SourceRequest { values, ..SourceRequest::default() };
        let loaded = LoadedSource::load(&found, request, &LoadContext::default(), &mut Vec::new());
        self.with(Content::Source(Arc::new(loaded.unwrap_or_else(|error| panic!("{error}")))))
    }

    pub(crate) fn with(&self, content: Content) -> ReleaseRequest {
        ReleaseRequest { name: "demo".into(), namespace: "t1".into(), content, options: self.options.clone() }
    }

    pub(crate) async fn plan(&self, objects: &[Value]) -> Result<ReleasePlan, Failure> {
        plan(&self.cluster, &self.request(objects), &self.events).await
    }

    pub(crate) async fn apply(&self, objects: &[Value]) -> Result<Report, Failure> {
        self.run(&self.request(objects)).await
    }

    pub(crate) async fn run(&self, request: &ReleaseRequest) -> Result<Report, Failure> {
        self.run_until(request, CancellationToken::new()).await
    }

    pub(crate) async fn run_until(
        &self,
        request: &ReleaseRequest,
        cancel: CancellationToken,
    ) -> Result<Report, Failure> {
        apply(&self.cluster, request, &self.apply, &self.events, cancel).await
    }

    pub(crate) async fn deployed(&self, objects: &[Value]) -> Report {
        self.apply(objects).await.unwrap_or_else(|failure| panic!("{failure}"))
    }

    pub(crate) async fn failed(&self, objects: &[Value]) -> Failure {
        match self.apply(objects).await {
            Ok(report) => panic!("it succeeded: {report:?}"),
            Err(failure) => failure,
        }
    }

    pub(crate) async fn delete(&self) -> Report {
        self.run(&self.with(Content::Nothing)).await.unwrap_or_else(|failure| panic!("{failure}"))
    }

    pub(crate) async fn get(&self, kind: &str, name: &str) -> Option<Value> {
        self.cluster.get(&place(kind, name)).await.expect("can be read")
    }

    /// Writes an object as somebody else.
    pub(crate) async fn create(&self, manager: &str, object: &Value) {
        let at = place(
            object["kind"].as_str().expect("has a kind"),
            object["metadata"]["name"].as_str().expect("has a name"),
        );
        let options = WriteOptions::manager(manager);
        self.cluster.create(&at, object, &options).await.unwrap_or_else(|error| panic!("{error}"));
    }

    /// Makes the namespace before the release does.
    pub(crate) async fn settle_in(&self) {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "t1"}});
        self.create("kubectl", &namespace).await;
    }

    pub(crate) fn storage(&self) -> Storage {
        Storage::new(self.cluster.clone(), self.options.driver, "t1")
    }

    pub(crate) async fn history(&self) -> History {
        self.storage().history("demo").await.expect("can be read")
    }

    /// The status of every revision.
    pub(crate) async fn statuses(&self) -> Vec<(u32, Status)> {
        let history = self.history().await;
        history.releases.iter().map(|release| (release.version, release.info.status)).collect()
    }

    /// Everything said so far, as text.
    pub(crate) fn said(&self) -> String {
        format!("{:?}", self.heard.drain())
    }
}

/// Retries that do not take long.
pub(crate) fn hasty() -> Retry {
    Retry { first: Duration::from_millis(1), longest: Duration::from_millis(20), ..Retry::default() }
}

/// Where an object of the release's namespace lives.
pub(crate) fn place(kind: &str, name: &str) -> ObjectRef {
    let (group, version, namespaced) = match kind {
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" => ("apps", "v1", true),
        "Job" | "CronJob" => ("batch", "v1", true),
        "Role" | "RoleBinding" => ("rbac.authorization.k8s.io", "v1", true),
        "CustomResourceDefinition" => ("apiextensions.k8s.io", "v1", false),
        "PriorityClass" => ("scheduling.k8s.io", "v1", false),
        "StorageClass" => ("storage.k8s.io", "v1", false),
        "Ingress" => ("networking.k8s.io", "v1", true),
        "Boat" => ("example.com", "v1", true),
        "Namespace" => ("", "v1", false),
        _ => ("", "v1", true),
    };
    ObjectRef::new(Gvk::new(group, version, kind), namespaced.then_some("t1"), name)
}

pub(crate) fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": value}})
}

pub(crate) fn annotated(mut object: Value, annotations: Value) -> Value {
    object["metadata"]["annotations"] = annotations;
    object
}

pub(crate) fn deployment(name: &str, image: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
        "replicas": 1, "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": image}]}}}})
}

pub(crate) fn job(name: &str, image: &str) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "c", "image": image}]}}}})
}

/// Tells the sandbox what becomes of a workload's pods.
pub(crate) fn fated(mut workload: Value, fate: Value) -> Value {
    workload["spec"]["template"]["metadata"]["annotations"] = fate;
    workload
}

/// The definition of a kind without rules.
pub(crate) fn boats() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"kind": "Boat", "plural": "boats", "singular": "boat", "listKind": "BoatList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

pub(crate) fn boat(name: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": name}, "spec": {"sails": 2}})
}

pub(crate) fn text<'a>(value: &'a Option<Value>, pointer: &str) -> &'a str {
    value.as_ref().and_then(|value| value.pointer(pointer)).and_then(Value::as_str).unwrap_or_default()
}

/// A history record in the other storage.
pub(crate) const CONFIG_MAPS: Driver = Driver::ConfigMap;
