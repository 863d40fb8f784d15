//! Gates tried and checked before they are used.

use jiff::tz::TimeZone;
use slipway_promotion::gate::{
    AttributeError, FindingSeverity, GateEvaluator, GateTest, GateTestVerdict, check_gate, decide_skip,
    parse_when, replay_history, run_tests, set_attribute, simulate,
};
use slipway_promotion::kinds::{BundleEnvironmentStatus, GateScope, StepState, labels};

use super::support::{bundle, context, gate, time, upstream};

#[test]
fn a_simulation_says_what_the_controller_would() {
    // Tuesday; the Saturday after is meant.
    let now = time("2026-04-07T10:00:00Z");
    let at = parse_when("Saturday 3pm", now, &TimeZone::UTC).expect("is a moment");
    let mut state = context("2026-04-07T10:00:00Z");
    state.now = at;
    set_attribute(&mut state, "bundle.upstreamSoakMinutes", "45").expect("can be set");
    let mut weekend = gate("no-weekend-deploys", "!schedule.isWeekend");
    weekend.spec.message = "Production deployments are blocked on weekends".to_owned();
    let soak = gate("staging-soak", "bundle.upstreamSoakMinutes >= 30");
    let evaluator = GateEvaluator::new();
    let gates = [(GateScope::Org, &weekend), (GateScope::Org, &soak)];
    let simulation = simulate(&evaluator, &gates, &state);
    insta::assert_snapshot!(simulation, @r#"
    RESULT: BLOCKED
    Blocked by: no-weekend-deploys
    Message: "Production deployments are blocked on weekends"
    Next window: Monday 00:00 UTC

    no-weekend-deploys: BLOCK (schedule.isWeekend = true)
    staging-soak: PASS (bundle.upstreamSoakMinutes = 45 (threshold: >= 30))
    "#);
    let real = evaluator.evaluate(&weekend.spec, &state);
    assert_eq!(simulation.gates[0].outcome, real);
    assert!(parse_when("Caturday 3pm", now, &TimeZone::UTC).is_err());
}

#[test]
fn the_next_window_is_common_to_all_gates() {
    // A Friday afternoon.
    let mut state = context("2026-04-10T16:30:00Z");
    state.upstream.insert("staging".to_owned(), upstream("2026-04-10T16:00:00Z"));
    let hours = gate("hours", "schedule.hour >= 9 && schedule.hour < 17");
    let weekday = gate("weekday", "!schedule.isWeekend");
    let soak = gate("soak", "bundle.upstreamSoakMinutes >= 120");
    let gates = [(GateScope::Org, &hours), (GateScope::Team, &weekday), (GateScope::Team, &soak)];
    let simulation = simulate(&GateEvaluator::new(), &gates, &state);
    assert_eq!(simulation.next_window, Some(time("2026-04-13T09:00:00Z")));
    let never = gate("never", "false");
    let gates = [(GateScope::Org, &hours), (GateScope::Org, &never)];
    assert_eq!(simulate(&GateEvaluator::new(), &gates, &state).next_window, None);
}

#[test]
fn attributes_are_set_by_their_names() {
    let mut state = context("2026-04-10T16:30:00Z");
    for (path, value, expression) in [
        ("bundle.labels.hotfix", "true", "bundle.labels.hotfix == true"),
        ("bundle.labels.example.com/team", "shop", "bundle.labels['example.com/team'] == 'shop'"),
        ("metrics.success-rate", "0.5", "metrics.successRate == 0.5"),
        ("bundle.isRollback", "true", "bundle.isRollback"),
        ("bundle.version", "2.0", "bundle.version == '2.0'"),
        ("upstream.qa.soakMinutes", "7", "upstream.qa.soakMinutes == 7"),
        ("environment.approval", "pr-review", "environment.approval == 'pr-review'"),
        ("previousBundle.version", "1.0", "previousBundle.version == '1.0'"),
    ] {
        set_attribute(&mut state, path, value).unwrap_or_else(|error| panic!("{path}: {error}"));
        let outcome = super::support::evaluate(expression, &state);
        assert!(outcome.ready, "{expression}: {}", outcome.reason);
    }
    let wrong = set_attribute(&mut state, "bundle.isRollback", "maybe").expect_err("is no truth");
    assert_eq!(wrong.to_string(), "`bundle.isRollback` takes true or false, not `maybe`");
    assert!(matches!(set_attribute(&mut state, "bundle.nothing", "1"), Err(AttributeError::Unknown(_))));
}

#[test]
fn checks_find_errors_and_traps() {
    let evaluator = GateEvaluator::new();
    let findings = check_gate(&evaluator, &gate("g", "bundle.owner == 'x' && metrics.success-rate > 1.0"));
    assert_eq!(findings.len(), 2, "{findings:?}");
    assert!(
        findings.iter().all(|finding| finding.severity == FindingSeverity::Error && finding.line == Some(1))
    );
    assert_eq!(findings[0].column, Some(7));
    assert!(
        check_gate(&evaluator, &gate("g", "bundle.upstreamSoakMinutes"))[0]
            .message
            .contains("expected bool, got int")
    );
    // A rollback would wait for ever.
    let findings = check_gate(&evaluator, &gate("g", "bundle.upstreamSoakMinutes >= 30"));
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].severity, FindingSeverity::Warning);
    assert!(
        check_gate(&evaluator, &gate("g", "bundle.isRollback || bundle.upstreamSoakMinutes >= 30"))
            .is_empty()
    );
    let mut permission = gate("p", "metrics.rate > 0.9");
    permission.metadata.labels.insert(labels::GATE_TYPE.to_owned(), "skip-permission".to_owned());
    assert!(check_gate(&evaluator, &permission)[0].message.contains("never holds"));
}

#[test]
fn a_rollback_passes_a_soak_gate_that_lets_it() {
    let mut state = context("2026-04-10T16:30:00Z");
    state.bundle.is_rollback = true;
    assert!(super::support::evaluate("bundle.isRollback || bundle.upstreamSoakMinutes >= 30", &state).ready);
    assert!(!super::support::evaluate("bundle.upstreamSoakMinutes >= 30", &state).ready);
}

#[test]
fn cases_of_a_file_are_run() {
    let gates = [gate("weekend", "!schedule.isWeekend"), gate("hotfix", "bundle.labels.hotfix == true")];
    let tests: Vec<GateTest> = serde_json::from_value(serde_json::json!([
        {"name": "saturday", "gate": "weekend", "time": "Saturday 3pm", "expect": "block"},
        {"name": "monday", "gate": "weekend", "time": "Monday 9am", "expect": "pass"},
        {"name": "hotfix", "gate": "hotfix", "set": {"bundle.labels.hotfix": true}, "expect": "pass"},
        {"name": "no label", "gate": "hotfix", "expect": "error"},
        {"name": "wrong", "gate": "weekend", "time": "Sunday 1am", "expect": "pass"},
        {"name": "no gate", "gate": "nothing", "expect": "pass"},
    ]))
    .expect("are cases");
    let results = run_tests(&GateEvaluator::new(), &gates, &tests, time("2026-04-07T10:00:00Z"));
    let words: Vec<&str> = results
        .iter()
        .map(|result| match result.verdict {
            GateTestVerdict::Ok => "ok",
            GateTestVerdict::Unexpected(_) => "unexpected",
            GateTestVerdict::Invalid(_) => "invalid",
        })
        .collect();
    assert_eq!(words, ["ok", "ok", "ok", "ok", "unexpected", "invalid"]);
}

#[test]
fn past_promotions_are_tried_against_present_gates() {
    let past = |name: &str, started: &str, staged: &str| {
        let mut bundle = bundle(&[]);
        bundle.metadata.name = name.to_owned();
        let staging =
            BundleEnvironmentStatus { verified_at: Some(time(staged)), ..BundleEnvironmentStatus::default() };
        let prod = BundleEnvironmentStatus {
            state: Some(StepState::Verified),
            started_at: Some(time(started)),
            verified_at: Some(time(started)),
            ..BundleEnvironmentStatus::default()
        };
        bundle.status.environments.insert("staging".to_owned(), staging);
        bundle.status.environments.insert("prod".to_owned(), prod);
        bundle
    };
    let bundles = [
        past("monday", "2026-04-06T10:00:00Z", "2026-04-06T09:00:00Z"),
        past("saturday", "2026-04-11T10:00:00Z", "2026-04-11T09:00:00Z"),
        past("hasty", "2026-04-08T10:00:00Z", "2026-04-08T09:50:00Z"),
    ];
    let weekend = gate("weekend", "!schedule.isWeekend");
    let soak = gate("soak", "bundle.upstreamSoakMinutes >= 30");
    let gates = [(GateScope::Org, &weekend), (GateScope::Org, &soak)];
    let replay = |count| {
        let none = std::collections::BTreeMap::new();
        replay_history(&GateEvaluator::new(), &gates, &bundles, "prod", &["staging".to_owned()], &none, count)
    };
    let told: Vec<(String, Vec<String>)> = replay(10)
        .into_iter()
        .map(|one| (one.bundle, one.simulation.blocking().map(|gate| gate.name.clone()).collect()))
        .collect();
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        told,
        [
            ("saturday".to_owned(), names(&["weekend"])),
            ("hasty".to_owned(), names(&["soak"])),
            ("monday".to_owned(), names(&[])),
        ]
    );
    assert_eq!(replay(1).len(), 1);
}

#[test]
fn skips_need_a_permission_that_holds() {
    let evaluator = GateEvaluator::new();
    let org = gate("staging-soak", "bundle.upstreamSoakMinutes >= 30");
    // The design's own expression: labels are texts.
    let permission = gate("allow-staging-skip-for-hotfix", "bundle.labels.hotfix == true");
    let now = time("2026-04-10T16:30:00Z");
    let hotfix = bundle(&[("hotfix", "true")]);
    let plain = bundle(&[]);
    let decide = |bundle, org: &[&_], permissions: &[&_]| {
        decide_skip(&evaluator, bundle, "staging", org, permissions, now)
    };
    let allowed = decide(&hotfix, &[&org], &[&permission]);
    assert_eq!((allowed.is_allowed(), allowed.granted_by()), (true, Some("allow-staging-skip-for-hotfix")));
    let denied = decide(&plain, &[&org], &[&permission]);
    assert!(!denied.is_allowed());
    assert_eq!(
        denied.message(),
        "staging may not be left out: staging-soak must pass (allow-staging-skip-for-hotfix: EvalError: no such key: hotfix)"
    );
    let denied = decide(&hotfix, &[&org], &[]);
    assert_eq!(
        denied.message(),
        "staging may not be left out: staging-soak must pass and no permission applies"
    );
    assert!(decide(&plain, &[], &[]).is_allowed());
    for broken in
        ["bundle.labels.hotfix", "1", "bundle.nothing", "metrics.x > 1.0", "upstream.dev.soakMinutes > 1"]
    {
        let permission = gate("p", broken);
        assert_eq!(
            decide(&hotfix, &[&org], &[&permission]).is_allowed(),
            broken == "bundle.labels.hotfix",
            "{broken}"
        );
    }
}
