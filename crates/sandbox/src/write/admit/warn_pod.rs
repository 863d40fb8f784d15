//! Warnings about pods and pod templates that are accepted all the same.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::amounts::{canonical_text, nanos_of};
use super::meta;
use super::validate::indexed_items;

/// Labels of nodes that are out of use, and what to say of them.
const OLD_LABELS: &[(&str, &str)] = &[
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead",
    ),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    (
        "scheduler.alpha.kubernetes.io/preferAvoidPods",
        "deprecated since v1.22; use Taints and Tolerations instead",
    ),
    ("node-role.kubernetes.io/master", "use \"node-role.kubernetes.io/control-plane\" instead"),
];

/// Kinds of volumes that are out of use, by the name they go by here.
const OLD_VOLUMES: &[(&str, &str, &str)] = &[
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

const OLD_ANNOTATIONS: &[(&str, &str)] = &[
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    ("security.alpha.kubernetes.io/sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];

const NO_SELECTOR: &str = "a null labelSelector results in matching no pod";

pub(in crate::write) fn old_label_warning(key: &str) -> Option<&'static str> {
    OLD_LABELS.iter().find(|(old, _)| *old == key).map(|(_, why)| *why)
}

fn text_member<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or("")
}

fn located_containers<'a>(spec: &'a Value, field: &str) -> Vec<(String, &'a Value)> {
    ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .flat_map(|kind| indexed_items(&spec[kind]).map(move |(i, c)| (format!("{field}.{kind}[{i}]"), c)))
        .collect()
}

/// Warnings about a pod, which `prefix` is empty for, or about a template that stands at `prefix`.
pub(in crate::write) fn warn_about_pod(pod: &Value, prefix: &str, out: &mut Vec<String>) {
    let spec = &pod["spec"];
    let field = format!("{prefix}spec");
    warn_about_placement(spec, &field, out);
    for (key, why) in OLD_ANNOTATIONS {
        if pod["metadata"]["annotations"].get(*key).is_some() {
            out.push(format!("{prefix}metadata.annotations[{key}]: {why}"));
        }
    }
    for (i, volume) in indexed_items(&spec["volumes"]) {
        for (kind, shown, why) in OLD_VOLUMES {
            if volume[*kind].is_object() {
                out.push(format!("{field}.volumes[{i}].{shown}: {why}"));
            }
        }
        let at = format!("{field}.volumes[{i}].ephemeral.volumeClaimTemplate.spec");
        warn_about_claim_spec(&volume["ephemeral"]["volumeClaimTemplate"]["spec"], &at, out);
    }
    overlapping_paths(spec, out);
    warn_about_repeated(&spec["hostAliases"], "ip", &format!("{field}.hostAliases"), out);
    warn_about_repeated(&spec["imagePullSecrets"], "name", &format!("{field}.imagePullSecrets"), out);
    for (i, secret) in indexed_items(&spec["imagePullSecrets"]) {
        if text_member(secret, "name").is_empty() {
            out.push(format!("{field}.imagePullSecrets[{i}].name: invalid empty name \"\""));
        }
    }
    for resource in ["memory", "ephemeral-storage"] {
        warn_about_fraction(&spec["overhead"], resource, &format!("{field}.overhead"), out);
    }
    let containers = located_containers(spec, &field);
    for (at, container) in &containers {
        for resource in ["memory", "ephemeral-storage"] {
            for side in ["limits", "requests"] {
                warn_about_fraction(
                    &container["resources"][side],
                    resource,
                    &format!("{at}.resources.{side}"),
                    out,
                );
            }
        }
        warn_about_hidden(&container["env"], at, out);
    }
    warn_about_ports(&containers, out);
    if spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
        out.push(format!(
            "{field}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
        ));
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        for (when, inner) in [
            ("requiredDuringSchedulingIgnoredDuringExecution", ""),
            ("preferredDuringSchedulingIgnoredDuringExecution", ".podAffinityTerm"),
        ] {
            for (i, term) in indexed_items(&spec["affinity"][kind][when]) {
                let term = if inner.is_empty() { term } else { &term["podAffinityTerm"] };
                if term["labelSelector"].is_null() {
                    let at = format!("{field}.affinity.{kind}.{when}[{i}]{inner}.labelSelector");
                    out.push(format!("{at}: {NO_SELECTOR}"));
                }
            }
        }
    }
    for (i, server) in indexed_items(&spec["dnsConfig"]["nameservers"]) {
        warn_about_address(server, &format!("{field}.dnsConfig.nameservers[{i}]"), out);
    }
    for (i, alias) in indexed_items(&spec["hostAliases"]) {
        warn_about_address(&alias["ip"], &format!("{field}.hostAliases[{i}].ip"), out);
    }
}

/// A claim for a part of a byte.
pub(in crate::write) fn warn_about_claim_spec(spec: &Value, field: &str, out: &mut Vec<String>) {
    for side in ["requests", "limits"] {
        warn_about_fraction(&spec["resources"][side], "storage", &format!("{field}.resources.{side}"), out);
    }
}

fn warn_about_fraction(amounts: &Value, resource: &str, field: &str, out: &mut Vec<String>) {
    let Some(value) = amounts.get(resource) else { return };
    if nanos_of(value).is_some_and(|n| n % 1_000_000_000 != 0) {
        let shown = canonical_text(value);
        out.push(format!(
            "{field}[{resource}]: fractional byte value {shown:?} is invalid, must be an integer"
        ));
    }
}

/// Warns about the placement of a pod.
fn warn_about_placement(spec: &Value, field: &str, out: &mut Vec<String>) {
    for (key, _) in meta::sorted_members(&spec["nodeSelector"]) {
        if let Some(why) = old_label_warning(key) {
            out.push(format!("{field}.nodeSelector[{key}]: {why}"));
        }
    }
    let mut term = |term: &Value, values: bool, at: String| {
        for (i, expression) in indexed_items(&term["matchExpressions"]) {
            let key = text_member(expression, "key");
            if let Some(why) = old_label_warning(key) {
                out.push(format!("{at}.matchExpressions[{i}].key: {key} is {why}"));
            }
            for (j, value) in indexed_items(&expression["values"]).filter(|_| values) {
                let value = value.as_str().unwrap_or("");
                for why in meta::label_value_problems(value) {
                    out.push(format!("{at}.matchExpressions[{i}].values[{j}]: {value} is invalid, {why}"));
                }
            }
        }
    };
    let affinity = &spec["affinity"]["nodeAffinity"];
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    for (i, one) in indexed_items(&affinity[required]["nodeSelectorTerms"]) {
        term(one, false, format!("{field}.affinity.nodeAffinity.{required}.nodeSelectorTerms[{i}]"));
    }
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    for (i, one) in indexed_items(&affinity[preferred]) {
        let at = format!("{field}.affinity.nodeAffinity.{preferred}[{i}].preference");
        term(&one["preference"], true, at);
    }
    for (i, constraint) in indexed_items(&spec["topologySpreadConstraints"]) {
        let at = format!("{field}.topologySpreadConstraints[{i}]");
        let key = text_member(constraint, "topologyKey");
        if let Some(why) = old_label_warning(key) {
            out.push(format!("{at}.topologyKey: {key} is {why}"));
        }
        if constraint["labelSelector"].is_null() {
            out.push(format!("{at}.labelSelector: {NO_SELECTOR}"));
        }
    }
}

/// Items of a list that say the same.
fn warn_about_repeated(items: &Value, key: &str, field: &str, out: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for (i, item) in indexed_items(items) {
        let value = text_member(item, key);
        if !seen.insert(value) {
            out.push(format!("{field}[{i}].{key}: duplicate {key} {}", json!(value)));
        }
    }
}

/// Warns about variables that hide others without using them.
fn warn_about_hidden(variables: &Value, at: &str, out: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for (i, variable) in indexed_items(variables) {
        let name = text_member(variable, "name");
        if seen.insert(name) {
            continue;
        }
        let (value, used) = (text_member(variable, "value"), format!("$({name})"));
        if !variable["valueFrom"].is_null() || value == used || !value.contains(&used) {
            out.push(format!(
                "{at}.env[{i}]: hides previous definition of {}, which may be dropped when using apply",
                json!(name)
            ));
        }
    }
}

fn warn_about_ports(containers: &[(String, &Value)], out: &mut Vec<String>) {
    let all: Vec<(String, &Value)> = containers
        .iter()
        .flat_map(|(at, c)| {
            indexed_items(&c["ports"]).map(move |(i, port)| (format!("{at}.ports[{i}]"), port))
        })
        .collect();
    let number = |port: &Value, key: &str| port[key].as_i64().unwrap_or(0);
    for (i, (at, port)) in all.iter().enumerate() {
        let (host, address) = (number(port, "hostPort"), text_member(port, "hostIP"));
        if !address.is_empty() && host == 0 {
            out.push(format!(
                "{at}: hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{} Protocol:{} HostIP:{address}}}",
                text_member(port, "name"),
                number(port, "containerPort"),
                text_member(port, "protocol"),
            ));
        }
        for (other_at, other) in all.iter().take(i) {
            if number(other, "containerPort") != number(port, "containerPort")
                || text_member(other, "protocol") != text_member(port, "protocol")
            {
                continue;
            }
            let (other_host, other_address) = (number(other, "hostPort"), text_member(other, "hostIP"));
            let what = if host == other_host && address == other_address {
                "duplicate"
            } else if host == 0 || other_host == 0 {
                "overlapping"
            } else if host == other_host && address.is_empty() != other_address.is_empty() {
                "dangerously ambiguous"
            } else {
                continue;
            };
            out.push(format!("{at}: {what} port definition with {other_at}"));
        }
    }
    for (i, (at, port)) in all.iter().enumerate() {
        let name = text_member(port, "name");
        let first = all.iter().take(i).find(|(_, other)| text_member(other, "name") == name);
        if let Some((first, _)) = first.filter(|_| !name.is_empty()) {
            out.push(format!(
                "{at}: duplicate port name {} with {first}, services and probes that select ports by name will use {first}",
                json!(name)
            ));
        }
    }
}

/// Warns about files of one volume whose paths overlap.
fn overlapping_paths(spec: &Value, out: &mut Vec<String>) {
    for (_, volume) in indexed_items(&spec["volumes"]) {
        let name = json!(text_member(volume, "name"));
        let mut check = |sources: Vec<(String, String)>, what: String| {
            let mut seen: Vec<(String, String)> = Vec::new();
            for (path, source) in sources {
                let path = path.trim_end_matches('/').to_owned();
                let shown = |path: &str, source: &str| match source {
                    "" => json!(path).to_string(),
                    _ => format!("{} ({source})", json!(path)),
                };
                let within = |a: &str, b: &str| format!("{a}/").starts_with(&format!("{b}/"));
                for (other, other_source) in seen.iter().filter(|(other, _)| {
                    !path.is_empty() && !other.is_empty() && (within(other, &path) || within(&path, other))
                }) {
                    out.push(format!(
                        "volume {name} ({what}): overlapping paths: {} with {}",
                        shown(&path, &source),
                        shown(other, other_source)
                    ));
                }
                seen.push((path, source));
            }
        };
        let items = |source: &Value, from: &str| -> Vec<(String, String)> {
            indexed_items(&source["items"])
                .map(|(_, item)| (text_member(item, "path").to_owned(), from.to_owned()))
                .collect()
        };
        let named = |what: &str, name: &str| format!("{what} {}", json!(name));
        check(items(&volume["configMap"], ""), named("ConfigMap", text_member(&volume["configMap"], "name")));
        check(items(&volume["secret"], ""), named("Secret", text_member(&volume["secret"], "secretName")));
        check(items(&volume["downwardAPI"], ""), "DownwardAPI".into());
        let mut all = Vec::new();
        let mut empty = 0;
        for (_, source) in indexed_items(&volume["projected"]["sources"]) {
            let (config, secret) = (&source["configMap"], &source["secret"]);
            let (trust, certificate) = (&source["clusterTrustBundle"], &source["podCertificate"]);
            if source.as_object().is_none_or(serde_json::Map::is_empty) {
                empty += 1;
            } else if config["items"].is_array() {
                all.extend(items(config, &named("ConfigMap", text_member(config, "name"))));
            } else if secret["items"].is_array() {
                all.extend(items(secret, &named("Secret", text_member(secret, "name"))));
            } else if source["downwardAPI"]["items"].is_array() {
                all.extend(items(&source["downwardAPI"], "DownwardAPI"));
            } else if source["serviceAccountToken"].is_object() {
                let path = text_member(&source["serviceAccountToken"], "path");
                all.push((path.to_owned(), "ServiceAccountToken".into()));
            } else if trust.is_object() {
                let by = trust["name"].as_str().unwrap_or(text_member(trust, "signerName"));
                all.push((text_member(trust, "path").to_owned(), named("ClusterTrustBundle", by)));
            } else if certificate.is_object() {
                for (key, what) in [
                    ("certificateChainPath", "chain"),
                    ("keyPath", "key"),
                    ("credentialBundlePath", "credential bundle"),
                ] {
                    if !text_member(certificate, key).is_empty() {
                        let path = text_member(certificate, key).to_owned();
                        all.push((path, format!("PodCertificate {what}")));
                    }
                }
            }
        }
        check(all, "Projected".into());
        for _ in 0..empty {
            out.push(format!("volume {name} (Projected) has no sources provided"));
        }
    }
}

/// An address that is not written as it should be.
fn warn_about_address(value: &Value, field: &str, out: &mut Vec<String>) {
    let text = value.as_str().unwrap_or("");
    let Ok(std::net::IpAddr::V6(ip)) = text.parse::<std::net::IpAddr>() else { return };
    if let Some(old) = ip.to_ipv4_mapped() {
        out.push(format!("{field}: non-standard IP address {text:?} is invalid: use \"{old}\""));
    } else if ip.to_string() != text {
        out.push(format!("{field}: IPv6 address {text:?} should be in RFC 5952 canonical format (\"{ip}\")"));
    }
}
