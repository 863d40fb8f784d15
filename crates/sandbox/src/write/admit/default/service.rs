//! Defaults of services and of what lists their endpoints.

use serde_json::{Value, json};

use super::{default, default_empty, items, tidy};

pub(super) fn service(object: &mut Value) {
    let spec = &mut object["spec"];
    if !spec.is_object() {
        *spec = json!({});
    }
    default_empty(spec, "sessionAffinity", "None");
    if spec["sessionAffinity"] == "None" {
        spec["sessionAffinityConfig"] = Value::Null;
    }
    if spec["sessionAffinity"] == "ClientIP"
        && spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"].is_null()
    {
        spec["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": 10800}});
    }
    tidy(spec, "sessionAffinityConfig");
    default_empty(spec, "type", "ClusterIP");
    for port in items(&mut spec["ports"]) {
        default_empty(port, "protocol", "TCP");
        let number = port["port"].clone();
        let unset = match port.get("targetPort") {
            None | Some(Value::Null) => true,
            Some(Value::Number(n)) => n.as_i64() == Some(0),
            Some(Value::String(s)) => s.is_empty(),
            _ => false,
        };
        if unset {
            port["targetPort"] = number;
        }
        tidy(port, "targetPort");
        tidy(port, "port");
    }
    tidy(spec, "ports");
    let external = spec["type"] == "ExternalName";
    let open = matches!(spec["type"].as_str(), Some("NodePort" | "LoadBalancer"));
    if open || spec["externalIPs"].as_array().is_some_and(|ips| !ips.is_empty()) {
        default_empty(spec, "externalTrafficPolicy", "Cluster");
    }
    tidy(spec, "externalIPs");
    if !external {
        default(spec, "internalTrafficPolicy", "Cluster");
    }
    if spec["type"] == "LoadBalancer" {
        default(spec, "allocateLoadBalancerNodePorts", true);
    }
}

pub(super) fn endpoints(object: &mut Value) {
    for subset in items(&mut object["subsets"]) {
        for port in items(&mut subset["ports"]) {
            default_empty(port, "protocol", "TCP");
        }
        tidy(subset, "ports");
    }
    tidy(object, "subsets");
}

pub(super) fn endpoint_slice(object: &mut Value) {
    for port in items(&mut object["ports"]) {
        default(port, "name", "");
        default(port, "protocol", "TCP");
    }
    tidy(object, "ports");
}
