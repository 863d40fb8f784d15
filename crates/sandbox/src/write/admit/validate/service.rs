//! Validation of services and of what lists their endpoints.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::address::{check_cidr, check_ip, check_reachable, ip_problem, parse_lenient_ip};
use super::{
    CauseList, add_problems, check_one_of, check_port_number, check_port_or_name, indexed_items, is_empty,
};
use crate::status::StatusCause;
use crate::write::admit::meta;

const BALANCED: &str = "may only be used when `type` is 'LoadBalancer'";
const FIXED: &str = "may not change once set";

/// Returns true if a service has no cluster address.
fn is_headless(spec: &Value) -> bool {
    spec["clusterIPs"].as_array().is_some_and(|ips| ips.len() == 1 && ips[0] == "None")
}

/// Returns true if the load balancer of a service checks the health of nodes.
fn has_health_check(spec: &Value) -> bool {
    spec["type"] == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local"
}

/// Checks a value against a set; here an empty one is like an unknown one.
fn check_word(value: &Value, field: &str, known: &[&str], out: &mut CauseList) {
    if !value.as_str().is_some_and(|word| known.contains(&word)) {
        out.push(StatusCause::not_supported(field, value, known));
    }
}

pub(in crate::write) fn validate_service(object: &Value, old: Option<&Value>, out: &mut CauseList) {
    let spec = &object["spec"];
    let kind = spec["type"].as_str().unwrap_or("");
    if let Some(old) = old {
        validate_service_update(spec, &old["spec"], out);
    }
    if is_empty(&spec["ports"]) && !is_headless(spec) && kind != "ExternalName" {
        out.push(StatusCause::required("spec.ports", ""));
    }
    if is_headless(spec) && matches!(kind, "NodePort" | "LoadBalancer") {
        let why = format!("may not be set to 'None' for {kind} services");
        out.push(StatusCause::invalid("spec.clusterIPs[0]", &json!("None"), &why));
    }
    if kind == "ExternalName" {
        for key in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if !is_empty(&spec[key]) || (key == "clusterIPs" && !is_empty(&spec["clusterIP"])) {
                let why = "may not be set for ExternalName services";
                out.push(StatusCause::forbidden(format!("spec.{key}"), why));
            }
        }
        let name = spec["externalName"].as_str().unwrap_or("");
        match name.strip_suffix('.').unwrap_or(name) {
            "" => out.push(StatusCause::required("spec.externalName", "")),
            name => add_problems(meta::subdomain_problems(name), &json!(name), "spec.externalName", out),
        }
    }
    let several = spec["ports"].as_array().is_some_and(|p| p.len() > 1);
    let mut names = BTreeSet::new();
    for (i, port) in indexed_items(&spec["ports"]) {
        validate_service_port(port, &format!("spec.ports[{i}]"), several, &mut names, out);
    }
    meta::validate_labels(&spec["selector"], "spec.selector", out);
    check_one_of(&spec["sessionAffinity"], "spec.sessionAffinity".into(), &["ClientIP", "None"], out);
    let lasting = &spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"];
    if spec["sessionAffinity"] == "ClientIP" && lasting.as_i64().is_some_and(|s| !(1..=86_400).contains(&s)) {
        let at = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
        out.push(StatusCause::invalid(at, lasting, "must be greater than 0 and less than 86400"));
    }
    validate_cluster_ips(spec, old.map(|old| &old["spec"]), out);
    for (i, ip) in indexed_items(&spec["externalIPs"]) {
        let at = format!("spec.externalIPs[{i}]");
        if old.is_some_and(|old| indexed_items(&old["spec"]["externalIPs"]).any(|(_, was)| was == ip))
            || check_ip(ip, &at, out)
        {
            check_reachable(ip, &at, out);
        }
    }
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    check_one_of(&spec["type"], "spec.type".into(), &kinds, out);
    check_port_numbers(spec, kind, out);
    validate_source_ranges(object, old, out);
    if !spec["allocateLoadBalancerNodePorts"].is_null() && kind != "LoadBalancer" {
        out.push(StatusCause::forbidden("spec.allocateLoadBalancerNodePorts", BALANCED));
    }
    validate_balancer_class(spec, out);
    validate_traffic_policies(spec, kind, out);
}

/// Validates an update of a service.
fn validate_service_update(new: &Value, old: &Value, out: &mut CauseList) {
    if new["type"] != "ExternalName" && old["type"] != "ExternalName" {
        let len = |v: &Value| v.as_array().map_or(0, Vec::len);
        let (now, was) = (&new["clusterIPs"], &old["clusterIPs"]);
        if !(is_headless(new) && is_headless(old)) {
            if len(was) > 0 && len(now) == 0 {
                let why = "primary clusterIP can not be unset";
                out.push(StatusCause::invalid("spec.clusterIPs[0]", now, why));
            }
            let compared = if len(now) == len(was) { len(was) } else { 1 };
            for i in (0..compared).filter(|i| len(was) > *i && len(now) > *i && now[*i] != was[*i]) {
                out.push(StatusCause::invalid(format!("spec.clusterIPs[{i}]"), now, FIXED));
            }
        }
        if !is_headless(new) && !is_headless(old) {
            let (now, was) = (&new["ipFamilies"], &old["ipFamilies"]);
            let compared = if len(now) == len(was) { len(was) } else { 1 };
            for _ in (0..compared).filter(|i| len(was) > *i && len(now) > *i && now[*i] != was[*i]) {
                out.push(StatusCause::invalid("spec.ipFamilies[0]", now, FIXED));
            }
        }
    }
    let balanced = |spec: &Value| spec["type"] == "LoadBalancer";
    if balanced(new) && balanced(old) && new["loadBalancerClass"] != old["loadBalancerClass"] {
        out.push(StatusCause::invalid("spec.loadBalancerClass", &new["loadBalancerClass"], FIXED));
    }
    validate_balancer_class(new, out);
    if has_health_check(new)
        && has_health_check(old)
        && new["healthCheckNodePort"] != old["healthCheckNodePort"]
    {
        out.push(StatusCause::forbidden("spec.healthCheckNodePort", "field is immutable"));
    }
}

fn validate_balancer_class(spec: &Value, out: &mut CauseList) {
    let at = "spec.loadBalancerClass";
    let Some(class) = spec["loadBalancerClass"].as_str() else { return };
    if spec["type"] == "LoadBalancer" {
        add_problems(meta::qualified_problems(class), &spec["loadBalancerClass"], at, out);
    } else {
        out.push(StatusCause::forbidden(at, BALANCED));
    }
}

fn validate_service_port(
    port: &Value,
    at: &str,
    several: bool,
    names: &mut BTreeSet<String>,
    out: &mut CauseList,
) {
    match port["name"].as_str().unwrap_or("") {
        "" if several => out.push(StatusCause::required(format!("{at}.name"), "")),
        "" => {}
        name => {
            add_problems(meta::label_problems(name), &port["name"], &format!("{at}.name"), out);
            if !names.insert(name.to_owned()) {
                out.push(StatusCause::duplicate(format!("{at}.name"), &port["name"]));
            }
        }
    }
    check_port_number(&port["port"], format!("{at}.port"), out);
    check_one_of(&port["protocol"], format!("{at}.protocol"), &["SCTP", "TCP", "UDP"], out);
    check_port_or_name(&port["targetPort"], format!("{at}.targetPort"), out);
    validate_app_protocol(port, at, out);
}

fn validate_app_protocol(port: &Value, at: &str, out: &mut CauseList) {
    if let Some(protocol) = port["appProtocol"].as_str() {
        let at = format!("{at}.appProtocol");
        add_problems(meta::qualified_problems(protocol), &port["appProtocol"], &at, out);
    }
}

/// Ports of nodes where there are none, and numbers two ports share.
fn check_port_numbers(spec: &Value, kind: &str, out: &mut CauseList) {
    let node_port = |port: &Value| port["nodePort"].as_i64().unwrap_or(0);
    if kind == "ClusterIP" {
        for (i, _) in indexed_items(&spec["ports"]).filter(|(_, port)| node_port(port) != 0) {
            let why = "may not be used when `type` is 'ClusterIP'";
            out.push(StatusCause::forbidden(format!("spec.ports[{i}].nodePort"), why));
        }
    }
    let mut seen = BTreeSet::new();
    for (i, port) in indexed_items(&spec["ports"]).filter(|(_, port)| node_port(port) != 0) {
        if !seen.insert((port["protocol"].as_str().unwrap_or(""), node_port(port))) {
            out.push(StatusCause::duplicate(format!("spec.ports[{i}].nodePort"), &port["nodePort"]));
        }
    }
    let mut seen = BTreeSet::new();
    for (i, port) in indexed_items(&spec["ports"]) {
        let (protocol, number) =
            (port["protocol"].as_str().unwrap_or(""), port["port"].as_i64().unwrap_or(0));
        if !seen.insert((protocol, number)) {
            // This type is printed by its Go field names, bare of all but its number.
            let shown = json!({
                "Name": "", "Protocol": protocol, "AppProtocol": null, "Port": number, "TargetPort": 0, "NodePort": 0,
            });
            out.push(StatusCause::duplicate(format!("spec.ports[{i}]"), &shown));
        }
    }
}

/// Validates the source ranges of a load balancer, as a field or as the old annotation.
fn validate_source_ranges(object: &Value, old: Option<&Value>, out: &mut CauseList) {
    const KEY: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
    let spec = &object["spec"];
    let balanced = spec["type"] == "LoadBalancer";
    if !is_empty(&spec["loadBalancerSourceRanges"]) {
        let at = "spec.LoadBalancerSourceRanges";
        if !balanced {
            out.push(StatusCause::forbidden(at, BALANCED));
        }
        for (i, range) in indexed_items(&spec["loadBalancerSourceRanges"]) {
            let text = range.as_str().unwrap_or("").trim();
            let before = old.map_or(&Value::Null, |old| &old["spec"]["loadBalancerSourceRanges"]);
            if !indexed_items(before).any(|(_, was)| was.as_str().is_some_and(|was| was.trim() == text)) {
                check_cidr(text, &format!("{at}[{i}]"), out);
            }
        }
    } else if let Some(ranges) = slipway_manifest::object::annotation(object, KEY) {
        let at = format!("metadata.annotations[{KEY}]");
        if !balanced {
            out.push(StatusCause::forbidden(&at, BALANCED));
        }
        let same = old.is_some_and(|old| slipway_manifest::object::annotation(old, KEY) == Some(ranges));
        if !same && !ranges.trim().is_empty() {
            ranges.split(',').for_each(|range| check_cidr(range.trim(), &at, out));
        }
    }
}

fn validate_traffic_policies(spec: &Value, kind: &str, out: &mut CauseList) {
    let policy = &spec["externalTrafficPolicy"];
    let at = "spec.externalTrafficPolicy";
    let open = matches!(kind, "NodePort" | "LoadBalancer")
        || (kind == "ClusterIP" && !is_empty(&spec["externalIPs"]));
    if open {
        check_one_of(policy, at.into(), &["Cluster", "Local"], out);
    } else if !is_empty(policy) {
        out.push(StatusCause::invalid(at, policy, "may only be set for externally-accessible services"));
    }
    let health = &spec["healthCheckNodePort"];
    let at = "spec.healthCheckNodePort";
    match (has_health_check(spec), health.as_i64().unwrap_or(0)) {
        (true, 0) => out.push(StatusCause::required(at, "")),
        (true, _) => check_port_number(health, at.into(), out),
        (false, 0) => {}
        (false, _) => {
            let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            out.push(StatusCause::invalid(at, health, why));
        }
    }
    if !spec["internalTrafficPolicy"].is_null() {
        check_word(&spec["internalTrafficPolicy"], "spec.internalTrafficPolicy", &["Cluster", "Local"], out);
    }
    if !spec["trafficDistribution"].is_null() {
        let known = ["PreferClose", "PreferSameZone", "PreferSameNode"];
        check_word(&spec["trafficDistribution"], "spec.trafficDistribution", &known, out);
    }
}

/// The addresses and families of a service. These are looked at before any address is given as well.
pub(crate) fn validate_cluster_ips(spec: &Value, old: Option<&Value>, out: &mut CauseList) {
    if spec["type"] == "ExternalName" {
        return;
    }
    let (all, at) = (&spec["clusterIPs"], "spec.clusterIPs");
    match (is_empty(&spec["clusterIP"]), is_empty(all)) {
        (false, true) => out.push(StatusCause::required(at, "")),
        (false, false) if all[0] != spec["clusterIP"] => {
            out.push(StatusCause::invalid(at, all, "first value must match `clusterIP`"));
        }
        (true, false) => {
            out.push(StatusCause::invalid(at, all, "must be empty when `clusterIP` is not specified"));
        }
        _ => {}
    }
    for (i, family) in indexed_items(&spec["ipFamilies"]) {
        check_word(family, &format!("spec.ipFamilies[{i}]"), &["IPv4", "IPv6"], out);
        if indexed_items(&spec["ipFamilies"]).take(i).any(|(_, before)| before == family) {
            out.push(StatusCause::duplicate(format!("spec.ipFamilies[{i}]"), family));
        }
    }
    if !spec["ipFamilyPolicy"].is_null() {
        let known = ["PreferDualStack", "RequireDualStack", "SingleStack"];
        check_word(&spec["ipFamilyPolicy"], "spec.ipFamilyPolicy", &known, out);
    }
    let ips = all.as_array().map_or(&[][..], Vec::as_slice);
    let mut bad = false;
    for (i, ip) in ips.iter().enumerate() {
        if i == 0 && ip == "None" {
            if ips.len() > 1 {
                bad = true;
                out.push(StatusCause::invalid(at, all, "'None' must be the first and only value"));
            }
            continue;
        }
        if !old.is_some_and(|old| indexed_items(&old["clusterIPs"]).any(|(_, was)| was == ip)) {
            bad |= !check_ip(ip, &format!("{at}[{i}]"), out);
        }
    }
    if ips.len() > 2 {
        out.push(StatusCause::invalid(at, all, "may only hold up to 2 values"));
    }
    if bad {
        return;
    }
    let six = |ip: &Value| ip.as_str().and_then(parse_lenient_ip).is_some_and(|ip| ip.is_ipv6());
    if ips.len() > 1 && (ips.iter().all(six) || !ips.iter().any(six)) {
        out.push(StatusCause::invalid(at, all, "may specify no more than one IP for each IP family"));
    }
    if is_headless(spec) {
        return;
    }
    for (i, (ip, (_, family))) in ips.iter().zip(indexed_items(&spec["ipFamilies"])).enumerate() {
        for (named, other) in [("IPv4", six(ip)), ("IPv6", !six(ip))] {
            if family == named && other {
                let why = format!("expected an {named} value as indicated by `ipFamilies[{i}]`");
                out.push(StatusCause::invalid(format!("{at}[{i}]"), ip, &why));
            }
        }
    }
}

/// A name no earlier item has.
fn check_duplicate_name<'a>(name: &'a str, seen: &mut Vec<&'a str>, at: &str, out: &mut CauseList) {
    if seen.contains(&name) {
        out.push(StatusCause::duplicate(at, &json!(name)));
    }
    seen.push(name);
}

pub(in crate::write) fn validate_endpoint_slice(object: &Value, old: Option<&Value>, out: &mut CauseList) {
    let address_type = |out: &mut CauseList| {
        check_one_of(&object["addressType"], "addressType".into(), &["FQDN", "IPv4", "IPv6"], out);
    };
    let early = old.is_some() && !is_empty(&object["addressType"]);
    if early {
        address_type(out);
    }
    let mut names = Vec::new();
    for (i, port) in indexed_items(&object["ports"]) {
        let at = format!("ports[{i}]");
        let name = port["name"].as_str().unwrap_or("");
        if !name.is_empty() {
            add_problems(meta::label_problems(name), &port["name"], &format!("{at}.name"), out);
        }
        check_duplicate_name(name, &mut names, &format!("{at}.name"), out);
        check_word(&port["protocol"], &format!("{at}.protocol"), &["SCTP", "TCP", "UDP"], out);
        validate_app_protocol(port, &at, out);
    }
    if !old.is_some_and(|old| old["endpoints"] == object["endpoints"]) {
        validate_slice_endpoints(object, out);
    }
    // These are reported last, but for a changed address type.
    if !early {
        address_type(out);
    }
    for (i, endpoint) in indexed_items(&object["endpoints"]) {
        let at = format!("endpoints[{i}].addresses");
        match endpoint["addresses"].as_array().map_or(0, Vec::len) {
            0 => out.push(StatusCause::required(at, "")),
            count @ 101.. => out.push(StatusCause::too_many(at, count, 100)),
            _ => {}
        }
    }
}

fn validate_slice_endpoints(object: &Value, out: &mut CauseList) {
    let all = object["endpoints"].as_array().map_or(0, Vec::len);
    if all > 1000 {
        out.push(StatusCause::too_many("endpoints", all, 1000));
        return;
    }
    for (i, endpoint) in indexed_items(&object["endpoints"]) {
        let at = format!("endpoints[{i}]");
        for (j, address) in indexed_items(&endpoint["addresses"]) {
            validate_slice_address(&object["addressType"], address, &at, j, out);
        }
        if let Some(node) = endpoint["nodeName"].as_str() {
            add_problems(
                meta::subdomain_problems(node),
                &endpoint["nodeName"],
                &format!("{at}.nodeName"),
                out,
            );
        }
        if let Some(host) = endpoint["hostname"].as_str() {
            add_problems(meta::label_problems(host), &endpoint["hostname"], &format!("{at}.hostname"), out);
        }
        validate_hints(&endpoint["hints"], &format!("{at}.hints"), out);
    }
}

fn validate_slice_address(kind: &Value, address: &Value, endpoint: &str, j: usize, out: &mut CauseList) {
    let text = address.as_str().unwrap_or("");
    let at = format!("{endpoint}.addresses[{j}]");
    let family = match kind.as_str() {
        Some(family @ ("IPv4" | "IPv6")) => family,
        Some("FQDN") => {
            if text.is_empty() {
                out.push(StatusCause::required(at, ""));
            } else if !meta::subdomain_problems(text.strip_suffix('.').unwrap_or(text)).is_empty() {
                add_problems(
                    meta::subdomain_problems(text.strip_suffix('.').unwrap_or(text)),
                    address,
                    &at,
                    out,
                );
            } else if !text.contains('.') {
                let why = "should be a domain with at least two segments separated by dots";
                out.push(StatusCause::invalid(at, address, why));
            }
            return;
        }
        _ => return,
    };
    if !check_ip(address, &at, out) {
        return;
    }
    let six = parse_lenient_ip(text).is_some_and(|ip| ip.is_ipv6());
    if six != (family == "IPv6") {
        let why = format!("must be an {family} address");
        out.push(StatusCause::invalid(format!("{endpoint}.addresses"), address, &why));
    }
    check_reachable(address, &at, out);
}

/// Validates the topology hints of an endpoint.
fn validate_hints(hints: &Value, at: &str, out: &mut CauseList) {
    type Check = fn(&str) -> Vec<String>;
    let kinds: [(&str, Check); 2] =
        [("forZones", meta::label_value_problems), ("forNodes", meta::subdomain_problems)];
    for (key, problems) in kinds {
        let count = hints[key].as_array().map_or(0, Vec::len);
        if count > 8 {
            out.push(StatusCause::too_many(format!("{at}.{key}"), count, 8));
            return;
        }
        let mut seen = Vec::new();
        for (i, one) in indexed_items(&hints[key]) {
            let at = format!("{at}.{key}[{i}].name");
            let name = one["name"].as_str().unwrap_or("");
            check_duplicate_name(name, &mut seen, &at, out);
            add_problems(problems(name), &json!(name), &at, out);
        }
    }
}

pub(in crate::write) fn validate_endpoints(object: &Value, old: Option<&Value>, out: &mut CauseList) {
    if old.is_some_and(|old| old["subsets"] == object["subsets"]) {
        return;
    }
    for (i, subset) in indexed_items(&object["subsets"]) {
        if is_empty(&subset["addresses"]) && is_empty(&subset["notReadyAddresses"]) {
            let why = "must specify `addresses` or `notReadyAddresses`";
            out.push(StatusCause::required(format!("subsets[{i}]"), why));
        }
        for side in ["addresses", "notReadyAddresses"] {
            for (j, address) in indexed_items(&subset[side]) {
                let at = format!("subsets[{i}].{side}[{j}]");
                let ip = json!(address["ip"].as_str().unwrap_or(""));
                if let Some(why) = ip_problem(ip.as_str().unwrap_or("")) {
                    out.push(StatusCause::invalid(format!("{at}.ip"), &ip, why));
                }
                if let Some(name) = address["hostname"].as_str().filter(|name| !name.is_empty()) {
                    add_problems(
                        meta::label_problems(name),
                        &address["hostname"],
                        &format!("{at}.hostname"),
                        out,
                    );
                }
                if let Some(node) = address["nodeName"].as_str() {
                    add_problems(
                        meta::subdomain_problems(node),
                        &address["nodeName"],
                        &format!("{at}.nodeName"),
                        out,
                    );
                }
                check_reachable(&ip, &format!("{at}.ip"), out);
            }
        }
        let several = subset["ports"].as_array().is_some_and(|p| p.len() > 1);
        for (j, port) in indexed_items(&subset["ports"]) {
            let at = format!("subsets[{i}].ports[{j}]");
            if several && is_empty(&port["name"]) {
                out.push(StatusCause::required(format!("{at}.name"), ""));
            } else if let Some(name) = port["name"].as_str().filter(|name| !name.is_empty()) {
                add_problems(meta::label_problems(name), &port["name"], &format!("{at}.name"), out);
            }
            check_port_number(&port["port"], format!("{at}.port"), out);
            check_one_of(&port["protocol"], format!("{at}.protocol"), &["SCTP", "TCP", "UDP"], out);
            validate_app_protocol(port, &at, out);
        }
    }
}
