//! Whatever goes wrong closes the gate.

use slipway_promotion::gate::{
    ContextPart, GateEvaluator, GateFault, OverrideSubject, find_override, is_open,
};
use slipway_promotion::kinds::{
    ExternalGate, GateOverride, GatePhase, MetricResult, NoDataBehavior, PolicyGateSpec, labels,
};

use super::support::{context, evaluate, gate, gate_spec, measured, time};

const NOW: &str = "2026-04-13T09:30:00Z";

#[test]
fn each_row_of_the_table_closes_with_its_reason() {
    let mut state = context(NOW);
    state.bundle.labels.insert("team".to_owned(), "shop".to_owned());
    state.metrics.insert("old".to_owned(), measured(1.0, "2026-04-13T09:27:00Z"));
    let mut unclear = measured(0.97, "2026-04-13T09:29:30Z");
    unclear.result = Some(MetricResult::Inconclusive);
    state.metrics.insert("unclear".to_owned(), unclear);
    let mut empty = measured(0.0, NOW);
    empty.value = None;
    empty.measured_at = None;
    state.metrics.insert("empty".to_owned(), empty);
    for (expression, reason) in [
        ("schedule.isWeekend &&", "CompileError: 1:22: "),
        ("schedule.isWeekend == 'no'", "CompileError: 1:20: "),
        ("bundle.owner == 'x'", "CompileError: 1:7: undefined field 'owner'"),
        ("release.name == 'x'", "CompileError: 1:1: undeclared reference to 'release'"),
        ("schedule.in('Mars/Base').hour > 3", "CompileError: 1:25: unknown time zone 'Mars/Base'"),
        ("bundle.upstreamSoakMinutes", "EvalError: expected bool, got int"),
        ("bundle.labels.hotfix == true", "EvalError: no such key: hotfix"),
        ("bundle.labels.team", "EvalError: no such overload"),
        ("1 / bundle.upstreamSoakMinutes > 0", "EvalError: division by zero"),
        ("timestamp(bundle.version) < now()", "EvalError: "),
        ("upstream.staging.soakMinutes > 3", "EvalError: no such key: staging"),
        ("changewindow['holidays']", "EvalError: no such key: holidays"),
        ("!changewindow.isBlocked('holidays')", "EvalError: no such key: holidays"),
        ("contracts['a/b/c'].soakMinutes > 3", "EvalError: no such key: a/b/c"),
        ("metrics.absent > 1.0", "MetricNoData: absent: there is no such MetricCheck in reach"),
        ("metrics.old > 0.5", "MetricNoData: old: the last value is older than three intervals"),
        ("metrics.unclear > 0.5", "MetricNoData: unclear: the check is inconclusive"),
        ("metrics.empty > 0.5", "MetricNoData: empty: no value yet"),
        ("externalApproval.board.approved", "ExternalPending: no answer from `board` yet"),
        (
            "[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, [1,2,3,4,5,6,7,8,9].all(d, [1,2,3,4,5,6,7,8,9].all(e, a + b + c + d + e > 0)))))",
            "EvalError: cost limit",
        ),
    ] {
        let outcome = evaluate(expression, &state);
        assert!(!outcome.ready, "{expression}");
        assert!(outcome.reason.starts_with(reason), "{expression}: {}", outcome.reason);
        assert!(matches!(outcome.phase, GatePhase::Error | GatePhase::Pending), "{expression}");
        assert!(outcome.fault.is_some(), "{expression}");
    }
}

#[test]
fn an_inconclusive_metric_can_be_read_where_the_check_says_so() {
    let mut state = context(NOW);
    let mut unclear = measured(0.97, "2026-04-13T09:29:30Z");
    unclear.result = Some(MetricResult::Inconclusive);
    unclear.no_data = NoDataBehavior::Fail;
    state.metrics.insert("unclear".to_owned(), unclear);
    assert!(evaluate("metrics.unclear > 0.5", &state).ready);
}

#[test]
fn a_part_out_of_reach_closes_only_gates_that_read_it() {
    let mut state = context(NOW);
    state.unavailable.insert(ContextPart::Metrics, "the list is refused".to_owned());
    state.unavailable.insert(ContextPart::PullRequests, "the server is down".to_owned());
    for (expression, reason) in [
        ("metricResults.x == 'pass'", Some("ContextUnavailable: metrics: the list is refused")),
        ("schedule.isWeekend || metrics.x > 1.0", Some("ContextUnavailable: metrics: the list is refused")),
        ("bundle.pr.prod.isApproved", Some("ContextUnavailable: bundle.pr: the server is down")),
        ("!schedule.isWeekend && bundle.version != ''", None),
    ] {
        let outcome = evaluate(expression, &state);
        assert_eq!(outcome.fault.is_some(), reason.is_some(), "{expression}: {}", outcome.reason);
        if let Some(reason) = reason {
            assert_eq!(outcome.reason, reason, "{expression}");
        }
    }
}

#[test]
fn a_name_with_a_hyphen_has_a_hint() {
    let outcome = evaluate("metrics.success-rate >= 0.99", &context(NOW));
    let Some(GateFault::Compile(error)) = outcome.fault else { panic!("{}", outcome.reason) };
    let hints: Vec<&str> = error.hints().collect();
    assert_eq!(hints, ["a name with a hyphen needs brackets: `metrics[\"success-rate\"]`"]);
}

#[test]
fn every_error_of_an_expression_is_told_at_once() {
    let outcome = evaluate("bundle.owner == 'x' && releases > 3", &context(NOW));
    assert!(outcome.reason.contains("owner") && outcome.reason.contains("releases"), "{}", outcome.reason);
}

#[test]
fn an_external_gate_needs_no_expression() {
    let spec = PolicyGateSpec { external: Some(ExternalGate::default()), ..gate_spec("") };
    let outcome = GateEvaluator::new().evaluate(&spec, &context(NOW));
    assert_eq!(outcome.reason, "ExternalPending: no answer from the external system yet");
    assert_eq!(outcome.phase, GatePhase::Pending);
}

#[test]
fn an_old_result_counts_as_closed() {
    let mut gate = gate("soak", "true");
    gate.status.ready = true;
    assert!(!is_open(&gate, time(NOW)));
    for (evaluated, open) in [
        ("2026-04-13T09:29:00Z", true),
        ("2026-04-13T09:20:01Z", true),
        ("2026-04-13T09:20:00Z", false),
        ("2026-04-13T09:30:59Z", true),
        // From a clock that is wrong.
        ("2026-04-13T09:31:01Z", false),
    ] {
        gate.status.last_evaluated_at = Some(time(evaluated));
        assert_eq!(is_open(&gate, time(NOW)), open, "{evaluated}");
    }
    gate.status.ready = false;
    gate.status.last_evaluated_at = Some(time(NOW));
    assert!(!is_open(&gate, time(NOW)));
}

#[test]
fn an_override_opens_what_it_names_until_it_expires() {
    let now = time(NOW);
    let subject = OverrideSubject { pipeline: "shop", environment: "prod", bundle: "shop-1" };
    let base = GateOverride { reason: "incident 7".to_owned(), ..GateOverride::default() };
    let named = |text: &str| Some(text.to_owned());
    for (what, one, opens) in [
        ("anything", base.clone(), true),
        ("the environment", GateOverride { stage: named("prod"), ..base.clone() }, true),
        ("another environment", GateOverride { stage: named("staging"), ..base.clone() }, false),
        ("the pipeline", GateOverride { pipeline: named("shop"), ..base.clone() }, true),
        ("another pipeline", GateOverride { pipeline: named("blog"), ..base.clone() }, false),
        ("the bundle", GateOverride { bundle: named("shop-1"), ..base.clone() }, true),
        ("another bundle", GateOverride { bundle: named("shop-2"), ..base.clone() }, false),
        (
            "until later",
            GateOverride { expires_at: Some(time("2026-04-13T10:00:00Z")), ..base.clone() },
            true,
        ),
        ("until now", GateOverride { expires_at: Some(now), ..base.clone() }, false),
        (
            "from later on",
            GateOverride { created_at: Some(time("2026-04-13T10:00:00Z")), ..base.clone() },
            false,
        ),
        ("no reason", GateOverride::default(), false),
    ] {
        let mut template = gate("soak", "false");
        template.spec.overrides = vec![one];
        let instance = gate("instance", "false");
        assert_eq!(find_override(&[&instance, &template], subject, now).is_some(), opens, "{what}");
        template.spec.overridable = false;
        assert!(find_override(&[&instance, &template], subject, now).is_none(), "{what}");
        template.spec.overridable = true;
        template.metadata.labels.insert(labels::FREEZE.to_owned(), "true".to_owned());
        assert!(find_override(&[&instance, &template], subject, now).is_none(), "{what}");
    }
}
