//! Mutating admission policies change what is written.

use serde_json::{Value, json};

use crate::client::{CONFIG_MAPS, Client, MERGE, bare, config_map};

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// A policy about some resources with its binding.
async fn bind(client: &Client, name: &str, group: &str, resource: &str, spec: Value) {
    let mut policy = json!({
        "matchConstraints": {"resourceRules": [{
            "apiGroups": [group], "apiVersions": ["v1"], "resources": [resource], "operations": ["CREATE", "UPDATE"],
        }]},
        "reinvocationPolicy": "Never",
    });
    for (key, value) in spec.as_object().unwrap() {
        policy[key] = value.clone();
    }
    let made = client
        .post(
            &format!("{ADMISSION}/mutatingadmissionpolicies"),
            &json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
                    "metadata": {"name": name}, "spec": policy}),
        )
        .await;
    assert_eq!(made.code, 201, "{name}: {}", made.text);
    let made = client
        .post(
            &format!("{ADMISSION}/mutatingadmissionpolicybindings"),
            &json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
                    "metadata": {"name": format!("{name}-binding")}, "spec": {"policyName": name}}),
        )
        .await;
    assert_eq!(made.code, 201, "{name}: {}", made.text);
}

fn apply(expression: &str) -> Value {
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
}

fn json_patch(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

fn deployment(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
        "replicas": 1, "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
}

#[tokio::test]
async fn configurations_are_merged_into_new_objects_and_defaulted() {
    let (_sandbox, client) = bare();
    let annotate = r#"
        Object{
            metadata: Object.metadata{
                annotations: {
                    "mutated-by": "admission-policy"
                }
            }
        }"#;
    let container = r#"Object{spec: Object.spec{replicas: 1337, template: Object.spec.template{spec: Object.spec.template.spec{
        containers: [Object.spec.template.spec.containers{name: "side", image: "x:" + string(object.spec.replicas),
                                                          args: dyn(object.metadata.?labels.orValue({}).size() > 0 ? ["l"] : [])}]}}}}"#;
    // Lists that are replaced as a whole cannot be set.
    let refused = container.to_owned();
    bind(&client, "annotate", "apps", "deployments", json!({"mutations": [apply(annotate)]})).await;
    bind(&client, "scale", "apps", "deployments", json!({"mutations": [
        apply("Object{spec: Object.spec{replicas: variables.wanted}}"),
        apply(r#"Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{
            containers: [Object.spec.template.spec.containers{name: "side", image: "x:" + string(object.spec.replicas)}]}}}}"#),
    ], "variables": [{"name": "wanted", "expression": "object.spec.replicas + 1336"}]})).await;
    let made = client.post(DEPLOYMENTS, &deployment("d")).await;
    assert_eq!(made.code, 201, "{}", made.text);
    let spec = &made.body["spec"];
    assert_eq!(made.body["metadata"]["annotations"], json!({"mutated-by": "admission-policy"}));
    assert_eq!(spec["replicas"], 1337);
    let containers = spec["template"]["spec"]["containers"].as_array().unwrap();
    let images: Vec<_> = containers.iter().map(|c| (&c["name"], &c["image"])).collect();
    assert_eq!(images, [(&json!("c"), &json!("i")), (&json!("side"), &json!("x:1337"))]);
    assert_eq!(containers[1]["imagePullPolicy"], "IfNotPresent", "{containers:?}");

    bind(&client, "atomic", "apps", "deployments", json!({"mutations": [apply(&refused)]})).await;
    let made = client.post(DEPLOYMENTS, &deployment("e")).await;
    assert_eq!((made.code, &made.body["reason"]), (403, &json!("Invalid")), "{}", made.text);
    assert_eq!(
        made.body["message"],
        "policy 'atomic' with binding 'atomic-binding' denied request: error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.template.spec.containers[0].args"
    );
}

#[tokio::test]
async fn json_patches_are_applied_unless_a_test_fails() {
    let (_sandbox, client) = bare();
    bind(
        &client,
        "patch",
        "",
        "configmaps",
        json!({
            "matchConditions": [{"name": "ours", "expression": "object.metadata.name.startsWith('x')"}],
            "mutations": [
                json_patch(r#"[
                JSONPatch{op: "test", path: "/data/a", value: "1"},
                JSONPatch{op: "replace", path: "/data/a", value: "2"},
                JSONPatch{op: "add", path: "/metadata/labels", value: {"env": "test"}},
                JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("example.com/b"), value: "3"},
            ]"#),
            ],
        }),
    )
    .await;
    let made = client.post(CONFIG_MAPS, &config_map("x")).await;
    assert_eq!(made.code, 201, "{}", made.text);
    assert_eq!(made.body["data"], json!({"a": "2"}));
    assert_eq!(made.body["metadata"]["labels"], json!({"env": "test", "example.com/b": "3"}));
    // The test fails now: nothing is changed but what the client asks for.
    let path = format!("{CONFIG_MAPS}/x");
    let updated = client.patch(&path, MERGE, &json!({"data": {"a": "5"}})).await;
    assert_eq!(updated.body["data"], json!({"a": "5"}), "{}", updated.text);
    let other = client.post(CONFIG_MAPS, &config_map("other")).await;
    assert_eq!(other.body["data"], json!({"a": "1"}));
}

#[tokio::test]
async fn trouble_with_a_policy_refuses_unless_it_is_to_be_ignored() {
    let (_sandbox, client) = bare();
    let broken = [apply("Object{metadata: Object.metadata{labels: {'a': object.data.missing}}}")];
    bind(&client, "ignored", "", "configmaps", json!({"mutations": broken, "failurePolicy": "Ignore"})).await;
    assert_eq!(client.post(CONFIG_MAPS, &config_map("x")).await.code, 201);
    let misplaced = [apply("Object{metadata: Object.spec{labels: {'a': 'b'}}}")];
    bind(&client, "misplaced", "", "configmaps", json!({"mutations": misplaced})).await;
    let made = client.post(CONFIG_MAPS, &config_map("y")).await;
    assert_eq!(made.code, 403, "{}", made.text);
    assert!(
        made.text.contains("unexpected type name \\\"Object.spec\\\", expected \\\"Object.metadata\\\""),
        "{}",
        made.text
    );
}

#[tokio::test]
async fn earlier_policies_are_asked_again_when_a_later_one_changed_the_object() {
    let (_sandbox, client) = bare();
    let label = "Object{metadata: Object.metadata{labels: {'seen': string(size(object.data))}}}";
    bind(
        &client,
        "a",
        "",
        "configmaps",
        json!({"mutations": [apply(label)], "reinvocationPolicy": "IfNeeded"}),
    )
    .await;
    bind(&client, "b", "", "configmaps", json!({"mutations": [apply("Object{data: {'b': '2'}}")]})).await;
    let made = client.post(CONFIG_MAPS, &config_map("x")).await;
    assert_eq!(made.body["metadata"]["labels"], json!({"seen": "2"}), "{}", made.text);
}

#[tokio::test]
async fn custom_resources_are_changed_too() {
    let (sandbox, client) = bare();
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {
                    "size": {"type": "integer"}, "color": {"type": "string"}}}}}}}],
        },
    });
    client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
    sandbox.settle().await;
    let mutations = [apply("Object{spec: Object.spec{size: object.spec.size * 2}}")];
    bind(&client, "double", "example.com", "things", json!({"mutations": mutations})).await;
    let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"},
                       "spec": {"size": 4, "color": "red"}});
    let made = client.post("/apis/example.com/v1/namespaces/default/things", &thing).await;
    assert_eq!(made.body["spec"], json!({"size": 8, "color": "red"}), "{}", made.text);
}
