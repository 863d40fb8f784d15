//! Validation of pods and pod templates.

mod confinement;
mod containers;
mod environment;
mod hosts;
mod placement;
mod probes;
mod resources;
mod volumes;

use serde_json::{Value, json};

use super::address::BAD_IP;
use super::{Causes, is_empty, list, one_of, texts};
use crate::admit::meta;
use crate::status::Cause;

pub(crate) use containers::port_name_problems;
pub(crate) use placement::tolerations;
pub(crate) use resources::resources;

pub(super) fn pod(object: &Value, update: bool, out: &mut Causes) {
    spec(&object["spec"], "spec", out);
    if !update && !is_empty(&object["spec"]["ephemeralContainers"]) {
        out.push(Cause::forbidden("spec.ephemeralContainers", "cannot be set on create"));
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
    spec(&template["spec"], &format!("{field}.spec"), out);
    if !is_empty(&template["spec"]["ephemeralContainers"]) {
        out.push(Cause::forbidden(
            format!("{field}.spec.ephemeralContainers"),
            "ephemeral containers not allowed in pod template",
        ));
    }
}

/// A pod spec at `field`.
pub(super) fn spec(spec: &Value, field: &str, out: &mut Causes) {
    let names = volumes::volumes(&spec["volumes"], &format!("{field}.volumes"), out);
    containers::containers(spec, &names, field, out);
    one_of(&spec["restartPolicy"], format!("{field}.restartPolicy"), &["Always", "OnFailure", "Never"], out);
    one_of(
        &spec["dnsPolicy"],
        format!("{field}.dnsPolicy"),
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
        out,
    );
    meta::validate_labels(&spec["nodeSelector"], &format!("{field}.nodeSelector"), out);
    confinement::pod_confinement(&spec["securityContext"], &format!("{field}.securityContext"), out);
    placement::affinity(&spec["affinity"], &format!("{field}.affinity"), out);
    placement::gates(&spec["schedulingGates"], &format!("{field}.schedulingGates"), out);
    placement::spread(&spec["topologySpreadConstraints"], &format!("{field}.topologySpreadConstraints"), out);
    if let Some(account) = spec["serviceAccountName"].as_str().filter(|a| !a.is_empty()) {
        texts(
            meta::subdomain_problems(account),
            &spec["serviceAccountName"],
            &format!("{field}.serviceAccountName"),
            out,
        );
    }
    if let Some(node) = spec["nodeName"].as_str().filter(|a| !a.is_empty()) {
        texts(meta::subdomain_problems(node), &spec["nodeName"], &format!("{field}.nodeName"), out);
    }
    if let Some(seconds) = spec["activeDeadlineSeconds"].as_i64()
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        out.push(Cause::invalid(
            format!("{field}.activeDeadlineSeconds"),
            &spec["activeDeadlineSeconds"],
            "must be between 1 and 2147483647, inclusive",
        ));
    }
    for key in ["hostname", "subdomain"] {
        if let Some(text) = spec[key].as_str().filter(|t| !t.is_empty()) {
            texts(meta::label_problems(text), &spec[key], &format!("{field}.{key}"), out);
        }
    }
    tolerations(&spec["tolerations"], &format!("{field}.tolerations"), out);
    hosts::host_ports(spec, field, out);
    hosts::name_service(&spec["dnsConfig"], &format!("{field}.dnsConfig"), out);
    for (i, gate) in list(&spec["readinessGates"]) {
        let problems = meta::qualified_problems(gate["conditionType"].as_str().unwrap_or(""));
        let at = format!("{field}.readinessGates[{i}].conditionType");
        texts(problems, &gate["conditionType"], &at, out);
    }
    for (i, alias) in list(&spec["hostAliases"]) {
        let at = format!("{field}.hostAliases[{i}]");
        if alias["ip"].as_str().is_none_or(|ip| ip.parse::<std::net::IpAddr>().is_err()) {
            let shown = json!(alias["ip"].as_str().unwrap_or(""));
            out.push(Cause::invalid(format!("{at}.ip"), &shown, BAD_IP));
        }
        for (j, name) in list(&alias["hostnames"]) {
            let problems = meta::subdomain_problems(name.as_str().unwrap_or(""));
            texts(problems, name, &format!("{at}.hostnames[{j}]"), out);
        }
    }
    if !spec["preemptionPolicy"].is_null() {
        let known = ["PreemptLowerPriority", "Never"];
        one_of(&spec["preemptionPolicy"], format!("{field}.preemptionPolicy"), &known, out);
    }
    if let Some(class) = spec["priorityClassName"].as_str().filter(|c| !c.is_empty()) {
        texts(
            meta::subdomain_problems(class),
            &spec["priorityClassName"],
            &format!("{field}.priorityClassName"),
            out,
        );
    }
    if spec["dnsPolicy"] == "None" && is_empty(&spec["dnsConfig"]["nameservers"]) {
        out.push(if spec["dnsConfig"].is_null() {
            Cause::required(format!("{field}.dnsConfig"), "must provide `dnsConfig` when `dnsPolicy` is None")
        } else {
            Cause::required(
                format!("{field}.dnsConfig.nameservers"),
                "must provide at least one DNS nameserver when `dnsPolicy` is None",
            )
        });
    }
    if let Some(system) = spec["os"]["name"].as_str().filter(|s| !matches!(*s, "linux" | "windows")) {
        out.push(Cause::not_supported(format!("{field}.os"), &json!(system), &["linux", "windows"]));
    }
}
