//! A sandbox, a forge and a step reconciler that can be killed anywhere, with a clock that is moved by hand.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_cluster::{Cluster, DeleteOptions, ObjectPatch, RetryPolicy, WriteOptions, crd};
use slipway_event::{Clock as _, ManualClock, Redactor};
use slipway_git::{CacheOptions, Git, GitCall, GitProgram, ReplayPolicy, RepositoryCache};
use slipway_manifest::{Gvk, ObjectRef};
use slipway_process::{ProgramError, ProgramOutput};
use slipway_promotion::health::HealthCheck;
use slipway_promotion::kinds::{
    self, BundleSpec, KindSpec, PolicyGateSpec, PromotionStep, PromotionStepSpec, StepState, definitions,
};
use slipway_promotion::step::{StepOptions, StepReconciler, StepServices};
use slipway_promotion::translate::{define_step, definition_key};
use slipway_promotion::{OutboundClients, Requeue};
use slipway_sandbox::Sandbox;
use slipway_scm::WebhookSecret;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tower::{Service as _, service_fn};

use crate::effects::Effects;
use crate::forge::{Forge, TOKEN, WEBHOOK_SECRET};

pub(crate) const NAMESPACE: &str = "default";

/// The kinds steps read and write.
const KINDS: [&str; 4] = ["Bundle", "Pipeline", "PolicyGate", "PromotionStep"];

/// A kustomization with everything an editor could get wrong.
pub(crate) const KUSTOMIZATION: &str = "# Owned by the platform team.
resources:
- deployment.yaml # the app
images:
    # promoted by a robot
    - name: app
      newTag: \"1.28.0\"   # do not touch by hand
";

pub(crate) const DEPLOYMENT: &str = "apiVersion: apps/v1
kind: Deployment
metadata:
  name: app
spec:
  selector: {matchLabels: {app: app}}
  template:
    metadata: {labels: {app: app}}
    spec:
      containers:
      - name: app
        image: app
";

/// The cluster, the forge, and the process that works on them.
pub(crate) struct World {
    pub(crate) sandbox: Arc<Sandbox>,
    /// The tests' own handle, which never counts.
    pub(crate) cluster: Cluster,
    pub(crate) forge: Forge,
    /// The namespace of everything this world makes.
    pub(crate) namespace: String,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) effects: Arc<Effects>,
    pub(crate) options: StepOptions,
    caches: TempDir,
    process: Option<Process>,
    started: u32,
}

/// One life of the process.
struct Process {
    reconciler: StepReconciler,
    stop: CancellationToken,
}

/// Git, whose commits count as changes.
struct CountedGit {
    git: Git,
    effects: Arc<Effects>,
}

impl GitProgram for CountedGit {
    fn run(&self, call: GitCall) -> BoxFuture<'_, Result<ProgramOutput, ProgramError>> {
        async move {
            let command = call.command().to_owned();
            let output = self.git.run(call).await;
            if command == "commit-tree" {
                self.effects.happened("local commit").await;
            }
            output
        }
        .boxed()
    }
}

impl World {
    /// A forge with the files of three environments, and a process.
    pub(crate) async fn new() -> Self {
        Self::with_files(&[]).await
    }

    pub(crate) async fn with_files(extra: &[(&str, &str)]) -> Self {
        let sandbox = Sandbox::builder().without_workloads().seed(1).build().expect("the sandbox starts");
        let cluster = Cluster::new(sandbox.client());
        let mut all = definitions();
        all.retain(|definition| KINDS.iter().any(|kind| definition["spec"]["names"]["kind"] == *kind));
        for definition in &all {
            let gvk = Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
            let name = definition["metadata"]["name"].as_str().expect("has a name");
            let at = ObjectRef::new(gvk, None, name);
            cluster.create(&at, definition, &WriteOptions::default()).await.expect("is accepted");
        }
        for definition in &all {
            crd::wait_until_served(&cluster, definition, Duration::from_secs(20)).await.expect("is served");
        }
        let world = Self::in_namespace(Arc::new(sandbox), NAMESPACE, extra).await;
        let platform = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "platform"}});
        world.create(platform).await;
        world
    }

    /// Another forge and process on the same cluster, in a namespace of their own.
    pub(crate) async fn beside(&self, namespace: &str) -> Self {
        let made = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        self.create(made).await;
        Self::in_namespace(self.sandbox.clone(), namespace, &[]).await
    }

    async fn in_namespace(sandbox: Arc<Sandbox>, namespace: &str, extra: &[(&str, &str)]) -> Self {
        let mut files = Vec::new();
        for environment in ["dev", "staging", "prod"] {
            files.push((format!("environments/{environment}/kustomization.yaml"), KUSTOMIZATION.to_owned()));
            files.push((format!("environments/{environment}/deployment.yaml"), DEPLOYMENT.to_owned()));
        }
        files.extend(extra.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())));
        let files: Vec<(&str, &str)> =
            files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let forge = Forge::start(&files).await;
        let cluster = Cluster::new(sandbox.client());
        let clock = Arc::new(ManualClock::at("2026-04-10T12:00:00Z".parse().expect("is a time")));
        let effects = forge.effects.clone();
        let replay = ReplayPolicy {
            attempts: 60,
            first_pause: Duration::from_millis(1),
            longest_pause: Duration::from_millis(20),
            ..ReplayPolicy::default()
        };
        let mut options = StepOptions { replay, ..StepOptions::default() };
        options.scm.settle_pause = Duration::from_millis(1);
        options.promotion.policy_namespaces = ["platform".to_owned()].into();
        options.webhook_secret = Some(WebhookSecret::new(WEBHOOK_SECRET));
        options.outbound.addresses.allowed_hosts.insert("127.0.0.1".to_owned());
        let caches = tempfile::tempdir().expect("a directory");
        let namespace = namespace.to_owned();
        let (process, started) = (None, 0);
        let mut world =
            Self { sandbox, cluster, forge, namespace, clock, effects, options, caches, process, started };
        world.secret("forge", &[("token", TOKEN)]).await;
        world.start();
        world
    }

    /// Starts a process that remembers nothing, with an empty cache.
    pub(crate) fn start(&mut self) {
        self.started += 1;
        let (api, effects) = (self.sandbox.service(), self.effects.clone());
        let service = service_fn(move |request: http::Request<kube::client::Body>| {
            let (mut api, effects) = (api.clone(), effects.clone());
            async move {
                let name = format!("cluster {} {}", request.method(), request.uri().path());
                let is_write = request.method() != http::Method::GET;
                let answer = api.call(request).await;
                if is_write {
                    effects.happened(&name).await;
                }
                answer
            }
        });
        let retry = RetryPolicy { first: Duration::from_millis(1), ..RetryPolicy::default() };
        let cluster = Cluster::new(kube::Client::new(service, &*self.namespace)).with_retry(retry);
        let stop = CancellationToken::new();
        let git = CountedGit { git: Git::default(), effects: self.effects.clone() };
        let cache = RepositoryCache::open(
            self.caches.path().join(format!("life-{}", self.started)),
            CacheOptions::default(),
            Arc::new(git),
            self.clock.clone(),
            stop.clone(),
        );
        let redactor = Redactor::new();
        let health = HealthCheck::new(cluster.clone(), self.clock.clone(), redactor.clone())
            .with_outbound(OutboundClients::new(self.options.outbound.clone(), stop.clone()));
        let services = StepServices {
            cluster,
            clock: self.clock.clone(),
            cache: cache.expect("the cache opens"),
            health: Arc::new(health),
            redactor,
            stop: stop.clone(),
        };
        let reconciler = StepReconciler::new(services, self.options.clone());
        self.process = Some(Process { reconciler, stop });
    }

    /// Ends the process; what it knows is lost.
    pub(crate) fn kill(&mut self) {
        if let Some(process) = self.process.take() {
            process.stop.cancel();
        }
    }

    pub(crate) fn restart(&mut self) {
        self.kill();
        self.start();
    }

    pub(crate) fn reconciler(&self) -> &StepReconciler {
        &self.process.as_ref().expect("a process runs").reconciler
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) async fn create(&self, object: Value) {
        let at = ObjectRef::of(&object);
        self.cluster.create(&at, &object, &WriteOptions::default()).await.expect("is created");
    }

    pub(crate) async fn secret(&self, name: &str, values: &[(&str, &str)]) {
        let data: serde_json::Map<String, Value> = values
            .iter()
            .map(|(key, value)| ((*key).to_owned(), json!(data_encoding::BASE64.encode(value.as_bytes()))))
            .collect();
        let at = ObjectRef::new(Gvk::new("", "v1", "Secret"), Some(&self.namespace), name);
        self.cluster.delete(&at, &DeleteOptions::default()).await.expect("can be deleted");
        self.create(json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "namespace": self.namespace}, "data": data}))
            .await;
    }

    /// A bundle with one image of a version.
    pub(crate) async fn bundle(&self, name: &str, version: &str) {
        self.bundle_with(name, json!({
            "type": "image", "pipeline": "app",
            "artifacts": {"images": [{"name": "app", "reference": format!("ghcr.io/acme/app:{version}")}]},
            "provenance": {"commitSHA": "abc123def456", "author": "dependabot[bot]",
                "ciRunURL": "https://ci.example/acme/app/actions/runs/12345"},
        }))
        .await;
    }

    pub(crate) async fn bundle_with(&self, name: &str, spec: Value) {
        self.create(json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "Bundle",
            "metadata": {"name": name, "namespace": self.namespace, "labels": {"kardinal.io/pipeline": "app"}},
            "spec": spec}))
            .await;
        self.patch_status(BundleSpec::at(&self.namespace, name), json!({"phase": "Promoting"})).await;
    }

    pub(crate) async fn patch_status(&self, at: ObjectRef, status: Value) {
        let patch = ObjectPatch::Merge(json!({"status": status}));
        self.cluster.patch(&at, &patch, &WriteOptions::default(), Some("status")).await.expect("is patched");
    }

    /// The spec of a step for an environment, whose health is not looked at.
    pub(crate) fn spec(&self, bundle: &str, environment: &str) -> Value {
        json!({
            "pipeline": "app", "environment": environment, "bundleRef": bundle,
            "path": format!("environments/{environment}"),
            "git": {"url": self.forge.url(), "branch": "main", "provider": "gitea", "secretRef": "forge"},
            "health": {"type": "none"},
        })
    }

    /// Makes a step as a Graph would.
    pub(crate) async fn step(&self, name: &str, spec: Value) -> ObjectRef {
        let labels =
            json!({"kardinal.io/pipeline": spec["pipeline"], "kardinal.io/environment": spec["environment"]});
        self.step_with(name, labels, spec).await
    }

    pub(crate) async fn step_with(&self, name: &str, labels: Value, spec: Value) -> ObjectRef {
        self.create(json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "PromotionStep",
            "metadata": {"name": name, "namespace": self.namespace, "labels": labels}, "spec": spec}))
            .await;
        let at = PromotionStepSpec::at(&self.namespace, name);
        self.define(&at).await;
        at
    }

    /// Admits the bundle of a step with this step.
    pub(crate) async fn define(&self, at: &ObjectRef) {
        let spec = self.read(at).await.spec;
        let bundle = BundleSpec::at(&self.namespace, &spec.bundle_ref);
        if self.cluster.get(&bundle).await.expect("is read").is_none() {
            return;
        }
        let key = definition_key(&spec.environment, spec.region.as_deref());
        self.patch_status(bundle, json!({"stepDefinitions": {key: define_step(&spec)}})).await;
    }

    /// A gate that is open now.
    pub(crate) async fn gate(&self, name: &str, ready: bool) {
        self.create(json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "PolicyGate",
            "metadata": {"name": name, "namespace": self.namespace, "labels": {"kardinal.io/instance": "true"}},
            "spec": {"expression": "true", "recheckInterval": "5m", "scope": "team",
                "templateRef": {"namespace": self.namespace, "name": format!("{name}-template")}}}))
            .await;
        self.set_gate(name, ready).await;
    }

    pub(crate) async fn set_gate(&self, name: &str, ready: bool) {
        let status = json!({"ready": ready, "phase": if ready { "Pass" } else { "Block" },
            "reason": if ready { "all is well" } else { "not now" }, "lastEvaluatedAt": self.now()});
        self.patch_status(PolicyGateSpec::at(&self.namespace, name), status).await;
    }

    pub(crate) async fn read(&self, at: &ObjectRef) -> PromotionStep {
        self.find(at).await.expect("the step exists")
    }

    pub(crate) async fn find(&self, at: &ObjectRef) -> Option<PromotionStep> {
        kinds::get::<PromotionStepSpec>(&self.cluster, &self.namespace, &at.name).await.expect("is read")
    }

    /// One turn.
    pub(crate) async fn reconcile(&self, at: &ObjectRef) -> Requeue {
        self.reconciler().reconcile_step(at).await.expect("the cluster answers")
    }

    /// Turns until nothing more happens at this moment; soon means within a second.
    pub(crate) async fn settle(&self, at: &ObjectRef) -> PromotionStep {
        for _ in 0..30 {
            match self.reconcile(at).await {
                Requeue::At(due) if due.duration_since(self.now()).as_millis() <= 100 => {
                    self.clock.advance(Duration::from_millis(100));
                }
                _ => return self.read(at).await,
            }
        }
        panic!("the step never settles: {:?}", self.read(at).await.status);
    }

    /// Turns while the clock goes from one due time to the next, until a state is reached.
    pub(crate) async fn until(&self, at: &ObjectRef, state: StepState) -> PromotionStep {
        for _ in 0..60 {
            let next = self.reconcile(at).await;
            let step = self.read(at).await;
            if step.state() == state {
                return step;
            }
            assert!(!step.state().is_terminal(), "{:?}: {:?}", step.state(), step.status);
            if let Requeue::At(due) = next {
                let wait = Duration::try_from(due.duration_since(self.now())).unwrap_or_default();
                self.clock.advance(wait);
            }
        }
        panic!("{state:?} is never reached: {:?}", self.read(at).await.status);
    }
}

/// The step's state with its reason.
pub(crate) fn ended(step: &PromotionStep) -> (StepState, &str) {
    (step.state(), step.status.reason.as_deref().unwrap_or_default())
}
