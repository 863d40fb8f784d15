//! Rows of services, ingresses and what they lead to.

use serde_json::Value;

use super::{NONE, join, labels, or, text};
use crate::write::admit::validate::list;

pub(super) fn service(object: &Value, age: Value) -> Vec<Value> {
    let spec = &object["spec"];
    let kind = text(spec, "/type");
    let ips = join(list(&spec["externalIPs"]).filter_map(|(_, ip)| ip.as_str()));
    let external = match kind {
        "LoadBalancer" => {
            let given = join(list(&object["status"]["loadBalancer"]["ingress"]).filter_map(|(_, i)| {
                i["ip"].as_str().filter(|t| !t.is_empty()).or_else(|| i["hostname"].as_str())
            }));
            match (given == NONE, ips == NONE) {
                (true, true) => "<pending>".to_owned(),
                (true, false) => ips,
                (false, true) => given,
                (false, false) => format!("{given},{ips}"),
            }
        }
        "ExternalName" => text(spec, "/externalName").to_owned(),
        _ => ips,
    };
    let ports: Vec<String> = list(&spec["ports"])
        .map(|(_, p)| match p["nodePort"].as_i64().unwrap_or(0) {
            0 => format!("{}/{}", p["port"], text(p, "/protocol")),
            node => format!("{}:{node}/{}", p["port"], text(p, "/protocol")),
        })
        .collect();
    vec![
        object["metadata"]["name"].clone(),
        kind.into(),
        or(text(spec, "/clusterIP"), NONE).into(),
        external.into(),
        if ports.is_empty() { NONE.into() } else { ports.join(",").into() },
        age,
        labels(&spec["selector"]).into(),
    ]
}

pub(super) fn endpoints(object: &Value) -> String {
    let mut all = Vec::new();
    for (_, subset) in list(&object["subsets"]) {
        let ports: Vec<i64> = list(&subset["ports"]).filter_map(|(_, p)| p["port"].as_i64()).collect();
        for (_, address) in list(&subset["addresses"]) {
            let ip = text(address, "/ip");
            if ports.is_empty() {
                all.push(ip.to_owned());
            }
            all.extend(ports.iter().map(|port| format!("{ip}:{port}")));
        }
    }
    capped(&all, NONE)
}

/// At most three, and how many more.
pub(super) fn capped(all: &[String], none: &str) -> String {
    match all.len() {
        0 => none.to_owned(),
        n if n > 3 => format!("{} + {} more...", all[..3].join(","), n - 3),
        _ => all.join(","),
    }
}

pub(super) fn slice(object: &Value, age: Value) -> Vec<Value> {
    let ports: Vec<String> = list(&object["ports"])
        .map(|(_, p)| p["port"].as_i64().map_or_else(|| "*".to_owned(), |n| n.to_string()))
        .collect();
    let addresses: Vec<String> = list(&object["endpoints"])
        .flat_map(|(_, e)| {
            list(&e["addresses"]).filter_map(|(_, a)| a.as_str().map(str::to_owned)).collect::<Vec<_>>()
        })
        .collect();
    vec![
        object["metadata"]["name"].clone(),
        text(object, "/addressType").into(),
        capped(&ports, "<unset>").into(),
        capped(&addresses, "<unset>").into(),
        age,
    ]
}

pub(super) fn ingress(object: &Value, age: Value) -> Vec<Value> {
    let spec = &object["spec"];
    let class = match text(spec, "/ingressClassName") {
        "" => slipway_manifest::object::annotation(object, "kubernetes.io/ingress.class").unwrap_or(NONE),
        class => class,
    };
    let hosts: Vec<String> = list(&spec["rules"])
        .filter_map(|(_, r)| r["host"].as_str().filter(|h| !h.is_empty()).map(str::to_owned))
        .collect();
    let addresses =
        join(list(&object["status"]["loadBalancer"]["ingress"]).filter_map(|(_, i)| {
            i["ip"].as_str().filter(|t| !t.is_empty()).or_else(|| i["hostname"].as_str())
        }));
    let ports = if spec["tls"].as_array().is_some_and(|t| !t.is_empty()) { "80, 443" } else { "80" };
    vec![
        object["metadata"]["name"].clone(),
        class.into(),
        capped(&hosts, "*").into(),
        addresses.replace(NONE, "").into(),
        ports.into(),
        age,
    ]
}
