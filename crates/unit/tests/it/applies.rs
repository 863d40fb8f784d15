//! Units on a cluster: applied, promoted, verified, replayed.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use slipway_cluster::helm::{ReleaseStorage, StorageDriver};
use slipway_manifest::{Gvk, ObjectRef};
use slipway_unit::*;

use crate::support::*;

fn configmap(namespace: &str) -> ObjectRef {
    ObjectRef::core("ConfigMap", Some(namespace), "shop")
}

fn pinned(tag: &str, digest: &str) -> Vec<ImageInput> {
    vec![ImageInput::parse(&format!("shop=acme/shop:{tag}@{digest}")).expect("is an image")]
}

fn report(outcome: ApplyOutcome) -> VerifyReport {
    match outcome {
        ApplyOutcome::Applied { verification, .. } => verification.expect("was verified"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_was_bundled_is_applied_whatever_became_of_the_source() {
    let world = World::new();
    let source = shop();
    let unit = world
        .bundle(
            "u",
            BundleRequest { images: pinned("2", DIGEST), ..request_for(&source.path().join("shop")) },
        )
        .await;
    std::fs::write(source.path().join("shop/values.yaml"), VALUES.replace("hello", "changed"))
        .expect("is written");
    let plan = plan_unit(
        &unit,
        &world.target("dev"),
        None,
        SecretUse::Name,
        Default::default(),
        &[],
        &world.plan_context(),
    )
    .await;
    let plan = plan.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(
        plan.images,
        [ImageChange {
            object: "Deployment dev/shop".into(),
            container: "shop".into(),
            old: None,
            new: format!("acme/shop:2@{DIGEST}")
        }]
    );
    assert_eq!(plan.exit_code(), 2);

    let outcome = world.apply(&unit, "dev").await.unwrap_or_else(|error| panic!("{error}"));
    let verified = report(outcome);
    assert!(verified.is_passed(), "{:#?}", verified.checks);
    let live = world.cluster.get(&configmap("dev")).await.expect("answers").expect("is there");
    assert_eq!(live["data"]["greeting"], "hello");
    let storage = ReleaseStorage::new(world.cluster.clone(), StorageDriver::default(), "dev");
    let release = storage.read_revision("shop", 1).await.expect("answers").expect("is there");
    assert_eq!(release.info.annotations[UNIT_DIGEST], json!(unit.digest()));
    assert_eq!(release.info.annotations[UNIT_OBJECT_SET], json!(unit.rows().manifest.object_set_digest));
    // Once more changes nothing; by force it is a new revision.
    let again = world.apply(&unit, "dev").await.unwrap_or_else(|error| panic!("{error}"));
    assert!(matches!(again, ApplyOutcome::AlreadyApplied { revision: 1 }), "{again:?}");
    let forced = ApplyRequest { repeated: RepeatedApply::Force, ..world.request(&unit, "dev") };
    let forced = apply_unit(&forced, &world.context(&unit)).await.unwrap_or_else(|error| panic!("{error}"));
    assert!(
        matches!(&forced, ApplyOutcome::Applied { report, .. } if report.revision.get() == 2),
        "{forced:?}"
    );
}

#[tokio::test]
async fn a_promotion_needs_a_verified_apply_and_changes_only_its_slots() {
    let world = World::new();
    let source = shop();
    let slots = BTreeMap::from([("prod".to_owned(), vec!["replicaCount".to_owned()])]);
    let request = BundleRequest {
        overlay_slots: slots,
        images: pinned("2", DIGEST),
        ..request_for(&source.path().join("shop"))
    };
    let unit = world.bundle("u", request).await;
    let from = |env: &str| {
        EvidenceNeed::From(EvidenceRule { from: vec![env.to_owned()], ..EvidenceRule::default() })
    };
    let promote = ApplyRequest { evidence: from("staging"), ..world.request(&unit, "prod") };
    let error = apply_unit(&promote, &world.context(&unit)).await.expect_err("has no evidence");
    assert_eq!(
        error.to_string(),
        "the unit is not verified in staging: it was never applied there\n  hint: apply it there with `slipway unit apply --to staging`, or promote without evidence with --allow-unverified"
    );
    let unverified = ApplyRequest { verify: None, ..world.request(&unit, "staging") };
    apply_unit(&unverified, &world.context(&unit)).await.unwrap_or_else(|error| panic!("{error}"));
    let error = apply_unit(&promote, &world.context(&unit)).await.expect_err("has no evidence");
    assert!(error.to_string().contains("was not verified\n  hint: verify what runs there"), "{error}");
    let verified = ApplyRequest { repeated: RepeatedApply::Force, ..world.request(&unit, "staging") };
    assert!(report(apply_unit(&verified, &world.context(&unit)).await.expect("is applied")).is_passed());

    let wrong = Overlay::read(&unit, "prod", "prod.yaml", "replicaCount: 2\nimage: {tag: x}\n")
        .expect_err("is not allowed");
    assert!(
        wrong.to_string().contains("`image.tag` may not differ")
            && wrong.to_string().contains("prod.yaml:2:"),
        "{wrong}"
    );
    let overlay = Overlay::read(&unit, "prod", "prod.yaml", "replicaCount: 2\n").expect("is allowed");
    let promote = ApplyRequest { overlay: Some(overlay), ..promote };
    report(apply_unit(&promote, &world.context(&unit)).await.unwrap_or_else(|error| panic!("{error}")));
    let at = ObjectRef::new(Gvk::new("apps", "v1", "Deployment"), Some("prod"), "shop");
    let live = world.cluster.get(&at).await.expect("answers").expect("is there");
    assert_eq!(live["spec"]["replicas"], 2);
    assert_eq!(
        live["spec"]["template"]["spec"]["containers"][0]["image"],
        json!(format!("acme/shop:2@{DIGEST}"))
    );
    let entries = ledger(&unit).entries().expect("is sound");
    assert_eq!(verified_environments(&entries), ["prod", "staging"]);
    let promotion = entries.iter().find(|entry| entry.kind == EntryKind::Promotion).expect("is recorded");
    assert_eq!(promotion.payload["evidence"]["env"], "staging");
}

#[tokio::test]
async fn a_pod_on_another_digest_fails_the_verification() {
    let world = World::new();
    let source = shop();
    let unit = world
        .bundle(
            "u",
            BundleRequest { images: pinned("2", DIGEST), ..request_for(&source.path().join("shop")) },
        )
        .await;
    assert!(report(world.apply(&unit, "dev").await.expect("is applied")).is_passed());
    let other = world
        .bundle("v", BundleRequest { images: pinned("3", OTHER), ..request_for(&source.path().join("shop")) })
        .await;
    let target = world.target("dev");
    let proven = prove_release(&other, world.loader(), &target, None).expect("is proven");
    let plan =
        plan_unit(&other, &target, None, SecretUse::Name, Default::default(), &[], &world.plan_context())
            .await;
    let plan = plan.unwrap_or_else(|error| panic!("{error}"));
    let request = VerifyRequest {
        unit: Some(&other),
        request: &plan.request,
        rendered: &proven.rendered,
        baseline: VerifyBaseline::default(),
        options: VerifyOptions { soak: std::time::Duration::ZERO, ..VerifyOptions::default() },
    };
    let found = run_checks(&world.cluster, &request, &world.events).await.expect("looks");
    let digests = found.checks.iter().find(|check| check.check == "digests").expect("is there");
    assert_eq!(digests.status, CheckStatus::Fail);
    assert!(digests.detail[0].contains(&format!("runs {DIGEST}, not {OTHER}")), "{:?}", digests.detail);
    assert!(found.likely_cause().expect("has one").starts_with("digests: Pod/shop-"));
    let verified = report(world.apply(&other, "dev").await.expect("is applied"));
    assert!(verified.is_passed(), "{:#?}", verified.checks);
}

#[tokio::test]
async fn a_failed_apply_is_recorded_and_replayed_without_a_cluster() {
    let world = World::new();
    let source = shop();
    let good = world.bundle("good", request_for(&source.path().join("shop"))).await;
    world.apply(&good, "dev").await.unwrap_or_else(|error| panic!("{error}"));
    let values = set(&["annotations.sim/fail=crashloop", "password=secret://vault/app#key"]);
    let bad = world.bundle("bad", BundleRequest { values, ..request_for(&source.path().join("shop")) }).await;
    let error = world.apply(&bad, "dev").await.expect_err("does not become ready");
    assert!(matches!(error, UnitError::Release(_)), "{error}");
    drop(world.sandbox);
    let recorded = read_apply(&ledger(&bad), None).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(recorded.apply.status, ApplyStatus::Failed);
    let kinds: Vec<EntryKind> = recorded.entries.iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [EntryKind::ApplyStarted, EntryKind::ApplyEvents, EntryKind::ApplyFinished]);
    assert!(recorded.records.len() > 5 && recorded.records.is_sorted_by_key(|record| record.seq));
    let text = serde_json::to_string(&recorded.records).expect("is JSON");
    assert!(!text.contains("s3nt1nel"), "a secret leaks into the events");
    let by_number = read_apply(&ledger(&bad), Some("1")).expect("is there");
    assert_eq!(by_number.apply.apply_id, recorded.apply.apply_id);
    assert!(read_apply(&ledger(&bad), Some("7")).is_err());
}

#[tokio::test]
async fn a_crash_loop_after_the_rollout_fails_with_diagnostics() {
    let world = World::new();
    let source = shop();
    let unit = world
        .bundle(
            "u",
            BundleRequest { images: pinned("2", DIGEST), ..request_for(&source.path().join("shop")) },
        )
        .await;
    assert!(report(world.apply(&unit, "dev").await.expect("is applied")).is_passed());
    let target = world.target("dev");
    let plan =
        plan_unit(&unit, &target, None, SecretUse::Name, Default::default(), &[], &world.plan_context())
            .await;
    let plan = plan.unwrap_or_else(|error| panic!("{error}"));
    let baseline =
        take_baseline(&world.cluster, &plan.request, &plan.proven.rendered).await.expect("is taken");
    // Somebody scales it to nothing and edits the configuration: it is neither ready nor what was applied.
    let kind = world
        .cluster
        .find_kind(&Gvk::new("apps", "v1", "Deployment"))
        .await
        .expect("answers")
        .expect("is served");
    let at = kind.object_ref(&json!({"metadata": {"name": "shop"}}), "dev");
    let patch = slipway_cluster::ObjectPatch::Merge(
        json!({"spec": {"template": {"metadata": {"annotations": {"sim/fail": "crashloop"}}}}}),
    );
    world
        .cluster
        .patch(&at, &patch, &slipway_cluster::WriteOptions::for_manager("kubectl-edit"), None)
        .await
        .expect("is patched");
    let request = VerifyRequest {
        unit: Some(&unit),
        request: &plan.request,
        rendered: &plan.proven.rendered,
        baseline,
        options: VerifyOptions { soak: std::time::Duration::ZERO, ..VerifyOptions::default() },
    };
    world.sandbox.advance(std::time::Duration::from_secs(120)).await;
    let found = run_checks(&world.cluster, &request, &world.events).await.expect("looks");
    let status = |name: &str| found.checks.iter().find(|check| check.check == name).map(|check| check.status);
    assert_eq!(
        (status("restarts"), status("drift")),
        (Some(CheckStatus::Fail), Some(CheckStatus::Fail)),
        "{:#?}",
        found.checks
    );
    let diagnostics = found.diagnostics.expect("were collected");
    assert!(diagnostics["pods"].as_array().is_some_and(|pods| !pods.is_empty()), "{diagnostics}");
}

#[tokio::test]
async fn a_target_goes_back_to_what_it_ran_before() {
    let world = World::new();
    let source = shop();
    let first = world.bundle("a", request_for(&source.path().join("shop"))).await;
    let second = world
        .bundle(
            "b",
            BundleRequest { values: set(&["greeting=second"]), ..request_for(&source.path().join("shop")) },
        )
        .await;
    world.apply(&first, "dev").await.expect("is applied");
    world.apply(&second, "dev").await.expect("is applied");
    let back = rollback_unit(&world.request(&second, "dev"), None, &world.context(&second)).await;
    assert_eq!(back.unwrap_or_else(|error| panic!("{error}")).revision.get(), 3);
    let live = world.cluster.get(&configmap("dev")).await.expect("answers").expect("is there");
    assert_eq!(live["data"]["greeting"], "hello");
    let entries = ledger(&second).entries().expect("is sound");
    assert_eq!(rollbacks(&entries), ["started", "succeeded"]);
    assert_eq!(entries.last().map(|entry| &entry.payload["revision"]), Some(&json!(3)));
}

#[tokio::test]
async fn a_rollback_takes_the_evidence_of_its_target_back() {
    let world = World::new();
    let source = shop();
    let first = world.bundle("a", request_for(&source.path().join("shop"))).await;
    let values = set(&["greeting=second"]);
    let unit = world.bundle("b", BundleRequest { values, ..request_for(&source.path().join("shop")) }).await;
    world.apply(&first, "staging").await.expect("is applied");
    assert!(report(world.apply(&unit, "staging").await.expect("is applied")).is_passed());
    let back = rollback_unit(&world.request(&unit, "staging"), None, &world.context(&unit)).await;
    back.expect("is rolled back");
    let rule = EvidenceRule { from: vec!["staging".to_owned()], ..EvidenceRule::default() };
    let promote = ApplyRequest { evidence: EvidenceNeed::From(rule), ..world.request(&unit, "prod") };
    let error = apply_unit(&promote, &world.context(&unit)).await.expect_err("runs nowhere").to_string();
    assert!(error.contains("its target was rolled back after apply"), "{error}");
    assert!(report(world.apply(&unit, "staging").await.expect("is applied again")).is_passed());
    report(apply_unit(&promote, &world.context(&unit)).await.unwrap_or_else(|error| panic!("{error}")));
}

/// The states of the rollbacks a ledger tells of.
fn rollbacks(entries: &[LedgerEntry]) -> Vec<&str> {
    let own = entries.iter().filter(|entry| entry.kind == EntryKind::Rollback);
    own.filter_map(|entry| entry.payload["status"].as_str()).collect()
}

#[tokio::test]
async fn a_rollback_that_fails_is_in_the_ledger_with_its_beginning() {
    let world = World::new();
    let source = shop();
    let unit = world.bundle("a", request_for(&source.path().join("shop"))).await;
    world.apply(&unit, "dev").await.expect("is applied");
    let failed = rollback_unit(&world.request(&unit, "dev"), Some(7), &world.context(&unit)).await;
    let error = failed.expect_err("there is no such revision").to_string();
    let entries = ledger(&unit).entries().expect("is sound");
    assert_eq!(rollbacks(&entries), ["started", "failed"]);
    let ids: Vec<&Value> = entries.iter().rev().take(2).map(|entry| &entry.payload["rollbackId"]).collect();
    assert_eq!(ids[0], ids[1]);
    assert_eq!(entries.last().map(|entry| &entry.payload["error"]), Some(&json!(error)));
}

#[tokio::test]
async fn a_verification_that_fails_takes_the_target_back_to_the_unit_before() {
    let world = World::new();
    let source = shop();
    let first = world.bundle("a", request_for(&source.path().join("shop"))).await;
    let values = set(&["greeting=second"]);
    let second =
        world.bundle("b", BundleRequest { values, ..request_for(&source.path().join("shop")) }).await;
    world.apply(&first, "dev").await.expect("is applied");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("has one");
    let mut request = world.request(&second, "dev");
    request.on_failure = FailedVerification::Rollback;
    if let Some(verify) = &mut request.verify {
        verify.probes.push(VerifyProbe::Tcp(closed.to_string()));
    }
    let outcome =
        apply_unit(&request, &world.context(&second)).await.unwrap_or_else(|error| panic!("{error}"));
    assert!(!report(outcome).is_passed());
    let entries = ledger(&second).entries().expect("is sound");
    assert_eq!(rollbacks(&entries), ["started", "succeeded"]);
    let recorded = read_apply(&ledger(&second), None).expect("is there");
    assert_eq!(recorded.apply.status, ApplyStatus::Failed);
    assert!(recorded.entries.iter().any(|entry| entry.kind == EntryKind::Rollback), "the apply tells of it");
    // The target runs the first unit again, and its revision says so.
    let again = world.apply(&first, "dev").await.expect("is asked");
    assert!(matches!(again, ApplyOutcome::AlreadyApplied { revision: 3 }), "{again:?}");
    let anew = world.apply(&second, "dev").await.expect("is applied");
    assert!(matches!(anew, ApplyOutcome::Applied { .. }), "{anew:?}");
}

#[tokio::test]
async fn nothing_to_go_on_with_is_told_with_what_to_do() {
    let world = World::new();
    let source = shop();
    let unit = world.bundle("a", request_for(&source.path().join("shop"))).await;
    let resumed = resume_unit(&world.request(&unit, "dev"), &world.context(&unit)).await;
    let error = resumed.expect_err("never began").to_string();
    assert!(
        error.contains("never applied") && error.contains("hint: begin with `slipway unit apply`"),
        "{error}"
    );
    world.apply(&unit, "dev").await.expect("is applied");
    let resumed = resume_unit(&world.request(&unit, "dev"), &world.context(&unit)).await;
    let error = resumed.expect_err("is over").to_string();
    assert!(
        error.contains("ended as succeeded: there is nothing to go on with")
            && error.contains("hint: `slipway unit replay --apply "),
        "{error}"
    );
    let before = ledger(&unit).entries().expect("is sound").len();
    let aborted = abort_unit(&world.request(&unit, "dev"), &world.context(&unit)).await;
    let error = aborted.expect_err("is over").to_string();
    assert!(
        error.contains("ended as succeeded: there is nothing to take back")
            && error.contains("hint: `slipway unit rollback` goes back to what ran before"),
        "{error}"
    );
    assert_eq!(ledger(&unit).entries().expect("is sound").len(), before, "nothing was recorded");
    assert!(world.cluster.get(&configmap("dev")).await.expect("answers").is_some(), "it runs on");
}

#[tokio::test]
async fn a_policy_denies_before_anything_is_written() {
    let world = World::new();
    let source = shop();
    let unit = world.bundle("u", request_for(&source.path().join("shop"))).await;
    let policy = "apiVersion: ktl.dev/policy/v1\nmode: enforce\nrules:\n  - { id: pin, images: { requireDigest: true } }\n";
    let source = slipway_policy::PolicySource { name: "p.yaml".into(), text: policy.into() };
    let set = std::sync::Arc::new(slipway_policy::PolicySet::parse(vec![source]).expect("is read"));
    let mut context = world.context(&unit);
    context.plan.policies = Some(set);
    let error = apply_unit(&world.request(&unit, "dev"), &context).await.expect_err("is denied");
    assert!(matches!(&error, UnitError::Refused(_)), "{error}");
    assert!(world.cluster.get(&ObjectRef::core("Namespace", None, "dev")).await.expect("answers").is_none());
    assert!(ledger(&unit).entries().expect("is sound").is_empty());
}

#[tokio::test]
async fn two_units_differ_in_what_changed() {
    let world = World::new();
    let source = shop();
    let first = world
        .bundle(
            "a",
            BundleRequest { images: pinned("2", DIGEST), ..request_for(&source.path().join("shop")) },
        )
        .await;
    let second = world
        .bundle(
            "b",
            BundleRequest {
                images: pinned("3", OTHER),
                values: set(&["greeting=bye"]),
                ..request_for(&source.path().join("shop"))
            },
        )
        .await;
    let found = diff_units(&first, &second).expect("are sound");
    let named: Vec<String> =
        found.iter().map(|one| format!("{} {} {}", one.what, one.name, one.change)).collect();
    assert_eq!(
        named,
        [
            "object /ConfigMap//shop changed",
            "object apps/Deployment//shop changed",
            "image apps/Deployment//shop shop changed",
            "values values changed",
        ]
    );
    assert!(diff_units(&first, &first).expect("is sound").is_empty());
    let summary: Value = serde_json::to_value(inspect_unit(&first, &[])).expect("is JSON");
    assert_eq!((summary["release"].as_str(), summary["objects"].as_u64()), (Some("shop"), Some(4)));
}

#[tokio::test]
async fn a_cluster_tells_of_a_verified_unit_without_its_ledger() {
    let world = World::new();
    let source = shop();
    let request = BundleRequest { images: pinned("2", DIGEST), ..request_for(&source.path().join("shop")) };
    let unit = world.bundle("u", request).await;
    // A colleague has a copy of the file, and the ledger of what follows stays with the first.
    let copied = world.path("copy");
    std::fs::copy(unit.path(), &copied).expect("is copied");
    let copy = open(&copied);
    let driver = StorageDriver::default();
    let staging = world.target("staging");
    let evidence = async |unit: &UnitFile, target: &UnitTarget| {
        find_deployed_evidence(&world.cluster, target, unit, driver).await.expect("answers")
    };
    let unverified = ApplyRequest { verify: None, ..world.request(&unit, "staging") };
    apply_unit(&unverified, &world.context(&unit)).await.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(evidence(&copy, &staging).await, None, "applied is not verified");
    let verified = ApplyRequest { repeated: RepeatedApply::Force, ..world.request(&unit, "staging") };
    assert!(report(apply_unit(&verified, &world.context(&unit)).await.expect("is applied")).is_passed());

    assert!(ledger(&copy).entries().expect("is sound").is_empty());
    let found = evidence(&copy, &staging).await.expect("the revision says it");
    assert_eq!(evidence(&copy, &world.target("prod")).await, None);
    let rule = EvidenceRule { from: vec!["staging".to_owned()], deployed: vec![found] };
    let promote = ApplyRequest { evidence: EvidenceNeed::From(rule), ..world.request(&copy, "prod") };
    report(apply_unit(&promote, &world.context(&copy)).await.unwrap_or_else(|error| panic!("{error}")));
    let entries = ledger(&copy).entries().expect("is sound");
    let promotion = entries.iter().find(|entry| entry.kind == EntryKind::Promotion).expect("is recorded");
    assert_eq!(promotion.payload["evidence"]["applyId"], "revision 2 in staging sandbox/staging/shop");

    // A verification that fails takes the evidence back, and another unit never had it.
    mark_verification(&world.cluster, &staging, &copy, driver, None).await.expect("is written");
    assert_eq!(evidence(&copy, &staging).await, None);
    let other = BundleRequest { images: pinned("3", OTHER), ..request_for(&source.path().join("shop")) };
    assert_eq!(evidence(&world.bundle("v", other).await, &staging).await, None);
}

#[tokio::test]
async fn commands_are_probes_that_run_as_jobs_and_leave_nothing() {
    let world = World::new();
    let source = shop();
    let unit = world.bundle("u", request_for(&source.path().join("shop"))).await;
    let probe = |image: &str| {
        VerifyProbe::Exec(ExecProbe { image: image.to_owned(), command: vec!["true".to_owned()] })
    };
    let options =
        |probes| VerifyOptions { soak: std::time::Duration::ZERO, probes, ..VerifyOptions::default() };
    let request =
        ApplyRequest { verify: Some(options(vec![probe("busybox:1")])), ..world.request(&unit, "dev") };
    let found = report(apply_unit(&request, &world.context(&unit)).await.expect("is applied"));
    let probes = found.checks.iter().find(|check| check.check == "probes").expect("is there");
    assert_eq!(
        (probes.status, probes.detail.as_slice()),
        (CheckStatus::Pass, ["1 probes answered".to_owned()].as_slice())
    );
    let refused = ApplyRequest {
        verify: Some(options(vec![probe("")])),
        repeated: RepeatedApply::Force,
        ..world.request(&unit, "dev")
    };
    let found = report(apply_unit(&refused, &world.context(&unit)).await.expect("is applied"));
    let probes = found.checks.iter().find(|check| check.check == "probes").expect("is there");
    assert_eq!(probes.status, CheckStatus::Fail, "{:?}", probes.detail);
    let kind =
        world.cluster.find_kind(&Gvk::new("batch", "v1", "Job")).await.expect("answers").expect("is served");
    let left = world.cluster.list(&kind, Some("dev"), &Default::default()).await.expect("answers");
    assert!(left.items.is_empty(), "{:?}", left.items);
}

#[tokio::test]
async fn a_release_in_colors_is_verified_in_its_color() {
    let world = World::new();
    let source = shop();
    let strategy = json!({
        "type": "bluegreen", "targets": [{"name": "shop"}],
        "bluegreen": {"service": "shop", "autoPromote": true},
    });
    for (name, tag, digest) in [("u", "2", DIGEST), ("v", "3", OTHER)] {
        let request = BundleRequest {
            images: pinned(tag, digest),
            strategy: Some(strategy.clone()),
            ..request_for(&source.path().join("shop"))
        };
        let unit = world.bundle(name, request).await;
        let found = report(world.apply(&unit, "dev").await.unwrap_or_else(|error| panic!("{error}")));
        assert!(found.is_passed(), "{:#?}", found.checks);
        let digests = found.checks.iter().find(|check| check.check == "digests").expect("is there");
        assert_eq!(digests.detail, ["1 containers run what was sealed"]);
    }
}
