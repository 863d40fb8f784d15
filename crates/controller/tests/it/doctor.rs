//! `doctor`: each fault is planted and found.

use std::sync::Arc;

use serde_json::{Value, json};
use slipway_cluster::{Cluster, DeleteOptions, ObjectPatch, WriteOptions};
use slipway_controller::doctor::{DoctorServices, Fault, Finding, FindingLevel, diagnose};
use slipway_event::{Redactor, SystemClock};
use slipway_git::{CacheOptions, Git, RepositoryCache};
use slipway_kro::ApiGroup;
use slipway_manifest::{Gvk, ObjectRef};
use slipway_promotion::PromotionSettings;
use slipway_promotion::kinds::{AuditEventSpec, KindSpec, PipelineSpec};
use tokio_util::sync::CancellationToken;

use crate::world::{NAMESPACE, SYSTEM, World};

async fn examine(world: &World, api_url: Option<String>) -> Vec<Finding> {
    examine_cluster(world, Cluster::new(world.sandbox.client()), api_url).await
}

async fn examine_cluster(world: &World, cluster: Cluster, api_url: Option<String>) -> Vec<Finding> {
    let clock = Arc::new(SystemClock);
    let repositories = RepositoryCache::open(
        world.caches.path().join("doctor"),
        CacheOptions::default(),
        Arc::new(Git::default()),
        clock.clone(),
        CancellationToken::new(),
    );
    let mut steps = PromotionSettings::default().steps;
    steps.outbound.addresses.allowed_hosts.insert("127.0.0.1".to_owned());
    let services = DoctorServices {
        cluster,
        clock,
        http: world.http.clone(),
        redactor: Redactor::new(),
        repositories: repositories.expect("the cache opens"),
        steps,
        namespace: SYSTEM.to_owned(),
        api_url,
    };
    diagnose(&services).await
}

fn has(findings: &[Finding], fault: Fault) -> bool {
    findings.iter().any(|finding| finding.fault == Some(fault) && finding.hint.is_some())
}

fn crd(name: &str) -> ObjectRef {
    ObjectRef::new(Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition"), None, name)
}

async fn patch(world: &World, at: &ObjectRef, change: Value) {
    let options = WriteOptions::default();
    world.cluster.patch(at, &ObjectPatch::Merge(change), &options, None).await.expect("is patched");
}

/// A cluster in which everything is as it should be.
async fn sound_world() -> (World, crate::world::Process) {
    let world = World::new(&["dev"]).await;
    world.api_secret(None).await;
    world.pipeline("app", json!([{"name": "dev"}])).await;
    world
        .create(json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "steps"}, "spec": {"matchConstraints": {"resourceRules": [
                {"apiGroups": ["kardinal.io"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["promotionsteps"]}]},
                "validations": [{"expression": "true"}]}}))
        .await;
    let process = world.start("one").await;
    crate::world::until("it leads", async || process.handle.is_leader()).await;
    (world, process)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_planted_fault_is_found_and_nothing_else_before() {
    let (world, process) = sound_world().await;
    let address = process.api("");
    let sound = examine(&world, Some(address.clone())).await;
    let wrong: Vec<&Finding> = sound.iter().filter(|finding| finding.level != FindingLevel::Good).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let pipeline = PipelineSpec::at(NAMESPACE, "app");
    let secret = ObjectRef::core("Secret", Some(NAMESPACE), "forge");
    let gate = |namespace: &str, name: &str, expression: &str| {
        json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "PolicyGate",
            "metadata": {"name": name, "namespace": namespace, "labels": {"kardinal.io/scope": "org", "kardinal.io/applies-to": "dev"}},
            "spec": {"expression": expression}})
    };

    // What teams write.
    world.create(gate("platform-policies", "broken", "bundle.nothing ==")).await;
    world.create(gate(NAMESPACE, "not-here", "true")).await;
    patch(
        &world,
        &pipeline,
        json!({"spec": {"environments": [
            {"name": "dev", "health": {"type": "argocd"}, "shard": "eu", "path": "environments/dev"},
            {"name": "prod", "dependsOn": ["nobody"], "health": {"type": "none"}}]}}),
    )
    .await;
    patch(&world, &secret, json!({"data": {"webhookSecret": null}})).await;
    let found = examine(&world, Some(address)).await;
    for fault in [
        Fault::GateInvalid,
        Fault::GateScopeIgnored,
        Fault::HealthKindMissing,
        Fault::AgentOffline,
        Fault::PipelineInvalid,
        Fault::WebhookSecretMissing,
    ] {
        assert!(has(&found, fault), "{fault:?}: {found:#?}");
    }

    // Credentials and addresses.
    patch(&world, &secret, json!({"data": {"token": data_encoding::BASE64.encode(b"revoked")}})).await;
    let found = examine(&world, Some("http://127.0.0.1:9".to_owned())).await;
    assert!(has(&found, Fault::WebhookUnreachable), "{found:#?}");
    assert!(has(&found, Fault::RepositoryUnreachable), "a token that was revoked: {found:#?}");
    assert!(!has(&found, Fault::CredentialsMissing), "it is there, and refused: {found:#?}");
    world.cluster.delete(&secret, &DeleteOptions::default()).await.expect("is deleted");
    assert!(has(&examine(&world, None).await, Fault::CredentialsMissing));
    world.forge.state.lock().expect("not poisoned").is_read_only = true;
    world.secret(NAMESPACE, "forge", &[("token", crate::forge::TOKEN), ("webhookSecret", "w")]).await;
    assert!(has(&examine(&world, None).await, Fault::TokenScope), "a token that may not push");

    // The installation.
    process.end().await.expect("ends well");
    world
        .cluster
        .delete(&ObjectRef::core("Secret", Some(SYSTEM), "kardinal-bundle-api"), &DeleteOptions::default())
        .await
        .expect("is deleted");
    world
        .cluster
        .delete(&ObjectRef::core("Namespace", None, "platform-policies"), &DeleteOptions::default())
        .await
        .expect("is deleted");
    let policy = Gvk::new("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy");
    let policy = ObjectRef::new(policy, None, "steps");
    world.cluster.delete(&policy, &DeleteOptions::default()).await.expect("is deleted");
    let found = examine(&world, None).await;
    for fault in [Fault::ControllerNotRunning, Fault::ApiTokensMissing, Fault::AdmissionPoliciesMissing] {
        assert!(has(&found, fault), "{fault:?}: {found:#?}");
    }
    crate::world::until("the namespace is missed", async || {
        has(&examine(&world, None).await, Fault::PolicyNamespaceMissing)
    })
    .await;

    // The audit trail, then the definitions.
    world
        .create(json!({"apiVersion": "kardinal.io/v1alpha1", "kind": AuditEventSpec::KIND,
            "metadata": {"name": "forged", "namespace": NAMESPACE, "labels": {"kardinal.io/pipeline": "app"}},
            "spec": {"timestamp": "2026-01-01T00:00:00Z", "bundleName": "app-1", "pipelineName": "app",
                "action": "PRMerged", "outcome": "Success"}}))
        .await;
    assert!(has(&examine(&world, None).await, Fault::AuditChainBroken));
    patch(
        &world,
        &crd("notificationhooks.kardinal.io"),
        json!({"spec": {"versions": [{"name": "v1alpha1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}]}}),
    )
    .await;
    for name in
        ["changewindows.kardinal.io".to_owned(), format!("graphs.{}", ApiGroup::Experimental.graph().group)]
    {
        world.cluster.delete(&crd(&name), &DeleteOptions::default()).await.expect("is deleted");
    }
    crate::world::until("the definitions are missed", async || {
        let found = examine(&world, None).await;
        [Fault::DefinitionMissing, Fault::DefinitionOutdated, Fault::GraphsMissing]
            .into_iter()
            .all(|fault| has(&found, fault))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_does_not_answer_is_one_finding() {
    let world = World::new(&["dev"]).await;
    let config = kube::Config::new("http://127.0.0.1:9".parse().expect("an address"));
    let nowhere = Cluster::new(kube::Client::try_from(config).expect("a client"));
    let found = examine_cluster(&world, nowhere, None).await;
    assert_eq!(
        found.iter().map(|finding| finding.fault).collect::<Vec<_>>(),
        [Some(Fault::ClusterUnreachable)]
    );
}
