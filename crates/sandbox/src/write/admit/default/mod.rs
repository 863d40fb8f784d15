//! The values the API fills in: what a real server's decoding adds to each built-in kind.

mod pod;
mod service;
mod workload;

use serde_json::{Map, Value, json};

/// Fills in defaults of a decoded built-in object. `meta` rules (names, uids) are not here.
pub(crate) fn apply(group: &str, version: &str, kind: &str, object: &mut Value) {
    match (group, kind) {
        ("", "Pod") => pod::pod(object),
        ("", "PodTemplate") => pod::template(&mut object["template"]),
        ("", "ReplicationController") => workload::replication_controller(object),
        ("apps", "Deployment") => workload::deployment(object),
        ("apps", "ReplicaSet") => workload::replica_set(object),
        ("apps", "StatefulSet") => workload::stateful_set(object),
        ("apps", "DaemonSet") => workload::daemon_set(object),
        ("batch", "Job") => workload::job(object),
        ("batch", "CronJob") => workload::cron_job(object),
        ("", "Service") => service::service(object),
        ("", "Endpoints") => service::endpoints(object),
        ("discovery.k8s.io", "EndpointSlice") => service::endpoint_slice(object),
        ("", "Namespace") => {
            if let Some(name) = object["metadata"]["name"].as_str().filter(|n| !n.is_empty()) {
                let name = name.to_owned();
                slipway_manifest::object::set_label(object, "kubernetes.io/metadata.name", &name);
            }
            default(&mut object["status"], "phase", "Active");
        }
        ("", "Secret") => secret(object),
        ("", "PersistentVolumeClaim") => claim(object),
        ("", "PersistentVolume") => {
            default(&mut object["spec"], "persistentVolumeReclaimPolicy", "Retain");
            default(&mut object["spec"], "volumeMode", "Filesystem");
            pod::volume_source(&mut object["spec"]);
            default(&mut object["status"], "phase", "Pending");
        }
        ("", "LimitRange") => limit_range(object),
        ("", "Node") => {}
        ("networking.k8s.io", "IngressClass") if object["spec"]["parameters"].is_object() => {
            default(&mut object["spec"]["parameters"], "scope", "Cluster");
        }
        ("networking.k8s.io", "NetworkPolicy") => network_policy(object),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaler(version, object),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            for subject in items(&mut object["subjects"]) {
                if matches!(subject["kind"].as_str(), Some("User" | "Group")) {
                    default_empty(subject, "apiGroup", "rbac.authorization.k8s.io");
                }
            }
            default_empty(&mut object["roleRef"], "apiGroup", "rbac.authorization.k8s.io");
        }
        ("storage.k8s.io", "StorageClass") => {
            default(object, "reclaimPolicy", "Delete");
            default(object, "volumeBindingMode", "Immediate");
        }
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => {
            default_zero(&mut object["spec"], "matchingPrecedence", 1000);
        }
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => priority_level(&mut object["spec"]),
        ("resource.k8s.io", "ResourceClaim") => device_requests(&mut object["spec"]),
        ("resource.k8s.io", "ResourceClaimTemplate") => device_requests(&mut object["spec"]["spec"]),
        ("storage.k8s.io", "CSIDriver") => csi_driver(&mut object["spec"]),
        ("scheduling.k8s.io", "PriorityClass") => default(object, "preemptionPolicy", "PreemptLowerPriority"),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration") => webhooks(object, false),
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration") => webhooks(object, true),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy") => {
            policy(&mut object["spec"]);
        }
        (
            "admissionregistration.k8s.io",
            "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding",
        ) => match_resources(&mut object["spec"]["matchResources"]),
        ("apiregistration.k8s.io", "APIService") if object["spec"]["service"].is_object() => {
            default(&mut object["spec"]["service"], "port", 443);
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition(object),
        ("certificates.k8s.io", "CertificateSigningRequest") => {}
        ("authorization.k8s.io" | "authentication.k8s.io", _) => {}
        _ => {}
    }
}

/// Sets a member that is absent or null.
pub(crate) fn default(object: &mut Value, key: &str, value: impl Into<Value>) {
    if object.is_null() {
        *object = Value::Object(Map::new());
    }
    if let Value::Object(members) = object
        && members.get(key).is_none_or(Value::is_null)
    {
        members.insert(key.to_owned(), value.into());
    }
}

/// Sets a member that is absent, null or an empty string: Go cannot tell these apart.
pub(crate) fn default_empty(object: &mut Value, key: &str, value: impl Into<Value>) {
    if object.get(key).is_some_and(|v| v.as_str() == Some("")) {
        object[key] = Value::Null;
    }
    default(object, key, value);
}

/// Sets a member that is absent, null, zero or empty: the default of a Go field that is no pointer.
pub(crate) fn default_zero(object: &mut Value, key: &str, value: impl Into<Value>) {
    let zero = match object.get(key) {
        None | Some(Value::Null) => true,
        Some(Value::Number(n)) => n.as_f64() == Some(0.0),
        Some(Value::String(s)) => s.is_empty(),
        _ => false,
    };
    if zero {
        if !object.is_object() {
            *object = Value::Object(Map::new());
        }
        object[key] = value.into();
    }
}

/// The items of a list, to change in place.
pub(crate) fn items(list: &mut Value) -> impl Iterator<Item = &mut Value> {
    list.as_array_mut().into_iter().flatten()
}

fn secret(object: &mut Value) {
    default_empty(object, "type", "Opaque");
    let Some(Value::Object(text)) = object.as_object_mut().and_then(|o| o.shift_remove("stringData")) else {
        return;
    };
    if text.is_empty() {
        return;
    }
    if !object["data"].is_object() {
        object["data"] = json!({});
    }
    for (key, value) in text {
        use base64::Engine;
        let encoded = base64::engine::general_purpose::STANDARD.encode(value.as_str().unwrap_or(""));
        object["data"][key] = encoded.into();
    }
}

pub(crate) fn claim(object: &mut Value) {
    default_empty(&mut object["status"], "phase", "Pending");
    default(&mut object["spec"], "volumeMode", "Filesystem");
}

fn limit_range(object: &mut Value) {
    for limit in items(&mut object["spec"]["limits"]) {
        if limit["type"] != "Container" {
            continue;
        }
        let max = limit["max"].as_object().cloned().unwrap_or_default();
        for (resource, amount) in max {
            default(&mut limit["default"], &resource, amount);
        }
        let chosen = limit["default"].as_object().cloned().unwrap_or_default();
        for (resource, amount) in chosen {
            default(&mut limit["defaultRequest"], &resource, amount);
        }
        let min = limit["min"].as_object().cloned().unwrap_or_default();
        for (resource, amount) in min {
            default(&mut limit["defaultRequest"], &resource, amount);
        }
        if limit["default"].is_null() {
            remove(limit, "default");
        }
        if limit["defaultRequest"].is_null() {
            remove(limit, "defaultRequest");
        }
    }
}

fn remove(object: &mut Value, key: &str) {
    if let Some(members) = object.as_object_mut() {
        members.shift_remove(key);
    }
}

fn network_policy(object: &mut Value) {
    let spec = &mut object["spec"];
    for direction in ["ingress", "egress"] {
        for rule in items(&mut spec[direction]) {
            for port in items(&mut rule["ports"]) {
                default(port, "protocol", "TCP");
            }
            tidy(rule, "ports");
        }
        tidy(spec, direction);
    }
    let absent = spec["policyTypes"].as_array().is_none_or(Vec::is_empty);
    if absent {
        let mut types = vec![json!("Ingress")];
        if spec["egress"].as_array().is_some_and(|e| !e.is_empty()) {
            types.push(json!("Egress"));
        }
        spec["policyTypes"] = types.into();
    }
}

/// Indexing a value mutably creates nulls; this takes them out again.
pub(crate) fn tidy(object: &mut Value, key: &str) {
    if object.get(key).is_some_and(Value::is_null) {
        remove(object, key);
    }
}

fn autoscaler(version: &str, object: &mut Value) {
    let spec = &mut object["spec"];
    default(spec, "minReplicas", 1);
    if version == "v1" {
        default(spec, "targetCPUUtilizationPercentage", 80);
        return;
    }
    if spec["metrics"].as_array().is_none_or(Vec::is_empty) {
        spec["metrics"] = json!([{
            "type": "Resource",
            "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
        }]);
    }
    let up = spec["behavior"]["scaleUp"].as_object().cloned();
    let down = spec["behavior"]["scaleDown"].as_object().cloned();
    if !spec["behavior"].is_object() {
        remove(spec, "behavior");
        return;
    }
    let mut up = Value::Object(up.unwrap_or_default());
    default(&mut up, "stabilizationWindowSeconds", 0);
    default(&mut up, "selectPolicy", "Max");
    default(
        &mut up,
        "policies",
        json!([{"type": "Pods", "value": 4, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15}]),
    );
    let mut down = Value::Object(down.unwrap_or_default());
    default(&mut down, "selectPolicy", "Max");
    default(&mut down, "policies", json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]));
    spec["behavior"] = json!({"scaleUp": up, "scaleDown": down});
}

fn priority_level(spec: &mut Value) {
    if spec["exempt"].is_object() {
        default(&mut spec["exempt"], "nominalConcurrencyShares", 0);
        default(&mut spec["exempt"], "lendablePercent", 0);
    }
    tidy(spec, "exempt");
    if spec["limited"].is_object() {
        default(&mut spec["limited"], "nominalConcurrencyShares", 30);
        default(&mut spec["limited"], "lendablePercent", 0);
        if spec["limited"]["limitResponse"]["queuing"].is_object() {
            for (key, value) in [("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)] {
                default_zero(&mut spec["limited"]["limitResponse"]["queuing"], key, value);
            }
        }
        if spec["limited"]["limitResponse"].is_object() {
            tidy(&mut spec["limited"]["limitResponse"], "queuing");
        }
        tidy(&mut spec["limited"], "limitResponse");
    }
    tidy(spec, "limited");
}

fn device_requests(spec: &mut Value) {
    if !spec["devices"]["requests"].is_array() {
        return;
    }
    for request in items(&mut spec["devices"]["requests"]) {
        if request.get("exactly").is_some_and(Value::is_object) {
            device_request(&mut request["exactly"]);
        }
        if request.get("firstAvailable").is_some_and(Value::is_array) {
            items(&mut request["firstAvailable"]).for_each(device_request);
        }
    }
}

fn device_request(request: &mut Value) {
    default_empty(request, "allocationMode", "ExactCount");
    if request["allocationMode"] == "ExactCount" {
        default_zero(request, "count", 1);
    }
    if request["tolerations"].is_array() {
        items(&mut request["tolerations"])
            .for_each(|toleration| default_empty(toleration, "operator", "Equal"));
    }
}

fn csi_driver(spec: &mut Value) {
    for (key, value) in [
        ("attachRequired", json!(true)),
        ("podInfoOnMount", json!(false)),
        ("storageCapacity", json!(false)),
        ("fsGroupPolicy", json!("ReadWriteOnceWithFSType")),
        ("requiresRepublish", json!(false)),
        ("seLinuxMount", json!(false)),
        ("preventPodSchedulingIfMissing", json!(false)),
    ] {
        default(spec, key, value);
    }
    if spec["volumeLifecycleModes"].as_array().is_none_or(Vec::is_empty) {
        spec["volumeLifecycleModes"] = json!(["Persistent"]);
    }
}

fn webhooks(object: &mut Value, mutating: bool) {
    for hook in items(&mut object["webhooks"]) {
        default(hook, "failurePolicy", "Fail");
        default(hook, "matchPolicy", "Equivalent");
        default(hook, "namespaceSelector", json!({}));
        default(hook, "objectSelector", json!({}));
        default(hook, "timeoutSeconds", 10);
        if mutating {
            default(hook, "reinvocationPolicy", "Never");
        }
        if hook["clientConfig"]["service"].is_object() {
            default(&mut hook["clientConfig"]["service"], "port", 443);
        } else if hook["clientConfig"].is_object() {
            tidy(&mut hook["clientConfig"], "service");
        }
        for rule in items(&mut hook["rules"]) {
            default(rule, "scope", "*");
        }
        tidy(hook, "rules");
    }
    tidy(object, "webhooks");
}

fn policy(spec: &mut Value) {
    if !spec.is_object() {
        return;
    }
    default(spec, "failurePolicy", "Fail");
    if spec["matchConstraints"].is_object() {
        match_resources(&mut spec["matchConstraints"]);
    }
    tidy(spec, "matchConstraints");
}

fn match_resources(matching: &mut Value) {
    if !matching.is_object() {
        return;
    }
    default(matching, "matchPolicy", "Equivalent");
    default(matching, "namespaceSelector", json!({}));
    default(matching, "objectSelector", json!({}));
    for key in ["resourceRules", "excludeResourceRules"] {
        for rule in items(&mut matching[key]) {
            default(rule, "scope", "*");
        }
        tidy(matching, key);
    }
}

fn definition(object: &mut Value) {
    let spec = &mut object["spec"];
    let kind = spec["names"]["kind"].as_str().unwrap_or("").to_owned();
    if !kind.is_empty() {
        default_empty(&mut spec["names"], "singular", kind.to_lowercase());
        default_empty(&mut spec["names"], "listKind", format!("{kind}List"));
    }
    default(spec, "conversion", json!({"strategy": "None"}));
    if spec["conversion"]["webhook"]["clientConfig"]["service"].is_object() {
        default(&mut spec["conversion"]["webhook"]["clientConfig"]["service"], "port", 443);
    } else if spec["conversion"].is_object() {
        // Indexing above may have made nulls.
        if let Some(Value::Object(conversion)) = spec.get_mut("conversion")
            && conversion.get("webhook").is_some_and(|w| w["clientConfig"].is_null())
        {
            conversion.shift_remove("webhook");
        }
    }
}
