//! Health by the tools that sync a repository, in whole promotions: Argo CD, Flux, workloads and other clusters.

use std::time::Duration;

use serde_json::{Value, json};
use slipway_cluster::Cluster;
use slipway_promotion::kinds::{BundlePhase, HealthObservation, StepState};

use super::health::Workload;
use super::world::{NAMESPACE, World};
use crate::forge::git;
use crate::health::gitops::{application, kustomization, ready};
use crate::health::remote::{Remote, kubeconfig_secret};
use crate::health::support::{apply, deployment, install, named_deployment, rolled_out};

const MINUTE: Duration = Duration::from_secs(60);

async fn namespace(world: &World, name: &str) {
    world.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await;
}

/// A cluster with one environment that serves the kind of a tool.
async fn world_with(group: &str, version: &str, kind: &str, home: &str) -> World {
    let mut world = World::new(&["prod"]).await;
    world.stop().await;
    install(&world.cluster, group, version, kind).await;
    namespace(&world, home).await;
    world.start();
    world
}

async fn pass_until_verified(world: &World, bundle: &str) {
    let verified = async || world.read_bundle(bundle).await.phase() == BundlePhase::Verified;
    world.pass(20 * MINUTE, &format!("{bundle} is verified"), verified).await;
}

async fn observed(world: &World, bundle: &str) -> HealthObservation {
    world.step(bundle, "prod").await.expect("the step exists").status.health.unwrap_or_default()
}

/// Lets the tool look for a while, and finds the environment as far as it was.
async fn still_waits(world: &World, bundle: &str, reason: &str) {
    world.pass_time(MINUTE).await;
    assert_eq!(world.state(bundle, "prod").await, Some(StepState::HealthChecking));
    let seen = observed(world, bundle).await;
    assert_eq!(seen.reason, reason, "{seen:?}");
}

fn synced_application(revision: &str, version: &str) -> Value {
    let mut found = application("Synced", revision, "Healthy");
    found["metadata"]["name"] = json!("app-prod");
    found["status"]["summary"]["images"] = json!([format!("ghcr.io/acme/app:{version}")]);
    found
}

/// Squashes the pull request of a bundle into `main`.
async fn squash(world: &World, bundle: &str) -> String {
    world.until_state(bundle, "prod", StepState::WaitingForMerge).await;
    let step = world.step(bundle, "prod").await.expect("the step exists");
    let commit = world.forge.merge(step.status.pr_number.expect("has a pull request"), "squash", "alice");
    world.controller().nudge_step(NAMESPACE, step.name());
    world.until_state(bundle, "prod", StepState::HealthChecking).await;
    commit
}

/// E02: an Application that is well at the old revision proves nothing; the merge does, and whatever contains it.
#[tokio::test(flavor = "multi_thread")]
async fn argo_cd_proves_a_version_by_its_revision() {
    let world = world_with("argoproj.io", "v1alpha1", "Application", "argocd").await;
    let first = git(&world.forge.repository(), &["rev-parse", "main"]).expect("there is a commit");
    apply(&world.cluster, synced_application(&first, "1.28.0")).await;
    let health = json!({"type": "argocd", "timeout": "30m"});
    world.pipeline(json!([{"name": "prod", "approval": "pr-review", "health": health}])).await;
    world.bundle("app-1", "1.29.0").await;
    let merged = squash(&world, "app-1").await;
    still_waits(&world, "app-1", "StaleRevision").await;
    apply(&world.cluster, synced_application(&merged, "1.29.0")).await;
    pass_until_verified(&world, "app-1").await;
    assert_eq!(observed(&world, "app-1").await.observed_revision, Some(merged));
    // Squashed, and somebody pushes before the tool looks.
    world.bundle("app-2", "1.30.0").await;
    squash(&world, "app-2").await;
    let later = world.forge.person("main", "unrelated", &[("README", "hello\n")]);
    apply(&world.cluster, synced_application(&later, "1.30.0")).await;
    pass_until_verified(&world, "app-2").await;
    assert_eq!(observed(&world, "app-2").await.observed_revision, Some(later));
}

/// E03: Flux in both forms of its revision; what has stalled fails, what is stuck fails when time is up.
#[tokio::test(flavor = "multi_thread")]
async fn flux_proves_a_version_by_its_revision() {
    let world = world_with("kustomize.toolkit.fluxcd.io", "v1", "Kustomization", "flux-system").await;
    let set = async |applied: &str, attempted: &str, conditions: Value| {
        let mut found = kustomization(applied, conditions);
        found["metadata"]["name"] = json!("app-prod");
        found["status"]["lastAttemptedRevision"] = json!(attempted);
        apply(&world.cluster, found).await;
    };
    let first = git(&world.forge.repository(), &["rev-parse", "main"]).expect("there is a commit");
    let mut last = format!("main@sha1:{first}");
    set(&last, &last, ready()).await;
    let health = json!({"type": "flux", "timeout": "4m"});
    world.pipeline(json!([{"name": "prod", "health": health, "onHealthFailure": "none"}])).await;
    let promoted = async |bundle: &str, version: &str| {
        world.bundle(bundle, version).await;
        world.until_state(bundle, "prod", StepState::HealthChecking).await;
        world.step(bundle, "prod").await.expect("the step exists").status.outputs["commitSHA"].clone()
    };
    for (bundle, version, form) in [("app-1", "1.29.0", "main@sha1:"), ("app-2", "1.30.0", "main/")] {
        let commit = promoted(bundle, version).await;
        still_waits(&world, bundle, "StaleRevision").await;
        last = format!("{form}{commit}");
        set(&last, &last, ready()).await;
        pass_until_verified(&world, bundle).await;
    }
    let failed = async |bundle: &str| {
        let failed = async || world.state(bundle, "prod").await == Some(StepState::Failed);
        world.pass(10 * MINUTE, &format!("{bundle} fails"), failed).await;
        let status = world.step(bundle, "prod").await.expect("the step exists").status;
        (status.reason.unwrap_or_default(), status.message.unwrap_or_default(), status.health_check_expiry)
    };
    let commit = promoted("app-3", "1.31.0").await;
    let stalled = json!([
        {"type": "Stalled", "status": "True", "reason": "BuildFailed", "message": "kustomization path not found"},
        {"type": "Ready", "status": "False", "reason": "BuildFailed", "message": "kustomization path not found"},
    ]);
    set(&last, &format!("main@sha1:{commit}"), stalled).await;
    let (reason, message, expiry) = failed("app-3").await;
    assert!(world.now() < expiry.expect("has a deadline"), "it does not wait for its deadline");
    assert!(message.contains("kustomization path not found"), "{reason}: {message}");
    world.until_phase("app-3", BundlePhase::Failed).await;
    let commit = promoted("app-4", "1.32.0").await;
    let stuck = json!([{"type": "Stalled", "status": "False", "reason": "Progressing", "message": ""},
        {"type": "Ready", "status": "False", "reason": "HealthCheckFailed", "message": "timeout waiting for Deployment"}]);
    set(&last, &format!("main@sha1:{commit}"), stuck).await;
    let (reason, message, expiry) = failed("app-4").await;
    assert!(world.now() >= expiry.expect("has a deadline"), "it may still come right until then");
    assert_eq!(reason, "HealthTimeout");
    assert!(message.contains("timeout waiting for Deployment"), "{message}");
}

/// E04: the tool that knows the environment is found; without one its workload counts, and somebody is warned.
#[tokio::test(flavor = "multi_thread")]
async fn the_tool_of_an_environment_is_found_unless_it_is_named() {
    let world = world_with("argoproj.io", "v1alpha1", "Application", "argocd").await;
    let workload = Workload::create(&world, "1.28.0").await;
    let health = json!({"timeout": "30m", "resource": {"name": "app", "namespace": NAMESPACE}});
    world.pipeline(json!([{"name": "prod", "health": health}])).await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "prod", StepState::HealthChecking).await;
    still_waits(&world, "app-1", "StaleImage").await;
    workload.sync("1.29.0", "True").await;
    pass_until_verified(&world, "app-1").await;
    assert_eq!(observed(&world, "app-1").await.adapter, "resource(fallback)");
    world.until_told("PromotionStep", ("Warning", "AdapterFallback", "app-1-prod")).await;
    let stale = git(&world.forge.repository(), &["rev-parse", "main"]).expect("there is a commit");
    apply(&world.cluster, synced_application(&stale, "1.29.0")).await;
    world.bundle("app-2", "1.30.0").await;
    world.until_state("app-2", "prod", StepState::HealthChecking).await;
    workload.sync("1.30.0", "True").await;
    still_waits(&world, "app-2", "StaleRevision").await;
    assert_eq!(observed(&world, "app-2").await.adapter, "argocd");
    let commit = world.step("app-2", "prod").await.expect("exists").status.outputs["commitSHA"].clone();
    apply(&world.cluster, synced_application(&commit, "1.30.0")).await;
    pass_until_verified(&world, "app-2").await;
    // The Application stays where it is: the pipeline asks for the workload.
    let named =
        json!({"type": "resource", "timeout": "30m", "resource": {"name": "app", "namespace": NAMESPACE}});
    world.pipeline_edit(json!([{"name": "prod", "health": named}])).await;
    world.bundle("app-3", "1.31.0").await;
    world.until_state("app-3", "prod", StepState::HealthChecking).await;
    workload.sync("1.31.0", "True").await;
    pass_until_verified(&world, "app-3").await;
    assert_eq!(observed(&world, "app-3").await.adapter, "resource");
}

/// E06: another cluster is reached by the kubeconfig of a Secret, which may change; one that runs programs is refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_version_is_proven_in_another_cluster() {
    let world = World::new(&["prod"]).await;
    let (first, second) = (Remote::start().await, Remote::start().await);
    let place = json!({"name": "my-app", "namespace": "prod"});
    let health = json!({"type": "resource", "timeout": "60m", "cluster": "workload", "resource": place});
    world.pipeline(json!([{"name": "prod", "health": health}])).await;
    let login = first.kubeconfig();
    let token = login.find("token:").expect("logs in with a token");
    let end = login[token..].find('\n').map_or(login.len(), |end| token + end);
    let program = "exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, args: [-c, 'exit 1']}";
    let with_program = format!("{}{program}{}", &login[..token], &login[end..]);
    let set =
        async |text: &str| apply(&world.cluster, kubeconfig_secret(NAMESPACE, "kubeconfig", text)).await;
    set(&login).await;
    world.bundle("app-1", "1.29.0").await;
    pass_until_verified(&world, "app-1").await;
    // The Secret names another cluster now, which the next version has not reached.
    set(&second.kubeconfig()).await;
    world.bundle("app-2", "1.30.0").await;
    world.until_state("app-2", "prod", StepState::HealthChecking).await;
    apply(&Cluster::new(first.sandbox.client()), deployment("1.30.0", rolled_out(2))).await;
    still_waits(&world, "app-2", "StaleImage").await;
    set(&with_program).await;
    apply(&Cluster::new(second.sandbox.client()), deployment("1.30.0", rolled_out(2))).await;
    still_waits(&world, "app-2", "KubeconfigRejected").await;
    set(&second.kubeconfig()).await;
    pass_until_verified(&world, "app-2").await;
}

/// E07: of three selected workloads every one must be well.
#[tokio::test(flavor = "multi_thread")]
async fn every_selected_workload_must_be_well() {
    let world = World::new(&["prod"]).await;
    namespace(&world, "prod").await;
    let set = async |name: &str, version: &str, status: Value| {
        let image = format!("ghcr.io/acme/app:{version}");
        apply(&world.cluster, named_deployment(name, &image, status)).await;
    };
    for name in ["api", "web", "worker"] {
        set(name, "1.28.0", rolled_out(1)).await;
    }
    let health = json!({"type": "resource", "timeout": "60m", "labelSelector": {"team": "shop"}});
    world.pipeline(json!([{"name": "prod", "health": health}])).await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "prod", StepState::HealthChecking).await;
    set("api", "1.29.0", rolled_out(2)).await;
    set("web", "1.29.0", rolled_out(2)).await;
    let mut unwell = rolled_out(2);
    (unwell["readyReplicas"], unwell["availableReplicas"]) = (json!(1), json!(1));
    unwell["conditions"][0] =
        json!({"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable"});
    set("worker", "1.29.0", unwell).await;
    world.pass_time(2 * MINUTE).await;
    assert_eq!(world.state("app-1", "prod").await, Some(StepState::HealthChecking));
    let seen = observed(&world, "app-1").await;
    assert!(seen.message.contains("worker"), "{seen:?}");
    set("worker", "1.29.0", rolled_out(2)).await;
    pass_until_verified(&world, "app-1").await;
}
