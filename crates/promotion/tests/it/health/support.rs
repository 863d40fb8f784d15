//! A cluster with the kinds of GitOps tools, and looks at the health of one environment.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_cluster::{Cluster, ObjectPatch, WriteOptions, crd};
use slipway_event::{Clock, ManualClock, Redactor};
use slipway_manifest::ObjectRef;
use slipway_promotion::health::{HealthCheck, HealthProof, HealthReport, HealthTarget, RevisionHistory};
use slipway_promotion::kinds::{
    HealthBaseline, HealthLevel, HealthObservation, HealthSpec, HealthType, ImageArtifact,
};
use slipway_promotion::{OutboundClients, OutboundPolicy};
use slipway_sandbox::Sandbox;
use tokio_util::sync::CancellationToken;

pub(crate) const OLD: &str = "1111111111111111111111111111111111111111";
pub(crate) const NEW: &str = "2222222222222222222222222222222222222222";
pub(crate) const LATER: &str = "3333333333333333333333333333333333333333";

/// The environment `prod` of pipeline `my-app`, on its way from 1.28.0 to 1.29.0.
pub(crate) struct Scene {
    _sandbox: Sandbox,
    pub(crate) cluster: Cluster,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) check: HealthCheck,
    pub(crate) target: HealthTarget,
    pub(crate) images: Vec<ImageArtifact>,
    pub(crate) revision: Option<String>,
    pub(crate) no_change: bool,
    pub(crate) baseline: Option<HealthBaseline>,
    pub(crate) before: Option<HealthObservation>,
    pub(crate) merged_at: Option<Timestamp>,
    started: Timestamp,
}

/// Which tools are installed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tools {
    None,
    All,
}

/// Lets kubeconfigs name servers of this machine.
pub(crate) fn local_servers() -> OutboundClients {
    let mut policy = OutboundPolicy::default();
    policy.addresses.allowed_hosts.insert("127.0.0.1".to_owned());
    OutboundClients::new(policy, CancellationToken::new())
}

impl Scene {
    pub(crate) async fn new(tools: Tools) -> Scene {
        let sandbox = Sandbox::builder().without_workloads().seed(1).build().expect("the sandbox starts");
        let cluster = Cluster::new(sandbox.client());
        let clock = Arc::new(ManualClock::at("2026-04-10T12:00:00Z".parse().expect("is a time")));
        let check =
            HealthCheck::new(cluster.clone(), clock.clone(), Redactor::new()).with_outbound(local_servers());
        for namespace in ["argocd", "flux-system", "prod", "apps"] {
            apply(
                &cluster,
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
            )
            .await;
        }
        let target = HealthTarget {
            namespace: "apps".into(),
            pipeline: "my-app".into(),
            environment: "prod".into(),
            path: "environments/prod".into(),
            ..HealthTarget::default()
        };
        let image = ImageArtifact {
            name: "ghcr.io/acme/app".into(),
            reference: "ghcr.io/acme/app:1.29.0".into(),
            digest: None,
        };
        let started = clock.now();
        let scene = Scene {
            _sandbox: sandbox,
            cluster,
            clock,
            check,
            target,
            images: vec![image],
            revision: Some(NEW.into()),
            no_change: false,
            baseline: None,
            before: None,
            merged_at: Some(started),
            started,
        };
        if tools == Tools::All {
            scene.install_tools().await;
        }
        scene
    }

    pub(crate) async fn install_tools(&self) {
        for (group, version, kind) in [
            ("argoproj.io", "v1alpha1", "Application"),
            ("argoproj.io", "v1alpha1", "Rollout"),
            ("kustomize.toolkit.fluxcd.io", "v1", "Kustomization"),
            ("helm.toolkit.fluxcd.io", "v2", "HelmRelease"),
            ("flagger.app", "v1beta1", "Canary"),
        ] {
            install(&self.cluster, group, version, kind).await;
        }
    }

    /// Checks with an adapter that is asked for.
    pub(crate) fn with_adapter(mut self, adapter: HealthType) -> Scene {
        self.target.health.adapter = Some(adapter);
        self
    }

    /// A change of configuration alone.
    pub(crate) fn without_images(mut self) -> Scene {
        self.images.clear();
        self
    }

    pub(crate) fn health(&mut self) -> &mut HealthSpec {
        &mut self.target.health
    }

    pub(crate) async fn take_baseline(&mut self) {
        self.baseline = Some(self.check.baseline(&self.target).await.expect("the baseline can be taken"));
    }

    /// Creates an object or brings it to this state, with its status.
    pub(crate) async fn set(&self, object: Value) {
        apply(&self.cluster, object).await;
    }

    /// Looks once; the next look knows what this one saw.
    pub(crate) async fn look(&mut self) -> HealthReport {
        self.look_with(None).await
    }

    pub(crate) async fn look_with(&mut self, history: Option<&dyn RevisionHistory>) -> HealthReport {
        let proof = HealthProof {
            target_revision: self.revision.clone(),
            images: self.images.clone(),
            no_change: self.no_change,
            merged_at: self.merged_at,
            started_at: Some(self.started),
            baseline: self.baseline.as_ref(),
            before: self.before.as_ref(),
            history,
        };
        let report = self.check.check(&self.target, &proof).await;
        self.before = Some(report.observation.clone());
        report
    }

    /// Looks once and says what was seen: `Progressing StaleImage: …`.
    pub(crate) async fn see(&mut self) -> String {
        let report = self.look().await;
        let HealthObservation { level, reason, message, .. } = report.observation;
        format!("{level:?} {reason}: {message}")
    }

    pub(crate) async fn expect(&mut self, level: HealthLevel, reason: &str) {
        let seen = self.look().await.observation;
        assert_eq!((seen.level, seen.reason.as_str()), (level, reason), "{}", seen.message);
    }

    pub(crate) fn later(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }
}

/// Installs a kind whose spec and status may hold anything.
pub(crate) async fn install(cluster: &Cluster, group: &str, version: &str, kind: &str) {
    let plural = format!("{}s", kind.to_lowercase());
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
            "versions": [{
                "name": version, "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}},
            }],
        },
    });
    apply(cluster, definition.clone()).await;
    crd::wait_until_served(cluster, &definition, Duration::from_secs(20)).await.expect("is served");
}

/// Creates an object or brings it to this state, with its status.
pub(crate) async fn apply(cluster: &Cluster, object: Value) {
    let at = ObjectRef::of(&object);
    let options = WriteOptions::for_manager("their-controller");
    match cluster.get(&at).await.expect("can be read") {
        None => cluster.create(&at, &object, &options).await.map(|_| ()),
        Some(_) => {
            let mut change = object.clone();
            if let Some(change) = change.as_object_mut() {
                change.remove("status");
            }
            cluster.patch(&at, &ObjectPatch::Merge(change), &options, None).await.map(|_| ())
        }
    }
    .unwrap_or_else(|error| panic!("{at}: {error}"));
    if object.get("status").is_some() {
        let patch = ObjectPatch::Merge(json!({"status": object["status"]}));
        let written = cluster.patch(&at, &patch, &options, Some("status")).await;
        written.unwrap_or_else(|error| panic!("{at}: {error}"));
    }
}

/// A Deployment of `my-app` in `prod`.
pub(crate) fn deployment(tag: &str, status: Value) -> Value {
    named_deployment("my-app", &format!("ghcr.io/acme/app:{tag}"), status)
}

pub(crate) fn named_deployment(name: &str, image: &str, status: Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "prod", "labels": {"team": "shop"}},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "app", "image": image}]},
            },
        },
        "status": status,
    })
}

/// The status of a Deployment whose rollout of a generation has ended.
pub(crate) fn rolled_out(generation: i64) -> Value {
    json!({
        "observedGeneration": generation, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2,
        "conditions": [
            {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable", "message": "ok"},
            {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable", "message": "ok"},
        ],
    })
}
