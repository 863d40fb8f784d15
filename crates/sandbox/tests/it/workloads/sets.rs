//! Stateful sets and daemon sets.

use std::time::Duration;

use serde_json::json;

use super::*;

const SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
const S: &str = "/apis/apps/v1/namespaces/default/statefulsets/s";
const DAEMONS: &str = "/apis/apps/v1/namespaces/default/daemonsets";
const D: &str = "/apis/apps/v1/namespaces/default/daemonsets/d";

fn set(replicas: i64, annotations: Value, more: Value) -> Value {
    let mut spec = json!({
        "replicas": replicas, "serviceName": "svc",
        "selector": {"matchLabels": {"app": "a"}}, "template": template(annotations),
    });
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s"}, "spec": spec})
}

fn images(pods: &[Value]) -> Vec<String> {
    let mut out: Vec<String> = pods
        .iter()
        .map(|p| {
            let image = p["spec"]["containers"][0]["image"].as_str().unwrap();
            format!("{} {image}", p["metadata"]["name"].as_str().unwrap())
        })
        .collect();
    out.sort();
    out
}

#[tokio::test]
async fn numbered_pods_in_order() {
    let world = World::new();
    world.create(SETS, set(3, json!({}), json!({}))).await;
    let s = world.get(S).await;
    let revision = s["status"]["updateRevision"].as_str().unwrap();
    assert_eq!(
        s["status"],
        json!({
            "observedGeneration": 1, "replicas": 3, "readyReplicas": 3, "currentReplicas": 3,
            "updatedReplicas": 3, "currentRevision": revision, "updateRevision": revision,
            "collisionCount": 0, "availableReplicas": 3,
        })
    );
    let pods = world.items(PODS).await;
    assert_eq!(names(&pods), ["s-0", "s-1", "s-2"]);
    assert_eq!(
        pods[1]["metadata"]["labels"],
        json!({
            "app": "a", "apps.kubernetes.io/pod-index": "1", "controller-revision-hash": revision,
            "statefulset.kubernetes.io/pod-name": "s-1",
        })
    );
    assert_eq!(pods[1]["spec"]["hostname"], "s-1");
    assert_eq!(pods[1]["spec"]["subdomain"], "svc");
    let born = |p: &Value| p["status"]["startTime"].as_str().unwrap().to_owned();
    assert!(born(&pods[0]) <= born(&pods[1]) && born(&pods[1]) <= born(&pods[2]));
    let revisions = world.items("/apis/apps/v1/namespaces/default/controllerrevisions").await;
    assert_eq!(revisions[0]["revision"], 1);
    assert_eq!(revisions[0]["metadata"]["name"], revision);
    let hash = revision.strip_prefix("s-").unwrap();
    let labels = json!({"app": "a", "controller.kubernetes.io/hash": hash});
    assert_eq!(revisions[0]["metadata"]["labels"], labels);
    assert_eq!(revisions[0]["data"]["spec"]["template"]["$patch"], "replace");
    world.patch(S, json!({"spec": {"replicas": 1}})).await;
    assert_eq!(names(&world.items(PODS).await), ["s-0"]);
}

#[tokio::test]
async fn one_that_is_not_ready_holds_up_the_rest() {
    for (policy, count) in [("OrderedReady", 1), ("Parallel", 3)] {
        let world = World::new();
        let policy = json!({"podManagementPolicy": policy});
        world.create(SETS, set(3, json!({"sim/fail": "unready"}), policy.clone())).await;
        assert_eq!(world.items(PODS).await.len(), count, "{policy}");
    }
}

#[tokio::test]
async fn updates_go_from_the_highest_number_to_the_partition() {
    let world = World::new();
    world.create(SETS, set(3, json!({}), json!({}))).await;
    world.patch(S, json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 1}}}})).await;
    world.merge(S, image("nginx:2")).await;
    assert_eq!(images(&world.items(PODS).await), ["s-0 nginx:1", "s-1 nginx:2", "s-2 nginx:2"]);
    let s = world.get(S).await;
    assert_eq!(s["status"]["updatedReplicas"], 2);
    assert_eq!(s["status"]["currentReplicas"], 1);
    assert_ne!(s["status"]["currentRevision"], s["status"]["updateRevision"]);
    // A pod below the partition comes back as it was.
    world.delete(&format!("{PODS}/s-0")).await;
    assert_eq!(images(&world.items(PODS).await)[0], "s-0 nginx:1");
    world.patch(S, json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})).await;
    let s = world.get(S).await;
    assert_eq!(s["status"]["updatedReplicas"], 3);
    assert_eq!(s["status"]["currentRevision"], s["status"]["updateRevision"]);
    assert_eq!(images(&world.items(PODS).await)[0], "s-0 nginx:2");
    // Going back raises the first revision instead of making a third.
    world.merge(S, image("nginx:1")).await;
    let mut revisions = world.items("/apis/apps/v1/namespaces/default/controllerrevisions").await;
    revisions.sort_by_key(|r| r["revision"].as_i64());
    let numbers: Vec<_> = revisions.iter().map(|r| r["revision"].as_i64().unwrap()).collect();
    assert_eq!(numbers, [2, 3]);
}

#[tokio::test]
async fn only_deleted_pods_are_replaced_on_delete() {
    let world = World::new();
    world.create(SETS, set(2, json!({}), json!({"updateStrategy": {"type": "OnDelete"}}))).await;
    world.merge(S, image("nginx:2")).await;
    assert_eq!(images(&world.items(PODS).await), ["s-0 nginx:1", "s-1 nginx:1"]);
    world.delete(&format!("{PODS}/s-1")).await;
    assert_eq!(images(&world.items(PODS).await), ["s-0 nginx:1", "s-1 nginx:2"]);
}

/// The pods of both have the same names.
#[tokio::test]
async fn a_set_that_follows_another_waits_for_its_pods_to_be_gone() {
    let world = World::new();
    world.create(SETS, set(1, json!({}), json!({}))).await;
    world.merge(&format!("{PODS}/s-0"), json!({"metadata": {"finalizers": ["example.com/hold"]}})).await;
    world.delete(S).await;
    let next = world.create(SETS, set(1, json!({}), json!({}))).await;
    let owner = async || world.items(PODS).await[0]["metadata"]["ownerReferences"][0]["uid"].clone();
    assert_ne!(owner().await, next["metadata"]["uid"]);
    world.merge(&format!("{PODS}/s-0"), json!({"metadata": {"finalizers": null}})).await;
    world.sandbox.advance(Duration::from_secs(61)).await;
    assert_eq!(owner().await, next["metadata"]["uid"]);
    assert_eq!(world.get(S).await["status"]["readyReplicas"], 1);
}

#[tokio::test]
async fn claims_of_their_own() {
    let claims = json!([{
        "metadata": {"name": "v"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }]);
    let path = "/api/v1/namespaces/default/persistentvolumeclaims";
    for (when, left) in [("Retain", 2), ("Delete", 1)] {
        let world = World::new();
        let more = json!({
            "volumeClaimTemplates": claims,
            "persistentVolumeClaimRetentionPolicy": {"whenScaled": when, "whenDeleted": "Retain"},
        });
        world.create(SETS, set(2, json!({}), more)).await;
        let found = world.items(path).await;
        assert_eq!(names(&found), ["v-s-0", "v-s-1"]);
        assert_eq!(found[0]["metadata"]["labels"], json!({"app": "a"}));
        assert!(found[0]["metadata"].get("ownerReferences").is_none());
        assert_eq!(found[0]["status"]["phase"], "Bound");
        assert_eq!(world.get(S).await["status"]["readyReplicas"], 2);
        world.patch(S, json!({"spec": {"replicas": 1}})).await;
        assert_eq!(world.items(path).await.len(), left, "{when}");
    }
}

fn daemon(more: Value) -> Value {
    let mut spec = json!({"selector": {"matchLabels": {"app": "a"}}, "template": template(json!({}))});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d"}, "spec": spec})
}

#[tokio::test]
async fn one_on_every_node() {
    let world = World::new();
    world.create(DAEMONS, daemon(json!({}))).await;
    assert_eq!(
        world.get(D).await["status"],
        json!({
            "currentNumberScheduled": 2, "numberMisscheduled": 0, "desiredNumberScheduled": 2,
            "numberReady": 2, "observedGeneration": 1, "updatedNumberScheduled": 2, "numberAvailable": 2,
        })
    );
    let pods = world.items(PODS).await;
    let mut nodes: Vec<_> = pods.iter().map(|p| p["spec"]["nodeName"].as_str().unwrap()).collect();
    nodes.sort_unstable();
    assert_eq!(nodes, ["node-1", "node-2"]);
    let mut keys: Vec<_> = pods[0]["spec"]["tolerations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["key"].as_str().unwrap())
        .collect();
    keys.sort_unstable();
    let want =
        ["disk-pressure", "memory-pressure", "not-ready", "pid-pressure", "unreachable", "unschedulable"];
    assert_eq!(keys, want.map(|w| format!("node.kubernetes.io/{w}")));
    assert_eq!(pods[0]["metadata"]["labels"]["pod-template-generation"], "1");
    // A new node gets one, a node that goes takes its own along.
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-3"}});
    world.create("/api/v1/nodes", node).await;
    assert_eq!(world.items(PODS).await.len(), 2, "not before it is ready");
    world.patch("/api/v1/nodes/node-3", json!({"spec": {"taints": null}})).await;
    assert_eq!(world.items(PODS).await.len(), 3);
    world.delete("/api/v1/nodes/node-3").await;
    assert_eq!(world.items(PODS).await.len(), 2);
}

#[tokio::test]
async fn daemons_are_replaced() {
    let surge = json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}});
    for more in [json!({}), surge] {
        let world = World::new();
        world.create(DAEMONS, daemon(more)).await;
        world.merge(D, image("nginx:2")).await;
        let pods = world.items(PODS).await;
        assert_eq!(pods.len(), 2);
        assert!(pods.iter().all(|p| p["spec"]["containers"][0]["image"] == "nginx:2"));
        let d = world.get(D).await;
        assert_eq!(d["status"]["updatedNumberScheduled"], 2);
        assert_eq!(d["status"]["numberAvailable"], 2);
    }
}
