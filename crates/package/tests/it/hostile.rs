//! Whatever the text, there is an answer and no panic.

use proptest::prelude::*;
use slipway_package::kpatch::{parse, parse_keypath, parse_target};
use slipway_package::template::{Template, parse_path};
use slipway_problem::{ProblemSeverity, Problems};

use crate::support::{Kit, errors};

/// Text made of the pieces the languages are made of.
fn soup() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "[",
        "]",
        "${",
        "}",
        "a",
        "b.c",
        ".",
        ":",
        ": ",
        "\n",
        "  ",
        "\t",
        "\"",
        "'",
        "*",
        "-",
        "+",
        "=",
        "name=",
        "delete",
        "replace",
        "enabled",
        "0",
        "99999999999999999999",
        "#",
        "?",
        "|\n",
        ">",
        "- ",
        "---\n",
        "\\",
        "é",
        "\u{feff}",
        "deployment.web",
        "/",
        "@",
        ",",
        "{",
        "&a ",
        "*a",
        "!!int ",
        "$${",
        "target",
        "patch",
        "\r\n",
        "spec.replicas",
        "metadata",
        "\u{0}",
    ]);
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn patches_paths_and_references_never_panic(text in soup()) {
        let mut problems = Problems::new();
        let _ = parse("p.kpatch", &text, &mut problems);
        let _ = parse_keypath(&text);
        let _ = parse_target(&text);
        let _ = Template::parse(&text);
        let _ = parse_path(&text);
    }

    #[test]
    fn building_never_panics(patch in soup(), parameters in soup(), sidecar in soup()) {
        let _ = Kit::web("a: {b: 1}\n").patch("00", &patch).sidecar("00", &sidecar).build();
        let _ = Kit::web(&parameters).patch("00", "[deployment.web]\nspec.replicas: \"${a.b}\"\n").build();
    }

    #[test]
    fn evaluating_never_panics(path in soup(), value in soup()) {
        let line = format!("[deployment.web]\n{}: {}\n", path.replace(['\n', '\r'], ""), value.replace(['\n', '\r'], ""));
        let _ = Kit::web("a: {b: 1}\nname: app\n").patch("00", &line).set(&value).build();
    }

    #[test]
    fn applying_twice_is_applying_once(replicas in 0i64..9, key in "[a-z]{1,8}", value in "[ -~]{0,20}") {
        let text = serde_json::to_string(&value).unwrap().replace("${", "");
        let patch = format!("[deployment.web]\nspec.replicas: {replicas}\nmetadata.annotations.{key}: {text}\n");
        let once = Kit::web("").patch("00", &patch).build().map(|build| build.stream(slipway_package::EmitOptions::default()));
        let twice = Kit::web("").patch("00", &patch).patch("10", &patch).build().map(|build| build.stream(slipway_package::EmitOptions::default()));
        prop_assert_eq!(once.ok(), twice.ok());
    }
}

/// Scenario A-42 of the specification.
#[test]
fn large_patches_are_read_and_limited() {
    let statements = |count: usize| -> String {
        (0..count).map(|n| format!("metadata.annotations.key{n}: \"value {n}\"\n")).collect()
    };
    let mut problems = Problems::new();
    let (text, started) = (statements(10_000), std::time::Instant::now());
    let patch = parse("p.kpatch", &text, &mut problems);
    let took = started.elapsed();
    assert_eq!((patch.statements(), problems.len()), (10_000, 0));
    // Without optimization everything takes ten times as long.
    let allowed = std::time::Duration::from_millis(if cfg!(debug_assertions) { 30_000 } else { 300 });
    assert!(took < allowed, "10,000 statements took {took:?}");
    parse("p.kpatch", &statements(10_001), &mut problems);
    assert_eq!(errors(&problems), ["KP001"]);
    let mut problems = Problems::new();
    parse("p.kpatch", &"a".repeat(2 << 20), &mut problems);
    assert_eq!(errors(&problems), ["KP001"]);
    let deep = format!("[service.web]\n{}: 1\n", vec!["a"; 1000].join("."));
    assert_eq!(errors(&Kit::web("").patch("00", &deep).fails()), ["KP001"]);
    let nested = format!("[service.web]\nspec.x: {}{}\n", "[".repeat(5000), "]".repeat(5000));
    assert_eq!(errors(&Kit::web("").patch("00", &nested).fails()), ["KP020"]);
}

#[test]
fn long_lines_take_as_long_as_they_are() {
    let references = "${name}".repeat(20_000);
    for statement in [
        format!("spec.template.spec.containers[name={references}].image: x"),
        format!("spec.template.spec.containers.name={references}.image: x"),
        format!("\"{}\": \"{}\"", "k".repeat(100_000), references),
        format!("\"{}\": [{}]", "k".repeat(100_000), "\"${name}\",".repeat(10_000)),
        format!(
            "spec.list: {{{}}}",
            (0..10_000).map(|n| format!("k{n}: \"${{name}}\",")).collect::<String>()
        ),
        format!("spec.text: \"{}\"", "${nothing}".repeat(20_000)),
    ] {
        let started = std::time::Instant::now();
        let kit = Kit::web("name: app\n").patch("00", &format!("[*]\n{statement}\n"));
        let _ = kit.package().validate(&kit.inputs);
        let _ = kit.package().schema();
        let took = started.elapsed();
        assert!(took < std::time::Duration::from_secs(120), "{took:?}: {statement:.60}");
    }
}

/// Scenario A-42 of the specification.
#[test]
fn odd_texts_are_read_or_refused_precisely() {
    let plain = "[service.web]\nmetadata.annotations.note: x\n";
    let expected = Kit::web("").patch("00", plain).stream();
    for text in [
        "\u{feff}[service.web]\nmetadata.annotations.note: x\n",
        "[service.web]\r\nmetadata.annotations.note: x\r\n",
        "\t[service.web]\t\n\tmetadata.annotations.note:\tx\t\n",
        "[service.web]   \n  metadata.annotations.note: x   \n",
        "[service.web]\nmetadata.annotations.note: x",
    ] {
        assert_eq!(Kit::web("").patch("00", text).stream(), expected, "{text:?}");
    }
    let written = |mark: &str, newline: &str| {
        let text = |text: &str| format!("{mark}{}", text.replace('\n', newline));
        Kit::web("")
            .file("parameters.yaml", &text(&format!("{}note: x\non: true\n", crate::support::IDENTITY)))
            .file("resources/service.yaml", &text(crate::support::SERVICE))
            .patch("00", &text("[service.web]\nmetadata.annotations.note: \"${note}\"\n"))
            .sidecar("00", &text("enabled: \"${on}\"\n"))
            .stream()
    };
    for (mark, newline) in [("", "\n"), ("\u{feff}", "\n"), ("", "\r\n"), ("\u{feff}", "\r\n")] {
        assert_eq!(written(mark, newline), expected, "{mark:?} {newline:?}");
    }
    let named = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: größe, namespace: apps}\n";
    let named = Kit::web("").file("resources/thing.yaml", named);
    let named = named.patch("00", "[thing.\"größe\"]\nspec.x: \"✓\"\n").fails();
    assert_eq!(errors(&named), ["KR023"], "found by its name, which no server would take: {named}");
    let value = Kit::web("").patch("00", "[service.web]\nmetadata.annotations[\"a/b\"]: \"größe ✓\"\n");
    assert!(value.stream().contains("größe ✓"));
    for (text, at) in [
        ("[service.wéb]\na: b\n", 1),
        ("[service.web]\nspec.é: 1\n", 2),
        ("[service.web]\nspec.x:\n\t- a\n", 3),
    ] {
        let problems = Kit::web("").patch("00", text).fails();
        let wrong = problems.iter().find(|problem| problem.severity == ProblemSeverity::Error);
        let found = wrong.and_then(|problem| problem.at.clone()).expect("a place");
        assert_eq!((found.line, found.column > 0), (at, true), "{text:?}: {problems}");
    }
}

#[test]
fn refuses_patches_that_multiply_a_large_parameter() {
    let large = "x".repeat(900 << 10);
    let mut patch = String::from("[deployment.web]\n");
    for number in 0..200 {
        patch.push_str(&format!("metadata.annotations.a{number}: ${{large}}\n"));
    }
    let problems = Kit::web(&format!("large: {large}\n")).patch("10", &patch).fails();
    let found = problems.iter().find(|problem| problem.code.as_deref() == Some("KX061"));
    let at = found.and_then(|problem| problem.at.clone()).map(|at| (at.file.to_string(), at.line));
    assert_eq!(at, Some(("patches/10.kpatch".to_owned(), 1)), "{}", problems.len());
}
