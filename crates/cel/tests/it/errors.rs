//! Errors before evaluation, with their places and hints, and errors during it.

use slipway_cel::{CelErrorKind as Kind, EvalErrorKind, Type};

use crate::common::{bindings, data, env, eval};

#[test]
fn checking_finds_errors_where_they_are() {
    let table: &[(&str, Kind, u32, &str)] = &[
        ("vars.ENV ==", Kind::Syntax, 12, "Syntax error: the expression ends where a value is expected"),
        ("1 +* 2", Kind::Syntax, 4, "Syntax error: unexpected '*' where a value is expected"),
        ("(1", Kind::Syntax, 3, "Syntax error: expected ')', found the end"),
        ("'abc", Kind::Syntax, 1, "Syntax error: the quoted text does not end"),
        ("a = 1", Kind::Syntax, 3, "Syntax error: token recognition error at: '='"),
        ("${ENV}", Kind::Syntax, 1, "Syntax error: token recognition error at: '$'"),
        ("for == 1", Kind::Syntax, 1, "Syntax error: reserved identifier: for"),
        ("9223372036854775808", Kind::Syntax, 1, "invalid int literal"),
        ("18446744073709551616u", Kind::Syntax, 1, "invalid uint literal"),
        ("env == 'x'", Kind::Undeclared, 1, "undeclared reference to 'env' (in container '')"),
        ("1 + foo(2)", Kind::Undeclared, 8, "undeclared reference to 'foo' (in container '')"),
        (
            "vars.X == true",
            Kind::NoOverload,
            8,
            "found no matching overload for '_==_' applied to '(string, bool)'",
        ),
        (
            "vars.N > 3",
            Kind::NoOverload,
            8,
            "found no matching overload for '_>_' applied to '(string, int)'",
        ),
        ("1 + 'a'", Kind::NoOverload, 3, "found no matching overload for '_+_' applied to '(int, string)'"),
        ("1 == 1.0", Kind::NoOverload, 3, "found no matching overload for '_==_' applied to '(int, double)'"),
        ("!1", Kind::NoOverload, 1, "found no matching overload for '!_' applied to '(int)'"),
        ("-'a'", Kind::NoOverload, 1, "found no matching overload for '-_' applied to '(string)'"),
        ("1 && true", Kind::NoOverload, 3, "found no matching overload for '_&&_' applied to '(int, bool)'"),
        (
            "true ? 1 : 'a'",
            Kind::NoOverload,
            6,
            "found no matching overload for '_?_:_' applied to '(bool, int, string)'",
        ),
        (
            "1 in ['a']",
            Kind::NoOverload,
            3,
            "found no matching overload for '@in' applied to '(int, list(string))'",
        ),
        (
            "[1]['a']",
            Kind::NoOverload,
            4,
            "found no matching overload for '_[_]' applied to '(list(int), string)'",
        ),
        (
            "'a'.startsWith(1)",
            Kind::NoOverload,
            15,
            "found no matching overload for 'startsWith' applied to 'string.(int)'",
        ),
        ("size(1)", Kind::NoOverload, 5, "found no matching overload for 'size' applied to '(int)'"),
        ("obj.pric", Kind::UndefinedField, 4, "undefined field 'pric'"),
        ("vars.A.b", Kind::Mismatch, 7, "type 'string' does not support field selection"),
        ("has(vars)", Kind::Syntax, 5, "invalid argument to has() macro"),
        ("[1].all(x, x + 1)", Kind::Mismatch, 14, "expected type 'bool' but found 'int'"),
        ("[1].all(x.y, true)", Kind::Syntax, 10, "argument must be a simple name"),
        (
            "1.all(x, true)",
            Kind::Mismatch,
            1,
            "expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        ("'a'.matches('[')", Kind::Constant, 13, "invalid matches argument"),
        ("duration('1x')", Kind::Constant, 10, "invalid duration argument"),
        ("timestamp('2024')", Kind::Constant, 11, "invalid timestamp argument"),
        ("'é' + 1", Kind::NoOverload, 5, "found no matching overload for '_+_' applied to '(string, int)'"),
    ];
    for (text, kind, column, message) in table {
        let errors = env().compile(text).expect_err(text);
        let found: Vec<_> =
            errors.iter().map(|error| (error.kind, error.column, error.message.as_str())).collect();
        assert_eq!(found, [(*kind, *column, *message)], "{text}");
    }
}

#[test]
fn hints_say_what_to_write() {
    for (text, hint) in [
        ("vars.N > 3", "`int(vars.N) > 3`"),
        ("vars.X == true", "`vars.X == \"true\"`"),
        ("var.X == 'a'", "did you mean"),
        ("vasr.X == 'a'", "did you mean `vars`?"),
        ("obj.pric", "did you mean `price`?"),
        ("'a'.startWith('b')", "did you mean `startsWith`?"),
        ("metrics.success-rate > 0.9", "`metrics[\"success-rate\"]`"),
        ("'a' + 1", "`\"a\" + string(1)`"),
        ("obj.price == 1", "`obj.price == 1.0`"),
        ("vars.A == 'x' and vars.B == 'y'", "and is written `&&`"),
    ] {
        let errors = env().compile(text).expect_err(text);
        if text.starts_with("var.") {
            // A reserved word: the syntax error says so.
            assert_eq!(errors[0].message, "Syntax error: reserved identifier: var");
            continue;
        }
        let hints: Vec<_> = errors.iter().filter_map(|error| error.hint.as_deref()).collect();
        assert!(hints.iter().any(|found| found.contains(hint)), "{text}: {hints:?}");
    }
}

#[test]
fn every_error_is_reported_at_once() {
    let text = "foo == 1 &&\n  vars.A == 2 && obj.nope";
    let errors = env().compile(text).expect_err("is wrong");
    let places: Vec<_> = errors.iter().map(|error| (error.line, error.column)).collect();
    assert_eq!(places, [(1, 1), (2, 10), (2, 21)]);
    assert_eq!(
        errors[0].render(text),
        "ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')\n | foo == 1 &&\n | ^"
    );
}

#[test]
fn results_must_have_the_type_asked_for() {
    let errors = env().compile_as("size(vars)", &Type::Bool).expect_err("is an int");
    assert_eq!(errors[0].kind, Kind::ResultType);
    assert_eq!(errors[0].message, "expected type 'bool' but found 'int'");
    assert!(env().compile_as("x.y", &Type::Bool).is_ok(), "dyn is decided later");
    let data = data();
    let program = env().compile_as("x.n", &Type::Bool).expect("is dyn");
    let error = program.eval_bool(&bindings(&data)).expect_err("is an int");
    assert_eq!(error.to_string(), "expected bool, got int");
}

#[test]
fn evaluation_fails_with_the_words_of_the_language() {
    for (text, expected) in [
        ("vars.MISSING", "no such key: MISSING"),
        ("x.nope", "no such key: nope"),
        ("x.list[5]", "index out of bounds: 5"),
        ("x.list[-1]", "index out of bounds: -1"),
        ("1 / 0", "division by zero"),
        ("1 % 0", "modulus by zero"),
        ("1u / 0u", "division by zero"),
        ("9223372036854775807 + 1", "integer overflow"),
        ("-9223372036854775808 - 1", "integer overflow"),
        ("9223372036854775807 * 2", "integer overflow"),
        ("-(-9223372036854775808)", "integer overflow"),
        ("-9223372036854775808 / -1", "integer overflow"),
        ("0u - 1u", "unsigned integer overflow"),
        ("uint(-1)", "unsigned integer overflow"),
        ("int(1e30)", "integer overflow"),
        ("int('x')", "type conversion error from 'string' to 'int'"),
        ("bool('maybe')", "type conversion error from 'string' to 'bool'"),
        ("x.n + 'a'", "no such overload"),
        ("x.n < 'a'", "no such overload"),
        ("x.n.foo", "no such overload"),
        ("x.n ? 1 : 2", "no such overload"),
        ("x.n && true", "no such overload"),
        ("{'a': 1, 'a': 2}", "Failed with repeated key: a"),
        ("string(b'\\xff')", "invalid UTF-8 in bytes, cannot convert to string"),
        ("[0, 1].exists(x, 1 / x > 1)", "division by zero"),
        ("optional.none().value()", "optional.none() dereference"),
        ("timestamp('9999-12-30T00:00:00Z') + duration('72h')", "timestamp overflow"),
        ("'abc'.substring(5)", "index out of range: 5"),
        ("timestamp(0).getHours('Nowhere/City')", "unknown time zone Nowhere/City"),
    ] {
        assert_eq!(eval(text), Err(expected.to_owned()), "{text}");
    }
}

#[test]
fn a_missing_key_names_the_nearest() {
    let data = data();
    let program = env().compile("vars.ENVV == 'x'").expect("compiles");
    let error = program.eval(&bindings(&data)).expect_err("is missing");
    let expected = EvalErrorKind::NoSuchKey { key: "ENVV".into(), nearest: Some("ENV".into()) };
    assert_eq!(error.kind, expected);
    assert_eq!(error.hint().as_deref(), Some("did you mean `ENV`?"));
}

#[test]
fn an_unbound_variable_is_an_error_only_when_read() {
    let program = env().compile("true || vars.A == 'x'").expect("compiles");
    assert_eq!(program.eval_bool(&slipway_cel::Bindings::new()), Ok(true));
    let program = env().compile("vars.A == 'x'").expect("compiles");
    let error = program.eval(&slipway_cel::Bindings::new()).expect_err("is not bound");
    assert_eq!(error.to_string(), "no such attribute(s): vars");
}
