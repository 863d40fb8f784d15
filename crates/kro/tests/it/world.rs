//! A sandbox with the kinds of the tests, a controller on it, and a clock.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_cluster::{CallCounts, Cluster, DeleteOptions, Error, ObjectPatch, WatchSink, WriteOptions, crd};
use slipway_event::{Clock, ManualClock};
use slipway_kro::{ApiGroup, ControllerOptions, GraphController, definitions};
use slipway_manifest::{Gvk, ObjectRef};
use slipway_sandbox::Sandbox;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The cluster, and whoever works on it.
pub(crate) struct World {
    pub(crate) sandbox: Sandbox,
    /// The tests' own handle.
    pub(crate) cluster: Cluster,
    pub(crate) clock: Arc<ManualClock>,
    changed: Arc<Notify>,
    _watches: Vec<slipway_cluster::KindWatch>,
    running: Option<Running>,
}

struct Running {
    controller: GraphController,
    /// Counts what the controller sends.
    cluster: Cluster,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// Tells that a kind has changed in the embedded cluster since a version.
pub(crate) fn has_newer(
    store: &slipway_sandbox::Store,
    kind: &slipway_cluster::ServedKind,
    version: u64,
) -> bool {
    let table = format!("{}.{}", kind.plural, kind.gvk.group);
    store.events_after(&table, version, 1).is_ok_and(|events| !events.is_empty())
}

/// Wakes whoever waits for a change.
struct Bell(Arc<Notify>);

impl WatchSink for Bell {
    fn list_began(&self) {}
    fn list_page(&self, _objects: Vec<Value>) {}
    fn list_ended(&self, _version: &str) {
        self.0.notify_one();
    }
    fn changed(&self, _object: Value) {
        self.0.notify_one();
    }
    fn deleted(&self, _object: Value) {
        self.0.notify_one();
    }
    fn denied(&self, error: Error) {
        panic!("{error}");
    }
}

/// A kind whose spec and status may hold anything.
fn loose_definition(kind: &str) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.test.io")},
        "spec": {
            "group": "test.io", "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}},
            }],
        },
    })
}

pub(crate) fn at(kind: &str, name: &str) -> ObjectRef {
    ObjectRef::new(Gvk::new("test.io", "v1", kind), Some("default"), name)
}

pub(crate) fn graph_at(name: &str) -> ObjectRef {
    ObjectRef::new(ApiGroup::Experimental.graph(), Some("default"), name)
}

/// A node that makes a `Step`, let through when its status says so.
pub(crate) fn step(id: &str, spec: Value) -> Value {
    json!({
        "id": id,
        "readyWhen": [format!("${{{id}.status.state == 'Verified'}}")],
        "propagateWhen": [format!("${{{id}.status.state == 'Verified'}}")],
        "template": {"apiVersion": "test.io/v1", "kind": "Step", "metadata": {"name": id}, "spec": spec},
    })
}

impl World {
    /// A cluster with the definitions, and a controller that runs.
    pub(crate) async fn new() -> World {
        let mut world = World::without_controller().await;
        world.start();
        world
    }

    pub(crate) async fn without_controller() -> World {
        let sandbox = Sandbox::builder().without_workloads().seed(1).build().expect("the sandbox starts");
        let cluster = Cluster::new(sandbox.client());
        let mut all = definitions(ApiGroup::Experimental);
        all.extend(["Step", "Gate", "Bundle"].map(loose_definition));
        for definition in &all {
            let gvk = Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
            let name = definition["metadata"]["name"].as_str().expect("has a name");
            let created =
                cluster.create(&ObjectRef::new(gvk, None, name), definition, &WriteOptions::default()).await;
            created.expect("the definition is accepted");
            crd::wait_until_served(&cluster, definition, Duration::from_secs(20)).await.expect("is served");
        }
        let changed = Arc::new(Notify::new());
        let mut watches = Vec::new();
        for gvk in
            [ApiGroup::Experimental.graph(), at("Step", "").gvk, at("Gate", "").gvk, at("Bundle", "").gvk]
        {
            let kind = cluster.find_kind(&gvk).await.expect("discovery works").expect("is served");
            watches.push(cluster.watch_kind(&kind, None, Arc::new(Bell(changed.clone()))));
        }
        let clock = Arc::new(ManualClock::at("2026-04-10T12:00:00Z".parse().expect("is a time")));
        World { sandbox, cluster, clock, changed, _watches: watches, running: None }
    }

    /// Starts a controller that remembers nothing.
    pub(crate) fn start(&mut self) {
        self.start_with(Cluster::new(self.sandbox.client()), ControllerOptions::default());
    }

    pub(crate) fn start_with(&mut self, cluster: Cluster, options: ControllerOptions) {
        let controller = GraphController::new(&cluster, self.clock.clone(), options);
        let stop = CancellationToken::new();
        let (running, token) = (controller.clone(), stop.clone());
        let task = tokio::spawn(async move { running.run(token).await.expect("the controller runs") });
        self.running = Some(Running { controller, cluster, stop, task });
    }

    /// Ends the controller; what it remembers is lost.
    pub(crate) async fn stop(&mut self) {
        let Some(running) = self.running.take() else { return };
        running.stop.cancel();
        running.task.await.expect("the controller ends");
    }

    /// Ends the controller in the middle of whatever it does.
    pub(crate) async fn kill(&mut self) {
        let Some(running) = self.running.take() else { return };
        running.task.abort();
        let _ = running.task.await;
    }

    fn running(&self) -> &Running {
        self.running.as_ref().expect("the controller runs")
    }

    /// What the controller has sent so far.
    pub(crate) fn calls(&self) -> CallCounts {
        self.running().cluster.call_counts()
    }

    pub(crate) fn controller(&self) -> &GraphController {
        &self.running().controller
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.clock.advance(by);
        self.controller().clock_moved();
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Creates a Graph, or replaces the nodes of one.
    pub(crate) async fn graph(&self, name: &str, nodes: Value) {
        let at = graph_at(name);
        let manifest = json!({
            "apiVersion": at.gvk.api_version(), "kind": "Graph", "metadata": {"name": name},
            "spec": {"nodes": nodes},
        });
        match self.cluster.get(&at).await.expect("can be read") {
            None => self.cluster.create(&at, &manifest, &WriteOptions::default()).await.map(|_| ()),
            Some(_) => {
                let patch = ObjectPatch::Merge(json!({"spec": {"nodes": nodes}}));
                self.cluster.patch(&at, &patch, &WriteOptions::default(), None).await.map(|_| ())
            }
        }
        .expect("the Graph is accepted");
    }

    pub(crate) async fn create(&self, kind: &str, name: &str, spec: Value) {
        let manifest =
            json!({"apiVersion": "test.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec});
        self.cluster.create(&at(kind, name), &manifest, &WriteOptions::default()).await.expect("is created");
    }

    /// Writes the status of an object as its own controller would.
    pub(crate) async fn status(&self, kind: &str, name: &str, status: Value) {
        let patch = ObjectPatch::Merge(json!({"status": status}));
        let options = WriteOptions::for_manager("their-controller");
        self.cluster
            .patch(&at(kind, name), &patch, &options, Some("status"))
            .await
            .expect("status is written");
    }

    pub(crate) async fn patch(&self, at: &ObjectRef, patch: Value) {
        let options = WriteOptions::for_manager("somebody");
        self.cluster.patch(at, &ObjectPatch::Merge(patch), &options, None).await.expect("is patched");
    }

    pub(crate) async fn delete(&self, at: &ObjectRef) {
        self.cluster.delete(at, &DeleteOptions::default()).await.expect("is deleted");
    }

    pub(crate) async fn get(&self, kind: &str, name: &str) -> Option<Value> {
        self.cluster.get(&at(kind, name)).await.expect("can be read")
    }

    pub(crate) async fn exists(&self, kind: &str, name: &str) -> bool {
        self.get(kind, name).await.is_some()
    }

    pub(crate) async fn read_graph(&self, name: &str) -> Option<Value> {
        self.cluster.get(&graph_at(name)).await.expect("can be read")
    }

    /// The state of a node as the status of its Graph says.
    pub(crate) async fn state(&self, graph: &str, node: &str) -> String {
        let live = self.read_graph(graph).await.unwrap_or_default();
        let nodes = live["status"]["nodes"].as_array().cloned().unwrap_or_default();
        let found = nodes.iter().find(|one| one["id"] == node);
        found.and_then(|one| one["state"].as_str()).unwrap_or_default().to_owned()
    }

    /// Status and reason of a condition.
    pub(crate) async fn condition(&self, graph: &str, kind: &str) -> (String, String) {
        let live = self.read_graph(graph).await.unwrap_or_default();
        let conditions = live["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|one| one["type"] == kind).cloned().unwrap_or_default();
        let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
        (text("status"), text("reason"))
    }

    /// Waits until something holds; looks again whenever something changed, and now and then for what no watch tells.
    pub(crate) async fn until(&self, what: &str, holds: impl AsyncFn() -> bool) {
        let wait = async {
            while !holds().await {
                let _ = tokio::time::timeout(LOOK_EVERY, self.changed.notified()).await;
            }
        };
        if tokio::time::timeout(PATIENCE, wait).await.is_err() {
            let mut shown = String::new();
            for name in ["g", "h"] {
                if let Some(graph) = self.read_graph(name).await {
                    shown.push_str(&format!("\n{:#}", graph["status"]));
                }
            }
            panic!("two minutes passed and still not: {what}{shown}");
        }
    }

    /// Waits until the controller has seen everything and has nothing to do but wait for the clock.
    pub(crate) async fn settle(&self) {
        let calm = async {
            while !self
                .controller()
                .is_settled(&|kind, version| has_newer(self.sandbox.store(), kind, version))
            {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let calmed = tokio::time::timeout(PATIENCE, calm).await;
        assert!(calmed.is_ok(), "the controller never rests");
    }

    pub(crate) async fn until_state(&self, graph: &str, node: &str, state: &str) {
        let holds = async || self.state(graph, node).await == state;
        self.until(&format!("{graph}.{node} is {state}"), holds).await;
    }

    pub(crate) async fn until_exists(&self, kind: &str, name: &str) {
        self.until(&format!("{kind}/{name} exists"), async || self.exists(kind, name).await).await;
    }

    pub(crate) async fn until_gone(&self, kind: &str, name: &str) {
        self.until(&format!("{kind}/{name} is gone"), async || !self.exists(kind, name).await).await;
    }
}
