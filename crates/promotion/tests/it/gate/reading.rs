//! Attributes of the context, and the trace of what was read.

use slipway_promotion::gate::{
    ApprovalContext, ContractContext, DelegationContext, DriftContext, Explanation, GateLine, PreviousBundle,
    PromotionReach, PullRequestContext,
};
use slipway_promotion::kinds::{GatePhase, GateScope};

use super::support::{bundle, context, evaluate, gate, labels, measured, time, upstream};

const MONDAY: &str = "2026-04-13T09:30:00Z";

#[test]
fn every_attribute_has_its_value() {
    let mut all = context(MONDAY);
    let bundle = bundle(&[("hotfix", "true"), ("team", "shop"), ("kardinal.io/rollback", "true")]);
    all.bundle = slipway_promotion::gate::BundleContext::of(&bundle);
    all.bundle.created_at = Some(time("2026-04-13T09:00:00Z"));
    all.bundle.build_timestamp = Some(time("2026-04-13T08:00:00Z"));
    all.bundle.annotations = labels(&[("ticket", "T-1")]);
    all.bundle.target = "prod".to_owned();
    all.bundle.skip = vec!["qa".to_owned()];
    all.environment.labels = labels(&[("tier", "gold")]);
    all.environment.region = "eu".to_owned();
    all.pipeline.labels = labels(&[("critical", "true")]);
    all.upstream.insert("staging".to_owned(), upstream("2026-04-13T08:48:30Z"));
    let mut far = upstream("2026-04-13T05:00:00Z");
    far.direct = false;
    far.recent_successes = 9;
    far.recent_failures = 1;
    far.version = "1.28.0".to_owned();
    far.last_promoted_at = Some(time("2026-04-13T04:00:00Z"));
    all.upstream.insert("dev-eu".to_owned(), far);
    all.previous = Some(PreviousBundle {
        version: "1.28.0".to_owned(),
        name: "shop-0".to_owned(),
        ..PreviousBundle::default()
    });
    let pull = PullRequestContext {
        is_approved: true,
        approval_count: 2,
        number: 7,
        ..PullRequestContext::default()
    };
    all.pull_requests.insert("staging".to_owned(), pull);
    all.metrics.insert("success-rate".to_owned(), measured(0.998, "2026-04-13T09:29:30Z"));
    all.delegation = DelegationContext {
        status: "Healthy".to_owned(),
        delegate: "argoRollouts".to_owned(),
        weight: 20,
        step: 2,
    };
    let approval = ApprovalContext {
        approved: true,
        approved_by: "eve".to_owned(),
        data: serde_json::json!({"risk": 3}),
        ..ApprovalContext::default()
    };
    all.approvals.insert("change-board".to_owned(), approval);
    let contract = ContractContext {
        version: "2.0.0".to_owned(),
        phase: "Verified".to_owned(),
        verified_at: Some(time("2026-04-13T09:00:00Z")),
        labels: labels(&[("api", "v2")]),
    };
    all.contracts.insert("team/api/prod".to_owned(), contract);
    all.drift = DriftContext { unreconciled: true, details: vec!["edited by hand".to_owned()], since: None };
    for expression in [
        "bundle.name == 'shop-1' && bundle.namespace == 'team' && bundle.type == 'image' && bundle.version == '1.29.0'",
        "bundle.images[0].repository == 'ghcr.io/acme/shop' && bundle.images.exists(i, i.tag == '1.29.0')",
        "bundle.labels.hotfix == true && bundle.labels.hotfix == 'true' && bundle.labels.hotfix && bundle.labels.team == 'shop'",
        "!('kardinal.io/rollback' in bundle.labels) && bundle.isRollback && !bundle.isEmergency",
        "bundle.annotations.ticket == 'T-1' && bundle.provenance.author == 'ada' && bundle.provenance.rollbackOf == ''",
        "bundle.provenance.buildTimestamp < now() && bundle.ageMinutes == 30",
        "bundle.intent.target == 'prod' && bundle.intent.targetEnvironment == 'prod' && 'qa' in bundle.intent.skip && bundle.intent.from == ''",
        "!schedule.isWeekend && schedule.hour == 9 && schedule.minute == 30 && schedule.dayOfWeek == 'Monday' && schedule.date == '2026-04-13'",
        "schedule.in('Europe/Berlin').hour == 11 && schedule.in('America/New_York').hour == 5 && schedule.now == now()",
        "schedule.in('Asia/Kolkata').minute == 0 && schedule.in('Asia/Kolkata').hour == 15",
        "environment.name == 'prod' && environment.approval == 'auto' && environment.region == 'eu' && environment.labels.tier == 'gold'",
        "pipeline.name == 'shop' && pipeline.namespace == 'team' && pipeline.labels.critical",
        "metrics['success-rate'] >= 0.99 && metrics.successRate == 0.998 && metricResults.successRate == 'pass' && metricAgeSeconds['success-rate'] == 30",
        // The direct upstream counts, however long others soaked.
        "bundle.upstreamSoakMinutes == 41 && upstream.staging.soakMinutes == 41 && upstream['dev-eu'].soakMinutes == 270",
        "upstream['dev-eu'].recentSuccessCount == 9 && upstream['dev-eu'].recentFailureCount == 1 && upstream['dev-eu'].version == previousBundle.version",
        "previousBundle.name == 'shop-0' && !has(previousBundle.verifiedAt) && previousBundle.images.size() == 0",
        "bundle.pr['staging'].isApproved && bundle.pr.staging.approvalCount >= 2 && bundle.pr.staging.number == 7",
        "delegation.status == 'Healthy' && delegation.delegate == 'argoRollouts' && delegation.weight == 20 && delegation.step == 2",
        "externalApproval['change-board'].approved && externalApproval.changeBoard.approvedBy == 'eve' && externalApproval.changeBoard.data.risk < 5",
        "contracts['team/api/prod'].version.startsWith('2.') && contracts['team/api/prod'].soakMinutes == 30 && contracts['team/api/prod'].labels.api == 'v2'",
        "targetDrift.unreconciled && targetDrift.details.size() == 1",
        "semver(bundle.version).isGreaterThan(semver(previousBundle.version))",
    ] {
        let outcome = evaluate(expression, &all);
        assert_eq!(outcome.phase, GatePhase::Pass, "{expression}: {}", outcome.reason);
    }
    // A root environment has no soak time, and nothing ran before.
    let root = context(MONDAY);
    let outcome = evaluate("bundle.upstreamSoakMinutes == 0 && previousBundle.version == ''", &root);
    assert!(outcome.ready, "{}", outcome.reason);
}

#[test]
fn several_upstreams_soak_as_long_as_the_last_of_them() {
    let mut both = context(MONDAY);
    both.upstream.insert("eu".to_owned(), upstream("2026-04-13T09:00:00Z"));
    both.upstream.insert("us".to_owned(), upstream("2026-04-13T09:20:00Z"));
    assert!(evaluate("bundle.upstreamSoakMinutes == 10", &both).ready);
    let outcome = evaluate("bundle.upstreamSoakMinutes >= 30", &both);
    assert_eq!(outcome.eta.map(|eta| eta.at), Some(time("2026-04-13T09:50:00Z")));
}

#[test]
fn a_reason_tells_the_values_that_were_read() {
    let mut friday = context("2026-04-10T18:05:00Z");
    friday.upstream.insert("staging".to_owned(), upstream("2026-04-10T17:53:00Z"));
    for (expression, reason) in [
        ("!schedule.isWeekend", "schedule.isWeekend = false"),
        ("bundle.upstreamSoakMinutes >= 30", "bundle.upstreamSoakMinutes = 12 (threshold: >= 30)"),
        ("schedule.hour >= 9 && schedule.hour < 17", "schedule.hour = 18 (threshold: >= 9, < 17)"),
        // The second is never looked at.
        ("schedule.isWeekend && bundle.upstreamSoakMinutes >= 30", "schedule.isWeekend = false"),
        (
            "bundle.provenance.author in ['bob', 'eve']",
            "bundle.provenance.author = \"ada\" (threshold: in [\"bob\", \"eve\"])",
        ),
        ("false", "always false"),
        ("true", "always true"),
    ] {
        assert_eq!(evaluate(expression, &friday).reason, reason, "{expression}");
    }
    friday.bundle.author = "x".repeat(300);
    let outcome = evaluate("bundle.provenance.author == 'ada'", &friday);
    assert!(outcome.reason.chars().count() < 150, "{}", outcome.reason);
}

#[test]
fn gates_are_explained_as_the_design_shows() {
    let now = time("2026-04-09T14:00:00Z");
    let mut thursday = context("2026-04-09T14:00:00Z");
    thursday.upstream.insert("staging".to_owned(), upstream("2026-04-09T13:48:00Z"));
    let line = |name: &str, expression: &str| {
        GateLine::new(name, GateScope::Org, &evaluate(expression, &thursday), now)
    };
    let explanation = Explanation {
        pipeline: "my-app".to_owned(),
        environment: "prod".to_owned(),
        version: "v1.29.0".to_owned(),
        gates: vec![
            line("no-weekend-deploys", "!schedule.isWeekend"),
            line("staging-soak", "bundle.upstreamSoakMinutes >= 30"),
        ],
        reach: PromotionReach::Reached,
    };
    insta::assert_snapshot!(explanation, @r"
    PROMOTION: my-app / prod
      Bundle: v1.29.0

    POLICY GATES:
      no-weekend-deploys  [org]   PASS   schedule.isWeekend = false
      staging-soak        [org]   FAIL   bundle.upstreamSoakMinutes = 12 (threshold: >= 30)
                                         ETA: ~18 minutes (based on staging verifiedAt)

    RESULT: BLOCKED by staging-soak
    ");
}

#[test]
fn a_weekend_is_explained_with_the_monday_after() {
    let now = time("2026-04-11T16:00:00Z");
    let outcome = evaluate("!schedule.isWeekend", &context("2026-04-11T16:00:00Z"));
    let mut line = GateLine::new("no-weekend-deploys", GateScope::Team, &outcome, now);
    assert_eq!(line.detail, "schedule.isWeekend = true");
    assert_eq!(line.eta.as_deref(), Some("Mon 00:00 UTC (in 1d 8h)"));
    line.phase = GatePhase::Overridden;
    let explanation = Explanation {
        pipeline: "shop".to_owned(),
        environment: "prod".to_owned(),
        version: "1".to_owned(),
        gates: vec![line],
        reach: PromotionReach::Waiting {
            environment: "staging".to_owned(),
            state: "HealthChecking".to_owned(),
        },
    };
    let text = explanation.to_string();
    assert!(text.contains("  no-weekend-deploys  [team]  OVERRIDE  schedule.isWeekend = true\n"), "{text}");
    assert!(text.ends_with("RESULT: NOT REACHED (waiting for staging: HealthChecking)\n"), "{text}");
}

#[test]
fn a_status_is_explained_without_evaluating() {
    let mut gate = gate("soak", "bundle.upstreamSoakMinutes >= 30");
    gate.status.phase = Some(GatePhase::Block);
    gate.status.values.insert("bundle.upstreamSoakMinutes".to_owned(), 12.into());
    gate.status.eta = Some(time("2026-04-13T09:48:00Z"));
    gate.status.eta_basis = Some("staging verifiedAt".to_owned());
    let line = GateLine::from_status(&gate, &slipway_promotion::gate::GateEvaluator::new(), time(MONDAY));
    assert_eq!(line.detail, "bundle.upstreamSoakMinutes = 12 (threshold: >= 30)");
    assert_eq!(line.eta.as_deref(), Some("~18 minutes (based on staging verifiedAt)"));
}
