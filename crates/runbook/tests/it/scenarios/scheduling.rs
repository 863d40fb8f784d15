//! Order, failure, retries, cancellation: scenarios 28 to 35.

use std::sync::Arc;
use std::time::Duration;

use slipway_runbook::state::NodeStatus;
use slipway_sandbox::{Fault, FaultRule};

use crate::world::{World, bad_step, error, inline, map_step, statuses};

/// Scenario S-28 of the specification.
#[tokio::test]
async fn a_diamond_runs_level_by_level() {
    let world = World::new();
    let middle = |name: &str| {
        format!(
            "  - {{name: {name}, needs: [a], apply: {{serverSide: true, manifests: [{}]}}}}\n",
            inline(name, "1")
        )
    };
    // Neither of the middle is answered before both have asked.
    *world.wire.together.lock().unwrap() = Some(("/configmaps/mid-", Arc::new(tokio::sync::Barrier::new(2))));
    let steps =
        [map_step("d", ", needs: [mid-b, mid-c]"), middle("mid-c"), middle("mid-b"), map_step("a", "")];
    let report = world.apply(&steps.concat()).await;
    // By level, then in the order of the document.
    assert_eq!(statuses(&report), ["a ok", "mid-c ok", "mid-b ok", "d ok"]);
    let made = world.calls();
    let position = |part: &str| made.iter().position(|line| line.contains(part)).unwrap();
    let posts: Vec<usize> = (0..made.len()).filter(|&at| made[at].starts_with("POST")).collect();
    assert_eq!(posts.len(), 2, "{made:?}");
    assert!(posts[0] < position("mid-b").min(position("mid-c")), "{made:?}");
    assert!(posts[1] > position("mid-b").max(position("mid-c")), "{made:?}");
}

/// Scenario S-29 of the specification.
#[tokio::test]
async fn a_failure_stops_later_levels_and_lets_peers_finish() {
    let world = World::new();
    let steps = [
        map_step("first", ""),
        bad_step("bad", ", needs: [first]"),
        map_step("peer", ", needs: [first]"),
        map_step("later", ", needs: [peer]"),
    ];
    let report = world.apply(&steps.concat()).await;
    assert_eq!(statuses(&report), ["first ok", "bad failed", "peer ok", "later skipped"]);
    let later = report.step("later").unwrap();
    assert_eq!(later.skip_code, Some("stopped"));
    assert!(later.skip_reason.as_ref().unwrap().contains("\"bad\""));
    assert_eq!(report.status, NodeStatus::Failed);
}

/// Scenario S-30 of the specification.
#[tokio::test]
async fn continue_lets_other_branches_go_on() {
    let world = World::new();
    let steps = [
        bad_step("bad", ", onError: continue"),
        map_step("other", ""),
        map_step("after-bad", ", needs: [bad]"),
        map_step("after-other", ", needs: [other]"),
    ];
    let report = world.apply(&steps.concat()).await;
    assert_eq!(statuses(&report), ["bad failed", "other ok", "after-bad skipped", "after-other ok"]);
    let blocked = report.step("after-bad").unwrap();
    assert_eq!(blocked.skip_reason.as_deref(), Some("needs \"bad\" which did not succeed"));
    assert_eq!(blocked.skip_code, Some("needs"));
    assert!(!report.is_success());
}

/// Scenario S-31 of the specification.
#[tokio::test]
async fn what_is_skipped_by_when_or_record_satisfies_needs() {
    let mut world = World::new();
    world.set = vec!["ON=no".into()];
    let steps = [
        bad_step("bad", ", onError: continue"),
        map_step("off", ", needs: [bad], when: 'vars.ON == \"yes\"'"),
        map_step("after", ", needs: [off]"),
    ];
    let report = world.apply(&steps.concat()).await;
    assert_eq!(statuses(&report), ["bad failed", "off skipped", "after ok"]);
    assert_eq!(report.step("off").unwrap().skip_code, Some("when"));
    // After a stop a step that was done stays done.
    let steps = [map_step("done", ""), map_step("more", ", needs: [done]")].concat();
    assert!(world.apply_with("state: {}", &steps).await.is_success());
    let steps =
        [bad_step("bad", ""), map_step("done", ", needs: [bad]"), map_step("more", ", needs: [done]")];
    let report = world.apply_with("state: {}", &steps.concat()).await;
    assert_eq!(report.step("done").unwrap().skip_code, Some("resumed"));
    assert_eq!(report.step("more").unwrap().skip_code, Some("resumed"));
}

/// Scenario S-32 of the specification.
#[tokio::test]
async fn retries_count_and_timeouts_name_what_is_missing() {
    let world = World::new();
    let report = world
        .apply("  - {name: w, retries: 2, retryDelay: 1ms, timeout: 3s, wait: {for: condition=Ready, on: pods}}\n")
        .await;
    let step = report.step("w").unwrap();
    assert_eq!((step.status, step.attempts), (NodeStatus::Failed, Some(3)));
    assert!(error(&report, "w").contains("timed out after 3s"), "{report:?}");
    assert!(error(&report, "w").contains("nothing is there yet"), "{report:?}");
    // A permanent refusal is not tried again.
    world
        .put(serde_json::json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}))
        .await;
    let report = world.apply("  - {name: j, retries: 5, retryDelay: 1ms, job: {image: i}}\n").await;
    assert_eq!(report.step("j").unwrap().attempts, Some(1));
    assert!(error(&report, "j").contains("not managed by khook"));
}

/// Scenario S-32 of the specification.
#[tokio::test]
async fn an_attempt_that_fails_twice_and_then_works() {
    let world = World::new();
    let refusal = FaultRule::new(Fault::ServerError(422)).method("POST").resource("configmaps");
    world.faults.add(refusal.clone().times(2));
    let step = |retries: u32| map_step("a", &format!(", retries: {retries}, retryDelay: 40ms"));
    let began = std::time::Instant::now();
    let report = world.apply(&step(2)).await;
    let told = report.step("a").unwrap();
    assert_eq!((told.status, told.attempts), (NodeStatus::Succeeded, Some(3)), "{report:?}");
    // Two pauses lie between three attempts, and all of it is the step's time.
    assert!(began.elapsed() >= Duration::from_millis(80));
    assert!(told.duration_ms.unwrap() >= 80, "{told:?}");
    // One attempt fewer is not enough.
    world.faults.clear();
    world.faults.add(refusal.times(2));
    world.remove("v1", "ConfigMap", "default", "a").await;
    let report = world.apply(&step(1)).await;
    assert_eq!((report.is_success(), report.step("a").unwrap().attempts), (false, Some(2)), "{report:?}");
}

/// Scenario S-33 of the specification.
#[tokio::test]
async fn a_canceled_run_is_never_a_success() {
    let world = World::new();
    let steps = [
        map_step("first", ""),
        "  - {name: gate, needs: [first], wait: {for: delete, on: configmap/first}}\n".to_owned(),
        map_step("last", ", needs: [gate]"),
    ]
    .concat();
    let document = world.document("state: {}", &steps);
    let stop = async {
        while world.config_map("first").await.is_none() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        world.cancel.cancel();
    };
    let (report, ()) = tokio::join!(world.try_apply(&document), stop);
    let report = report.unwrap();
    assert!(report.canceled && !report.is_success());
    assert_eq!(report.step("last").unwrap().skip_code, Some("canceled"));
    assert_eq!(world.record().await.unwrap()["runStatus"], "failed");
    // A destroy that is stopped keeps the record.
    let cancel = tokio_util::sync::CancellationToken::new();
    cancel.cancel();
    let report =
        slipway_runbook::destroy(&document, world.place(), &world.options, cancel).await.expect("runs");
    assert!(report.canceled && !report.is_success());
    assert!(world.record().await.is_some());
}

/// Scenario S-33 of the specification.
#[tokio::test]
async fn a_run_stopped_between_levels_failed_although_no_step_did() {
    let world = World::new();
    let steps = [map_step("first", ""), map_step("second", ", needs: [first]")].concat();
    let document = world.document("state: {}", &steps);
    assert!(world.apply_with("state: {}", &map_step("first", "")).await.is_success());
    // What is left to do has not begun when the interrupt comes.
    world.cancel.cancel();
    let report = world.try_apply(&document).await.unwrap();
    assert_eq!(statuses(&report), ["first skipped", "second skipped"]);
    let codes: Vec<_> = report.steps.iter().filter_map(|step| step.skip_code).collect();
    assert_eq!(codes, ["resumed", "canceled"]);
    assert!(report.canceled && !report.is_success());
    let record = world.record().await.unwrap();
    assert_eq!((&record["runStatus"], &record["steps"][0]["status"]), (&"failed".into(), &"ok".into()));
    let value = serde_json::to_value(&report).unwrap();
    assert_eq!((&value["status"], &value["canceled"]), (&"failed".into(), &true.into()));
}

/// Scenario S-35 of the specification.
#[tokio::test]
async fn eager_does_not_wait_for_strangers() {
    let mut world = World::new();
    world.options.schedule = slipway_runbook::StepSchedule::Eager;
    // The slow step waits for what the quick branch makes: level by level it would never come.
    let steps = [
        "  - {name: slow, timeout: 60s, wait: {for: 'jsonpath={.data.key}', on: configmap/second}}\n"
            .to_owned(),
        map_step("first", ""),
        map_step("second", ", needs: [first]"),
    ];
    let report = world.apply(&steps.concat()).await;
    assert_eq!(statuses(&report), ["slow ok", "first ok", "second ok"]);
}
