//! Ownership against what a 1.37 server records and answers.

use proptest::prelude::*;
use serde_json::{Value, json};
use slipway_manifest::apply::{
    AppliedObject, ApplyError, FieldManagers, ManagerOperation, WriteRequest, apply, compare, fields_of,
    merge, update,
};
use slipway_manifest::fields::FieldSet;
use slipway_manifest::schema::{Schema, TypeRef};

use crate::patch::any_pod;

fn kind(api_version: &str, kind: &str) -> TypeRef<'static> {
    Schema::built_in().types().type_of_kind(api_version, kind).expect("built in")
}

fn request<'a>(manager: &'a str, api_version: &'a str) -> WriteRequest<'a> {
    WriteRequest {
        manager,
        api_version,
        subresource: "",
        now: "2026-01-02T03:04:05Z",
        reset: None,
        served: &[],
    }
}

fn config_map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c1"}, "data": data})
}

fn apply_map(
    live: Option<&Value>,
    data: Value,
    manager: &str,
    force: bool,
) -> Result<AppliedObject, ApplyError> {
    apply(live, &config_map(data), kind("v1", "ConfigMap"), &request(manager, "v1"), force)
}

fn update_map(live: Option<&Value>, new: Value, manager: &str) -> Value {
    update(live, new, kind("v1", "ConfigMap"), &request(manager, "v1")).expect("an update")
}

/// `manager/operation: fieldsV1` lines.
fn owners(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    entries
        .iter()
        .map(|entry| {
            let text = |key: &str| entry[key].as_str().unwrap_or_default();
            format!("{}/{}: {}", text("manager"), text("operation"), entry["fieldsV1"])
        })
        .collect()
}

#[test]
fn a_created_deployment_has_the_owners_a_server_records() {
    let golden: Value = serde_json::from_str(include_str!("../data/deployment.json")).expect("JSON");
    let deployment = kind("apps/v1", "Deployment");
    let mut created = golden.clone();
    let metadata = created["metadata"].as_object_mut().expect("a map");
    metadata.shift_remove("managedFields");
    metadata.shift_remove("annotations");
    created["status"] = json!({});
    let status = FieldSet::of_field("status");
    let create =
        WriteRequest { now: "2026-11-15T20:02:25Z", reset: Some(&status), ..request("gold", "apps/v1") };
    let created = update(None, created, deployment, &create).expect("a create");
    assert_eq!(
        created["metadata"]["managedFields"][0].to_string(),
        golden["metadata"]["managedFields"][0].to_string()
    );

    let write = WriteRequest {
        subresource: "status",
        now: "2026-11-15T20:02:27Z",
        ..request("kube-controller-manager", "apps/v1")
    };
    let settled = update(Some(&created), golden.clone(), deployment, &write).expect("a status write");
    assert_eq!(
        settled["metadata"]["managedFields"].to_string(),
        golden["metadata"]["managedFields"].to_string()
    );
}

#[test]
fn field_sets_are_written_as_a_server_writes_them() {
    let config = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "labels": {"b": "1", "a": "2"}},
        "spec": {"selector": {"matchLabels": {"x": "y"}}, "template": {"spec": {
            "nodeSelector": {"q": "r"}, "tolerations": [],
            "containers": [{"name": "c1", "image": "i", "ports": [{"containerPort": 80}], "env": [], "resources": {}}]}}}});
    let applied = apply(None, &config, kind("apps/v1", "Deployment"), &request("m", "apps/v1"), false)
        .expect("applies");
    assert_eq!(
        owners(&applied.object),
        [concat!(
            r#"m/Apply: {"f:metadata":{"f:labels":{"f:a":{},"f:b":{}}},"f:spec":{"f:selector":{},"f:template":{"f:spec":{"#,
            r#""f:containers":{"k:{\"name\":\"c1\"}":{".":{},"f:image":{},"f:name":{},"#,
            r#""f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}},"f:resources":{}}},"#,
            r#""f:nodeSelector":{},"f:tolerations":{}}}}}"#
        )]
    );
    for (data, fields) in [
        (json!({}), r#"{"f:data":{}}"#),
        (json!(null), r#"{"f:data":{}}"#),
        (json!({"a": "1", "b": "2"}), r#"{"f:data":{"f:a":{},"f:b":{}}}"#),
    ] {
        assert_eq!(
            owners(&apply_map(None, data, "m", false).expect("applies").object),
            [format!("m/Apply: {fields}")]
        );
    }
    let created = update_map(None, config_map(json!({"k": "v"})), "u");
    assert_eq!(owners(&created), [r#"u/Update: {"f:data":{".":{},"f:k":{}}}"#]);
}

#[test]
fn conflicts_read_as_a_server_words_them() {
    let live = apply_map(None, json!({"a": "1", "b": "1"}), "m1", false).expect("applies").object;
    let error = apply_map(Some(&live), json!({"a": "2"}), "m2", false).expect_err("a conflict");
    assert_eq!(error.to_string(), r#"Apply failed with 1 conflict: conflict with "m1": .data.a"#);
    let error = apply_map(Some(&live), json!({"a": "2", "b": "2"}), "m2", false).expect_err("conflicts");
    assert_eq!(
        error.to_string(),
        "Apply failed with 2 conflicts: conflicts with \"m1\":\n- .data.a\n- .data.b"
    );

    let live = apply_map(Some(&live), json!({"b": "1", "c": "1"}), "m2", false).expect("shares").object;
    let mut edited = live.clone();
    edited["data"]["z"] = json!("1");
    let live = update_map(Some(&live), edited, "upd");
    let ApplyError::Conflicts(conflicts) =
        apply_map(Some(&live), json!({"a": "9", "c": "9", "z": "9"}), "m3", false).expect_err("conflicts")
    else {
        panic!("expected conflicts");
    };
    assert_eq!(
        conflicts.to_string(),
        "Apply failed with 3 conflicts: conflicts with \"m1\":\n- .data.a\nconflicts with \"m2\":\n- .data.c\nconflicts with \"upd\" using v1:\n- .data.z"
    );
    assert_eq!(conflicts.0[2].cause_message(), "conflict with \"upd\" using v1");

    let forced = apply_map(Some(&live), json!({"a": "9", "c": "9", "z": "9"}), "m3", true).expect("forced");
    assert_eq!(
        owners(&forced.object),
        [
            r#"m1/Apply: {"f:data":{"f:b":{}}}"#,
            r#"m2/Apply: {"f:data":{"f:b":{}}}"#,
            r#"m3/Apply: {"f:data":{"f:a":{},"f:c":{},"f:z":{}}}"#,
        ]
    );
}

#[test]
fn list_items_are_named_in_conflicts() {
    let deployment = |image: &str| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d1"},
            "spec": {"template": {"spec": {"containers": [{"name": "c1", "image": image}]}}}})
    };
    let of = kind("apps/v1", "Deployment");
    let live = apply(None, &deployment("1"), of, &request("a", "apps/v1"), false).expect("applies").object;
    let error =
        apply(Some(&live), &deployment("2"), of, &request("b", "apps/v1"), false).expect_err("a conflict");
    assert_eq!(
        error.to_string(),
        r#"Apply failed with 1 conflict: conflict with "a": .spec.template.spec.containers[name="c1"].image"#
    );
    let scale = WriteRequest { subresource: "scale", ..request("hpa", "apps/v1") };
    let mut scaled = live.clone();
    scaled["spec"]["replicas"] = json!(3);
    let scaled = update(Some(&live), scaled, of, &scale).expect("scales");
    let mut wants = deployment("1");
    wants["spec"]["replicas"] = json!(1);
    let error = apply(Some(&scaled), &wants, of, &request("a", "apps/v1"), false).expect_err("a conflict");
    assert_eq!(
        error.to_string(),
        r#"Apply failed with 1 conflict: conflict with "hpa" with subresource "scale" using apps/v1: .spec.replicas"#
    );
}

#[test]
fn what_does_not_fit_its_type_is_refused() {
    let of = kind("apps/v1", "Deployment");
    let spec = |containers: Value| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d1"},
            "spec": {"template": {"spec": {"containers": containers}}}})
    };
    let twice = spec(json!([{"name": "c2"}, {"name": "c2"}]));
    let cases = [
        (
            apply(None, &twice, of, &request("m", "apps/v1"), false),
            "failed to create typed patch object (/d1; apps/v1, Kind=Deployment): .spec.template.spec.containers: duplicate entries for key [name=\"c2\"]",
        ),
        (
            apply(
                None,
                &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c1"}, "foo": 1}),
                kind("v1", "ConfigMap"),
                &request("m", "v1"),
                false,
            ),
            "failed to create typed patch object (/c1; /v1, Kind=ConfigMap): .foo: field not declared in schema",
        ),
        (
            apply_map(None, json!({"a": 1}), "m", false),
            "failed to create typed patch object (/c1; /v1, Kind=ConfigMap): .data.a: expected string, got &value.valueUnstructured{Value:1}",
        ),
        (
            apply(
                None,
                &json!({"apiVersion": "v2", "kind": "ConfigMap"}),
                kind("v1", "ConfigMap"),
                &request("m", "v1"),
                false,
            ),
            "invalid object type: /v2, Kind=ConfigMap",
        ),
        (
            apply(
                None,
                &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"managedFields": []}}),
                kind("v1", "ConfigMap"),
                &request("m", "v1"),
                false,
            ),
            "metadata.managedFields must be nil",
        ),
    ];
    for (result, message) in cases {
        assert_eq!(result.expect_err(message).to_string(), message);
    }
    // A key left out takes the zero value, and validation speaks later.
    assert!(apply(None, &spec(json!([{"image": "x"}])), of, &request("m", "apps/v1"), false).is_ok());
}

#[test]
fn fields_no_longer_applied_go_unless_shared() {
    let live = apply_map(None, json!({"a": "1", "b": "1"}), "m1", false).expect("applies").object;
    let live = apply_map(Some(&live), json!({"b": "1"}), "m2", false).expect("shares").object;
    let less = apply_map(Some(&live), json!({}), "m1", false).expect("applies").object;
    assert_eq!(less["data"], json!({"b": "1"}));
    assert_eq!(owners(&less), [r#"m2/Apply: {"f:data":{"f:b":{}}}"#, r#"m1/Apply: {"f:data":{}}"#]);

    let of = kind("v1", "Pod");
    let pod = |containers: Value| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}});
    let live = apply(
        None,
        &pod(json!([{"name": "a", "image": "1"}, {"name": "b", "image": "1"}])),
        of,
        &request("m", "v1"),
        false,
    );
    let mut live = live.expect("applies").object;
    // A default nobody owns goes with the item it stands in.
    live["spec"]["containers"][1]["imagePullPolicy"] = json!("Always");
    let less = apply(Some(&live), &pod(json!([{"name": "a", "image": "1"}])), of, &request("m", "v1"), false)
        .expect("applies");
    assert_eq!(less.object["spec"]["containers"], json!([{"name": "a", "image": "1"}]));
    assert!(less.changed);
}

#[test]
fn applied_lists_keep_the_appliers_order_around_what_others_added() {
    let of = kind("v1", "Pod");
    let names = |value: &Value| -> Vec<String> {
        value["spec"]["containers"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|c| c["name"].as_str().unwrap_or("").to_owned())
            .collect()
    };
    let list = |names: &[&str]| json!({"spec": {"containers": names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>()}});
    for (live, config, expected) in [
        (&["a", "b"][..], &["b", "a"][..], &["b", "a"][..]),
        (&["a", "x", "b"], &["a", "b"], &["a", "x", "b"]),
        (&["x", "a"], &["n", "a"], &["x", "n", "a"]),
        (&["a", "b", "x"], &["b", "a", "c"], &["b", "x", "a", "c"]),
        (&[], &["a"], &["a"]),
        (&["a"], &[], &["a"]),
        (&["a", "b", "c", "x"], &["c", "b", "a"], &["c", "x", "b", "a"]),
    ] {
        assert_eq!(names(&merge(&list(live), &list(config), of)), expected, "{live:?} + {config:?}");
    }
}

#[test]
fn updates_take_from_appliers_even_of_the_same_name() {
    let live = apply_map(None, json!({"a": "1", "b": "1"}), "m1", false).expect("applies").object;
    let mut edited = live.clone();
    edited["data"]["a"] = json!("2");
    let live = update_map(Some(&live), edited, "m1");
    assert_eq!(owners(&live), [r#"m1/Apply: {"f:data":{"f:b":{}}}"#, r#"m1/Update: {"f:data":{"f:a":{}}}"#]);
    let error =
        apply_map(Some(&live), json!({"a": "1", "b": "1"}), "m1", false).expect_err("conflicts with itself");
    assert_eq!(error.to_string(), r#"Apply failed with 1 conflict: conflict with "m1" using v1: .data.a"#);
    // Writing what is there owns nothing.
    assert_eq!(update_map(Some(&live), live.clone(), "other"), live);
}

#[test]
fn an_apply_that_changes_nothing_has_no_time_and_sorts_first() {
    let live = apply_map(None, json!({"a": "1"}), "z", false).expect("applies").object;
    let shared = apply_map(Some(&live), json!({"a": "1"}), "m2", false).expect("shares");
    assert!(!shared.changed);
    let entries = &shared.object["metadata"]["managedFields"];
    assert_eq!((&entries[0]["manager"], entries[0].get("time")), (&json!("m2"), None));
    let again = apply_map(Some(&shared.object), json!({"a": "1"}), "m2", false).expect("shares");
    assert_eq!(again.object, shared.object);
}

#[test]
fn the_first_apply_gives_what_was_there_to_before_first_apply() {
    let live = config_map(json!({"a": "1"}));
    let applied = apply_map(Some(&live), json!({"b": "1"}), "m", false).expect("applies").object;
    assert_eq!(
        owners(&applied),
        [r#"m/Apply: {"f:data":{"f:b":{}}}"#, r#"before-first-apply/Update: {"f:data":{".":{},"f:a":{}}}"#]
    );
    let error = apply_map(Some(&live), json!({"a": "2"}), "m", false).expect_err("a conflict");
    assert_eq!(
        error.to_string(),
        r#"Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .data.a"#
    );
}

#[test]
fn managed_fields_can_be_reset_and_replaced() {
    let live = apply_map(None, json!({"a": "1"}), "m", false).expect("applies").object;
    for reset in [json!([]), json!([{}])] {
        let mut new = live.clone();
        new["metadata"]["managedFields"] = reset;
        let new = update_map(Some(&live), new, "u");
        assert_eq!(new["metadata"].get("managedFields"), None);
        let mut later = new.clone();
        later["data"]["x"] = json!("1");
        assert_eq!(
            owners(&update_map(Some(&new), later, "u")),
            Vec::<String>::new(),
            "nobody until the next apply"
        );
    }
    let mut new = live.clone();
    new["metadata"].as_object_mut().expect("a map").shift_remove("managedFields");
    assert_eq!(owners(&update_map(Some(&live), new, "u")), owners(&live), "left out is not reset");
    let mut new = live.clone();
    new["metadata"]["managedFields"][0]["manager"] = json!("kubectl");
    assert_eq!(owners(&update_map(Some(&live), new, "u")), [r#"kubectl/Apply: {"f:data":{"f:a":{}}}"#]);
}

#[test]
fn kubectl_may_change_what_it_applied_on_the_client() {
    let last = r#"{"apiVersion":"v1","data":{"a":"1"},"kind":"ConfigMap","metadata":{"annotations":{},"name":"c1"}}"#;
    let mut object = config_map(json!({"a": "1"}));
    object["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": last});
    let live = update_map(None, object, "kubectl-client-side-apply");
    let error = apply_map(Some(&live), json!({"a": "9"}), "other", false).expect_err("a conflict");
    assert_eq!(
        error.to_string(),
        r#"Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using v1: .data.a"#
    );
    let applied = apply_map(Some(&live), json!({"a": "9"}), "kubectl", false).expect("applies").object;
    assert_eq!(applied["data"], json!({"a": "9"}));
    assert_eq!(
        applied["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"],
        json!(
            "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"9\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"c1\"}}\n"
        )
    );
    let mut edited = live.clone();
    edited["data"]["a"] = json!("5");
    let live = update_map(Some(&live), edited, "edit");
    let error = apply_map(Some(&live), json!({"a": "9"}), "kubectl", false).expect_err("a conflict");
    assert_eq!(error.to_string(), r#"Apply failed with 1 conflict: conflict with "edit" using v1: .data.a"#);
}

#[test]
fn many_updaters_are_folded_and_dead_versions_dropped() {
    let mut live = update_map(None, config_map(json!({})), "first");
    for index in 0..14 {
        let mut new = live.clone();
        new["data"][format!("k{index}")] = json!("v");
        live = update_map(Some(&live), new, &format!("m{index:02}"));
    }
    let managers = FieldManagers::read_from(&live).expect("reads");
    assert_eq!(managers.0.len(), 10);
    assert!(managers.find_entry("ancient-changes", ManagerOperation::Update, "").is_some());
    let only_v2 = WriteRequest { served: &["v2"], ..request("m", "v2") };
    let mut new = live.clone();
    new["data"]["x"] = json!("1");
    let new = update(Some(&live), new, kind("v1", "ConfigMap"), &only_v2).expect("updates");
    assert_eq!(owners(&new), [r#"m/Update: {"f:data":{"f:x":{}}}"#]);
}

#[test]
fn reset_fields_are_not_owned() {
    let status = FieldSet::of_field("status");
    let request = WriteRequest { reset: Some(&status), ..request("m", "v1") };
    let config = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}});
    let applied = apply(None, &config, kind("v1", "Pod"), &request, false).expect("applies").object;
    assert_eq!(owners(&applied), [r#"m/Apply: {"f:spec":{"f:nodeName":{}}}"#]);
}

proptest! {
    #[test]
    fn applying_twice_is_applying_once(live in any_pod(), config in any_pod()) {
        let of = kind("v1", "Pod");
        let live = update(None, live, of, &request("creator", "v1")).unwrap();
        let once = apply(Some(&live), &config, of, &request("m", "v1"), true).unwrap();
        let twice = apply(Some(&once.object), &config, of, &request("m", "v1"), false).unwrap();
        prop_assert!(!twice.changed);
        prop_assert_eq!(twice.object, once.object);
    }

    #[test]
    fn the_last_apply_of_a_manager_decides(first in any_pod(), second in any_pod()) {
        let of = kind("v1", "Pod");
        let start = apply(None, &first, of, &request("m", "v1"), false).unwrap().object;
        let end = apply(Some(&start), &second, of, &request("m", "v1"), false).unwrap().object;
        let mut fields = fields_of(&end, of);
        fields = fields.difference(&fields_of(&second, of));
        let left: Vec<String> = fields.paths().iter().map(ToString::to_string).filter(|path| !path.contains("managedFields")).collect();
        prop_assert!(left.is_empty(), "left over: {:?}", left);
    }

    #[test]
    fn field_sets_survive_their_text(pod in any_pod()) {
        let set = fields_of(&pod, kind("v1", "Pod"));
        let text = set.to_fields_v1();
        prop_assert_eq!(FieldSet::from_fields_v1(&text).unwrap(), set);
    }

    #[test]
    fn set_operations_obey_their_laws(a in any_pod(), b in any_pod()) {
        let of = kind("v1", "Pod");
        let (a, b) = (fields_of(&a, of), fields_of(&b, of));
        let union = a.union(&b);
        prop_assert!(a.is_subset(&union) && b.is_subset(&union));
        prop_assert_eq!(&a.difference(&b).union(&a.intersection(&b)), &a);
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert!(a.difference(&b).intersection(&b).is_empty());
        let paths = union.paths();
        prop_assert_eq!(paths.iter().collect::<FieldSet>(), union);
    }

    #[test]
    fn a_value_does_not_differ_from_itself(pod in any_pod()) {
        prop_assert!(compare(&pod, &pod, kind("v1", "Pod")).is_empty());
    }

    #[test]
    fn no_apply_panics(live in crate::patch::any_json(), config in crate::patch::any_json()) {
        let of = kind("v1", "Pod");
        let _ = apply(Some(&live), &config, of, &request("m", "v1"), false);
        let _ = update(Some(&live), config, of, &request("m", "v1"));
    }
}
