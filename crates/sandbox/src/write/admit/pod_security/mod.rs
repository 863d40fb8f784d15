//! Pod Security admission: what the labels `pod-security.kubernetes.io/*` of a namespace let pods do.
//!
//! Pods that violate the `enforce` level are refused; pods and the templates of workloads that violate the
//! `warn` level are warned of. `audit` would go to an audit log, which the sandbox has not. Every version of the
//! policies is taken for the latest.

mod checks;

use serde_json::Value;

use crate::core::Core;
use crate::status::{NamedResource, Result, Status, StatusCause};
use crate::store::ObjectKey;

const PREFIX: &str = "pod-security.kubernetes.io/";

/// The strictness of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PolicyLevel {
    Privileged,
    Baseline,
    Restricted,
}

/// A level and the version it was asked for in; prints as `restricted:latest`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NamespacePolicy {
    level: PolicyLevel,
    text: String,
}

/// The reason a policy forbids a pod (`allowPrivilegeEscalation != false`), and the containers that must change.
struct PolicyViolation {
    reason: String,
    detail: String,
}

fn parse_level(text: &str) -> Option<PolicyLevel> {
    match text {
        "privileged" => Some(PolicyLevel::Privileged),
        "baseline" => Some(PolicyLevel::Baseline),
        "restricted" => Some(PolicyLevel::Restricted),
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

/// Returns the policy of a mode, `enforce` or `warn`. A label that cannot be read counts as the strictest.
fn policy_of_mode(namespace: &Value, mode: &str) -> NamespacePolicy {
    let label = |name: &str| namespace["metadata"]["labels"][format!("{PREFIX}{name}")].as_str();
    let level =
        label(mode).map_or(Some(PolicyLevel::Privileged), parse_level).unwrap_or(PolicyLevel::Restricted);
    let name = match level {
        PolicyLevel::Privileged => "privileged",
        PolicyLevel::Baseline => "baseline",
        PolicyLevel::Restricted => "restricted",
    };
    let version = label(&format!("{mode}-version")).filter(|version| is_version(version));
    NamespacePolicy { level, text: format!("{name}:{}", version.unwrap_or("latest")) }
}

/// Checks the labels of a namespace.
pub(crate) fn check_labels(namespace: &Value, out: &mut Vec<StatusCause>) {
    for mode in ["enforce", "audit", "warn"] {
        let version = format!("{mode}-version");
        for (name, is_right, expected) in [
            (
                mode,
                (|text: &str| parse_level(text).is_some()) as fn(&str) -> bool,
                "must be one of privileged, baseline, restricted",
            ),
            (version.as_str(), is_version, "must be \"latest\" or \"v1.x\""),
        ] {
            let value = &namespace["metadata"]["labels"][format!("{PREFIX}{name}")];
            if value.as_str().is_some_and(|text| !is_right(text)) {
                out.push(StatusCause::invalid(format!("metadata.labels[{PREFIX}{name}]"), value, expected));
            }
        }
    }
}

/// Returns the pod an object is or creates.
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

/// Refuses a pod its namespace does not allow, and warns about those a stricter policy would not.
pub(crate) fn check_pod_security(
    core: &Core,
    kind: (&str, &str),
    namespace: &str,
    object: &Value,
    warnings: &mut Vec<String>,
) -> Result<()> {
    let Some(pod) = pod_of(kind, object) else { return Ok(()) };
    let Some(found) = core.store.get("namespaces", &ObjectKey::new("", namespace)) else { return Ok(()) };
    let namespace = found.value();
    let enforced = policy_of_mode(&namespace, "enforce");
    if kind == ("", "Pod")
        && let Some(why) = violation_text(&enforced, pod)
    {
        let why = format!("violates PodSecurity \"{}\": {why}", enforced.text);
        let named = NamedResource { group: "", what: "pods" };
        return Err(Status::forbidden(named, super::meta::metadata_text(object, "name"), &why));
    }
    let warned = policy_of_mode(&namespace, "warn");
    if let Some(why) = violation_text(&warned, pod) {
        warnings.push(format!("would violate PodSecurity \"{}\": {why}", warned.text));
    }
    Ok(())
}

/// Warns about existing pods when a namespace becomes stricter.
pub(crate) fn warn_of_pods(core: &Core, old: &Value, new: &Value, warnings: &mut Vec<String>) {
    let (before, now) = (policy_of_mode(old, "enforce"), policy_of_mode(new, "enforce"));
    if now.level <= before.level {
        return;
    }
    let name = super::meta::metadata_text(new, "name");
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for pod in core.store.list("pods", Some(name)) {
        let reasons: Vec<String> =
            checks::find_violations(now.level, &pod.value()).into_iter().map(|found| found.reason).collect();
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

/// Returns the violations of a policy by a pod, in one line.
fn violation_text(policy: &NamespacePolicy, pod: &Value) -> Option<String> {
    let told: Vec<String> = checks::find_violations(policy.level, pod)
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
