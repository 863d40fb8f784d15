//! Rollbacks: what takes a failed version back, and what never does.

use std::time::Duration;

use jiff::Timestamp;
use slipway_promotion::kinds::{
    Artifacts, Bundle, BundleEnvironmentStatus, BundleSpec, EnvironmentSpec, GitSpec, HealthFailurePolicy,
    ImageArtifact, Metadata, Pipeline, PipelineSpec, RollbackMode, RollbackScope, StepState, labels,
};
use slipway_promotion::rollback::{
    ManualRollback, RollbackError, RollbackPriority, RollbackSkip, held_by, manual_rollback, plan_rollbacks,
    rollback_name,
};

fn at(minute: u64) -> Timestamp {
    let start: Timestamp = "2026-04-10T12:00:00Z".parse().expect("is a time");
    start.checked_add(Duration::from_secs(minute * 60)).expect("is a time")
}

fn pipeline() -> Pipeline {
    let environment = |name: &str| EnvironmentSpec { name: name.into(), ..EnvironmentSpec::default() };
    let spec = PipelineSpec {
        git: GitSpec { url: "https://git.example.com/a".into(), ..GitSpec::default() },
        environments: ["dev", "staging", "prod"].map(environment).to_vec(),
        ..PipelineSpec::default()
    };
    Pipeline::new(Metadata::named("apps", "my-app"), spec)
}

/// A bundle whose promotion of one environment after the other began at a minute.
fn bundle(version: &str, start: u64, states: &[(&str, StepState)]) -> Bundle {
    let image =
        ImageArtifact { name: "app".into(), reference: format!("ghcr.io/acme/app:{version}"), digest: None };
    let artifacts = Artifacts { images: vec![image], ..Artifacts::default() };
    let mut bundle = Bundle::new(
        Metadata { uid: format!("uid-{version}"), ..Metadata::named("apps", format!("my-app-{version}")) },
        BundleSpec { artifacts, ..BundleSpec::default() },
    );
    for (offset, (environment, state)) in (0..).zip(states) {
        let pushed = at(start + offset * 2);
        let record = BundleEnvironmentStatus {
            state: Some(*state),
            started_at: Some(pushed),
            promoted_at: Some(pushed),
            merged_at: Some(pushed),
            commit_sha: Some("c".repeat(40)),
            verified_at: (*state == StepState::Verified).then(|| at(start + offset * 2 + 1)),
            ..BundleEnvironmentStatus::default()
        };
        bundle.status.environments.insert((*environment).to_owned(), record);
    }
    bundle
}

const ALL_VERIFIED: [(&str, StepState); 3] =
    [("dev", StepState::Verified), ("staging", StepState::Verified), ("prod", StepState::Verified)];
const PROD_FAILED: [(&str, StepState); 3] =
    [("dev", StepState::Verified), ("staging", StepState::Verified), ("prod", StepState::Failed)];

fn versions(bundles: &[Bundle]) -> Vec<(String, String)> {
    bundles
        .iter()
        .map(|bundle| (bundle.spec.intent().target.unwrap_or_default(), bundle.spec.version()))
        .collect()
}

fn expected(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(one, other)| ((*one).to_owned(), (*other).to_owned())).collect()
}

#[test]
fn every_environment_that_received_a_failed_version_is_taken_back() {
    let all = [
        bundle("1.27.0", 0, &ALL_VERIFIED),
        bundle("1.28.0", 10, &ALL_VERIFIED),
        bundle("1.29.0", 20, &PROD_FAILED),
    ];
    let plan = plan_rollbacks(&pipeline(), &all[2], &all);
    assert_eq!(
        versions(&plan.bundles),
        expected(&[("dev", "1.28.0"), ("staging", "1.28.0"), ("prod", "1.28.0")])
    );
    assert_eq!(plan.notes, []);
    let prod = &plan.bundles[2];
    assert_eq!(prod.name(), rollback_name("my-app", "prod", &all[2]));
    assert!(prod.is_rollback() && !prod.is_emergency());
    assert_eq!(prod.pipeline(), Some("my-app"));
    let intent = prod.spec.intent();
    assert_eq!((intent.from.as_deref(), intent.target.as_deref()), (Some("prod"), Some("prod")));
    let provenance = prod.spec.provenance.clone().expect("is known");
    assert_eq!(
        (provenance.rollback_of.as_deref(), provenance.rollback_to.as_deref()),
        (Some("my-app-1.29.0"), Some("my-app-1.28.0"))
    );
    let mut narrow = pipeline();
    narrow.spec.rollback.scope = RollbackScope::FailedOnly;
    assert_eq!(versions(&plan_rollbacks(&narrow, &all[2], &all).bundles), expected(&[("prod", "1.28.0")]));
}

#[test]
fn the_same_failure_is_answered_once() {
    let mut all = vec![bundle("1.28.0", 0, &ALL_VERIFIED), bundle("1.29.0", 20, &PROD_FAILED)];
    let first = plan_rollbacks(&pipeline(), &all[1], &all);
    assert_eq!(first.bundles.len(), 3);
    // Killed after the first of them was created, and before that was recorded: the names are the same again.
    all.push(first.bundles[0].clone());
    let second = plan_rollbacks(&pipeline(), &all[1], &all);
    assert_eq!(second.bundles, first.bundles);
    for environment in ["dev", "prod"] {
        let record = all[1].status.environments.get_mut(environment).expect("was promoted");
        record.rolled_back_by = Some("somebody".into());
    }
    let third = plan_rollbacks(&pipeline(), &all[1], &all);
    assert_eq!(versions(&third.bundles), expected(&[("staging", "1.28.0")]));
    assert!(third.notes.iter().all(|note| note.skip == RollbackSkip::Done));
}

#[test]
fn a_rollback_that_fails_is_not_answered_with_another() {
    let mut all = vec![bundle("1.28.0", 0, &ALL_VERIFIED), bundle("1.29.0", 20, &PROD_FAILED)];
    let mut rollback = plan_rollbacks(&pipeline(), &all[1], &all).bundles.remove(2);
    rollback.metadata.uid = "uid-rollback".into();
    rollback.status.environments = bundle("1.28.0", 40, &[("prod", StepState::Failed)]).status.environments;
    all.push(rollback.clone());
    let plan = plan_rollbacks(&pipeline(), &rollback, &all);
    assert_eq!(plan.bundles, []);
    assert_eq!(plan.notes[0].skip, RollbackSkip::IsRollback);
}

#[test]
fn what_the_environment_says_wins_over_the_pipeline() {
    let all = [bundle("1.28.0", 0, &ALL_VERIFIED), bundle("1.29.0", 20, &PROD_FAILED)];
    for (mode, policy, count) in [
        (RollbackMode::Pr, None, 3),
        (RollbackMode::None, None, 0),
        (RollbackMode::None, Some(HealthFailurePolicy::Rollback), 1),
        (RollbackMode::Pr, Some(HealthFailurePolicy::None), 0),
        (RollbackMode::Pr, Some(HealthFailurePolicy::Abort), 0),
    ] {
        let mut pipeline = pipeline();
        pipeline.spec.rollback.on_failure = mode;
        pipeline.spec.environments[2].on_health_failure = policy;
        let plan = plan_rollbacks(&pipeline, &all[1], &all);
        assert_eq!(plan.bundles.len(), count, "{mode:?} {policy:?} {plan:?}");
    }
    let mut rolling = all.clone();
    rolling[1].status.environments.get_mut("prod").expect("was promoted").state =
        Some(StepState::RollingBack);
    assert_eq!(plan_rollbacks(&pipeline(), &rolling[1], &rolling).bundles.len(), 3);
    rolling[1].status.environments.get_mut("prod").expect("was promoted").state =
        Some(StepState::AbortedByAlarm);
    assert_eq!(plan_rollbacks(&pipeline(), &rolling[1], &rolling).bundles, []);
}

#[test]
fn a_change_that_never_arrived_is_not_taken_back() {
    let mut all = [bundle("1.28.0", 0, &ALL_VERIFIED), bundle("1.29.0", 20, &PROD_FAILED)];
    // The pull request was closed.
    let prod = all[1].status.environments.get_mut("prod").expect("was promoted");
    (prod.merged_at, prod.pr_url) = (None, Some("https://git.example.com/a/pulls/7".into()));
    let plan = plan_rollbacks(&pipeline(), &all[1], &all);
    assert_eq!((plan.bundles.len(), plan.notes[0].skip), (0, RollbackSkip::NotReceived));
}

#[test]
fn an_environment_that_another_version_took_over_is_left_alone() {
    let newer = bundle("1.30.0", 30, &[("dev", StepState::Verified)]);
    let all = [bundle("1.28.0", 0, &ALL_VERIFIED), bundle("1.29.0", 20, &PROD_FAILED), newer];
    let plan = plan_rollbacks(&pipeline(), &all[1], &all);
    assert_eq!(versions(&plan.bundles), expected(&[("staging", "1.28.0"), ("prod", "1.28.0")]));
    assert_eq!((plan.notes[0].environment.as_str(), plan.notes[0].skip), ("dev", RollbackSkip::TakenOver));
}

#[test]
fn versions_that_failed_are_no_targets() {
    let mut bad = bundle("1.28.0", 10, &ALL_VERIFIED);
    bad.status.environments.get_mut("prod").expect("was promoted").rolled_back_by = Some("x".into());
    let all = [bundle("1.27.0", 0, &ALL_VERIFIED), bad, bundle("1.29.0", 20, &PROD_FAILED)];
    let plan = plan_rollbacks(&pipeline(), &all[2], &all);
    assert!(
        plan.bundles.iter().all(|bundle| bundle.spec.version() == "1.27.0"),
        "{:?}",
        versions(&plan.bundles)
    );
    let alone = [bundle("1.29.0", 20, &PROD_FAILED)];
    let plan = plan_rollbacks(&pipeline(), &alone[0], &alone);
    assert!(plan.bundles.is_empty() && plan.notes.iter().all(|note| note.skip == RollbackSkip::NoTarget));
    assert_eq!(plan.notes[0].skip.reason(), "NoRollbackTarget");
}

#[test]
fn a_version_that_was_taken_back_does_not_return_unless_it_is_forced() {
    let mut failed = bundle("1.29.0", 20, &PROD_FAILED);
    failed.status.environments.get_mut("prod").expect("was promoted").rolled_back_by = Some("rb".into());
    let all = [bundle("1.28.0", 0, &ALL_VERIFIED), failed];
    let mut again = bundle("1.29.0", 50, &[]);
    again.metadata.uid = "uid-again".into();
    let hold = held_by(&again, "prod", &all).expect("is held");
    assert_eq!((hold.failed.name(), hold.rollback), ("my-app-1.29.0", "rb"));
    assert!(held_by(&again, "dev", &all).is_none(), "it was not taken back there");
    assert!(held_by(&bundle("1.29.1", 50, &[]), "prod", &all).is_none(), "a newer version");
    again.metadata.annotations.insert(labels::FORCE.into(), "true".into());
    assert!(held_by(&again, "prod", &all).is_none());
}

#[test]
fn a_person_goes_back_to_the_version_before_or_to_one_they_name() {
    let all = [
        bundle("1.26.0", 0, &ALL_VERIFIED),
        bundle("1.27.0", 10, &ALL_VERIFIED),
        bundle("1.28.0", 20, &ALL_VERIFIED),
    ];
    let ask = |environment, to| {
        let request = ManualRollback { environment, to, priority: RollbackPriority::Emergency, now: at(60) };
        manual_rollback(&pipeline(), &all, &request)
    };
    let back = ask("prod", None).expect("there is history");
    assert_eq!(versions(std::slice::from_ref(&back)), expected(&[("prod", "1.27.0")]));
    assert!(back.is_rollback() && back.is_emergency());
    assert_eq!(ask("prod", Some("1.26.0")).expect("was verified").spec.version(), "1.26.0");
    assert_eq!(ask("prod", Some("my-app-1.26.0")).expect("was verified").spec.version(), "1.26.0");
    for (environment, to, says) in [
        ("prdo", None, "pipeline my-app has no environment `prdo`; did you mean `prod`?"),
        ("prod", Some("1.20.0"), "`1.20.0` was never verified in prod; there are: 1.28.0, 1.27.0, 1.26.0"),
        ("prod", Some("1.28.0"), "prod runs 1.28.0 already"),
    ] {
        assert_eq!(ask(environment, to).expect_err("cannot be").to_string(), says);
    }
    let request =
        ManualRollback { environment: "prod", to: None, priority: RollbackPriority::Normal, now: at(60) };
    let error = manual_rollback(&pipeline(), &[], &request).expect_err("nothing is there");
    assert_eq!(error, RollbackError::NothingThere { environment: "prod".into() });
    let error = manual_rollback(&pipeline(), &all[..1], &request).expect_err("nothing was before");
    assert_eq!(error.to_string(), "no version was verified in prod before 1.26.0");
}
