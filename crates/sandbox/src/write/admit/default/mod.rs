//! The values the API fills in: what a real server's decoding adds to each built-in kind.

pub(in crate::write) mod pod;
pub(in crate::write) mod service;
pub(in crate::write) mod workload;

use serde_json::{Map, Value, json};

/// Sets a member that is absent or null.
pub(crate) fn set_default(object: &mut Value, key: &str, value: impl Into<Value>) {
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
pub(crate) fn set_default_if_empty(object: &mut Value, key: &str, value: impl Into<Value>) {
    if object.get(key).is_some_and(|v| v.as_str() == Some("")) {
        object[key] = Value::Null;
    }
    set_default(object, key, value);
}

/// Sets a member that is absent, null, zero or empty: the default of a Go field that is no pointer.
pub(crate) fn set_default_if_zero(object: &mut Value, key: &str, value: impl Into<Value>) {
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
pub(crate) fn items_mut(list: &mut Value) -> impl Iterator<Item = &mut Value> {
    list.as_array_mut().into_iter().flatten()
}

pub(in crate::write) fn default_secret(object: &mut Value) {
    set_default_if_empty(object, "type", "Opaque");
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

pub(crate) fn default_claim(object: &mut Value) {
    set_default_if_empty(&mut object["status"], "phase", "Pending");
    set_default(&mut object["spec"], "volumeMode", "Filesystem");
}

pub(in crate::write) fn default_limit_range(object: &mut Value) {
    for limit in items_mut(&mut object["spec"]["limits"]) {
        if limit["type"] != "Container" {
            continue;
        }
        let max = limit["max"].as_object().cloned().unwrap_or_default();
        for (resource, amount) in max {
            set_default(&mut limit["default"], &resource, amount);
        }
        let chosen = limit["default"].as_object().cloned().unwrap_or_default();
        for (resource, amount) in chosen {
            set_default(&mut limit["defaultRequest"], &resource, amount);
        }
        let min = limit["min"].as_object().cloned().unwrap_or_default();
        for (resource, amount) in min {
            set_default(&mut limit["defaultRequest"], &resource, amount);
        }
        if limit["default"].is_null() {
            remove_member(limit, "default");
        }
        if limit["defaultRequest"].is_null() {
            remove_member(limit, "defaultRequest");
        }
    }
}

fn remove_member(object: &mut Value, key: &str) {
    if let Some(members) = object.as_object_mut() {
        members.shift_remove(key);
    }
}

pub(in crate::write) fn default_network_policy(object: &mut Value) {
    let spec = &mut object["spec"];
    for direction in ["ingress", "egress"] {
        for rule in items_mut(&mut spec[direction]) {
            for port in items_mut(&mut rule["ports"]) {
                set_default(port, "protocol", "TCP");
            }
            remove_null(rule, "ports");
        }
        remove_null(spec, direction);
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

/// Removes a null that indexing a value mutably has created.
pub(crate) fn remove_null(object: &mut Value, key: &str) {
    if object.get(key).is_some_and(Value::is_null) {
        remove_member(object, key);
    }
}

pub(in crate::write) fn default_autoscaler(version: &str, object: &mut Value) {
    let spec = &mut object["spec"];
    set_default(spec, "minReplicas", 1);
    if version == "v1" {
        set_default(spec, "targetCPUUtilizationPercentage", 80);
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
        remove_member(spec, "behavior");
        return;
    }
    let mut up = Value::Object(up.unwrap_or_default());
    set_default(&mut up, "stabilizationWindowSeconds", 0);
    set_default(&mut up, "selectPolicy", "Max");
    set_default(
        &mut up,
        "policies",
        json!([{"type": "Pods", "value": 4, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15}]),
    );
    let mut down = Value::Object(down.unwrap_or_default());
    set_default(&mut down, "selectPolicy", "Max");
    set_default(&mut down, "policies", json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]));
    spec["behavior"] = json!({"scaleUp": up, "scaleDown": down});
}

pub(in crate::write) fn default_priority_level(spec: &mut Value) {
    if spec["exempt"].is_object() {
        set_default(&mut spec["exempt"], "nominalConcurrencyShares", 0);
        set_default(&mut spec["exempt"], "lendablePercent", 0);
    }
    remove_null(spec, "exempt");
    if spec["limited"].is_object() {
        set_default(&mut spec["limited"], "nominalConcurrencyShares", 30);
        set_default(&mut spec["limited"], "lendablePercent", 0);
        if spec["limited"]["limitResponse"]["queuing"].is_object() {
            for (key, value) in [("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)] {
                set_default_if_zero(&mut spec["limited"]["limitResponse"]["queuing"], key, value);
            }
        }
        if spec["limited"]["limitResponse"].is_object() {
            remove_null(&mut spec["limited"]["limitResponse"], "queuing");
        }
        remove_null(&mut spec["limited"], "limitResponse");
    }
    remove_null(spec, "limited");
}

pub(in crate::write) fn default_device_requests(spec: &mut Value) {
    if !spec["devices"]["requests"].is_array() {
        return;
    }
    for request in items_mut(&mut spec["devices"]["requests"]) {
        if request.get("exactly").is_some_and(Value::is_object) {
            default_device_request(&mut request["exactly"]);
        }
        if request.get("firstAvailable").is_some_and(Value::is_array) {
            items_mut(&mut request["firstAvailable"]).for_each(default_device_request);
        }
    }
}

fn default_device_request(request: &mut Value) {
    set_default_if_empty(request, "allocationMode", "ExactCount");
    if request["allocationMode"] == "ExactCount" {
        set_default_if_zero(request, "count", 1);
    }
    if request["tolerations"].is_array() {
        items_mut(&mut request["tolerations"])
            .for_each(|toleration| set_default_if_empty(toleration, "operator", "Equal"));
    }
}

pub(in crate::write) fn default_csi_driver(spec: &mut Value) {
    for (key, value) in [
        ("attachRequired", json!(true)),
        ("podInfoOnMount", json!(false)),
        ("storageCapacity", json!(false)),
        ("fsGroupPolicy", json!("ReadWriteOnceWithFSType")),
        ("requiresRepublish", json!(false)),
        ("seLinuxMount", json!(false)),
        ("preventPodSchedulingIfMissing", json!(false)),
    ] {
        set_default(spec, key, value);
    }
    if spec["volumeLifecycleModes"].as_array().is_none_or(Vec::is_empty) {
        spec["volumeLifecycleModes"] = json!(["Persistent"]);
    }
}

pub(in crate::write) fn default_webhooks(object: &mut Value, mutating: bool) {
    for hook in items_mut(&mut object["webhooks"]) {
        set_default(hook, "failurePolicy", "Fail");
        set_default(hook, "matchPolicy", "Equivalent");
        set_default(hook, "namespaceSelector", json!({}));
        set_default(hook, "objectSelector", json!({}));
        set_default(hook, "timeoutSeconds", 10);
        if mutating {
            set_default(hook, "reinvocationPolicy", "Never");
        }
        if hook["clientConfig"]["service"].is_object() {
            set_default(&mut hook["clientConfig"]["service"], "port", 443);
        } else if hook["clientConfig"].is_object() {
            remove_null(&mut hook["clientConfig"], "service");
        }
        for rule in items_mut(&mut hook["rules"]) {
            set_default(rule, "scope", "*");
        }
        remove_null(hook, "rules");
    }
    remove_null(object, "webhooks");
}

pub(in crate::write) fn default_policy(spec: &mut Value) {
    if !spec.is_object() {
        return;
    }
    set_default(spec, "failurePolicy", "Fail");
    if spec["matchConstraints"].is_object() {
        default_match_resources(&mut spec["matchConstraints"]);
    }
    remove_null(spec, "matchConstraints");
}

pub(in crate::write) fn default_match_resources(matching: &mut Value) {
    if !matching.is_object() {
        return;
    }
    set_default(matching, "matchPolicy", "Equivalent");
    set_default(matching, "namespaceSelector", json!({}));
    set_default(matching, "objectSelector", json!({}));
    for key in ["resourceRules", "excludeResourceRules"] {
        for rule in items_mut(&mut matching[key]) {
            set_default(rule, "scope", "*");
        }
        remove_null(matching, key);
    }
}

pub(in crate::write) fn default_definition(object: &mut Value) {
    let spec = &mut object["spec"];
    let kind = spec["names"]["kind"].as_str().unwrap_or("").to_owned();
    if !kind.is_empty() {
        set_default_if_empty(&mut spec["names"], "singular", kind.to_lowercase());
        set_default_if_empty(&mut spec["names"], "listKind", format!("{kind}List"));
    }
    set_default(spec, "conversion", json!({"strategy": "None"}));
    if spec["conversion"]["webhook"]["clientConfig"]["service"].is_object() {
        set_default(&mut spec["conversion"]["webhook"]["clientConfig"]["service"], "port", 443);
    } else if spec["conversion"].is_object() {
        // Indexing above may have made nulls.
        if let Some(Value::Object(conversion)) = spec.get_mut("conversion")
            && conversion.get("webhook").is_some_and(|w| w["clientConfig"].is_null())
        {
            conversion.shift_remove("webhook");
        }
    }
}
