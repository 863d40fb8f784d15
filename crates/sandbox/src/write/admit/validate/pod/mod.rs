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
mod volume_files;
mod volumes;

use serde_json::{Value, json};

use super::address::BAD_IP;
use super::{CauseList, add_problems, check_non_negative, check_one_of, indexed_items, is_empty};
use crate::status::StatusCause;
use crate::write::admit::meta;

pub(super) use containers::check_known_or_empty;
pub(crate) use containers::port_name_problems;
pub(super) use placement::validate_node_term;
pub(crate) use placement::validate_tolerations;
pub(crate) use resources::validate_resources;
pub(super) use resources::{is_extended, is_native, validate_container_resource};
pub(super) use volumes::{
    validate_azure_disk, validate_fibre_channel, validate_flocker, validate_host_path, validate_iscsi_name,
    validate_partition, validate_quobyte,
};

/// Every container of a pod, of whichever kind, with where it stands.
fn each_container<'a>(spec: &'a Value, field: &str) -> impl Iterator<Item = (String, &'a Value)> {
    ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(move |kind| {
        indexed_items(&spec[kind]).map(move |(i, container)| (format!("{field}.{kind}[{i}]"), container))
    })
}

/// A text, or none at all.
fn text_member<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or("")
}

/// Marks a pod that a node runs on its own.
const MIRROR: &str = "kubernetes.io/config.mirror";

pub(in crate::write) fn validate_pod(object: &Value, update: bool, out: &mut CauseList) {
    let pod = &object["spec"];
    if let Some(mirrored) = slipway_manifest::object::annotation(object, MIRROR)
        && is_empty(&pod["nodeName"])
    {
        let why = "must set spec.nodeName if mirror pod annotation is set";
        out.push(StatusCause::invalid(format!("metadata.annotations[{MIRROR}]"), &mirrored.into(), why));
    }
    validate_pod_spec(pod, Some(object), "spec", out);
    if is_empty(&pod["serviceAccountName"]) {
        for (i, volume) in indexed_items(&pod["volumes"]) {
            for (j, _) in indexed_items(&volume["projected"]["sources"])
                .filter(|(_, s)| s["serviceAccountToken"].is_object())
            {
                out.push(StatusCause::forbidden(
                    format!("spec.volumes[{i}].projected.sources[{j}].serviceAccountToken"),
                    "must not be specified when serviceAccountName is not set",
                ));
            }
        }
    }
    check_non_negative(
        &pod["terminationGracePeriodSeconds"],
        "spec.terminationGracePeriodSeconds".into(),
        out,
    );
    for kind in ["containers", "initContainers"] {
        for (i, container) in indexed_items(&pod[kind]) {
            containers::check_image_padding(container, &format!("spec.{kind}[{i}]"), out);
        }
    }
    if update {
        return;
    }
    if !is_empty(&pod["ephemeralContainers"]) {
        out.push(StatusCause::forbidden("spec.ephemeralContainers", "cannot be set on create"));
    }
    if !is_empty(&pod["nodeName"]) && !is_empty(&pod["schedulingGates"]) {
        let why = "cannot be set until all schedulingGates have been cleared";
        out.push(StatusCause::forbidden("spec.nodeName", why));
    }
}

/// A pod template at `field`.
pub(in crate::write) fn validate_template(template: &Value, field: &str, out: &mut CauseList) {
    let labels = &template["metadata"]["labels"];
    meta::validate_labels(labels, &format!("{field}.labels"), out);
    for (key, _) in meta::sorted_members(&template["metadata"]["annotations"]) {
        let problems = meta::qualified_problems(&key.to_lowercase());
        add_problems(problems, &json!(key), &format!("{field}.annotations"), out);
    }
    validate_pod_spec(&template["spec"], None, &format!("{field}.spec"), out);
    if !is_empty(&template["spec"]["ephemeralContainers"]) {
        out.push(StatusCause::forbidden(
            format!("{field}.spec.ephemeralContainers"),
            "ephemeral containers not allowed in pod template",
        ));
    }
}

/// A pod spec at `field`, of `pod` if it is not one of a template.
fn validate_pod_spec(spec: &Value, pod: Option<&Value>, field: &str, out: &mut CauseList) {
    let at = |key: &str| format!("{field}.{key}");
    let volumes = volumes::validate_volumes(&spec["volumes"], pod, &at("volumes"), out);
    let claims = claims::validate_resource_claims(&spec["resourceClaims"], &at("resourceClaims"), out);
    containers::validate_containers(spec, &volumes, &claims, field, out);
    resources::validate_pod_resources(spec, &claims, field, out);
    hosts::check_host_ports_match(spec, pod.is_some(), field, out);
    check_one_of(&spec["restartPolicy"], at("restartPolicy"), &["Always", "OnFailure", "Never"], out);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    check_one_of(&spec["dnsPolicy"], at("dnsPolicy"), &policies, out);
    meta::validate_labels(&spec["nodeSelector"], &at("nodeSelector"), out);
    confinement::validate_pod_security_context(spec, &at("securityContext"), out);
    if spec["shareProcessNamespace"] == true && spec["hostPID"] == true {
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        out.push(StatusCause::invalid(at("shareProcessNamespace"), &json!(true), why));
    }
    placement::validate_affinity(&spec["affinity"], &at("affinity"), out);
    hosts::validate_dns_policy(spec, &at("dnsConfig"), out);
    for (i, gate) in indexed_items(&spec["readinessGates"]) {
        let kind = text_member(gate, "conditionType");
        let at = at(&format!("readinessGates[{i}].conditionType"));
        add_problems(meta::qualified_problems(kind), &json!(kind), &at, out);
    }
    placement::validate_scheduling_gates(&spec["schedulingGates"], &at("schedulingGates"), out);
    placement::validate_spread_constraints(
        &spec["topologySpreadConstraints"],
        &at("topologySpreadConstraints"),
        out,
    );
    systems::validate_host_processes(spec, field, out);
    hosts::validate_host_users(spec, field, out);
    hosts::validate_host_name(spec, &at("hostnameOverride"), out);
    for key in ["serviceAccountName", "nodeName"] {
        if !is_empty(&spec[key]) {
            add_problems(meta::subdomain_problems(text_member(spec, key)), &spec[key], &at(key), out);
        }
    }
    if let Some(seconds) = spec["activeDeadlineSeconds"].as_i64()
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        out.push(StatusCause::invalid(
            at("activeDeadlineSeconds"),
            &spec["activeDeadlineSeconds"],
            "must be between 1 and 2147483647, inclusive",
        ));
    }
    for key in ["hostname", "subdomain"] {
        if let Some(text) = spec[key].as_str().filter(|t| !t.is_empty()) {
            add_problems(meta::label_problems(text), &spec[key], &at(key), out);
        }
    }
    validate_tolerations(&spec["tolerations"], &at("tolerations"), out);
    for (i, alias) in indexed_items(&spec["hostAliases"]) {
        let at = at(&format!("hostAliases[{i}]"));
        if text_member(alias, "ip").parse::<std::net::IpAddr>().is_err() {
            out.push(StatusCause::invalid(format!("{at}.ip"), &json!(text_member(alias, "ip")), BAD_IP));
        }
        for (j, name) in indexed_items(&alias["hostnames"]) {
            let problems = meta::subdomain_problems(name.as_str().unwrap_or(""));
            add_problems(problems, name, &format!("{at}.hostnames[{j}]"), out);
        }
    }
    if !is_empty(&spec["priorityClassName"]) {
        let problems = meta::subdomain_problems(text_member(spec, "priorityClassName"));
        add_problems(problems, &spec["priorityClassName"], &at("priorityClassName"), out);
    }
    if let Some(class) = spec["runtimeClassName"].as_str() {
        add_problems(meta::subdomain_problems(class), &json!(class), &at("runtimeClassName"), out);
    }
    if !spec["preemptionPolicy"].is_null() {
        let known = ["PreemptLowerPriority", "Never"];
        check_one_of(&spec["preemptionPolicy"], at("preemptionPolicy"), &known, out);
    }
    validate_resources(&json!({"limits": spec["overhead"]}), &claims, &at("overhead"), out);
    systems::validate_operating_system(spec, field, out);
    environment::validate_env_files(spec, field, out);
}
