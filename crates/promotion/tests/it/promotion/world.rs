//! A whole cluster: sandbox, forge and the promotion controller, with a clock that is moved by hand.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_cluster::{
    Cluster, DeleteOptions, Error, ListOptions, ObjectPatch, WatchSink, WriteOptions, crd,
};
use slipway_event::{Clock as _, ManualClock, Redactor};
use slipway_git::{CacheOptions, Git, GitCall, GitProgram, RepositoryCache};
use slipway_kro::ApiGroup;
use slipway_manifest::{Gvk, ObjectRef};
use slipway_process::{ProgramError, ProgramOutput};
use slipway_promotion::kinds::{
    self, Bundle, BundlePhase, BundleSpec, KindSpec, Pipeline, PipelineSpec, PolicyGate, PolicyGateSpec,
    PromotionStep, PromotionStepSpec, Resource, StepState, labels,
};
use slipway_promotion::{PromotionController, PromotionServices, PromotionSettings};
use slipway_sandbox::Sandbox;
use slipway_scm::WebhookSecret;
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::forge::{Forge, TOKEN, WEBHOOK_SECRET};
use crate::steps::world::{DEPLOYMENT, KUSTOMIZATION};

pub(crate) const NAMESPACE: &str = "default";
/// The longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub(crate) const POLICY: &str = "platform-policies";

/// The cluster, the forge, and the controller that works on them.
pub(crate) struct World {
    pub(crate) sandbox: Sandbox,
    pub(crate) cluster: Cluster,
    pub(crate) forge: Forge,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) disk: Arc<Disk>,
    changed: Arc<Notify>,
    caches: TempDir,
    _watches: Vec<slipway_cluster::KindWatch>,
    running: Option<Running>,
    started: u32,
}

/// Git on a disk that may be full.
#[derive(Default)]
pub(crate) struct Disk {
    git: Git,
    is_full: AtomicBool,
}

impl Disk {
    pub(crate) fn fill(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::SeqCst);
    }
}

impl GitProgram for Disk {
    fn run(&self, call: GitCall) -> BoxFuture<'_, Result<ProgramOutput, ProgramError>> {
        if !self.is_full.load(Ordering::SeqCst) || !matches!(call.command(), "fetch" | "init") {
            return self.git.run(call);
        }
        let told = ProgramOutput {
            status: std::process::ExitStatus::from_raw(128 << 8),
            stdout: Vec::new(),
            stderr: b"fatal: write error: No space left on device\n".to_vec(),
        };
        std::future::ready(Ok(told)).boxed()
    }
}

pub(crate) struct Running {
    pub(crate) controller: PromotionController,
    cluster: Cluster,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.expect("the controller ends");
    }
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

pub(crate) async fn install(cluster: &Cluster) {
    let all = kinds::definitions().into_iter().chain(slipway_kro::definitions(ApiGroup::Experimental));
    for definition in all {
        let gvk = Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let name = definition["metadata"]["name"].as_str().expect("has a name");
        let at = ObjectRef::new(gvk, None, name);
        cluster.create(&at, &definition, &WriteOptions::default()).await.expect("is accepted");
        crd::wait_until_served(cluster, &definition, Duration::from_secs(20)).await.expect("is served");
    }
}

impl World {
    /// A repository with the files of these environments, and a controller.
    pub(crate) async fn new(environments: &[&str]) -> Self {
        Self::with_files(environments, &[]).await
    }

    /// The same with other files besides; they win.
    pub(crate) async fn with_files(environments: &[&str], extra: &[(&str, &str)]) -> Self {
        let mut files: Vec<(String, String)> = Vec::new();
        for environment in environments {
            files.push((format!("environments/{environment}/kustomization.yaml"), KUSTOMIZATION.to_owned()));
            files.push((format!("environments/{environment}/deployment.yaml"), DEPLOYMENT.to_owned()));
        }
        files.extend(extra.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())));
        let files: Vec<(&str, &str)> =
            files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let forge = Forge::start(&files).await;
        let sandbox = Sandbox::builder().without_workloads().seed(1).build().expect("the sandbox starts");
        let cluster = Cluster::new(sandbox.client());
        install(&cluster).await;
        let changed = Arc::new(Notify::new());
        let mut watches = Vec::new();
        let graph = ApiGroup::Experimental.graph();
        for gvk in
            [PipelineSpec::gvk(), BundleSpec::gvk(), PromotionStepSpec::gvk(), PolicyGateSpec::gvk(), graph]
        {
            let kind = cluster.find_kind(&gvk).await.expect("discovery works").expect("is served");
            watches.push(cluster.watch_kind(&kind, None, Arc::new(Bell(changed.clone()))));
        }
        // A Friday.
        let clock = Arc::new(ManualClock::at("2026-04-10T12:00:00Z".parse().expect("is a time")));
        let caches = tempfile::tempdir().expect("a directory");
        let mut world = Self {
            sandbox,
            cluster,
            forge,
            clock,
            disk: Arc::default(),
            changed,
            caches,
            _watches: watches,
            running: None,
            started: 0,
        };
        world.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": POLICY}})).await;
        world.credentials(NAMESPACE, TOKEN).await;
        world.start();
        world
    }

    /// Starts a controller that remembers nothing.
    pub(crate) fn start(&mut self) {
        self.running = Some(self.launch());
    }

    /// Starts another controller beside the one that runs.
    pub(crate) fn launch(&mut self) -> Running {
        self.started += 1;
        let cluster = Cluster::new(self.sandbox.client());
        let stop = CancellationToken::new();
        let place = self.caches.path().join(format!("life-{}", self.started));
        let repositories = RepositoryCache::open(
            place,
            CacheOptions::default(),
            self.disk.clone(),
            self.clock.clone(),
            stop.clone(),
        );
        let services = PromotionServices {
            cluster: cluster.clone(),
            clock: self.clock.clone(),
            repositories: repositories.expect("the cache opens"),
            redactor: Redactor::new(),
            stop: stop.clone(),
        };
        let mut settings = PromotionSettings::default();
        settings.steps.scm.settle_pause = Duration::from_millis(1);
        settings.steps.webhook_secret = Some(WebhookSecret::new(WEBHOOK_SECRET));
        settings.steps.outbound.addresses.allowed_hosts.insert("127.0.0.1".to_owned());
        let controller = PromotionController::new(services, settings);
        let working = controller.clone();
        let task = tokio::spawn(async move { working.run().await.expect("the controller runs") });
        Running { controller, cluster, stop, task }
    }

    /// Removes everything the controller that runs keeps on disk.
    pub(crate) fn wipe_cache(&self) {
        let place = self.caches.path().join(format!("life-{}", self.started));
        for entry in std::fs::read_dir(&place).expect("is there") {
            let path = entry.expect("is read").path();
            if path.is_dir() {
                std::fs::remove_dir_all(path).expect("is removed");
            }
        }
    }

    /// Ends the controller; what it remembers is lost.
    pub(crate) async fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop().await;
        }
    }

    pub(crate) fn controller(&self) -> &PromotionController {
        &self.running.as_ref().expect("the controller runs").controller
    }

    /// What the controller has sent so far.
    pub(crate) fn calls(&self) -> slipway_cluster::CallCounts {
        self.running.as_ref().expect("the controller runs").cluster.call_counts()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) async fn create(&self, object: Value) {
        let at = ObjectRef::of(&object);
        self.cluster
            .create(&at, &object, &WriteOptions::default())
            .await
            .unwrap_or_else(|error| panic!("{at}: {error}"));
    }

    pub(crate) async fn patch(&self, at: &ObjectRef, patch: Value) {
        let options = WriteOptions::for_manager("somebody");
        self.cluster.patch(at, &ObjectPatch::Merge(patch), &options, None).await.expect("is patched");
    }

    /// Patches an object unless it is gone.
    pub(crate) async fn patch_if_there(&self, at: &ObjectRef, patch: Value) {
        if self.cluster.get(at).await.expect("is read").is_some() {
            self.patch(at, patch).await;
        }
    }

    pub(crate) async fn delete(&self, at: &ObjectRef) {
        self.cluster.delete(at, &DeleteOptions::default()).await.expect("is deleted");
    }

    /// The Secret of the repository in a namespace, new or with another token.
    pub(crate) async fn credentials(&self, namespace: &str, token: &str) {
        let token = data_encoding::BASE64.encode(token.as_bytes());
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "forge", "namespace": namespace},
            "data": {"token": token}});
        crate::health::support::apply(&self.cluster, secret).await;
    }

    /// Another namespace, with the Secret of the repository.
    pub(crate) async fn namespace(&self, name: &str) {
        self.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await;
        self.credentials(name, TOKEN).await;
    }

    /// The pipeline `app` with these environments; health is not looked at unless they say so.
    pub(crate) async fn pipeline(&self, environments: Value) {
        self.pipeline_with(environments, json!({})).await;
    }

    pub(crate) async fn pipeline_with(&self, environments: Value, more: Value) {
        self.pipeline_at(json!({"name": "app", "namespace": NAMESPACE}), environments, more).await;
    }

    /// A pipeline with this metadata.
    pub(crate) async fn pipeline_at(&self, metadata: Value, mut environments: Value, more: Value) {
        for environment in environments.as_array_mut().into_iter().flatten() {
            if environment.get("health").is_none() {
                environment["health"] = json!({"type": "none"});
            }
        }
        let mut spec = json!({
            "git": {"url": self.forge.url(), "provider": "gitea", "secretRef": {"name": "forge"}},
            "environments": environments,
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        self.create(json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "Pipeline", "metadata": metadata, "spec": spec}))
            .await;
    }

    pub(crate) async fn bundle(&self, name: &str, version: &str) {
        self.bundle_with(name, version, json!({}), json!({})).await;
    }

    pub(crate) async fn bundle_with(&self, name: &str, version: &str, more_labels: Value, more_spec: Value) {
        let mut all = json!({labels::PIPELINE: "app"});
        for (key, value) in more_labels.as_object().into_iter().flatten() {
            all[key] = value.clone();
        }
        let mut spec = json!({
            "artifacts": {"images": [{"name": "app", "reference": format!("ghcr.io/acme/app:{version}")}]},
        });
        for (key, value) in more_spec.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        self.create(json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "Bundle",
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": all}, "spec": spec}))
            .await;
    }

    /// A gate template; in the policy namespace it is one of the org.
    pub(crate) async fn gate(&self, namespace: &str, name: &str, environment: &str, expression: &str) {
        self.gate_with(namespace, name, environment, json!({"expression": expression})).await;
    }

    pub(crate) async fn gate_with(&self, namespace: &str, name: &str, environment: &str, more_spec: Value) {
        let scope = if namespace == POLICY { "org" } else { "team" };
        let mut spec = json!({"message": format!("{name} says no"), "recheckInterval": "1m"});
        for (key, value) in more_spec.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        self.create(json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "PolicyGate",
            "metadata": {"name": name, "namespace": namespace,
                "labels": {labels::SCOPE: scope, labels::APPLIES_TO: environment, labels::GATE_TYPE: "gate"}},
            "spec": spec}))
            .await;
    }

    async fn get<S: KindSpec>(&self, namespace: &str, name: &str) -> Option<Resource<S>> {
        kinds::get(&self.cluster, namespace, name).await.expect("is read")
    }

    pub(crate) async fn read_bundle(&self, name: &str) -> Bundle {
        self.get::<BundleSpec>(NAMESPACE, name).await.expect("the bundle exists")
    }

    pub(crate) async fn has_bundle(&self, name: &str) -> bool {
        self.get::<BundleSpec>(NAMESPACE, name).await.is_some()
    }

    pub(crate) async fn read_pipeline(&self) -> Pipeline {
        self.get::<PipelineSpec>(NAMESPACE, "app").await.expect("the pipeline exists")
    }

    /// The step of a bundle into an environment.
    pub(crate) async fn step(&self, bundle: &str, environment: &str) -> Option<PromotionStep> {
        self.get::<PromotionStepSpec>(NAMESPACE, &format!("{bundle}-{environment}")).await
    }

    pub(crate) async fn read_step(&self, name: &str) -> PromotionStep {
        self.get::<PromotionStepSpec>(NAMESPACE, name).await.expect("the step exists")
    }

    /// Gives the pipeline other environments.
    pub(crate) async fn pipeline_edit(&self, environments: Value) {
        self.patch(&PipelineSpec::at(NAMESPACE, "app"), json!({"spec": {"environments": environments}}))
            .await;
    }

    pub(crate) async fn state(&self, bundle: &str, environment: &str) -> Option<StepState> {
        self.step(bundle, environment).await.map(|step| step.state())
    }

    pub(crate) async fn gates(&self, namespace: &str) -> Vec<PolicyGate> {
        let options = ListOptions::with_labels(format!("{}=true", labels::INSTANCE));
        kinds::list::<PolicyGateSpec>(&self.cluster, Some(namespace), &options).await.expect("gates are read")
    }

    /// The gate of a bundle that was made from a template.
    pub(crate) async fn gate_of(&self, bundle: &str, template: &str) -> Option<PolicyGate> {
        let options = ListOptions::with_labels(format!("{}=true", labels::INSTANCE));
        let gates = kinds::list::<PolicyGateSpec>(&self.cluster, None, &options).await.expect("are read");
        gates.into_iter().find(|gate| {
            gate.spec.bundle_ref.as_deref() == Some(bundle)
                && gate.spec.template_ref.as_ref().is_some_and(|made_from| made_from.name == template)
        })
    }

    pub(crate) fn graph_at(name: &str) -> ObjectRef {
        ObjectRef::new(ApiGroup::Experimental.graph(), Some(NAMESPACE), name)
    }

    pub(crate) async fn graph(&self, name: &str) -> Option<Value> {
        self.cluster.get(&Self::graph_at(name)).await.expect("is read")
    }

    /// The Events about objects of a kind: kind of Event, reason and name, oldest first.
    pub(crate) async fn events(&self, kind: &str) -> Vec<(String, String, String)> {
        let event = Gvk::new("", "v1", "Event");
        let served = self.cluster.find_kind(&event).await.expect("discovery works").expect("is served");
        let list = self.cluster.list(&served, None, &ListOptions::default()).await.expect("is listed");
        let mut events: Vec<Value> =
            list.items.into_iter().filter(|event| event["involvedObject"]["kind"] == kind).collect();
        events.sort_by_key(|event| {
            event["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse::<u64>().ok())
        });
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let parts = |event: &Value| {
            (text(&event["type"]), text(&event["reason"]), text(&event["involvedObject"]["name"]))
        };
        events.iter().map(parts).collect()
    }

    /// Waits until there is an Event. No watch of the tests sees them, so they are asked for again and again.
    pub(crate) async fn until_told(&self, kind: &str, event: (&str, &str, &str)) {
        let wanted = (event.0.to_owned(), event.1.to_owned(), event.2.to_owned());
        let told = async {
            while !self.events(kind).await.contains(&wanted) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, told).await.is_err() {
            panic!(
                "two minutes passed without {wanted:?}: {:?}{}",
                self.events(kind).await,
                self.show().await
            );
        }
    }

    /// A bundle with a commit of the configuration branch, and images where there are some.
    pub(crate) async fn config_bundle(&self, name: &str, sha: &str, images: Value) {
        let kind = if images.as_array().is_some_and(Vec::is_empty) { "config" } else { "mixed" };
        self.create(json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "Bundle",
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": {labels::PIPELINE: "app"}},
            "spec": {"type": kind, "artifacts": {"images": images, "gitCommit": {"repository": self.forge.url(), "sha": sha,
                "message": "Raise limits", "path": "config", "secretRef": "forge"}}}}))
            .await;
    }

    /// Merges the pull request of a step, as its reviewer, and tells the controller.
    pub(crate) async fn merge(&self, bundle: &str, environment: &str) {
        let step = self.step(bundle, environment).await.expect("the step exists");
        self.forge.merge(step.status.pr_number.expect("has a pull request"), "merge", "alice");
        self.controller().nudge_step(NAMESPACE, step.name());
    }

    /// The version of every object of promotion, by kind and name.
    pub(crate) async fn versions(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        let graph = ApiGroup::Experimental.graph();
        for gvk in
            [PipelineSpec::gvk(), BundleSpec::gvk(), PromotionStepSpec::gvk(), PolicyGateSpec::gvk(), graph]
        {
            let kind = self.cluster.find_kind(&gvk).await.expect("discovery works").expect("is served");
            let list = self.cluster.list(&kind, None, &ListOptions::default()).await.expect("is listed");
            for object in list.items {
                let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
                found.insert(ObjectRef::of(&object).to_string(), version);
            }
        }
        found
    }

    /// Everything there is, for a test that failed.
    async fn show(&self) -> String {
        let mut shown = String::new();
        let all = ListOptions::default();
        let bundles = kinds::list::<BundleSpec>(&self.cluster, None, &all).await.unwrap_or_default();
        for bundle in &bundles {
            shown.push_str(&format!("\nBundle {}: {}", bundle.name(), json!(bundle.status)));
            let Some(name) = &bundle.status.graph_ref else { continue };
            if let Some(graph) = self.graph(name).await {
                shown.push_str(&format!("\n  Graph: {}", graph["status"]["nodes"]));
            }
        }
        for step in kinds::list::<PromotionStepSpec>(&self.cluster, None, &all).await.unwrap_or_default() {
            shown.push_str(&format!("\nStep {}: {}", step.name(), json!(step.status)));
        }
        for gate in kinds::list::<PolicyGateSpec>(&self.cluster, None, &all).await.unwrap_or_default() {
            shown.push_str(&format!("\nGate {}/{}: {}", gate.namespace(), gate.name(), json!(gate.status)));
        }
        shown
    }

    /// Waits until something holds; looks again whenever something changed, and now and then for what no watch tells.
    pub(crate) async fn until(&self, what: &str, holds: impl AsyncFn() -> bool) {
        let wait = async {
            while !holds().await {
                let _ = tokio::time::timeout(LOOK_EVERY, self.changed.notified()).await;
            }
        };
        if tokio::time::timeout(PATIENCE, wait).await.is_err() {
            panic!("two minutes passed and still not: {what}{}", self.show().await);
        }
    }

    pub(crate) async fn until_phase(&self, bundle: &str, phase: BundlePhase) {
        self.until(&format!("{bundle} is {phase:?}"), async || {
            self.read_bundle(bundle).await.phase() == phase
        })
        .await;
    }

    pub(crate) async fn until_state(&self, bundle: &str, environment: &str, state: StepState) {
        let holds = async || self.state(bundle, environment).await == Some(state);
        self.until(&format!("{bundle} is {state:?} in {environment}"), holds).await;
    }

    /// Waits until the controller has seen everything and has nothing to do but wait for the clock.
    pub(crate) async fn settle(&self) {
        self.settle_one(self.controller()).await;
    }

    pub(crate) async fn settle_one(&self, controller: &PromotionController) {
        let calm = async {
            while !controller.is_settled(&|kind, version| has_newer(self.sandbox.store(), kind, version)) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, calm).await.is_err() {
            panic!("the controller never rests{}", self.show().await);
        }
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.clock.advance(by);
        self.controller().clock_moved();
    }

    /// Moves the clock from timer to timer, for at most so long, until something holds.
    pub(crate) async fn pass(&self, most: Duration, what: &str, holds: impl AsyncFn() -> bool) {
        let end = self.now() + most;
        loop {
            self.settle().await;
            if holds().await {
                return;
            }
            if self.now() >= end {
                // The controllers of the cluster do not follow this clock: on a busy machine it runs ahead of them.
                return self.until(&format!("{what} (by the clock of the test after {most:?})"), holds).await;
            }
            let due = self.controller().next_due().unwrap_or(end).min(end);
            let step = Duration::try_from(due.duration_since(self.now())).unwrap_or_default();
            self.advance(step.clamp(Duration::from_millis(1), Duration::from_secs(30)));
        }
    }

    /// Lets time pass and nothing else.
    pub(crate) async fn pass_time(&self, time: Duration) {
        let end = self.now() + time;
        self.pass(time + Duration::from_secs(1), "time passes", async || self.now() >= end).await;
    }
}
