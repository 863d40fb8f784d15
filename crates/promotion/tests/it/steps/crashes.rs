//! Killed right after any change of cluster, repository or forge: exactly one commit and one pull request.

use std::time::Duration;

use futures::StreamExt as _;
use serde_json::json;
use slipway_manifest::ObjectRef;
use slipway_promotion::Requeue;
use slipway_promotion::kinds::StepState;

use super::world::World;
use crate::forge::PullState;

/// The ways into an environment that are killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Direct,
    Reviewed,
    AutoMerged,
}

async fn prepare(way: Way, world: &World) -> ObjectRef {
    world.bundle("app-1", "1.29.0").await;
    world.gate("soak", true).await;
    let mut spec = world.spec("app-1", "prod");
    spec["requiredGates"] = json!(["soak"]);
    match way {
        Way::Direct => {}
        Way::Reviewed => spec["approval"] = json!("pr-review"),
        Way::AutoMerged => spec["pr"] = json!(true),
    }
    world.step("app-1-prod", spec).await
}

/// Goes on until the step has ended; a reviewer merges what is open.
async fn carry_on(world: &World, step: &ObjectRef) {
    for _ in 0..60 {
        let next = world.reconcile(step).await;
        let found = world.read(step).await;
        if found.state().is_terminal() && found.metadata.finalizers.is_empty() {
            return;
        }
        if found.state() == StepState::WaitingForMerge
            && found.spec.approval == slipway_promotion::kinds::ApprovalMode::PrReview
        {
            for pull in world.forge.pulls().iter().filter(|pull| pull.state == PullState::Open) {
                world.forge.merge(pull.number, "merge", "alice");
            }
        }
        if let Requeue::At(due) = next {
            let wait = due.duration_since(world.now());
            world.clock.advance(Duration::try_from(wait).unwrap_or_default());
        }
    }
    panic!("the step never ends: {:?}", world.read(step).await.status);
}

/// Runs a life that ends after `changes` changes; false when it ended by itself before.
async fn live_until(world: &mut World, step: &ObjectRef, changes: usize) -> bool {
    world.effects.end_after(changes);
    let is_killed = tokio::select! {
        () = carry_on(world, step) => false,
        () = world.effects.wait_for_end() => true,
    };
    world.effects.disarm();
    world.restart();
    is_killed
}

async fn check(world: &World, step: &ObjectRef, way: Way, when: &str) {
    let done = world.read(step).await;
    let log = world.effects.log().join("\n");
    assert_eq!(done.state(), StepState::Verified, "{way:?} {when}: {:?}\n{log}", done.status);
    assert_eq!(world.forge.promotion_commits(), 1, "{way:?} {when}\n{log}");
    let pulls = world.forge.pulls();
    assert_eq!(pulls.len(), usize::from(way != Way::Direct), "{way:?} {when}\n{log}");
    assert!(pulls.iter().all(|pull| pull.state == PullState::Merged), "{way:?} {when}");
    for pull in &pulls {
        assert_eq!(pull.labels.len(), 4, "{way:?} {when}");
        let tables = pull.comments.iter().filter(|(_, body)| body.contains("kardinal:gates")).count();
        assert_eq!(tables, 1, "{way:?} {when}");
    }
    let tag = world.forge.file("main", "environments/prod/kustomization.yaml").unwrap();
    assert!(tag.contains("newTag: \"1.29.0\""), "{way:?} {when}");
    assert_eq!(world.forge.branches(), ["main"], "{way:?} {when}");
    assert_eq!(world.forge.violations(), Vec::<String>::new(), "{way:?} {when}");
}

/// The changes to kill after. All of them with `SLIPWAY_KILL_POINTS=all`; else those outside of the cluster, when nothing says yet
/// that they happened, and the write that says so.
fn kill_points(changes: &[String]) -> Vec<usize> {
    if std::env::var("SLIPWAY_KILL_POINTS").is_ok_and(|which| which == "all") {
        return (1..=changes.len()).collect();
    }
    let is_outside = |change: &String| !change.starts_with("cluster ");
    let chosen = (1..=changes.len()).filter(|point| {
        let (this, before) = (&changes[point - 1], point.checked_sub(2).map(|at| &changes[at]));
        is_outside(this) || before.is_some_and(is_outside) || *point == changes.len()
    });
    chosen.collect()
}

/// Kills after one change after the other, one life each; all of them on one cluster.
async fn kill_after_each(way: Way) {
    let first = World::new().await;
    let step = prepare(way, &first).await;
    let before = first.effects.count();
    carry_on(&first, &step).await;
    check(&first, &step, way, "undisturbed").await;
    let changes = first.effects.log().split_off(before);
    let points = kill_points(&changes);
    assert!(points.len() > 3, "{changes:?}");
    let first = &first;
    let trials = points.into_iter().map(|change| async move {
        let mut world = first.beside(&format!("killed-after-{change}")).await;
        let step = prepare(way, &world).await;
        let was_killed = live_until(&mut world, &step, change).await;
        assert!(was_killed, "{way:?} has no change {change}");
        carry_on(&world, &step).await;
        check(&world, &step, way, &format!("killed after change {change}")).await;
    });
    futures::stream::iter(trials).for_each_concurrent(4, Box::pin).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_direct_push_survives_a_kill_after_each_change() {
    kill_after_each(Way::Direct).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reviewed_promotion_survives_a_kill_after_each_change() {
    kill_after_each(Way::Reviewed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_automatic_merge_survives_a_kill_after_each_change() {
    kill_after_each(Way::AutoMerged).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promotion_survives_many_kills() {
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |most: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % most
    };
    let first = World::new().await;
    for round in 0..4 {
        let way = [Way::Direct, Way::Reviewed, Way::AutoMerged, Way::Reviewed][round];
        let mut world = first.beside(&format!("round-{round}")).await;
        let step = prepare(way, &world).await;
        for _ in 0..12 {
            let changes = 1 + random(3) as usize;
            if !live_until(&mut world, &step, changes).await {
                break;
            }
        }
        carry_on(&world, &step).await;
        check(&world, &step, way, &format!("round {round}")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wiped_cache_changes_nothing() {
    let mut world = World::new().await;
    let step = prepare(Way::Reviewed, &world).await;
    // Ends right after the local commit: the tree is on disk, the branch is not pushed.
    while !world.effects.log().iter().any(|change| change == "local commit") {
        live_until(&mut world, &step, 1).await;
    }
    // The next life has an empty cache.
    carry_on(&world, &step).await;
    check(&world, &step, Way::Reviewed, "with a wiped cache").await;
}
