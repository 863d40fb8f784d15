//! Variables end up in the text, and problems where the user wrote them.

use slipway_problem::Problems;
use slipway_runbook::{DollarEscape, Inputs, Substituted, Variables, substitute};

fn variables(set: &[&str]) -> Variables {
    let inputs = Inputs { set: set.iter().map(|&flag| flag.to_owned()).collect(), ..Inputs::default() };
    Variables::gather(&inputs).expect("good flags")
}

fn put(source: &str, set: &[&str]) -> (Substituted, Problems) {
    let mut problems = Problems::new();
    let done = substitute("f.yaml", source, &variables(set), DollarEscape::Off, &mut problems);
    (done, problems)
}

#[test]
fn values_are_never_scanned_again() {
    let (done, problems) = put("a: ${X} ${Y:-d} $${X} ${_:-$}{HOME}", &["X=${Y}"]);
    assert!(problems.is_empty());
    assert_eq!(done.text, "a: ${Y} d $${Y} ${HOME}");
}

#[test]
fn empty_values_are_values() {
    let (done, problems) = put("[${X:-d}]", &["X="]);
    assert!(problems.is_empty());
    assert_eq!(done.text, "[]");
}

#[test]
fn places_survive_substitution() {
    let source = "first: ${LONG}\nsecond: é${X}!\n";
    let (done, _) = put(source, &["LONG=a much longer\nvalue", "X="]);
    let offset = done.text.find('!').expect("copied");
    let place = done.locate(offset);
    assert_eq!((place.line, place.column), (2, 14));
    let inside = done.text.find("value").expect("substituted");
    assert_eq!(done.locate(inside).column, 8);
    assert_eq!(done.origin(inside).reference, Some(0));
}

#[test]
fn everything_missing_is_reported_at_once() {
    let (done, problems) =
        put("a: ${ONE}\nb: ${TWO|upper}\nc: ${ONE|nope}\nd: ${HOME}\n# ${COMMENTED}\n", &["ON=1"]);
    let codes: Vec<_> = problems.iter().map(|problem| problem.code.clone().unwrap_or_default()).collect();
    assert_eq!(codes, ["E102", "E100", "E100", "E100", "E100", "E100"]);
    assert!(done.is_unknown(3..6));
    assert!(!done.is_unknown(0..3));
    let text = problems.to_string();
    assert!(text.contains("did you mean `ON`?"), "{text}");
    assert!(text.contains("`${_:-$}{HOME}`"), "{text}");
    assert!(text.contains("comment"), "{text}");
}

#[test]
fn sources_have_an_order() {
    let inputs = Inputs {
        set: vec!["A=flag".into(), "E=a=b".into()],
        files: vec![("v.yaml".into(), "A: file\nB: 1.10\nC: 'x'\nF: 0123\n".into())],
        environment: vec![
            ("KHOOK_VAR_A".into(), "env".into()),
            ("KHOOK_SECRET_A".into(), "hidden".into()),
            ("KHOOK_SECRET_D".into(), "token".into()),
            ("KHOOK_VAR_D".into(), "plain".into()),
            ("KHOOK_VAR_".into(), "nameless".into()),
            ("PATH".into(), "/bin".into()),
        ],
        ..Inputs::default()
    };
    let variables = Variables::gather(&inputs).expect("good inputs");
    let value = |name: &str| variables.get(name).map(|variable| variable.value.as_str());
    assert_eq!(value("A"), Some("flag"));
    assert_eq!(value("B"), Some("1.10"));
    assert_eq!(value("C"), Some("x"));
    assert_eq!(value("D"), Some("token"));
    assert_eq!(value("E"), Some("a=b"));
    assert_eq!(value("F"), Some("0123"));
    assert_eq!(variables.names().count(), 6);
    let secrets: Vec<_> = variables.secrets().collect();
    for secret in ["flag", "hidden", "token"] {
        assert!(secrets.contains(&secret), "{secret}");
    }
}

#[test]
fn bad_sources_are_all_reported() {
    let inputs = Inputs {
        set: vec!["=x".into(), "novalue".into()],
        files: vec![("v.yaml".into(), "A: [1]\nB: {}\nC:\n".into()), ("w.yaml".into(), "- a\n".into())],
        prefix: String::new(),
        ..Inputs::default()
    };
    let problems = Variables::gather(&inputs).expect_err("all bad");
    let codes: Vec<_> = problems.iter().map(|problem| problem.code.clone().unwrap_or_default()).collect();
    assert_eq!(codes, ["E106", "E104", "E104", "E104", "E104", "E105", "E105"]);
}
