//! Operating promotions: webhooks, figures, the audit trail.

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::json;
use sha2::Sha256;
use slipway_cluster::crd;
use slipway_http::Method;
use slipway_kro::ApiGroup;
use slipway_manifest::ObjectRef;
use slipway_promotion::audit::{ChainFault, list_events, verify_chain};
use slipway_promotion::kinds::{AuditAction, BundlePhase, StepState};

use crate::forge::{TOKEN, WEBHOOK_SECRET};
use crate::world::{API_TOKEN, HMAC_KEY, NAMESPACE, Process, World, until};

fn signature(body: &str, key: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).expect("any key");
    mac.update(body.as_bytes());
    HEXLOWER.encode(&mac.finalize().into_bytes())
}

async fn deliver(world: &World, process: &Process, number: u64, key: &str) -> u16 {
    let body =
        json!({"action": "closed", "number": number, "pull_request": {"number": number, "merged": true},
        "repository": {"full_name": "org/app"}})
        .to_string();
    let signed = signature(&body, key);
    let headers = [
        ("x-gitea-event", "pull_request"),
        ("x-gitea-delivery", "d-1"),
        ("x-gitea-signature", signed.as_str()),
        ("content-type", "application/json"),
    ];
    world.send(Method::POST, &process.api("/webhooks/gitea"), &headers, Some(body.as_bytes())).await.status
}

/// The figures after one promotion through both environments.
const COUNTED: [&str; 7] = [
    "kardinal_bundles_created_total{pipeline=\"app\",source=\"kubectl\"} 1",
    "kardinal_promotions_opened_total{env=\"dev\",approval=\"auto\"} 1",
    "kardinal_promotions_opened_total{env=\"prod\",approval=\"pr-review\"} 1",
    "kardinal_promotions_merged_total{env=\"prod\"} 1",
    "kardinal_promotion_lead_time_seconds_count{pipeline=\"app\",env=\"prod\"} 1",
    "kardinal_bundles_total{phase=\"Verified\"} 1",
    "kardinal_leader 1",
];

/// F06 and D05: a delivery to the replica that does not lead has the leader look; figures tell of the whole promotion.
#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_to_a_standby_moves_a_promotion_and_figures_tell_of_it() {
    let world = World::new(&["dev", "prod"]).await;
    world
        .create(json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "PolicyGate",
            "metadata": {"name": "no-bad", "namespace": "platform-policies",
                "labels": {"kardinal.io/scope": "org", "kardinal.io/applies-to": "prod", "kardinal.io/type": "gate"}},
            "spec": {"expression": "bundle.version != '6.6.6'", "message": "bad"}}))
        .await;
    world.pipeline("app", json!([{"name": "dev"}, {"name": "prod", "approval": "pr-review"}])).await;
    let leader = world.start("first").await;
    until("it leads", async || leader.handle.is_leader()).await;
    let standby = world.start("second").await;
    world.bundle("app-1", "1.29.0").await;
    until("prod waits for its reviewer", async || {
        world.step("app-1", "prod").await.is_some_and(|step| step.state() == StepState::WaitingForMerge)
    })
    .await;
    let number =
        world.step("app-1", "prod").await.and_then(|step| step.status.pr_number).expect("has a pull request");
    assert_eq!(deliver(&world, &standby, number, "forged").await, 401);
    assert_eq!(deliver(&world, &standby, number, WEBHOOK_SECRET).await, 200, "true, but nothing was merged");
    let step = world.step("app-1", "prod").await.expect("exists");
    assert_eq!(step.state(), StepState::WaitingForMerge, "a delivery is no state");
    world.forge.merge(number, "merge", "alice");
    let other = world.start("third").await;
    // Whether or not the look that the first delivery asked for has seen the merge already.
    assert_eq!(deliver(&world, &other, number, WEBHOOK_SECRET).await, 200);
    until("the bundle is verified", async || world.is_in("app-1", BundlePhase::Verified).await).await;
    // Figures follow what the watches of the leader tell.
    until("everything is counted", async || {
        let figures = world.get(&leader.metrics()).await.text;
        COUNTED.iter().all(|line| figures.lines().any(|known| known == *line))
    })
    .await;
    let figures = world.get(&leader.metrics()).await.text;
    for name in [
        "kardinal_bundles_created_total",
        "kardinal_promotions_opened_total",
        "kardinal_promotions_merged_total",
        "kardinal_promotions_failed_total",
        "kardinal_rollbacks_total",
        "kardinal_policy_gates_evaluated_total",
        "kardinal_policy_gates_blocked_total",
        "kardinal_health_check_duration_seconds",
        "kardinal_git_operation_duration_seconds",
        "kardinal_scm_api_requests_total",
        "kardinal_promotion_lead_time_seconds",
        "kardinal_graph_reconcile_seconds",
        "kardinal_workqueue_retries_total",
    ] {
        assert!(figures.contains(&format!("# TYPE {name} ")), "{name}: {figures}");
    }
    assert!(figures.contains("kardinal_scm_api_requests_total{"), "{figures}");
    let value = |name: &str| {
        let line = figures.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse::<f64>().ok()
    };
    for name in [
        "kardinal_graph_nodes{state=\"Ready\"}",
        "kardinal_graph_reconcile_seconds_count",
        "kardinal_workqueue_adds_total{queue=\"objects\"}",
        "kardinal_workqueue_adds_total{queue=\"graphs\"}",
        "kardinal_workqueue_work_duration_seconds_count{queue=\"objects\"}",
    ] {
        assert!(value(name).is_some_and(|value| value > 0.0), "{name}: {figures}");
    }
    assert!(value("kardinal_workqueue_depth{queue=\"graphs\"}").is_some(), "{figures}");
    assert!(value("kardinal_git_cache_bytes").is_some(), "{figures}");
    let quiet = world.get(&standby.metrics()).await.text;
    assert!(quiet.lines().any(|line| line == "kardinal_leader 0"), "{quiet}");
    assert!(!quiet.contains("kardinal_promotions_merged_total{"), "only the leader counts: {quiet}");
    // A new leader counts from where it begins.
    leader.end().await.expect("ends well");
    until("another leads", async || standby.handle.is_leader() || other.handle.is_leader()).await;
    let next = if standby.handle.is_leader() { &standby } else { &other };
    until("it says so", async || {
        world.get(&next.metrics()).await.text.lines().any(|line| line == "kardinal_leader 1")
    })
    .await;
    let figures = world.get(&next.metrics()).await.text;
    assert!(!figures.contains("kardinal_promotions_merged_total{"), "nothing is counted twice: {figures}");
}

/// F08: Graphs of a group that another controller works on are neither read nor written.
#[tokio::test(flavor = "multi_thread")]
async fn graphs_of_another_controller_are_left_alone() {
    let world = World::new(&["dev"]).await;
    for definition in slipway_kro::definitions(ApiGroup::Embedded) {
        world.create(definition.clone()).await;
        let patience = std::time::Duration::from_secs(20);
        crd::wait_until_served(&world.cluster, &definition, patience).await.expect("is served");
    }
    let theirs = json!({"apiVersion": "experimental.kro.run/v1alpha1", "kind": "Graph",
        "metadata": {"name": "theirs", "namespace": NAMESPACE},
        "spec": {"nodes": [{"id": "settings", "template": {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "theirs"}, "data": {"key": "value"}}}]}});
    world.create(theirs.clone()).await;
    let at = ObjectRef::of(&theirs);
    let before = world.cluster.get(&at).await.expect("is read");
    world.pipeline("app", json!([{"name": "dev"}])).await;
    let process = world.start_with("one", |options| options.promotion.group = ApiGroup::Embedded).await;
    world.bundle("app-1", "1.29.0").await;
    until("the bundle is verified", async || world.is_in("app-1", BundlePhase::Verified).await).await;
    assert_eq!(world.cluster.get(&at).await.expect("is read"), before);
    let settings = ObjectRef::core("ConfigMap", Some(NAMESPACE), "theirs");
    assert!(world.cluster.get(&settings).await.expect("is read").is_none(), "nobody carried it out");
    process.end().await.expect("ends well");
}

/// F15: the trail holds, survives a change of the leader without a second entry, and shows when it was tampered with.
#[tokio::test(flavor = "multi_thread")]
async fn the_audit_trail_is_one_chain_that_shows_tampering() {
    let world = World::new(&["dev", "prod"]).await;
    world.pipeline("app", json!([{"name": "dev"}, {"name": "prod"}])).await;
    let first = world.start("first").await;
    world.bundle("app-1", "1.29.0").await;
    until("the bundle is verified", async || world.is_in("app-1", BundlePhase::Verified).await).await;
    let events = async || list_events(&world.cluster, None, Some("app")).await.expect("are read");
    let ends = async || {
        events().await.iter().filter(|event| event.spec.action == AuditAction::PromotionSucceeded).count()
    };
    until("both ends are recorded", async || ends().await == 2).await;
    first.end().await.expect("ends well");
    let second = world.start("second").await;
    world.bundle("app-2", "1.30.0").await;
    until("the next is recorded", async || ends().await == 4).await;
    second.end().await.expect("ends well");
    let mut all = events().await;
    let keys: std::collections::BTreeSet<_> = all.iter().map(|event| event.spec.key.clone()).collect();
    assert_eq!(keys.len(), all.len(), "each fact once");
    let report = verify_chain(&all).remove(0);
    assert_eq!((report.entries, report.faults.as_slice()), (all.len(), [].as_slice()));
    let changed = all[2].name().to_owned();
    all[2].spec.actor = "mallory".to_owned();
    assert_eq!(verify_chain(&all)[0].faults, [ChainFault::Changed { event: changed }]);
    let mut cut = events().await;
    cut.retain(|event| event.spec.sequence != Some(2));
    assert_eq!(verify_chain(&cut)[0].faults, [ChainFault::Missing { first: 2, last: 2 }]);
}

/// F09: tokens and keys are in nothing the process writes: objects, figures, answers, pull requests, commits.
#[tokio::test(flavor = "multi_thread")]
async fn no_token_or_key_leaves_the_process() {
    let world = World::new(&["dev", "prod"]).await;
    world.api_secret(Some(HMAC_KEY)).await;
    world.pipeline("app", json!([{"name": "dev"}, {"name": "prod", "approval": "pr-review"}])).await;
    let process = world.start("one").await;
    let body = json!({"pipeline": "app", "name": "app-1", "artifacts": {"images": [{"name": "app", "reference": "ghcr.io/acme/app:2.0.0"}]}});
    let signed = format!("sha256={}", signature(&body.to_string(), HMAC_KEY));
    let made = world.post(&process, &body, &[("x-kardinal-signature", &signed)]).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let wrong = world.post(&process, &body, &[("x-kardinal-signature", "sha256=00")]).await;
    until("prod waits for its reviewer", async || {
        world.step("app-1", "prod").await.is_some_and(|step| step.state() == StepState::WaitingForMerge)
    })
    .await;
    let mut written = vec![made.text, wrong.text, world.get(&process.metrics()).await.text];
    written.push(world.get(&process.api("/api/v1/timeline")).await.text);
    for pull in world.forge.pulls() {
        written.push(format!("{pull:?}"));
    }
    written.push(crate::forge::git(&world.forge.repository(), &["log", "--all", "-p"]).expect("is read"));
    let served = world.cluster.served_kinds().await.expect("are listed");
    for kind in served.iter().filter(|kind| kind.supports("list") && kind.gvk.kind != "Secret") {
        let list = world.cluster.list(kind, None, &slipway_cluster::ListOptions::default()).await;
        written.extend(list.map(|list| list.items).unwrap_or_default().iter().map(ToString::to_string));
    }
    assert!(written.iter().any(|text| text.contains("app-1")), "something was looked at");
    for secret in [API_TOKEN, HMAC_KEY, WEBHOOK_SECRET, TOKEN] {
        for text in &written {
            assert!(!text.contains(secret), "{secret} is in: {text}");
        }
    }
}
