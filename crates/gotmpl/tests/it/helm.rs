//! Behaviour of the engine case by case: output, or the message Helm would give.

use std::cell::RefCell;

use serde_json::json;
use slipway_gotmpl::{
    FuncError, FuncMap, GoValue, MapKind, NoHost, RenderLimits, TemplateHost, TemplateRenderer, TemplateSet,
    WholeNumbers, remove_no_value,
};

use crate::world::{render, render_with, root};

fn values() -> serde_json::Value {
    json!({
        "i": 1, "f": 1.5, "big": 1_000_000, "s": "hi",
        "l": ["a", 1, null, true, 1.5],
        "m": {"b": 1, "a": {"c": null, "d": [1]}},
        "YAML": "key",
    })
}

#[test]
fn templates_print_what_helm_prints() {
    let cases: &[(&str, &str)] = &[
        ("{{ .Values.i }} {{ .Values.big }} {{ .Values.f }}", "1 1e+06 1.5"),
        ("{{ .Values.l }}", "[a 1 <nil> true 1.5]"),
        ("{{ .Values.m }}", "map[a:map[c:<nil> d:[1]] b:1]"),
        ("{{ .Values.nope }}|", "|"),
        ("{{ (.Values.nope).x }}|", "|"),
        ("<no <no value>value>", "<no value>"),
        ("{{ eq .Values.i 1.0 }} {{ eq \"a\" \"b\" \"a\" }} {{ eq .Values.nope nil }}", "true true true"),
        ("{{ and 1 \"\" 3 }}|{{ or 0 \"\" \"z\" }}|{{ and .Values.nope .Values.nope.x }}", "|z|"),
        ("{{ range $k, $v := .Values.m }}{{ $k }}={{ $v }};{{ end }}", "a=map[c:<nil> d:[1]];b=1;"),
        ("{{ range .Values.nope }}x{{ else }}E{{ end }}", "E"),
        ("{{ with 0 }}a{{ else with \"x\" }}b{{ . }}{{ else }}c{{ end }}", "bx"),
        (
            "{{ $v := 1 }}{{ if true }}{{ $v := 2 }}{{ end }}{{ $v }}{{ if true }}{{ $v = 3 }}{{ end }}{{ $v }}",
            "13",
        ),
        ("a   {{- \" b\" -}}   c {{ 3 -}} ,{{ -3 }}{{- 4}}", "a bc 3,-34"),
        (
            "{{ 0x10 }} {{ 0o17 }} {{ 017 }} {{ 0b11 }} {{ 1_000 }} {{ 1e3 }} {{ 'a' }} {{ 1+2i }} {{ 1e100 }}",
            "16 15 15 3 1000 1000 97 (1+2i) 1e+100",
        ),
        ("{{ print \"a\" \"b\" 1 2 true nil }}", "ab1 2 true <nil>"),
        (
            "{{ printf \"%v|%#v|%T\" .Values.m .Values.l .Values.l }}",
            "map[a:map[c:<nil> d:[1]] b:1]|[]interface {}{\"a\", 1, interface {}(nil), true, 1.5}|[]interface {}",
        ),
        (
            "{{ html \"<a>&'\" }} {{ js \"<'=\" }} {{ urlquery \"a b/é\" }}",
            "&lt;a&gt;&amp;&#39; \\u003C\\'\\u003D a+b%2F%C3%A9",
        ),
        ("{{ tpl \"{{ .s }}-{{ .Nope }}-\" .Values }}", "hi--"),
        (
            "{{ .Capabilities.KubeVersion }} {{ printf \"%s\" .Capabilities.KubeVersion }} {{ .Capabilities.APIVersions.Has \"apps/v1\" }}",
            "v1.33.0 {v1.33.0 1 33} true",
        ),
        ("{{ .Values.PathValue \"m.b\" }} {{ (.Values.Table \"m.a\").d }}", "1 [1]"),
        (
            "{{ define \"t\" }}{{ tpl \"{{ define \\\"u\\\" }}in{{ end }}{{ include \\\"u\\\" . }}\" . }}{{ include \"u\" . }}{{ end }}{{ define \"u\" }}out{{ end }}{{ include \"t\" . }}",
            "inout",
        ),
        (
            "{{ define \"a\" }}x{{ end }}{{ define \"b\" }} {{ end }}{{ include \"a\" . }}{{ include \"b\" . }}|",
            "x |",
        ),
    ];
    for (template, want) in cases {
        let got = render(template.as_bytes(), &values());
        assert_eq!(got.as_deref().map(String::from_utf8_lossy), Ok((*want).into()), "{template}");
    }
}

#[test]
fn messages_are_helms() {
    let cases: &[(&str, &str)] = &[
        ("{{ .Values.nope.x }}", "T:1:10: X at <.Values.nope.x>: nil pointer evaluating interface {}.x"),
        ("{{ .Chart.Name.x }}", "T:1:9: X at <.Chart.Name.x>: can't evaluate field x in type string"),
        ("{{ .Values.foo-bar }}", "P:1): bad character U+002D '-'"),
        ("{{ .Values.l.0 }}", "P:1): unexpected \".0\" in operand"),
        ("{{ range 3 }}{{ end }}", "T:1:9: X at <3>: range can't iterate over 3"),
        ("{{ 9223372036854775808 }}", "T:1:3: X at <9223372036854775808>: 9223372036854775808 overflows int"),
        ("{{ 08 }}", "P:1): \"08\""),
        ("{{ nil }}", "T:1:3: X at <nil>: nil is not a command"),
        (
            "{{ template \"nope\" . }}",
            "T:1:12: X at <{{template \"nope\" .}}>: template \"nope\" not defined",
        ),
        (
            "{{ include \"nope\" . }}",
            "T:1:3: X at <include \"nope\" .>: error calling include: template: no template \"nope\" associated with template \"gotpl\"",
        ),
        ("{{ fail \"boom\" }}", "execution error at (snip/templates/t.yaml:1:3): boom"),
        (
            "{{ required \"need it\" .Values.nope }}",
            "execution error at (snip/templates/t.yaml:1:3): need it",
        ),
        (
            "{{ define \"i\" }}{{ fail \"deep\" }}{{ end }}\n {{ include \"i\" . }}",
            "execution error at (snip/templates/t.yaml:2:4): deep",
        ),
        (
            "{{ tpl \"{{ .Values.a.b }}\" . }}",
            "T:1:3: X at <tpl \"{{ .Values.a.b }}\" .>: error calling tpl: error during tpl function execution for \"{{ .Values.a.b }}\": template: gotpl:1:10: executing \"gotpl\" at <.Values.a.b>: nil pointer evaluating interface {}.b",
        ),
        ("{{ .Values.s \"x\" }}", "T:1:10: X at <.Values.s>: s is not a method but has arguments"),
        (
            "{{ .Values.Table \"s\" }}",
            "T:1:10: X at <.Values.Table>: error calling Table: \"s\" is not a table",
        ),
        ("{{ .Capabilities.APIVersions.Has 1 }}", "T:1:33: X at <1>: expected string; found 1"),
        ("{{ fail }}", "T:1:3: X at <fail>: wrong number of args for fail: want 1 got 0"),
        (
            "{{ \"x\" | call }}",
            "rendering template failed: runtime error: index out of range [0] with length 0",
        ),
    ];
    for (template, want) in cases {
        let want = want
            .replace("T:", "template: snip/templates/t.yaml:")
            .replace("X at", "executing \"snip/templates/t.yaml\" at")
            .replace("P:", "parse error at (snip/templates/t.yaml:");
        assert_eq!(render(template.as_bytes(), &values()), Err(want), "{template}");
    }
}

#[test]
fn methods_win_over_keys() {
    let mut library = FuncMap::new();
    library.add("toYaml", &[slipway_gotmpl::GoType::Any], slipway_gotmpl::GoType::String, |_, _| {
        Ok("text".into())
    });
    let got = render_with(b"{{ .Values.YAML }}", &values(), &library, &RenderLimits::default(), &NoHost);
    assert_eq!(got, Ok(b"text\n".to_vec()));
}

#[test]
fn a_body_of_space_replaces_nothing() {
    let limits = RenderLimits::default();
    let mut set = TemplateSet::new(FuncMap::helm(&FuncMap::new()), &limits);
    set.parse("b", "{{ define \"x\" }}old{{ end }}").unwrap();
    set.parse("a", "{{ define \"x\" }} \n{{ end }}{{ include \"x\" . }}").unwrap();
    let mut renderer = TemplateRenderer::new(&set, &limits, &NoHost);
    assert_eq!(renderer.execute("a", &GoValue::Nil).unwrap(), b"old");
    // Parsed once, executed again, with the same result.
    assert_eq!(renderer.execute("a", &GoValue::Nil).unwrap(), b"old");
}

struct Cluster(RefCell<Vec<String>>);

impl TemplateHost for Cluster {
    fn lookup(&self, api: &str, kind: &str, ns: &str, name: &str) -> Result<GoValue, FuncError> {
        self.0.borrow_mut().push(format!("{api} {kind} {ns}/{name}"));
        if name == "bad" {
            return Err("no such thing".into());
        }
        let m = slipway_gotmpl::GoMap::new();
        m.insert("found", GoValue::Bool(true));
        Ok(m.into())
    }

    fn tolerate(&self, message: &str) -> bool {
        self.0.borrow_mut().push(message.to_owned());
        true
    }
}

#[test]
fn the_host_answers_lookup_and_tolerates_in_lint_mode() {
    let host = Cluster(RefCell::default());
    let run =
        |t: &str| render_with(t.as_bytes(), &values(), &FuncMap::new(), &RenderLimits::default(), &host);
    assert_eq!(run("{{ (lookup \"v1\" \"Pod\" \"ns\" \"p\").found }}"), Ok(b"true".to_vec()));
    assert_eq!(run("[{{ fail \"x\" }}{{ required \"y\" \"\" }}]"), Ok(b"[]".to_vec()));
    let message = run("{{ lookup \"v1\" \"Pod\" \"\" \"bad\" }}").unwrap_err();
    assert!(message.ends_with("error calling lookup: no such thing"), "{message}");
    assert_eq!(host.0.borrow()[..3], ["v1 Pod ns/p", "Fail: x", "Missing required value: y"]);
}

#[test]
fn values_given_to_a_map_parameter_are_a_plain_map() {
    let mut library = FuncMap::new();
    library.add("kindOfMap", &[slipway_gotmpl::GoType::Map], slipway_gotmpl::GoType::Bool, |_, args| {
        Ok(GoValue::Bool(args.map(0).kind() == MapKind::Any))
    });
    let limits = RenderLimits::default();
    let mut set = TemplateSet::new(FuncMap::helm(&library), &limits);
    set.parse("f", "{{ kindOfMap .Values }}").unwrap();
    let out = TemplateRenderer::new(&set, &limits, &NoHost).execute("f", &root(&values(), "f")).unwrap();
    assert_eq!(remove_no_value(out), b"true");
}

#[test]
fn files_of_the_same_text_are_told_apart() {
    use std::sync::Arc;

    let limits = RenderLimits::default();
    let mut set = TemplateSet::new(FuncMap::helm(&FuncMap::new()), &limits);
    let text: Arc<[u8]> =
        b"{{ define \"x\" }}{{ .a.b }}{{ end }}\n{{ .Name }}{{ .missing.deeper.still }}"[..].into();
    let other: Arc<[u8]> = b"{{ define \"x\" }}other{{ end }}"[..].into();
    set.parse_all(&[("a/one", Arc::clone(&text)), ("a/other", other), ("b/two", text)]).unwrap();
    // The last definition wins, wherever its text was first seen.
    assert_eq!(set.names(), [("a/one", "a/one"), ("a/other", "a/other"), ("b/two", "b/two"), ("x", "b/two")]);
    let mut renderer = TemplateRenderer::new(&set, &limits, &NoHost);
    for name in ["a/one", "b/two"] {
        let error = renderer
            .execute(name, &GoValue::from_json(&json!({"Name": 1}), WholeNumbers::Int64))
            .unwrap_err();
        assert!(error.to_string().starts_with(&format!("template: {name}:2:")), "{error}");
    }
    let bad: Arc<[u8]> = b"{{ if }}"[..].into();
    let (at, error) =
        set.parse_all(&[("fine", b"x"[..].into()), ("bad", Arc::clone(&bad)), ("bad2", bad)]).unwrap_err();
    assert_eq!((at, error.helm_text("bad")), (1, "parse error at (bad:1): missing value for if".to_owned()));
}
