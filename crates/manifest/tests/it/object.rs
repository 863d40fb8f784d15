//! Identity of objects.

use serde_json::{Value, json};
use slipway_manifest::object::{self, check_identity, expand_lists};
use slipway_manifest::{Gvk, ObjectId};

#[test]
fn objects_say_who_they_are() {
    let mut web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop", "labels": {"a": "b"}}});
    assert_eq!(object::gvk(&web), Gvk::new("apps", "v1", "Deployment"));
    assert_eq!(object::gvk(&web).to_string(), "apps/v1, Kind=Deployment");
    assert_eq!(ObjectId::of(&web).to_string(), "Deployment shop/web");
    assert_eq!(
        ObjectId::of(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})).to_string(),
        "Node/n"
    );
    assert_eq!(object::labels(&web).collect::<Vec<_>>(), [("a", "b")]);
    object::set_annotation(&mut web, "x/y", "1");
    object::set_label(&mut web, "c", "d");
    assert_eq!((object::annotation(&web, "x/y"), object::label(&web, "c")), (Some("1"), Some("d")));
    let mut empty = json!({"metadata": null});
    object::set_label(&mut empty, "a", "b");
    assert_eq!(empty, json!({"metadata": {"labels": {"a": "b"}}}));
}

#[test]
fn lists_are_laid_open() {
    let objects = vec![
        json!({"apiVersion": "v1", "kind": "List", "items": [{"kind": "A"}, {"apiVersion": "v1", "kind": "List", "items": [{"kind": "B"}]}]}),
        json!({"apiVersion": "v1", "kind": "ConfigMapList", "items": [{"metadata": {"name": "c"}}]}),
        json!({"kind": "D"}),
        // No list: it has no items.
        json!({"kind": "AllowList"}),
    ];
    let kinds: Vec<Value> = expand_lists(objects).into_iter().map(|object| object["kind"].clone()).collect();
    assert_eq!(kinds, ["A", "B", "ConfigMap", "D", "AllowList"]);
}

#[test]
fn every_problem_of_an_identity_is_reported() {
    let good = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
    assert!(check_identity(&good, None).is_ok());
    let bad = json!({"kind": 5, "metadata": {"name": 7, "labels": {"a": true}}});
    let problems = check_identity(&bad, None).expect_err("problems").to_string();
    for expected in [
        "the object has no `apiVersion`",
        "`kind` must be a string, found a number",
        "`metadata.name` must be a string, found a number",
        "`metadata.labels` value of `a` must be a string, found a boolean",
    ] {
        assert!(problems.contains(expected), "{problems}");
    }
    assert!(
        check_identity(&json!([]), None)
            .expect_err("no map")
            .to_string()
            .contains("must be a map, found a list")
    );
}
