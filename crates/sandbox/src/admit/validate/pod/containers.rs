//! Validation of containers: names, images, ports and mounts.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::confinement::confinement;
use super::environment::{env, sources};
use super::probes::{Grace, lifecycle, probe};
use super::resources::{pages_alone, resources};
use super::volumes::climbs;
use crate::admit::meta;
use crate::admit::validate::{Causes, is_empty, list, one_of, port_number, texts};
use crate::status::Cause;

pub(super) fn containers(spec: &Value, volumes: &BTreeSet<String>, field: &str, out: &mut Causes) {
    if is_empty(&spec["containers"]) {
        out.push(Cause::required(format!("{field}.containers"), ""));
    }
    let grace = Grace::of(spec);
    let mut regular = BTreeSet::new();
    for (i, container) in list(&spec["containers"]) {
        let at = format!("{field}.containers[{i}]");
        common(container, volumes, &at, out);
        let name = container["name"].as_str().unwrap_or("");
        if !regular.insert(name.to_owned()) {
            out.push(Cause::duplicate(format!("{at}.name"), &container["name"]));
        }
        restart_policy(&container["restartPolicy"], &at, out);
        lifecycle(&container["lifecycle"], grace, &format!("{at}.lifecycle"), out);
        for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
            probe(&container[kind], kind, grace, &format!("{at}.{kind}"), out);
        }
    }
    let mut all = regular;
    for (i, container) in list(&spec["initContainers"]) {
        let at = format!("{field}.initContainers[{i}]");
        common(container, volumes, &at, out);
        let name = container["name"].as_str().unwrap_or("");
        if !all.insert(name.to_owned()) && !name.is_empty() {
            out.push(Cause::duplicate(format!("{at}.name"), &container["name"]));
        }
        restart_policy(&container["restartPolicy"], &at, out);
        let sidecar = container["restartPolicy"] == "Always";
        if sidecar {
            lifecycle(&container["lifecycle"], grace, &format!("{at}.lifecycle"), out);
            for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
                probe(&container[kind], kind, grace, &format!("{at}.{kind}"), out);
            }
        } else {
            for key in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if !container[key].is_null() {
                    out.push(Cause::forbidden(
                        format!("{at}.{key}"),
                        "may not be set for init containers without restartPolicy=Always",
                    ));
                }
            }
        }
    }
    for (i, container) in list(&spec["ephemeralContainers"]) {
        let at = format!("{field}.ephemeralContainers[{i}]");
        common(container, volumes, &at, out);
    }
}

/// A container may be started again by a rule of its own.
fn restart_policy(policy: &Value, at: &str, out: &mut Causes) {
    if !policy.is_null() {
        one_of(policy, format!("{at}.restartPolicy"), &["Always", "Never", "OnFailure"], out);
    }
}

fn common(container: &Value, volumes: &BTreeSet<String>, at: &str, out: &mut Causes) {
    match container["name"].as_str().unwrap_or("") {
        "" => out.push(Cause::required(format!("{at}.name"), "")),
        name => texts(meta::label_problems(name), &container["name"], &format!("{at}.name"), out),
    }
    match container["image"].as_str().unwrap_or("") {
        "" => out.push(Cause::required(format!("{at}.image"), "")),
        image if image.trim() != image => out.push(Cause::invalid(
            format!("{at}.image"),
            &container["image"],
            "must not have leading or trailing whitespace",
        )),
        _ => {}
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
    one_of(
        &container["imagePullPolicy"],
        format!("{at}.imagePullPolicy"),
        &["Always", "IfNotPresent", "Never"],
        out,
    );
    resources(&container["resources"], &format!("{at}.resources"), out);
    pages_alone(&container["resources"], &format!("{at}.resources"), out);
    confinement(&container["securityContext"], &format!("{at}.securityContext"), out);
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

fn mounts(container: &Value, volumes: &BTreeSet<String>, at: &str, out: &mut Causes) {
    let mut paths = BTreeSet::new();
    for (i, mount) in list(&container["volumeMounts"]) {
        let list_at = format!("{at}.volumeMounts");
        let at = format!("{at}.volumeMounts[{i}]");
        let name = mount["name"].as_str().unwrap_or("");
        if name.is_empty() {
            out.push(Cause::required(format!("{at}.name"), ""));
        }
        if !volumes.contains(name) {
            out.push(Cause::not_found(format!("{at}.name"), &json!(name)));
        }
        if mount["subPath"].as_str().is_some_and(climbs) {
            let field = format!("{list_at}.subPath");
            out.push(Cause::invalid(field, &mount["subPath"], "must not contain '..'"));
        }
        let path = mount["mountPath"].as_str().unwrap_or("");
        if path.is_empty() {
            out.push(Cause::required(format!("{at}.mountPath"), ""));
        }
        if !paths.insert(path.to_owned()) {
            out.push(Cause::invalid(format!("{at}.mountPath"), &json!(path), "must be unique"));
        }
        if let Some(way) = mount["mountPropagation"].as_str() {
            let known = ["Bidirectional", "HostToContainer", "None"];
            if !known.contains(&way) {
                let field = format!("{list_at}.mountPropagation");
                out.push(Cause::not_supported(field, &mount["mountPropagation"], &known));
            }
        }
    }
}
