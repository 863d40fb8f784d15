//! Texts made to hurt: every one ends in a located error or a value, quickly and without a crash.

use slipway_yaml::{YamlEmitter, YamlReader, from_str_helm, parse};

#[test]
fn deep_nesting_is_an_error() {
    let megabytes = 10 << 20;
    let staircase: String = (0..3000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    for (name, text) in [
        ("flow lists", "[".repeat(megabytes)),
        ("flow mappings", "{a: ".repeat(megabytes / 4)),
        ("one-line lists", "- ".repeat(megabytes / 2)),
        ("questions", "? ".repeat(megabytes / 2)),
        ("mappings", staircase),
    ] {
        let error = from_str_helm(&text).unwrap_err();
        assert!(error.to_string().contains("exceeded max depth"), "{name}: {error}");
        let problems = parse(&text, "f.yaml").unwrap_err();
        let problem = problems.iter().next().unwrap();
        assert!(problem.at.is_some() && problem.message.contains("max depth"), "{name}: {problem}");
    }
}

#[test]
fn the_deepest_allowed_nesting_survives_a_small_stack() {
    let work = || {
        let text = format!("{}1{}", "[".repeat(499), "]".repeat(499));
        let value = from_str_helm(&text).unwrap();
        assert!(slipway_yaml::to_string(&value).unwrap().len() > 900);
        let node = YamlReader::helm().read_one(&text, "f").unwrap();
        assert_eq!(node.clone().to_json(), value);
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(work).unwrap().join().unwrap();
}

#[test]
fn alias_bombs_are_refused() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let aliases = vec![format!("*a{}", level - 1); 9].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    let error = from_str_helm(&bomb).unwrap_err();
    assert_eq!(
        error.to_string(),
        "error converting YAML to JSON: yaml: document contains excessive aliasing"
    );
    let reader = YamlReader::new().max_nodes(100_000);
    let problems = reader.read(&bomb, "f.yaml").unwrap_err();
    assert!(problems.to_string().contains("more than the 100000 nodes allowed"), "{problems}");

    let mut merges = String::from("a0: &a0 {k: v}\n");
    for level in 1..30 {
        let aliases = vec![format!("*a{}", level - 1); 9].join(", ");
        merges.push_str(&format!("a{level}: &a{level}\n  <<: [{aliases}]\n"));
    }
    from_str_helm(&merges).unwrap_err();
}

#[test]
fn loops_are_refused() {
    for text in ["a: &x [*x]", "&x {a: *x}", "a: &x {b: {<<: *x}}", "&x {*x : 1}"] {
        let error = from_str_helm(text).unwrap_err().to_string();
        assert!(error.ends_with("anchor 'x' value contains itself"), "{text}: {error}");
        assert!(parse(text, "f").is_err(), "{text}");
    }
}

#[test]
fn long_and_odd_texts_end() {
    let mega = 1 << 20;
    for (_what, text) in [
        ("huge key", format!("{}: 1", "k".repeat(mega))),
        ("huge quoted", format!("a: \"{}\"", "\\x41 ".repeat(mega / 5))),
        ("huge plain", "word ".repeat(mega / 5)),
        ("many keys", (0..50_000).map(|n| format!("k{n}: {n}\n")).collect()),
        ("same keys", "k: 1\n".repeat(20_000)),
        ("commas", format!("[{}", ",".repeat(mega))),
        ("colons", ":".repeat(mega)),
        ("colons and spaces", ": ".repeat(mega / 2)),
        ("unclosed", format!("a: '{}", "x\n".repeat(mega / 2))),
        ("anchors", (0..50_000).map(|n| format!("- &a{n} x\n")).collect()),
        ("control", format!("a: {}\u{1}", "x".repeat(mega))),
        ("directives", "%TAG !a! b\n".repeat(20_000)),
        ("documents", "---\n".repeat(50_000)),
        ("breaks", "\n\r\u{85}\u{2028}".repeat(mega / 8)),
        ("open flow keys", format!("{{{}", "a, ".repeat(mega / 3))),
    ] {
        // Any answer will do, as long as there is one.
        let _ = from_str_helm(&text);
        let _ = parse(&text, "f.yaml");
    }
}

#[test]
fn limits_are_told() {
    let problems = YamlReader::new().max_bytes(3).read("a: 1", "f.yaml").unwrap_err();
    assert_eq!(problems.to_string(), "f.yaml: 4 bytes are more than the 3 allowed");
    let problems = YamlReader::new().anchors(false).read("a: &x 1\nb: *x\n", "f.yaml").unwrap_err();
    assert_eq!(problems.to_string(), "f.yaml:2:4: alias `*x` is not allowed here");
    let problems = parse("a: b\n  c: \u{7}", "f.yaml").unwrap_err();
    assert_eq!(problems.to_string(), "f.yaml:2:6: invalid YAML: control characters are not allowed");
}

#[test]
fn values_nested_too_deep_are_not_written() {
    let mut value = serde_json::json!(1);
    for _ in 0..600 {
        value = serde_json::Value::Array(vec![value]);
    }
    assert!(YamlEmitter::manifest().emit(&value).is_err());
}
