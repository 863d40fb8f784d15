//! Answers of real Helm 3.17.3 (`data/record.py` records them), byte for byte.

use serde_json::{Value, json};
use slipway_yaml::{YamlEmitter, map_from_str_helm, to_string};

fn recorded(lines: &'static str) -> impl Iterator<Item = (Value, Value)> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap())
}

/// Templates see every number as a float.
fn floats(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(floats).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), floats(value))).collect(),
        other => other.clone(),
    }
}

#[test]
fn reads_as_from_yaml_does() {
    for (text, answer) in recorded(include_str!("data/parse.jsonl")) {
        let text = text.as_str().unwrap();
        let ours = match map_from_str_helm(text) {
            Ok(map) => Value::Object(map),
            Err(error) => json!({"Error": error.to_string()}),
        };
        assert_eq!(floats(&ours), floats(&answer), "{text:?}");
    }
}

#[test]
fn writes_as_to_yaml_does() {
    for (value, answer) in recorded(include_str!("data/emit.jsonl")) {
        let ours = to_string(&floats(&value)).unwrap_or_default();
        assert_eq!(ours.strip_suffix('\n').unwrap_or(&ours), answer.as_str().unwrap(), "{value}");
    }
}

#[test]
fn writes_as_to_yaml_pretty_does() {
    for (value, answer) in recorded(include_str!("data/pretty.jsonl")) {
        let ours = YamlEmitter::pretty().emit(&floats(&value)).unwrap();
        assert_eq!(ours.strip_suffix('\n').unwrap_or(&ours), answer.as_str().unwrap(), "{value}");
    }
}

#[test]
fn integers_stay_exact_and_whole_floats_become_integers() {
    let text = "a: 9007199254740993\nb: 1.0\nc: 18446744073709551615\nd: -0.0\ne: 1.5\n";
    let value = slipway_yaml::from_str_helm(text).unwrap();
    let expected = json!({"a": 9007199254740993i64, "b": 1, "c": u64::MAX, "d": -0.0, "e": 1.5});
    assert_eq!(value, expected);
}

#[test]
fn text_fields_take_numbers_and_booleans() {
    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Chart {
        name: String,
        version: String,
        #[serde(default)]
        icon: Option<String>,
        keywords: Vec<String>,
    }
    let chart: Chart =
        slipway_yaml::helm::from_str("name: yes\nversion: 1.10\nicon:\nkeywords: [1, 0x10, on, x]\n")
            .unwrap();
    let keywords = ["1", "16", "true", "x"].map(str::to_owned).to_vec();
    assert_eq!(chart, Chart { name: "true".into(), version: "1.1".into(), icon: None, keywords });
}

#[test]
fn strict_reading_names_every_repeated_key() {
    let text = "a: 1\nb: {x: 1, x: 2}\na:\n  c: 3\n";
    let error = slipway_yaml::helm::from_str_strict::<Value>(text).unwrap_err();
    assert_eq!(
        error.to_string(),
        "error converting YAML to JSON: yaml: unmarshal errors:\n  line 2: key \"x\" already set in map\n  \
         line 4: key \"a\" already set in map"
    );
    assert!(slipway_yaml::helm::from_str_strict::<Value>("a: 1\nb: {a: 1}\n").is_ok());
}

#[test]
fn bytes_that_are_not_text_are_refused_as_go_does() {
    for (bytes, problem) in [
        (&b"a: \xff"[..], "invalid leading UTF-8 octet"),
        (b"a: \xc3", "incomplete UTF-8 octet sequence"),
        (b"a: \xc3(", "invalid trailing UTF-8 octet"),
        (b"a: \xed\xa0\x80", "invalid Unicode character"),
        (b"a: \xc0\x80", "invalid length of a UTF-8 sequence"),
    ] {
        let error = slipway_yaml::helm::from_slice::<Value>(bytes).unwrap_err();
        assert_eq!(error.to_string(), format!("error converting YAML to JSON: yaml: {problem}"));
    }
    assert_eq!(slipway_yaml::helm::from_slice::<Value>(b"a: 1").unwrap(), json!({"a": 1}));
}
