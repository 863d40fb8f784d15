//! Validation of containers: names, images, ports and what makes them start again.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::claims::ClaimNames;
use super::confinement::validate_security_context;
use super::environment::{validate_env, validate_env_sources};
use super::mounts::{validate_devices, validate_mounts};
use super::probes::{GracePeriod, validate_lifecycle, validate_probe};
use super::resources::validate_resources;
use super::volumes::VolumesByName;
use super::{hosts, text_member};
use crate::status::StatusCause;
use crate::write::admit::meta;
use crate::write::admit::validate::{
    CauseList, add_problems, check_one_of, check_port_number, indexed_items, is_empty,
};

const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];

pub(super) fn validate_containers(
    spec: &Value,
    volumes: &VolumesByName<'_>,
    claims: &ClaimNames,
    field: &str,
    out: &mut CauseList,
) {
    if is_empty(&spec["containers"]) {
        out.push(StatusCause::required(format!("{field}.containers"), ""));
    }
    let grace = GracePeriod::of(spec);
    let common = |container: &Value, at: &str, out: &mut CauseList| {
        validate_container(container, spec, volumes, claims, at, out);
    };
    let moments = |container: &Value, at: &str, out: &mut CauseList| {
        validate_lifecycle(&container["lifecycle"], grace, &format!("{at}.lifecycle"), out);
        for kind in PROBES {
            validate_probe(&container[kind], kind, grace, &format!("{at}.{kind}"), out);
        }
    };
    let mut all = BTreeSet::new();
    for (i, container) in indexed_items(&spec["containers"]) {
        let at = format!("{field}.containers[{i}]");
        common(container, &at, out);
        if !all.insert(text_member(container, "name")) {
            out.push(StatusCause::duplicate(format!("{at}.name"), &json!(text_member(container, "name"))));
        }
        moments(container, &at, out);
        validate_restart_rules(container, &at, out);
    }
    hosts::check_host_ports_once(indexed_items(&spec["containers"]), &format!("{field}.containers"), out);
    for (i, container) in indexed_items(&spec["initContainers"]) {
        let at = format!("{field}.initContainers[{i}]");
        common(container, &at, out);
        validate_restart_rules(container, &at, out);
        let name = text_member(container, "name");
        if all.contains(name) {
            out.push(StatusCause::duplicate(format!("{at}.name"), &container["name"]));
        } else if !name.is_empty() {
            all.insert(name);
        }
        // Init containers run one after another.
        hosts::check_host_ports_once([(0, container)].into_iter(), &format!("{field}.initContainers"), out);
        if container["restartPolicy"] == "Always" {
            moments(container, &at, out);
            continue;
        }
        for key in ["lifecycle"].iter().chain(&PROBES).filter(|key| !container[**key].is_null()) {
            let why = "may not be set for init containers without restartPolicy=Always";
            out.push(StatusCause::forbidden(format!("{at}.{key}"), why));
        }
        for (j, _) in indexed_items(&container["resizePolicy"])
            .filter(|(_, p)| p["restartPolicy"] == "RestartContainer")
        {
            out.push(StatusCause::invalid(
                format!("{at}.resizePolicy[{j}].restartPolicy"),
                &json!("RestartContainer"),
                "must not be set to 'RestartContainer' for non-sidecar initContainers",
            ));
        }
    }
    let others = all.clone();
    for (i, container) in indexed_items(&spec["ephemeralContainers"]) {
        let at = format!("{field}.ephemeralContainers[{i}]");
        common(container, &at, out);
        check_image_padding(container, &at, out);
        if !all.insert(text_member(container, "name")) {
            out.push(StatusCause::duplicate(format!("{at}.name"), &json!(text_member(container, "name"))));
        }
        let target = text_member(container, "targetContainerName");
        if !target.is_empty() && !others.contains(target) {
            out.push(StatusCause::not_found(format!("{at}.targetContainerName"), &json!(target)));
        }
        validate_ephemeral_container(container, &at, out);
    }
}

/// Reports fields that an ephemeral container cannot have.
fn validate_ephemeral_container(container: &Value, at: &str, out: &mut CauseList) {
    const WHY: &str = "cannot be set for an Ephemeral Container";
    let never = ["ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules"];
    for key in never.iter().chain(&PROBES).chain(&["lifecycle"]).filter(|key| !is_empty(&container[**key])) {
        out.push(StatusCause::forbidden(format!("{at}.{key}"), WHY));
    }
    for (i, mount) in indexed_items(&container["volumeMounts"]) {
        for key in ["subPath", "subPathExpr"].iter().filter(|key| !is_empty(&mount[**key])) {
            out.push(StatusCause::forbidden(format!("{at}.volumeMounts[{i}].{key}"), WHY));
        }
    }
}

/// Images of pods are not padded; those of templates may be.
pub(super) fn check_image_padding(container: &Value, at: &str, out: &mut CauseList) {
    let image = text_member(container, "image");
    if image.trim() != image {
        let why = "must not have leading or trailing whitespace";
        out.push(StatusCause::invalid(format!("{at}.image"), &container["image"], why));
    }
}

/// A container may be started again by a policy and rules of its own.
fn validate_restart_rules(container: &Value, at: &str, out: &mut CauseList) {
    let (policy, rules) = (&container["restartPolicy"], &container["restartPolicyRules"]);
    let count = rules.as_array().map_or(0, Vec::len);
    if policy.is_null() {
        if count == 0 {
            return;
        }
        let why = "must specify restartPolicy when restart rules are used";
        out.push(StatusCause::required(format!("{at}.restartPolicy"), why));
        if at.contains(".initContainers[") {
            return;
        }
    } else {
        check_known_or_empty(policy, format!("{at}.restartPolicy"), &["Always", "Never", "OnFailure"], out);
    }
    let at = format!("{at}.restartPolicyRules");
    if count > 20 {
        out.push(StatusCause::too_many(&at, count, 20));
    }
    for (i, rule) in indexed_items(rules) {
        let at = format!("{at}[{i}]");
        check_known_or_empty(
            &rule["action"],
            format!("{at}.action"),
            &["Restart", "RestartAllContainers"],
            out,
        );
        let codes = &rule["exitCodes"];
        if codes.is_null() {
            out.push(StatusCause::required(format!("{at}.exitCodes"), "must be specified"));
            continue;
        }
        check_known_or_empty(&codes["operator"], format!("{at}.exitCodes.operator"), &["In", "NotIn"], out);
        let values = codes["values"].as_array().map_or(0, Vec::len);
        if values > 255 {
            out.push(StatusCause::too_many(format!("{at}.exitCodes.values"), values, 255));
        }
    }
}

/// One of a set of words, of which the empty one is none.
pub(in crate::write::admit::validate) fn check_known_or_empty(
    value: &Value,
    field: String,
    words: &[&str],
    out: &mut CauseList,
) {
    let word = value.as_str().unwrap_or("");
    if !words.contains(&word) {
        out.push(StatusCause::not_supported(field, &json!(word), words));
    }
}

fn validate_container(
    container: &Value,
    spec: &Value,
    volumes: &VolumesByName<'_>,
    claims: &ClaimNames,
    at: &str,
    out: &mut CauseList,
) {
    match text_member(container, "name") {
        "" => out.push(StatusCause::required(format!("{at}.name"), "")),
        name => add_problems(meta::label_problems(name), &container["name"], &format!("{at}.name"), out),
    }
    if is_empty(&container["image"]) {
        out.push(StatusCause::required(format!("{at}.image"), ""));
    }
    check_one_of(
        &container["terminationMessagePolicy"],
        format!("{at}.terminationMessagePolicy"),
        &["File", "FallbackToLogsOnError"],
        out,
    );
    validate_ports(&container["ports"], &format!("{at}.ports"), out);
    validate_env(&container["env"], &format!("{at}.env"), out);
    validate_env_sources(&container["envFrom"], &format!("{at}.envFrom"), out);
    validate_mounts(container, volumes, at, out);
    validate_devices(container, volumes, at, out);
    let policies = ["Always", "IfNotPresent", "Never"];
    check_one_of(&container["imagePullPolicy"], format!("{at}.imagePullPolicy"), &policies, out);
    validate_resources(&container["resources"], claims, &format!("{at}.resources"), out);
    validate_resize_policy(
        &container["resizePolicy"],
        &spec["restartPolicy"],
        &format!("{at}.resizePolicy"),
        out,
    );
    let own_users = spec["hostUsers"] == false;
    validate_security_context(
        &container["securityContext"],
        own_users,
        &format!("{at}.securityContext"),
        out,
    );
}

/// Validates the resize policy of a container.
fn validate_resize_policy(policies: &Value, restart: &Value, field: &str, out: &mut CauseList) {
    const RESOURCES: &[&str] = &["cpu", "memory"];
    let mut seen = BTreeSet::new();
    for (i, policy) in indexed_items(policies) {
        let resource = text_member(policy, "resourceName");
        if !seen.insert(resource) {
            out.push(StatusCause::duplicate(format!("{field}[{i}]"), &json!(resource)));
        }
        check_one_of(&policy["resourceName"], field.to_owned(), RESOURCES, out);
        check_one_of(&policy["restartPolicy"], field.to_owned(), &["NotRequired", "RestartContainer"], out);
        if *restart == "Never" && policy["restartPolicy"] != "NotRequired" {
            let why = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            out.push(StatusCause::invalid(field, &json!(text_member(policy, "restartPolicy")), why));
        }
    }
}

/// Returns the problems of a port's name.
pub(crate) fn port_name_problems(name: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut push = |bad: bool, text: &str| {
        if bad {
            out.push(text.to_owned());
        }
    };
    push(name.len() > 15, "must be no more than 15 characters");
    push(
        name.is_empty() || !name.bytes().all(|b| b == b'-' || b.is_ascii_lowercase() || b.is_ascii_digit()),
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
    );
    push(!name.bytes().any(|b| b.is_ascii_lowercase()), "must contain at least one letter (a-z)");
    push(name.contains("--"), "must not contain consecutive hyphens");
    push(
        !name.is_empty() && (name.starts_with('-') || name.ends_with('-')),
        "must not begin or end with a hyphen",
    );
    out
}

fn validate_ports(ports: &Value, field: &str, out: &mut CauseList) {
    let mut names = BTreeSet::new();
    for (i, port) in indexed_items(ports) {
        let at = format!("{field}[{i}]");
        if let Some(name) = port["name"].as_str().filter(|n| !n.is_empty()) {
            let problems = port_name_problems(name);
            if problems.is_empty() {
                if !names.insert(name.to_owned()) {
                    out.push(StatusCause::duplicate(format!("{at}.name"), &port["name"]));
                }
            } else {
                add_problems(problems, &port["name"], &format!("{at}.name"), out);
            }
        }
        if port["containerPort"].as_i64().unwrap_or(0) == 0 {
            out.push(StatusCause::required(format!("{at}.containerPort"), ""));
        } else {
            check_port_number(&port["containerPort"], format!("{at}.containerPort"), out);
        }
        if port["hostPort"].as_i64().unwrap_or(0) != 0 {
            check_port_number(&port["hostPort"], format!("{at}.hostPort"), out);
        }
        check_one_of(&port["protocol"], format!("{at}.protocol"), &["SCTP", "TCP", "UDP"], out);
    }
}
