//! Validation of security contexts.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::containers::check_known_or_empty;
use super::systems::validate_windows_options;
use super::text_member;
use super::volume_files::check_descending_path;
use crate::status::StatusCause;
use crate::write::admit::validate::{CauseList, go_internal, indexed_items};

/// `runAsUser` and its like.
fn validate_id(value: &Value, field: String, out: &mut CauseList) {
    if value.as_i64().is_some_and(|id| !(0..=i64::from(i32::MAX)).contains(&id)) {
        out.push(StatusCause::invalid(field, value, "must be between 0 and 2147483647, inclusive"));
    }
}

const PROFILES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];

fn validate_seccomp(profile: &Value, field: &str, out: &mut CauseList) {
    if profile.is_null() {
        return;
    }
    match text_member(profile, "type") {
        "" => {
            out.push(StatusCause::required(
                format!("{field}.type"),
                "type is required when seccompProfile is set",
            ));
        }
        _ => check_known_or_empty(&profile["type"], format!("{field}.type"), &PROFILES, out),
    }
    let at = format!("{field}.localhostProfile");
    match (profile["type"] == "Localhost", profile["localhostProfile"].as_str()) {
        (true, None) => out.push(StatusCause::required(at, "must be set when seccomp type is Localhost")),
        (true, Some(path)) => check_descending_path(path, &at, out),
        (false, Some(_)) => {
            let shown = go_internal(profile, &[("Type", "type"), ("LocalhostProfile", "localhostProfile")]);
            out.push(StatusCause::invalid(at, &shown, "can only be set when seccomp type is Localhost"));
        }
        (false, None) => {}
    }
}

fn validate_app_armor(profile: &Value, field: &str, out: &mut CauseList) {
    if profile.is_null() {
        return;
    }
    const MISSING: &str = "must be set when AppArmor type is Localhost";
    let at = format!("{field}.localhostProfile");
    let own = profile["localhostProfile"].as_str();
    match (text_member(profile, "type"), own) {
        ("", _) => {
            out.push(StatusCause::required(
                format!("{field}.type"),
                "type is required when appArmorProfile is set",
            ));
        }
        ("Localhost", None) => out.push(StatusCause::required(at, MISSING)),
        ("Localhost", Some(name)) => {
            if name.trim() != name {
                out.push(StatusCause::invalid(&at, &json!(name), "must not be padded with whitespace"));
            } else if name.is_empty() {
                out.push(StatusCause::required(&at, MISSING));
            }
            if name.len() > 4095 {
                out.push(StatusCause::too_long(at, 4095));
            }
        }
        ("RuntimeDefault" | "Unconfined", Some(name)) => {
            out.push(StatusCause::invalid(
                at,
                &json!(name),
                "can only be set when AppArmor type is Localhost",
            ));
        }
        _ => check_known_or_empty(&profile["type"], format!("{field}.type"), &PROFILES, out),
    }
}

/// A container's security context, in a pod with or without users of its own.
pub(super) fn validate_security_context(context: &Value, own_users: bool, field: &str, out: &mut CauseList) {
    validate_id(&context["runAsUser"], format!("{field}.runAsUser"), out);
    validate_id(&context["runAsGroup"], format!("{field}.runAsGroup"), out);
    if !context["procMount"].is_null() {
        let at = format!("{field}.procMount");
        check_known_or_empty(&context["procMount"], at.clone(), &["Default", "Unmasked"], out);
        if !own_users && context["procMount"] == "Unmasked" {
            let why = "`hostUsers` must be false to use `Unmasked`";
            out.push(StatusCause::invalid(at, &context["procMount"], why));
        }
    }
    validate_seccomp(&context["seccompProfile"], &format!("{field}.seccompProfile"), out);
    if context["allowPrivilegeEscalation"] == false {
        check_contradictions(context, field, out);
    }
    validate_windows_options(&context["windowsOptions"], &format!("{field}.windowsOptions"), out);
    validate_app_armor(&context["appArmorProfile"], &format!("{field}.appArmorProfile"), out);
}

/// Reports settings that contradict `allowPrivilegeEscalation: false`.
fn check_contradictions(context: &Value, field: &str, out: &mut CauseList) {
    let capabilities = match &context["capabilities"] {
        Value::Null => Value::Null,
        all => go_internal(all, &[("Add", "add"), ("Drop", "drop")]),
    };
    let rest = go_internal(
        context,
        &[
            ("Privileged", "privileged"),
            ("SELinuxOptions", "seLinuxOptions"),
            ("WindowsOptions", "windowsOptions"),
            ("RunAsUser", "runAsUser"),
            ("RunAsGroup", "runAsGroup"),
            ("RunAsNonRoot", "runAsNonRoot"),
            ("ReadOnlyRootFilesystem", "readOnlyRootFilesystem"),
            ("AllowPrivilegeEscalation", "allowPrivilegeEscalation"),
            ("ProcMount", "procMount"),
            ("SeccompProfile", "seccompProfile"),
            ("AppArmorProfile", "appArmorProfile"),
        ],
    );
    let mut shown = json!({"Capabilities": capabilities});
    if let (Value::Object(all), Value::Object(rest)) = (&mut shown, rest) {
        all.extend(rest);
    }
    if context["privileged"] == true {
        let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        out.push(StatusCause::invalid(field, &shown, why));
    }
    for _ in indexed_items(&context["capabilities"]["add"]).filter(|(_, added)| *added == "CAP_SYS_ADMIN") {
        let why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
        out.push(StatusCause::invalid(field, &shown, why));
    }
}

const SYSCTL: &str = "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

/// The security context of a pod with this spec.
pub(super) fn validate_pod_security_context(spec: &Value, field: &str, out: &mut CauseList) {
    let context = &spec["securityContext"];
    for key in ["fsGroup", "runAsUser", "runAsGroup"] {
        validate_id(&context[key], format!("{field}.{key}"), out);
    }
    for (i, group) in indexed_items(&context["supplementalGroups"]) {
        validate_id(group, format!("{field}.supplementalGroups[{i}]"), out);
    }
    validate_sysctls(spec, &format!("{field}.sysctls"), out);
    let word = |key: &str, words: &[&str], out: &mut CauseList| {
        if !context[key].is_null() {
            check_known_or_empty(&context[key], format!("{field}.{key}"), words, out);
        }
    };
    word("fsGroupChangePolicy", &["Always", "OnRootMismatch"], out);
    validate_seccomp(&context["seccompProfile"], &format!("{field}.seccompProfile"), out);
    validate_windows_options(&context["windowsOptions"], &format!("{field}.windowsOptions"), out);
    validate_app_armor(&context["appArmorProfile"], &format!("{field}.appArmorProfile"), out);
    word("supplementalGroupsPolicy", &["Merge", "Strict"], out);
    word("seLinuxChangePolicy", &["MountOption", "Recursive"], out);
}

/// Returns the problem of a sysctl that belongs to the host's network or IPC namespace.
fn host_namespace_problem(name: &str, spec: &Value) -> Option<&'static str> {
    let dotted = name.replace('/', ".");
    let of_processes =
        ["kernel.shm", "kernel.msg", "fs.mqueue."].iter().any(|start| dotted.starts_with(start))
            || dotted == "kernel.sem";
    if spec["hostNetwork"] == true && dotted.starts_with("net.") {
        Some("may not be specified when 'hostNetwork' is true")
    } else if spec["hostIPC"] == true && of_processes {
        Some("may not be specified when 'hostIPC' is true")
    } else {
        None
    }
}

fn validate_sysctls(spec: &Value, field: &str, out: &mut CauseList) {
    let mut seen = BTreeSet::new();
    for (i, sysctl) in indexed_items(&spec["securityContext"]["sysctls"]) {
        let at = format!("{field}[{i}].name");
        let name = text_member(sysctl, "name");
        let part = |part: &str| {
            let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
            edge(part.chars().next())
                && edge(part.chars().last())
                && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_".contains(&b))
        };
        if name.is_empty() {
            out.push(StatusCause::required(&at, ""));
        } else if name.len() > 253 || !name.split(['.', '/']).all(part) {
            out.push(StatusCause::invalid(&at, &sysctl["name"], SYSCTL));
        } else if seen.contains(name) {
            out.push(StatusCause::duplicate(&at, &sysctl["name"]));
        }
        if let Some(why) = host_namespace_problem(name, spec) {
            out.push(StatusCause::invalid(&at, &json!(name), why));
        }
        seen.insert(name);
    }
}
