//! What built-in kinds are filled in with, and refused for.

use serde_json::{Value, json};

use crate::client::{APPLY, MERGE, bare};

fn at(kind: &str) -> String {
    format!("/api/v1/namespaces/default/{kind}")
}

#[tokio::test]
async fn pods_are_furnished() {
    let (_sandbox, client) = bare();
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [
        {"name": "c", "image": "nginx", "resources": {"limits": {"cpu": "0.5"}}, "ports": [{"containerPort": 80}]},
    ]}});
    let made = client.post(&at("pods"), &pod).await.body;
    let container = &made["spec"]["containers"][0];
    assert_eq!(container["imagePullPolicy"], "Always");
    assert_eq!(container["resources"], json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "500m"}}));
    assert_eq!(container["volumeMounts"][0]["mountPath"], "/var/run/secrets/kubernetes.io/serviceaccount");
    assert_eq!(made["spec"]["tolerations"].as_array().unwrap().len(), 2);
    assert_eq!(made["status"], json!({"phase": "Pending", "qosClass": "Burstable"}));
}

#[tokio::test]
async fn services_get_addresses() {
    let (_sandbox, client) = bare();
    let service = json!({"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    let made = client.post(&at("services"), &service).await.body;
    assert!(made["spec"]["clusterIP"].as_str().unwrap().starts_with("10.96."));
    assert!((30000..=32767).contains(&made["spec"]["ports"][0]["nodePort"].as_i64().unwrap()));
    assert_eq!(made["spec"]["ports"][0]["targetPort"], 80);
}

#[tokio::test]
async fn refusals() {
    let (_sandbox, client) = bare();
    let cases: Vec<(&str, Value, &str)> = vec![
        (
            "/apis/apps/v1/namespaces/default/deployments",
            json!({"metadata": {"name": "d"}, "spec": {}}),
            "Deployment.apps \"d\" is invalid: [spec.selector: Required value, spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`, spec.template.spec.containers: Required value]",
        ),
        (
            "/api/v1/namespaces/default/pods",
            json!({"metadata": {"name": "p"}, "spec": {"serviceAccountName": "nope", "containers": [{"name": "c", "image": "i"}]}}),
            "pods \"p\" is forbidden: error looking up service account default/nope: serviceaccount \"nope\" not found",
        ),
        (
            "/api/v1/namespaces/default/services",
            json!({"metadata": {"name": "s"}, "spec": {"type": "Foo", "ports": [{"port": 1}]}}),
            "Service \"s\" is invalid: spec.type: Unsupported value: \"Foo\": supported values: \"ClusterIP\", \"ExternalName\", \"LoadBalancer\", \"NodePort\"",
        ),
        (
            "/apis/batch/v1/namespaces/default/jobs",
            json!({"metadata": {"name": "j"}, "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}}),
            "Job.batch \"j\" is invalid: spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"",
        ),
        (
            "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
            json!({"metadata": {"name": "f"}, "spec": {"matchingPrecedence": 1, "rules": [{}]}}),
            "FlowSchema.flowcontrol.apiserver.k8s.io \"f\" is invalid: [spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1, spec.priorityLevelConfiguration.name: Required value: must reference a priority level, spec.rules[0].subjects: Required value: subjects must contain at least one value, spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty]",
        ),
        (
            "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
            json!({"metadata": {"name": "p"}, "spec": {"limited": {}}}),
            "PriorityLevelConfiguration.flowcontrol.apiserver.k8s.io \"p\" is invalid: [spec.limited: Forbidden, spec.type: Required value]",
        ),
        (
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
            json!({"metadata": {"name": "p"}, "spec": {"matchConstraints": {"resourceRules": [{
                "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["x"],
            }]}, "validations": [{"expression": "1"}]}}),
            "ValidatingAdmissionPolicy.admissionregistration.k8s.io \"p\" is invalid: spec.validations[0].expression: Invalid value: \"1\": must evaluate to bool but got int",
        ),
        (
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
            json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny", "Deny"]}}),
            "ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io \"b\" is invalid: spec.validationActions[1]: Duplicate value: \"Deny\"",
        ),
        (
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            json!({"metadata": {"name": "w"}, "webhooks": [{
                "name": "a.b.c", "sideEffects": "", "admissionReviewVersions": ["v1", "v1"],
                "clientConfig": {"service": {"name": "s", "namespace": "n", "path": "x", "port": 0}},
                "rules": [{"apiGroups": ["a"], "apiVersions": ["v1"], "operations": ["*", "CREATE"], "resources": ["a/*", "a/b"]}],
                "matchConditions": [{}],
            }]}),
            "ValidatingWebhookConfiguration.admissionregistration.k8s.io \"w\" is invalid: [webhooks[0].rules[0].operations: Invalid value: [\"*\",\"CREATE\"]: if '*' is present, must not specify other operations, webhooks[0].rules[0].resources[1]: Invalid value: \"a/b\": if 'a/*' is present, must not specify a/b, webhooks[0].sideEffects: Unsupported value: \"\": supported values: \"None\", \"NoneOnDryRun\", webhooks[0].clientConfig.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive, webhooks[0].clientConfig.service.path: Invalid value: \"x\": must start with a '/', webhooks[0].clientConfig.service.path: Invalid value: \"x\": segment[0] may not be empty, webhooks[0].matchConditions[0].expression: Required value, webhooks[0].matchConditions[0].name: Required value, webhooks[0].admissionReviewVersions[1]: Invalid value: \"v1\": duplicate version]",
        ),
        (
            "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies",
            json!({"metadata": {"name": "m"}, "spec": {"matchConstraints": {"resourceRules": [{
                "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["DELETE"], "resources": ["x"],
            }]}, "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "10"}, "jsonPatch": {}}]}}),
            "MutatingAdmissionPolicy.admissionregistration.k8s.io \"m\" is invalid: [spec.matchConstraints.resourceRules.operations: Unsupported value: \"DELETE\": supported values: \"*\", \"CONNECT\", \"CREATE\", \"UPDATE\", spec.mutations[0].applyConfiguration.expression: Invalid value: \"10\": must evaluate to Object but got int, spec.mutations[0].jsonPatch: Invalid value: \"{jsonPatch}\": must not be specified when patchType is ApplyConfiguration, spec.reinvocationPolicy: Required value]",
        ),
        (
            "/apis/resource.k8s.io/v1/deviceclasses",
            json!({"metadata": {"name": "d"}, "spec": {"config": [{}], "extendedResourceName": "x"}}),
            "DeviceClass.resource.k8s.io \"d\" is invalid: [spec.config[0].opaque: Required value, spec.extendedResourceName: Invalid value: \"x\": a name must be a domain-prefixed path, such as 'example.com/my-prop']",
        ),
        (
            "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
            json!({"metadata": {"name": "c"}, "spec": {"devices": {
                "requests": [{"name": "r", "exactly": {"deviceClassName": "c", "count": -1, "adminAccess": true}}],
                "constraints": [{"requests": ["q"], "matchAttribute": "numa"}],
            }}}),
            "ResourceClaim.resource.k8s.io \"c\" is invalid: [spec.devices.requests[0].adminAccess: Forbidden: admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing namespace, spec.devices.requests[0].exactly.count: Invalid value: -1: must be greater than zero, spec.devices.constraints[0].requests[0]: Invalid value: \"q\": must be the name of a request in the claim or the name of a request and a subrequest separated by '/', spec.devices.constraints[0].matchAttribute: Invalid value: \"numa\": a fully qualified name must be a domain and a name separated by a slash]",
        ),
        (
            "/apis/apiregistration.k8s.io/v1/apiservices",
            json!({"metadata": {"name": "v1.x.y"}, "spec": {"group": "x.z", "version": "v1", "groupPriorityMinimum": 1, "insecureSkipTLSVerify": true}}),
            "APIService.apiregistration.k8s.io \"v1.x.y\" is invalid: [metadata.name: Invalid value: \"v1.x.y\": must be `spec.version+\".\"+spec.group`: \"v1.x.z\", spec.versionPriority: Invalid value: 0: must be positive and less than 1000, spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify]",
        ),
        (
            "/apis/networking.k8s.io/v1/servicecidrs",
            json!({"metadata": {"name": "s"}, "spec": {"cidrs": ["10.9.0.0/24", "10.8.0.0/24"]}}),
            "ServiceCIDR.networking.k8s.io \"s\" is invalid: spec.cidrs: Invalid value: [\"10.9.0.0/24\",\"10.8.0.0/24\"]: may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64",
        ),
        (
            "/apis/storage.k8s.io/v1/volumeattributesclasses",
            json!({"metadata": {"name": "v"}, "driverName": "a.b"}),
            "VolumeAttributesClass.storage.k8s.io \"v\" is invalid: parameters: Required value: must contain at least one key/value pair",
        ),
        (
            "/apis/resource.k8s.io/v1/deviceclasses",
            json!({"metadata": {"name": "d"}, "spec": {"selectors": [{}]}}),
            "DeviceClass.resource.k8s.io \"d\" is invalid: spec.selectors[0].cel: Required value",
        ),
        (
            "/apis/batch/v1/namespaces/default/jobs",
            json!({"metadata": {"name": "j"}, "spec": {
                "completionMode": "Indexed", "completions": 3,
                "successPolicy": {"rules": [{"succeededIndexes": "0,2-3", "succeededCount": 1}]},
                "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
            }}),
            "Job.batch \"j\" is invalid: [spec.successPolicy.rules[0].succeededIndexes: Invalid value: \"0,2-3\": error parsing succeededIndexes: too large index: \"3\", spec.successPolicy.rules[0].succeededCount: Invalid value: 1: must be less than or equal to 0 (the number of indexes in the specified succeededIndexes field)]",
        ),
    ];
    for (path, object, message) in cases {
        assert_eq!(client.post(path, &object).await.body["message"], message);
    }
}

#[tokio::test]
async fn updates_that_are_refused() {
    let (_sandbox, client) = bare();
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    assert_eq!(client.post(&at("pods"), &pod).await.code, 201);
    let cases = [
        (
            json!({"spec": {"tolerations": []}}),
            // The defaults come back by themselves.
            None,
        ),
        (
            json!({"spec": {"tolerations": [{"operator": "Exists"}]}}),
            Some("existing toleration can not be modified except its tolerationSeconds"),
        ),
        (
            json!({"spec": {"ephemeralContainers": [{"name": "e", "image": "i"}]}}),
            Some("pod updates may not change fields other than"),
        ),
    ];
    for (patch, why) in cases {
        let answer = client.patch(&at("pods/p"), MERGE, &patch).await;
        match why {
            None => assert_eq!(answer.code, 200, "{}", answer.text),
            Some(why) => assert!(answer.text.contains(why), "{}", answer.text),
        }
    }
}

#[tokio::test]
async fn scales_are_shown_and_owned() {
    let (_sandbox, client) = bare();
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let deployment = json!({"metadata": {"name": "d"}, "spec": {
        "replicas": 0, "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }});
    client.post(path, &deployment).await;
    let scale = format!("{path}/d/scale");
    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let table = client.request("GET", &scale, &table, String::new()).await.body;
    assert_eq!(table["rows"][0]["cells"][1], 0);
    let nothing = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 0}});
    let applied = client.patch(&format!("{scale}?fieldManager=m"), APPLY, &nothing).await;
    // A scale of nothing does not show it, so that somebody else's is not the same.
    assert_eq!(applied.code, 409, "{}", applied.text);
    let forced = client.patch(&format!("{scale}?fieldManager=m&force=true"), APPLY, &nothing).await;
    assert_eq!(forced.code, 200, "{}", forced.text);
}

#[tokio::test]
async fn secrets_from_protobuf() {
    let (_sandbox, client) = bare();
    client.post("/api/v1/namespaces", &json!({"metadata": {"name": "demo"}})).await;
    let hex = "6b3873000a0c0a027631120653656372657412220a160a02733112001a0464656d6f22002a0032003800420012060a01611201621a001a002200";
    let body: Vec<u8> =
        (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect();
    let headers = [("content-type", "application/vnd.kubernetes.protobuf")];
    let made = client.request("POST", "/api/v1/namespaces/demo/secrets", &headers, body).await;
    assert_eq!(made.code, 201, "{}", made.text);
    assert_eq!((&made.body["data"]["a"], &made.body["type"]), (&json!("Yg=="), &json!("Opaque")));
}

#[tokio::test]
async fn hostile_bodies_are_refused() {
    let (_sandbox, client) = bare();
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let bodies = [
        "",
        "null",
        "[]",
        "\"x\"",
        "{",
        "{\"metadata\":{\"name\":[]}}",
        "{\"metadata\":\"x\"}",
        deep.as_str(),
        "\u{0}",
    ];
    for body in bodies {
        for (method, kind) in [
            ("POST", "application/json"),
            ("POST", "application/yaml"),
            ("POST", "application/vnd.kubernetes.protobuf"),
        ] {
            let answer =
                client.request(method, &at("configmaps"), &[("content-type", kind)], body.to_owned()).await;
            assert!((400..=422).contains(&answer.code), "{kind} {:.20}: {}", body, answer.text);
        }
    }
    let huge = "x".repeat(4 << 20);
    assert_eq!(client.request("POST", &at("configmaps"), &[], huge).await.code, 413);
}

#[tokio::test]
async fn taints_of_devices_get_a_time() {
    let (_sandbox, client) = bare();
    let taint = json!({"key": "k", "effect": "NoSchedule"});
    let slice = json!({"metadata": {"name": "s"}, "spec": {
        "driver": "Driver.example.com", "nodeName": "n", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "d", "taints": [taint, {"key": "k", "effect": "NoExecute", "timeAdded": "2020-01-01T00:00:00Z"}]}],
    }});
    let made = client.post("/apis/resource.k8s.io/v1/resourceslices", &slice).await;
    let taints = &made.body["spec"]["devices"][0]["taints"];
    assert_eq!(taints[0]["timeAdded"], made.body["metadata"]["creationTimestamp"]);
    assert_eq!(taints[1]["timeAdded"], "2020-01-01T00:00:00Z");
    assert!(made.headers["warning"].to_str().unwrap().contains("driver names should be lowercase"));
    let rule = json!({"metadata": {"name": "r"}, "spec": {"taint": {"key": "k", "effect": "NoSchedule", "timeAdded": "2020-01-01T00:00:00Z"}}});
    let rules = "/apis/resource.k8s.io/v1/devicetaintrules";
    let made = client.post(rules, &rule).await.body;
    assert_eq!(made["spec"]["taint"]["timeAdded"], "2020-01-01T00:00:00Z");
    // Its time is that of the effect.
    let changed = client
        .patch(&format!("{rules}/r"), MERGE, &json!({"spec": {"taint": {"effect": "NoExecute"}}}))
        .await
        .body;
    assert_eq!(changed["spec"]["taint"]["timeAdded"], made["metadata"]["creationTimestamp"]);
}
