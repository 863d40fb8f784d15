//! Servers that do not answer, refuse, or come back.

use std::time::Duration;

use serde_json::json;
use slipway_promotion::Requeue;
use slipway_promotion::kinds::{ConditionStatus, StepState, find_condition};
use slipway_scm::BreakerState;

use super::world::{World, ended};
use crate::forge::TOKEN;

#[tokio::test(flavor = "multi_thread")]
async fn a_server_in_trouble_is_waited_for() {
    let world = World::new().await;
    world.bundle("app-1", "1.29.0").await;
    world.forge.state.lock().unwrap().outage = Some(502);
    let mut spec = world.spec("app-1", "prod");
    spec["approval"] = json!("pr-review");
    let step = world.step("app-1-prod", spec).await;
    let mut pauses = Vec::new();
    for _ in 0..8 {
        let Requeue::At(due) = world.reconcile(&step).await else { panic!("it waits") };
        let found = world.read(&step).await;
        assert_eq!(found.status.current_step.as_deref(), Some("open-pr"));
        let condition = find_condition(&found.status.conditions, "SCMUnavailable").unwrap();
        assert_eq!(condition.status, ConditionStatus::True);
        let pause = Duration::try_from(due.duration_since(world.now())).unwrap();
        pauses.push(pause.as_secs());
        world.clock.advance(pause);
    }
    assert_eq!(pauses[..4], [1, 2, 4, 8]);
    assert!(pauses.iter().any(|pause| *pause >= 30), "the breaker opens: {pauses:?}");
    let reports = world.reconciler().server_reports();
    assert!(reports.iter().any(|report| report.breaker != BreakerState::Closed), "{reports:?}");
    let asked = world.forge.state.lock().unwrap().requests.len();
    assert!(asked < 12, "a server in trouble is left alone: {asked}");
    world.forge.state.lock().unwrap().outage = None;
    let waiting = world.until(&step, StepState::WaitingForMerge).await;
    assert!(find_condition(&waiting.status.conditions, "SCMUnavailable").is_none());
    assert_eq!(world.forge.pulls().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn trouble_that_lasts_fails_the_step() {
    let world = World::new().await;
    world.bundle("app-1", "1.29.0").await;
    world.forge.state.lock().unwrap().outage = Some(503);
    let mut spec = world.spec("app-1", "prod");
    spec["approval"] = json!("pr-review");
    let step = world.step("app-1-prod", spec).await;
    world.reconcile(&step).await;
    world.clock.advance(Duration::from_secs(3_601));
    world.reconcile(&step).await;
    let failed = world.read(&step).await;
    assert_eq!(failed.state(), StepState::Failed, "{:?}", failed.status);
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_credentials_are_waited_for_and_a_new_secret_counts_at_once() {
    let world = World::new().await;
    world.bundle("app-1", "1.29.0").await;
    world.secret("forge", &[("token", "old-and-revoked")]).await;
    let step = world.step("app-1-dev", world.spec("app-1", "dev")).await;
    world.reconcile(&step).await;
    let found = world.read(&step).await;
    assert_eq!(ended(&found), (StepState::Promoting, "CredentialsDenied"), "{:?}", found.status);
    let text = serde_json::to_string(&found.status).unwrap();
    assert!(!text.contains("old-and-revoked"), "{text}");
    world.secret("forge", &[("token", TOKEN)]).await;
    world.clock.advance(Duration::from_secs(5));
    assert_eq!(world.settle(&step).await.state(), StepState::Verified);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_secret_is_named() {
    let world = World::new().await;
    world.bundle("app-1", "1.29.0").await;
    let mut spec = world.spec("app-1", "dev");
    spec["git"]["secretRef"] = json!({"name": "nobody"});
    let step = world.step("app-1-dev", spec).await;
    world.reconcile(&step).await;
    let found = world.read(&step).await;
    assert_eq!(ended(&found), (StepState::Promoting, "CredentialsMissing"));
    assert!(found.status.message.unwrap().contains("default/nobody"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_protected_branch_fails_the_step_with_the_servers_words() {
    let world = World::new().await;
    world.bundle("app-1", "1.29.0").await;
    let hook = world.forge.repository().join("hooks/pre-receive");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, "#!/bin/sh\necho 'main is protected' >&2\nexit 1\n").unwrap();
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let step = world.step("app-1-dev", world.spec("app-1", "dev")).await;
    let failed = world.settle(&step).await;
    assert_eq!(ended(&failed), (StepState::Failed, "PushDenied"), "{:?}", failed.status);
    assert!(failed.status.message.unwrap().contains("main is protected"));
}
