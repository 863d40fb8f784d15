//! Validation of a pod's host namespaces, host name and DNS settings.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};

use super::text_member;
use crate::status::StatusCause;
use crate::write::admit::meta;
use crate::write::admit::validate::address::BAD_IP;
use crate::write::admit::validate::{CauseList, add_problems, indexed_items, is_empty};

/// Checks that a host port is taken once.
pub(super) fn check_host_ports_once<'a>(
    containers: impl Iterator<Item = (usize, &'a Value)>,
    field: &str,
    out: &mut CauseList,
) {
    let mut taken = BTreeSet::new();
    for (i, container) in containers {
        for (j, port) in indexed_items(&container["ports"]) {
            let host = port["hostPort"].as_i64().unwrap_or(0);
            let key = format!("{}/{}/{host}", text_member(port, "protocol"), text_member(port, "hostIP"));
            if host != 0 && !taken.insert(key.clone()) {
                out.push(StatusCause::duplicate(format!("{field}[{i}].ports[{j}].hostPort"), &json!(key)));
            }
        }
    }
}

/// Checks that host ports equal container ports on the host's network.
pub(super) fn check_host_ports_match(spec: &Value, pod: bool, field: &str, out: &mut CauseList) {
    if spec["hostNetwork"] != true {
        return;
    }
    for (i, container) in indexed_items(&spec["containers"]) {
        for (j, port) in indexed_items(&container["ports"]) {
            let host = port["hostPort"].as_i64().unwrap_or(0);
            if (pod || host != 0) && host != port["containerPort"].as_i64().unwrap_or(0) {
                out.push(StatusCause::invalid(
                    format!("{field}.containers[{i}].ports[{j}].hostPort"),
                    &json!(host),
                    "must match `containerPort` when `hostNetwork` is true",
                ));
            }
        }
    }
}

/// Checks that a pod with users of its own shares no other host namespace.
pub(super) fn validate_host_users(spec: &Value, field: &str, out: &mut CauseList) {
    if spec["hostUsers"] != false {
        return;
    }
    for (key, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec[key] == true {
            out.push(StatusCause::forbidden(format!("{field}.{shown}"), "when `hostUsers` is false"));
        }
    }
}

pub(super) fn validate_host_name(spec: &Value, field: &str, out: &mut CauseList) {
    let Some(name) = spec["hostnameOverride"].as_str() else { return };
    for key in ["setHostnameAsFQDN", "hostNetwork"] {
        if spec[key] == true {
            out.push(StatusCause::forbidden(field, &format!("may not be specified when {key} is true")));
        }
    }
    if name.len() > 64 {
        out.push(StatusCause::too_long(field, 64));
    }
    add_problems(meta::subdomain_problems(name), &json!(name), field, out);
}

const SEARCH: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";

static SEARCHED: LazyLock<Regex> = LazyLock::new(|| {
    meta::compile_pattern(r"^_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*$")
});

/// Validates the DNS policy and configuration of a pod.
pub(super) fn validate_dns_policy(spec: &Value, field: &str, out: &mut CauseList) {
    let config = &spec["dnsConfig"];
    if spec["dnsPolicy"] == "None" && is_empty(&config["nameservers"]) {
        out.push(if config.is_null() {
            StatusCause::required(field, "must provide `dnsConfig` when `dnsPolicy` is None")
        } else {
            StatusCause::required(
                format!("{field}.nameservers"),
                "must provide at least one DNS nameserver when `dnsPolicy` is None",
            )
        });
        return;
    }
    let count = |key: &str| config[key].as_array().map_or(0, Vec::len);
    if count("nameservers") > 3 {
        let why = "must not have more than 3 nameservers";
        out.push(StatusCause::invalid(format!("{field}.nameservers"), &config["nameservers"], why));
    }
    for (i, server) in indexed_items(&config["nameservers"]) {
        if server.as_str().is_none_or(|ip| ip.parse::<std::net::IpAddr>().is_err()) {
            let shown = json!(server.as_str().unwrap_or(""));
            out.push(StatusCause::invalid(format!("{field}.nameservers[{i}]"), &shown, BAD_IP));
        }
    }
    let searches = format!("{field}.searches");
    if count("searches") > 32 {
        let why = "must not have more than 32 search paths";
        out.push(StatusCause::invalid(&searches, &config["searches"], why));
    }
    let length: usize =
        indexed_items(&config["searches"]).map(|(_, s)| s.as_str().unwrap_or("").len() + 1).sum();
    if length > 2049 {
        let why = "must not have more than 2048 characters (including spaces) in the search list";
        out.push(StatusCause::invalid(&searches, &config["searches"], why));
    }
    for (i, search) in indexed_items(&config["searches"]).filter(|(_, search)| **search != ".") {
        let text = search.as_str().unwrap_or("");
        let text = text.strip_suffix('.').unwrap_or(text);
        let at = format!("{searches}[{i}]");
        if text.len() > 253 {
            out.push(StatusCause::invalid(&at, &json!(text), "must be no more than 253 characters"));
        }
        if !SEARCHED.is_match(text) {
            out.push(StatusCause::invalid(at, &json!(text), SEARCH));
        }
    }
    for (i, option) in indexed_items(&config["options"]) {
        if is_empty(&option["name"]) {
            out.push(StatusCause::required(format!("{field}.options[{i}]"), "must not be empty"));
        }
    }
}
