//! Deployments and replica sets.

use serde_json::json;

use super::*;

const D: &str = "/apis/apps/v1/namespaces/default/deployments/d";

#[tokio::test]
async fn a_deployment_becomes_available_at_once() {
    let world = World::new();
    world.create(DEPLOYMENTS, deployment(3, json!({}), json!({}))).await;
    let d = world.get(D).await;
    let sets = world.items(REPLICA_SETS).await;
    let set = sets[0]["metadata"]["name"].as_str().unwrap();
    assert_eq!(
        counts(&d),
        json!({
            "observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3,
            "availableReplicas": 3, "terminatingReplicas": 0,
        })
    );
    assert_eq!(
        conditions(&d),
        [
            json!(["Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability."]),
            json!([
                "Progressing",
                "True",
                "NewReplicaSetAvailable",
                format!("ReplicaSet \"{set}\" has successfully progressed.")
            ]),
        ]
    );
    assert_eq!(d["metadata"]["annotations"], json!({"deployment.kubernetes.io/revision": "1"}));
    assert_eq!(d["metadata"]["generation"], 1);
    assert_eq!(world.said("ScalingReplicaSet").await, [format!("Scaled up replica set {set} from 0 to 3")]);
}

#[tokio::test]
async fn the_replica_set_is_as_a_real_one() {
    let world = World::new();
    let d = world.create(DEPLOYMENTS, deployment(1, json!({}), json!({}))).await;
    let set = &world.items(REPLICA_SETS).await[0];
    let hash = set["metadata"]["labels"]["pod-template-hash"].as_str().unwrap();
    assert_eq!(set["metadata"]["name"], format!("d-{hash}"));
    assert_eq!(set["metadata"]["labels"], json!({"app": "a", "pod-template-hash": hash}));
    assert_eq!(
        set["metadata"]["annotations"],
        json!({
            "deployment.kubernetes.io/desired-replicas": "1",
            "deployment.kubernetes.io/max-replicas": "2",
            "deployment.kubernetes.io/revision": "1",
        })
    );
    assert_eq!(
        set["metadata"]["ownerReferences"],
        json!([{
            "apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": d["metadata"]["uid"],
            "controller": true, "blockOwnerDeletion": true,
        }])
    );
    assert_eq!(set["spec"]["selector"], json!({"matchLabels": {"app": "a", "pod-template-hash": hash}}));
    assert_eq!(
        set["status"],
        json!({
            "replicas": 1, "fullyLabeledReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
            "terminatingReplicas": 0, "observedGeneration": 1,
        })
    );
    let mut managers: Vec<_> = d["metadata"]["managedFields"].as_array().unwrap().iter().collect();
    managers.retain(|m| m["manager"] == "kube-controller-manager");
    assert!(managers.iter().all(|m| m["subresource"] == "status"));
}

#[tokio::test]
async fn rolling_forward_and_back_reuses_the_old_set() {
    let world = World::new();
    world.create(DEPLOYMENTS, deployment(2, json!({}), json!({}))).await;
    world.merge(D, image("nginx:2")).await;
    let shown = |sets: &[Value]| {
        let mut all: Vec<Value> = sets
            .iter()
            .map(|s| {
                let notes = &s["metadata"]["annotations"];
                json!([
                    s["spec"]["template"]["spec"]["containers"][0]["image"],
                    s["spec"]["replicas"],
                    notes["deployment.kubernetes.io/revision"],
                    notes.get("deployment.kubernetes.io/revision-history"),
                ])
            })
            .collect();
        all.sort_by_key(|v| v[0].as_str().unwrap().to_owned());
        all
    };
    let sets = world.items(REPLICA_SETS).await;
    assert_eq!(shown(&sets), [json!(["nginx:1", 0, "1", null]), json!(["nginx:2", 2, "2", null])]);
    world.merge(D, image("nginx:1")).await;
    let sets = world.items(REPLICA_SETS).await;
    assert_eq!(shown(&sets), [json!(["nginx:1", 2, "3", "1"]), json!(["nginx:2", 0, "2", null])]);
    let d = world.get(D).await;
    assert_eq!(d["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "3");
    assert_eq!(d["status"]["observedGeneration"], 3);
    assert_eq!(d["status"]["availableReplicas"], 2);
    assert_eq!(d["status"]["terminatingReplicas"], 0);
}

#[tokio::test]
async fn a_rollout_keeps_enough_pods_available() {
    for (surge, unavailable, most, least) in [(1, 0, 5, 4), (0, 1, 4, 3), (2, 2, 6, 2)] {
        let world = World::new();
        let strategy = json!({"strategy": {
            "type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
        }});
        world.create(DEPLOYMENTS, deployment(4, json!({}), strategy)).await;
        world.merge(D, image("nginx:2")).await;
        let d = world.get(D).await;
        assert_eq!(d["status"]["updatedReplicas"], 4);
        let ups = world.said("ScalingReplicaSet").await;
        // Replays the sizes from what was said: old and new never exceed the bounds.
        let (mut sizes, mut seen) = (std::collections::HashMap::new(), Vec::new());
        for said in &ups {
            let words: Vec<&str> = said.split(' ').collect();
            sizes.insert(words[4].to_owned(), words[8].parse::<i64>().unwrap());
            seen.push(sizes.values().sum::<i64>());
        }
        let rolling = &seen[1..];
        assert!(rolling.iter().all(|s| *s <= most && *s >= least), "{surge}/{unavailable}: {ups:?}");
    }
}

#[tokio::test]
async fn recreating_stops_the_old_before_the_new() {
    let world = World::new();
    let strategy = json!({"strategy": {"type": "Recreate"}});
    world.create(DEPLOYMENTS, deployment(2, json!({}), strategy)).await;
    world.merge(D, image("nginx:2")).await;
    let d = world.get(D).await;
    assert_eq!(d["status"]["updatedReplicas"], 2);
    assert_eq!(d["status"]["availableReplicas"], 2);
    let said = world.said("ScalingReplicaSet").await;
    let ways: Vec<&str> = said.iter().map(|s| s.split(' ').nth(1).unwrap()).collect();
    assert_eq!(ways, ["up", "down", "up"]);
}

#[tokio::test]
async fn a_deadline_passes() {
    let world = World::new();
    let fails = json!({"sim/fail": "imagepull"});
    world.create(DEPLOYMENTS, deployment(1, fails, json!({"progressDeadlineSeconds": 2}))).await;
    let d = world.get(D).await;
    let set = world.items(REPLICA_SETS).await[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let mut told = conditions(&d);
    told.sort_by_key(Value::to_string);
    assert_eq!(
        told,
        [
            json!([
                "Available",
                "False",
                "MinimumReplicasUnavailable",
                "Deployment does not have minimum availability."
            ]),
            json!([
                "Progressing",
                "False",
                "ProgressDeadlineExceeded",
                format!("ReplicaSet \"{set}\" has timed out progressing.")
            ]),
        ]
    );
    let pod = &world.items(PODS).await[0];
    assert_eq!(pod["status"]["phase"], "Pending");
    assert_eq!(pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"], "ImagePullBackOff");
    // A fix still gets through.
    world.merge(D, json!({"spec": {"template": {"metadata": {"annotations": {"sim/fail": null}}}}})).await;
    let d = world.get(D).await;
    assert_eq!(d["status"]["availableReplicas"], 1);
    assert_eq!(conditions(&d)[1][2], "NewReplicaSetAvailable");
}

#[tokio::test]
async fn pausing_and_resuming() {
    let world = World::new();
    world.create(DEPLOYMENTS, deployment(2, json!({}), json!({}))).await;
    world.patch(D, json!({"spec": {"paused": true}})).await;
    let told = |d: &Value| conditions(d).iter().find(|c| c[0] == "Progressing").cloned().unwrap();
    let d = world.get(D).await;
    assert_eq!(told(&d), json!(["Progressing", "Unknown", "DeploymentPaused", "Deployment is paused"]));
    world.merge(D, image("nginx:2")).await;
    assert_eq!(world.items(REPLICA_SETS).await.len(), 1, "a paused deployment does not roll");
    world.patch(D, json!({"spec": {"replicas": 3}})).await;
    assert_eq!(world.get(D).await["status"]["readyReplicas"], 3, "but it scales");
    world.patch(D, json!({"spec": {"paused": null}})).await;
    let d = world.get(D).await;
    assert_eq!(told(&d)[2], "NewReplicaSetAvailable");
    assert_eq!(d["status"]["updatedReplicas"], 3);
}

#[tokio::test]
async fn old_sets_beyond_the_limit_go() {
    let world = World::new();
    world.create(DEPLOYMENTS, deployment(1, json!({}), json!({"revisionHistoryLimit": 1}))).await;
    for tag in 2..=4 {
        world.merge(D, image(&format!("nginx:{tag}"))).await;
    }
    let sets = world.items(REPLICA_SETS).await;
    let mut images: Vec<_> = sets
        .iter()
        .map(|s| s["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap())
        .collect();
    images.sort_unstable();
    assert_eq!(images, ["nginx:3", "nginx:4"]);
}

#[tokio::test]
async fn scaling_to_nothing() {
    let world = World::new();
    world.create(DEPLOYMENTS, deployment(3, json!({}), json!({}))).await;
    world.patch(&format!("{D}/scale"), json!({"spec": {"replicas": 0}})).await;
    assert!(world.items(PODS).await.is_empty());
    assert_eq!(counts(&world.get(D).await), json!({"observedGeneration": 2, "terminatingReplicas": 0}));
    let set = &world.items(REPLICA_SETS).await[0];
    assert_eq!(set["status"], json!({"replicas": 0, "terminatingReplicas": 0, "observedGeneration": 2}));
}

#[tokio::test]
async fn a_quota_in_the_way_is_told() {
    let world = World::new();
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}},
    });
    world.create("/api/v1/namespaces/default/resourcequotas", quota).await;
    world.create(DEPLOYMENTS, deployment(2, json!({}), json!({}))).await;
    let d = world.get(D).await;
    assert_eq!(d["status"]["replicas"], 1);
    let failure = conditions(&d).into_iter().find(|c| c[0] == "ReplicaFailure").unwrap();
    assert_eq!(failure[2], "FailedCreate");
    assert!(failure[3].as_str().unwrap().contains("exceeded quota: q, requested: pods=1"), "{failure}");
    let quota = world.get("/api/v1/namespaces/default/resourcequotas/q").await;
    assert_eq!(quota["status"], json!({"hard": {"pods": "1"}, "used": {"pods": "1"}}));
}

#[tokio::test]
async fn deleting_takes_everything_along() {
    let world = World::new();
    world.create(DEPLOYMENTS, deployment(2, json!({}), json!({}))).await;
    world.delete(D).await;
    assert!(world.items(REPLICA_SETS).await.is_empty());
    assert!(world.items(PODS).await.is_empty());
    // Left behind, the set is adopted by a deployment of the same template.
    world.create(DEPLOYMENTS, deployment(2, json!({}), json!({}))).await;
    world.delete(&format!("{D}?propagationPolicy=Orphan")).await;
    assert_eq!(world.items(REPLICA_SETS).await.len(), 1);
    let d = world.create(DEPLOYMENTS, deployment(2, json!({}), json!({}))).await;
    let sets = world.items(REPLICA_SETS).await;
    assert_eq!(sets.len(), 1);
    assert_eq!(sets[0]["metadata"]["ownerReferences"][0]["uid"], d["metadata"]["uid"]);
}

#[tokio::test]
async fn replication_controllers_too() {
    let world = World::new();
    let path = "/api/v1/namespaces/default/replicationcontrollers";
    let controller = json!({
        "apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "rc"},
        "spec": {"replicas": 2, "selector": {"app": "a"}, "template": template(json!({}))},
    });
    world.create(path, controller).await;
    assert_eq!(
        world.get(&format!("{path}/rc")).await["status"],
        json!({
            "replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": 2, "availableReplicas": 2,
            "observedGeneration": 1,
        })
    );
}
