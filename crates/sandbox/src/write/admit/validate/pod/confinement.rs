//! Validation of security contexts.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::containers::known;
use super::systems::windows_options;
use super::text;
use super::volumes::descending;
use crate::status::Cause;
use crate::write::admit::validate::{Causes, internal, list};

/// `runAsUser` and its like.
fn id(value: &Value, field: String, out: &mut Causes) {
    if value.as_i64().is_some_and(|id| !(0..=i64::from(i32::MAX)).contains(&id)) {
        out.push(Cause::invalid(field, value, "must be between 0 and 2147483647, inclusive"));
    }
}

const PROFILES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];

fn seccomp(profile: &Value, field: &str, out: &mut Causes) {
    if profile.is_null() {
        return;
    }
    match text(profile, "type") {
        "" => {
            out.push(Cause::required(format!("{field}.type"), "type is required when seccompProfile is set"));
        }
        _ => known(&profile["type"], format!("{field}.type"), &PROFILES, out),
    }
    let at = format!("{field}.localhostProfile");
    match (profile["type"] == "Localhost", profile["localhostProfile"].as_str()) {
        (true, None) => out.push(Cause::required(at, "must be set when seccomp type is Localhost")),
        (true, Some(path)) => descending(path, &at, out),
        (false, Some(_)) => {
            let shown = internal(profile, &[("Type", "type"), ("LocalhostProfile", "localhostProfile")]);
            out.push(Cause::invalid(at, &shown, "can only be set when seccomp type is Localhost"));
        }
        (false, None) => {}
    }
}

fn app_armor(profile: &Value, field: &str, out: &mut Causes) {
    if profile.is_null() {
        return;
    }
    const MISSING: &str = "must be set when AppArmor type is Localhost";
    let at = format!("{field}.localhostProfile");
    let own = profile["localhostProfile"].as_str();
    match (text(profile, "type"), own) {
        ("", _) => {
            out.push(Cause::required(
                format!("{field}.type"),
                "type is required when appArmorProfile is set",
            ));
        }
        ("Localhost", None) => out.push(Cause::required(at, MISSING)),
        ("Localhost", Some(name)) => {
            if name.trim() != name {
                out.push(Cause::invalid(&at, &json!(name), "must not be padded with whitespace"));
            } else if name.is_empty() {
                out.push(Cause::required(&at, MISSING));
            }
            if name.len() > 4095 {
                out.push(Cause::too_long(at, 4095));
            }
        }
        ("RuntimeDefault" | "Unconfined", Some(name)) => {
            out.push(Cause::invalid(at, &json!(name), "can only be set when AppArmor type is Localhost"));
        }
        _ => known(&profile["type"], format!("{field}.type"), &PROFILES, out),
    }
}

/// A container's security context, in a pod with or without users of its own.
pub(super) fn confinement(context: &Value, own_users: bool, field: &str, out: &mut Causes) {
    id(&context["runAsUser"], format!("{field}.runAsUser"), out);
    id(&context["runAsGroup"], format!("{field}.runAsGroup"), out);
    if !context["procMount"].is_null() {
        let at = format!("{field}.procMount");
        known(&context["procMount"], at.clone(), &["Default", "Unmasked"], out);
        if !own_users && context["procMount"] == "Unmasked" {
            let why = "`hostUsers` must be false to use `Unmasked`";
            out.push(Cause::invalid(at, &context["procMount"], why));
        }
    }
    seccomp(&context["seccompProfile"], &format!("{field}.seccompProfile"), out);
    if context["allowPrivilegeEscalation"] == false {
        contradictions(context, field, out);
    }
    windows_options(&context["windowsOptions"], &format!("{field}.windowsOptions"), out);
    app_armor(&context["appArmorProfile"], &format!("{field}.appArmorProfile"), out);
}

/// What cannot be together with no escalation of privileges.
fn contradictions(context: &Value, field: &str, out: &mut Causes) {
    let capabilities = match &context["capabilities"] {
        Value::Null => Value::Null,
        all => internal(all, &[("Add", "add"), ("Drop", "drop")]),
    };
    let rest = internal(
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
        out.push(Cause::invalid(field, &shown, why));
    }
    for _ in list(&context["capabilities"]["add"]).filter(|(_, added)| *added == "CAP_SYS_ADMIN") {
        let why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
        out.push(Cause::invalid(field, &shown, why));
    }
}

const SYSCTL: &str = "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

/// The security context of a pod with this spec.
pub(super) fn pod_confinement(spec: &Value, field: &str, out: &mut Causes) {
    let context = &spec["securityContext"];
    for key in ["fsGroup", "runAsUser", "runAsGroup"] {
        id(&context[key], format!("{field}.{key}"), out);
    }
    for (i, group) in list(&context["supplementalGroups"]) {
        id(group, format!("{field}.supplementalGroups[{i}]"), out);
    }
    sysctls(spec, &format!("{field}.sysctls"), out);
    let word = |key: &str, words: &[&str], out: &mut Causes| {
        if !context[key].is_null() {
            known(&context[key], format!("{field}.{key}"), words, out);
        }
    };
    word("fsGroupChangePolicy", &["Always", "OnRootMismatch"], out);
    seccomp(&context["seccompProfile"], &format!("{field}.seccompProfile"), out);
    windows_options(&context["windowsOptions"], &format!("{field}.windowsOptions"), out);
    app_armor(&context["appArmorProfile"], &format!("{field}.appArmorProfile"), out);
    word("supplementalGroupsPolicy", &["Merge", "Strict"], out);
    word("seLinuxChangePolicy", &["MountOption", "Recursive"], out);
}

/// What belongs to the namespace of the network or of communication between processes.
fn of_host(name: &str, spec: &Value) -> Option<&'static str> {
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

fn sysctls(spec: &Value, field: &str, out: &mut Causes) {
    let mut seen = BTreeSet::new();
    for (i, sysctl) in list(&spec["securityContext"]["sysctls"]) {
        let at = format!("{field}[{i}].name");
        let name = text(sysctl, "name");
        let part = |part: &str| {
            let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
            edge(part.chars().next())
                && edge(part.chars().last())
                && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_".contains(&b))
        };
        if name.is_empty() {
            out.push(Cause::required(&at, ""));
        } else if name.len() > 253 || !name.split(['.', '/']).all(part) {
            out.push(Cause::invalid(&at, &sysctl["name"], SYSCTL));
        } else if seen.contains(name) {
            out.push(Cause::duplicate(&at, &sysctl["name"]));
        }
        if let Some(why) = of_host(name, spec) {
            out.push(Cause::invalid(&at, &json!(name), why));
        }
        seen.insert(name);
    }
}
