//! Shared storage, deep nesting, conversion.

use slipway_gotmpl::{GoMap, GoValue, WholeNumbers};

#[test]
fn clones_of_a_map_share_its_entries() {
    let a = GoMap::new();
    let b = a.clone();
    b.insert("k", GoValue::Int(1));
    assert_eq!(a.get("k"), Some(GoValue::Int(1)));
}

#[test]
fn deep_nesting_drops_without_overflow() {
    let mut v = GoValue::list(vec![]);
    for _ in 0..1_000_000 {
        v = GoValue::list(vec![v]);
    }
    drop(v);
}

#[test]
fn cycles_fail_to_encode() {
    let m = GoMap::new();
    m.insert("self", GoValue::Map(m.clone()));
    let err = serde_json::to_string(&GoValue::Map(m.clone())).unwrap_err();
    assert!(err.to_string().contains("encountered a cycle via map[string]interface {}"), "{err}");
    m.remove("self");
}

#[test]
fn numbers_decode_as_asked() {
    let json = serde_json::json!({"a": 1, "b": 1.5});
    let v = GoValue::from_json(&json, WholeNumbers::Float64);
    assert_eq!(v.as_map().unwrap().get("a"), Some(GoValue::Float64(1.0)));
    let v = GoValue::from_json(&json, WholeNumbers::Int64);
    assert_eq!(v.as_map().unwrap().get("a"), Some(GoValue::Int64(1)));
    let v: GoValue = serde_json::from_str(r#"{"a": 1}"#).unwrap();
    assert_eq!(serde_json::to_string(&v).unwrap(), r#"{"a":1.0}"#);
}
