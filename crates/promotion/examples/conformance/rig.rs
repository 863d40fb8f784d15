//! A cluster on the network, the promotion controller on it, and a listener for webhooks.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use data_encoding::BASE64;
use http_body_util::{BodyExt as _, Collected, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use slipway_cluster::connect::{ConnectOptions, KubeconfigSource, connect};
use slipway_cluster::{Cluster, ListOptions, ObjectPatch, WriteOptions, crd};
use slipway_event::{Clock, Redactor};
use slipway_git::{CacheOptions, Git, RepositoryCache};
use slipway_manifest::{Gvk, ObjectRef};
use slipway_promotion::kinds::{
    self, Bundle, BundlePhase, BundleSpec, KindSpec, PromotionStep, PromotionStepSpec, StepState,
};
use slipway_promotion::step::WebhookDelivery;
use slipway_promotion::{PromotionController, PromotionServices, PromotionSettings};
use slipway_sandbox::{ClockSpeed, Sandbox};
use slipway_scm::WebhookHeaders;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::gitea::Gitea;
use crate::{Failure, PATIENCE, PAUSE};

/// The secret webhooks are signed with.
pub(crate) const HOOK_SECRET: &str = "hook-secret";
/// Where pipelines and bundles live.
pub(crate) const NAMESPACE: &str = "apps";

/// The machine's clock, moved by hand: a weekend is over when we say so.
#[derive(Default)]
pub(crate) struct ShiftedClock(AtomicI64);

impl ShiftedClock {
    /// Moves the clock to a moment.
    pub(crate) fn set(&self, to: Timestamp) {
        // Up to the next second: a moment to come has come.
        self.0.store(to.as_second() + 1 - Timestamp::now().as_second(), Ordering::SeqCst);
    }
}

impl Clock for ShiftedClock {
    fn now(&self) -> Timestamp {
        let shift = SignedDuration::from_secs(self.0.load(Ordering::SeqCst));
        Timestamp::now().checked_add(shift).unwrap_or(Timestamp::MAX)
    }
}

pub(crate) struct Rig {
    pub(crate) clock: Arc<ShiftedClock>,
    pub(crate) sandbox: Sandbox,
    pub(crate) cluster: Cluster,
    pub(crate) address: SocketAddr,
    /// The address webhooks are delivered to.
    pub(crate) hook: String,
    pub(crate) controller: Option<PromotionController>,
    /// The controller that deliveries are handed to.
    receiver: Arc<Mutex<Option<PromotionController>>>,
    stop: CancellationToken,
    /// Ends the controller alone.
    stop_controller: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
    running: Option<JoinHandle<()>>,
    lives: u32,
    /// The directory of everything on disk.
    pub(crate) place: tempfile::TempDir,
}

impl Rig {
    /// A cluster with a controller.
    pub(crate) async fn start() -> Result<Self, Failure> {
        let mut rig = Self::prepare().await?;
        rig.start_controller().await?;
        Ok(rig)
    }

    /// A cluster with a listener for webhooks, and nobody who works on it.
    pub(crate) async fn prepare() -> Result<Self, Failure> {
        let sandbox = Sandbox::builder().speed(ClockSpeed::Real).seed(1).build()?;
        let cluster = Cluster::new(sandbox.client());
        let any = "127.0.0.1:0".parse()?;
        let (address, serving) = sandbox.listen(any, std::future::pending()).await?;
        let serving = tokio::spawn(async move {
            let _ = serving.await;
        });
        let place = tempfile::tempdir()?;
        let stop = CancellationToken::new();
        let mut rig = Self {
            sandbox,
            cluster,
            address,
            hook: String::new(),
            clock: Arc::default(),
            controller: None,
            receiver: Arc::default(),
            stop_controller: stop.child_token(),
            stop,
            tasks: vec![serving],
            running: None,
            lives: 0,
            place,
        };
        let group = PromotionSettings::default().group;
        for definition in kinds::definitions().into_iter().chain(slipway_kro::definitions(group)) {
            rig.define(&definition).await?;
        }
        for namespace in [NAMESPACE, "dev", "staging", "prod", "flux-system", "platform-policies"] {
            rig.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))
                .await?;
        }
        rig.hook = rig.listen().await?;
        Ok(rig)
    }

    /// Makes a controller that remembers nothing and reaches the cluster as one that is installed does.
    pub(crate) async fn make_controller(
        &mut self,
        stop: &CancellationToken,
    ) -> Result<PromotionController, Failure> {
        let kubeconfig = KubeconfigSource::Text(self.sandbox.kubeconfig(self.address).into());
        let options = ConnectOptions { kubeconfig, ..ConnectOptions::default() };
        let connection = connect(&options, &Redactor::new()).await.map_err(|problem| problem.message)?;
        self.lives += 1;
        let repositories = RepositoryCache::open(
            self.place.path().join(format!("git-{}", self.lives)),
            CacheOptions::default(),
            Arc::new(Git::default()),
            self.clock.clone(),
            stop.clone(),
        )?;
        let services = PromotionServices {
            cluster: connection.cluster,
            clock: self.clock.clone(),
            repositories,
            redactor: Redactor::new(),
            stop: stop.clone(),
        };
        let mut settings = PromotionSettings::default();
        allow_local_hosts(&mut settings);
        Ok(PromotionController::new(services, settings))
    }

    pub(crate) async fn start_controller(&mut self) -> Result<(), Failure> {
        self.stop_controller = self.stop.child_token();
        let stop = self.stop_controller.clone();
        let controller = self.make_controller(&stop).await?;
        self.receive_with(Some(controller.clone()));
        self.running = Some(run_controller(controller.clone()));
        self.controller = Some(controller);
        Ok(())
    }

    pub(crate) async fn stop_controller(&mut self) {
        self.receive_with(None);
        self.stop_controller.cancel();
        if let Some(running) = self.running.take() {
            let _ = running.await;
        }
    }

    /// Hands deliveries to a controller, or to nobody.
    pub(crate) fn receive_with(&self, controller: Option<PromotionController>) {
        *self.receiver.lock().unwrap_or_else(PoisonError::into_inner) = controller;
    }

    /// Takes deliveries of webhooks.
    async fn listen(&mut self) -> Result<String, Failure> {
        let receiver = self.receiver.clone();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let address = format!("http://{}/webhooks", listener.local_addr()?);
        self.tasks.push(tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let receiver = receiver.clone();
                let service = service_fn(move |request| {
                    let controller = receiver.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    receive(controller, request)
                });
                let server = hyper::server::conn::http1::Builder::new();
                tokio::spawn(server.serve_connection(TokioIo::new(stream), service));
            }
        }));
        Ok(address)
    }

    pub(crate) async fn define(&self, definition: &Value) -> Result<(), Failure> {
        self.create(definition.clone()).await?;
        crd::wait_until_served(&self.cluster, definition, PATIENCE).await?;
        Ok(())
    }

    pub(crate) async fn create(&self, object: Value) -> Result<(), Failure> {
        let at = ObjectRef::of(&object);
        self.cluster.create(&at, &object, &WriteOptions::for_manager("person")).await?;
        Ok(())
    }

    /// The Secret of the repository.
    pub(crate) async fn create_credentials(&self, gitea: &Gitea) -> Result<(), Failure> {
        let encoded = |text: &str| BASE64.encode(text.as_bytes());
        self.create(json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "gitops", "namespace": NAMESPACE},
            "data": {"token": encoded(&gitea.token), "webhookSecret": encoded(HOOK_SECRET)},
        }))
        .await
    }

    pub(crate) async fn create_pipeline(
        &self,
        gitea: &Gitea,
        name: &str,
        repository: &str,
        environments: Value,
    ) -> Result<(), Failure> {
        let url = format!("{}/{}/{repository}.git", gitea.root, gitea.user);
        self.create_pipeline_at(name, &url, environments).await
    }

    /// A pipeline whose repository is reached by an address.
    pub(crate) async fn create_pipeline_at(
        &self,
        name: &str,
        url: &str,
        environments: Value,
    ) -> Result<(), Failure> {
        self.create(json!({
            "apiVersion": "kardinal.io/v1alpha1", "kind": "Pipeline",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {
                "git": {"url": url, "provider": "gitea", "secretRef": {"name": "gitops"}},
                "environments": environments,
            },
        }))
        .await
    }

    pub(crate) async fn delete(&self, at: &ObjectRef) -> Result<(), Failure> {
        self.cluster.delete(at, &slipway_cluster::DeleteOptions::default()).await?;
        Ok(())
    }

    pub(crate) async fn create_bundle(&self, pipeline: &str, version: &str) -> Result<String, Failure> {
        let name = format!("{pipeline}-{}", version.replace('.', "-"));
        self.create(json!({
            "apiVersion": "kardinal.io/v1alpha1", "kind": "Bundle",
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"kardinal.io/pipeline": pipeline}},
            "spec": {"artifacts": {"images": [
                {"name": "ghcr.io/acme/app", "reference": format!("ghcr.io/acme/app:{version}")}]}},
        }))
        .await?;
        Ok(name)
    }

    pub(crate) async fn bundle(&self, name: &str) -> Result<Bundle, Failure> {
        let found = kinds::get::<BundleSpec>(&self.cluster, NAMESPACE, name).await?;
        found.ok_or_else(|| format!("there is no bundle {name}").into())
    }

    pub(crate) async fn bundles(&self) -> Result<Vec<Bundle>, Failure> {
        Ok(kinds::list::<BundleSpec>(&self.cluster, Some(NAMESPACE), &ListOptions::default()).await?)
    }

    /// The step that takes a bundle into an environment.
    pub(crate) async fn step(
        &self,
        bundle: &str,
        environment: &str,
    ) -> Result<Option<PromotionStep>, Failure> {
        let steps =
            kinds::list::<PromotionStepSpec>(&self.cluster, Some(NAMESPACE), &ListOptions::default()).await?;
        let fits =
            |step: &PromotionStep| step.spec.bundle_ref == bundle && step.spec.environment == environment;
        Ok(steps.into_iter().find(fits))
    }

    /// All steps of a bundle.
    pub(crate) async fn steps_of(&self, bundle: &str) -> Result<Vec<PromotionStep>, Failure> {
        let steps =
            kinds::list::<PromotionStepSpec>(&self.cluster, Some(NAMESPACE), &ListOptions::default()).await?;
        Ok(steps.into_iter().filter(|step| step.spec.bundle_ref == bundle).collect())
    }

    /// The names of the Graphs of a bundle.
    pub(crate) async fn graphs_of(&self, bundle: &str) -> Result<Vec<String>, Failure> {
        let gvk = PromotionSettings::default().group.graph();
        let kind = self.cluster.find_kind(&gvk).await?.ok_or("no Graphs are served")?;
        let graphs = self.cluster.list(&kind, Some(NAMESPACE), &ListOptions::default()).await?;
        let is_of_it = |graph: &&Value| {
            let owners = graph["metadata"]["ownerReferences"].as_array().into_iter().flatten();
            owners.into_iter().any(|owner| owner["name"] == bundle)
        };
        let name = |graph: &Value| graph["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        Ok(graphs.items.iter().filter(is_of_it).map(name).collect())
    }

    /// Moves the clock on.
    pub(crate) fn pass_time(&self, time: std::time::Duration) {
        self.clock.set(self.clock.now() + time);
        self.tell_of_clock();
    }

    /// Tells the controller that the clock was moved.
    pub(crate) fn tell_of_clock(&self) {
        self.controller.iter().for_each(PromotionController::clock_moved);
    }

    /// Waits until the controller has seen everything and has nothing left to do, timers aside.
    pub(crate) async fn wait_until_settled(&self) -> Result<(), Failure> {
        let controller = self.controller.as_ref().ok_or("nobody works on the cluster")?;
        let store = self.sandbox.store();
        let has_newer = |kind: &slipway_cluster::ServedKind, version: u64| {
            let table = format!("{}.{}", kind.plural, kind.gvk.group);
            store.events_after(&table, version, 1).is_ok_and(|events| !events.is_empty())
        };
        until("the controller settles", async || Ok(controller.is_settled(&has_newer))).await
    }

    /// Waits until a bundle is verified.
    pub(crate) async fn wait_for_verified(&self, bundle: &str) -> Result<(), Failure> {
        let what = format!("{bundle} is verified");
        until(&what, async || match self.bundle(bundle).await?.phase() {
            BundlePhase::Verified => Ok(true),
            BundlePhase::Available | BundlePhase::Promoting => {
                self.skip_to_health_checks(bundle).await?;
                Ok(false)
            }
            other => Err(format!("{bundle} is {other:?}").into()),
        })
        .await
    }

    /// Changes the image of a Deployment by hand.
    pub(crate) async fn set_image(&self, environment: &str, name: &str, image: &str) -> Result<(), Failure> {
        let at = ObjectRef::new(Gvk::new("apps", "v1", "Deployment"), Some(environment), name);
        let containers = json!([{"name": "app", "image": image}]);
        let patch =
            ObjectPatch::Strategic(json!({"spec": {"template": {"spec": {"containers": containers}}}}));
        self.cluster.patch(&at, &patch, &WriteOptions::for_manager("person"), None).await?;
        Ok(())
    }

    /// Has the controller look at the pull request of a step.
    pub(crate) fn nudge(&self, step: &PromotionStep) {
        if let Some(controller) = &self.controller {
            controller.nudge_step(step.namespace(), step.name());
        }
    }

    /// Waits until a step is in a state.
    pub(crate) async fn wait_for(
        &self,
        bundle: &str,
        environment: &str,
        state: StepState,
    ) -> Result<PromotionStep, Failure> {
        let mut last = None;
        let end = tokio::time::Instant::now() + PATIENCE;
        while tokio::time::Instant::now() < end {
            last = self.step(bundle, environment).await?;
            match &last {
                Some(step) if step.state() == state => return Ok(step.clone()),
                Some(step) if step.state().is_terminal() => break,
                _ => {
                    if state != StepState::HealthChecking {
                        self.skip_to_health_checks(bundle).await?;
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        let kind = PromotionStepSpec::KIND;
        let found = match last {
            Some(step) => serde_json::to_string(&step.status)?,
            None => format!("no {kind}"),
        };
        Err(format!("{bundle} in {environment} is not {state:?}: {found}").into())
    }

    /// Moves the clock to the next look at the health of environments that run their version by now.
    async fn skip_to_health_checks(&self, bundle: &str) -> Result<(), Failure> {
        for step in self.steps_of(bundle).await? {
            let due = step.status.next_check_at.filter(|due| *due > self.clock.now());
            let (Some(due), StepState::HealthChecking) = (due, step.state()) else { continue };
            let version = self.bundle(bundle).await?.spec.version();
            if self.image(&step.spec.environment).await?.ends_with(&format!(":{version}")) {
                self.clock.set(due);
                self.tell_of_clock();
            }
        }
        Ok(())
    }

    /// The image of an environment's Deployment.
    pub(crate) async fn image(&self, environment: &str) -> Result<String, Failure> {
        let at = ObjectRef::new(Gvk::new("apps", "v1", "Deployment"), Some(environment), "my-app");
        let found = self.cluster.get(&at).await?.unwrap_or_default();
        let image = found.pointer("/spec/template/spec/containers/0/image").and_then(Value::as_str);
        Ok(image.unwrap_or_default().to_owned())
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.stop.cancel();
        for task in self.tasks.iter().chain(&self.running) {
            task.abort();
        }
    }
}

/// Waits until something holds.
pub(crate) async fn until(what: &str, holds: impl AsyncFn() -> Result<bool, Failure>) -> Result<(), Failure> {
    let end = tokio::time::Instant::now() + PATIENCE;
    while !holds().await? {
        if tokio::time::Instant::now() > end {
            return Err(format!("{what}: not in time").into());
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Lets a controller call the servers of this machine.
pub(crate) fn allow_local_hosts(settings: &mut PromotionSettings) {
    settings.steps.outbound.addresses.allowed_hosts.insert("127.0.0.1".to_owned());
}

/// Runs a controller until it is stopped.
pub(crate) fn run_controller(controller: PromotionController) -> JoinHandle<()> {
    tokio::spawn(async move {
        if let Err(error) = controller.run().await {
            println!("the controller ended: {error}");
        }
    })
}

async fn receive(
    controller: Option<PromotionController>,
    request: hyper::Request<hyper::body::Incoming>,
) -> Result<hyper::Response<Full<Bytes>>, std::convert::Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
    let headers = head.headers.iter();
    let headers: Vec<(String, String)> = headers
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap_or_default().to_owned()))
        .collect();
    let headers = WebhookHeaders::from_iter(headers);
    let delivery = WebhookDelivery { provider: None, headers: &headers, body: &body };
    let Some(controller) = controller else {
        let mut nobody = hyper::Response::new(Full::new(Bytes::new()));
        *nobody.status_mut() = hyper::StatusCode::SERVICE_UNAVAILABLE;
        return Ok(nobody);
    };
    let status = match controller.steps().receive_webhook(delivery).await {
        Ok(steps) => {
            for step in steps {
                controller.nudge_step(step.namespace.as_deref().unwrap_or_default(), &step.name);
            }
            200
        }
        Err(error) => error.status(),
    };
    let mut answer = hyper::Response::new(Full::new(Bytes::new()));
    *answer.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or_default();
    Ok(answer)
}

/// The files of environments: a kustomization with a comment each, and a Deployment.
pub(crate) fn environment_files(environments: &[&str]) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for environment in environments {
        let directory = format!("environments/{environment}");
        let kustomization = format!(
            "# The {environment} environment. Ask the shop team.\n\
             apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: {environment}\n\
             resources: [deployment.yaml]\nimages:\n- name: ghcr.io/acme/app\n  newTag: \"1.0.0\" # set by promotion\n"
        );
        let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: my-app}\nspec:\n  replicas: 1\n  \
             selector: {matchLabels: {app: my-app}}\n  template:\n    metadata: {labels: {app: my-app}}\n    \
             spec: {containers: [{name: app, image: ghcr.io/acme/app}]}\n";
        files.insert(format!("{directory}/kustomization.yaml"), kustomization);
        files.insert(format!("{directory}/deployment.yaml"), deployment.to_owned());
    }
    files
}

/// The Deployment a player starts from.
pub(crate) fn deployment(environment: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "my-app", "namespace": environment},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": "my-app"}},
            "template": {
                "metadata": {"labels": {"app": "my-app"}},
                "spec": {"containers": [{"name": "app", "image": "ghcr.io/acme/app:1.0.0"}]},
            },
        },
    })
}
