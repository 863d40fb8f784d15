//! The usual way of a version into an environment.

use serde_json::json;
use slipway_promotion::kinds::{GateResult, StepProgressState, StepState};

use super::world::{KUSTOMIZATION, World};
use crate::forge::{PullState, git};

#[tokio::test(flavor = "multi_thread")]
async fn an_auto_environment_gets_one_commit_with_one_changed_line() {
    let world = World::new().await;
    world.bundle("app-1", "1.29.0").await;
    let step = world.step("app-1-dev", world.spec("app-1", "dev")).await;
    let done = world.settle(&step).await;
    assert_eq!(done.state(), StepState::Verified, "{:?}", done.status);
    assert_eq!(world.forge.subjects("main"), ["[kardinal] Promote app 1.29.0 to dev", "first"]);
    let repository = world.forge.repository();
    let diff = git(&repository, &["diff", "-U0", "main~1", "main"]).unwrap();
    let changed: Vec<&str> = diff
        .lines()
        .filter(|line| (line.starts_with('+') || line.starts_with('-')) && !line.contains("environments/"))
        .collect();
    assert_eq!(
        changed,
        [
            "-      newTag: \"1.28.0\"   # do not touch by hand",
            "+      newTag: \"1.29.0\"   # do not touch by hand",
            "+      newName: ghcr.io/acme/app"
        ]
    );
    let message = git(&repository, &["log", "-1", "--format=%B", "main"]).unwrap();
    let uid = &done.metadata.uid;
    for line in [
        "Bundle: app-1",
        "Pipeline: app",
        "Environment: dev",
        "Previous-Version: 1.28.0",
        "Source-Commit: abc123def456",
        &format!("Kardinal-Step: {uid}/1"),
    ] {
        assert!(message.contains(line), "{line} in\n{message}");
    }
    assert_eq!(done.status.outputs["commitSHA"], git(&repository, &["rev-parse", "main"]).unwrap());
    assert!(done.status.steps.iter().all(|step| step.state == StepProgressState::Completed));
    assert!(done.metadata.finalizers.is_empty());
    assert_eq!(world.forge.branches(), ["main"]);
    assert!(world.forge.pulls().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reviewed_environment_gets_one_pull_request_and_waits_for_its_merge() {
    let world = World::new().await;
    world.bundle("app-1", "1.29.0").await;
    world.gate("soak", true).await;
    let mut spec = world.spec("app-1", "prod");
    spec["approval"] = json!("pr-review");
    spec["requiredGates"] = json!(["soak"]);
    let step = world.step("app-1-prod", spec).await;
    let waiting = world.settle(&step).await;
    assert_eq!(waiting.state(), StepState::WaitingForMerge, "{:?}", waiting.status);
    let pulls = world.forge.pulls();
    assert_eq!(pulls.len(), 1);
    let pull = &pulls[0];
    assert_eq!(pull.title, "[kardinal] Promote app 1.29.0 to prod");
    assert_eq!(pull.labels, ["kardinal", "kardinal/promotion", "kardinal/app", "kardinal/prod"]);
    for line in [
        "soak-template",
        "1.28.0 to 1.29.0",
        "ghcr.io/acme/app:1.29.0",
        "abc123d",
        "slipway pipeline rollback app",
    ] {
        assert!(pull.body.contains(line), "{line} in\n{}", pull.body);
    }
    assert_eq!(waiting.status.pr_number, Some(pull.number));
    assert_eq!(waiting.status.pr_repo.as_deref(), Some("org/app"));
    assert_eq!(world.forge.check("kardinal/gates").as_deref(), Some("success"));
    assert_eq!(world.forge.subjects("main"), ["first"]);

    let merge = world.forge.merge(pull.number, "squash", "alice");
    world.reconciler().nudge(&step);
    let done = world.settle(&step).await;
    assert_eq!(done.state(), StepState::Verified, "{:?}", done.status);
    assert_eq!(done.status.merge_sha.as_deref(), Some(merge.as_str()));
    assert_eq!(
        (done.status.merged_by.as_deref(), &done.status.approvers),
        (Some("alice"), &vec!["alice".to_owned()])
    );
    let evidence = done.status.evidence.unwrap();
    assert_eq!(evidence.approved_by, ["alice"]);
    assert_eq!(evidence.policy_gates[0].name, "soak-template");
    assert_eq!(evidence.policy_gates[0].result, GateResult::Pass);
    assert_eq!(world.forge.branches(), ["main"]);
    assert_eq!(world.forge.pulls()[0].state, PullState::Merged);
    assert_eq!(world.forge.violations(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn promoting_the_deployed_version_pushes_nothing_and_verifies() {
    let same =
        KUSTOMIZATION.replace("newTag: \"1.28.0\"", "newTag: \"1.29.0\"\n      newName: ghcr.io/acme/app");
    let world = World::with_files(&[("environments/qa/kustomization.yaml", &same)]).await;
    world.bundle("app-1", "1.29.0").await;
    let mut spec = world.spec("app-1", "qa");
    spec["approval"] = json!("pr-review");
    let step = world.step("app-1-qa", spec).await;
    let done = world.settle(&step).await;
    assert_eq!(done.state(), StepState::Verified, "{:?}", done.status);
    assert_eq!(done.status.outputs["noChange"], "true");
    assert_eq!(world.forge.subjects("main"), ["first"]);
    assert!(world.forge.pulls().is_empty());
    assert_eq!(world.forge.branches(), ["main"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_environments_do_not_contain_each_other() {
    let world = World::new().await;
    world.bundle("app-1", "1.29.0").await;
    let mut specs = Vec::new();
    for environment in ["staging", "prod"] {
        let mut spec = world.spec("app-1", environment);
        spec["approval"] = json!("pr-review");
        specs.push(world.step(&format!("app-1-{environment}"), spec).await);
    }
    let (one, two) = tokio::join!(world.settle(&specs[0]), world.settle(&specs[1]));
    for (step, other) in [(one, "prod"), (two, "staging")] {
        let branch = step.status.head_branch.unwrap();
        let text = world.forge.file(&branch, &format!("environments/{other}/kustomization.yaml"));
        assert!(text.unwrap().contains("1.28.0"));
    }
    assert_eq!(world.forge.pulls().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_whose_condition_does_not_hold_is_left_out() {
    let world = World::new().await;
    world.bundle("app-1", "1.29.0").await;
    let mut spec = world.spec("app-1", "dev");
    spec["steps"] = json!([
        {"uses": "git-clone"},
        {"uses": "kustomize-set-image"},
        {"uses": "notify", "config": {"url": "http://127.0.0.1:1/"}, "if": "bundle.isRollback"},
        {"uses": "git-commit"},
        {"uses": "git-push"},
        {"uses": "health-check"},
    ]);
    let step = world.step("app-1-dev", spec).await;
    let done = world.settle(&step).await;
    assert_eq!(done.state(), StepState::Verified, "{:?}", done.status);
    assert_eq!(done.status.steps[2].state, StepProgressState::Skipped);
}
