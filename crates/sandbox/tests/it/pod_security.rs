//! Pod Security admission: the labels of a namespace decide which pods it lets in.

use serde_json::{Value, json};

use crate::client::{Client, MERGE, bare};

const NAMESPACES: &str = "/api/v1/namespaces";

async fn namespace(client: &Client, name: &str, labels: &[(&str, &str)]) {
    let labels: serde_json::Map<String, Value> = labels
        .iter()
        .map(|(mode, level)| (format!("pod-security.kubernetes.io/{mode}"), (*level).into()))
        .collect();
    let object =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
    let made = client.post(NAMESPACES, &object).await;
    assert_eq!(made.code, 201, "{}", made.text);
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    // A controller may have been faster.
    client.post(&format!("{NAMESPACES}/{name}/serviceaccounts"), &account).await;
}

/// A pod the restricted level lets in, with changes to its spec and to its container.
fn pod(spec: Value, container: Value) -> Value {
    let mut whole = json!({"securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "c", "image": "nginx", "securityContext": {
            "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}]});
    merge(&mut whole, &spec);
    merge(&mut whole["containers"][0], &container);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": whole})
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

#[tokio::test]
async fn pods_are_refused_in_the_words_of_a_server() {
    let (_sandbox, client) = bare();
    for level in ["baseline", "restricted"] {
        namespace(&client, level, &[("enforce", level)]).await;
    }
    let context = |context: Value| json!({"securityContext": context});
    let none = || json!({});
    let cases = [
        ("baseline", none(), none(), ""),
        ("restricted", none(), none(), ""),
        (
            "baseline",
            json!({"hostNetwork": true, "hostPID": true}),
            none(),
            "host namespaces (hostNetwork, hostPID)",
        ),
        (
            "baseline",
            json!({"volumes": [{"name": "h", "hostPath": {"path": "/"}}]}),
            none(),
            "hostPath volumes (volume \"h\")",
        ),
        (
            "restricted",
            json!({"volumes": [{"name": "h", "hostPath": {"path": "/"}}]}),
            none(),
            "restricted volume types (volume \"h\" uses restricted volume type \"hostPath\")",
        ),
        (
            "baseline",
            none(),
            json!({"ports": [{"containerPort": 80, "hostPort": 8080}]}),
            "hostPort (container \"c\" uses hostPort 8080)",
        ),
        (
            "baseline",
            none(),
            context(json!({"privileged": true, "allowPrivilegeEscalation": true})),
            "privileged (container \"c\" must not set securityContext.privileged=true)",
        ),
        (
            "baseline",
            none(),
            context(json!({"capabilities": {"add": ["SYS_ADMIN", "NET_RAW"]}})),
            "non-default capabilities (container \"c\" must not include \"NET_RAW\", \"SYS_ADMIN\" in securityContext.capabilities.add)",
        ),
        (
            "restricted",
            none(),
            context(json!({"capabilities": {"drop": [], "add": ["CHOWN"]}})),
            "unrestricted capabilities (container \"c\" must set securityContext.capabilities.drop=[\"ALL\"]; container \"c\" must not include \"CHOWN\" in securityContext.capabilities.add)",
        ),
        (
            "baseline",
            context(json!({"seccompProfile": {"type": "Unconfined"}})),
            none(),
            "seccompProfile (pod must not set securityContext.seccompProfile.type to \"Unconfined\")",
        ),
        (
            "baseline",
            context(json!({"sysctls": [{"name": "kernel.msgmax", "value": "1"}]})),
            none(),
            "forbidden sysctls (kernel.msgmax)",
        ),
        (
            "baseline",
            none(),
            context(json!({"seLinuxOptions": {"type": "bad_t", "user": "u"}})),
            "seLinuxOptions (container \"c\" set forbidden securityContext.seLinuxOptions: type \"bad_t\"; user may not be set)",
        ),
        (
            "restricted",
            context(json!({"runAsUser": 0})),
            none(),
            "runAsUser=0 (pod must not set runAsUser=0)",
        ),
        (
            "restricted",
            none(),
            context(json!({"runAsNonRoot": false})),
            "runAsNonRoot != true (container \"c\" must not set securityContext.runAsNonRoot=false)",
        ),
    ];
    for (level, spec, container, expected) in cases {
        let path = format!("{NAMESPACES}/{level}/pods?dryRun=All");
        let answer = client.post(&path, &pod(spec, container)).await;
        match expected {
            "" => assert_eq!(answer.code, 201, "{}", answer.text),
            expected => {
                let message =
                    format!("pods \"x\" is forbidden: violates PodSecurity \"{level}:latest\": {expected}");
                assert_eq!((answer.code, answer.body["message"].as_str()), (403, Some(message.as_str())));
            }
        }
    }
}

#[tokio::test]
async fn everything_a_pod_lacks_is_told_at_once() {
    let (_sandbox, client) = bare();
    namespace(&client, "strict", &[("enforce", "restricted"), ("enforce-version", "v1.30")]).await;
    let bare = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"},
        "spec": {"containers": [{"name": "c", "image": "nginx"}]}});
    let answer = client.post(&format!("{NAMESPACES}/strict/pods"), &bare).await;
    assert_eq!(
        answer.body["message"],
        "pods \"x\" is forbidden: violates PodSecurity \"restricted:v1.30\": allowPrivilegeEscalation != false \
         (container \"c\" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities \
         (container \"c\" must set securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or \
         container \"c\" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container \"c\" must \
         set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")"
    );
    // A workload is let in whatever it makes: its pods are refused.
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": bare["spec"]}}});
    let made = client.post("/apis/apps/v1/namespaces/strict/deployments", &deployment).await;
    assert_eq!(made.code, 201, "{}", made.text);
}

#[tokio::test]
async fn labels_that_say_nothing_are_refused() {
    let (_sandbox, client) = bare();
    let labels = json!({"pod-security.kubernetes.io/enforce": "strict", "pod-security.kubernetes.io/warn-version": "x"});
    let object =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "labels": labels}});
    let answer = client.post(NAMESPACES, &object).await;
    assert_eq!(answer.code, 422, "{}", answer.text);
    let message = answer.body["message"].as_str().unwrap_or_default();
    for part in ["must be one of privileged, baseline, restricted", "must be \"latest\" or \"v1.x\""] {
        assert!(message.contains(part), "{message}");
    }
    namespace(&client, "m", &[]).await;
    let patch = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "strict"}}});
    assert_eq!(client.patch(&format!("{NAMESPACES}/m"), MERGE, &patch).await.code, 422);
}
