//! Validation of ingresses and network policies.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::address::{address_bits, check_cidr, parse_range};
use super::{
    CauseList, add_problems, check_port_number, check_port_or_name, indexed_items, is_empty,
    validate_label_selector,
};
use crate::status::StatusCause;
use crate::write::admit::meta;

pub(in crate::write) fn validate_ingress(spec: &Value, out: &mut CauseList) {
    if is_empty(&spec["rules"]) && spec["defaultBackend"].is_null() {
        out.push(StatusCause::invalid(
            "spec",
            &Value::Null,
            "either `defaultBackend` or `rules` must be specified",
        ));
    }
    if !spec["defaultBackend"].is_null() {
        validate_backend(&spec["defaultBackend"], "spec.defaultBackend", out);
    }
    for (i, rule) in indexed_items(&spec["rules"]) {
        let at = format!("spec.rules[{i}]");
        if let Some(host) = rule["host"].as_str().filter(|h| !h.is_empty()) {
            let problems = match host.strip_prefix("*.") {
                Some(rest) if !rest.contains('*') => meta::subdomain_problems(rest),
                _ if host.contains('*') => vec!["a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')".to_owned()],
                _ if host.parse::<IpAddr>().is_ok() => vec!["must be a DNS name, not an IP address".to_owned()],
                _ => meta::subdomain_problems(host),
            };
            add_problems(problems, &rule["host"], &format!("{at}.host"), out);
        }
        if rule["http"].is_object() && is_empty(&rule["http"]["paths"]) {
            out.push(StatusCause::required(format!("{at}.http.paths"), ""));
        }
        for (j, path) in indexed_items(&rule["http"]["paths"]) {
            let at = format!("{at}.http.paths[{j}]");
            let text = path["path"].as_str().unwrap_or("");
            match path["pathType"].as_str() {
                None => {
                    // Without a type the rest is not looked at.
                    out.push(StatusCause::required(format!("{at}.pathType"), "pathType must be specified"));
                    continue;
                }
                Some("Exact" | "Prefix") => {
                    if !text.starts_with('/') {
                        out.push(StatusCause::invalid(
                            format!("{at}.path"),
                            &json!(text),
                            "must be an absolute path",
                        ));
                    }
                    for odd in ["//", "/./", "/../", "%2f", "%2F"] {
                        if text.starts_with('/') && text.contains(odd) {
                            let why = format!("must not contain '{odd}'");
                            out.push(StatusCause::invalid(format!("{at}.path"), &json!(text), &why));
                        }
                    }
                }
                Some("ImplementationSpecific") => {
                    if !text.is_empty() && !text.starts_with('/') {
                        out.push(StatusCause::invalid(
                            format!("{at}.path"),
                            &json!(text),
                            "must be an absolute path",
                        ));
                    }
                }
                Some(_) => out.push(StatusCause::not_supported(
                    format!("{at}.pathType"),
                    &path["pathType"],
                    &["Exact", "ImplementationSpecific", "Prefix"],
                )),
            }
            validate_backend(&path["backend"], &format!("{at}.backend"), out);
        }
    }
    for (i, tls) in indexed_items(&spec["tls"]) {
        for (j, host) in indexed_items(&tls["hosts"]) {
            let text = host.as_str().unwrap_or("");
            let bare = text.strip_prefix("*.").unwrap_or(text);
            add_problems(meta::subdomain_problems(bare), host, &format!("spec.tls[{i}].hosts[{j}]"), out);
        }
        if let Some(name) = tls["secretName"].as_str().filter(|name| !name.is_empty()) {
            let at = format!("spec.tls[{i}].secretName");
            add_problems(meta::subdomain_problems(name), &tls["secretName"], &at, out);
        }
    }
    if let Some(class) = spec["ingressClassName"].as_str() {
        add_problems(
            meta::subdomain_problems(class),
            &spec["ingressClassName"],
            "spec.ingressClassName",
            out,
        );
    }
}

pub(in crate::write) fn validate_ingress_class(spec: &Value, out: &mut CauseList) {
    let controller = spec["controller"].as_str().unwrap_or("");
    if controller.len() > 250 {
        out.push(StatusCause::too_long("spec.controller", 250));
    }
    match controller.split_once('/') {
        _ if controller.is_empty() => out.push(StatusCause::required("spec.controller", "")),
        Some((domain, path)) if !domain.is_empty() && !path.is_empty() => {
            add_problems(meta::subdomain_problems(domain), &json!(domain), "spec.controller", out);
            let fits = |b: u8| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b);
            if !path.bytes().all(fits) {
                let why = r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')";
                out.push(StatusCause::invalid("spec.controller", &json!(path), why));
            }
        }
        _ => {
            let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            out.push(StatusCause::invalid("spec.controller", &spec["controller"], why));
        }
    }
    let parameters = &spec["parameters"];
    if !parameters.is_object() {
        return;
    }
    // Missing fields are reported last.
    let mut found = CauseList::new();
    validate_typed_reference(parameters, "spec.parameters", &mut found);
    let (missing, wrong): (CauseList, CauseList) =
        found.into_iter().partition(|cause| cause.reason == "FieldValueRequired");
    out.extend(wrong);
    let scope = parameters["scope"].as_str().unwrap_or("");
    match parameters["scope"].as_str() {
        None => out.push(StatusCause::required("spec.parameters.scope", "")),
        Some("Cluster" | "Namespace") => {}
        Some(_) => out.push(StatusCause::not_supported(
            "spec.parameters.scope",
            &parameters["scope"],
            &["Cluster", "Namespace"],
        )),
    }
    let at = "spec.parameters.namespace";
    match (scope, parameters["namespace"].as_str()) {
        ("Namespace", None | Some("")) => {
            out.push(StatusCause::required(at, "`parameters.scope` is set to 'Namespace'"));
        }
        ("Namespace", Some(namespace)) => {
            add_problems(meta::label_problems(namespace), &parameters["namespace"], at, out);
        }
        ("Cluster", Some(_)) => {
            out.push(StatusCause::forbidden(at, "`parameters.scope` is set to 'Cluster'"));
        }
        _ => {}
    }
    out.extend(missing);
}

/// A reference to an object of any kind.
fn validate_typed_reference(object: &Value, field: &str, out: &mut CauseList) {
    if let Some(group) = object["apiGroup"].as_str() {
        add_problems(meta::subdomain_problems(group), &object["apiGroup"], &format!("{field}.apiGroup"), out);
    }
    for key in ["kind", "name"] {
        match object[key].as_str().unwrap_or("") {
            "" => out.push(StatusCause::required(format!("{field}.{key}"), "")),
            text => add_problems(meta::segment_problems(text), &object[key], &format!("{field}.{key}"), out),
        }
    }
}

fn validate_backend(backend: &Value, field: &str, out: &mut CauseList) {
    let (service, resource) = (&backend["service"], &backend["resource"]);
    if !service.is_null() && !resource.is_null() {
        out.push(StatusCause::invalid(field, &json!(""), "cannot set both resource and service backends"));
        return;
    }
    if service.is_null() && resource.is_null() {
        out.push(StatusCause::invalid(field, &json!(""), "resource or service backend is required"));
        return;
    }
    if service.is_null() {
        validate_typed_reference(resource, &format!("{field}.resource"), out);
        return;
    }
    match service["name"].as_str().unwrap_or("") {
        "" => out.push(StatusCause::required(format!("{field}.service.name"), "")),
        name => {
            add_problems(meta::label_problems(name), &service["name"], &format!("{field}.service.name"), out);
        }
    }
    let port = &service["port"];
    let (name, number) = (port["name"].as_str().unwrap_or(""), port["number"].as_i64().unwrap_or(0));
    match (name.is_empty(), number) {
        (false, 0) => {
            add_problems(
                super::port_name_problems(name),
                &port["name"],
                &format!("{field}.service.port.name"),
                out,
            );
        }
        (false, _) => {
            out.push(StatusCause::invalid(field, &json!(""), "cannot set both port name & port number"));
        }
        (true, 0) => out.push(StatusCause::required(field, "port name or number is required")),
        (true, _) => check_port_number(&port["number"], format!("{field}.service.port.number"), out),
    }
}

pub(in crate::write) fn validate_network_policy(spec: &Value, old: Option<&Value>, out: &mut CauseList) {
    // Ranges that were there before are not looked at again.
    let mut known = Vec::new();
    for (direction, side) in DIRECTIONS {
        let rules = indexed_items(old.map_or(&Value::Null, |old| &old["spec"][direction]));
        for (_, peer) in rules.flat_map(|(_, rule)| indexed_items(&rule[side])) {
            let block = &peer["ipBlock"];
            known.extend(block["cidr"].as_str());
            known.extend(indexed_items(&block["except"]).filter_map(|(_, range)| range.as_str()));
        }
    }
    validate_label_selector(&spec["podSelector"], "spec.podSelector", out);
    // Missing fields are reported last.
    let mut missing = CauseList::new();
    for (direction, side) in DIRECTIONS {
        for (i, rule) in indexed_items(&spec[direction]) {
            for (j, port) in indexed_items(&rule["ports"]) {
                validate_policy_port(port, &format!("spec.{direction}[{i}].ports[{j}]"), out);
            }
            for (j, peer) in indexed_items(&rule[side]) {
                let at = format!("spec.{direction}[{i}].{side}[{j}]");
                validate_policy_peer(peer, &at, &known, out);
                if peer["ipBlock"].is_object() && is_empty(&peer["ipBlock"]["cidr"]) {
                    missing.push(StatusCause::required(format!("{at}.ipBlock.cidr"), ""));
                }
            }
        }
    }
    let types = &spec["policyTypes"];
    if types.as_array().is_some_and(|t| t.len() > 2) {
        out.push(StatusCause::invalid(
            "spec.policyTypes",
            types,
            "may not specify more than two policyTypes",
        ));
    } else {
        for (i, kind) in indexed_items(types).filter(|(_, kind)| *kind != "Ingress" && *kind != "Egress") {
            out.push(StatusCause::not_supported(
                format!("spec.policyTypes[{i}]"),
                kind,
                &["Ingress", "Egress"],
            ));
        }
    }
    out.append(&mut missing);
}

/// The two sides of a policy and what each calls its peers.
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

fn validate_policy_port(port: &Value, at: &str, out: &mut CauseList) {
    let protocols = ["TCP", "UDP", "SCTP"];
    if !port["protocol"].as_str().is_some_and(|protocol| protocols.contains(&protocol)) {
        out.push(StatusCause::not_supported(format!("{at}.protocol"), &port["protocol"], &protocols));
    }
    let (number, end) = (&port["port"], &port["endPort"]);
    // A name is checked last.
    if number.is_number() {
        check_port_number(number, format!("{at}.port"), out);
    }
    if let Some(last) = end.as_i64() {
        let why = match number {
            Value::Null => "may not be specified when `port` is not specified",
            Value::String(_) => "may not be specified when `port` is non-numeric",
            start if start.as_i64().is_some_and(|start| last < start) => {
                "must be greater than or equal to `port`"
            }
            _ => "",
        };
        if !why.is_empty() {
            out.push(StatusCause::invalid(format!("{at}.endPort"), end, why));
        }
        if number.is_number() {
            check_port_number(end, format!("{at}.endPort"), out);
        }
    }
    if number.is_string() {
        check_port_or_name(number, format!("{at}.port"), out);
    }
}

fn validate_policy_peer(peer: &Value, at: &str, known: &[&str], out: &mut CauseList) {
    let mut given = 0;
    for key in ["podSelector", "namespaceSelector"] {
        if !peer[key].is_null() {
            given += 1;
            validate_label_selector(&peer[key], &format!("{at}.{key}"), out);
        }
    }
    let block = &peer["ipBlock"];
    if block.is_object() {
        validate_ip_block(block, &format!("{at}.ipBlock"), known, out);
        if given > 0 {
            out.push(StatusCause::forbidden(at, "may not specify both ipBlock and another peer"));
        }
    } else if given == 0 {
        out.push(StatusCause::required(at, "must specify a peer"));
    }
}

fn validate_ip_block(block: &Value, field: &str, known: &[&str], out: &mut CauseList) {
    let check = |text: &str, at: &str, out: &mut CauseList| {
        if !known.contains(&text) {
            check_cidr(text, at, out);
        }
    };
    let outer = block["cidr"].as_str().unwrap_or("");
    if outer.is_empty() {
        return;
    }
    check(outer, &format!("{field}.cidr"), out);
    if parse_range(outer).is_none() {
        return;
    }
    for (i, except) in indexed_items(&block["except"]) {
        let at = format!("{field}.except[{i}]");
        let inner = except.as_str().unwrap_or("");
        check(inner, &at, out);
        if parse_range(inner).is_some() && !is_within(inner, outer) {
            out.push(StatusCause::invalid(at, except, "must be a strict subset of `cidr`"));
        }
    }
}

/// Returns true if a range lies inside another and is smaller.
fn is_within(inner: &str, outer: &str) -> bool {
    let (Some((a, narrow)), Some((b, wide))) = (parse_range(inner), parse_range(outer)) else { return false };
    let shift = 128_u32.saturating_sub(u32::from(wide));
    a.is_ipv4() == b.is_ipv4()
        && narrow > wide
        && (wide == 0 || address_bits(a) >> shift == address_bits(b) >> shift)
}
