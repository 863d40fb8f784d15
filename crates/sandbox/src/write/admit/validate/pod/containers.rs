//! Validation of containers: names, images, ports and what makes them start again.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::claims::Claims;
use super::confinement::confinement;
use super::environment::{env, sources};
use super::mounts::{devices, mounts};
use super::probes::{Grace, lifecycle, probe};
use super::resources::resources;
use super::volumes::Volumes;
use super::{hosts, text};
use crate::status::Cause;
use crate::write::admit::meta;
use crate::write::admit::validate::{Causes, is_empty, list, one_of, port_number, texts};

const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];

pub(super) fn containers(
    spec: &Value,
    volumes: &Volumes<'_>,
    claims: &Claims,
    field: &str,
    out: &mut Causes,
) {
    if is_empty(&spec["containers"]) {
        out.push(Cause::required(format!("{field}.containers"), ""));
    }
    let grace = Grace::of(spec);
    let common = |container: &Value, at: &str, out: &mut Causes| {
        common(container, spec, volumes, claims, at, out);
    };
    let moments = |container: &Value, at: &str, out: &mut Causes| {
        lifecycle(&container["lifecycle"], grace, &format!("{at}.lifecycle"), out);
        for kind in PROBES {
            probe(&container[kind], kind, grace, &format!("{at}.{kind}"), out);
        }
    };
    let mut all = BTreeSet::new();
    for (i, container) in list(&spec["containers"]) {
        let at = format!("{field}.containers[{i}]");
        common(container, &at, out);
        if !all.insert(text(container, "name")) {
            out.push(Cause::duplicate(format!("{at}.name"), &json!(text(container, "name"))));
        }
        moments(container, &at, out);
        restarts(container, &at, out);
    }
    hosts::taken_once(list(&spec["containers"]), &format!("{field}.containers"), out);
    for (i, container) in list(&spec["initContainers"]) {
        let at = format!("{field}.initContainers[{i}]");
        common(container, &at, out);
        restarts(container, &at, out);
        let name = text(container, "name");
        if all.contains(name) {
            out.push(Cause::duplicate(format!("{at}.name"), &container["name"]));
        } else if !name.is_empty() {
            all.insert(name);
        }
        // Each is the only one to run in its turn.
        hosts::taken_once([(0, container)].into_iter(), &format!("{field}.initContainers"), out);
        if container["restartPolicy"] == "Always" {
            moments(container, &at, out);
            continue;
        }
        for key in ["lifecycle"].iter().chain(&PROBES).filter(|key| !container[**key].is_null()) {
            let why = "may not be set for init containers without restartPolicy=Always";
            out.push(Cause::forbidden(format!("{at}.{key}"), why));
        }
        for (j, _) in
            list(&container["resizePolicy"]).filter(|(_, p)| p["restartPolicy"] == "RestartContainer")
        {
            out.push(Cause::invalid(
                format!("{at}.resizePolicy[{j}].restartPolicy"),
                &json!("RestartContainer"),
                "must not be set to 'RestartContainer' for non-sidecar initContainers",
            ));
        }
    }
    let others = all.clone();
    for (i, container) in list(&spec["ephemeralContainers"]) {
        let at = format!("{field}.ephemeralContainers[{i}]");
        common(container, &at, out);
        padding(container, &at, out);
        if !all.insert(text(container, "name")) {
            out.push(Cause::duplicate(format!("{at}.name"), &json!(text(container, "name"))));
        }
        let target = text(container, "targetContainerName");
        if !target.is_empty() && !others.contains(target) {
            out.push(Cause::not_found(format!("{at}.targetContainerName"), &json!(target)));
        }
        only_for_debugging(container, &at, out);
    }
}

/// What a container that is added to a running pod cannot have.
fn only_for_debugging(container: &Value, at: &str, out: &mut Causes) {
    const WHY: &str = "cannot be set for an Ephemeral Container";
    let never = ["ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules"];
    for key in never.iter().chain(&PROBES).chain(&["lifecycle"]).filter(|key| !is_empty(&container[**key])) {
        out.push(Cause::forbidden(format!("{at}.{key}"), WHY));
    }
    for (i, mount) in list(&container["volumeMounts"]) {
        for key in ["subPath", "subPathExpr"].iter().filter(|key| !is_empty(&mount[**key])) {
            out.push(Cause::forbidden(format!("{at}.volumeMounts[{i}].{key}"), WHY));
        }
    }
}

/// Images of pods are not padded; those of templates may be.
pub(super) fn padding(container: &Value, at: &str, out: &mut Causes) {
    let image = text(container, "image");
    if image.trim() != image {
        let why = "must not have leading or trailing whitespace";
        out.push(Cause::invalid(format!("{at}.image"), &container["image"], why));
    }
}

/// A container may be started again by a policy and rules of its own.
fn restarts(container: &Value, at: &str, out: &mut Causes) {
    let (policy, rules) = (&container["restartPolicy"], &container["restartPolicyRules"]);
    let count = rules.as_array().map_or(0, Vec::len);
    if policy.is_null() {
        if count == 0 {
            return;
        }
        let why = "must specify restartPolicy when restart rules are used";
        out.push(Cause::required(format!("{at}.restartPolicy"), why));
        if at.contains(".initContainers[") {
            return;
        }
    } else {
        known(policy, format!("{at}.restartPolicy"), &["Always", "Never", "OnFailure"], out);
    }
    let at = format!("{at}.restartPolicyRules");
    if count > 20 {
        out.push(Cause::too_many(&at, count, 20));
    }
    for (i, rule) in list(rules) {
        let at = format!("{at}[{i}]");
        known(&rule["action"], format!("{at}.action"), &["Restart", "RestartAllContainers"], out);
        let codes = &rule["exitCodes"];
        if codes.is_null() {
            out.push(Cause::required(format!("{at}.exitCodes"), "must be specified"));
            continue;
        }
        known(&codes["operator"], format!("{at}.exitCodes.operator"), &["In", "NotIn"], out);
        let values = codes["values"].as_array().map_or(0, Vec::len);
        if values > 255 {
            out.push(Cause::too_many(format!("{at}.exitCodes.values"), values, 255));
        }
    }
}

/// One of a set of words, of which the empty one is none.
pub(in crate::write::admit::validate) fn known(
    value: &Value,
    field: String,
    words: &[&str],
    out: &mut Causes,
) {
    let word = value.as_str().unwrap_or("");
    if !words.contains(&word) {
        out.push(Cause::not_supported(field, &json!(word), words));
    }
}

fn common(
    container: &Value,
    spec: &Value,
    volumes: &Volumes<'_>,
    claims: &Claims,
    at: &str,
    out: &mut Causes,
) {
    match text(container, "name") {
        "" => out.push(Cause::required(format!("{at}.name"), "")),
        name => texts(meta::label_problems(name), &container["name"], &format!("{at}.name"), out),
    }
    if is_empty(&container["image"]) {
        out.push(Cause::required(format!("{at}.image"), ""));
    }
    one_of(
        &container["terminationMessagePolicy"],
        format!("{at}.terminationMessagePolicy"),
        &["File", "FallbackToLogsOnError"],
        out,
    );
    ports(&container["ports"], &format!("{at}.ports"), out);
    env(&container["env"], &format!("{at}.env"), out);
    sources(&container["envFrom"], &format!("{at}.envFrom"), out);
    mounts(container, volumes, at, out);
    devices(container, volumes, at, out);
    let policies = ["Always", "IfNotPresent", "Never"];
    one_of(&container["imagePullPolicy"], format!("{at}.imagePullPolicy"), &policies, out);
    resources(&container["resources"], claims, &format!("{at}.resources"), out);
    resizing(&container["resizePolicy"], &spec["restartPolicy"], &format!("{at}.resizePolicy"), out);
    let own_users = spec["hostUsers"] == false;
    confinement(&container["securityContext"], own_users, &format!("{at}.securityContext"), out);
}

/// What happens to a container whose resources change.
fn resizing(policies: &Value, restart: &Value, field: &str, out: &mut Causes) {
    const RESOURCES: &[&str] = &["cpu", "memory"];
    let mut seen = BTreeSet::new();
    for (i, policy) in list(policies) {
        let resource = text(policy, "resourceName");
        if !seen.insert(resource) {
            out.push(Cause::duplicate(format!("{field}[{i}]"), &json!(resource)));
        }
        one_of(&policy["resourceName"], field.to_owned(), RESOURCES, out);
        one_of(&policy["restartPolicy"], field.to_owned(), &["NotRequired", "RestartContainer"], out);
        if *restart == "Never" && policy["restartPolicy"] != "NotRequired" {
            let why = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            out.push(Cause::invalid(field, &json!(text(policy, "restartPolicy")), why));
        }
    }
}

/// What is wrong with the name of a port.
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

fn ports(ports: &Value, field: &str, out: &mut Causes) {
    let mut names = BTreeSet::new();
    for (i, port) in list(ports) {
        let at = format!("{field}[{i}]");
        if let Some(name) = port["name"].as_str().filter(|n| !n.is_empty()) {
            let problems = port_name_problems(name);
            if problems.is_empty() {
                if !names.insert(name.to_owned()) {
                    out.push(Cause::duplicate(format!("{at}.name"), &port["name"]));
                }
            } else {
                texts(problems, &port["name"], &format!("{at}.name"), out);
            }
        }
        if port["containerPort"].as_i64().unwrap_or(0) == 0 {
            out.push(Cause::required(format!("{at}.containerPort"), ""));
        } else {
            port_number(&port["containerPort"], format!("{at}.containerPort"), out);
        }
        if port["hostPort"].as_i64().unwrap_or(0) != 0 {
            port_number(&port["hostPort"], format!("{at}.hostPort"), out);
        }
        one_of(&port["protocol"], format!("{at}.protocol"), &["SCTP", "TCP", "UDP"], out);
    }
}
