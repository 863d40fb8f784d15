//! Patches against what kubectl 1.32 and a 1.37 server answer.

use proptest::prelude::*;
use serde_json::{Value, json};
use slipway_manifest::patch::{PatchError, json as json_patch, merge, strategic};
use slipway_manifest::schema::{Schema, TypeRef};

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "finalizers": ["a/a", "b/b"]},
        "spec": {
            "containers": [
                {"name": "c1", "image": "i1", "env": [{"name": "A", "value": "1"}]},
                {"name": "c2", "image": "i2"}
            ],
            "volumes": [{"name": "v", "emptyDir": {}}]
        }
    })
}

fn pod_type() -> Option<TypeRef<'static>> {
    Schema::built_in().types().type_of_kind("v1", "Pod")
}

/// Sets what stands at a pointer.
fn with(mut value: Value, pointer: &str, new: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    let parent = value.pointer_mut(parent).expect("a parent").as_object_mut().expect("a map");
    if new.is_null() {
        parent.shift_remove(key);
    } else {
        parent.insert(key.to_owned(), new);
    }
    value
}

#[test]
fn strategic_patches_merge_as_kubectl_does() {
    let c1 = json!({"name": "c1", "image": "i1", "env": [{"name": "A", "value": "1"}]});
    let c2 = json!({"name": "c2", "image": "i2"});
    let cases = [
        (
            "directive on a missing map",
            json!({"metadata": {"labels": {"$patch": "replace", "x": "y"}}}),
            pod(),
        ),
        ("delete of a missing map", json!({"metadata": {"labels": {"$patch": "delete", "x": "y"}}}), pod()),
        (
            "nested directive on a missing map",
            json!({"spec": {"securityContext": {"seLinuxOptions": {"$patch": "replace", "level": "x"}, "runAsUser": 1}}}),
            with(pod(), "/spec/securityContext", json!({"runAsUser": 1})),
        ),
        (
            "a new item goes first",
            json!({"spec": {"containers": [{"name": "new", "image": "x"}]}}),
            with(pod(), "/spec/containers", json!([{"name": "new", "image": "x"}, c1, c2])),
        ),
        (
            "a new item after a changed one",
            json!({"spec": {"containers": [{"name": "c2", "image": "z"}, {"name": "c3", "image": "x"}]}}),
            with(
                pod(),
                "/spec/containers",
                json!([c1, {"name": "c2", "image": "z"}, {"name": "c3", "image": "x"}]),
            ),
        ),
        (
            "retainKeys switches a union",
            json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "x"}}]}}),
            with(pod(), "/spec/volumes", json!([{"name": "v", "configMap": {"name": "x"}}])),
        ),
        (
            "primitives leave and join",
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/a"], "finalizers": ["d/d"]}}),
            with(pod(), "/metadata/finalizers", json!(["d/d", "b/b"])),
        ),
        (
            "primitives in order",
            json!({"metadata": {"$setElementOrder/finalizers": ["d/d", "b/b", "a/a"], "finalizers": ["d/d"]}}),
            with(pod(), "/metadata/finalizers", json!(["d/d", "b/b", "a/a"])),
        ),
        (
            "duplicate primitives",
            json!({"metadata": {"finalizers": ["d/d", "d/d", "b/b"]}}),
            with(pod(), "/metadata/finalizers", json!(["d/d", "a/a", "b/b"])),
        ),
        (
            "reorder alone",
            json!({"spec": {"$setElementOrder/containers": [{"name": "c2"}, {"name": "c1"}]}}),
            with(pod(), "/spec/containers", json!([c2, c1])),
        ),
        (
            "replace a list",
            json!({"spec": {"containers": [{"$patch": "replace"}, {"name": "q", "image": "z"}]}}),
            with(pod(), "/spec/containers", json!([{"name": "q", "image": "z"}])),
        ),
        (
            "delete and add the same item",
            json!({"spec": {"containers": [{"name": "c1", "$patch": "delete"}, {"name": "c1", "image": "z"}]}}),
            with(pod(), "/spec/containers", json!([{"name": "c1", "image": "z"}, c2])),
        ),
        (
            "delete a nested item",
            json!({"spec": {"containers": [{"name": "c1", "env": [{"name": "A", "$patch": "delete"}]}]}}),
            with(pod(), "/spec/containers", json!([{"name": "c1", "image": "i1", "env": []}, c2])),
        ),
        (
            "directives in a list the object lacks",
            json!({"spec": {"imagePullSecrets": [{"$patch": "delete", "name": "q"}, {"name": "z"}]}}),
            with(pod(), "/spec/imagePullSecrets", json!([{"name": "z"}])),
        ),
        (
            "order and directives in a list the object lacks",
            json!({"spec": {"$setElementOrder/imagePullSecrets": [{"name": "z"}],
                "imagePullSecrets": [{"$patch": "delete", "name": "q"}, {"name": "z"}]}}),
            with(pod(), "/spec/imagePullSecrets", json!([{"name": "z"}])),
        ),
        (
            "an atomic list is replaced",
            json!({"spec": {"tolerations": [{"key": "a", "value": null}]}}),
            with(pod(), "/spec/tolerations", json!([{"key": "a"}])),
        ),
        ("an empty list merges to nothing new", json!({"spec": {"containers": []}}), pod()),
        ("null deletes", json!({"spec": {"volumes": null}}), with(pod(), "/spec/volumes", Value::Null)),
        (
            "another type replaces",
            json!({"metadata": {"finalizers": {"a": "b"}}}),
            with(pod(), "/metadata/finalizers", json!({"a": "b"})),
        ),
    ];
    for (name, patch, expected) in cases {
        assert_eq!(strategic::apply(pod(), patch, pod_type()), Ok(expected), "{name}");
    }
}

#[test]
fn strategic_patches_fail_as_kubectl_does() {
    for (patch, message) in [
        (
            json!({"spec": {"containers": [{"image": "x"}]}}),
            "map: map[image:x] does not contain declared merge key: name",
        ),
        (
            json!({"spec": {"containers": [{"$patch": "delete"}]}}),
            "map: map[$patch:delete] does not contain declared merge key: name",
        ),
        (
            json!({"spec": {"containers": [{"name": "c", "$patch": "foo"}]}}),
            "unknown patch type: foo in map: map[$patch:foo name:c]",
        ),
        (
            json!({"spec": {"$patch": "merge", "hostNetwork": true}}),
            "unknown patch type: merge in map: map[$patch:merge hostNetwork:true]",
        ),
        (
            json!({"spec": {"containers": [{"name": "q", "$patch": "merge"}]}}),
            "merging lists cannot yet be specified in the patch",
        ),
        (
            json!({"spec": {"containers": ["a"]}}),
            "list element types are not identical: [[map[env:[map[name:A value:1]] image:i1 name:c1] map[image:i2 name:c2]] [a]]",
        ),
        (
            json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name"], "configMap": {"name": "x"}}]}}),
            "invalid patch format of retainKeys",
        ),
        (json!({"spec": {"$retainKeys": "x"}}), "invalid patch format of retainKeys"),
        (
            json!({"spec": {"$setElementOrder/containers": "x"}}),
            "expected a []interface {}, but received a string",
        ),
        (
            json!({"spec": {"$setElementOrder/containers": [{"name": "c2"}, {"name": "c1"}],
                "containers": [{"name": "c1", "image": "z"}, {"name": "c2", "image": "y"}]}}),
            "The order in patch list:\n[map[image:z name:c1] map[image:y name:c2]]\n doesn't match $setElementOrder list:\n[map[name:c2] map[name:c1]]\n",
        ),
        (json!([1]), "invalid JSON document"),
    ] {
        let error = strategic::apply(pod(), patch, pod_type()).expect_err(message);
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn a_type_nobody_knows_merges_maps_and_replaces_lists() {
    let merged = strategic::apply(
        json!({"spec": {"a": {"x": 1, "y": 2}, "l": [{"name": "1"}]}}),
        json!({"spec": {"a": {"y": null, "z": 3}, "l": [{"name": "2"}]}}),
        None,
    );
    assert_eq!(merged, Ok(json!({"spec": {"a": {"x": 1, "z": 3}, "l": [{"name": "2"}]}})));
}

#[test]
fn json_patches_fail_as_kubectl_does() {
    for (operation, message) in [
        (json!({"op": "foo", "path": "/x"}), "Unexpected kind: foo"),
        (
            json!({"op": "add", "path": "/spec/x/y", "value": 1}),
            "add operation does not apply: doc is missing path: \"/spec/x/y\": missing value",
        ),
        (
            json!({"op": "add", "path": "", "value": {}}),
            "add operation does not apply: doc is missing path: \"\": missing value",
        ),
        (json!({"op": "add", "value": {}}), "add operation failed to decode path: missing value"),
        (
            json!({"op": "add", "path": "/spec/containers/9", "value": {}}),
            "error in add for path: '/spec/containers/9': Unable to access invalid index: 9: invalid index referenced",
        ),
        (
            json!({"op": "add", "path": "/spec/containers/x", "value": {}}),
            "error in add for path: '/spec/containers/x': value was not a proper array index: 'x': strconv.Atoi: parsing \"x\": invalid syntax",
        ),
        (
            json!({"op": "remove", "path": "/spec/zz"}),
            "error in remove for path: '/spec/zz': Unable to remove nonexistent key: zz: missing value",
        ),
        (
            json!({"op": "remove", "path": ""}),
            "remove operation does not apply: doc is missing path: \"\": missing value",
        ),
        (
            json!({"op": "test", "path": "/spec/nodeName", "value": "n"}),
            "testing value /spec/nodeName failed: test failed",
        ),
        (
            json!({"op": "test", "path": "/spec/x/y", "value": "n"}),
            "test operation does not apply: is missing path: /spec/x/y: missing value",
        ),
        (
            json!({"op": "move", "path": "/x"}),
            "move operation failed to decode from: operation, missing from field: missing value",
        ),
        (
            json!({"op": "move", "from": "/spec/q", "path": "/spec/x"}),
            "error in move for path: 'q': Unable to remove nonexistent key: q: missing value",
        ),
        (
            json!({"op": "move", "from": "/spec/q/z", "path": "/spec/x"}),
            "move operation does not apply: doc is missing from path: /spec/q/z: missing value",
        ),
        (
            json!({"op": "copy", "from": "/spec/q/z", "path": "/spec/x"}),
            "copy operation does not apply: doc is missing from path: /spec/q/z: missing value",
        ),
        (
            json!({"op": "copy", "from": "/spec/containers/5", "path": "/spec/x"}),
            "error in copy for from: '/spec/containers/5': Unable to access invalid index: 5: invalid index referenced",
        ),
        (
            json!({"op": "copy", "from": "/spec/nodeName", "path": "/spec/containers/9"}),
            "error while adding value during copy: Unable to access invalid index: 9: invalid index referenced",
        ),
    ] {
        let error = json_patch::apply(pod(), &json!([operation])).expect_err(message);
        assert_eq!(error.to_string(), message);
    }
    assert_eq!(
        json_patch::apply(pod(), &json!({})).map_err(|error| error.to_string()),
        Err("error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp".to_owned())
    );
}

#[test]
fn json_patches_apply() {
    let names = |value: &Value| value["metadata"]["finalizers"].to_string();
    for (operations, finalizers) in [
        (json!([{"op": "remove", "path": "/metadata/finalizers/-1"}]), r#"["a/a"]"#),
        (json!([{"op": "add", "path": "/metadata/finalizers/-1", "value": "q"}]), r#"["a/a","b/b","q"]"#),
        (json!([{"op": "add", "path": "/metadata/finalizers/-", "value": "q"}]), r#"["a/a","b/b","q"]"#),
        (
            json!([{"op": "move", "from": "/metadata/finalizers/0", "path": "/metadata/finalizers/1"}]),
            r#"["b/b","a/a"]"#,
        ),
        (
            json!([{"op": "copy", "from": "/metadata/finalizers/0", "path": "/metadata/finalizers/-"}]),
            r#"["a/a","b/b","a/a"]"#,
        ),
        (
            json!([{"op": "test", "path": "/metadata/finalizers", "value": ["a/a", "b/b"]}]),
            r#"["a/a","b/b"]"#,
        ),
    ] {
        let patched = json_patch::apply(pod(), &operations).expect("applies");
        assert_eq!(names(&patched), finalizers, "{operations}");
    }
    let replaced =
        json_patch::apply(json!({"a": {}}), &json!([{"op": "replace", "path": "/a/x~1y", "value": 1}]));
    assert_eq!(replaced, Ok(json!({"a": {"x/y": 1}})), "replace of a missing key adds it");
}

#[test]
fn merge_patches_apply() {
    for (document, patch, expected) in [
        (
            json!({"a": 1, "b": 2}),
            json!({"a": null, "c": {"d": null, "e": 1}}),
            json!({"b": 2, "c": {"e": 1}}),
        ),
        (json!({"l": [1]}), json!({"l": [{"x": null}]}), json!({"l": [{}]})),
        (json!({"l": {"a": 1}}), json!({"l": [{"x": null}]}), json!({"l": [{"x": null}]})),
        (json!({"l": [1]}), json!({"l": {"a": null, "b": 1}}), json!({"l": {"b": 1}})),
    ] {
        assert_eq!(merge::apply(document, patch), Ok(expected));
    }
    let three_way = merge::create_three_way(
        &json!({"spec": {"a": 1, "b": 2, "c": {"x": 1}}}),
        &json!({"spec": {"a": 5, "d": 1}}),
        &json!({"spec": {"a": 1, "b": 2, "c": {"x": 1}, "server": true}}),
    );
    assert_eq!(three_way, Ok(json!({"spec": {"b": null, "c": null, "a": 5, "d": 1}})));
}

#[test]
fn three_way_strategic_patches_leave_what_others_set() {
    let last = json!({"spec": {"containers": [{"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]}, {"name": "old", "image": "1"}]}});
    let manifest = json!({"spec": {"containers": [{"name": "a", "image": "2"}, {"name": "new", "image": "1"}], "strategy": 1}});
    let live = json!({"spec": {"containers": [
        {"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}], "imagePullPolicy": "Always"},
        {"name": "old", "image": "1"}, {"name": "injected", "image": "s"}]}});
    let patch = strategic::create_three_way(&last, &manifest, &live, pod_type()).expect("a patch");
    assert_eq!(
        patch,
        json!({"spec": {
            "$setElementOrder/containers": [{"name": "a"}, {"name": "new"}],
            "containers": [{"env": null, "name": "a", "image": "2"}, {"name": "new", "image": "1"}, {"$patch": "delete", "name": "old"}],
            "strategy": 1
        }})
    );
    let result = strategic::apply(live, patch, pod_type()).expect("applies");
    let names: Vec<_> =
        result["spec"]["containers"].as_array().expect("a list").iter().map(|c| c["name"].as_str()).collect();
    assert_eq!(names, [Some("a"), Some("new"), Some("injected")]);
    assert_eq!(
        result["spec"]["containers"][0],
        json!({"name": "a", "image": "2", "imagePullPolicy": "Always"})
    );
}

#[test]
fn too_deep_is_an_error() {
    let deep = (0..300).fold(json!(1), |inner, _| json!({"a": inner}));
    assert!(matches!(merge::apply(json!({}), deep.clone()), Err(PatchError::TooDeep(_))));
    assert!(matches!(strategic::apply(json!({}), deep.clone(), None), Err(PatchError::TooDeep(_))));
    assert!(matches!(json_patch::apply(deep, &json!([])), Err(PatchError::TooDeep(_))));
}

#[test]
fn copies_of_copies_end() {
    let copy = json!({"op": "copy", "from": "/a", "path": "/a/x"});
    let nest = json_patch::apply(json!({"a": {"b": "text"}}), &Value::Array(vec![copy.clone(); 9_000]));
    assert!(nest.is_err());
    let wide: Vec<Value> =
        (0..9_000).map(|n| json!({"op": "copy", "from": "/a", "path": format!("/a/{n}")})).collect();
    let error =
        json_patch::apply(json!({"a": {"b": "text"}}), &Value::Array(wide)).expect_err("grows without end");
    assert!(
        error.to_string().contains("deep") || error.to_string().starts_with("Unable to complete the copy"),
        "{error}"
    );
}

/// Pods with few names, so that generated ones overlap.
pub(crate) fn any_pod() -> impl Strategy<Value = Value> {
    let text = || prop::sample::select(vec!["a", "b", "c"]);
    let env = prop::collection::btree_map(text(), text(), 0..3).prop_map(|vars| {
        vars.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect::<Vec<_>>()
    });
    let container = (env, text(), prop::option::of(prop::collection::vec(text(), 0..3)));
    let containers = prop::collection::vec((text(), container), 0..4).prop_map(|items| {
        let mut seen = std::collections::HashSet::new();
        items
            .into_iter()
            .filter(|(name, _)| seen.insert(*name))
            .map(|(name, (env, image, args))| {
                let mut container = json!({"name": name, "image": image});
                if !env.is_empty() {
                    container["env"] = json!(env);
                }
                if let Some(args) = args {
                    container["args"] = json!(args);
                }
                container
            })
            .collect::<Vec<_>>()
    });
    let volume = prop::sample::select(vec![
        json!({"emptyDir": {}}),
        json!({"configMap": {"name": "x"}}),
        json!({"secret": {"secretName": "s"}}),
    ]);
    let volumes = prop::collection::btree_map(text(), volume, 0..3).prop_map(|volumes| {
        volumes
            .into_iter()
            .map(|(name, mut volume)| {
                volume["name"] = json!(name);
                volume
            })
            .collect::<Vec<_>>()
    });
    let finalizers =
        prop::collection::btree_set(text(), 0..3).prop_map(|set| set.into_iter().collect::<Vec<_>>());
    let labels = prop::option::of(prop::collection::btree_map(text(), text(), 0..3));
    (containers, volumes, finalizers, labels).prop_map(|(containers, volumes, finalizers, labels)| {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}});
        if !volumes.is_empty() {
            pod["spec"]["volumes"] = json!(volumes);
        }
        if !finalizers.is_empty() {
            pod["metadata"]["finalizers"] = json!(finalizers);
        }
        if let Some(labels) = labels {
            pod["metadata"]["labels"] = json!(labels);
        }
        pod
    })
}

/// Any small JSON value, for laws that hold for all of them.
pub(crate) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..3).prop_map(Value::from),
        prop::sample::select(vec!["a", "b", "$patch", "delete", "replace", ""]).prop_map(Value::from),
    ];
    let key = prop::sample::select(vec![
        "a",
        "b",
        "name",
        "spec",
        "containers",
        "metadata",
        "$patch",
        "$retainKeys",
        "$setElementOrder/containers",
        "finalizers",
    ]);
    leaf.prop_recursive(4, 32, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(key.clone(), inner, 0..4).prop_map(|map| Value::Object(
                map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
            )),
        ]
    })
}

proptest! {
    #[test]
    fn created_strategic_patches_lead_to_the_goal(from in any_pod(), to in any_pod()) {
        let patch = strategic::create(&from, &to, pod_type()).unwrap();
        let mut result = strategic::apply(from, patch, pod_type()).unwrap();
        // A merge can empty a list but not remove it where the goal has an empty one, and the reverse.
        for (pointer, key) in [("/metadata", "finalizers"), ("/spec", "volumes")] {
            let map = result.pointer_mut(pointer).unwrap().as_object_mut().unwrap();
            if map.get(key).is_some_and(|list| list.as_array().is_some_and(Vec::is_empty)) {
                map.shift_remove(key);
            }
        }
        prop_assert_eq!(result, to);
    }

    #[test]
    fn created_merge_patches_lead_to_the_goal(from in any_pod(), to in any_pod()) {
        let patch = merge::create(&from, &to).unwrap();
        prop_assert_eq!(merge::apply(from, patch).unwrap(), to);
    }

    #[test]
    fn created_json_patches_lead_to_the_goal(from in any_json(), to in any_json()) {
        let (from, to) = (json!({"a": from}), json!({"a": to}));
        let patch = json_patch::create(&from, &to).unwrap();
        prop_assert_eq!(json_patch::apply(from, &patch).unwrap(), to);
    }

    #[test]
    fn no_patch_panics(document in any_json(), patch in any_json()) {
        let _ = strategic::apply(document.clone(), patch.clone(), pod_type());
        let _ = strategic::create(&document, &patch, pod_type());
        let _ = strategic::create_three_way(&document, &patch, &document, pod_type());
        let _ = json_patch::apply(document.clone(), &patch);
        let _ = merge::apply(document, patch);
    }
}
