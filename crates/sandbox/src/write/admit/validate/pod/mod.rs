//! Validation of pods and pod templates.

mod claims;
mod confinement;
mod containers;
mod environment;
mod hosts;
mod mounts;
mod placement;
mod probes;
mod projections;
mod resources;
mod systems;
mod volumes;

use serde_json::{Value, json};

use super::address::BAD_IP;
use super::{Causes, is_empty, list, non_negative, one_of, texts};
use crate::status::Cause;
use crate::write::admit::meta;

pub(super) use containers::known;
pub(crate) use containers::port_name_problems;
pub(super) use placement::node_term;
pub(crate) use placement::tolerations;
pub(crate) use resources::resources;
pub(super) use resources::{container_name, is_extended, is_native};
pub(super) use volumes::{azure_disk, fibre_channel, flocker, host_path, iscsi_name, partition, quobyte};

/// Every container of a pod, of whichever kind, with where it stands.
fn each_container<'a>(spec: &'a Value, field: &str) -> impl Iterator<Item = (String, &'a Value)> {
    ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(move |kind| {
        list(&spec[kind]).map(move |(i, container)| (format!("{field}.{kind}[{i}]"), container))
    })
}

/// A text, or none at all.
fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or("")
}

pub(super) fn pod(object: &Value, update: bool, out: &mut Causes) {
    let pod = &object["spec"];
    spec(pod, Some(object), "spec", out);
    if is_empty(&pod["serviceAccountName"]) {
        for (i, volume) in list(&pod["volumes"]) {
            for (j, _) in
                list(&volume["projected"]["sources"]).filter(|(_, s)| s["serviceAccountToken"].is_object())
            {
                out.push(Cause::forbidden(
                    format!("spec.volumes[{i}].projected.sources[{j}].serviceAccountToken"),
                    "must not be specified when serviceAccountName is not set",
                ));
            }
        }
    }
    non_negative(&pod["terminationGracePeriodSeconds"], "spec.terminationGracePeriodSeconds".into(), out);
    for kind in ["containers", "initContainers"] {
        for (i, container) in list(&pod[kind]) {
            containers::padding(container, &format!("spec.{kind}[{i}]"), out);
        }
    }
    if update {
        return;
    }
    if !is_empty(&pod["ephemeralContainers"]) {
        out.push(Cause::forbidden("spec.ephemeralContainers", "cannot be set on create"));
    }
    if !is_empty(&pod["nodeName"]) && !is_empty(&pod["schedulingGates"]) {
        let why = "cannot be set until all schedulingGates have been cleared";
        out.push(Cause::forbidden("spec.nodeName", why));
    }
}

/// A pod template at `field`.
pub(super) fn template(template: &Value, field: &str, out: &mut Causes) {
    let labels = &template["metadata"]["labels"];
    meta::validate_labels(labels, &format!("{field}.labels"), out);
    for (key, _) in meta::sorted(&template["metadata"]["annotations"]) {
        let problems = meta::qualified_problems(&key.to_lowercase());
        texts(problems, &json!(key), &format!("{field}.annotations"), out);
    }
    spec(&template["spec"], None, &format!("{field}.spec"), out);
    if !is_empty(&template["spec"]["ephemeralContainers"]) {
        out.push(Cause::forbidden(
            format!("{field}.spec.ephemeralContainers"),
            "ephemeral containers not allowed in pod template",
        ));
    }
}

/// A pod spec at `field`, of `pod` if it is not one of a template.
fn spec(spec: &Value, pod: Option<&Value>, field: &str, out: &mut Causes) {
    let at = |key: &str| format!("{field}.{key}");
    let volumes = volumes::volumes(&spec["volumes"], pod, &at("volumes"), out);
    let claims = claims::claims(&spec["resourceClaims"], &at("resourceClaims"), out);
    containers::containers(spec, &volumes, &claims, field, out);
    resources::pod_resources(spec, &claims, field, out);
    hosts::host_ports_match(spec, pod.is_some(), field, out);
    one_of(&spec["restartPolicy"], at("restartPolicy"), &["Always", "OnFailure", "Never"], out);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    one_of(&spec["dnsPolicy"], at("dnsPolicy"), &policies, out);
    meta::validate_labels(&spec["nodeSelector"], &at("nodeSelector"), out);
    confinement::pod_confinement(spec, &at("securityContext"), out);
    if spec["shareProcessNamespace"] == true && spec["hostPID"] == true {
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        out.push(Cause::invalid(at("shareProcessNamespace"), &json!(true), why));
    }
    placement::affinity(&spec["affinity"], &at("affinity"), out);
    hosts::name_service(spec, &at("dnsConfig"), out);
    for (i, gate) in list(&spec["readinessGates"]) {
        let kind = text(gate, "conditionType");
        let at = at(&format!("readinessGates[{i}].conditionType"));
        texts(meta::qualified_problems(kind), &json!(kind), &at, out);
    }
    placement::gates(&spec["schedulingGates"], &at("schedulingGates"), out);
    placement::spread(&spec["topologySpreadConstraints"], &at("topologySpreadConstraints"), out);
    systems::host_processes(spec, field, out);
    hosts::host_users(spec, field, out);
    hosts::host_name(spec, &at("hostnameOverride"), out);
    for key in ["serviceAccountName", "nodeName"] {
        if !is_empty(&spec[key]) {
            texts(meta::subdomain_problems(text(spec, key)), &spec[key], &at(key), out);
        }
    }
    if let Some(seconds) = spec["activeDeadlineSeconds"].as_i64()
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        out.push(Cause::invalid(
            at("activeDeadlineSeconds"),
            &spec["activeDeadlineSeconds"],
            "must be between 1 and 2147483647, inclusive",
        ));
    }
    for key in ["hostname", "subdomain"] {
        if let Some(text) = spec[key].as_str().filter(|t| !t.is_empty()) {
            texts(meta::label_problems(text), &spec[key], &at(key), out);
        }
    }
    tolerations(&spec["tolerations"], &at("tolerations"), out);
    for (i, alias) in list(&spec["hostAliases"]) {
        let at = at(&format!("hostAliases[{i}]"));
        if text(alias, "ip").parse::<std::net::IpAddr>().is_err() {
            out.push(Cause::invalid(format!("{at}.ip"), &json!(text(alias, "ip")), BAD_IP));
        }
        for (j, name) in list(&alias["hostnames"]) {
            let problems = meta::subdomain_problems(name.as_str().unwrap_or(""));
            texts(problems, name, &format!("{at}.hostnames[{j}]"), out);
        }
    }
    if !is_empty(&spec["priorityClassName"]) {
        let problems = meta::subdomain_problems(text(spec, "priorityClassName"));
        texts(problems, &spec["priorityClassName"], &at("priorityClassName"), out);
    }
    if let Some(class) = spec["runtimeClassName"].as_str() {
        texts(meta::subdomain_problems(class), &json!(class), &at("runtimeClassName"), out);
    }
    if !spec["preemptionPolicy"].is_null() {
        let known = ["PreemptLowerPriority", "Never"];
        one_of(&spec["preemptionPolicy"], at("preemptionPolicy"), &known, out);
    }
    resources(&json!({"limits": spec["overhead"]}), &claims, &at("overhead"), out);
    systems::system(spec, field, out);
    environment::files(spec, field, out);
}
