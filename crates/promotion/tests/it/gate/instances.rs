//! Gates of a bundle on a cluster.

use serde_json::json;
use slipway_promotion::Requeue;
use slipway_promotion::gate::is_open;
use slipway_promotion::kinds::{
    self, AuditAction, ConditionStatus, GatePhase, PolicyGateSpec, StepState, find_condition, labels,
};

use super::support::time;
use super::world::World;

const SUNDAY_NIGHT: &str = "2026-04-12T23:50:00Z";

#[tokio::test]
async fn a_weekend_gate_opens_when_monday_begins() {
    let world = World::start(SUNDAY_NIGHT).await;
    world.bundle("shop-1", json!({})).await;
    let spec = json!({"expression": "!schedule.isWeekend", "recheckInterval": "8m",
        "message": "not on weekends: ${x} \"quoted\""});
    let template = world.template("no-weekend-deploys", spec).await;
    let gate = world.instance(&template, &[]).await;
    let (gate, requeue) = world.reconcile(&gate).await;
    assert!(!gate.status.ready);
    assert_eq!(gate.status.phase, Some(GatePhase::Block));
    // Printed as a column: written out although it is what a gate without a status is taken for.
    let stored = world.cluster.get(&gate.reference()).await.unwrap().unwrap();
    assert_eq!(stored["status"]["ready"], json!(false));
    // Texts with `${x}` and quotes are nobody's to change.
    let reason = "not on weekends: ${x} \"quoted\" (schedule.isWeekend = true)";
    assert_eq!(gate.status.reason.as_deref(), Some(reason));
    assert_eq!(gate.status.values.get("schedule.isWeekend"), Some(&json!(true)));
    assert_eq!(gate.status.eta, Some(time("2026-04-13T00:00:00Z")));
    assert_eq!(gate.status.first_blocked_at, Some(time(SUNDAY_NIGHT)));
    assert_eq!(requeue, Requeue::At(time("2026-04-12T23:58:00Z")));
    world.advance_to(requeue);
    let (gate, requeue) = world.reconcile(&gate).await;
    // A refusal does not get old: nothing is written.
    assert_eq!(gate.status.last_evaluated_at, Some(time(SUNDAY_NIGHT)));
    // Not two more intervals: the moment it opens.
    assert_eq!(requeue, Requeue::At(time("2026-04-13T00:00:00Z")));
    world.advance_to(requeue);
    let (gate, _) = world.reconcile(&gate).await;
    assert!(gate.status.ready && is_open(&gate, world.now()));
    assert_eq!(gate.status.passed_at, Some(time("2026-04-13T00:00:00Z")));
    assert_eq!((gate.status.eta, gate.status.first_blocked_at), (None, Some(time(SUNDAY_NIGHT))));
    // Nobody evaluates it any more: after two intervals it counts as closed.
    world.advance(16 * 60);
    assert!(gate.status.ready && !is_open(&gate, world.now()));
}

#[tokio::test]
async fn a_soak_gate_counts_from_the_direct_upstream() {
    let world = World::start("2026-04-13T09:00:00Z").await;
    world.bundle("shop-1", json!({})).await;
    let spec = json!({"expression": "bundle.upstreamSoakMinutes >= 30", "recheckInterval": "1h"});
    let template = world.template("staging-soak", spec).await;
    let gate = world.instance(&template, &["staging"]).await;
    world.step("shop-1", "dev", StepState::Verified).await;
    world.advance(3600);
    world.step("shop-1", "staging", StepState::HealthChecking).await;
    let (gate, _) = world.reconcile(&gate).await;
    assert_eq!(gate.status.phase, Some(GatePhase::Pending));
    assert_eq!(gate.status.reason.as_deref(), Some("UpstreamNotVerified: waiting for staging"));
    world.step("shop-1", "staging", StepState::Verified).await;
    world.advance(12 * 60);
    let (gate, requeue) = world.reconcile(&gate).await;
    assert_eq!(gate.status.reason.as_deref(), Some("bundle.upstreamSoakMinutes = 12 (threshold: >= 30)"));
    assert_eq!(gate.status.eta_basis.as_deref(), Some("staging verifiedAt"));
    assert_eq!(requeue, Requeue::At(time("2026-04-13T10:30:00Z")));
    world.advance_to(requeue);
    let (gate, _) = world.reconcile(&gate).await;
    assert!(gate.status.ready, "{:?}", gate.status.reason);
}

#[tokio::test]
async fn nothing_is_written_without_need() {
    let world = World::start("2026-04-13T09:00:00Z").await;
    world.bundle("shop-1", json!({})).await;
    let spec =
        json!({"expression": "bundle.ageMinutes >= 0 && schedule.minute < 60", "recheckInterval": "5m"});
    let template = world.template("always", spec).await;
    let gate = world.instance(&template, &[]).await;
    let (first, requeue) = world.reconcile(&gate).await;
    assert!(first.status.ready, "{:?}", first.status.reason);
    assert_eq!(requeue, Requeue::At(time("2026-04-13T09:05:00Z")));
    world.advance(120);
    let (second, requeue) = world.reconcile(&gate).await;
    assert_eq!(second.metadata.resource_version, first.metadata.resource_version);
    assert_eq!(requeue, Requeue::At(time("2026-04-13T09:05:00Z")));
    world.advance_to(requeue);
    let (third, _) = world.reconcile(&gate).await;
    assert_eq!(third.status.last_evaluated_at, Some(time("2026-04-13T09:05:00Z")));
    // The step behind it has begun: nothing depends on the gate any more.
    world.step("shop-1", "prod", StepState::Promoting).await;
    world.advance(3600);
    let (fourth, requeue) = world.reconcile(&gate).await;
    assert_eq!((fourth.metadata.resource_version, requeue), (third.metadata.resource_version, Requeue::Done));
}

#[tokio::test]
async fn a_gate_after_the_deploy_is_evaluated_until_the_step_ends() {
    let world = World::start("2026-04-13T09:00:00Z").await;
    world.bundle("shop-1", json!({})).await;
    let template = world
        .template("after", json!({"expression": "true", "when": "post-deploy", "recheckInterval": "1m"}))
        .await;
    let gate = world.instance(&template, &[]).await;
    world.step("shop-1", "prod", StepState::HealthChecking).await;
    let (gate, requeue) = world.reconcile(&gate).await;
    assert!(gate.status.ready && requeue != Requeue::Done);
    world.step("shop-1", "prod", StepState::Verified).await;
    world.advance(3600);
    assert_eq!(world.reconcile(&gate).await.1, Requeue::Done);
}

#[tokio::test]
async fn an_override_opens_one_environment_until_it_expires() {
    let world = World::start("2026-04-13T09:00:00Z").await;
    world.bundle("shop-1", json!({})).await;
    let template = world
        .template("soak", json!({"expression": "bundle.upstreamSoakMinutes >= 30", "recheckInterval": "1h"}))
        .await;
    let gate = world.instance(&template, &[]).await;
    assert!(!world.reconcile(&gate).await.0.status.ready);
    let grant = async |stage: &str| {
        let template = world.gate("soak").await;
        let mut overrides = template.spec.overrides.clone();
        let one = json!({"reason": "incident 7", "stage": stage, "createdBy": "ada",
            "createdAt": "2026-04-13T09:00:00Z", "expiresAt": "2026-04-13T09:30:00Z"});
        overrides.push(serde_json::from_value(one).expect("is an override"));
        let patch = slipway_cluster::ObjectPatch::Merge(json!({"spec": {"overrides": overrides}}));
        let options = slipway_cluster::WriteOptions::default();
        world.cluster.patch(&template.reference(), &patch, &options, None).await.expect("is written");
    };
    grant("staging").await;
    assert!(!world.reconcile(&gate).await.0.status.ready);
    assert!(world.audit_events().await.is_empty());
    grant("prod").await;
    let (open, requeue) = world.reconcile(&gate).await;
    assert_eq!(open.status.phase, Some(GatePhase::Overridden));
    assert_eq!(
        open.status.reason.as_deref(),
        Some("overridden by ada until 2026-04-13T09:30:00Z: incident 7")
    );
    assert!(is_open(&open, world.now()));
    let events = world.audit_events().await;
    assert_eq!(events.len(), 1);
    assert_eq!((events[0].spec.action, events[0].spec.actor.as_str()), (AuditAction::OverrideApplied, "ada"));
    // It closes at the moment the override expires.
    assert_eq!(requeue, Requeue::At(time("2026-04-13T09:30:00Z")));
    world.reconcile(&gate).await;
    assert_eq!(world.audit_events().await.len(), 1);
    world.advance_to(requeue);
    let (closed, _) = world.reconcile(&gate).await;
    assert_eq!(closed.status.phase, Some(GatePhase::Block));
}

#[tokio::test]
async fn a_paused_pipeline_holds_every_gate() {
    let world = World::start("2026-04-13T09:00:00Z").await;
    world.bundle("shop-1", json!({})).await;
    let template = world.template("open", json!({"expression": "true", "recheckInterval": "5m"})).await;
    let gate = world.instance(&template, &[]).await;
    assert!(world.reconcile(&gate).await.0.status.ready);
    let freeze = json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "PolicyGate",
        "metadata": {"name": "freeze-shop", "namespace": "team",
            "labels": {"kardinal.io/freeze": "true", "kardinal.io/scope": "team"}},
        "spec": {"expression": "false", "recheckInterval": "30s", "message": "paused by ada: incident 7",
            "overrides": [{"reason": "let me"}], "appliesTo": ["*"]}});
    world.create(freeze).await;
    let (held, _) = world.reconcile(&gate).await;
    assert_eq!((held.status.ready, held.status.phase), (false, Some(GatePhase::Block)));
    assert_eq!(held.status.reason.as_deref(), Some("PipelinePaused: paused by ada: incident 7"));
    let freeze = kinds::get::<PolicyGateSpec>(&world.cluster, "team", "freeze-shop").await;
    let freeze = freeze.expect("can be read").expect("is there");
    let deleted = kinds::delete(&world.cluster, &freeze, slipway_cluster::DeletePropagation::Background);
    deleted.await.expect("is deleted");
    assert!(world.reconcile(&gate).await.0.status.ready);
}

#[tokio::test]
async fn an_emergency_passes_a_freeze_only_where_the_platform_lets_it() {
    let world = World::start("2026-04-13T09:00:00Z").await;
    world.bundle("shop-1", json!({"kardinal.io/emergency": "true", "severity": "1"})).await;
    let template = world.template("open", json!({"expression": "true", "recheckInterval": "5m"})).await;
    let gate = world.instance(&template, &[]).await;
    let policy = |namespace: &str, name: &str, labels: serde_json::Value, expression: &str| {
        json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "PolicyGate",
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "spec": {"expression": expression, "appliesTo": ["*"]}})
    };
    world.create(policy("team", "freeze-shop", json!({"kardinal.io/freeze": "true"}), "false")).await;
    let bypass = json!({"kardinal.io/type": "freeze-bypass", "kardinal.io/scope": "org"});
    // A team cannot let itself through.
    world.create(policy("team", "mine", bypass.clone(), "true")).await;
    world
        .create(policy("platform-policies", "severe", bypass.clone(), "bundle.labels.severity == '2'"))
        .await;
    assert!(!world.reconcile(&gate).await.0.status.ready);
    world.create(policy("platform-policies", "severest", bypass, "bundle.labels.severity == '1'")).await;
    assert!(world.reconcile(&gate).await.0.status.ready);
}

#[tokio::test]
async fn templates_are_compiled_and_never_ready() {
    let world = World::start("2026-04-13T09:00:00Z").await;
    for (name, expression, compiled, message) in [
        ("good", "!schedule.isWeekend", ConditionStatus::True, ""),
        ("bad", "metrics.success-rate > 1.0", ConditionStatus::False, "metrics[\"success-rate\"]"),
        ("number", "1 + 1", ConditionStatus::False, "expected bool, got int"),
    ] {
        let template = world.template(name, json!({"expression": expression})).await;
        let (template, requeue) = world.reconcile(&template).await;
        assert_eq!((template.status.ready, requeue), (false, Requeue::Done));
        let condition = find_condition(&template.status.conditions, "Compiled").expect("is told");
        assert_eq!(condition.status, compiled, "{name}");
        assert!(condition.message.contains(message), "{name}: {}", condition.message);
    }
    let nowhere = json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "PolicyGate",
        "metadata": {"name": "nowhere", "namespace": "platform-policies"}, "spec": {"expression": "true"}});
    world.create(nowhere).await;
    let (template, _) = world.reconcile(&world.gate("nowhere").await).await;
    let condition = find_condition(&template.status.conditions, "Ready").expect("is told");
    assert_eq!((condition.status, condition.reason.as_str()), (ConditionStatus::False, "InvalidAppliesTo"));
    // Reconciling again changes nothing.
    let again = world.reconcile(&template).await.0;
    assert_eq!(again.metadata.resource_version, template.metadata.resource_version);
    assert!(!template.metadata.labels.contains_key(labels::INSTANCE));
}

#[tokio::test]
async fn a_gate_without_its_bundle_is_closed() {
    let world = World::start("2026-04-13T09:00:00Z").await;
    let template = world.template("open", json!({"expression": "true"})).await;
    let gate = world.instance(&template, &[]).await;
    let (gate, _) = world.reconcile(&gate).await;
    assert_eq!(gate.status.reason.as_deref(), Some("BundleMissing: bundle shop-1 does not exist"));
    assert!(!gate.status.ready);
}

#[tokio::test]
async fn windows_and_labels_are_read_from_the_cluster() {
    let world = World::start("2026-04-13T09:00:00Z").await;
    world.bundle("shop-1", json!({})).await;
    let pipeline = json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "Pipeline",
        "metadata": {"name": "shop", "namespace": "team", "labels": {"critical": "true"}},
        "spec": {"git": {"url": "https://git.example/x"}, "environments": [{"name": "prod", "labels": {"tier": "gold"}}]}});
    world.create(pipeline).await;
    let window = json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "ChangeWindow", "metadata": {"name": "holidays"},
        "spec": {"type": "blackout", "start": "2026-04-13T08:00:00Z", "end": "2026-04-13T09:02:00Z", "reason": "holidays"}});
    let created = world.create(window).await;
    let expression =
        "pipeline.labels.critical && environment.labels.tier == 'gold' && changewindow.isAllowed('holidays')";
    let template = world.template("all", json!({"expression": expression, "recheckInterval": "5m"})).await;
    let gate = world.instance(&template, &[]).await;
    let (gate, requeue) = world.reconcile(&gate).await;
    assert!(!gate.status.ready);
    assert_eq!(requeue, Requeue::At(time("2026-04-13T09:02:00Z")), "{:?}", gate.status.reason);
    let at = slipway_manifest::ObjectRef::of(&created);
    let requeue = world.windows.reconcile(&at).await.expect("is reconciled");
    assert_eq!(requeue, Requeue::At(time("2026-04-13T09:02:00Z")));
    let read = kinds::get::<kinds::ChangeWindowSpec>(&world.cluster, "", "holidays")
        .await
        .expect("is read")
        .expect("is there");
    assert!(read.status.active);
    assert_eq!(read.status.reason.as_deref(), Some("holidays"));
    world.advance_to(requeue);
    assert!(world.reconcile(&gate).await.0.status.ready);
    world.windows.reconcile(&at).await.expect("is reconciled");
    let read = kinds::get::<kinds::ChangeWindowSpec>(&world.cluster, "", "holidays")
        .await
        .expect("is read")
        .expect("is there");
    assert!(!read.status.active && read.status.next_transition_at.is_none());
}
