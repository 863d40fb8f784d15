//! Validation of the ports of its host a pod takes, and of where it looks names up.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::admit::meta;
use crate::admit::validate::address::BAD_IP;
use crate::admit::validate::{Causes, is_empty, list};
use crate::status::Cause;

/// Ports of the host can be had once, and on its network they are the containers' own.
pub(super) fn host_ports(spec: &Value, field: &str, out: &mut Causes) {
    let mut taken = BTreeSet::new();
    for (i, container) in list(&spec["containers"]) {
        for (j, port) in list(&container["ports"]) {
            let host = port["hostPort"].as_i64().unwrap_or(0);
            if host == 0 {
                continue;
            }
            let at = format!("{field}.containers[{i}].ports[{j}].hostPort");
            if spec["hostNetwork"] == true && port["containerPort"] != port["hostPort"] {
                let why = "must match `containerPort` when `hostNetwork` is true";
                out.push(Cause::invalid(&at, &port["hostPort"], why));
            }
            let text = |key: &str| port[key].as_str().unwrap_or("");
            let key = format!("{}/{}/{host}", text("protocol"), text("hostIP"));
            if !taken.insert(key.clone()) {
                out.push(Cause::duplicate(at, &json!(key)));
            }
        }
    }
}

const SEARCH: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";

pub(super) fn name_service(config: &Value, field: &str, out: &mut Causes) {
    for (i, server) in list(&config["nameservers"]) {
        if server.as_str().is_none_or(|ip| ip.parse::<std::net::IpAddr>().is_err()) {
            out.push(Cause::invalid(format!("{field}.nameservers[{i}]"), server, BAD_IP));
        }
    }
    for (i, search) in list(&config["searches"]) {
        let text = search.as_str().unwrap_or("").trim_end_matches('.');
        let bare = text.replace('_', "a");
        if !text.is_empty() && !meta::subdomain_problems(&bare).is_empty() {
            out.push(Cause::invalid(format!("{field}.searches[{i}]"), search, SEARCH));
        }
    }
    for (i, option) in list(&config["options"]) {
        if is_empty(&option["name"]) {
            out.push(Cause::required(format!("{field}.options[{i}]"), "must not be empty"));
        }
    }
}
