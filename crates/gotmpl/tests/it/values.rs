//! Shared storage, deep nesting, conversion.

use slipway_gotmpl::{Map, Numbers, Value};

#[test]
fn clones_of_a_map_share_its_entries() {
    let a = Map::new();
    let b = a.clone();
    b.insert("k", Value::Int(1));
    assert_eq!(a.get("k"), Some(Value::Int(1)));
}

#[test]
fn deep_nesting_drops_without_overflow() {
    let mut v = Value::list(vec![]);
    for _ in 0..1_000_000 {
        v = Value::list(vec![v]);
    }
    drop(v);
}

#[test]
fn cycles_fail_to_encode() {
    let m = Map::new();
    m.insert("self", Value::Map(m.clone()));
    let err = serde_json::to_string(&Value::Map(m.clone())).unwrap_err();
    assert!(err.to_string().contains("encountered a cycle via map[string]interface {}"), "{err}");
    m.remove("self");
}

#[test]
fn numbers_decode_as_asked() {
    let json = serde_json::json!({"a": 1, "b": 1.5});
    let v = Value::from_json(&json, Numbers::Float64);
    assert_eq!(v.as_map().unwrap().get("a"), Some(Value::Float64(1.0)));
    let v = Value::from_json(&json, Numbers::Int64);
    assert_eq!(v.as_map().unwrap().get("a"), Some(Value::Int64(1)));
    let v: Value = serde_json::from_str(r#"{"a": 1}"#).unwrap();
    assert_eq!(serde_json::to_string(&v).unwrap(), r#"{"a":1.0}"#);
}
