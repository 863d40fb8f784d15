//! Validation of configuration, storage, access and other small kinds.

use serde_json::{Value, json};

use super::{Causes, is_empty, list, one_of, texts};
use crate::admit::meta;
use crate::status::Cause;

const LARGEST: usize = 1024 * 1024;
const KEY_TEXT: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

fn config_key(key: &str, field: &str, out: &mut Causes) {
    key_problems(key, &format!("{field}[{key}]"), out);
}

/// What is wrong with a key of a config map or a secret.
pub(super) fn key_problems(key: &str, field: &str, out: &mut Causes) {
    if key.len() > 253 {
        out.push(Cause::invalid(field, &json!(key), "must be no more than 253 characters"));
    }
    if key.is_empty() || !key.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b)) {
        out.push(Cause::invalid(field, &json!(key), KEY_TEXT));
    }
    if key == "." || key.starts_with("..") {
        let why = match key {
            "." => "must not be '.'",
            ".." => "must not be '..'",
            _ => "must not start with '..'",
        };
        out.push(Cause::invalid(field, &json!(key), why));
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

pub(super) fn namespace(object: &Value, out: &mut Causes) {
    for (i, finalizer) in list(&object["spec"]["finalizers"]) {
        let text = finalizer.as_str().unwrap_or("");
        let at = format!("spec.finalizers[{i}]");
        let problems = meta::qualified_problems(text);
        if problems.is_empty() && text != "kubernetes" && !text.contains('/') {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            out.push(Cause::invalid(at.clone(), finalizer, why));
        }
        texts(problems, finalizer, &at, out);
    }
    let phase = object["status"]["phase"].as_str().unwrap_or("");
    let ends = !meta::text(object, "deletionTimestamp").is_empty();
    let why = match (ends, phase) {
        (false, "" | "Active") | (true, "Terminating") => return,
        (false, _) => "may only be 'Active' if `deletionTimestamp` is empty",
        (true, _) => "may only be 'Terminating' if `deletionTimestamp` is not empty",
    };
    out.push(Cause::invalid("status.Phase", &json!(phase), why));
}

/// Of a node only what keeps pods off it is looked at.
pub(super) fn node(spec: &Value, out: &mut Causes) {
    for (i, taint) in list(&spec["taints"]) {
        let at = format!("metadata.taints[{i}]");
        let key = taint["key"].as_str().unwrap_or("");
        texts(meta::qualified_problems(key), &json!(key), &format!("{at}.key"), out);
        let value = taint["value"].as_str().unwrap_or("");
        texts(meta::label_value_problems(value), &json!(value), &format!("{at}.value"), out);
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        one_of(&taint["effect"], format!("{at}.effect"), &effects, out);
    }
}

const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

pub(super) fn runtime_class(object: &Value, new: bool, out: &mut Causes) {
    match object["handler"].as_str().unwrap_or("") {
        "" if new => out.push(Cause::required("handler", "")),
        "" => {}
        handler => {
            // The rules declared with the type speak of new ones only.
            let problems = meta::label_problems(handler);
            let problems = if new { meta::in_bytes(problems) } else { problems };
            texts(problems, &object["handler"], "handler", out);
        }
    }
    super::pod::resources(
        &json!({"limits": object["overhead"]["podFixed"]}),
        &std::collections::BTreeSet::new(),
        "overhead",
        out,
    );
    let scheduling = &object["scheduling"];
    for (key, value) in meta::sorted(&scheduling["nodeSelector"]) {
        let at = "scheduling.nodeSelector";
        texts(meta::qualified_problems(key), &json!(key), at, out);
        texts(meta::label_value_problems(value.as_str().unwrap_or("")), value, at, out);
    }
    let tolerations = &scheduling["tolerations"];
    super::pod::tolerations(tolerations, "scheduling.tolerations", out);
    for (i, toleration) in list(tolerations) {
        if list(tolerations).take(i).any(|(_, before)| before == toleration) {
            let text = |key: &str| toleration[key].as_str().unwrap_or("");
            let shown = json!({
                "Key": text("key"), "Operator": text("operator"), "Value": text("value"),
                "Effect": text("effect"), "TolerationSeconds": toleration["tolerationSeconds"],
            });
            out.push(Cause::duplicate(format!("scheduling.tolerations[{i}]"), &shown));
        }
    }
}

pub(super) fn certificate_request(spec: &Value, out: &mut Causes) {
    use base64::Engine;
    let request = spec["request"].as_str().unwrap_or("");
    let request = base64::engine::general_purpose::STANDARD.decode(request).unwrap_or_default();
    if !request.starts_with(b"-----BEGIN CERTIFICATE REQUEST-----") {
        let why = "PEM block type must be CERTIFICATE REQUEST";
        out.push(Cause::invalid("spec.request", &spec["request"], why));
    }
    if is_empty(&spec["usages"]) {
        out.push(Cause::required("spec.usages", ""));
    }
    for (i, usage) in list(&spec["usages"]) {
        if !USAGES.iter().any(|known| usage == known) {
            out.push(Cause::not_supported(format!("spec.usages[{i}]"), usage, USAGES));
        }
    }
    match spec["signerName"].as_str().unwrap_or("").split_once('/') {
        Some((domain, path)) if domain.contains('.') && !path.is_empty() => {}
        _ => out.push(Cause::invalid(
            "spec.signerName",
            &json!(spec["signerName"].as_str().unwrap_or("")),
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        )),
    }
    if spec["expirationSeconds"].as_i64().is_some_and(|s| s < 600) {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        out.push(Cause::invalid("spec.expirationSeconds", &spec["expirationSeconds"], why));
    }
}

pub(super) fn role(object: &Value, namespaced: bool, out: &mut Causes) {
    if !namespaced && object["aggregationRule"].is_object() {
        let (all, at) =
            (&object["aggregationRule"]["clusterRoleSelectors"], "aggregationRule.clusterRoleSelectors");
        if is_empty(all) {
            let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            out.push(Cause::required(at, why));
        }
        for (i, selector) in list(all) {
            super::label_selector(selector, &format!("{at}[{i}]"), out);
        }
    }
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
    } else if role["name"].as_str().is_some_and(|name| name.contains('/')) {
        out.push(Cause::invalid("roleRef.name", &role["name"], "may not contain '/'"));
    }
    for (i, subject) in list(&object["subjects"]) {
        let at = format!("subjects[{i}]");
        let unnamed = out.len();
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
        if is_empty(&subject["name"]) {
            // Kinds nobody knows are named before the missing name, known ones after it.
            let known = matches!(subject["kind"].as_str(), Some("ServiceAccount" | "User" | "Group"));
            let at = Cause::required(format!("{at}.name"), "");
            if known { out.insert(unnamed, at) } else { out.push(at) }
        }
    }
}

/// What a range can limit by a plain name.
const LIMITED: &[&str] = &["Container", "PersistentVolumeClaim", "Pod"];

pub(super) fn limit_range(spec: &Value, out: &mut Causes) {
    use crate::admit::quota::amount;
    for (i, limit) in list(&spec["limits"]) {
        let at = format!("spec.limits[{i}]");
        let kind = limit["type"].as_str().unwrap_or("");
        let problems = meta::qualified_problems(kind);
        if problems.is_empty() && !kind.contains('/') && !LIMITED.contains(&kind) {
            let why = "must be a standard limit type or fully qualified";
            out.push(Cause::invalid(format!("{at}.type"), &limit["type"], why));
        }
        texts(problems, &json!(kind), &format!("{at}.type"), out);
        let mut names = std::collections::BTreeSet::new();
        for side in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
            names.extend(limit[side].as_object().into_iter().flatten().map(|(name, _)| name));
        }
        for name in names {
            let value = |side: &str| limit[side].get(name).and_then(|v| Some((v, amount(v)?)));
            // (a, b) with a message when the first is more than the second; shown is what Go shows.
            let mut over = |low: &str, high: &str, at_side: &str, shown: &str, words: (&str, &str)| {
                if let (Some((a, x)), Some((b, y))) = (value(low), value(high))
                    && x > y
                {
                    let shown = value(shown).map_or(a, |(v, _)| v);
                    let text = |v: &Value| crate::admit::quota::canonical(v);
                    out.push(Cause::invalid(
                        format!("{at}.{at_side}[{name}]"),
                        &json!(text(shown)),
                        &format!(
                            "{} value {} is greater than {} value {}",
                            words.0,
                            text(a),
                            words.1,
                            text(b)
                        ),
                    ));
                }
            };
            over("min", "max", "min", "min", ("min", "max"));
            over("min", "defaultRequest", "defaultRequest", "defaultRequest", ("min", "default request"));
            over("defaultRequest", "max", "defaultRequest", "defaultRequest", ("default request", "max"));
            over(
                "defaultRequest",
                "default",
                "defaultRequest",
                "defaultRequest",
                ("default request", "default limit"),
            );
            over("min", "default", "default", "min", ("min", "default"));
            over("default", "max", "default", "max", ("default", "max"));
        }
    }
}

const SCOPES: &[&str] = &[
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];

pub(super) fn quota(spec: &Value, out: &mut Causes) {
    use crate::admit::quota::{amount, canonical};
    for (name, value) in meta::sorted(&spec["hard"]) {
        let at = format!("spec.hard[{name}]");
        let whole = !name.contains("cpu") && !name.contains("memory") && !name.contains("storage");
        match amount(value) {
            Some(amount) if amount < 0 => {
                out.push(Cause::invalid(&at, &json!(canonical(value)), "must be greater than or equal to 0"));
            }
            Some(amount) if whole && amount % 1_000_000_000 != 0 => {
                out.push(Cause::invalid(&at, &json!(canonical(value)), "must be an integer"));
            }
            _ => {}
        }
    }
    if list(&spec["scopes"]).any(|(_, s)| !s.as_str().is_some_and(|s| SCOPES.contains(&s))) {
        out.push(Cause::invalid("spec.scopes", &spec["scopes"], "unsupported scope"));
    }
    let has = |scope: &str| list(&spec["scopes"]).any(|(_, s)| s == scope);
    for (a, b) in [("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")] {
        if has(a) && has(b) {
            out.push(Cause::invalid("spec.scopes", &spec["scopes"], "conflicting scopes"));
        }
    }
}

pub(super) fn priority_class(object: &Value, new: bool, out: &mut Causes) {
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
    if new && !object["preemptionPolicy"].is_null() {
        one_of(
            &object["preemptionPolicy"],
            "preemptionPolicy".into(),
            &["PreemptLowerPriority", "Never"],
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
    // One with a time of its own is of the newer form, by whatever version it comes.
    if !object["eventTime"].is_null() {
        newer_fields(object, "reportingComponent", out);
    }
}

/// Events of the newer API must be complete; those of the old one were never asked to be.
/// What an event with a time of its own says about who reports it.
fn newer_fields(object: &Value, component: &str, out: &mut Causes) {
    let by = object["reportingComponent"].as_str().unwrap_or("");
    if by.is_empty() {
        out.push(Cause::required(component, ""));
    }
    texts(meta::qualified_problems(by), &json!(by), component, out);
    for key in ["reportingInstance", "action", "reason"] {
        if is_empty(&object[key]) {
            out.push(Cause::required(key, ""));
        }
    }
}

pub(crate) fn newer_event(object: &Value) -> Result<(), Causes> {
    let mut out = Causes::new();
    // The namespace is filled in from the path only later.
    if object["eventTime"].is_null() {
        out.push(Cause::required("eventTime", ""));
    }
    let kind = object["type"].as_str().unwrap_or("");
    if !matches!(kind, "Normal" | "Warning") {
        out.push(Cause::invalid("type", &json!(""), &format!("has invalid value: {kind}")));
    }
    if !object["eventTime"].is_null() {
        newer_fields(object, "reportingController", &mut out);
    }
    for (key, limit) in [("message", 1024), ("reason", 128), ("action", 128), ("reportingInstance", 128)] {
        if object[key].as_str().is_some_and(|text| text.len() > limit) {
            let why = format!("can have at most {limit} characters");
            out.push(Cause::invalid(key, &json!(""), &why));
        }
    }
    if object["count"].as_i64().unwrap_or(0) != 0 {
        out.push(Cause::invalid("count", &json!(""), "needs to be unset"));
    }
    if object["series"]["count"].as_i64().is_some_and(|count| count < 2) {
        out.push(Cause::invalid("series.count", &json!(""), "should be at least 2"));
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
