//! Argo CD and Flux: the revision is the proof.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};
use slipway_event::SystemClock;
use slipway_git::{
    BranchName, CacheOptions, Git, GitCredential, RepositoryAddress, RepositoryCache, TransportPolicy,
};
use slipway_promotion::health::BranchHistory;
use slipway_promotion::kinds::{HealthLevel, HealthType};
use tokio_util::sync::CancellationToken;

use super::support::{LATER, NEW, OLD, Scene, Tools, deployment, install, rolled_out};

pub(crate) fn application(sync: &str, revision: &str, health: &str) -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": "my-app-prod", "namespace": "argocd"},
        "spec": {"source": {"repoURL": "https://git.example.com/a", "path": "environments/prod"}},
        "status": {
            "health": {"status": health, "lastTransitionTime": "2026-04-10T11:00:00Z"},
            "sync": {"status": sync, "revision": revision},
            "reconciledAt": "2026-04-10T12:00:05Z",
            "operationState": {"phase": "Succeeded", "message": "successfully synced", "finishedAt": "2026-04-10T11:00:00Z"},
            "summary": {"images": ["ghcr.io/acme/app:1.29.0", "redis:7"]},
        },
    })
}

#[tokio::test]
async fn an_application_at_the_old_revision_is_waited_for() {
    let mut scene = Scene::new(Tools::All).await.with_adapter(HealthType::ArgoCd);
    scene.set(application("Synced", OLD, "Healthy")).await;
    scene.take_baseline().await;
    assert_eq!(
        scene.see().await,
        "Progressing StaleRevision: argocd my-app-prod: Synced at 1111111, want 2222222"
    );
    scene.set(application("OutOfSync", NEW, "Healthy")).await;
    assert_eq!(scene.see().await, "Progressing OutOfSync: argocd my-app-prod: OutOfSync at 2222222");
    scene.set(application("Synced", NEW, "Progressing")).await;
    scene.expect(HealthLevel::Progressing, "Progressing").await;
    scene.set(application("Synced", NEW, "Suspended")).await;
    scene.expect(HealthLevel::Progressing, "Suspended").await;
    scene.set(application("Synced", NEW, "Healthy")).await;
    let report = scene.look().await;
    assert!(report.is_healthy());
    assert_eq!((report.observed_revision(), report.observation.adapter.as_str()), (Some(NEW), "argocd"));
    // The tool lists the images it runs: they must be the bundle's.
    let mut other = application("Synced", NEW, "Healthy");
    other["status"]["summary"]["images"] = json!(["ghcr.io/acme/app:1.28.0"]);
    scene.set(other).await;
    scene.expect(HealthLevel::Progressing, "StaleImage").await;
}

#[tokio::test]
async fn one_of_several_sources_proves_the_revision() {
    let mut scene = Scene::new(Tools::All).await.with_adapter(HealthType::ArgoCd);
    let mut many = application("Synced", "", "Healthy");
    many["status"]["sync"]["revisions"] = json!(["1.2.3", NEW]);
    scene.set(many).await;
    scene.expect(HealthLevel::Healthy, "Healthy").await;
    // A chart has no commit: the comparison after the merge is all there is.
    let mut chart = application("Synced", "1.2.3", "Healthy");
    chart["status"]["sync"]["revisions"] = Value::Null;
    scene.set(chart.clone()).await;
    scene.expect(HealthLevel::Healthy, "Healthy").await;
    chart["status"]["reconciledAt"] = json!("2026-04-10T11:59:00Z");
    scene.set(chart).await;
    scene.expect(HealthLevel::Progressing, "StaleRevision").await;
}

#[tokio::test]
async fn a_degraded_application_fails_when_it_stays_so() {
    let mut scene = Scene::new(Tools::All).await.with_adapter(HealthType::ArgoCd);
    let mut degraded = application("Synced", NEW, "Degraded");
    degraded["status"]["health"]["message"] = json!("back-off restarting\nfailed container");
    scene.set(degraded).await;
    assert_eq!(
        scene.see().await,
        "Progressing Degraded: argocd my-app-prod: Degraded at 2222222: back-off restarting failed container"
    );
    scene.later(60);
    scene.expect(HealthLevel::Progressing, "Degraded").await;
    scene.later(10);
    scene.expect(HealthLevel::Failed, "Degraded").await;
    // Once it was healthy the same is an alarm at once.
    scene.set(application("Synced", NEW, "Healthy")).await;
    scene.expect(HealthLevel::Healthy, "Healthy").await;
    scene.set(application("Synced", NEW, "Degraded")).await;
    scene.expect(HealthLevel::Degraded, "Degraded").await;
    // Parts may be missing for two minutes.
    scene.before = None;
    scene.set(application("Synced", NEW, "Missing")).await;
    scene.expect(HealthLevel::Progressing, "Progressing").await;
    scene.later(120);
    scene.expect(HealthLevel::Degraded, "Missing").await;
}

#[tokio::test]
async fn an_operation_fails_the_check_only_after_its_retries() {
    let mut scene = Scene::new(Tools::All).await.with_adapter(HealthType::ArgoCd);
    let operation = |phase: &str, retries: i64| {
        let mut application = application("OutOfSync", NEW, "Healthy");
        application["status"]["operationState"] = json!({"phase": phase, "message": "one or more objects failed to apply",
            "retryCount": retries, "operation": {"retry": {"limit": 5}}});
        application
    };
    for (phase, retries, level, reason) in [
        ("Running", 0, HealthLevel::Progressing, "Syncing"),
        ("Failed", 3, HealthLevel::Progressing, "Syncing"),
        ("Failed", 5, HealthLevel::Failed, "SyncFailed"),
        ("Error", 5, HealthLevel::Failed, "SyncFailed"),
    ] {
        scene.set(operation(phase, retries)).await;
        scene.expect(level, reason).await;
    }
}

fn git(directory: &Path, args: &[&str]) -> String {
    let identity =
        ["-c", "user.name=Human", "-c", "user.email=human@example.com", "-c", "commit.gpgSign=false"];
    let mut command = Command::new("git");
    command.current_dir(directory).args(identity).args(args).env("GIT_CONFIG_GLOBAL", "/dev/null");
    let output = command.output().expect("git runs");
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("is text").trim_end().to_owned()
}

#[tokio::test]
async fn a_later_commit_proves_the_change_it_contains() {
    let place = tempfile::tempdir().expect("there is room");
    let work = place.path().join("work");
    git(place.path(), &["init", "-q", "-b", "main", "work"]);
    git(&work, &["config", "uploadpack.allowFilter", "true"]);
    let mut commits = Vec::new();
    for subject in ["before", "squashed merge", "unrelated"] {
        git(&work, &["commit", "-q", "--allow-empty", "-m", subject]);
        commits.push(git(&work, &["rev-parse", "HEAD"]));
    }
    let cache = RepositoryCache::open(
        place.path().join("cache"),
        CacheOptions::default(),
        Arc::new(Git::default()),
        Arc::new(SystemClock),
        CancellationToken::new(),
    );
    let url = format!("file://{}", work.display());
    let address = RepositoryAddress::parse(&url, TransportPolicy::NetworkAndFiles).expect("is an address");
    let history = BranchHistory {
        repository: cache.expect("opens").repository(address, GitCredential::Anonymous),
        branch: BranchName::parse("main").expect("is a branch"),
    };
    let mut scene = Scene::new(Tools::All).await.with_adapter(HealthType::ArgoCd);
    scene.revision = Some(commits[1].clone());
    for (at, level) in [(0, HealthLevel::Progressing), (1, HealthLevel::Healthy), (2, HealthLevel::Healthy)] {
        scene.set(application("Synced", &commits[at], "Healthy")).await;
        let report = scene.look_with(Some(&history)).await;
        assert_eq!(report.level(), level, "{:?}", report.observation);
    }
    // A commit nobody knows contains nothing.
    scene.set(application("Synced", LATER, "Healthy")).await;
    assert_eq!(scene.look_with(Some(&history)).await.level(), HealthLevel::Progressing);
}

pub(crate) fn kustomization(revision: &str, conditions: Value) -> Value {
    json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": "my-app-prod", "namespace": "flux-system"},
        "spec": {"path": "./environments/prod", "sourceRef": {"kind": "GitRepository", "name": "a"}},
        "status": {"observedGeneration": 1, "lastAppliedRevision": revision, "lastAttemptedRevision": revision,
            "conditions": conditions},
    })
}

pub(crate) fn ready() -> Value {
    json!([{"type": "Ready", "status": "True", "reason": "ReconciliationSucceeded", "message": "Applied revision"}])
}

#[tokio::test]
async fn a_kustomization_proves_its_revision_in_both_forms() {
    let mut scene = Scene::new(Tools::All).await.with_adapter(HealthType::Flux);
    scene.set(kustomization(&format!("main@sha1:{OLD}"), ready())).await;
    scene.take_baseline().await;
    assert_eq!(
        scene.see().await,
        "Progressing StaleRevision: flux my-app-prod: Ready at 1111111, want 2222222"
    );
    for form in [format!("main@sha1:{NEW}"), format!("main/{NEW}")] {
        scene.set(kustomization(&form, ready())).await;
        assert_eq!(scene.see().await, "Healthy Healthy: flux my-app-prod: Ready at 2222222");
    }
    // A spec that its controller has not seen yet may change everything.
    let mut edited = kustomization(&format!("main@sha1:{NEW}"), ready());
    edited["spec"]["prune"] = json!(true);
    scene.set(edited).await;
    scene.expect(HealthLevel::Progressing, "Progressing").await;
}

#[tokio::test]
async fn a_stalled_kustomization_fails_and_a_stuck_one_waits() {
    let mut scene = Scene::new(Tools::All).await.with_adapter(HealthType::Flux);
    let mut stuck = kustomization(
        &format!("main@sha1:{OLD}"),
        json!([{"type": "Ready", "status": "False", "reason": "HealthCheckFailed", "message": "timeout waiting for Deployment"}]),
    );
    stuck["status"]["lastAttemptedRevision"] = json!(format!("main@sha1:{NEW}"));
    scene.set(stuck.clone()).await;
    scene.expect(HealthLevel::Progressing, "NotReady").await;
    scene.later(70);
    // It may still come right: the deadline decides.
    scene.expect(HealthLevel::Degraded, "NotReady").await;
    stuck["status"]["conditions"] = json!([
        {"type": "Reconciling", "status": "True", "reason": "Progressing", "message": "Building manifests"},
        {"type": "Ready", "status": "Unknown", "reason": "Progressing", "message": "Reconciliation in progress"},
    ]);
    scene.set(stuck.clone()).await;
    scene.expect(HealthLevel::Progressing, "Reconciling").await;
    stuck["status"]["conditions"] = json!([
        {"type": "Stalled", "status": "True", "reason": "BuildFailed", "message": "kustomization path not found"},
        {"type": "Ready", "status": "False", "reason": "BuildFailed", "message": "kustomization path not found"},
    ]);
    scene.set(stuck.clone()).await;
    assert_eq!(
        scene.see().await,
        "Failed Stalled: flux my-app-prod: BuildFailed: kustomization path not found"
    );
    // What stalled before may be what the change repairs: it gets a minute.
    let mut scene = Scene::new(Tools::All).await.with_adapter(HealthType::Flux);
    stuck["status"]["lastAttemptedRevision"] = json!(format!("main@sha1:{OLD}"));
    scene.set(stuck).await;
    scene.expect(HealthLevel::Progressing, "Stalled").await;
    scene.later(61);
    scene.expect(HealthLevel::Failed, "Stalled").await;
}

#[tokio::test]
async fn a_suspended_kustomization_is_waited_for() {
    let mut scene = Scene::new(Tools::All).await.with_adapter(HealthType::Flux);
    let mut suspended = kustomization(&format!("main@sha1:{OLD}"), ready());
    suspended["spec"]["suspend"] = json!(true);
    scene.set(suspended).await;
    scene.expect(HealthLevel::Progressing, "Suspended").await;
}

fn release(version: i64, status: &str, conditions: Value) -> Value {
    json!({
        "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
        "metadata": {"name": "my-app-prod", "namespace": "flux-system"},
        "spec": {"interval": "5m", "values": {"image": {"tag": "1.28.0"}}},
        "status": {"observedGeneration": 1, "conditions": conditions, "history": [
            {"version": version, "status": status, "chartName": "app", "chartVersion": "4.0.1", "configDigest": format!("sha256:{version}")}]},
    })
}

#[tokio::test]
async fn a_helm_release_is_proven_by_the_kustomization_that_applied_it() {
    let mut scene = Scene::new(Tools::All).await.with_adapter(HealthType::HelmRelease);
    let owned = |version: i64| {
        let mut release = release(version, "deployed", ready());
        release["metadata"]["labels"] = json!({
            "kustomize.toolkit.fluxcd.io/name": "cluster", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"});
        release
    };
    let owner = |revision: &str| {
        let mut owner = kustomization(&format!("main@sha1:{revision}"), ready());
        owner["metadata"]["name"] = json!("cluster");
        owner
    };
    scene.set(owned(3)).await;
    scene.set(owner(OLD)).await;
    scene.take_baseline().await;
    scene.expect(HealthLevel::Progressing, "StaleRevision").await;
    scene.set(owner(NEW)).await;
    assert_eq!(
        scene.see().await,
        "Healthy Healthy: helmrelease my-app-prod: release 3 of chart 4.0.1 is deployed"
    );
}

#[tokio::test]
async fn a_helm_release_of_its_own_is_proven_by_its_generation_or_a_new_release() {
    let mut scene = Scene::new(Tools::All).await.with_adapter(HealthType::HelmRelease);
    scene.set(release(3, "deployed", ready())).await;
    scene.take_baseline().await;
    scene.expect(HealthLevel::Progressing, "NotUpdated").await;
    scene.set(release(4, "pending-upgrade", ready())).await;
    scene.expect(HealthLevel::Progressing, "Progressing").await;
    let failed =
        json!([{"type": "Ready", "status": "False", "reason": "UpgradeFailed", "message": "timed out"}]);
    scene.set(release(4, "failed", failed)).await;
    scene.expect(HealthLevel::Progressing, "NotReady").await;
    scene.set(release(4, "deployed", ready())).await;
    scene.expect(HealthLevel::Healthy, "Healthy").await;
    let stalled = json!([{"type": "Stalled", "status": "True", "reason": "RetriesExceeded", "message": "Failed to upgrade"}]);
    scene.set(release(5, "failed", stalled)).await;
    scene.expect(HealthLevel::Failed, "Stalled").await;
}

#[tokio::test]
async fn the_tool_that_knows_the_environment_is_found() {
    let mut scene = Scene::new(Tools::None).await;
    scene.set(deployment("1.29.0", rolled_out(1))).await;
    let report = scene.look().await;
    assert_eq!((report.observation.adapter.as_str(), report.warning), ("resource", None));
    // Installed later, and found again within five minutes; but neither tool knows the environment.
    scene.install_tools().await;
    scene.later(300);
    let report = scene.look().await;
    assert_eq!(report.observation.adapter, "resource(fallback)");
    let warning = report.warning.expect("somebody should know");
    assert_eq!(warning.reason, "AdapterFallback");
    assert!(warning.message.contains("Application argocd/my-app-prod"), "{}", warning.message);
    assert_eq!(scene.look().await.warning, None, "told once");
    // By path, whatever the name is.
    let mut other = kustomization(&format!("main@sha1:{NEW}"), ready());
    other["metadata"]["name"] = json!("shop");
    scene.set(other).await;
    let report = scene.look().await;
    assert_eq!((report.observation.adapter.as_str(), report.is_healthy()), ("flux", true));
    // Argo CD goes first.
    scene.set(application("Synced", OLD, "Healthy")).await;
    assert_eq!(scene.look().await.observation.adapter, "argocd");
    // What is asked for wins.
    scene.health().adapter = Some(HealthType::Resource);
    assert_eq!(scene.look().await.observation.adapter, "resource");
}

#[tokio::test]
async fn an_application_that_stays_missing_gives_way_to_the_workload() {
    let mut scene = Scene::new(Tools::None).await.with_adapter(HealthType::ArgoCd);
    install(&scene.cluster, "argoproj.io", "v1alpha1", "Application").await;
    scene.set(deployment("1.29.0", rolled_out(1))).await;
    scene.expect(HealthLevel::Progressing, "NotFound").await;
    scene.later(50);
    scene.expect(HealthLevel::Progressing, "NotFound").await;
    scene.later(10);
    let report = scene.look().await;
    assert_eq!(report.observation.adapter, "resource(fallback)");
    assert!(report.is_healthy() && report.warning.is_some());
}

#[tokio::test]
async fn all_selected_applications_must_be_healthy() {
    let mut scene = Scene::new(Tools::All).await.with_adapter(HealthType::ArgoCd);
    scene.health().label_selector = Some([("app".to_owned(), "shop".to_owned())].into());
    for (name, revision) in [("one", NEW), ("two", OLD)] {
        let mut one = application("Synced", revision, "Healthy");
        one["metadata"] = json!({"name": name, "namespace": "argocd", "labels": {"app": "shop"}});
        scene.set(one).await;
    }
    assert_eq!(scene.see().await, "Progressing StaleRevision: argocd two: Synced at 1111111, want 2222222");
    let mut two = application("Synced", NEW, "Healthy");
    two["metadata"] = json!({"name": "two", "namespace": "argocd", "labels": {"app": "shop"}});
    scene.set(two).await;
    scene.expect(HealthLevel::Healthy, "Healthy").await;
}
