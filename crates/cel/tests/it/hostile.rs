//! Nothing panics, hangs or fills the memory.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use slipway_cel::{Bindings, CelErrorKind, EvalErrorKind, Limits};

use crate::common::{bindings, data, env};
use crate::values::cases;

#[test]
fn deep_nesting_is_refused() {
    let many = 20_000;
    for text in [
        "(".repeat(many),
        "[".repeat(many),
        "{1:".repeat(many),
        "-".repeat(many) + "x",
        "!".repeat(many),
        "a.".repeat(many) + "b",
        "1+".repeat(many) + "1",
        "f(".repeat(many),
        "a?b:".repeat(many) + "c",
        "x".to_owned() + &"[0]".repeat(many),
        "true ? ".repeat(many),
    ] {
        let errors = env().compile(&text).expect_err("is too deep");
        assert!(matches!(errors[0].kind, CelErrorKind::Limit | CelErrorKind::Syntax), "{:?}", errors[0]);
    }
    let wide = "true && ".repeat(5_000) + "true";
    assert_eq!(env().compile(&wide).expect("is wide, not deep").eval_bool(&Bindings::new()), Ok(true));
    let allowed = "(".repeat(190) + "1" + &")".repeat(190);
    assert!(env().compile(&allowed).is_ok());
    let lists = "[".repeat(150) + &"]".repeat(150);
    assert!(env().compile(&format!("{lists} == {lists}")).expect("fits").eval_bool(&Bindings::new()).is_ok());
}

#[test]
fn what_costs_too_much_ends() {
    let range = "lists.range(1000)";
    for text in [
        format!("{range}.all(a, {range}.all(b, {range}.all(c, true)))"),
        format!("{range}.map(a, {range}.map(b, {range}.map(c, 'x')))"),
        format!(
            "{range}.all(a, {range} == {range} && {range} == {range} && {range}.all(x, {range} == {range}))"
        ),
        "lists.range(1000000).map(x, x).map(x, x).map(x, x).map(x, x).map(x, x)".to_owned(),
        format!(
            "cel.bind(s, {range}.map(x, 'aaaaaaaaaaaaaaaa').join(), {range}.map(x, s + s).map(x, x + x).map(x, x + x + x + x + x + x))"
        ),
    ] {
        let program =
            env().limits(Limits { cost: 200_000, ..Limits::default() }).compile(&text).expect("compiles");
        let error = program.eval(&Bindings::new()).expect_err("costs too much");
        assert_eq!(error.kind, EvalErrorKind::CostLimit, "{text}");
    }
}

#[test]
fn the_budget_is_not_absorbed() {
    let text = "lists.range(100000).all(x, lists.range(100).all(y, y < x || true)) || true";
    let program =
        env().limits(Limits { cost: 1_000_000, ..Limits::default() }).compile(text).expect("compiles");
    assert_eq!(program.eval(&Bindings::new()).expect_err("ends").kind, EvalErrorKind::CostLimit);
}

#[test]
fn evaluation_can_be_cancelled() {
    let program = env().compile("lists.range(100000).all(x, x >= 0)").expect("compiles");
    let cancel = AtomicBool::new(true);
    let error = program.eval(&Bindings::new().cancel(&cancel)).expect_err("is cancelled");
    assert_eq!(error.kind, EvalErrorKind::Canceled);
    let past = Instant::now() - Duration::from_secs(1);
    let error = program.eval(&Bindings::new().deadline(past)).expect_err("is late");
    assert_eq!(error.kind, EvalErrorKind::Canceled);
}

#[test]
fn long_texts_are_refused() {
    let errors = env().compile(&"1".repeat(1 << 20)).expect_err("is long");
    assert_eq!(errors[0].kind, CelErrorKind::Limit);
}

fn survive(text: &str) {
    let env = env().limits(Limits { cost: 20_000, ..Limits::default() });
    if let Ok(program) = env.compile(text) {
        let data = data();
        let _ = program.eval(&bindings(&data)).map(|value| value.to_json());
    }
    if let Ok(parsed) = slipway_cel::parse(text, 100) {
        let printed = slipway_cel::print(&parsed);
        // Printing may need a bracket where none was: the limit allows for that.
        let again = slipway_cel::parse(&printed, 200)
            .unwrap_or_else(|error| panic!("{text:?} → {printed:?}: {error}"));
        assert_eq!(slipway_cel::print(&again), printed, "{text:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_text_is_survived(text in ".{0,80}") {
        survive(&text);
    }

    #[test]
    fn any_tokens_are_survived(tokens in proptest::collection::vec(proptest::sample::select(vec![
        "x", "vars", ".", "(", ")", "[", "]", "{", "}", ",", ":", "?", "1", "2.5", "3u", "'s'", "b'b'", "+", "-",
        "*", "/", "%", "!", "&&", "||", "==", "<", " in ", "all", "map", "has", "size", ".?", "null", "true",
        "duration", "timestamp", "optional.of", "e", ".n", ".name", "matches", "format", "`a b`",
    ]), 0..24)) {
        survive(&tokens.concat());
    }

    #[test]
    fn parts_of_good_expressions_are_survived(seed in any::<(prop::sample::Index, prop::sample::Index, prop::sample::Index)>()) {
        let all: Vec<String> = cases().map(|(text, _)| text).collect();
        let (a, b) = (seed.0.get(&all), seed.1.get(&all));
        let cut = |text: &str, at: &prop::sample::Index| {
            let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            *at.get(&places)
        };
        survive(&format!("{}{}", &a[..cut(a, &seed.2)], &b[cut(b, &seed.2)..]));
    }
}
