//! Rows of services, ingresses and what they lead to.

use serde_json::Value;

use super::{NONE, join_texts, label_text, text_at, text_or};
use crate::write::admit::validate::indexed_items;

pub(super) fn service_row(object: &Value, age: Value) -> Vec<Value> {
    let spec = &object["spec"];
    let kind = text_at(spec, "/type");
    let ips = join_texts(indexed_items(&spec["externalIPs"]).filter_map(|(_, ip)| ip.as_str()));
    let external = match kind {
        "LoadBalancer" => {
            let given = join_texts(indexed_items(&object["status"]["loadBalancer"]["ingress"]).filter_map(
                |(_, i)| i["ip"].as_str().filter(|t| !t.is_empty()).or_else(|| i["hostname"].as_str()),
            ));
            match (given == NONE, ips == NONE) {
                (true, true) => "<pending>".to_owned(),
                (true, false) => ips,
                (false, true) => given,
                (false, false) => format!("{given},{ips}"),
            }
        }
        "ExternalName" => text_at(spec, "/externalName").to_owned(),
        _ => ips,
    };
    let ports: Vec<String> = indexed_items(&spec["ports"])
        .map(|(_, p)| match p["nodePort"].as_i64().unwrap_or(0) {
            0 => format!("{}/{}", p["port"], text_at(p, "/protocol")),
            node => format!("{}:{node}/{}", p["port"], text_at(p, "/protocol")),
        })
        .collect();
    vec![
        object["metadata"]["name"].clone(),
        kind.into(),
        text_or(text_at(spec, "/clusterIP"), NONE).into(),
        external.into(),
        if ports.is_empty() { NONE.into() } else { ports.join(",").into() },
        age,
        label_text(&spec["selector"]).into(),
    ]
}

pub(super) fn endpoints_cell(object: &Value) -> String {
    let mut all = Vec::new();
    for (_, subset) in indexed_items(&object["subsets"]) {
        let ports: Vec<i64> =
            indexed_items(&subset["ports"]).filter_map(|(_, p)| p["port"].as_i64()).collect();
        for (_, address) in indexed_items(&subset["addresses"]) {
            let ip = text_at(address, "/ip");
            if ports.is_empty() {
                all.push(ip.to_owned());
            }
            all.extend(ports.iter().map(|port| format!("{ip}:{port}")));
        }
    }
    capped_list(&all, NONE)
}

/// At most three, and how many more.
pub(super) fn capped_list(all: &[String], none: &str) -> String {
    match all.len() {
        0 => none.to_owned(),
        n if n > 3 => format!("{} + {} more...", all[..3].join(","), n - 3),
        _ => all.join(","),
    }
}

pub(super) fn endpoint_slice_row(object: &Value, age: Value) -> Vec<Value> {
    let ports: Vec<String> = indexed_items(&object["ports"])
        .map(|(_, p)| p["port"].as_i64().map_or_else(|| "*".to_owned(), |n| n.to_string()))
        .collect();
    let addresses: Vec<String> = indexed_items(&object["endpoints"])
        .flat_map(|(_, e)| {
            indexed_items(&e["addresses"])
                .filter_map(|(_, a)| a.as_str().map(str::to_owned))
                .collect::<Vec<_>>()
        })
        .collect();
    vec![
        object["metadata"]["name"].clone(),
        text_at(object, "/addressType").into(),
        capped_list(&ports, "<unset>").into(),
        capped_list(&addresses, "<unset>").into(),
        age,
    ]
}

pub(super) fn ingress_row(object: &Value, age: Value) -> Vec<Value> {
    let spec = &object["spec"];
    let class = match text_at(spec, "/ingressClassName") {
        "" => slipway_manifest::object::annotation(object, "kubernetes.io/ingress.class").unwrap_or(NONE),
        class => class,
    };
    let hosts: Vec<String> = indexed_items(&spec["rules"])
        .filter_map(|(_, r)| r["host"].as_str().filter(|h| !h.is_empty()).map(str::to_owned))
        .collect();
    let addresses =
        join_texts(indexed_items(&object["status"]["loadBalancer"]["ingress"]).filter_map(|(_, i)| {
            i["ip"].as_str().filter(|t| !t.is_empty()).or_else(|| i["hostname"].as_str())
        }));
    let ports = if spec["tls"].as_array().is_some_and(|t| !t.is_empty()) { "80, 443" } else { "80" };
    vec![
        object["metadata"]["name"].clone(),
        class.into(),
        capped_list(&hosts, "*").into(),
        addresses.replace(NONE, "").into(),
        ports.into(),
        age,
    ]
}
