//! Pod Security admission: what the labels `pod-security.kubernetes.io/*` of a namespace let pods do.
//!
//! Pods that violate the `enforce` level are refused; pods and the templates of workloads that violate the
//! `warn` level are warned of. `audit` would go to an audit log, which the sandbox has not. Every version of the
//! policies is taken for the latest.

mod checks;

use serde_json::Value;

use crate::core::Core;
use crate::status::{Cause, Named, Result, Status};
use crate::store::Key;

const PREFIX: &str = "pod-security.kubernetes.io/";

/// How much a policy forbids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Privileged,
    Baseline,
    Restricted,
}

/// A level and the version it was asked for in; prints as `restricted:latest`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Policy {
    level: Level,
    text: String,
}

/// Why a policy forbids a pod: `allowPrivilegeEscalation != false`, and who has to do what.
struct Violation {
    reason: String,
    detail: String,
}

fn level(text: &str) -> Option<Level> {
    match text {
        "privileged" => Some(Level::Privileged),
        "baseline" => Some(Level::Baseline),
        "restricted" => Some(Level::Restricted),
        _ => None,
    }
}

fn is_version(text: &str) -> bool {
    text == "latest"
        || text.strip_prefix("v1.").is_some_and(|minor| {
            !minor.is_empty() && minor.bytes().all(|byte| byte.is_ascii_digit()) && !minor.starts_with('0')
                || minor == "0"
        })
}

/// The policy of a mode, `enforce` or `warn`. What cannot be read is as strict as can be.
fn policy(namespace: &Value, mode: &str) -> Policy {
    let label = |name: &str| namespace["metadata"]["labels"][format!("{PREFIX}{name}")].as_str();
    let level = label(mode).map_or(Some(Level::Privileged), level).unwrap_or(Level::Restricted);
    let name = match level {
        Level::Privileged => "privileged",
        Level::Baseline => "baseline",
        Level::Restricted => "restricted",
    };
    let version = label(&format!("{mode}-version")).filter(|version| is_version(version));
    Policy { level, text: format!("{name}:{}", version.unwrap_or("latest")) }
}

/// Says what is wrong with the labels of a namespace.
pub(crate) fn check_labels(namespace: &Value, out: &mut Vec<Cause>) {
    for mode in ["enforce", "audit", "warn"] {
        let version = format!("{mode}-version");
        for (name, is_right, expected) in [
            (
                mode,
                (|text: &str| level(text).is_some()) as fn(&str) -> bool,
                "must be one of privileged, baseline, restricted",
            ),
            (version.as_str(), is_version, "must be \"latest\" or \"v1.x\""),
        ] {
            let value = &namespace["metadata"]["labels"][format!("{PREFIX}{name}")];
            if value.as_str().is_some_and(|text| !is_right(text)) {
                out.push(Cause::invalid(format!("metadata.labels[{PREFIX}{name}]"), value, expected));
            }
        }
    }
}

/// The pod an object is or makes.
fn pod_of<'a>(kind: (&str, &str), object: &'a Value) -> Option<&'a Value> {
    let template = match kind {
        ("", "Pod") => return Some(object),
        ("", "PodTemplate") => &object["template"],
        ("", "ReplicationController")
        | ("apps", "ReplicaSet" | "Deployment" | "StatefulSet" | "DaemonSet")
        | ("batch", "Job") => &object["spec"]["template"],
        ("batch", "CronJob") => &object["spec"]["jobTemplate"]["spec"]["template"],
        _ => return None,
    };
    template.is_object().then_some(template)
}

/// Refuses a pod its namespace does not let in, and warns of what a stricter policy would not.
pub(crate) fn check(
    core: &Core,
    kind: (&str, &str),
    namespace: &str,
    object: &Value,
    warnings: &mut Vec<String>,
) -> Result<()> {
    let Some(pod) = pod_of(kind, object) else { return Ok(()) };
    let Some(found) = core.store.get("namespaces", &Key::new("", namespace)) else { return Ok(()) };
    let namespace = found.value();
    let enforced = policy(&namespace, "enforce");
    if kind == ("", "Pod")
        && let Some(why) = violations(&enforced, pod)
    {
        let why = format!("violates PodSecurity \"{}\": {why}", enforced.text);
        let named = Named { group: "", what: "pods" };
        return Err(Status::forbidden(named, super::meta::text(object, "name"), &why));
    }
    let warned = policy(&namespace, "warn");
    if let Some(why) = violations(&warned, pod) {
        warnings.push(format!("would violate PodSecurity \"{}\": {why}", warned.text));
    }
    Ok(())
}

/// Warns of pods that are there already when a namespace becomes stricter.
pub(crate) fn warn_of_pods(core: &Core, old: &Value, new: &Value, warnings: &mut Vec<String>) {
    let (before, now) = (policy(old, "enforce"), policy(new, "enforce"));
    if now.level <= before.level {
        return;
    }
    let name = super::meta::text(new, "name");
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for pod in core.store.list("pods", Some(name)) {
        let reasons: Vec<String> =
            checks::violations(now.level, &pod.value()).into_iter().map(|found| found.reason).collect();
        if reasons.is_empty() {
            continue;
        }
        let (reasons, name) = (reasons.join(", "), pod.name().to_owned());
        match groups.iter_mut().find(|(known, _)| *known == reasons) {
            Some((_, names)) => names.push(name),
            None => groups.push((reasons, vec![name])),
        }
    }
    if groups.is_empty() {
        return;
    }
    warnings.push(format!(
        "existing pods in namespace \"{name}\" violate the new PodSecurity enforce level \"{}\"",
        now.text
    ));
    let mut lines: Vec<String> = groups
        .into_iter()
        .map(|(reasons, names)| match names.len() {
            1 => format!("{}: {reasons}", names[0]),
            2 => format!("{} (and 1 other pod): {reasons}", names[0]),
            count => format!("{} (and {} other pods): {reasons}", names[0], count - 1),
        })
        .collect();
    lines.sort();
    warnings.extend(lines);
}

/// What a policy has against a pod, in one line.
fn violations(policy: &Policy, pod: &Value) -> Option<String> {
    let told: Vec<String> = checks::violations(policy.level, pod)
        .into_iter()
        .map(|found| {
            if found.detail.is_empty() {
                found.reason
            } else {
                format!("{} ({})", found.reason, found.detail)
            }
        })
        .collect();
    (!told.is_empty()).then(|| told.join(", "))
}
