//! Workloads brought to life: what the controllers make of objects.

mod batch;
mod deployments;
mod network;
mod pods;
mod sets;
mod storage;

use serde_json::{Value, json};
use slipway_sandbox::{ClockSpeed, Sandbox};

use crate::client::{Client, MERGE, STRATEGIC};

pub(crate) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
pub(crate) const REPLICA_SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";

/// A cluster with simulated workloads.
pub(crate) struct World {
    pub(crate) sandbox: Sandbox,
    pub(crate) client: Client,
}

impl World {
    pub(crate) fn new() -> World {
        World::at(ClockSpeed::Max)
    }

    pub(crate) fn at(speed: ClockSpeed) -> World {
        let start = "2026-01-01T00:00:30Z".parse().unwrap();
        let sandbox = Sandbox::builder().speed(speed).start_at(start).seed(7).build().unwrap();
        let client = Client::new(&sandbox);
        World { sandbox, client }
    }

    /// Creates an object and lets everything happen that follows.
    pub(crate) async fn create(&self, path: &str, object: Value) -> Value {
        let answer = self.client.post(path, &object).await;
        assert_eq!(answer.code, 201, "{}", answer.text);
        self.sandbox.settle().await;
        answer.body
    }

    pub(crate) async fn patch(&self, path: &str, patch: Value) -> Value {
        let answer = self.client.patch(path, MERGE, &patch).await;
        assert_eq!(answer.code, 200, "{}", answer.text);
        self.sandbox.settle().await;
        answer.body
    }

    pub(crate) async fn merge(&self, path: &str, patch: Value) {
        let answer = self.client.patch(path, STRATEGIC, &patch).await;
        assert_eq!(answer.code, 200, "{}", answer.text);
        self.sandbox.settle().await;
    }

    pub(crate) async fn delete(&self, path: &str) {
        let answer = self.client.delete(path).await;
        assert!(answer.code < 300, "{}", answer.text);
        self.sandbox.settle().await;
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.client.get(path).await.body
    }

    pub(crate) async fn items(&self, path: &str) -> Vec<Value> {
        self.get(path).await["items"].as_array().cloned().unwrap_or_default()
    }

    /// Messages of the events with this reason, oldest first.
    pub(crate) async fn said(&self, reason: &str) -> Vec<String> {
        let mut events = self.items("/api/v1/namespaces/default/events").await;
        events.retain(|e| e["reason"] == reason);
        events.sort_by_key(|e| e["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap());
        events.iter().map(|e| e["message"].as_str().unwrap().to_owned()).collect()
    }
}

pub(crate) fn template(annotations: Value) -> Value {
    json!({
        "metadata": {"labels": {"app": "a"}, "annotations": annotations},
        "spec": {"containers": [{"name": "c", "image": "nginx:1"}]},
    })
}

pub(crate) fn deployment(replicas: i64, annotations: Value, more: Value) -> Value {
    let mut spec = json!({
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "a"}},
        "template": template(annotations),
    });
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec})
}

pub(crate) fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})
}

/// `[type, status, reason, message]` of each condition.
pub(crate) fn conditions(object: &Value) -> Vec<Value> {
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.iter().map(|c| json!([c["type"], c["status"], c["reason"], c["message"]])).collect()
}

/// Names of objects, sorted.
pub(crate) fn names(items: &[Value]) -> Vec<&str> {
    let mut names: Vec<&str> = items.iter().map(|i| i["metadata"]["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    names
}

/// A status without its conditions.
pub(crate) fn counts(object: &Value) -> Value {
    let mut status = object["status"].clone();
    status.as_object_mut().unwrap().shift_remove("conditions");
    status
}
