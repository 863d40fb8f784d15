//! Laws that hold for any expression.

use jiff::SignedDuration;
use proptest::prelude::*;
use slipway_promotion::gate::{GateContext, GateEvaluator};

use super::support::{context, gate_spec, measured, upstream};

/// Expressions that only time moves, all of whose changes fall on whole minutes.
fn timed() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("schedule.isWeekend".to_owned()),
        (0..24).prop_map(|hour| format!("schedule.hour >= {hour}")),
        (0..24).prop_map(|hour| format!("schedule.hour == {hour}")),
        (0..60).prop_map(|minute| format!("schedule.minute < {minute}")),
        (0..24).prop_map(|hour| format!("schedule.in('Asia/Kathmandu').hour < {hour}")),
        (0..3000).prop_map(|count| format!("bundle.upstreamSoakMinutes >= {count}")),
        (0..3000).prop_map(|count| format!("{count} == bundle.upstreamSoakMinutes")),
        (0..3000).prop_map(|count| format!("bundle.ageMinutes < {count}")),
        (0..3000).prop_map(|count| format!("bundle.ageMinutes - bundle.upstreamSoakMinutes * 2 > -{count}")),
        prop_oneof!["Monday", "Tuesday", "Sunday"].prop_map(|day| format!("schedule.dayOfWeek == '{day}'")),
    ];
    leaf.prop_recursive(3, 8, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} && {b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} || {b})")),
            inner.prop_map(|a| format!("!({a})")),
        ]
    })
}

fn state(start: i64) -> GateContext {
    let mut state = context("2026-04-11T15:00:00Z");
    state.now = state.now.checked_add(SignedDuration::from_mins(start)).expect("is in range");
    state.upstream.insert("staging".to_owned(), upstream("2026-04-11T10:00:00Z"));
    state.bundle.created_at = Some("2026-04-11T09:00:00Z".parse().expect("is a time"));
    state
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    /// The answer of the solver is the first minute at which the result differs; without one there is none for eight days.
    #[test]
    fn the_next_change_is_the_first(expression in timed(), start in 0_i64..7 * 24 * 60) {
        let evaluator = GateEvaluator::new();
        let spec = gate_spec(&expression);
        let mut state = state(start);
        let (now, outcome) = (state.now, evaluator.evaluate(&spec, &state));
        let minutes = 8 * 24 * 60;
        let mut first = None;
        for minute in 1..minutes {
            state.now = now.checked_add(SignedDuration::from_mins(minute)).expect("is in range");
            if evaluator.evaluate_now(&spec, &state).ready != outcome.ready {
                first = Some(state.now);
                break;
            }
        }
        let horizon = now.checked_add(SignedDuration::from_mins(minutes)).expect("is in range");
        prop_assert_eq!(outcome.next.filter(|next| *next < horizon), first, "{}", expression);
        prop_assert_eq!(outcome.eta.map(|eta| eta.at), outcome.next.filter(|_| !outcome.ready));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// No text makes evaluation fail in another way than by closing the gate.
    #[test]
    fn any_text_is_a_gate_that_is_open_or_closed(
        text in "[a-z.()\\[\\]'\"!&|<>=+ 0-9{},?:-]{0,60}",
        words in proptest::collection::vec(
            prop_oneof![
                "bundle", "schedule", "metrics", "upstream", "\\.labels", "\\.isWeekend", "\\.hour", "\\.x", "==", ">=", "&&",
                "\\|\\|", "!", "\\(", "\\)", "true", "3", "'a'", "\\['a'\\]", "now\\(\\)", "\\.all\\(i, ", "in ",
            ],
            0..12,
        ),
    ) {
        let mut state = state(0);
        state.metrics.insert("a".to_owned(), measured(1.0, "2026-04-11T15:00:00Z"));
        for expression in [text, words.concat()] {
            let outcome = GateEvaluator::new().evaluate(&gate_spec(&expression), &state);
            prop_assert!(!outcome.ready || outcome.fault.is_none(), "{}", expression);
        }
    }
}
