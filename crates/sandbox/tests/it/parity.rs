//! What Kubernetes' own conformance tests and client-go expect.

use serde_json::{Value, json};

use crate::client::{CONFIG_MAPS, Client, MERGE, STRATEGIC, bare, config_map};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

fn field(number: u8, content: &[u8]) -> Vec<u8> {
    [&[(number << 3) | 2, u8::try_from(content.len()).unwrap()][..], content].concat()
}

/// `DeleteOptions` as client-go sends them to a resource of `version`.
fn delete_options(version: &str, policy: &str) -> Vec<u8> {
    let meta = [field(1, version.as_bytes()), field(2, b"DeleteOptions")].concat();
    [b"k8s\0".to_vec(), field(1, &meta), field(2, &field(4, policy.as_bytes()))].concat()
}

#[tokio::test]
async fn every_resource_takes_delete_options_in_protobuf() {
    let (sandbox, client) = bare();
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                          "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
    sandbox.settle().await;
    let pods = json!({"metadata": {"labels": {"a": "b"}},
                      "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}});
    for (version, kind, place, spec) in [
        ("v1", "ConfigMap", "/api/v1/namespaces/default/configmaps", Value::Null),
        ("batch/v1", "Job", "/apis/batch/v1/namespaces/default/jobs", json!({"template": pods})),
        (
            "coordination.k8s.io/v1",
            "Lease",
            "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            json!({}),
        ),
        ("example.com/v1", "Thing", "/apis/example.com/v1/namespaces/default/things", json!({})),
    ] {
        let mut object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "x"}});
        if !spec.is_null() {
            object["spec"] = spec;
        }
        let made = client.post(place, &object).await;
        assert_eq!(made.code, 201, "{kind}: {}", made.text);
        let body = delete_options(version, "Background");
        let answer =
            client.request("DELETE", &format!("{place}/x"), &[("content-type", PROTOBUF)], body).await;
        assert_eq!(answer.code, 200, "{kind}: {}", answer.text);
        assert!(answer.headers.get("warning").is_none(), "{kind}: the policy was given");
    }
}

/// Waits for the controllers and says whether an object is gone.
async fn gone(sandbox: &slipway_sandbox::Sandbox, client: &Client, name: &str) -> bool {
    sandbox.settle().await;
    client.get(&format!("{CONFIG_MAPS}/{name}")).await.code == 404
}

#[tokio::test]
async fn circles_of_owners_are_deleted_in_the_foreground() {
    for names in [&["a"][..], &["a", "b"], &["a", "b", "c"]] {
        let (sandbox, client) = bare();
        let mut uids = Vec::new();
        for name in names {
            let made = client.post(CONFIG_MAPS, &config_map(name)).await.body;
            uids.push(made["metadata"]["uid"].clone());
        }
        for (index, name) in names.iter().enumerate() {
            let owner = (index + names.len() - 1) % names.len();
            let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": names[owner],
                                   "uid": uids[owner], "blockOwnerDeletion": true});
            let change = json!({"metadata": {"ownerReferences": [reference]}});
            assert_eq!(client.patch(&format!("{CONFIG_MAPS}/{name}"), MERGE, &change).await.code, 200);
        }
        sandbox.settle().await;
        let path = format!("{CONFIG_MAPS}/a?propagationPolicy=Foreground");
        assert_eq!(client.delete(&path).await.code, 200);
        for name in names {
            assert!(gone(&sandbox, &client, name).await, "{name} of {names:?}");
        }
    }
}

#[tokio::test]
async fn quotas_count_services_their_ports_and_what_they_become() {
    const PLACE: &str = "/api/v1/namespaces/default";
    let (_sandbox, client) = bare();
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
                       "spec": {"hard": {"services": "4", "services.nodeports": "2", "services.loadbalancers": "1"}}});
    assert_eq!(client.post(&format!("{PLACE}/resourcequotas"), &quota).await.code, 201);
    let service = |name: &str, kind: &str, ports: &[i64]| {
        let ports: Vec<Value> =
            ports.iter().map(|port| json!({"name": format!("p{port}"), "port": port})).collect();
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
               "spec": {"type": kind, "ports": ports}})
    };
    let services = format!("{PLACE}/services");
    for (object, code) in [
        (service("three", "NodePort", &[1, 2, 3]), 403),
        (service("one", "NodePort", &[1]), 201),
        // A load balancer takes ports of the nodes as well.
        (service("two", "LoadBalancer", &[1, 2]), 403),
        (service("two", "LoadBalancer", &[1]), 201),
        (service("four", "LoadBalancer", &[1]), 403),
        (service("plain", "ClusterIP", &[1]), 201),
        (service("fourth", "ClusterIP", &[1]), 403),
    ] {
        let answer = client.post(&services, &object).await;
        assert_eq!(answer.code, code, "{object}: {}", answer.text);
        assert!(code == 201 || answer.text.contains("exceeded quota: q"), "{}", answer.text);
    }
    let change = json!({"spec": {"type": "NodePort"}});
    let refused = client.patch(&format!("{services}/plain"), MERGE, &change).await;
    assert_eq!(refused.code, 403, "{}", refused.text);
    assert!(refused.text.contains("requested: services.nodeports=1"), "{}", refused.text);
}

#[tokio::test]
async fn dependents_with_another_owner_outlive_one_that_goes() {
    const PLACE: &str = "/api/v1/namespaces/default";
    let sandbox = slipway_sandbox::Sandbox::builder().seed(7).build().unwrap();
    let client = Client::new(&sandbox);
    let controller = |name: &str, replicas: u32| {
        json!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": name},
               "spec": {"replicas": replicas, "selector": {"of": name}, "template": {
                   "metadata": {"labels": {"of": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
    };
    let path = format!("{PLACE}/replicationcontrollers");
    for (name, replicas) in [("goes", 40), ("stays", 0)] {
        assert_eq!(client.post(&path, &controller(name, replicas)).await.code, 201);
    }
    sandbox.settle().await;
    let stays = client.get(&format!("{path}/stays")).await.body;
    let owner = json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ReplicationController",
                       "name": "stays", "uid": stays["metadata"]["uid"]}]}});
    let pods = client.get(&format!("{PLACE}/pods")).await.body;
    for pod in &pods["items"].as_array().unwrap()[..20] {
        let name = pod["metadata"]["name"].as_str().unwrap();
        assert_eq!(client.patch(&format!("{PLACE}/pods/{name}"), STRATEGIC, &owner).await.code, 200);
    }
    assert_eq!(client.delete(&format!("{path}/goes?propagationPolicy=Foreground")).await.code, 200);
    for _ in 0..100 {
        sandbox.settle().await;
        sandbox.advance(std::time::Duration::from_secs(1)).await;
    }
    let pods = client.get(&format!("{PLACE}/pods")).await.body;
    let pods = pods["items"].as_array().unwrap();
    assert_eq!(pods.len(), 20);
    for pod in pods {
        let meta = &pod["metadata"];
        assert!(meta["deletionTimestamp"].is_null());
        assert_eq!(meta["ownerReferences"].as_array().map(Vec::len), Some(1), "{meta}");
    }
    assert_eq!(client.get(&format!("{path}/goes")).await.code, 404);
}

#[tokio::test]
async fn namespaces_lose_their_pods_first() {
    let (sandbox, client) = bare();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    client.post("/api/v1/namespaces", &namespace).await;
    sandbox.settle().await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "finalizers": ["example.com/hold"]},
                     "spec": {"containers": [{"name": "c", "image": "i"}]}});
    assert_eq!(client.post("/api/v1/namespaces/n/pods", &pod).await.code, 201);
    assert_eq!(client.post("/api/v1/namespaces/n/configmaps", &config_map("x")).await.code, 201);
    client.delete("/api/v1/namespaces/n").await;
    sandbox.settle().await;
    let left = client.get("/api/v1/namespaces/n").await.body;
    assert_eq!(left["status"]["phase"], "Terminating");
    assert!(left["status"]["conditions"].as_array().is_some_and(|all| all.len() == 5), "{left}");
    let pod = client.get("/api/v1/namespaces/n/pods/p").await.body;
    assert!(pod["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(client.get("/api/v1/namespaces/n/configmaps/x").await.code, 200, "pods may need it");
    let free = json!({"metadata": {"finalizers": null}});
    client.patch("/api/v1/namespaces/n/pods/p", MERGE, &free).await;
    sandbox.settle().await;
    assert_eq!(client.get("/api/v1/namespaces/n").await.code, 404);
}

#[tokio::test]
async fn nodes_have_leases() {
    let sandbox = slipway_sandbox::Sandbox::builder().seed(7).build().unwrap();
    let client = Client::new(&sandbox);
    let node = client.get("/api/v1/nodes/node-1").await.body;
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-1";
    let lease = client.get(path).await.body;
    assert_eq!(lease["spec"]["holderIdentity"], "node-1", "{lease}");
    assert_eq!(lease["metadata"]["ownerReferences"][0]["uid"], node["metadata"]["uid"]);
}

#[tokio::test]
async fn reviews_have_no_table() {
    let (_sandbox, client) = bare();
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
    });
    for (accept, code) in [("application/json;as=Table;v=v1;g=meta.k8s.io", 406), ("application/json", 201)] {
        let headers = [("content-type", "application/json"), ("accept", accept)];
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let answer = client.request("POST", path, &headers, review.to_string()).await;
        assert_eq!(answer.code, code, "{accept}: {}", answer.text);
    }
}

#[tokio::test]
async fn health_checks_say_what_they_checked() {
    let (_sandbox, client) = bare();
    for (path, code, says) in [
        ("/readyz", 200, "ok"),
        ("/readyz?verbose", 200, "[+]ping ok\n[+]log ok\n[+]etcd ok\n"),
        ("/livez?verbose=true", 200, "livez check passed"),
        ("/healthz/ping", 200, "ok"),
        ("/readyz/nothing", 404, "404 page not found"),
        ("/metrics", 200, "apiserver_storage_objects{resource=\"namespaces\"}"),
    ] {
        let answer = client.get(path).await;
        assert!(answer.code == code && answer.text.contains(says), "{path}: {} {}", answer.code, answer.text);
    }
}

#[tokio::test]
async fn a_status_is_written_with_the_metadata_its_kind_lets_through() {
    let (_sandbox, client) = bare();
    for (path, object, changed) in [
        (
            "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
            json!({"spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}}}}),
            false,
        ),
        ("/apis/storage.k8s.io/v1/csinodes", json!({"spec": {"drivers": []}}), false),
        (
            "/apis/storage.k8s.io/v1/volumeattachments",
            json!({"spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "p"}}}),
            false,
        ),
        ("/apis/networking.k8s.io/v1/servicecidrs", json!({"spec": {"cidrs": ["10.9.0.0/24"]}}), false),
        (
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            json!({"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}),
            true,
        ),
    ] {
        let mut object = object;
        object["metadata"] = json!({"name": "x", "annotations": {"kept": "1"}});
        let made = client.post(path, &object).await;
        assert_eq!(made.code, 201, "{path}: {}", made.text);
        let patch = json!({"metadata": {"annotations": {"changed": "1"}, "labels": {"l": "v"}}});
        let answer = client.patch(&format!("{path}/x/status"), MERGE, &patch).await;
        assert_eq!(answer.code, 200, "{path}: {}", answer.text);
        let notes = &answer.body["metadata"]["annotations"];
        assert_eq!((&notes["kept"], notes.get("changed").is_some()), (&json!("1"), changed), "{path}");
        assert_eq!(answer.body["metadata"].get("labels").is_some(), changed, "{path}");
        // Whoever cannot change a field does not own it either.
        let managers = answer.body["metadata"]["managedFields"].as_array().unwrap();
        assert_eq!(managers.iter().any(|m| m["subresource"] == "status"), changed, "{path}: {managers:?}");
    }

    // A write of the status that leaves out what the server notes does not undo it.
    let sets = "/apis/apps/v1/namespaces/default/daemonsets";
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let set = json!({"metadata": {"name": "x"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
    let mut made = client.post(sets, &set).await.body;
    made["metadata"]["annotations"] = json!({"mine": "1"});
    made["metadata"]["resourceVersion"] = json!("");
    let answer = client.put(&format!("{sets}/x/status"), &made).await;
    let notes = json!({"deprecated.daemonset.template.generation": "1", "mine": "1"});
    assert_eq!(answer.body["metadata"]["annotations"], notes, "{}", answer.text);
}

#[tokio::test]
async fn labels_of_endpoint_slices_count_as_changes() {
    let (_sandbox, client) = bare();
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let slice = json!({"metadata": {"name": "x"}, "addressType": "IPv4", "endpoints": []});
    assert_eq!(client.post(slices, &slice).await.body["metadata"]["generation"], 1);
    let path = format!("{slices}/x");
    let annotated = client.patch(&path, MERGE, &json!({"metadata": {"annotations": {"a": "b"}}})).await;
    assert_eq!(annotated.body["metadata"]["generation"], 1);
    let labelled = client.patch(&path, MERGE, &json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(labelled.body["metadata"]["generation"], 2);
}

#[tokio::test]
async fn preconditions_of_namespaces_and_definitions_fail_in_their_own_words() {
    let (_sandbox, client) = bare();
    let other = json!({"preconditions": {"uid": "other"}}).to_string();
    let delete = async |path: &str| {
        let answer =
            client.request("DELETE", path, &[("content-type", "application/json")], other.clone()).await;
        assert_eq!(answer.code, 409, "{}", answer.text);
        answer.body["message"].as_str().unwrap().to_owned()
    };
    let namespace = json!({"metadata": {"name": "ns"}});
    let uid = client.post("/api/v1/namespaces", &namespace).await.body["metadata"]["uid"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        delete("/api/v1/namespaces/ns").await,
        format!(
            "Operation cannot be fulfilled on namespaces \"ns\": Precondition failed: UID in precondition: other, UID in object meta: {uid}"
        )
    );
    client.post(CONFIG_MAPS, &config_map("x")).await;
    let message = delete(&format!("{CONFIG_MAPS}/x")).await;
    assert!(
        message.contains("the UID in the precondition (other) does not match the UID in record"),
        "{message}"
    );
}

#[tokio::test]
async fn slices_of_devices_are_selected_by_node_driver_and_pool() {
    let (_sandbox, client) = bare();
    let slices = "/apis/resource.k8s.io/v1/resourceslices";
    for node in ["one", "two"] {
        let pool = json!({"name": node, "generation": 1, "resourceSliceCount": 1});
        let slice = json!({"metadata": {"name": node}, "spec": {"driver": "d.example.com", "nodeName": node, "pool": pool}});
        let made = client.post(slices, &slice).await;
        assert_eq!(made.code, 201, "{}", made.text);
    }
    for (selector, found) in [
        ("spec.nodeName=one", 1),
        ("spec.driver=d.example.com", 2),
        ("spec.pool.name=two,spec.nodeName=one", 0),
    ] {
        let list = client.get(&format!("{slices}?fieldSelector={selector}")).await;
        assert_eq!(list.body["items"].as_array().map(Vec::len), Some(found), "{selector}: {}", list.text);
    }
    let refused = client.get(&format!("{slices}?fieldSelector=spec.absent=1")).await;
    let message = "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: spec.absent";
    assert_eq!((refused.code, &refused.body["message"]), (400, &json!(message)));
    let bundles =
        client.get("/apis/certificates.k8s.io/v1/clustertrustbundles?fieldSelector=spec.signerName=a").await;
    assert_eq!(bundles.code, 200, "{}", bundles.text);
}
