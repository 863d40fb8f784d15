//! The acceptance scenarios of the specification, by number, in process on the sandbox.

mod changes;
mod failures;
mod lifecycle;
mod order;

use std::sync::Arc;

use serde_json::{Value, json};
use slipway_cluster::helm::{Driver, History, Status, Storage};
use slipway_cluster::{At, Cluster};
use slipway_event::{Events, Memory, Redactor, RunId, SystemClock};
use slipway_manifest::Gvk;
use slipway_release::Failure;
use slipway_release::apply::{self, Report};
use slipway_release::plan::{self, Content, Options, Plan, Request};
use slipway_release::resource::Origin;
use slipway_release::resource::Stored;
use slipway_release::resource::transform::Document;
use slipway_release::source::Rendered;
use slipway_sandbox::Sandbox;
use tokio_util::sync::CancellationToken;

/// A cluster, a release in it, and what is asked of it.
pub(crate) struct World {
    pub(crate) sandbox: Sandbox,
    pub(crate) cluster: Cluster,
    pub(crate) options: Options,
    pub(crate) apply: apply::Options,
    pub(crate) notes: String,
    pub(crate) values: Value,
    pub(crate) version: String,
    pub(crate) events: Events,
    pub(crate) heard: Arc<Memory>,
}

impl World {
    pub(crate) fn new() -> Self {
        let sandbox = Sandbox::builder().seed(1).build().expect("the sandbox starts");
        let cluster = Cluster::new(sandbox.client());
        let heard = Arc::new(Memory::default());
        let events =
            Events::new(RunId::generate(&SystemClock), Arc::new(SystemClock), Redactor::new(), heard.clone());
        Self {
            sandbox,
            cluster,
            options: Options::default(),
            apply: apply::Options::default(),
            notes: String::new(),
            values: json!({}),
            version: "1.0.0".into(),
            events,
            heard,
        }
    }

    pub(crate) fn request(&self, objects: &[Value]) -> Request {
        let document = |object: &Value| Document {
            object: object.clone(),
            origin: Origin::new("demo/templates/all.yaml"),
            stored: if object["metadata"]["annotations"].get("helm.sh/hook").is_some() {
                Stored::Hook
            } else {
                Stored::Regular
            },
        };
        let mut rendered = Rendered { notes: self.notes.clone(), ..Rendered::default() };
        rendered.documents = objects.iter().map(document).collect();
        rendered.values = self.values.as_object().cloned().unwrap_or_default();
        let metadata = json!({"apiVersion": "v2", "name": "demo", "version": self.version});
        rendered.chart.metadata = metadata.as_object().cloned().unwrap_or_default();
        self.with(Content::Rendered(Box::new(rendered)))
    }

    pub(crate) fn with(&self, content: Content) -> Request {
        Request { name: "demo".into(), namespace: "t1".into(), content, options: self.options.clone() }
    }

    pub(crate) async fn plan(&self, objects: &[Value]) -> Result<Plan, Failure> {
        plan::plan(&self.cluster, &self.request(objects), &self.events).await
    }

    pub(crate) async fn apply(&self, objects: &[Value]) -> Result<Report, Failure> {
        self.run(&self.request(objects)).await
    }

    pub(crate) async fn run(&self, request: &Request) -> Result<Report, Failure> {
        apply::apply(&self.cluster, request, &self.apply, &self.events, CancellationToken::new()).await
    }

    pub(crate) async fn deployed(&self, objects: &[Value]) -> Report {
        self.apply(objects).await.unwrap_or_else(|failure| panic!("{failure}"))
    }

    pub(crate) async fn get(&self, kind: &str, name: &str) -> Option<Value> {
        let group = match kind {
            "Deployment" => "apps",
            "Job" => "batch",
            _ => "",
        };
        let namespace = (kind != "Namespace").then_some("t1");
        self.cluster.get(&At::new(Gvk::new(group, "v1", kind), namespace, name)).await.expect("can be read")
    }

    pub(crate) async fn history(&self) -> History {
        let storage = Storage::new(self.cluster.clone(), Driver::Secret, "t1");
        storage.history("demo").await.expect("can be read")
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

pub(crate) fn text<'a>(value: &'a Option<Value>, pointer: &str) -> &'a str {
    value.as_ref().and_then(|value| value.pointer(pointer)).and_then(Value::as_str).unwrap_or_default()
}
