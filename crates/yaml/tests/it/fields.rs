//! Strict reading of mappings.

use slipway_problem::Problems;
use slipway_yaml::{FieldReader, parse_one};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Fast,
    Safe,
}

#[test]
fn every_mistake_is_reported_at_once() {
    let text = "\
name: 1.10
mode: fats
tags: [a, 2, b]
labels: {x: y, z: true}
steps:
- run: x
  tiemout: 3
- just text
limits:
  cpu: lots
retries: -1
old: 1
";
    let node = parse_one(text, "f.yaml").unwrap();
    let mut problems = Problems::new();
    let mut fields = FieldReader::of(&node, &mut problems);
    assert_eq!(fields.required_str("name"), "");
    assert_eq!(fields.one_of("mode", &[("fast", Mode::Fast), ("safe", Mode::Safe)]), None);
    assert_eq!(fields.strings("tags"), ["a", "b"]);
    assert_eq!(fields.string_map("labels"), [("x".to_owned(), "y".to_owned())]);
    let steps = fields.list("steps", |step| {
        let run = step.required_str("run");
        step.u64("timeout");
        Some(run.to_owned())
    });
    assert_eq!(steps.first().map(String::as_str), Some("x"));
    fields.fields("limits", |limits| limits.parsed::<u32>("cpu"));
    assert_eq!(fields.u64("retries"), None);
    assert_eq!(fields.bool("verbose"), None);
    fields.required("target");
    fields.deprecated("old", "`new`");
    fields.ignore("old");
    fields.finish();
    problems.sort();
    let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "f.yaml:1:1: missing key `target`",
            "f.yaml:1:7: `name` must be a string, not a number\n  hint: put it in quotes: \"1.10\"",
            "f.yaml:2:7: `mode` must be `fast` or `safe`, not `fats`\n  hint: did you mean `fast`?",
            "f.yaml:3:11: `tags` must be a string, not an integer\n  hint: put it in quotes: \"2\"",
            "f.yaml:4:19: `z` must be a string, not a boolean\n  hint: put it in quotes: \"true\"",
            "f.yaml:7:3: unknown key `tiemout`\n  hint: did you mean `timeout`?",
            "f.yaml:8:3: expected a mapping, not a string",
            "f.yaml:10:8: `cpu` is not valid: invalid digit found in string",
            "f.yaml:11:10: `retries` must be a whole number from 0, not an integer",
            "f.yaml:12:1: warning: `old` is deprecated\n  hint: use `new`",
        ]
    );
}

#[test]
fn null_counts_as_left_out() {
    let node = parse_one("a:\nb: ~\nc: x\n", "f").unwrap();
    let mut problems = Problems::new();
    let mut fields = FieldReader::of(&node, &mut problems);
    assert_eq!((fields.str("a"), fields.strings("b").len(), fields.text("c")), (None, 0, Some("x".into())));
    fields.finish();
    assert!(problems.is_empty());

    let mut fields = FieldReader::of(&node, &mut problems);
    fields.required_str("a");
    fields.ignore_unknown();
    fields.finish();
    assert_eq!(problems.to_string(), "f:1:3: `a` is required but empty");
}

#[test]
fn exclusive_keys_and_prefixes() {
    let node = parse_one("a: 1\nb: 2\nx-y: 3\n", "f").unwrap();
    let mut problems = Problems::new();
    let mut fields = FieldReader::of(&node, &mut problems);
    fields.ignore("a");
    fields.ignore("b");
    fields.ignore_prefix("x-");
    fields.exclusive(&["a", "b"]);
    fields.finish();
    assert_eq!(problems.to_string(), "f:2:4: `b` and `a` exclude each other");
}
