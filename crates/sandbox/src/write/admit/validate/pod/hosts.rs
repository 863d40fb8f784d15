//! Validation of what a pod shares with its host, of its name there, and of where it looks names up.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};

use super::text;
use crate::status::Cause;
use crate::write::admit::meta;
use crate::write::admit::validate::address::BAD_IP;
use crate::write::admit::validate::{Causes, is_empty, list, texts};

/// Ports of the host can be had once.
pub(super) fn taken_once<'a>(
    containers: impl Iterator<Item = (usize, &'a Value)>,
    field: &str,
    out: &mut Causes,
) {
    let mut taken = BTreeSet::new();
    for (i, container) in containers {
        for (j, port) in list(&container["ports"]) {
            let host = port["hostPort"].as_i64().unwrap_or(0);
            let key = format!("{}/{}/{host}", text(port, "protocol"), text(port, "hostIP"));
            if host != 0 && !taken.insert(key.clone()) {
                out.push(Cause::duplicate(format!("{field}[{i}].ports[{j}].hostPort"), &json!(key)));
            }
        }
    }
}

/// On the host's network its ports are the containers' own.
pub(super) fn host_ports_match(spec: &Value, pod: bool, field: &str, out: &mut Causes) {
    if spec["hostNetwork"] != true {
        return;
    }
    for (i, container) in list(&spec["containers"]) {
        for (j, port) in list(&container["ports"]) {
            let host = port["hostPort"].as_i64().unwrap_or(0);
            if (pod || host != 0) && host != port["containerPort"].as_i64().unwrap_or(0) {
                out.push(Cause::invalid(
                    format!("{field}.containers[{i}].ports[{j}].hostPort"),
                    &json!(host),
                    "must match `containerPort` when `hostNetwork` is true",
                ));
            }
        }
    }
}

/// Users of its own are nothing for a pod that shares the rest with its host.
pub(super) fn host_users(spec: &Value, field: &str, out: &mut Causes) {
    if spec["hostUsers"] != false {
        return;
    }
    for (key, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec[key] == true {
            out.push(Cause::forbidden(format!("{field}.{shown}"), "when `hostUsers` is false"));
        }
    }
}

pub(super) fn host_name(spec: &Value, field: &str, out: &mut Causes) {
    let Some(name) = spec["hostnameOverride"].as_str() else { return };
    for key in ["setHostnameAsFQDN", "hostNetwork"] {
        if spec[key] == true {
            out.push(Cause::forbidden(field, &format!("may not be specified when {key} is true")));
        }
    }
    if name.len() > 64 {
        out.push(Cause::too_long(field, 64));
    }
    texts(meta::subdomain_problems(name), &json!(name), field, out);
}

const SEARCH: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";

static SEARCHED: LazyLock<Regex> = LazyLock::new(|| {
    meta::compile(r"^_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*$")
});

/// Where a pod with this spec looks names up.
pub(super) fn name_service(spec: &Value, field: &str, out: &mut Causes) {
    let config = &spec["dnsConfig"];
    if spec["dnsPolicy"] == "None" && is_empty(&config["nameservers"]) {
        out.push(if config.is_null() {
            Cause::required(field, "must provide `dnsConfig` when `dnsPolicy` is None")
        } else {
            Cause::required(
                format!("{field}.nameservers"),
                "must provide at least one DNS nameserver when `dnsPolicy` is None",
            )
        });
        return;
    }
    let count = |key: &str| config[key].as_array().map_or(0, Vec::len);
    if count("nameservers") > 3 {
        let why = "must not have more than 3 nameservers";
        out.push(Cause::invalid(format!("{field}.nameservers"), &config["nameservers"], why));
    }
    for (i, server) in list(&config["nameservers"]) {
        if server.as_str().is_none_or(|ip| ip.parse::<std::net::IpAddr>().is_err()) {
            let shown = json!(server.as_str().unwrap_or(""));
            out.push(Cause::invalid(format!("{field}.nameservers[{i}]"), &shown, BAD_IP));
        }
    }
    let searches = format!("{field}.searches");
    if count("searches") > 32 {
        let why = "must not have more than 32 search paths";
        out.push(Cause::invalid(&searches, &config["searches"], why));
    }
    let length: usize = list(&config["searches"]).map(|(_, s)| s.as_str().unwrap_or("").len() + 1).sum();
    if length > 2049 {
        let why = "must not have more than 2048 characters (including spaces) in the search list";
        out.push(Cause::invalid(&searches, &config["searches"], why));
    }
    for (i, search) in list(&config["searches"]).filter(|(_, search)| **search != ".") {
        let text = search.as_str().unwrap_or("");
        let text = text.strip_suffix('.').unwrap_or(text);
        let at = format!("{searches}[{i}]");
        if text.len() > 253 {
            out.push(Cause::invalid(&at, &json!(text), "must be no more than 253 characters"));
        }
        if !SEARCHED.is_match(text) {
            out.push(Cause::invalid(at, &json!(text), SEARCH));
        }
    }
    for (i, option) in list(&config["options"]) {
        if is_empty(&option["name"]) {
            out.push(Cause::required(format!("{field}.options[{i}]"), "must not be empty"));
        }
    }
}
