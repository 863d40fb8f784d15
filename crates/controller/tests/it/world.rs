//! A cluster, a forge, and controllers that are started and killed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use data_encoding::{BASE64, HEXLOWER};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use slipway_cluster::{Cluster, WriteOptions, crd};
use slipway_controller::{
    ControllerError, ControllerHandle, ControllerOptions, ControllerServices, ListenAddresses, run_controller,
};
use slipway_event::{Clock, Redactor, SystemClock};
use slipway_http::{
    ClientOptions, HttpClient, HttpRequest, Method, header::HeaderName, header::HeaderValue, parse_url,
};
use slipway_kro::ApiGroup;
use slipway_manifest::{Gvk, ObjectRef};
use slipway_promotion::kinds::{
    self, Bundle, BundlePhase, BundleSpec, KindSpec, PromotionStep, PromotionStepSpec, Resource,
};
use slipway_sandbox::Sandbox;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::forge::{Forge, TOKEN, WEBHOOK_SECRET};

pub(crate) const NAMESPACE: &str = "default";
pub(crate) const SYSTEM: &str = "kardinal-system";
pub(crate) const API_TOKEN: &str = "ci-0f3a77c1e9";
pub(crate) const OTHER_TOKEN: &str = "other-55d1b20";
pub(crate) const HMAC_KEY: &str = "sign-8812fa";
/// The longest a test waits for something.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

const KUSTOMIZATION: &str =
    "resources:\n- deployment.yaml\nimages:\n- name: app\n  newName: ghcr.io/acme/app\n  newTag: 1.28.0\n";

pub(crate) struct World {
    pub(crate) sandbox: Sandbox,
    pub(crate) cluster: Cluster,
    pub(crate) forge: Forge,
    pub(crate) http: HttpClient,
    pub(crate) caches: TempDir,
}

/// A controller that runs.
pub(crate) struct Process {
    pub(crate) handle: ControllerHandle,
    pub(crate) stop: CancellationToken,
    pub(crate) redactor: Redactor,
    task: JoinHandle<Result<(), ControllerError>>,
}

impl Process {
    /// Ends the process as `kill -9` does.
    pub(crate) async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.task.is_finished()
    }

    pub(crate) async fn end(self) -> Result<(), ControllerError> {
        self.stop.cancel();
        self.task.await.expect("does not panic")
    }

    /// Waits until the process ends by itself.
    pub(crate) async fn wait(self) -> Result<(), ControllerError> {
        tokio::time::timeout(PATIENCE, self.task).await.expect("ends in time").expect("does not panic")
    }

    pub(crate) fn api(&self, path: &str) -> String {
        format!("http://{}{path}", self.handle.api.expect("the API is served"))
    }

    pub(crate) fn metrics(&self) -> String {
        format!("http://{}/metrics", self.handle.metrics.expect("figures are served"))
    }
}

/// An answer over HTTP.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<String>,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }
}

pub(crate) fn local() -> Option<SocketAddr> {
    Some(SocketAddr::from(([127, 0, 0, 1], 0)))
}

impl World {
    pub(crate) async fn new(environments: &[&str]) -> Self {
        Self::with_sandbox(
            environments,
            Sandbox::builder().without_workloads().seed(1).build().expect("the sandbox starts"),
        )
        .await
    }

    pub(crate) async fn with_sandbox(environments: &[&str], sandbox: Sandbox) -> Self {
        let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: app\n";
        let mut files = Vec::new();
        for environment in environments {
            files.push((format!("environments/{environment}/kustomization.yaml"), KUSTOMIZATION));
            files.push((format!("environments/{environment}/deployment.yaml"), deployment));
        }
        let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
        let forge = Forge::start(&files).await;
        let cluster = Cluster::new(sandbox.client());
        for definition in
            kinds::definitions().into_iter().chain(slipway_kro::definitions(ApiGroup::Experimental))
        {
            let gvk = Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
            let name = definition["metadata"]["name"].as_str().expect("has a name");
            let at = ObjectRef::new(gvk, None, name);
            cluster.create(&at, &definition, &WriteOptions::default()).await.expect("is accepted");
            crd::wait_until_served(&cluster, &definition, Duration::from_secs(20)).await.expect("is served");
        }
        let http = HttpClient::new(&ClientOptions::default()).expect("a client");
        let caches = tempfile::tempdir().expect("a directory");
        let world = Self { sandbox, cluster, forge, http, caches };
        for name in [SYSTEM, "platform-policies"] {
            world.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await;
        }
        world.secret(NAMESPACE, "forge", &[("token", TOKEN), ("webhookSecret", WEBHOOK_SECRET)]).await;
        world
    }

    pub(crate) async fn secret(&self, namespace: &str, name: &str, values: &[(&str, &str)]) {
        let data: serde_json::Map<String, Value> = values
            .iter()
            .map(|(key, value)| ((*key).to_owned(), BASE64.encode(value.as_bytes()).into()))
            .collect();
        self.create(json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "namespace": namespace}, "data": data}))
            .await;
    }

    /// Two tokens by their hash, one of them for another pipeline; and a key where bodies are to be signed.
    pub(crate) async fn api_secret(&self, hmac: Option<&str>) {
        let hash = |token: &str| HEXLOWER.encode(&Sha256::digest(token));
        let tokens = format!(
            "- name: ci\n  sha256: {}\n  allow: [\"default/*\"]\n- name: other\n  sha256: {}\n  allow: [team/else]\n",
            hash(API_TOKEN),
            hash(OTHER_TOKEN)
        );
        let mut values = vec![("tokens.yaml", tokens.as_str())];
        values.extend(hmac.map(|key| ("hmacKey", key)));
        self.secret(SYSTEM, "kardinal-bundle-api", &values).await;
    }

    pub(crate) async fn create(&self, object: Value) {
        let at = ObjectRef::of(&object);
        let created = self.cluster.create(&at, &object, &WriteOptions::default()).await;
        created.unwrap_or_else(|error| panic!("{at}: {error}"));
    }

    /// Lets the time of a lease pass whose holder is gone.
    pub(crate) async fn expire_lease(&self) {
        let gvk = Gvk::new("coordination.k8s.io", "v1", "Lease");
        let at = ObjectRef::new(gvk, Some(SYSTEM), "kardinal-controller");
        let patch = slipway_cluster::ObjectPatch::Merge(json!({"spec": {"holderIdentity": ""}}));
        self.cluster.patch(&at, &patch, &WriteOptions::default(), None).await.expect("is patched");
    }

    pub(crate) async fn pipeline(&self, name: &str, mut environments: Value) {
        for environment in environments.as_array_mut().into_iter().flatten() {
            environment["health"] = json!({"type": "none"});
        }
        self.create(json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "Pipeline",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"git": {"url": self.forge.url(), "provider": "gitea", "secretRef": {"name": "forge"}},
                "environments": environments}}))
            .await;
    }

    pub(crate) async fn bundle(&self, name: &str, version: &str) {
        self.create(json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "Bundle",
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"kardinal.io/pipeline": "app"}},
            "spec": {"artifacts": {"images": [{"name": "app", "reference": format!("ghcr.io/acme/app:{version}")}]}}}))
        .await;
    }

    pub(crate) async fn start(&self, identity: &str) -> Process {
        self.start_with(identity, |_| {}).await
    }

    pub(crate) async fn start_with(
        &self,
        identity: &str,
        change: impl FnOnce(&mut ControllerOptions),
    ) -> Process {
        let mut options = ControllerOptions::new(SYSTEM, identity, self.caches.path().join(identity));
        options.election.retry = Duration::from_millis(50);
        options.listen = ListenAddresses { api: local(), metrics: local(), probes: local() };
        options.promotion.steps.scm.settle_pause = Duration::from_millis(1);
        options.promotion.steps.outbound.addresses.allowed_hosts.insert("127.0.0.1".to_owned());
        change(&mut options);
        let (stop, redactor) = (CancellationToken::new(), Redactor::new());
        let services = ControllerServices {
            cluster: Cluster::new(self.sandbox.client()),
            clock: Arc::new(SystemClock) as Arc<dyn Clock>,
            redactor: redactor.clone(),
            stop: stop.clone(),
        };
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let started = move |handle| drop(sender.send(handle));
        let task = tokio::spawn(async move { run_controller(services, options, started).await });
        let handle = tokio::time::timeout(PATIENCE, receiver).await.expect("starts in time").expect("starts");
        Process { handle, stop, redactor, task }
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        url: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Answer {
        let mut request = HttpRequest::new(method, parse_url(url).expect("an address"));
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a header");
            request.headers.insert(name, HeaderValue::from_str(value).expect("a value"));
        }
        request.content = body.map(<[u8]>::to_vec);
        let response = self.http.send_request(request).await.expect("answers");
        let status = response.status_code().as_u16();
        let retry_after = response.header_text(&slipway_http::header::RETRY_AFTER).map(str::to_owned);
        let body = response.read_body(16 << 20).await.expect("has a body");
        Answer { status, retry_after, text: String::from_utf8_lossy(&body).into_owned() }
    }

    pub(crate) async fn get(&self, url: &str) -> Answer {
        let token = format!("Bearer {API_TOKEN}");
        self.send(Method::GET, url, &[("authorization", &token)], None).await
    }

    /// Asks for a bundle as a build would.
    pub(crate) async fn post(&self, process: &Process, body: &Value, more: &[(&str, &str)]) -> Answer {
        let token = format!("Bearer {API_TOKEN}");
        let mut headers = vec![("content-type", "application/json")];
        if !more.iter().any(|(name, _)| *name == "authorization") {
            headers.push(("authorization", &token));
        }
        headers.extend(more);
        let body = body.to_string();
        self.send(Method::POST, &process.api("/api/v1/bundles"), &headers, Some(body.as_bytes())).await
    }

    pub(crate) async fn read<S: KindSpec>(&self, name: &str) -> Option<Resource<S>> {
        kinds::get(&self.cluster, NAMESPACE, name).await.expect("is read")
    }

    pub(crate) async fn read_bundle(&self, name: &str) -> Option<Bundle> {
        self.read::<BundleSpec>(name).await
    }

    pub(crate) async fn step(&self, bundle: &str, environment: &str) -> Option<PromotionStep> {
        self.read::<PromotionStepSpec>(&format!("{bundle}-{environment}")).await
    }

    /// Everything there is, for a test that failed.
    pub(crate) async fn show(&self) -> String {
        let all = slipway_cluster::ListOptions::default();
        let mut shown = String::new();
        for bundle in kinds::list::<BundleSpec>(&self.cluster, None, &all).await.unwrap_or_default() {
            shown.push_str(&format!("Bundle {}: {}\n", bundle.name(), json!(bundle.status)));
        }
        for step in kinds::list::<PromotionStepSpec>(&self.cluster, None, &all).await.unwrap_or_default() {
            shown.push_str(&format!("Step {}: {}\n", step.name(), json!(step.status)));
        }
        for gvk in [ApiGroup::Experimental.graph()] {
            let Ok(Some(kind)) = self.cluster.find_kind(&gvk).await else { continue };
            for graph in self.cluster.list(&kind, None, &all).await.map(|list| list.items).unwrap_or_default()
            {
                shown.push_str(&format!("Graph: {} {}\n", graph["metadata"], graph["status"]));
            }
        }
        let gvk = Gvk::new("coordination.k8s.io", "v1", "Lease");
        let lease = ObjectRef::new(gvk, Some(SYSTEM), "kardinal-controller");
        let lease = self.cluster.get(&lease).await.ok().flatten().unwrap_or_default();
        shown.push_str(&format!("Lease: {}\n", lease["spec"]));
        shown
    }

    pub(crate) async fn is_in(&self, bundle: &str, phase: BundlePhase) -> bool {
        self.read_bundle(bundle).await.is_some_and(|bundle| bundle.phase() == phase)
    }
}

/// Waits until something holds.
pub(crate) async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    if tokio::time::timeout(PATIENCE, wait).await.is_err() {
        panic!("two minutes passed and still not: {what}");
    }
}
