//! Types from schemas of custom resources.

use serde_json::json;
use slipway_cel::{Env, Type, escape_field};

#[test]
fn schemas_become_types() {
    for (schema, expected) in [
        (json!({"type": "integer"}), "int"),
        (json!({"type": "integer", "nullable": true}), "wrapper(int)"),
        (json!({"type": "number"}), "double"),
        (json!({"type": "string", "format": "byte"}), "bytes"),
        (json!({"type": "string", "format": "date-time"}), "timestamp"),
        (json!({"type": "array", "items": {"type": "boolean"}}), "list(bool)"),
        (json!({"type": "object", "additionalProperties": {"type": "string"}}), "map(string, string)"),
        (json!({"x-kubernetes-int-or-string": true}), "dyn"),
        (json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}), "dyn"),
        (json!({}), "dyn"),
    ] {
        assert_eq!(Type::from_json_schema(&schema).to_string(), expected, "{schema}");
    }
}

#[test]
fn resources_have_metadata() {
    let ty =
        Type::from_resource_schema(&json!({"type": "object", "properties": {"spec": {"type": "object"}}}));
    let env = Env::kubernetes().variable("self", ty);
    assert!(env.compile("self.metadata.name.startsWith('a') && self.kind == 'X'").is_ok());
    assert!(env.compile("self.metadata.labels == {}").is_err());
}

#[test]
fn names_are_escaped() {
    for (key, expected) in [
        ("plain", Some("plain")),
        ("a.b", Some("a__dot__b")),
        ("a-b/c", Some("a__dash__b__slash__c")),
        ("a__b", Some("a__underscores__b")),
        ("namespace", Some("__namespace__")),
        ("1a", None),
        ("a b", None),
        ("", None),
    ] {
        assert_eq!(escape_field(key).as_deref(), expected, "{key}");
    }
}

#[test]
fn kubernetes_literals_have_one_type() {
    let errors = Env::kubernetes().compile("[1, 'a']").expect_err("is mixed");
    assert_eq!(errors[0].message, "expected type 'int' but found 'string'");
    assert!(Env::new().compile("[1, 'a']").is_ok());
}

#[test]
fn schemas_nested_deep_end() {
    let mut schema = json!({"type": "string"});
    for _ in 0..110 {
        schema = json!({"type": "array", "items": schema});
    }
    let _ = Type::from_json_schema(&schema).to_string();
}
