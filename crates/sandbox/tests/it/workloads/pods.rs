//! Pods: scheduling, running, failing and going.

use std::time::Duration;

use serde_json::json;

use super::*;

fn pod(annotations: Value, spec: Value) -> Value {
    let mut full = json!({"containers": [{"name": "c", "image": "nginx:1"}]});
    for (key, value) in spec.as_object().unwrap() {
        full[key] = value.clone();
    }
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "labels": {"app": "a"}, "annotations": annotations}, "spec": full,
    })
}

const P: &str = "/api/v1/namespaces/default/pods/p";

#[tokio::test]
async fn a_running_pod_is_as_a_real_one() {
    let world = World::new();
    world.create(PODS, pod(json!({}), json!({}))).await;
    let p = world.get(P).await;
    let status = &p["status"];
    assert_eq!(p["spec"]["nodeName"], "node-1");
    assert_eq!(status["phase"], "Running");
    assert_eq!(status["qosClass"], "BestEffort");
    assert_eq!(status["observedGeneration"], 1);
    assert_eq!(status["hostIPs"], json!([{"ip": "127.0.0.1"}]));
    assert_eq!(status["podIPs"], json!([{"ip": status["podIP"]}]));
    let kinds: Vec<_> =
        status["conditions"].as_array().unwrap().iter().map(|c| c["type"].as_str().unwrap()).collect();
    let order = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];
    assert_eq!(kinds, order);
    for condition in status["conditions"].as_array().unwrap() {
        let mut keys: Vec<&String> = condition.as_object().unwrap().keys().collect();
        keys.retain(|k| *k != "lastProbeTime");
        assert_eq!(keys, ["type", "observedGeneration", "status", "lastTransitionTime"]);
        assert_eq!(condition["status"], "True");
    }
    let keys: Vec<&String> = status["containerStatuses"][0].as_object().unwrap().keys().collect();
    let order =
        ["name", "state", "lastState", "ready", "restartCount", "image", "imageID", "containerID", "started"];
    assert_eq!(keys, order);
    assert_eq!(world.said("Scheduled").await, ["Successfully assigned default/p to node-1"]);
}

/// What each annotation makes of a pod.
#[tokio::test]
async fn faults() {
    let never = json!({"restartPolicy": "Never"});
    let always = json!({});
    let on_failure = json!({"restartPolicy": "OnFailure"});
    // phase, state of the container (one word), its reason, ready
    let cases = [
        (json!({}), &always, "Running", "running", "", true),
        (json!({}), &never, "Succeeded", "terminated", "Completed", false),
        (json!({"sim/exit-code": "3"}), &never, "Failed", "terminated", "Error", false),
        (json!({"sim/fail": "true"}), &never, "Failed", "terminated", "Error", false),
        (json!({"sim/fail": "crashloop"}), &always, "Running", "waiting", "CrashLoopBackOff", false),
        (json!({"sim/fail": "crashloop", "sim/fail-count": "2"}), &always, "Running", "running", "", true),
        (json!({"sim/ready-after-restarts": "1"}), &always, "Running", "running", "", true),
        (json!({"sim/fail-count": "1"}), &on_failure, "Succeeded", "terminated", "Completed", false),
        (json!({"sim/fail": "imagepull"}), &always, "Pending", "waiting", "ImagePullBackOff", false),
        (json!({"sim/fail": "pending"}), &always, "Pending", "waiting", "ContainerCreating", false),
        (json!({"sim/fail": "unready"}), &always, "Running", "running", "", false),
        (json!({"sim/fail": "oom"}), &always, "Running", "waiting", "CrashLoopBackOff", false),
        (json!({"sim/fail": "oom"}), &never, "Failed", "terminated", "OOMKilled", false),
        (json!({"sim/fail": "evicted"}), &always, "Failed", "terminated", "Error", false),
        (json!({"sim/fail": "flapping"}), &always, "Running", "running", "", true),
        (json!({"sim/delay": "60"}), &always, "Running", "running", "", true),
    ];
    for (annotations, spec, phase, state, reason, ready) in cases {
        let world = World::new();
        world.create(PODS, pod(annotations.clone(), spec.clone())).await;
        let status = world.get(P).await["status"].clone();
        let container = &status["containerStatuses"][0];
        let case = format!("{annotations} {spec}: {status}");
        assert_eq!(status["phase"], phase, "{case}");
        assert!(container["state"].get(state).is_some(), "{case}");
        assert_eq!(container["state"][state]["reason"].as_str().unwrap_or(""), reason, "{case}");
        let told = status["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Ready").unwrap();
        assert_eq!(told["status"] == "True", ready, "{case}");
        assert_eq!(container["ready"], ready, "{case}");
    }
}

#[tokio::test]
async fn crash_loops_back_off() {
    let world = World::at(ClockSpeed::Manual);
    world.create(PODS, pod(json!({"sim/fail": "crashloop"}), json!({}))).await;
    let mut seen = Vec::new();
    world.sandbox.advance(Duration::from_secs(1)).await;
    for wait in [10, 20, 40, 80] {
        let p = world.get(P).await;
        let container = &p["status"]["containerStatuses"][0];
        let message = container["state"]["waiting"]["message"].as_str().unwrap();
        let uid = p["metadata"]["uid"].as_str().unwrap();
        assert!(
            message.ends_with(&format!(" restarting failed container=c pod=p_default({uid})")),
            "{message}"
        );
        seen.push((
            container["restartCount"].as_i64().unwrap(),
            message.split(' ').nth(1).unwrap().to_owned(),
        ));
        assert_eq!(container["lastState"]["terminated"]["exitCode"], 1);
        world.sandbox.advance(Duration::from_secs(wait)).await;
    }
    let want = [(1, "10s"), (2, "20s"), (3, "40s"), (4, "1m20s")];
    assert_eq!(seen, want.map(|(n, t)| (n, t.to_owned())));
    assert_eq!(world.said("BackOff").await.len(), 1, "repeats are counted, not written again");
}

#[tokio::test]
async fn stages_take_their_time() {
    let world = World::at(ClockSpeed::Manual);
    world
        .create(
            PODS,
            pod(json!({"sim/delay": "3"}), json!({"initContainers": [{"name": "i", "image": "b"}]})),
        )
        .await;
    let p = world.get(P).await;
    assert_eq!(p["status"]["phase"], "Pending");
    assert_eq!(p["status"]["initContainerStatuses"][0]["state"]["waiting"]["reason"], "PodInitializing");
    let initialized = conditions(&p).into_iter().find(|c| c[0] == "Initialized").unwrap();
    assert_eq!(initialized[2], "ContainersNotInitialized");
    world.sandbox.advance(Duration::from_secs(2)).await;
    assert_eq!(world.get(P).await["status"]["phase"], "Pending");
    world.sandbox.advance(Duration::from_secs(1)).await;
    let p = world.get(P).await;
    assert_eq!(p["status"]["phase"], "Running");
    assert_eq!(p["status"]["initContainerStatuses"][0]["state"]["terminated"]["reason"], "Completed");
}

#[tokio::test]
async fn going_gracefully() {
    let world = World::at(ClockSpeed::Manual);
    world.create(PODS, pod(json!({}), json!({}))).await;
    world.sandbox.advance(Duration::from_secs(1)).await;
    let answer = world.client.delete(P).await;
    assert_eq!(answer.body["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(answer.body["metadata"]["generation"], 2);
    world.sandbox.settle().await;
    assert_eq!(world.client.get(P).await.code, 200);
    world.sandbox.advance(Duration::from_millis(400)).await;
    assert_eq!(world.client.get(P).await.code, 404);
}

#[tokio::test]
async fn pods_no_node_takes() {
    let world = World::new();
    world.create(PODS, pod(json!({}), json!({"nodeSelector": {"disk": "fast"}}))).await;
    let p = world.get(P).await;
    let message = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
    assert_eq!(conditions(&p), [json!(["PodScheduled", "False", "Unschedulable", message])]);
    assert_eq!(world.said("FailedScheduling").await, [message]);
    world.merge("/api/v1/nodes/node-2", json!({"metadata": {"labels": {"disk": "fast"}}})).await;
    assert_eq!(world.get(P).await["spec"]["nodeName"], "node-2");
    assert_eq!(world.get(P).await["status"]["phase"], "Running");
}

#[tokio::test]
async fn readiness_gates_hold_back() {
    let world = World::new();
    world.create(PODS, pod(json!({}), json!({"readinessGates": [{"conditionType": "x.y/z"}]}))).await;
    let ready = |p: &Value| conditions(p).into_iter().find(|c| c[0] == "Ready").unwrap();
    assert_eq!(ready(&world.get(P).await)[2], "ReadinessGatesNotReady");
    let gate = json!({"status": {"conditions": [{"type": "x.y/z", "status": "True"}]}});
    world.merge(&format!("{P}/status"), gate).await;
    assert_eq!(ready(&world.get(P).await)[1], "True");
}

#[tokio::test]
async fn pods_wait_until_a_node_has_room() {
    let world = World::new();
    let asking = |name: &str, cpu: &str| {
        let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}});
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]}})
    };
    for name in ["one", "two"] {
        world.create(PODS, asking(name, "40")).await;
    }
    world.create(PODS, asking("third", "40")).await;
    let third = format!("{PODS}/third");
    let message = "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pods.";
    assert_eq!(
        conditions(&world.get(&third).await),
        [json!(["PodScheduled", "False", "Unschedulable", message])]
    );
    world.create(PODS, asking("huge", "65")).await;
    let message = "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
    let huge = world.get(&format!("{PODS}/huge")).await;
    assert_eq!(conditions(&huge), [json!(["PodScheduled", "False", "Unschedulable", message])]);
    // There is room for smaller ones.
    world.create(PODS, asking("small", "20")).await;
    assert_eq!(world.get(&format!("{PODS}/small")).await["status"]["phase"], "Running");
    let place = world.get(&format!("{PODS}/one")).await["spec"]["nodeName"].clone();
    assert_eq!(world.client.delete(&format!("{PODS}/one")).await.code, 200);
    world.sandbox.settle().await;
    assert_eq!(world.get(&third).await["spec"]["nodeName"], place);
}
