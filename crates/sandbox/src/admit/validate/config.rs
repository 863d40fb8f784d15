//! Validation of configuration, storage, access and other small kinds.

use serde_json::{Value, json};

use super::{Causes, is_empty, list, one_of, texts};
use crate::admit::meta;
use crate::status::Cause;

const LARGEST: usize = 1024 * 1024;
const KEY_TEXT: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

fn config_key(key: &str, field: &str, out: &mut Causes) {
    let field = format!("{field}[{key}]");
    if key.len() > 253 {
        out.push(Cause::invalid(&field, &json!(key), "must be no more than 253 bytes"));
    }
    if key.is_empty() || !key.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b)) {
        out.push(Cause::invalid(&field, &json!(key), KEY_TEXT));
    } else if key == "." || key == ".." || key.starts_with("..") {
        let why = match key {
            "." => "must not be '.'",
            ".." => "must not be '..'",
            _ => "must not start with '..'",
        };
        out.push(Cause::invalid(&field, &json!(key), why));
    }
}

pub(super) fn config_map(object: &Value, out: &mut Causes) {
    let mut size = 0;
    for (key, value) in meta::sorted(&object["data"]) {
        config_key(key, "data", out);
        if object["binaryData"].get(key).is_some() {
            out.push(Cause::invalid(
                format!("data[{key}]"),
                &json!(key),
                "duplicate of key present in binaryData",
            ));
        }
        size += value.as_str().map_or(0, str::len);
    }
    for (key, value) in meta::sorted(&object["binaryData"]) {
        config_key(key, "binaryData", out);
        size += decoded_length(value);
    }
    if size > LARGEST {
        out.push(Cause::too_long("[]", LARGEST));
    }
}

fn decoded_length(base64: &Value) -> usize {
    base64.as_str().map_or(0, |t| t.trim_end_matches('=').len() * 3 / 4)
}

pub(super) fn secret(object: &Value, out: &mut Causes) {
    let mut size = 0;
    for (key, value) in meta::sorted(&object["data"]) {
        config_key(key, "data", out);
        size += decoded_length(value);
    }
    if size > LARGEST {
        out.push(Cause::too_long("data", LARGEST));
    }
    let needs = |key: &str, out: &mut Causes| {
        let missing = object["data"].get(key).is_none();
        if missing {
            out.push(Cause::required(format!("data[{key}]"), ""));
        }
        !missing
    };
    match object["type"].as_str().unwrap_or("") {
        "kubernetes.io/service-account-token" => {
            let account = slipway_manifest::object::annotation(object, "kubernetes.io/service-account.name");
            if account.is_none_or(str::is_empty) {
                out.push(Cause::required("metadata.annotations[kubernetes.io/service-account.name]", ""));
            }
        }
        "kubernetes.io/tls" => {
            needs("tls.crt", out);
            needs("tls.key", out);
        }
        "kubernetes.io/dockerconfigjson" => docker(object, ".dockerconfigjson", out),
        "kubernetes.io/dockercfg" => docker(object, ".dockercfg", out),
        "kubernetes.io/basic-auth"
            if object["data"].get("username").is_none() && object["data"].get("password").is_none() =>
        {
            out.push(Cause::required("data[username]", ""));
            out.push(Cause::required("data[password]", ""));
        }
        "kubernetes.io/ssh-auth" => {
            needs("ssh-privatekey", out);
        }
        _ => {}
    }
}

fn docker(object: &Value, key: &str, out: &mut Causes) {
    use base64::Engine;
    let Some(data) = object["data"].get(key).and_then(Value::as_str) else {
        out.push(Cause::required(format!("data[{key}]"), ""));
        return;
    };
    let bytes = base64::engine::general_purpose::STANDARD.decode(data).unwrap_or_default();
    if let Err(e) = serde_json::from_slice::<Value>(&bytes) {
        let why = if e.is_eof() {
            "unexpected end of JSON input".to_owned()
        } else {
            crate::body::go_json_error(&bytes, &e)
        };
        out.push(Cause::invalid(format!("data[{key}]"), &json!("<secret contents redacted>"), &why));
    }
}

pub(super) fn claim(spec: &Value, field: &str, out: &mut Causes) {
    if is_empty(&spec["accessModes"]) {
        out.push(Cause::required(format!("{field}.accessModes"), "at least 1 access mode is required"));
    }
    access_modes(spec, field, out);
    match spec["resources"]["requests"].get("storage") {
        None => out.push(Cause::required(format!("{field}.resources[storage]"), "")),
        Some(amount) => {
            if crate::admit::quota::amount(amount).is_some_and(|a| a <= 0) {
                out.push(Cause::invalid(
                    format!("{field}.resources[storage]"),
                    amount,
                    "must be greater than zero",
                ));
            }
        }
    }
    if let Some(class) = spec["storageClassName"].as_str().filter(|c| !c.is_empty()) {
        texts(
            meta::subdomain_problems(class),
            &spec["storageClassName"],
            &format!("{field}.storageClassName"),
            out,
        );
    }
    if !spec["volumeMode"].is_null() {
        one_of(&spec["volumeMode"], format!("{field}.volumeMode"), &["Block", "Filesystem"], out);
    }
}

fn access_modes(spec: &Value, field: &str, out: &mut Causes) {
    const MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    for (_, mode) in list(&spec["accessModes"]) {
        if !mode.as_str().is_some_and(|m| MODES.contains(&m)) {
            out.push(Cause::not_supported(format!("{field}.accessModes"), mode, MODES));
        }
    }
}

pub(super) fn volume(spec: &Value, out: &mut Causes) {
    if is_empty(&spec["accessModes"]) {
        out.push(Cause::required("spec.accessModes", ""));
    }
    access_modes(spec, "spec", out);
    if is_empty(&spec["capacity"]) {
        out.push(Cause::required("spec.capacity", ""));
    } else if spec["capacity"].get("storage").is_none() {
        out.push(Cause::not_supported("spec.capacity", &spec["capacity"], &["storage"]));
    }
    one_of(
        &spec["persistentVolumeReclaimPolicy"],
        "spec.persistentVolumeReclaimPolicy".into(),
        &["Delete", "Recycle", "Retain"],
        out,
    );
}

pub(super) fn role(object: &Value, namespaced: bool, out: &mut Causes) {
    for (i, rule) in list(&object["rules"]) {
        let at = format!("rules[{i}]");
        if !is_empty(&rule["nonResourceURLs"]) {
            if namespaced {
                out.push(Cause::invalid(
                    format!("{at}.nonResourceURLs"),
                    &rule["nonResourceURLs"],
                    "namespaced rules cannot apply to non-resource URLs",
                ));
            }
            if !is_empty(&rule["apiGroups"])
                || !is_empty(&rule["resources"])
                || !is_empty(&rule["resourceNames"])
            {
                out.push(Cause::invalid(
                    format!("{at}.nonResourceURLs"),
                    &rule["nonResourceURLs"],
                    "rules cannot apply to both regular resources and non-resource URLs",
                ));
            }
        } else {
            resource_rule(rule, &at, out);
        }
        if is_empty(&rule["verbs"]) {
            out.push(Cause::required(format!("{at}.verbs"), ""));
        }
    }
}

fn resource_rule(rule: &Value, at: &str, out: &mut Causes) {
    if is_empty(&rule["apiGroups"]) {
        out.push(Cause::required(
            format!("{at}.apiGroups"),
            "resource rules must supply at least one api group",
        ));
    }
    if is_empty(&rule["resources"]) {
        out.push(Cause::required(
            format!("{at}.resources"),
            "resource rules must supply at least one resource",
        ));
    }
}

pub(super) fn binding(object: &Value, namespaced: bool, out: &mut Causes) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let role = &object["roleRef"];
    let text = |v: &Value| json!(v.as_str().unwrap_or(""));
    if role["apiGroup"] != GROUP {
        out.push(Cause::not_supported("roleRef.apiGroup", &text(&role["apiGroup"]), &[GROUP]));
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !role["kind"].as_str().is_some_and(|k| kinds.contains(&k)) {
        out.push(Cause::not_supported("roleRef.kind", &text(&role["kind"]), kinds));
    }
    if is_empty(&role["name"]) {
        out.push(Cause::required("roleRef.name", ""));
    }
    for (i, subject) in list(&object["subjects"]) {
        let at = format!("subjects[{i}]");
        if is_empty(&subject["name"]) {
            out.push(Cause::required(format!("{at}.name"), ""));
        }
        match subject["kind"].as_str().unwrap_or("") {
            "ServiceAccount" => {
                if let Some(name) = subject["name"].as_str().filter(|n| !n.is_empty()) {
                    texts(meta::subdomain_problems(name), &subject["name"], &format!("{at}.name"), out);
                }
                if !is_empty(&subject["apiGroup"]) {
                    out.push(Cause::not_supported(format!("{at}.apiGroup"), &subject["apiGroup"], &[""]));
                }
                if !namespaced && is_empty(&subject["namespace"]) {
                    out.push(Cause::required(format!("{at}.namespace"), ""));
                }
            }
            "User" | "Group" => {
                if subject["apiGroup"] != GROUP {
                    out.push(Cause::not_supported(
                        format!("{at}.apiGroup"),
                        &text(&subject["apiGroup"]),
                        &[GROUP],
                    ));
                }
            }
            _ => out.push(Cause::not_supported(
                format!("{at}.kind"),
                &text(&subject["kind"]),
                &["ServiceAccount", "User", "Group"],
            )),
        }
    }
}

pub(super) fn storage_class(object: &Value, out: &mut Causes) {
    match object["provisioner"].as_str().unwrap_or("") {
        "" => out.push(Cause::required("provisioner", "")),
        name => {
            texts(meta::qualified_problems(&name.to_lowercase()), &object["provisioner"], "provisioner", out);
        }
    }
    if !object["reclaimPolicy"].is_null() {
        one_of(&object["reclaimPolicy"], "reclaimPolicy".into(), &["Delete", "Retain"], out);
    }
    match object["volumeBindingMode"].as_str() {
        None => out.push(Cause::required("volumeBindingMode", "")),
        Some("Immediate" | "WaitForFirstConsumer") => {}
        Some(_) => out.push(Cause::not_supported(
            "volumeBindingMode",
            &object["volumeBindingMode"],
            &["Immediate", "WaitForFirstConsumer"],
        )),
    }
}

pub(super) fn priority_class(object: &Value, out: &mut Causes) {
    let name = meta::text(object, "name");
    let value = object["value"].as_i64().unwrap_or(0);
    if name.starts_with("system-") {
        let known = matches!(
            (name, value),
            ("system-node-critical", 2_000_001_000) | ("system-cluster-critical", 2_000_000_000)
        );
        if !known {
            out.push(Cause::forbidden(
                "metadata.name",
                &format!(
                    "priority class names with 'system-' prefix are reserved for system use only. error: {name} is not a known system priority class"
                ),
            ));
        }
    } else if value > 1_000_000_000 {
        out.push(Cause::forbidden("value", "maximum allowed value of a user defined priority is 1000000000"));
    }
    if !object["preemptionPolicy"].is_null() {
        one_of(
            &object["preemptionPolicy"],
            "preemptionPolicy".into(),
            &["Never", "PreemptLowerPriority"],
            out,
        );
    }
}

pub(super) fn lease(spec: &Value, out: &mut Causes) {
    if spec["leaseDurationSeconds"].as_i64().is_some_and(|s| s <= 0) {
        out.push(Cause::invalid(
            "spec.leaseDurationSeconds",
            &spec["leaseDurationSeconds"],
            "must be greater than 0",
        ));
    }
    super::non_negative(&spec["leaseTransitions"], "spec.leaseTransitions".into(), out);
}

pub(super) fn event(object: &Value, out: &mut Causes) {
    let home = meta::text(object, "namespace");
    let about = object["involvedObject"]["namespace"].as_str().unwrap_or("");
    let fits = if about.is_empty() { matches!(home, "" | "default" | "kube-system") } else { about == home };
    if !fits {
        out.push(Cause::invalid("involvedObject.namespace", &json!(about), "does not match event.namespace"));
    }
}

/// Events of the newer API must be complete; those of the old one were never asked to be.
pub(crate) fn newer_event(object: &Value) -> Result<(), Causes> {
    let mut out = Causes::new();
    // The namespace is filled in from the path only later.
    if object["eventTime"].is_null() {
        out.push(Cause::required("eventTime", ""));
    }
    let kind = object["type"].as_str().unwrap_or("");
    if !matches!(kind, "Normal" | "Warning") {
        out.push(Cause::invalid("type", &json!(kind), &format!("has invalid value: {kind}")));
    }
    if out.is_empty() {
        return Ok(());
    }
    if is_empty(&object["involvedObject"]["namespace"]) {
        let why = "does not match event.namespace";
        out.insert(0, Cause::invalid("involvedObject.namespace", &json!(""), why));
    }
    Err(out)
}
