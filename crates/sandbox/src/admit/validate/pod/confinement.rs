//! Validation of security contexts.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::admit::validate::{Causes, internal, is_empty, list};
use crate::status::Cause;

/// `runAsUser` and its like.
fn id(value: &Value, field: String, out: &mut Causes) {
    if value.as_i64().is_some_and(|id| !(0..=i64::from(i32::MAX)).contains(&id)) {
        out.push(Cause::invalid(field, value, "must be between 0 and 2147483647, inclusive"));
    }
}

fn seccomp(profile: &Value, field: &str, out: &mut Causes) {
    if profile["type"] == "Localhost" && is_empty(&profile["localhostProfile"]) {
        let why = "must be set when seccomp type is Localhost";
        out.push(Cause::required(format!("{field}.localhostProfile"), why));
    }
}

/// A container's security context.
pub(super) fn confinement(context: &Value, field: &str, out: &mut Causes) {
    id(&context["runAsUser"], format!("{field}.runAsUser"), out);
    id(&context["runAsGroup"], format!("{field}.runAsGroup"), out);
    if let Some(mount) = context["procMount"].as_str().filter(|m| !matches!(*m, "Default" | "Unmasked")) {
        out.push(Cause::not_supported(format!("{field}.procMount"), &json!(mount), &["Default", "Unmasked"]));
    }
    seccomp(&context["seccompProfile"], &format!("{field}.seccompProfile"), out);
    if context["allowPrivilegeEscalation"] != false {
        return;
    }
    let capabilities = &context["capabilities"];
    let capabilities = match capabilities {
        Value::Null => Value::Null,
        _ => internal(capabilities, &[("Add", "add"), ("Drop", "drop")]),
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
    let adds = context["capabilities"]["add"].as_array();
    if adds.is_some_and(|all| all.iter().any(|c| c == "CAP_SYS_ADMIN")) {
        let why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
        out.push(Cause::invalid(field, &shown, why));
    }
}

const SYSCTL: &str = "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

/// A pod's security context.
pub(super) fn pod_confinement(context: &Value, field: &str, out: &mut Causes) {
    for key in ["fsGroup", "runAsUser", "runAsGroup"] {
        id(&context[key], format!("{field}.{key}"), out);
    }
    for (i, group) in list(&context["supplementalGroups"]) {
        id(group, format!("{field}.supplementalGroups[{i}]"), out);
    }
    let mut seen = BTreeSet::new();
    for (i, sysctl) in list(&context["sysctls"]) {
        let at = format!("{field}.sysctls[{i}].name");
        let name = sysctl["name"].as_str().unwrap_or("");
        let part = |part: &str| {
            let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
            edge(part.chars().next())
                && edge(part.chars().last())
                && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_".contains(&b))
        };
        if name.is_empty() {
            out.push(Cause::required(at, ""));
        } else if name.len() > 253 || !name.split(['.', '/']).all(part) {
            out.push(Cause::invalid(at, &sysctl["name"], SYSCTL));
        } else if !seen.insert(name.to_owned()) {
            out.push(Cause::duplicate(at, &sysctl["name"]));
        }
    }
}
