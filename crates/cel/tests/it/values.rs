//! What expressions give, as the language definition has it.

use serde_json::Value as Json;

use crate::common::{bindings, data, env, eval};

/// The table of expressions and values.
const VALUES: &str = include_str!("values.txt");

pub(crate) fn cases() -> impl Iterator<Item = (String, &'static str)> {
    VALUES.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (text, value) = line.rsplit_once('|').expect("has a bar");
        (text.replace('⏎', "\n").replace("\\|", "|"), value)
    })
}

#[test]
fn expressions_give_their_values() {
    let mut wrong = Vec::new();
    for (text, expected) in cases() {
        let expected: Json = serde_json::from_str(expected).expect("is JSON");
        match eval(&text) {
            Ok(Some(found)) if found == expected => {}
            other => wrong.push(format!("{text}: expected {expected}, found {other:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn printing_and_parsing_agree() {
    for (text, _) in cases() {
        let parsed = slipway_cel::parse(&text, 200).expect("parses");
        let printed = slipway_cel::print(&parsed);
        let again =
            slipway_cel::parse(&printed, 200).unwrap_or_else(|error| panic!("{text} → {printed}: {error}"));
        assert_eq!(slipway_cel::print(&again), printed, "{text}");
    }
}

#[test]
fn expressions_have_types() {
    for (text, expected) in [
        ("1 + 2", "int"),
        ("vars", "map(string, string)"),
        ("vars.A", "string"),
        ("[1, 2]", "list(int)"),
        ("[1, 'a']", "list(dyn)"),
        ("[]", "list(dyn)"),
        ("[[]] + [[1]]", "list(list(int))"),
        ("{'a': [1.5]}", "map(string, list(double))"),
        ("vars.map(k, size(k))", "list(int)"),
        ("x.y", "dyn"),
        ("obj.nested.replicas", "int"),
        ("obj.maybe", "wrapper(int)"),
        ("obj.?price", "optional_type(double)"),
        ("optional.of(1).orValue(2)", "int"),
        ("timestamp('2024-01-01T00:00:00Z') - timestamp('2023-01-01T00:00:00Z')", "duration"),
        ("x.a ? 1 : 2", "int"),
        ("type(1)", "type"),
    ] {
        let program = env().compile(text).unwrap_or_else(|errors| panic!("{text}: {errors:?}"));
        assert_eq!(program.ty().to_string(), expected, "{text}");
    }
}

#[test]
fn references_name_what_is_read() {
    for (text, expected) in [
        ("vars.A == 'x' && vars.B == vars['C']", "vars.A vars.B vars.C"),
        ("x.list.all(e, e.n > obj.price)", "obj.price x.list"),
        ("x.list[obj.nested.replicas].name", "obj.nested.replicas x.list"),
        ("has(x.a.b) ? x.?c.d.orValue(1) : 2", "x.a.b? x.c.d?"),
        ("has(x.a) && x.a == 1", "x.a"),
        ("cel.bind(vars, x.q, vars.z)", "x.q"),
    ] {
        let program = env().compile(text).unwrap_or_else(|errors| panic!("{text}: {errors:?}"));
        let show = |reference: &slipway_cel::Reference| {
            let mut parts = vec![reference.variable.clone()];
            parts.extend(reference.path.clone());
            parts.join(".") + if reference.optional { "?" } else { "" }
        };
        let found: Vec<String> = program.references().iter().map(show).collect();
        assert_eq!(found.join(" "), expected, "{text}");
    }
}

#[test]
fn programs_are_evaluated_again_with_other_values() {
    let program = env().compile("x.n > 1").expect("compiles");
    let mut data = data();
    assert_eq!(program.eval_bool(&bindings(&data)), Ok(false));
    data["x"]["n"] = 2.into();
    assert_eq!(program.eval_bool(&bindings(&data)), Ok(true));
}
