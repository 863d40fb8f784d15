//! Trouble in whole promotions: servers that fail, pull requests that people close or that conflict, and disks.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use slipway_promotion::kinds::{BundlePhase, ConditionStatus, PromotionStep, StepState, find_condition};
use slipway_promotion::step::{RetryOutcome, retry_step};
use slipway_scm::BreakerState;

use super::world::{NAMESPACE, POLICY, World};
use crate::forge::{PullState, TOKEN, WEBHOOK_SECRET, git};
use crate::steps::deliveries::{merged, send};
use crate::steps::world::KUSTOMIZATION;
use crate::view::survey;

const MINUTE: Duration = Duration::from_secs(60);

async fn step(world: &World, bundle: &str, environment: &str) -> PromotionStep {
    world.step(bundle, environment).await.expect("the step exists")
}

/// A bundle whose pull request waits to be merged into production.
async fn waiting(environments: &[&str]) -> World {
    let world = World::new(environments).await;
    let review = |name: &&str| json!({"name": name, "approval": "pr-review"});
    world.pipeline(json!(environments.iter().map(review).collect::<Vec<_>>())).await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", environments[0], StepState::WaitingForMerge).await;
    world
}

fn nudge(world: &World, bundle: &str, environment: &str) {
    world.controller().nudge_step(NAMESPACE, &format!("{bundle}-{environment}"));
}

/// D03: ten pipelines and a person push to one branch; everything lands, in one line, and nothing is lost.
#[tokio::test(flavor = "multi_thread")]
async fn ten_pipelines_and_a_person_share_a_branch() {
    let names: Vec<String> = (0..10).map(|number| format!("team-{number}")).collect();
    let words: Vec<&str> = names.iter().map(String::as_str).collect();
    let world = Arc::new(World::new(&words).await);
    for name in &names {
        let environments = json!([{"name": "live", "path": format!("environments/{name}")}]);
        world.pipeline_at(json!({"name": name, "namespace": NAMESPACE}), environments, json!({})).await;
    }
    let person = {
        let world = world.clone();
        tokio::task::spawn_blocking(move || {
            for round in 0..5 {
                let file = format!("notes/{round}");
                world.forge.person("main", &format!("by hand {round}"), &[(&file, "by hand\n")]);
            }
        })
    };
    for name in &names {
        let spec = json!({"pipeline": name});
        world.bundle_with(&format!("{name}-1"), "1.29.0", json!({"kardinal.io/pipeline": name}), spec).await;
    }
    let all_landed = async || {
        for name in &names {
            if world.read_bundle(&format!("{name}-1")).await.phase() != BundlePhase::Verified {
                return false;
            }
        }
        true
    };
    world.pass(30 * MINUTE, "every bundle is verified", all_landed).await;
    person.await.expect("a person could push");
    let subjects = world.forge.subjects("main");
    let landed = |start: &str| subjects.iter().filter(|subject| subject.starts_with(start)).count();
    assert_eq!(
        (landed("[kardinal] Promote"), landed("by hand"), subjects.len()),
        (10, 5, 16),
        "{subjects:?}"
    );
    let merges = git(&world.forge.repository(), &["rev-list", "--count", "--merges", "main"]);
    assert_eq!(merges.expect("are counted"), "0");
    for name in &names {
        let text =
            world.forge.file("main", &format!("environments/{name}/kustomization.yaml")).expect("is there");
        assert!(text.contains("\"1.29.0\"   # do not touch by hand"), "{name}: {text}");
    }
}

/// D05: deliveries are hints. Forged ones are refused; lies, repetitions and old news change nothing.
#[tokio::test(flavor = "multi_thread")]
async fn webhooks_that_are_not_true_change_nothing() {
    let world = waiting(&["prod"]).await;
    let number = step(&world, "app-1", "prod").await.status.pr_number.expect("has a pull request");
    let deliver = async |id: &str, number: u64, secret: &str| {
        let hinted = send(world.controller().steps(), id, &merged(number), secret).await?;
        for step in &hinted {
            world.controller().nudge_step(NAMESPACE, &step.name);
        }
        world.settle().await;
        Ok::<usize, slipway_promotion::step::DeliveryError>(hinted.len())
    };
    world.settle().await;
    let before = world.versions().await;
    assert_eq!(deliver("1", number, "guessed").await.expect_err("is forged").status(), 401);
    assert_eq!(world.versions().await, before);
    // Signed, and not true.
    assert_eq!(deliver("2", number, WEBHOOK_SECRET).await.expect("is signed"), 1);
    assert_eq!(world.state("app-1", "prod").await, Some(StepState::WaitingForMerge));
    world.forge.merge(number, "merge", "alice");
    // The same delivery again: somebody recorded it.
    assert_eq!(deliver("2", number, WEBHOOK_SECRET).await.expect("is signed"), 0);
    assert_eq!(world.state("app-1", "prod").await, Some(StepState::WaitingForMerge));
    assert_eq!(deliver("3", number, WEBHOOK_SECRET).await.expect("is signed"), 1);
    world.until_phase("app-1", BundlePhase::Verified).await;
    // News of a promotion that is over, while the next one waits.
    world.bundle("app-2", "1.30.0").await;
    world.until_state("app-2", "prod", StepState::WaitingForMerge).await;
    assert_eq!(deliver("4", number, WEBHOOK_SECRET).await.expect("is signed"), 0);
    assert_eq!(world.state("app-2", "prod").await, Some(StepState::WaitingForMerge));
    assert_eq!(world.read_bundle("app-1").await.phase(), BundlePhase::Verified);
}

/// D06: a server that fails for five minutes is waited for, left alone meanwhile, and told of.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_fails_is_waited_for() {
    let world = World::new(&["prod"]).await;
    world.pipeline(json!([{"name": "prod", "approval": "pr-review"}])).await;
    world.forge.state.lock().expect("not poisoned").outage = Some(502);
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "prod", StepState::Promoting).await;
    world.pass_time(5 * MINUTE).await;
    world.settle().await;
    let held = step(&world, "app-1", "prod").await;
    assert_eq!((held.state(), held.status.current_step.as_deref()), (StepState::Promoting, Some("open-pr")));
    let trouble = find_condition(&held.status.conditions, "SCMUnavailable").expect("is told");
    assert_eq!(trouble.status, ConditionStatus::True);
    let reports = world.controller().steps().server_reports();
    assert!(reports.iter().any(|report| report.breaker != BreakerState::Closed), "{reports:?}");
    let told = survey(&world).await.environment_standing("prod", None).to_string();
    assert!(told.contains("502") || told.contains("CircuitOpen"), "{told}");
    assert_eq!(world.read_bundle("app-1").await.phase(), BundlePhase::Promoting);
    world.forge.state.lock().expect("not poisoned").outage = None;
    let waits = async || world.state("app-1", "prod").await == Some(StepState::WaitingForMerge);
    world.pass(15 * MINUTE, "the server is back", waits).await;
    assert_eq!(world.forge.pulls().len(), 1);
    world.merge("app-1", "prod").await;
    world.until_phase("app-1", BundlePhase::Verified).await;
}

/// D06: refused credentials are waited for; a new Secret counts without a restart.
#[tokio::test(flavor = "multi_thread")]
async fn refused_credentials_wait_for_a_new_secret() {
    let world = World::new(&["dev"]).await;
    world.credentials(NAMESPACE, "old-and-revoked").await;
    world.pipeline(json!([{"name": "dev"}])).await;
    world.bundle("app-1", "1.29.0").await;
    let denied = async || {
        let reason = world.step("app-1", "dev").await.and_then(|step| step.status.reason);
        reason.as_deref() == Some("CredentialsDenied")
    };
    world.pass(5 * MINUTE, "the credentials are refused", denied).await;
    let told = survey(&world).await.environment_standing("dev", None).to_string();
    assert!(told.contains("CredentialsDenied") && !told.contains("old-and-revoked"), "{told}");
    world.credentials(NAMESPACE, TOKEN).await;
    let verified = async || world.read_bundle("app-1").await.phase() == BundlePhase::Verified;
    world.pass(10 * MINUTE, "the new Secret counts", verified).await;
    assert_eq!(world.forge.promotion_commits(), 1);
}

/// D07: a pull request the server does not know a moment after it was made is asked for again.
#[tokio::test(flavor = "multi_thread")]
async fn a_pull_request_that_is_not_shown_yet_is_waited_for() {
    let world = World::new(&["prod"]).await;
    world.forge.state.lock().expect("not poisoned").hidden = 4;
    world.pipeline(json!([{"name": "prod", "approval": "pr-review"}])).await;
    world.bundle("app-1", "1.29.0").await;
    let waits = async || world.state("app-1", "prod").await == Some(StepState::WaitingForMerge);
    world.pass(10 * MINUTE, "the pull request is found", waits).await;
    world.merge("app-1", "prod").await;
    world.until_phase("app-1", BundlePhase::Verified).await;
    assert_eq!((world.forge.pulls().len(), world.forge.promotion_commits()), (1, 1));
}

/// D08: a pull request somebody closes ends the bundle; another try opens one, and the bundle goes all the way.
#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_goes_on_once_its_failed_step_is_tried_again() {
    for refuses_reopen in [false, true] {
        let world = World::new(&["staging", "prod"]).await;
        world.gate(POLICY, "always", "prod", "true").await;
        world.gate(POLICY, "weekday", "staging", "!schedule.isWeekend").await;
        world.pipeline(json!([{"name": "staging", "approval": "pr-review"}, {"name": "prod"}])).await;
        world.bundle("app-1", "1.29.0").await;
        world.until_state("app-1", "staging", StepState::WaitingForMerge).await;
        let first = step(&world, "app-1", "staging").await.status.pr_number.expect("has a pull request");
        world.forge.close(first);
        nudge(&world, "app-1", "staging");
        world.until_phase("app-1", BundlePhase::Failed).await;
        assert_eq!(step(&world, "app-1", "staging").await.status.reason.as_deref(), Some("PRClosed"));
        world.settle().await;
        assert!(world.forge.branches().iter().all(|branch| branch == "main"), "{:?}", world.forge.branches());
        // The results of its gates have become old.
        world.pass_time(10 * MINUTE).await;
        world.forge.state.lock().expect("not poisoned").refuses_reopen = refuses_reopen;
        let tried = retry_step(&world.cluster, NAMESPACE, "app-1-staging").await.expect("is written");
        assert_eq!(tried, RetryOutcome::Restarted { attempt: 2 });
        let waits = async || world.state("app-1", "staging").await == Some(StepState::WaitingForMerge);
        world.pass(10 * MINUTE, "there is a pull request again", waits).await;
        world.settle().await;
        let bundle = world.read_bundle("app-1").await;
        assert_eq!(bundle.phase(), BundlePhase::Promoting, "{:?}", bundle.status);
        let open: Vec<u64> = (world.forge.pulls().iter())
            .filter(|pull| pull.state == PullState::Open)
            .map(|pull| pull.number)
            .collect();
        assert_eq!((open.len(), open[0] == first), (1, !refuses_reopen));
        world.merge("app-1", "staging").await;
        let verified = async || world.read_bundle("app-1").await.phase() == BundlePhase::Verified;
        world.pass(10 * MINUTE, "the bundle goes all the way", verified).await;
        let bundle = world.read_bundle("app-1").await;
        let staging = &bundle.status.environments["staging"];
        let approved = staging.evidence.as_ref().map(|evidence| evidence.approved_by.clone());
        assert_eq!((approved, staging.failed_at), (Some(vec!["alice".to_owned()]), None));
        let degraded = find_condition(&bundle.status.conditions, "Degraded").map(|one| one.status);
        assert_ne!(degraded, Some(ConditionStatus::True));
    }
}

/// D09: a conflict with the base is resolved in the same pull request.
#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_with_the_base_is_resolved_in_the_same_pull_request() {
    let world = waiting(&["prod"]).await;
    let path = "environments/prod/kustomization.yaml";
    world.forge.person("main", "hotfix by hand", &[(path, &KUSTOMIZATION.replace("1.28.0", "1.28.5"))]);
    let head = step(&world, "app-1", "prod").await.status.head_sha;
    let rebuilt = async || step(&world, "app-1", "prod").await.status.head_sha != head;
    // Nobody says so: the safety poll finds it.
    world.pass(15 * MINUTE, "the branch is rebuilt", rebuilt).await;
    let waits = async || world.state("app-1", "prod").await == Some(StepState::WaitingForMerge);
    world.pass(15 * MINUTE, "it waits again", waits).await;
    world.merge("app-1", "prod").await;
    world.until_phase("app-1", BundlePhase::Verified).await;
    let text = world.forge.file("main", path).expect("is there");
    assert!(text.contains("\"1.29.0\"") && !text.contains("1.28"), "{text}");
    assert_eq!(world.forge.pulls().len(), 1);
}

/// D09: a branch people have worked on is left to them.
#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_on_a_branch_of_people_is_told_and_left_alone() {
    let world = waiting(&["prod"]).await;
    let branch = step(&world, "app-1", "prod").await.status.head_branch.expect("has a branch");
    let head = world.forge.person(&branch, "by hand", &[("environments/prod/extra.yaml", "a: 1\n")]);
    let edited = KUSTOMIZATION.replace("1.28.0", "1.28.5");
    world.forge.person("main", "hotfix", &[("environments/prod/kustomization.yaml", &edited)]);
    nudge(&world, "app-1", "prod");
    let told = async || {
        let conditions = step(&world, "app-1", "prod").await.status.conditions;
        find_condition(&conditions, "PRConflict").is_some_and(|one| one.status == ConditionStatus::True)
    };
    world.pass(10 * MINUTE, "the conflict is told", told).await;
    world.pass_time(10 * MINUTE).await;
    assert_eq!(world.state("app-1", "prod").await, Some(StepState::WaitingForMerge));
    let now = git(&world.forge.repository(), &["rev-parse", &branch]).expect("is there");
    assert_eq!(now, head, "nobody has touched the branch");
    assert_eq!(world.read_bundle("app-1").await.phase(), BundlePhase::Promoting);
}

/// D10: what is on disk may vanish at any time.
#[tokio::test(flavor = "multi_thread")]
async fn a_cache_that_vanishes_between_environments_changes_nothing() {
    let world = waiting(&["dev", "staging", "prod"]).await;
    for environment in ["dev", "staging", "prod"] {
        world.until_state("app-1", environment, StepState::WaitingForMerge).await;
        world.settle().await;
        world.wipe_cache();
        world.merge("app-1", environment).await;
    }
    world.until_phase("app-1", BundlePhase::Verified).await;
    assert_eq!((world.forge.promotion_commits(), world.forge.pulls().len()), (3, 3));
}

/// D10: a full disk is named, and the promotion goes on once there is room.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_named_and_waited_for() {
    let world = World::new(&["dev"]).await;
    world.disk.fill(true);
    world.pipeline(json!([{"name": "dev"}])).await;
    world.bundle("app-1", "1.29.0").await;
    let named = async || {
        let reason = world.step("app-1", "dev").await.and_then(|step| step.status.reason);
        reason.as_deref() == Some("DiskFull")
    };
    world.pass(5 * MINUTE, "the full disk is told", named).await;
    let told = survey(&world).await.environment_standing("dev", None).to_string();
    assert!(told.contains("No space left on device"), "{told}");
    world.disk.fill(false);
    let verified = async || world.read_bundle("app-1").await.phase() == BundlePhase::Verified;
    world.pass(10 * MINUTE, "there is room", verified).await;
    assert_eq!(world.forge.promotion_commits(), 1);
}
