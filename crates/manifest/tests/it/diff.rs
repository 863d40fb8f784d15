//! Differences without noise and without secrets.

use proptest::prelude::*;
use serde_json::{Value, json};
use slipway_manifest::diff::{
    DiffOptions, LineKind, NoiseFilter, ObjectDiff, Sensitivity, Significance, ValueRedactor, diff_objects,
};
use slipway_manifest::schema::Schema;

fn compare(old: Option<&Value>, new: Option<&Value>) -> ObjectDiff {
    let redactor = ValueRedactor::new(*b"key");
    let kind = new.or(old).and_then(|object| Schema::built_in().type_of(object));
    diff_objects(old, new, &DiffOptions { cleaning: NoiseFilter::Show, kind, redactor: Some(&redactor) })
        .expect("shallow")
}

fn shown(diff: &ObjectDiff) -> Vec<String> {
    diff.changes.iter().map(ToString::to_string).collect()
}

#[test]
fn changes_are_named_by_field_and_key() {
    let old = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 2,
        "template": {"spec": {"containers": [{"name": "a", "image": "1", "args": ["x"]}, {"name": "b", "image": "1"}]}}}});
    let new = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "labels": {"a.b/c": "1"}}, "spec": {"replicas": 3,
        "template": {"spec": {"containers": [{"name": "b", "image": "1"}, {"name": "a", "image": "2", "args": ["y"]}, {"name": "c"}]}}}});
    assert_eq!(
        shown(&compare(Some(&old), Some(&new))),
        [
            r#"metadata.labels: + {"a.b/c":"1"}"#,
            "spec.replicas: 2 → 3",
            r#"spec.template.spec.containers[name=a].image: "1" → "2""#,
            r#"spec.template.spec.containers[name=a].args[0]: "x" → "y""#,
            r#"spec.template.spec.containers[name=c]: + {"name":"c"}"#,
            "spec.template.spec.containers: reordered",
        ]
    );
    assert!(compare(Some(&old), Some(&old)).is_empty());
    assert_eq!(compare(None, Some(&new)).changes.len(), 1);
}

#[test]
fn noise_is_taken_out() {
    let object = |version: &str, annotations: Value, fields: Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "resourceVersion": version, "uid": version, "generation": 1,
            "creationTimestamp": version, "annotations": annotations, "managedFields": fields}, "data": {"a": "1"}, "status": {"x": version}})
    };
    let old = object(
        "1",
        json!({"deployment.kubernetes.io/revision": "1", "helm.sh/hook": "x", "project.werf.io/y": "1"}),
        json!([{"manager": "a", "time": "1"}]),
    );
    let new = object(
        "2",
        json!({"kubectl.kubernetes.io/last-applied-configuration": "{}"}),
        json!([{"manager": "b", "time": "2"}]),
    );
    let result = compare(Some(&old), Some(&new));
    assert_eq!((result.is_empty(), result.significance), (true, Significance::Insignificant));
    let later = object(
        "3",
        json!({"kubectl.kubernetes.io/last-applied-configuration": "{}"}),
        json!([{"manager": "b", "time": "9"}]),
    );
    assert_eq!(compare(Some(&new), Some(&later)).significance, Significance::Same);
    let options = DiffOptions { cleaning: NoiseFilter::Compare, kind: None, redactor: None };
    assert_eq!(
        shown(&diff_objects(Some(&old), Some(&new), &options).expect("shallow")),
        [r#"metadata.managedFields[0].manager: "a" → "b""#]
    );
    let template = |metadata: Value| json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {"metadata": metadata}}});
    assert!(
        compare(Some(&template(json!({"creationTimestamp": null}))), Some(&template(json!({})))).is_empty()
    );
}

#[test]
fn secrets_never_show() {
    let secret = |password: &str, user: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": format!("{{\"data\":{{\"password\":\"{password}\"}}}}")}},
            "data": {"password": password, "user": user}})
    };
    let (old, new) = (secret("aHVudGVyMg==", "cm9vdA=="), secret("c3dvcmRmaXNo", "cm9vdA=="));
    for cleaning in [NoiseFilter::Compare, NoiseFilter::Show, NoiseFilter::ShowInsignificant] {
        let redactor = ValueRedactor::new(*b"key");
        let result = diff_objects(
            Some(&old),
            Some(&new),
            &DiffOptions { cleaning, kind: None, redactor: Some(&redactor) },
        )
        .expect("shallow");
        let everything = format!("{result:?} {:?}", result.line_hunks(|value| format!("{value:#}"), 3));
        for word in ["aHVudGVyMg", "c3dvcmRmaXNo", "cm9vdA"] {
            assert!(!everything.contains(word), "{word} shows with {cleaning:?}");
        }
        let paths: Vec<&str> = result
            .changes
            .iter()
            .map(|change| change.path.as_str())
            .filter(|path| path.starts_with("data"))
            .collect();
        assert_eq!(paths, ["data.password"], "what did not change is not shown as changed");
    }
    let result = compare(Some(&old), Some(&new));
    assert_eq!(result.significance, Significance::Significant);
    assert!(
        shown(&result)[0].starts_with("data.password: \"<hidden>\" → \"<hidden, changed>\""),
        "{:?}",
        shown(&result)
    );
    let run = ValueRedactor::per_run().placeholder(&json!("x"));
    assert_eq!(run, ValueRedactor::per_run().placeholder(&json!("x")), "the same throughout a run");
    assert_ne!(run, ValueRedactor::new(Vec::new()).placeholder(&json!("x")), "and salted");
    let other_key = ValueRedactor::new(*b"other");
    assert_ne!(other_key.placeholder(&json!("x")), ValueRedactor::new(*b"key").placeholder(&json!("x")));
    assert_eq!(
        other_key
            .placeholder(&json!([1, 2]))
            .as_str()
            .map(|text| text.starts_with("<hidden 2 sensitive entries, hash ")),
        Some(true)
    );
}

#[test]
fn annotations_say_what_is_sensitive() {
    let with = |annotation: &str, value: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": {annotation: value}},
            "spec": {"containers": [{"name": "c", "env": [{"name": "A", "value": "topsecret"}]}], "deep": {"password": "hunter2"}}})
    };
    let paths = with("werf.io/sensitive-paths", "$.spec.containers[*].env[*].value, $..password");
    let text = format!("{:?}", compare(None, Some(&paths)));
    assert!(
        !text.contains("topsecret") && !text.contains("hunter2") && text.contains("containers"),
        "{text}"
    );
    let whole = with("werf.io/sensitive", "true");
    let result = compare(None, Some(&whole));
    assert_eq!(result.sensitivity, Sensitivity::Whole);
    assert!(!format!("{result:?}").contains("containers"));
    let unreadable = with("werf.io/sensitive-paths", "$.a[");
    assert_eq!(compare(None, Some(&unreadable)).sensitivity, Sensitivity::Whole);
    let revealed = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"annotations": {"werf.io/sensitive": "false"}}, "data": {"a": "YQ=="}});
    assert_eq!(compare(None, Some(&revealed)).sensitivity, Sensitivity::None);
}

#[test]
fn lines_come_in_hunks_with_context() {
    let old = json!({"data": {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6, "g": 7, "h": 8}});
    let new = json!({"data": {"a": 0, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6, "g": 7, "h": 9}});
    let options = DiffOptions { cleaning: NoiseFilter::Show, kind: None, redactor: None };
    let hunks = diff_objects(Some(&old), Some(&new), &options)
        .expect("shallow")
        .line_hunks(|value| format!("{value:#}"), 1);
    assert_eq!(hunks.len(), 2);
    let first: Vec<_> = hunks[0].lines.iter().map(|line| (line.kind, line.text.trim())).collect();
    assert_eq!(
        first,
        [
            (LineKind::Context, "\"data\": {"),
            (LineKind::Removed, "\"a\": 1,"),
            (LineKind::Added, "\"a\": 0,"),
            (LineKind::Context, "\"b\": 2,")
        ]
    );
}

proptest! {
    #[test]
    fn equal_means_no_changes(a in crate::patch::any_pod(), b in crate::patch::any_pod()) {
        let result = compare(Some(&a), Some(&b));
        prop_assert_eq!(result.changes.is_empty(), result.old == result.new);
        prop_assert!(compare(Some(&a), Some(&a)).is_empty());
    }

    #[test]
    fn no_path_panics(text in r"[$.\[\]*a-c'0-9]{0,12}") {
        let object = json!({"metadata": {"annotations": {"werf.io/sensitive-paths": text}}, "a": [{"b": "c"}]});
        let _ = compare(None, Some(&object));
    }
}
