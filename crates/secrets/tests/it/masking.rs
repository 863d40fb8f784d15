//! Sentinels, stand-ins and taint.

use serde_json::{Value, json};
use slipway_secrets::{
    FingerprintKey, MaskedChange, ObjectTaint, Sentinels, TaintOrigin, compare_renders, find_unresolved,
    sentinel_origin,
};

use crate::support::{config, reference};

#[test]
fn sentinels_name_their_secret_and_survive_base64() {
    let sentinels = Sentinels::new(&config("secrets: {defaultProvider: vault}"));
    let mut values = json!({"a": "secret:///app/db#password", "n": "secret://vault/app/port?type=int", "s": "secret://vault/c?type=json"});
    sentinels.substitute(&mut values);
    assert_eq!(values, json!({"a": "⟦secret:vault/app/db#password⟧", "n": 1, "s": {}}));
    for text in [
        "⟦secret:vault/app/db#password⟧",
        "4p+mc2VjcmV0OnZhdWx0L2FwcC9kYiNwYXNzd29yZOKfpw==",
        "url ⟦secret:vault/app/db#password⟧ x",
    ] {
        let origin = sentinel_origin(text).unwrap_or_else(|| panic!("{text}"));
        assert_eq!(origin.to_string(), "value supplied by vault path app/db#password");
    }
    assert_eq!(sentinel_origin("plain"), None);
}

#[test]
fn stand_ins_take_the_place_of_sentinels_by_pattern() {
    let config =
        config("secrets: {standins: {'secret://vault/app/*#config': '{}', 'secret://vault/n*': '42'}}");
    let sentinels = Sentinels::new(&config);
    assert_eq!(sentinels.value_of(&reference("secret://vault/app/x/y#config")), json!("{}"));
    assert_eq!(sentinels.value_of(&reference("secret://vault/n1?type=int")), json!(42));
    assert_eq!(
        sentinels.value_of(&reference("secret://vault/app/x#other")),
        json!("⟦secret:vault/app/x#other⟧")
    );
}

fn object(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data})
}

#[test]
fn fields_that_hold_or_depend_on_a_secret_are_tainted() {
    let masked = object(
        "db",
        json!({"p": "⟦secret:vault/db#p⟧", "hash": "aaa", "same": "x", "list": ["a", "⟦secret:vault/l⟧"]}),
    );
    let mut resolved = object("db", json!({"p": "hunter2", "hash": "bbb", "same": "x", "list": ["a", "b"]}));
    let taint = ObjectTaint::compare(&masked, &resolved);
    let found: Vec<(String, bool)> = taint
        .iter()
        .map(|(path, origin)| (path.join("."), matches!(origin, TaintOrigin::Secret(_))))
        .collect();
    assert_eq!(found, [("data.hash".into(), false), ("data.list.1".into(), true), ("data.p".into(), true)]);
    taint.mask(&mut resolved);
    assert_eq!(resolved["data"]["p"], "(value supplied by vault path db#p)");
    assert_eq!(resolved["data"]["hash"], "(value derived from a secret)");
    assert_eq!(resolved["data"]["same"], "x");
    assert_eq!(ObjectTaint::of_masked(&masked).iter().count(), 2);
}

#[test]
fn secrets_must_not_decide_which_objects_exist() {
    let (a, b) = (object("a", json!({})), object("b", json!({})));
    assert_eq!(
        compare_renders(&[a.clone(), b.clone()], &[b.clone(), a.clone()]).unwrap().len(),
        2,
        "order does not matter"
    );
    let error = compare_renders(std::slice::from_ref(&a), &[a.clone(), object("s3cret-name", json!({}))])
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "a secret value changes which objects exist (Secret of the resolved render)"
    );
    let error = compare_renders(&[a.clone(), b], std::slice::from_ref(&a)).unwrap_err();
    assert_eq!(error.to_string(), "a secret value changes which objects exist (Secret/b)");
}

#[test]
fn references_left_in_objects_are_found() {
    let mut object = json!({"kind": "Deployment", "metadata": {"name": "app", "namespace": "ns"},
        "spec": {"containers": [{"env": [{"name": "A", "value": "x"}, {"name": "B", "value": "url secret://vault/a"}]}]}});
    let found = find_unresolved(&object);
    assert_eq!(found.len(), 1);
    assert_eq!(
        found[0].message,
        "unresolved secret reference in Deployment ns/app at spec.containers[0].env[1].value"
    );
    object["metadata"]["annotations"] = json!({"slipway.dev/allow-secret-refs": "true"});
    assert!(find_unresolved(&object).is_empty());
}

#[test]
fn changes_are_told_without_showing_values() {
    let key = FingerprintKey::random();
    let (x, y) = (json!("x"), json!("y"));
    let change = |old, new| MaskedChange::between(&key, old, new).map(|change| change.to_string());
    assert_eq!(change(Some(&x), Some(&x)).as_deref(), Some("unchanged"));
    assert_eq!(change(Some(&x), Some(&y)).as_deref(), Some("changed"));
    assert_eq!(change(None, Some(&y)).as_deref(), Some("added"));
    assert_eq!(change(Some(&x), None).as_deref(), Some("removed"));
    assert_eq!(change(None, None), None);
}
