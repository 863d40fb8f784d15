//! Validation of services and of what lists their endpoints.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::address::{check_cidr, check_ip, check_reachable, ip_problem, lenient};
use super::{Causes, is_empty, list, one_of, port_number, port_or_name, texts};
use crate::status::Cause;
use crate::write::admit::meta;

const BALANCED: &str = "may only be used when `type` is 'LoadBalancer'";
const FIXED: &str = "may not change once set";

/// Whether a service has no address of its own.
fn headless(spec: &Value) -> bool {
    spec["clusterIPs"].as_array().is_some_and(|ips| ips.len() == 1 && ips[0] == "None")
}

/// Whether the balancer of a service asks nodes for their health.
fn watched(spec: &Value) -> bool {
    spec["type"] == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local"
}

/// A word of a set; here an empty one is no different from an unknown one.
fn word(value: &Value, field: &str, known: &[&str], out: &mut Causes) {
    if !value.as_str().is_some_and(|word| known.contains(&word)) {
        out.push(Cause::not_supported(field, value, known));
    }
}

pub(super) fn service(object: &Value, old: Option<&Value>, out: &mut Causes) {
    let spec = &object["spec"];
    let kind = spec["type"].as_str().unwrap_or("");
    if let Some(old) = old {
        changes(spec, &old["spec"], out);
    }
    if is_empty(&spec["ports"]) && !headless(spec) && kind != "ExternalName" {
        out.push(Cause::required("spec.ports", ""));
    }
    if headless(spec) && matches!(kind, "NodePort" | "LoadBalancer") {
        let why = format!("may not be set to 'None' for {kind} services");
        out.push(Cause::invalid("spec.clusterIPs[0]", &json!("None"), &why));
    }
    if kind == "ExternalName" {
        for key in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if !is_empty(&spec[key]) || (key == "clusterIPs" && !is_empty(&spec["clusterIP"])) {
                let why = "may not be set for ExternalName services";
                out.push(Cause::forbidden(format!("spec.{key}"), why));
            }
        }
        let name = spec["externalName"].as_str().unwrap_or("");
        match name.strip_suffix('.').unwrap_or(name) {
            "" => out.push(Cause::required("spec.externalName", "")),
            name => texts(meta::subdomain_problems(name), &json!(name), "spec.externalName", out),
        }
    }
    let several = spec["ports"].as_array().is_some_and(|p| p.len() > 1);
    let mut names = BTreeSet::new();
    for (i, port) in list(&spec["ports"]) {
        service_port(port, &format!("spec.ports[{i}]"), several, &mut names, out);
    }
    meta::validate_labels(&spec["selector"], "spec.selector", out);
    one_of(&spec["sessionAffinity"], "spec.sessionAffinity".into(), &["ClientIP", "None"], out);
    let lasting = &spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"];
    if spec["sessionAffinity"] == "ClientIP" && lasting.as_i64().is_some_and(|s| !(1..=86_400).contains(&s)) {
        let at = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
        out.push(Cause::invalid(at, lasting, "must be greater than 0 and less than 86400"));
    }
    cluster_ips(spec, old.map(|old| &old["spec"]), out);
    for (i, ip) in list(&spec["externalIPs"]) {
        let at = format!("spec.externalIPs[{i}]");
        if old.is_some_and(|old| list(&old["spec"]["externalIPs"]).any(|(_, was)| was == ip))
            || check_ip(ip, &at, out)
        {
            check_reachable(ip, &at, out);
        }
    }
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    one_of(&spec["type"], "spec.type".into(), &kinds, out);
    port_numbers(spec, kind, out);
    source_ranges(object, old, out);
    if !spec["allocateLoadBalancerNodePorts"].is_null() && kind != "LoadBalancer" {
        out.push(Cause::forbidden("spec.allocateLoadBalancerNodePorts", BALANCED));
    }
    balancer_class(spec, out);
    traffic(spec, kind, out);
}

/// What an update may not change of a service.
fn changes(new: &Value, old: &Value, out: &mut Causes) {
    if new["type"] != "ExternalName" && old["type"] != "ExternalName" {
        let len = |v: &Value| v.as_array().map_or(0, Vec::len);
        let (now, was) = (&new["clusterIPs"], &old["clusterIPs"]);
        if !(headless(new) && headless(old)) {
            if len(was) > 0 && len(now) == 0 {
                let why = "primary clusterIP can not be unset";
                out.push(Cause::invalid("spec.clusterIPs[0]", now, why));
            }
            let compared = if len(now) == len(was) { len(was) } else { 1 };
            for i in (0..compared).filter(|i| len(was) > *i && len(now) > *i && now[*i] != was[*i]) {
                out.push(Cause::invalid(format!("spec.clusterIPs[{i}]"), now, FIXED));
            }
        }
        if !headless(new) && !headless(old) {
            let (now, was) = (&new["ipFamilies"], &old["ipFamilies"]);
            let compared = if len(now) == len(was) { len(was) } else { 1 };
            for _ in (0..compared).filter(|i| len(was) > *i && len(now) > *i && now[*i] != was[*i]) {
                out.push(Cause::invalid("spec.ipFamilies[0]", now, FIXED));
            }
        }
    }
    let balanced = |spec: &Value| spec["type"] == "LoadBalancer";
    if balanced(new) && balanced(old) && new["loadBalancerClass"] != old["loadBalancerClass"] {
        out.push(Cause::invalid("spec.loadBalancerClass", &new["loadBalancerClass"], FIXED));
    }
    balancer_class(new, out);
    if watched(new) && watched(old) && new["healthCheckNodePort"] != old["healthCheckNodePort"] {
        out.push(Cause::forbidden("spec.healthCheckNodePort", "field is immutable"));
    }
}

fn balancer_class(spec: &Value, out: &mut Causes) {
    let at = "spec.loadBalancerClass";
    let Some(class) = spec["loadBalancerClass"].as_str() else { return };
    if spec["type"] == "LoadBalancer" {
        texts(meta::qualified_problems(class), &spec["loadBalancerClass"], at, out);
    } else {
        out.push(Cause::forbidden(at, BALANCED));
    }
}

fn service_port(port: &Value, at: &str, several: bool, names: &mut BTreeSet<String>, out: &mut Causes) {
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
    app_protocol(port, at, out);
}

fn app_protocol(port: &Value, at: &str, out: &mut Causes) {
    if let Some(protocol) = port["appProtocol"].as_str() {
        let at = format!("{at}.appProtocol");
        texts(meta::qualified_problems(protocol), &port["appProtocol"], &at, out);
    }
}

/// Ports of nodes where there are none, and numbers two ports share.
fn port_numbers(spec: &Value, kind: &str, out: &mut Causes) {
    let node_port = |port: &Value| port["nodePort"].as_i64().unwrap_or(0);
    if kind == "ClusterIP" {
        for (i, _) in list(&spec["ports"]).filter(|(_, port)| node_port(port) != 0) {
            let why = "may not be used when `type` is 'ClusterIP'";
            out.push(Cause::forbidden(format!("spec.ports[{i}].nodePort"), why));
        }
    }
    let mut seen = BTreeSet::new();
    for (i, port) in list(&spec["ports"]).filter(|(_, port)| node_port(port) != 0) {
        if !seen.insert((port["protocol"].as_str().unwrap_or(""), node_port(port))) {
            out.push(Cause::duplicate(format!("spec.ports[{i}].nodePort"), &port["nodePort"]));
        }
    }
    let mut seen = BTreeSet::new();
    for (i, port) in list(&spec["ports"]) {
        let (protocol, number) =
            (port["protocol"].as_str().unwrap_or(""), port["port"].as_i64().unwrap_or(0));
        if !seen.insert((protocol, number)) {
            // This type is printed by its Go field names, bare of all but its number.
            let shown = json!({
                "Name": "", "Protocol": protocol, "AppProtocol": null, "Port": number, "TargetPort": 0, "NodePort": 0,
            });
            out.push(Cause::duplicate(format!("spec.ports[{i}]"), &shown));
        }
    }
}

/// Who may come through the balancer, as a field or as the annotation it once was.
fn source_ranges(object: &Value, old: Option<&Value>, out: &mut Causes) {
    const KEY: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
    let spec = &object["spec"];
    let balanced = spec["type"] == "LoadBalancer";
    if !is_empty(&spec["loadBalancerSourceRanges"]) {
        let at = "spec.LoadBalancerSourceRanges";
        if !balanced {
            out.push(Cause::forbidden(at, BALANCED));
        }
        for (i, range) in list(&spec["loadBalancerSourceRanges"]) {
            let text = range.as_str().unwrap_or("").trim();
            let before = old.map_or(&Value::Null, |old| &old["spec"]["loadBalancerSourceRanges"]);
            if !list(before).any(|(_, was)| was.as_str().is_some_and(|was| was.trim() == text)) {
                check_cidr(text, &format!("{at}[{i}]"), out);
            }
        }
    } else if let Some(ranges) = slipway_manifest::object::annotation(object, KEY) {
        let at = format!("metadata.annotations[{KEY}]");
        if !balanced {
            out.push(Cause::forbidden(&at, BALANCED));
        }
        let same = old.is_some_and(|old| slipway_manifest::object::annotation(old, KEY) == Some(ranges));
        if !same && !ranges.trim().is_empty() {
            ranges.split(',').for_each(|range| check_cidr(range.trim(), &at, out));
        }
    }
}

fn traffic(spec: &Value, kind: &str, out: &mut Causes) {
    let policy = &spec["externalTrafficPolicy"];
    let at = "spec.externalTrafficPolicy";
    let open = matches!(kind, "NodePort" | "LoadBalancer")
        || (kind == "ClusterIP" && !is_empty(&spec["externalIPs"]));
    if open {
        one_of(policy, at.into(), &["Cluster", "Local"], out);
    } else if !is_empty(policy) {
        out.push(Cause::invalid(at, policy, "may only be set for externally-accessible services"));
    }
    let health = &spec["healthCheckNodePort"];
    let at = "spec.healthCheckNodePort";
    match (watched(spec), health.as_i64().unwrap_or(0)) {
        (true, 0) => out.push(Cause::required(at, "")),
        (true, _) => port_number(health, at.into(), out),
        (false, 0) => {}
        (false, _) => {
            let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            out.push(Cause::invalid(at, health, why));
        }
    }
    if !spec["internalTrafficPolicy"].is_null() {
        word(&spec["internalTrafficPolicy"], "spec.internalTrafficPolicy", &["Cluster", "Local"], out);
    }
    if !spec["trafficDistribution"].is_null() {
        let known = ["PreferClose", "PreferSameZone", "PreferSameNode"];
        word(&spec["trafficDistribution"], "spec.trafficDistribution", &known, out);
    }
}

/// The addresses and families of a service. These are looked at before any address is given as well.
pub(crate) fn cluster_ips(spec: &Value, old: Option<&Value>, out: &mut Causes) {
    if spec["type"] == "ExternalName" {
        return;
    }
    let (all, at) = (&spec["clusterIPs"], "spec.clusterIPs");
    match (is_empty(&spec["clusterIP"]), is_empty(all)) {
        (false, true) => out.push(Cause::required(at, "")),
        (false, false) if all[0] != spec["clusterIP"] => {
            out.push(Cause::invalid(at, all, "first value must match `clusterIP`"));
        }
        (true, false) => {
            out.push(Cause::invalid(at, all, "must be empty when `clusterIP` is not specified"));
        }
        _ => {}
    }
    for (i, family) in list(&spec["ipFamilies"]) {
        word(family, &format!("spec.ipFamilies[{i}]"), &["IPv4", "IPv6"], out);
        if list(&spec["ipFamilies"]).take(i).any(|(_, before)| before == family) {
            out.push(Cause::duplicate(format!("spec.ipFamilies[{i}]"), family));
        }
    }
    if !spec["ipFamilyPolicy"].is_null() {
        let known = ["PreferDualStack", "RequireDualStack", "SingleStack"];
        word(&spec["ipFamilyPolicy"], "spec.ipFamilyPolicy", &known, out);
    }
    let ips = all.as_array().map_or(&[][..], Vec::as_slice);
    let mut bad = false;
    for (i, ip) in ips.iter().enumerate() {
        if i == 0 && ip == "None" {
            if ips.len() > 1 {
                bad = true;
                out.push(Cause::invalid(at, all, "'None' must be the first and only value"));
            }
            continue;
        }
        if !old.is_some_and(|old| list(&old["clusterIPs"]).any(|(_, was)| was == ip)) {
            bad |= !check_ip(ip, &format!("{at}[{i}]"), out);
        }
    }
    if ips.len() > 2 {
        out.push(Cause::invalid(at, all, "may only hold up to 2 values"));
    }
    if bad {
        return;
    }
    let six = |ip: &Value| ip.as_str().and_then(lenient).is_some_and(|ip| ip.is_ipv6());
    if ips.len() > 1 && (ips.iter().all(six) || !ips.iter().any(six)) {
        out.push(Cause::invalid(at, all, "may specify no more than one IP for each IP family"));
    }
    if headless(spec) {
        return;
    }
    for (i, (ip, (_, family))) in ips.iter().zip(list(&spec["ipFamilies"])).enumerate() {
        for (named, other) in [("IPv4", six(ip)), ("IPv6", !six(ip))] {
            if family == named && other {
                let why = format!("expected an {named} value as indicated by `ipFamilies[{i}]`");
                out.push(Cause::invalid(format!("{at}[{i}]"), ip, &why));
            }
        }
    }
}

/// A name no earlier item has.
fn unlike<'a>(name: &'a str, seen: &mut Vec<&'a str>, at: &str, out: &mut Causes) {
    if seen.contains(&name) {
        out.push(Cause::duplicate(at, &json!(name)));
    }
    seen.push(name);
}

pub(super) fn endpoint_slice(object: &Value, old: Option<&Value>, out: &mut Causes) {
    let address_type = |out: &mut Causes| {
        one_of(&object["addressType"], "addressType".into(), &["FQDN", "IPv4", "IPv6"], out);
    };
    let early = old.is_some() && !is_empty(&object["addressType"]);
    if early {
        address_type(out);
    }
    let mut names = Vec::new();
    for (i, port) in list(&object["ports"]) {
        let at = format!("ports[{i}]");
        let name = port["name"].as_str().unwrap_or("");
        if !name.is_empty() {
            texts(meta::label_problems(name), &port["name"], &format!("{at}.name"), out);
        }
        unlike(name, &mut names, &format!("{at}.name"), out);
        word(&port["protocol"], &format!("{at}.protocol"), &["SCTP", "TCP", "UDP"], out);
        app_protocol(port, &at, out);
    }
    if !old.is_some_and(|old| old["endpoints"] == object["endpoints"]) {
        slice_endpoints(object, out);
    }
    // These are said last, but for an address type somebody wants to change.
    if !early {
        address_type(out);
    }
    for (i, endpoint) in list(&object["endpoints"]) {
        let at = format!("endpoints[{i}].addresses");
        match endpoint["addresses"].as_array().map_or(0, Vec::len) {
            0 => out.push(Cause::required(at, "")),
            count @ 101.. => out.push(Cause::too_many(at, count, 100)),
            _ => {}
        }
    }
}

fn slice_endpoints(object: &Value, out: &mut Causes) {
    let all = object["endpoints"].as_array().map_or(0, Vec::len);
    if all > 1000 {
        out.push(Cause::too_many("endpoints", all, 1000));
        return;
    }
    for (i, endpoint) in list(&object["endpoints"]) {
        let at = format!("endpoints[{i}]");
        for (j, address) in list(&endpoint["addresses"]) {
            slice_address(&object["addressType"], address, &at, j, out);
        }
        if let Some(node) = endpoint["nodeName"].as_str() {
            texts(meta::subdomain_problems(node), &endpoint["nodeName"], &format!("{at}.nodeName"), out);
        }
        if let Some(host) = endpoint["hostname"].as_str() {
            texts(meta::label_problems(host), &endpoint["hostname"], &format!("{at}.hostname"), out);
        }
        hints(&endpoint["hints"], &format!("{at}.hints"), out);
    }
}

fn slice_address(kind: &Value, address: &Value, endpoint: &str, j: usize, out: &mut Causes) {
    let text = address.as_str().unwrap_or("");
    let at = format!("{endpoint}.addresses[{j}]");
    let family = match kind.as_str() {
        Some(family @ ("IPv4" | "IPv6")) => family,
        Some("FQDN") => {
            if text.is_empty() {
                out.push(Cause::required(at, ""));
            } else if !meta::subdomain_problems(text.strip_suffix('.').unwrap_or(text)).is_empty() {
                texts(meta::subdomain_problems(text.strip_suffix('.').unwrap_or(text)), address, &at, out);
            } else if !text.contains('.') {
                let why = "should be a domain with at least two segments separated by dots";
                out.push(Cause::invalid(at, address, why));
            }
            return;
        }
        _ => return,
    };
    if !check_ip(address, &at, out) {
        return;
    }
    let six = lenient(text).is_some_and(|ip| ip.is_ipv6());
    if six != (family == "IPv6") {
        let why = format!("must be an {family} address");
        out.push(Cause::invalid(format!("{endpoint}.addresses"), address, &why));
    }
    check_reachable(address, &at, out);
}

/// Whom an endpoint is meant for.
fn hints(hints: &Value, at: &str, out: &mut Causes) {
    type Check = fn(&str) -> Vec<String>;
    let kinds: [(&str, Check); 2] =
        [("forZones", meta::label_value_problems), ("forNodes", meta::subdomain_problems)];
    for (key, problems) in kinds {
        let count = hints[key].as_array().map_or(0, Vec::len);
        if count > 8 {
            out.push(Cause::too_many(format!("{at}.{key}"), count, 8));
            return;
        }
        let mut seen = Vec::new();
        for (i, one) in list(&hints[key]) {
            let at = format!("{at}.{key}[{i}].name");
            let name = one["name"].as_str().unwrap_or("");
            unlike(name, &mut seen, &at, out);
            texts(problems(name), &json!(name), &at, out);
        }
    }
}

pub(super) fn endpoints(object: &Value, old: Option<&Value>, out: &mut Causes) {
    if old.is_some_and(|old| old["subsets"] == object["subsets"]) {
        return;
    }
    for (i, subset) in list(&object["subsets"]) {
        if is_empty(&subset["addresses"]) && is_empty(&subset["notReadyAddresses"]) {
            let why = "must specify `addresses` or `notReadyAddresses`";
            out.push(Cause::required(format!("subsets[{i}]"), why));
        }
        for side in ["addresses", "notReadyAddresses"] {
            for (j, address) in list(&subset[side]) {
                let at = format!("subsets[{i}].{side}[{j}]");
                let ip = json!(address["ip"].as_str().unwrap_or(""));
                if let Some(why) = ip_problem(ip.as_str().unwrap_or("")) {
                    out.push(Cause::invalid(format!("{at}.ip"), &ip, why));
                }
                if let Some(name) = address["hostname"].as_str().filter(|name| !name.is_empty()) {
                    texts(meta::label_problems(name), &address["hostname"], &format!("{at}.hostname"), out);
                }
                if let Some(node) = address["nodeName"].as_str() {
                    texts(
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
        for (j, port) in list(&subset["ports"]) {
            let at = format!("subsets[{i}].ports[{j}]");
            if several && is_empty(&port["name"]) {
                out.push(Cause::required(format!("{at}.name"), ""));
            } else if let Some(name) = port["name"].as_str().filter(|name| !name.is_empty()) {
                texts(meta::label_problems(name), &port["name"], &format!("{at}.name"), out);
            }
            port_number(&port["port"], format!("{at}.port"), out);
            one_of(&port["protocol"], format!("{at}.protocol"), &["SCTP", "TCP", "UDP"], out);
            app_protocol(port, &at, out);
        }
    }
}
