//! Laws: what is written reads back the same, and no text makes a reader fail in any way but an error.

use proptest::prelude::*;
use serde_json::Value;
use slipway_yaml::{KeyOrder, ScalarRules, YamlEmitter, YamlReader, from_str_helm, parse, to_string};

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{0,8}",
        "[ -~\n\t]{0,40}",
        "(word |a |é |it's |\"q\" ){0,30}",
        "[0-9+._:eExob-]{1,8}",
        "\\PC{0,12}",
        prop::sample::select(vec![
            "yes",
            "null",
            "~",
            "",
            " ",
            "\n",
            "\n\n",
            "- a",
            "a: b",
            "#",
            "---",
            "2020-01-02",
            "<<",
            "=",
            "|",
            "\u{2028}",
            "\u{feff}",
            "😀\n",
            " a\n b",
            "a\n ",
            "\r\n",
        ])
        .prop_map(str::to_owned),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e30..1e30f64).prop_map(|float| Value::from(float + 0.5)),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((text(), inner), 0..6)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

/// Whole floats become integers on their way.
fn canonical(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap();
            if float.fract() == 0.0 && float.abs() < 9.2e18 {
                Value::from(float as i64)
            } else {
                value.clone()
            }
        }
        Value::Array(items) => items.iter().map(canonical).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), canonical(value))).collect(),
        other => other.clone(),
    }
}

/// Not every text can be written in every style and read back: YAML 1.1 takes U+0085 and its kin for line
/// breaks, and the writers repeat Go's mistakes with them.
fn is_faithful(value: &Value) -> bool {
    let fine = |text: &str| !text.contains(['\u{85}', '\u{2028}', '\u{2029}']);
    match value {
        Value::String(text) => fine(text),
        Value::Array(items) => items.iter().all(is_faithful),
        Value::Object(map) => map.iter().all(|(key, value)| fine(key) && is_faithful(value)),
        _ => true,
    }
}

proptest! {
    #[test]
    fn what_is_written_reads_back(value in value().prop_filter("faithful", is_faithful)) {
        let written = YamlEmitter::manifest().emit(&value).unwrap();
        prop_assert_eq!(&from_str_helm(&written).unwrap(), &canonical(&value), "{}", &written);
        for schema in [ScalarRules::Core, ScalarRules::GoYaml3, ScalarRules::Yaml11] {
            let node = YamlReader::helm().schema(schema).read_one(&written, "f").unwrap();
            prop_assert_eq!(&node.to_json(), &canonical(&value), "{:?} {}", schema, &written);
        }
        if let Some(written) = to_string(&value).ok().filter(|written| !written.contains("<<:")) {
            prop_assert_eq!(&from_str_helm(&written).unwrap(), &canonical(&value), "{}", written);
        }
    }

    #[test]
    fn key_order_does_not_depend_on_the_order_given(value in value()) {
        fn reversed(value: &Value) -> Value {
            match value {
                Value::Array(items) => items.iter().map(reversed).collect(),
                Value::Object(map) => map.iter().rev().map(|(k, v)| (k.clone(), reversed(v))).collect(),
                other => other.clone(),
            }
        }
        let emitter = YamlEmitter::manifest().order(KeyOrder::Bytes);
        prop_assert_eq!(emitter.emit(&value).unwrap(), emitter.emit(&reversed(&value)).unwrap());
    }

    #[test]
    fn no_text_makes_a_reader_fail_but_with_an_error(
        text in prop_oneof!["\\PC{0,60}", "[\\[\\]{}:,?&*!|>'\"%@#<\\-\n\t a-c0-9.~]{0,80}"]
    ) {
        let _ = from_str_helm(&text);
        for node in parse(&text, "f").unwrap_or_default() {
            let _ = (node.raw().len(), node.to_json(), node.location());
        }
        let _ = YamlReader::helm().read(&text, "f");
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let text = slipway_yaml::go_lossy(&bytes);
        let _ = from_str_helm(&text);
        let _ = parse(&text, "f");
    }

    #[test]
    fn json_is_read_as_json_where_yaml_allows_it(value in value().prop_filter("faithful", is_faithful)) {
        let text = value.to_string();
        if let Ok(read) = from_str_helm(&text) {
            prop_assert_eq!(read, canonical(&value), "{}", text);
        }
    }
}
