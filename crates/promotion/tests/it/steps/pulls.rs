//! Pull requests: merged, closed, in conflict, with commits of others.

use std::time::Duration;

use serde_json::json;
use slipway_manifest::ObjectRef;
use slipway_promotion::kinds::{ConditionStatus, StepState, find_condition};
use slipway_promotion::step::{RetryOutcome, retry_step};

use super::world::{KUSTOMIZATION, NAMESPACE, World, ended};
use crate::forge::{PullState, git};

async fn reviewed(world: &World) -> ObjectRef {
    world.bundle("app-1", "1.29.0").await;
    let mut spec = world.spec("app-1", "prod");
    spec["approval"] = json!("pr-review");
    let step = world.step("app-1-prod", spec).await;
    assert_eq!(world.settle(&step).await.state(), StepState::WaitingForMerge);
    step
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_nobody_told_of_is_found_after_a_start_and_by_polling() {
    let mut world = World::new().await;
    let step = reviewed(&world).await;
    world.forge.merge(2, "merge", "alice");
    // Without a hint nothing is asked before the poll is due.
    let asked = world.forge.state.lock().unwrap().requests.len();
    assert_eq!(world.settle(&step).await.state(), StepState::WaitingForMerge);
    assert_eq!(world.forge.state.lock().unwrap().requests.len(), asked);
    world.restart();
    assert_eq!(world.reconciler().catch_up().await.unwrap(), std::slice::from_ref(&step));
    assert_eq!(world.settle(&step).await.state(), StepState::Verified);

    let world = World::new().await;
    let step = reviewed(&world).await;
    world.forge.merge(2, "merge", "alice");
    world.clock.advance(Duration::from_secs(300));
    assert_eq!(world.settle(&step).await.state(), StepState::Verified);
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_of_others_in_a_merge_are_noted() {
    let world = World::new().await;
    let step = reviewed(&world).await;
    let branch = world.read(&step).await.status.head_branch.unwrap();
    world.forge.person(&branch, "one more thing", &[("environments/prod/extra.yaml", "a: 1\n")]);
    world.forge.merge(2, "squash", "alice");
    world.reconciler().nudge(&step);
    let done = world.settle(&step).await;
    assert_eq!(done.state(), StepState::Verified);
    assert_eq!(done.status.outputs["extraCommits"], "true");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_pull_request_fails_the_step_and_a_retry_opens_it_again() {
    for refuses_reopen in [false, true] {
        let world = World::new().await;
        let step = reviewed(&world).await;
        world.forge.close(2);
        world.reconciler().nudge(&step);
        let failed = world.settle(&step).await;
        assert_eq!(ended(&failed), (StepState::Failed, "PRClosed"));
        assert_eq!(world.forge.branches(), ["main"]);
        world.forge.state.lock().unwrap().refuses_reopen = refuses_reopen;
        let outcome = retry_step(&world.cluster, NAMESPACE, &step.name).await.unwrap();
        assert_eq!(outcome, RetryOutcome::Restarted { attempt: 2 });
        world.clock.advance(Duration::from_secs(1));
        let waiting = world.settle(&step).await;
        assert_eq!(waiting.state(), StepState::WaitingForMerge, "{:?}", waiting.status);
        let open: Vec<u64> = world
            .forge
            .pulls()
            .iter()
            .filter(|pull| pull.state == PullState::Open)
            .map(|pull| pull.number)
            .collect();
        assert_eq!(open.len(), 1);
        assert_eq!(open[0] == 2, !refuses_reopen);
        world.forge.merge(open[0], "merge", "alice");
        world.reconciler().nudge(&step);
        assert_eq!(world.settle(&step).await.state(), StepState::Verified);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_is_resolved_by_rebuilding_the_branch() {
    let world = World::new().await;
    let step = reviewed(&world).await;
    let edited = KUSTOMIZATION.replace("1.28.0", "1.28.5");
    world.forge.person("main", "hotfix by hand", &[("environments/prod/kustomization.yaml", &edited)]);
    world.reconciler().nudge(&step);
    let waiting = world.settle(&step).await;
    assert_eq!(waiting.state(), StepState::WaitingForMerge, "{:?}", waiting.status);
    assert_eq!(world.forge.pulls().len(), 1);
    assert!(world.forge.pulls()[0].comments.iter().any(|(_, body)| body.contains("rebuilt")));
    assert_eq!(waiting.status.refresh, None);
    world.forge.merge(2, "merge", "alice");
    world.reconciler().nudge(&step);
    let done = world.settle(&step).await;
    assert_eq!(done.state(), StepState::Verified, "{:?}", done.status);
    assert!(!done.status.outputs.contains_key("extraCommits"));
    let text = world.forge.file("main", "environments/prod/kustomization.yaml").unwrap();
    assert!(text.contains("1.29.0") && !text.contains("1.28"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_on_a_branch_people_worked_on_is_left_to_them() {
    let world = World::new().await;
    let step = reviewed(&world).await;
    let branch = world.read(&step).await.status.head_branch.unwrap();
    let head = world.forge.person(&branch, "by hand", &[("environments/prod/extra.yaml", "a: 1\n")]);
    let edited = KUSTOMIZATION.replace("1.28.0", "1.28.5");
    world.forge.person("main", "hotfix", &[("environments/prod/kustomization.yaml", &edited)]);
    world.reconciler().nudge(&step);
    let waiting = world.settle(&step).await;
    let conflict = find_condition(&waiting.status.conditions, "PRConflict").unwrap();
    assert_eq!(conflict.status, ConditionStatus::True);
    assert_eq!(world.forge.pulls()[0].head_commit, head);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_automatic_merge_takes_the_head_it_pushed_and_no_other() {
    let world = World::new().await;
    world.bundle("app-1", "1.29.0").await;
    world.gate("soak", true).await;
    let mut spec = world.spec("app-1", "staging");
    spec["pr"] = json!(true);
    spec["requiredGates"] = json!(["soak"]);
    let step = world.step("app-1-staging", spec.clone()).await;
    let done = world.settle(&step).await;
    assert_eq!(done.state(), StepState::Verified, "{:?}", done.status);
    assert_eq!(world.forge.pulls()[0].state, PullState::Merged);

    // Somebody smuggles a commit in while the merge is held back.
    let world = World::new().await;
    world.bundle("app-1", "1.29.0").await;
    world.gate("soak", true).await;
    let mut spec = world.spec("app-1", "staging");
    spec["pr"] = json!(true);
    spec["requiredGates"] = json!(["soak"]);
    let step = world.step("app-1-staging", spec).await;
    // Ends between opening and merging, and the gate closes meanwhile.
    let mut world = world;
    while world.forge.pulls().is_empty() {
        // A commit on disk alone is no progress: a life has to get further than that.
        world.effects.end_after(2);
        tokio::select! {
            _ = world.reconcile(&step) => {}
            () = world.effects.wait_for_end() => {}
        }
        world.effects.disarm();
        world.restart();
    }
    world.set_gate("soak", false).await;
    let waiting = world.settle(&step).await;
    assert_eq!(waiting.state(), StepState::WaitingForMerge, "{:?}", waiting.status);
    let branch = waiting.status.head_branch.unwrap();
    world.forge.person(&branch, "smuggled", &[("environments/prod/evil.yaml", "a: 1\n")]);
    world.set_gate("soak", true).await;
    world.reconciler().nudge(&step);
    let waiting = world.settle(&step).await;
    assert_eq!(waiting.state(), StepState::WaitingForMerge, "{:?}", waiting.status);
    assert_eq!(world.forge.pulls()[0].state, PullState::Open);
    world.clock.advance(Duration::from_secs(3_600));
    let failed = world.settle(&step).await;
    assert_eq!(ended(&failed), (StepState::Failed, "MergeTimeout"));
    assert_eq!(world.forge.pulls()[0].state, PullState::Closed);
    assert!(world.forge.file("main", "environments/prod/evil.yaml").is_none());
}

/// The merge commits, squashed commits and promotion commits of the base, newest first.
fn promoted_subjects(world: &World) -> Vec<String> {
    let is_ours = |subject: &String| subject.contains("Promote");
    world.forge.subjects("main").into_iter().filter(is_ours).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merge_the_server_was_cut_off_in_is_found_in_the_history() {
    // A merge brings the commit of the branch with it.
    for (method, commits) in [("merge", 2), ("squash", 1), ("rebase", 1)] {
        for allows_manual_merge in [true, false] {
            let case = format!("{method}, manual merge {allows_manual_merge}");
            let world = World::new().await;
            {
                let mut state = world.forge.state.lock().unwrap();
                (state.loses_merges, state.allows_manual_merge) = (true, allows_manual_merge);
            }
            world.bundle("app-1", "1.29.0").await;
            let mut spec = world.spec("app-1", "staging");
            spec["pr"] = json!(true);
            spec["steps"] = json!([{"uses": "git-clone"}, {"uses": "kustomize-set-image"}, {"uses": "git-commit"},
                {"uses": "git-push"}, {"uses": "open-pr"}, {"uses": "wait-for-merge", "config": {"mergeMethod": method}},
                {"uses": "health-check"}]);
            let step = world.step("app-1-staging", spec).await;
            let done = world.until(&step, StepState::Verified).await;
            let tip = git(&world.forge.repository(), &["rev-parse", "main"]).unwrap();
            assert_eq!(done.status.merge_sha.as_deref(), Some(tip.as_str()), "{case}");
            assert_eq!(promoted_subjects(&world).len(), commits, "{case}: {:?}", promoted_subjects(&world));
            let pulls = world.forge.pulls();
            assert_eq!(pulls.len(), 1, "{case}");
            let state = if allows_manual_merge { PullState::Merged } else { PullState::Closed };
            assert_eq!(pulls[0].state, state, "{case}");
            let is_told = pulls[0].comments.iter().any(|(_, text)| text.contains(&tip));
            assert_eq!(is_told, !allows_manual_merge, "{case}: {:?}", pulls[0].comments);
            assert_eq!(world.forge.violations(), Vec::<String>::new(), "{case}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_persons_merge_the_server_was_cut_off_in_is_found_in_the_history() {
    for allows_manual_merge in [true, false] {
        let world = World::new().await;
        let step = reviewed(&world).await;
        world.forge.state.lock().unwrap().allows_manual_merge = allows_manual_merge;
        let merge = world.forge.merge_unnoted(2, "merge");
        // Others go on meanwhile.
        world.forge.person("main", "another", &[("notes", "1\n")]);
        world.reconciler().nudge(&step);
        let done = world.settle(&step).await;
        assert_eq!(done.state(), StepState::Verified, "{:?}", done.status);
        assert_eq!(done.status.merge_sha, Some(merge));
        assert_eq!(promoted_subjects(&world).len(), 2);
    }
    // Somebody saw that there was nothing left to merge, and closed it.
    let world = World::new().await;
    let step = reviewed(&world).await;
    let merge = world.forge.merge_unnoted(2, "merge");
    world.forge.close(2);
    world.reconciler().nudge(&step);
    let done = world.settle(&step).await;
    assert_eq!((done.state(), done.status.merge_sha), (StepState::Verified, Some(merge)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_has_not_decided_yet_is_no_conflict() {
    let world = World::new().await;
    let step = reviewed(&world).await;
    let head = world.read(&step).await.status.head_sha;
    world.forge.person("main", "another", &[("notes", "1\n")]);
    world.forge.state.lock().unwrap().undecided = 3;
    world.reconciler().nudge(&step);
    let waiting = world.settle(&step).await;
    assert_eq!(waiting.state(), StepState::WaitingForMerge, "{:?}", waiting.status);
    assert_eq!(waiting.status.head_sha, head, "the branch is not rebuilt, and approvals of it count");
    assert_eq!(world.forge.state.lock().unwrap().undecided, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_request_that_is_not_there_yet_is_waited_for() {
    let world = World::new().await;
    world.forge.state.lock().unwrap().hidden = 4;
    let step = reviewed(&world).await;
    assert_eq!(world.read(&step).await.status.pr_number, Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_table_of_gates_follows_the_gates_and_is_written_once_a_minute() {
    let world = World::new().await;
    world.bundle("app-1", "1.29.0").await;
    world.gate("soak", true).await;
    let mut spec = world.spec("app-1", "prod");
    spec["approval"] = json!("pr-review");
    spec["requiredGates"] = json!(["soak"]);
    let step = world.step("app-1-prod", spec).await;
    world.settle(&step).await;
    let table = || {
        let comments = world.forge.pulls()[0].comments.clone();
        let tables: Vec<String> = comments
            .into_iter()
            .map(|(_, body)| body)
            .filter(|body| body.contains("kardinal:gates"))
            .collect();
        assert_eq!(tables.len(), 1);
        tables[0].clone()
    };
    assert!(table().contains("PASS"));
    world.set_gate("soak", false).await;
    world.settle(&step).await;
    assert_eq!(world.forge.check("kardinal/gates").as_deref(), Some("failure"));
    assert!(table().contains("PASS"), "the comment waits for its minute");
    world.clock.advance(Duration::from_secs(61));
    world.settle(&step).await;
    assert!(table().contains("BLOCK"));
    world.set_gate("soak", true).await;
    world.clock.advance(Duration::from_secs(61));
    world.settle(&step).await;
    assert!(table().contains("PASS"));
    assert_eq!(world.forge.check("kardinal/gates").as_deref(), Some("success"));
}
