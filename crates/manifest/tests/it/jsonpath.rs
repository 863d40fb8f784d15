//! JSONPath against recorded answers of kubectl 1.32
//! (`kubectl patch --local -f object -p '{}' -o jsonpath=TEMPLATE`).

use proptest::prelude::*;
use serde_json::{Value, json};
use slipway_manifest::jsonpath::{JsonPath, MissingFields};

#[test]
fn templates_print_and_fail_as_in_kubectl() {
    let data: Value = serde_json::from_str(include_str!("../data/jsonpath.json")).expect("JSON");
    for case in data["cases"].as_array().expect("a list") {
        let template = case["template"].as_str().expect("a template");
        let result = JsonPath::parse(template)
            .and_then(|path| path.print_object(&data["object"]))
            .map_err(|e| e.to_string());
        let expected = match case.get("prints") {
            Some(prints) => Ok(prints.as_str().expect("text").to_owned()),
            None => Err(case["fails"].as_str().expect("text").to_owned()),
        };
        assert_eq!(result, expected, "{template}");
    }
}

#[test]
fn missing_fields_can_be_errors() {
    let path = JsonPath::parse("{.a.b}").expect("parses").with_missing_fields(MissingFields::Fail);
    assert_eq!(
        path.print_object(&json!({"a": {}})).map_err(|e| e.to_string()),
        Err("b is not found".to_owned())
    );
}

#[test]
fn relaxed_paths_need_no_braces() {
    for path in ["a.b", ".a.b", "{a.b}", "{.a.b}"] {
        let path = JsonPath::parse_relaxed(path).expect("parses");
        assert_eq!(path.print_object(&json!({"a": {"b": "x"}})), Ok("x".to_owned()));
    }
    assert!(JsonPath::parse_relaxed("{a.b").is_err());
    assert!(JsonPath::parse_relaxed("a.b}").is_err());
}

proptest! {
    #[test]
    fn no_template_panics(template in r#"[{}.\[\]?()@$*:,'"a-c0-3 =<>!\\-]{0,24}"#, value in crate::patch::any_json()) {
        if let Ok(path) = JsonPath::parse(&template) {
            let _ = path.print_object(&value);
        }
    }
}
