//! The shape of plans: the graphs of the specification, edge by edge.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use slipway_graph::Graph;
use slipway_manifest::{Gvk, ObjectRef};
use slipway_release::decide::{FollowUp, ObjectChange};
use slipway_release::ops::{self, GraphInput, Operation, RecordChanges};
use slipway_release::plan::{PlannedDeletion, PlannedObject, PlannedVisit};
use slipway_release::resource::annotations::{ReadMode, read};
use slipway_release::resource::{KindScope, Origin, Resource, Stored, normalise};
use slipway_release::stage::Stage;

pub(crate) fn resource(mut object: Value) -> Resource {
    let stored = if object["metadata"]["annotations"].get("helm.sh/hook").is_some() {
        Stored::Hook
    } else {
        Stored::Regular
    };
    let id = normalise(&mut object, "ns", KindScope::Namespaced);
    let (settings, problems) = read(&object, stored, &Origin::default(), "ns", ReadMode::Strict);
    assert!(problems.is_empty(), "{problems}");
    Resource {
        gvk: slipway_manifest::object::gvk(&object),
        id,
        object,
        stored,
        origin: Origin::default(),
        settings,
    }
}

fn config_map(name: &str, annotations: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "annotations": annotations}})
}

fn created(object: Value, stages: &[Stage], follow: FollowUp) -> PlannedObject {
    let resource = resource(object);
    let visits = PlannedVisit::in_stages(&resource, stages, &ObjectChange::Create, follow);
    PlannedObject::new(resource, nowhere(), visits)
}

fn deleted(object: Value) -> PlannedDeletion {
    let (at, live) = (nowhere(), Value::Null);
    PlannedDeletion { resource: resource(object), at, live, stage: Stage::Uninstall, excluded: false }
}

/// Where objects are does not matter to a graph.
fn nowhere() -> ObjectRef {
    ObjectRef::new(Gvk::new("", "v1", "ConfigMap"), None, "")
}

const TRACKED: FollowUp = FollowUp { track: true, delete_on_success: false, delete_on_failure: false };
const UNTRACKED: FollowUp = FollowUp { track: false, delete_on_success: false, delete_on_failure: false };

/// The edges in short words: `I.s→I0.s`.
fn edges(graph: &Graph<Operation>) -> BTreeSet<String> {
    let short = |id: &str| {
        id.replace("stage/install/weight:", "I")
            .replace("stage/post-install/weight:", "P")
            .replace("stage/install", "I")
            .replace("stage/post-install", "P")
            .replace("stage/uninstall", "U")
            .replace("stage/", "")
            .replace("/start", ".s")
            .replace("/end", ".e")
            .replace("create: ConfigMap/", "C ")
            .replace("track readiness: ConfigMap/", "T ")
            .replace("delete: ConfigMap/", "D ")
            .replace("track absence: ConfigMap/", "A ")
    };
    graph.edges().map(|(node, need)| format!("{}→{}", short(need.id()), short(node.id()))).collect()
}

fn expect(parts: &GraphInput<'_>, expected: &str) {
    let built = ops::build(parts).expect("has no cycle");
    let mut wanted = BTreeSet::new();
    for chain in expected.split(';').map(str::trim).filter(|chain| !chain.is_empty()) {
        let nodes: Vec<&str> = chain.split('→').map(str::trim).collect();
        wanted.extend(nodes.windows(2).map(|pair| format!("{}→{}", pair[0], pair[1])));
    }
    assert_eq!(edges(&built.graph), wanted);
}

fn parts(objects: &[PlannedObject]) -> GraphInput<'_> {
    GraphInput { objects, release_namespace: "ns", ..GraphInput::default() }
}

#[test]
fn one_new_resource() {
    let items = [created(config_map("a", json!({})), &[Stage::Install], TRACKED)];
    expect(&parts(&items), "I.s→I0.s→C a→T a→I0.e→I.e");
}

#[test]
fn one_deletion() {
    let deletions = [deleted(config_map("a", json!({})))];
    let parts = GraphInput { deletions: &deletions, release_namespace: "ns", ..GraphInput::default() };
    expect(&parts, "U.s→D a→A a→U.e");
}

#[test]
fn a_revision_alone_and_nothing() {
    let records = RecordChanges { create: Some(1.into()), ..RecordChanges::default() };
    let with = GraphInput { records, ..GraphInput::default() };
    expect(&with, "init.s→create release→init.e→final.s→update release: v1 deployed→final.e");
    expect(&GraphInput::default(), "");
}

#[test]
fn an_automatic_dependency() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"},
        "spec": {"containers": [{"envFrom": [{"configMapRef": {"name": "a"}}]}]}});
    let items = [
        created(config_map("a", json!({})), &[Stage::Install], UNTRACKED),
        created(pod, &[Stage::Install], UNTRACKED),
    ];
    expect(&parts(&items), "I.s→I0.s→C a→create: Pod/b→I0.e→I.e");
}

#[test]
fn dependencies_by_hand() {
    let present = json!({"werf.io/deploy-dependency-a": "state=present,kind=ConfigMap,name=a"});
    let items = [
        created(config_map("a", json!({})), &[Stage::Install], UNTRACKED),
        created(config_map("b", present), &[Stage::Install], UNTRACKED),
    ];
    expect(&parts(&items), "I.s→I0.s→C a→I0.e→I.e; C a→C b→I.e");

    let ready = json!({"werf.io/deploy-dependency-a": "state=ready,kind=ConfigMap,name=a"});
    let items = [
        created(config_map("a", json!({})), &[Stage::Install], TRACKED),
        created(config_map("b", ready), &[Stage::Install], TRACKED),
    ];
    let with = GraphInput { no_final_tracking: true, ..parts(&items) };
    expect(&with, "I.s→I0.s→C a→T a→I0.e→I.e; T a→C b→I.e");
}

#[test]
fn one_resource_in_two_stages() {
    let items = [created(config_map("a", json!({})), &[Stage::Install, Stage::PostInstall], UNTRACKED)];
    expect(&parts(&items), "I.s→I0.s→C a→I0.e→I.e→P.s→P0.s→C a (iteration=1)→P0.e→P.e");
}

#[test]
fn what_succeeds_is_cleaned_up_after_its_stage() {
    let follow = FollowUp { delete_on_success: true, ..UNTRACKED };
    let items = [created(config_map("a", json!({})), &[Stage::Install], follow)];
    expect(&parts(&items), "I.s→I0.s→C a→I0.e→I.e→U.s→D a→A a→U.e");
}

#[test]
fn weights_are_barriers() {
    let items = [
        created(config_map("a", json!({"werf.io/weight": "-1"})), &[Stage::Install], TRACKED),
        created(config_map("b", json!({"werf.io/weight": "5"})), &[Stage::Install], TRACKED),
    ];
    expect(&parts(&items), "I.s→I-1.s→C a→T a→I-1.e→I5.s→C b→T b→I5.e→I.e");
}

#[test]
fn records_of_deletes_and_upgrades() {
    let records = RecordChanges {
        delete: Some(2.into()),
        forget: vec![1.into(), 2.into()],
        ..RecordChanges::default()
    };
    expect(
        &GraphInput { records, ..GraphInput::default() },
        "init.s→update release: v2 uninstalling→init.e→final.s→delete release: v1→delete release: v2→final.e",
    );
    let records =
        RecordChanges { create: Some(3.into()), supersede: vec![2.into()], ..RecordChanges::default() };
    expect(
        &GraphInput { records, ..GraphInput::default() },
        "init.s→create release→init.e→final.s→update release: v3 deployed→update release: v2 superseded→final.e",
    );
}

#[test]
fn automatic_dependencies_never_make_a_plan_impossible() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"},
        "spec": {"containers": [{"envFrom": [{"configMapRef": {"name": "a"}}]}]}});
    let items = [
        created(config_map("a", json!({"werf.io/weight": "10"})), &[Stage::Install], UNTRACKED),
        created(pod, &[Stage::Install], UNTRACKED),
    ];
    let built = ops::build(&parts(&items)).expect("has no cycle");
    assert_eq!(built.warnings.len(), 1, "{}", built.warnings);

    let on = |name: &str| json!({"werf.io/deploy-dependency-x": format!("state=present,name={name}")});
    let items = [
        created(config_map("a", on("b")), &[Stage::Install], UNTRACKED),
        created(config_map("b", on("a")), &[Stage::Install], UNTRACKED),
    ];
    let problems = ops::build(&parts(&items)).expect_err("a cycle by hand").to_string();
    assert!(
        problems.contains("create: ConfigMap/a") && problems.contains("create: ConfigMap/b"),
        "{problems}"
    );
}

#[test]
fn five_thousand_resources_are_ordered_in_no_time() {
    let mut items = Vec::new();
    for number in 0..2500 {
        items.push(created(config_map(&format!("c{number}"), json!({})), &[Stage::Install], TRACKED));
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("p{number}")},
            "spec": {"containers": [{"envFrom": [{"configMapRef": {"name": format!("c{number}")}}]}]}});
        items.push(created(pod, &[Stage::Install], TRACKED));
    }
    let built = ops::build(&parts(&items)).expect("has no cycle");
    assert_eq!(built.graph.len(), 4 + 10_000);
}
