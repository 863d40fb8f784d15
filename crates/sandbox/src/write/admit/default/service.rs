//! Defaults of services and of what lists their endpoints.

use serde_json::{Value, json};

use super::{items_mut, remove_null, set_default, set_default_if_empty};

pub(in crate::write) fn default_service(object: &mut Value) {
    let spec = &mut object["spec"];
    if !spec.is_object() {
        *spec = json!({});
    }
    set_default_if_empty(spec, "sessionAffinity", "None");
    if spec["sessionAffinity"] == "None" {
        spec["sessionAffinityConfig"] = Value::Null;
    }
    if spec["sessionAffinity"] == "ClientIP"
        && spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"].is_null()
    {
        spec["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": 10800}});
    }
    remove_null(spec, "sessionAffinityConfig");
    set_default_if_empty(spec, "type", "ClusterIP");
    for port in items_mut(&mut spec["ports"]) {
        set_default_if_empty(port, "protocol", "TCP");
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
        remove_null(port, "targetPort");
        remove_null(port, "port");
    }
    remove_null(spec, "ports");
    let external = spec["type"] == "ExternalName";
    let open = matches!(spec["type"].as_str(), Some("NodePort" | "LoadBalancer"));
    if open || spec["externalIPs"].as_array().is_some_and(|ips| !ips.is_empty()) {
        set_default_if_empty(spec, "externalTrafficPolicy", "Cluster");
    }
    remove_null(spec, "externalIPs");
    if !external {
        set_default(spec, "internalTrafficPolicy", "Cluster");
    }
    if spec["type"] == "LoadBalancer" {
        set_default(spec, "allocateLoadBalancerNodePorts", true);
        if object["status"]["loadBalancer"].is_object() {
            for entry in items_mut(&mut object["status"]["loadBalancer"]["ingress"]) {
                if entry["ip"].as_str().is_some_and(|ip| !ip.is_empty()) {
                    set_default(entry, "ipMode", "VIP");
                }
            }
            remove_null(&mut object["status"]["loadBalancer"], "ingress");
        }
    }
}

pub(in crate::write) fn default_endpoints(object: &mut Value) {
    for subset in items_mut(&mut object["subsets"]) {
        for port in items_mut(&mut subset["ports"]) {
            set_default_if_empty(port, "protocol", "TCP");
        }
        remove_null(subset, "ports");
    }
    remove_null(object, "subsets");
}

pub(in crate::write) fn default_endpoint_slice(object: &mut Value) {
    for port in items_mut(&mut object["ports"]) {
        set_default(port, "name", "");
        set_default(port, "protocol", "TCP");
    }
    remove_null(object, "ports");
}
