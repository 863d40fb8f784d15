//! Validation of services, their endpoints, ingresses and network policies.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::{Causes, is_empty, label_selector, list, one_of, port_number, port_or_name, texts};
use crate::admit::meta;
use crate::status::Cause;

pub(super) const BAD_IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const BAD_CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

pub(super) fn service(object: &Value, out: &mut Causes) {
    let spec = &object["spec"];
    let kind = spec["type"].as_str().unwrap_or("");
    let headless = spec["clusterIP"] == "None";
    let external = kind == "ExternalName";
    if is_empty(&spec["ports"]) && !headless && !external {
        out.push(Cause::required("spec.ports", ""));
    }
    if external {
        if !is_empty(&spec["clusterIPs"]) || !is_empty(&spec["clusterIP"]) {
            out.push(Cause::forbidden("spec.clusterIPs", "may not be set for ExternalName services"));
        }
        match spec["externalName"].as_str().unwrap_or("").trim_end_matches('.') {
            "" => out.push(Cause::required("spec.externalName", "")),
            name => texts(meta::subdomain_problems(name), &spec["externalName"], "spec.externalName", out),
        }
    }
    let several = spec["ports"].as_array().is_some_and(|p| p.len() > 1);
    let mut names = BTreeSet::new();
    for (i, port) in list(&spec["ports"]) {
        let at = format!("spec.ports[{i}]");
        match port["name"].as_str().unwrap_or("") {
            "" if several => out.push(Cause::required(format!("{at}.name"), "")),
            "" => {}
            name => {
                texts(meta::label_problems(name), &port["name"], &format!("{at}.name"), out);
                if !names.insert(name.to_owned()) {
                    out.push(Cause::duplicate(format!("{at}.name"), &port["name"]));
                }
            }
        }
        port_number(&port["port"], format!("{at}.port"), out);
        one_of(&port["protocol"], format!("{at}.protocol"), &["SCTP", "TCP", "UDP"], out);
        port_or_name(&port["targetPort"], format!("{at}.targetPort"), out);
        if let Some(protocol) = port["appProtocol"].as_str() {
            let at = format!("{at}.appProtocol");
            texts(meta::qualified_problems(protocol), &port["appProtocol"], &at, out);
        }
    }
    if !is_empty(&spec["selector"]) {
        meta::validate_labels(&spec["selector"], "spec.selector", out);
    }
    one_of(&spec["sessionAffinity"], "spec.sessionAffinity".into(), &["ClientIP", "None"], out);
    let lasting = &spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"];
    if spec["sessionAffinity"] == "ClientIP" && lasting.as_i64().is_some_and(|s| !(1..=86_400).contains(&s)) {
        let at = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
        out.push(Cause::invalid(at, lasting, "must be greater than 0 and less than 86400"));
    }
    cluster_ips(spec, external, out);
    if headless && matches!(kind, "NodePort" | "LoadBalancer") {
        let why = format!("may not be set to 'None' for {kind} services");
        out.push(Cause::invalid("spec.clusterIPs[0]", &json!("None"), &why));
    }
    for (i, family) in list(&spec["ipFamilies"]) {
        if family != "IPv4" && family != "IPv6" {
            out.push(Cause::not_supported(format!("spec.ipFamilies[{i}]"), family, &["IPv4", "IPv6"]));
        }
        if list(&spec["ipFamilies"]).take(i).any(|(_, before)| before == family) {
            out.push(Cause::duplicate(format!("spec.ipFamilies[{i}]"), family));
        }
    }
    if !spec["ipFamilyPolicy"].is_null() {
        let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
        one_of(&spec["ipFamilyPolicy"], "spec.ipFamilyPolicy".into(), &policies, out);
    }
    one_of(
        &spec["type"],
        "spec.type".into(),
        &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"],
        out,
    );
    if kind == "LoadBalancer" {
        for (i, range) in list(&spec["loadBalancerSourceRanges"]) {
            if !range.as_str().is_some_and(|r| is_cidr(r.trim())) {
                out.push(Cause::invalid(format!("spec.LoadBalancerSourceRanges[{i}]"), range, BAD_CIDR));
            }
        }
    } else if !is_empty(&spec["loadBalancerSourceRanges"]) {
        let why = "may only be used when `type` is 'LoadBalancer'";
        out.push(Cause::forbidden("spec.LoadBalancerSourceRanges", why));
    }
    for (i, ip) in list(&spec["externalIPs"]) {
        let text = ip.as_str().unwrap_or("");
        if text.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()) {
            let why = "may not be in the loopback range (127.0.0.0/8, ::1/128)";
            out.push(Cause::invalid(format!("spec.externalIPs[{i}]"), ip, why));
        }
        if text.parse::<IpAddr>().is_err() {
            let numbers = text.split('.').all(|part| part.parse::<u8>().is_ok()) && text.contains('.');
            let why = if numbers { "must not have leading 0s" } else { BAD_IP };
            out.push(Cause::invalid(format!("spec.externalIPs[{i}]"), ip, why));
        }
    }
    if kind == "ClusterIP" {
        for (i, port) in list(&spec["ports"]) {
            if port["nodePort"].as_i64().unwrap_or(0) != 0 {
                out.push(Cause::forbidden(
                    format!("spec.ports[{i}].nodePort"),
                    "may not be used when `type` is 'ClusterIP'",
                ));
            }
        }
    }
    let mut seen = BTreeSet::new();
    for (i, port) in list(&spec["ports"]) {
        let key = (port["protocol"].as_str().unwrap_or("").to_owned(), port["port"].as_i64().unwrap_or(0));
        if !seen.insert(key.clone()) {
            out.push(Cause {
                reason: "FieldValueDuplicate",
                field: format!("spec.ports[{i}]"),
                // This type is printed by its Go field names, bare of all but its number.
                message: format!(
                    "Duplicate value: {}",
                    json!({
                        "Name": "", "Protocol": key.0, "AppProtocol": null, "Port": key.1,
                        "TargetPort": 0, "NodePort": 0,
                    })
                ),
            });
        }
    }
    if !is_empty(&spec["externalTrafficPolicy"]) {
        one_of(
            &spec["externalTrafficPolicy"],
            "spec.externalTrafficPolicy".into(),
            &["Cluster", "Local"],
            out,
        );
        let open = matches!(kind, "NodePort" | "LoadBalancer") || !is_empty(&spec["externalIPs"]);
        if !open {
            out.push(Cause::invalid(
                "spec.externalTrafficPolicy",
                &spec["externalTrafficPolicy"],
                "may only be set for externally-accessible services",
            ));
        }
    }
    let balanced = "may only be used when `type` is 'LoadBalancer'";
    for key in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
        if kind != "LoadBalancer" && !spec[key].is_null() {
            out.push(Cause::forbidden(format!("spec.{key}"), balanced));
        }
    }
    let watched = kind == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local";
    if spec["healthCheckNodePort"].as_i64().unwrap_or(0) != 0 && !watched {
        let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        out.push(Cause::invalid("spec.healthCheckNodePort", &spec["healthCheckNodePort"], why));
    }
    if !is_empty(&spec["trafficDistribution"]) {
        let known = ["PreferClose", "PreferSameZone", "PreferSameNode"];
        one_of(&spec["trafficDistribution"], "spec.trafficDistribution".into(), &known, out);
    }
    if !is_empty(&spec["internalTrafficPolicy"]) {
        one_of(
            &spec["internalTrafficPolicy"],
            "spec.internalTrafficPolicy".into(),
            &["Cluster", "Local"],
            out,
        );
    }
}

fn cluster_ips(spec: &Value, external: bool, out: &mut Causes) {
    if external {
        return;
    }
    let first = &spec["clusterIPs"][0];
    if !is_empty(&spec["clusterIPs"]) && !is_empty(&spec["clusterIP"]) && *first != spec["clusterIP"] {
        out.push(Cause::invalid(
            "spec.clusterIPs",
            &spec["clusterIPs"],
            "first value must match `clusterIP`",
        ));
    }
    for (i, ip) in list(&spec["clusterIPs"]) {
        let text = ip.as_str().unwrap_or("");
        if text != "None" && text.parse::<IpAddr>().is_err() {
            out.push(Cause::invalid(format!("spec.clusterIPs[{i}]"), ip, BAD_IP));
        }
    }
}

pub(super) fn ingress(spec: &Value, out: &mut Causes) {
    if is_empty(&spec["rules"]) && spec["defaultBackend"].is_null() {
        out.push(Cause::invalid(
            "spec",
            &Value::Null,
            "either `defaultBackend` or `rules` must be specified",
        ));
    }
    if !spec["defaultBackend"].is_null() {
        backend(&spec["defaultBackend"], "spec.defaultBackend", out);
    }
    for (i, rule) in list(&spec["rules"]) {
        let at = format!("spec.rules[{i}]");
        if let Some(host) = rule["host"].as_str().filter(|h| !h.is_empty()) {
            let problems = match host.strip_prefix("*.") {
                Some(rest) if !rest.contains('*') => meta::subdomain_problems(rest),
                _ if host.contains('*') => vec!["a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')".to_owned()],
                _ if host.parse::<IpAddr>().is_ok() => vec!["must be a DNS name, not an IP address".to_owned()],
                _ => meta::subdomain_problems(host),
            };
            texts(problems, &rule["host"], &format!("{at}.host"), out);
        }
        if rule["http"].is_object() && is_empty(&rule["http"]["paths"]) {
            out.push(Cause::required(format!("{at}.http.paths"), ""));
        }
        for (j, path) in list(&rule["http"]["paths"]) {
            let at = format!("{at}.http.paths[{j}]");
            let text = path["path"].as_str().unwrap_or("");
            match path["pathType"].as_str() {
                None => {
                    // Without a type the rest is not looked at.
                    out.push(Cause::required(format!("{at}.pathType"), "pathType must be specified"));
                    continue;
                }
                Some("Exact" | "Prefix") => {
                    if !text.starts_with('/') {
                        out.push(Cause::invalid(
                            format!("{at}.path"),
                            &json!(text),
                            "must be an absolute path",
                        ));
                    }
                    for odd in ["//", "/./", "/../", "%2f", "%2F"] {
                        if text.starts_with('/') && text.contains(odd) {
                            let why = format!("must not contain '{odd}'");
                            out.push(Cause::invalid(format!("{at}.path"), &json!(text), &why));
                        }
                    }
                }
                Some("ImplementationSpecific") => {
                    if !text.is_empty() && !text.starts_with('/') {
                        out.push(Cause::invalid(
                            format!("{at}.path"),
                            &json!(text),
                            "must be an absolute path",
                        ));
                    }
                }
                Some(_) => out.push(Cause::not_supported(
                    format!("{at}.pathType"),
                    &path["pathType"],
                    &["Exact", "ImplementationSpecific", "Prefix"],
                )),
            }
            backend(&path["backend"], &format!("{at}.backend"), out);
        }
    }
    for (i, tls) in list(&spec["tls"]) {
        for (j, host) in list(&tls["hosts"]) {
            let text = host.as_str().unwrap_or("");
            let bare = text.strip_prefix("*.").unwrap_or(text);
            texts(meta::subdomain_problems(bare), host, &format!("spec.tls[{i}].hosts[{j}]"), out);
        }
        if let Some(name) = tls["secretName"].as_str().filter(|name| !name.is_empty()) {
            let at = format!("spec.tls[{i}].secretName");
            texts(meta::subdomain_problems(name), &tls["secretName"], &at, out);
        }
    }
    if let Some(class) = spec["ingressClassName"].as_str() {
        texts(meta::subdomain_problems(class), &spec["ingressClassName"], "spec.ingressClassName", out);
    }
}

pub(super) fn ingress_class(spec: &Value, out: &mut Causes) {
    let controller = spec["controller"].as_str().unwrap_or("");
    let prefixed = controller
        .split_once('/')
        .is_some_and(|(domain, path)| meta::subdomain_problems(domain).is_empty() && !path.is_empty());
    if controller.is_empty() {
        out.push(Cause::required("spec.controller", ""));
    } else if !prefixed {
        let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        out.push(Cause::invalid("spec.controller", &spec["controller"], why));
    }
    let parameters = &spec["parameters"];
    if !parameters.is_object() {
        return;
    }
    typed_reference(parameters, "spec.parameters", out);
    let scope = parameters["scope"].as_str().unwrap_or("");
    match scope {
        "" => out.push(Cause::required("spec.parameters.scope", "")),
        "Cluster" | "Namespace" => {}
        _ => out.push(Cause::not_supported(
            "spec.parameters.scope",
            &parameters["scope"],
            &["Cluster", "Namespace"],
        )),
    }
    match (scope, is_empty(&parameters["namespace"])) {
        ("Namespace", true) => {
            let why = "`parameters.scope` is set to 'Namespace'";
            out.push(Cause::required("spec.parameters.namespace", why));
        }
        ("Cluster", false) => {
            let why = "`parameters.scope` is set to 'Cluster'";
            out.push(Cause::forbidden("spec.parameters.namespace", why));
        }
        _ => {}
    }
}

pub(super) fn ingress_status(status: &Value, out: &mut Causes) {
    for (i, entry) in list(&status["loadBalancer"]["ingress"]) {
        let at = format!("status.loadBalancer.ingress[{i}]");
        if entry["ip"].as_str().is_some_and(|ip| !ip.is_empty() && ip.parse::<IpAddr>().is_err()) {
            out.push(Cause::invalid(format!("{at}.ip"), &entry["ip"], BAD_IP));
        }
        if let Some(name) = entry["hostname"].as_str().filter(|name| !name.is_empty()) {
            texts(meta::subdomain_problems(name), &entry["hostname"], &format!("{at}.hostname"), out);
        }
    }
}

/// A reference to an object of any kind.
fn typed_reference(object: &Value, field: &str, out: &mut Causes) {
    if let Some(group) = object["apiGroup"].as_str() {
        texts(meta::subdomain_problems(group), &object["apiGroup"], &format!("{field}.apiGroup"), out);
    }
    for key in ["kind", "name"] {
        if is_empty(&object[key]) {
            out.push(Cause::required(format!("{field}.{key}"), ""));
        }
    }
}

fn backend(backend: &Value, field: &str, out: &mut Causes) {
    let (service, resource) = (&backend["service"], &backend["resource"]);
    if !service.is_null() && !resource.is_null() {
        out.push(Cause::invalid(field, &json!(""), "cannot set both resource and service backends"));
        return;
    }
    if service.is_null() && resource.is_null() {
        out.push(Cause::invalid(field, &json!(""), "resource or service backend is required"));
        return;
    }
    if service.is_null() {
        typed_reference(resource, &format!("{field}.resource"), out);
        return;
    }
    match service["name"].as_str().unwrap_or("") {
        "" => out.push(Cause::required(format!("{field}.service.name"), "")),
        name => texts(meta::label_problems(name), &service["name"], &format!("{field}.service.name"), out),
    }
    let port = &service["port"];
    let (name, number) = (port["name"].as_str().unwrap_or(""), port["number"].as_i64().unwrap_or(0));
    match (name.is_empty(), number) {
        (false, 0) => {
            texts(super::port_name_problems(name), &port["name"], &format!("{field}.service.port.name"), out);
        }
        (false, _) => out.push(Cause::invalid(field, &json!(""), "cannot set both port name & port number")),
        (true, 0) => out.push(Cause::required(field, "port name or number is required")),
        (true, _) => port_number(&port["number"], format!("{field}.service.port.number"), out),
    }
}

pub(super) fn network_policy(spec: &Value, out: &mut Causes) {
    label_selector(&spec["podSelector"], "spec.podSelector", out);
    for (direction, side) in [("ingress", "from"), ("egress", "to")] {
        for (i, rule) in list(&spec[direction]) {
            for (j, port) in list(&rule["ports"]) {
                let at = format!("spec.{direction}[{i}].ports[{j}]");
                one_of(&port["protocol"], format!("{at}.protocol"), &["TCP", "UDP", "SCTP"], out);
                if !port["port"].is_null() {
                    port_or_name(&port["port"], format!("{at}.port"), out);
                }
                if let Some(end) = port["endPort"].as_i64() {
                    let why = match &port["port"] {
                        Value::Null => "may not be specified when `port` is not specified",
                        Value::String(_) => "may not be specified when `port` is non-numeric",
                        start if start.as_i64().is_some_and(|start| end < start) => {
                            "must be greater than or equal to `port`"
                        }
                        _ => "",
                    };
                    if !why.is_empty() {
                        out.push(Cause::invalid(format!("{at}.endPort"), &port["endPort"], why));
                    }
                    if port["port"].is_number() {
                        port_number(&port["endPort"], format!("{at}.endPort"), out);
                    }
                }
            }
            for (j, peer) in list(&rule[side]) {
                let at = format!("spec.{direction}[{i}].{side}[{j}]");
                let mut given = 0;
                for key in ["podSelector", "namespaceSelector"] {
                    if !peer[key].is_null() {
                        given += 1;
                        label_selector(&peer[key], &format!("{at}.{key}"), out);
                    }
                }
                if peer["ipBlock"].is_object() {
                    if given > 0 {
                        out.push(Cause::forbidden(at, "may not specify both ipBlock and another peer"));
                        continue;
                    }
                    given += 1;
                    ip_block(&peer["ipBlock"], &format!("{at}.ipBlock"), out);
                }
                if given == 0 {
                    out.push(Cause::required(at, "must specify a peer"));
                }
            }
        }
    }
    let types = &spec["policyTypes"];
    if types.as_array().is_some_and(|t| t.len() > 2) {
        out.push(Cause::invalid("spec.policyTypes", types, "may not specify more than two policyTypes"));
        return;
    }
    for (i, kind) in list(types) {
        if !matches!(kind.as_str(), Some("Ingress" | "Egress")) {
            out.push(Cause::not_supported(format!("spec.policyTypes[{i}]"), kind, &["Ingress", "Egress"]));
        }
    }
}

fn ip_block(block: &Value, field: &str, out: &mut Causes) {
    match block["cidr"].as_str().unwrap_or("") {
        "" => out.push(Cause::required(format!("{field}.cidr"), "")),
        cidr if !is_cidr(cidr) => {
            out.push(Cause::invalid(format!("{field}.cidr"), &block["cidr"], BAD_CIDR));
        }
        _ => {
            for (i, except) in list(&block["except"]) {
                let inner = except.as_str().unwrap_or("");
                if !is_cidr(inner) {
                    out.push(Cause::invalid(format!("{field}.except[{i}]"), except, BAD_CIDR));
                } else if !within(inner, block["cidr"].as_str().unwrap_or("")) {
                    let why = "must be a strict subset of `cidr`";
                    out.push(Cause::invalid(format!("{field}.except[{i}]"), except, why));
                }
            }
        }
    }
}

/// Whether a range lies inside of another and is smaller.
fn within(inner: &str, outer: &str) -> bool {
    let read = |text: &str| -> Option<(u128, u8, u8)> {
        let (ip, bits) = text.split_once('/')?;
        let bits: u8 = bits.parse().ok()?;
        match ip.parse().ok()? {
            IpAddr::V4(ip) => Some((u128::from(u32::from(ip)) << 96, bits, 4)),
            IpAddr::V6(ip) => Some((u128::from(ip), bits, 6)),
        }
    };
    let (Some((a, narrow, family)), Some((b, wide, other))) = (read(inner), read(outer)) else {
        return false;
    };
    let shift = 128_u32.saturating_sub(u32::from(wide));
    family == other && narrow > wide && (wide == 0 || a >> shift == b >> shift)
}

pub(super) fn is_cidr(text: &str) -> bool {
    text.split_once('/').is_some_and(|(ip, bits)| {
        let longest = match ip.parse::<IpAddr>() {
            Ok(IpAddr::V4(_)) => 32,
            Ok(IpAddr::V6(_)) => 128,
            Err(_) => return false,
        };
        bits.parse::<u8>().is_ok_and(|b| b <= longest)
    })
}

pub(super) fn endpoint_slice(object: &Value, out: &mut Causes) {
    match object["addressType"].as_str().unwrap_or("") {
        "" => out.push(Cause::required("addressType", "")),
        "IPv4" | "IPv6" | "FQDN" => {}
        _ => out.push(Cause::not_supported("addressType", &object["addressType"], &["FQDN", "IPv4", "IPv6"])),
    }
    for (i, port) in list(&object["ports"]) {
        let at = format!("ports[{i}]");
        if let Some(name) = port["name"].as_str().filter(|name| !name.is_empty()) {
            texts(meta::label_problems(name), &port["name"], &format!("{at}.name"), out);
        }
        one_of(&port["protocol"], format!("{at}.protocol"), &["SCTP", "TCP", "UDP"], out);
    }
    for (i, endpoint) in list(&object["endpoints"]) {
        if is_empty(&endpoint["addresses"]) {
            out.push(Cause::required(format!("endpoints[{i}].addresses"), ""));
        }
        for (j, zone) in list(&endpoint["hints"]["forZones"]) {
            let at = format!("endpoints[{i}].hints.forZones[{j}].name");
            texts(meta::label_value_problems(zone["name"].as_str().unwrap_or("")), &zone["name"], &at, out);
        }
        for (j, address) in list(&endpoint["addresses"]) {
            if object["addressType"] != "FQDN"
                && address.as_str().is_none_or(|a| a.parse::<IpAddr>().is_err())
            {
                out.push(Cause::invalid(format!("endpoints[{i}].addresses[{j}]"), address, BAD_IP));
                continue;
            }
            let Some(ip) = address.as_str().and_then(|a| a.parse::<IpAddr>().ok()) else { continue };
            let wrong = match object["addressType"].as_str() {
                Some("IPv4") if ip.is_ipv6() => "must be an IPv4 address",
                Some("IPv6") if ip.is_ipv4() => "must be an IPv6 address",
                _ => "",
            };
            if !wrong.is_empty() {
                out.push(Cause::invalid(format!("endpoints[{i}].addresses"), address, wrong));
            }
            if ip.is_loopback() {
                out.push(Cause::invalid(
                    format!("endpoints[{i}].addresses[{j}]"),
                    address,
                    "may not be in the loopback range (127.0.0.0/8, ::1/128)",
                ));
            }
        }
    }
}

pub(super) fn endpoints(object: &Value, out: &mut Causes) {
    for (i, subset) in list(&object["subsets"]) {
        if is_empty(&subset["addresses"]) && is_empty(&subset["notReadyAddresses"]) {
            out.push(Cause::required(
                format!("subsets[{i}]"),
                "must specify `addresses` or `notReadyAddresses`",
            ));
        }
        for side in ["addresses", "notReadyAddresses"] {
            for (j, address) in list(&subset[side]) {
                if address["ip"].as_str().is_none_or(|a| a.parse::<IpAddr>().is_err()) {
                    let shown = json!(address["ip"].as_str().unwrap_or(""));
                    let at = format!("subsets[{i}].{side}[{j}].ip");
                    out.push(Cause::invalid(&at, &shown, BAD_IP));
                    out.push(Cause::invalid(&at, &shown, "must be a valid IP address"));
                }
                if let Some(name) = address["hostname"].as_str().filter(|name| !name.is_empty()) {
                    let at = format!("subsets[{i}].{side}[{j}].hostname");
                    texts(meta::label_problems(name), &address["hostname"], &at, out);
                }
            }
        }
        let several = subset["ports"].as_array().is_some_and(|p| p.len() > 1);
        for (j, port) in list(&subset["ports"]) {
            let at = format!("subsets[{i}].ports[{j}]");
            if several && is_empty(&port["name"]) {
                out.push(Cause::required(format!("{at}.name"), ""));
            } else if let Some(name) = port["name"].as_str().filter(|name| !name.is_empty()) {
                texts(meta::label_problems(name), &port["name"], &format!("{at}.name"), out);
            }
            port_number(&port["port"], format!("{at}.port"), out);
            one_of(&port["protocol"], format!("{at}.protocol"), &["SCTP", "TCP", "UDP"], out);
        }
    }
}
