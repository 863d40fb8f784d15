//! Validation of configuration, storage, access and other small kinds.

use serde_json::{Value, json};
use slipway_manifest::object::json_type;

use super::{CauseList, add_problems, check_one_of, indexed_items, is_empty};
use crate::status::StatusCause;
use crate::write::admit::meta;

const LARGEST: usize = 1024 * 1024;
const KEY_TEXT: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

fn validate_config_key(key: &str, field: &str, out: &mut CauseList) {
    check_config_key(key, &format!("{field}[{key}]"), out);
}

/// Reports the problems of a key of a config map or a secret.
pub(in crate::write) fn check_config_key(key: &str, field: &str, out: &mut CauseList) {
    if key.len() > 253 {
        out.push(StatusCause::invalid(field, &json!(key), "must be no more than 253 characters"));
    }
    if key.is_empty() || !key.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b)) {
        out.push(StatusCause::invalid(field, &json!(key), KEY_TEXT));
    }
    if key == "." || key.starts_with("..") {
        let why = match key {
            "." => "must not be '.'",
            ".." => "must not be '..'",
            _ => "must not start with '..'",
        };
        out.push(StatusCause::invalid(field, &json!(key), why));
    }
}

pub(in crate::write) fn validate_config_map(object: &Value, out: &mut CauseList) {
    let mut size = 0;
    for (key, value) in meta::sorted_members(&object["data"]) {
        validate_config_key(key, "data", out);
        if object["binaryData"].get(key).is_some() {
            out.push(StatusCause::invalid(
                format!("data[{key}]"),
                &json!(key),
                "duplicate of key present in binaryData",
            ));
        }
        size += value.as_str().map_or(0, str::len);
    }
    for (key, value) in meta::sorted_members(&object["binaryData"]) {
        validate_config_key(key, "binaryData", out);
        size += decoded_length(value);
    }
    if size > LARGEST {
        out.push(StatusCause::too_long("[]", LARGEST));
    }
}

fn decoded_length(base64: &Value) -> usize {
    base64.as_str().map_or(0, |t| t.trim_end_matches('=').len() * 3 / 4)
}

pub(in crate::write) fn validate_secret(object: &Value, out: &mut CauseList) {
    let mut size = 0;
    for (key, value) in meta::sorted_members(&object["data"]) {
        validate_config_key(key, "data", out);
        size += decoded_length(value);
    }
    if size > LARGEST {
        out.push(StatusCause::too_long("data", LARGEST));
    }
    let needs = |key: &str, out: &mut CauseList| {
        let missing = object["data"].get(key).is_none();
        if missing {
            out.push(StatusCause::required(format!("data[{key}]"), ""));
        }
        !missing
    };
    match object["type"].as_str().unwrap_or("") {
        "kubernetes.io/service-account-token" => {
            let account = slipway_manifest::object::annotation(object, "kubernetes.io/service-account.name");
            if account.is_none_or(str::is_empty) {
                out.push(StatusCause::required(
                    "metadata.annotations[kubernetes.io/service-account.name]",
                    "",
                ));
            }
        }
        "kubernetes.io/tls" => {
            needs("tls.crt", out);
            needs("tls.key", out);
        }
        "kubernetes.io/dockerconfigjson" => validate_docker_config(object, ".dockerconfigjson", out),
        "kubernetes.io/dockercfg" => validate_docker_config(object, ".dockercfg", out),
        "kubernetes.io/basic-auth"
            if object["data"].get("username").is_none() && object["data"].get("password").is_none() =>
        {
            out.push(StatusCause::required("data[username]", ""));
            out.push(StatusCause::required("data[password]", ""));
        }
        "kubernetes.io/ssh-auth" => {
            needs("ssh-privatekey", out);
        }
        _ => {}
    }
}

fn validate_docker_config(object: &Value, key: &str, out: &mut CauseList) {
    use base64::Engine;
    let Some(data) = object["data"].get(key).and_then(Value::as_str) else {
        out.push(StatusCause::required(format!("data[{key}]"), ""));
        return;
    };
    let bytes = base64::engine::general_purpose::STANDARD.decode(data).unwrap_or_default();
    let why = match serde_json::from_slice::<Value>(&bytes) {
        Ok(Value::Object(_) | Value::Null) => None,
        Ok(other) => Some(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            json_type(&other)
        )),
        // A number ends at the next character, and here there is none.
        Err(_) if bytes.ends_with(b"-") => Some("invalid character ' ' in numeric literal".to_owned()),
        Err(e) if e.is_eof() => Some("unexpected end of JSON input".to_owned()),
        Err(e) => Some(crate::http::body::go_json_error(&bytes, &e)),
    };
    if let Some(why) = why {
        out.push(StatusCause::invalid(format!("data[{key}]"), &json!("<secret contents redacted>"), &why));
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

pub(in crate::write) fn validate_runtime_class(object: &Value, new: bool, out: &mut CauseList) {
    match object["handler"].as_str().unwrap_or("") {
        "" if new => out.push(StatusCause::required("handler", "")),
        "" => {}
        handler => {
            // The rules declared with the type speak of new ones only.
            let problems = meta::label_problems(handler);
            let problems = if new { meta::in_bytes(problems) } else { problems };
            add_problems(problems, &object["handler"], "handler", out);
        }
    }
    super::pod::validate_resources(
        &json!({"limits": object["overhead"]["podFixed"]}),
        &std::collections::BTreeSet::new(),
        "overhead",
        out,
    );
    let scheduling = &object["scheduling"];
    for (key, value) in meta::sorted_members(&scheduling["nodeSelector"]) {
        let at = "scheduling.nodeSelector";
        add_problems(meta::qualified_problems(key), &json!(key), at, out);
        add_problems(meta::label_value_problems(value.as_str().unwrap_or("")), value, at, out);
    }
    let tolerations = &scheduling["tolerations"];
    super::pod::validate_tolerations(tolerations, "scheduling.tolerations", out);
    for (i, toleration) in indexed_items(tolerations) {
        if indexed_items(tolerations).take(i).any(|(_, before)| before == toleration) {
            let text = |key: &str| toleration[key].as_str().unwrap_or("");
            let shown = json!({
                "Key": text("key"), "Operator": text("operator"), "Value": text("value"),
                "Effect": text("effect"), "TolerationSeconds": toleration["tolerationSeconds"],
            });
            out.push(StatusCause::duplicate(format!("scheduling.tolerations[{i}]"), &shown));
        }
    }
}

pub(in crate::write) fn validate_certificate_request(spec: &Value, out: &mut CauseList) {
    use base64::Engine;
    let request = spec["request"].as_str().unwrap_or("");
    let request = base64::engine::general_purpose::STANDARD.decode(request).unwrap_or_default();
    if !request.starts_with(b"-----BEGIN CERTIFICATE REQUEST-----") {
        let why = "PEM block type must be CERTIFICATE REQUEST";
        out.push(StatusCause::invalid("spec.request", &spec["request"], why));
    }
    if is_empty(&spec["usages"]) {
        out.push(StatusCause::required("spec.usages", ""));
    }
    for (i, usage) in indexed_items(&spec["usages"]) {
        if !USAGES.iter().any(|known| usage == known) {
            out.push(StatusCause::not_supported(format!("spec.usages[{i}]"), usage, USAGES));
        }
    }
    for (i, usage) in indexed_items(&spec["usages"]) {
        if indexed_items(&spec["usages"]).take(i).any(|(_, before)| before == usage) {
            out.push(StatusCause::duplicate(format!("spec.usages[{i}]"), usage));
        }
    }
    super::cluster::validate_signer(&spec["signerName"], "spec.signerName", out);
    if spec["expirationSeconds"].as_i64().is_some_and(|s| s < 600) {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        out.push(StatusCause::invalid("spec.expirationSeconds", &spec["expirationSeconds"], why));
    }
}

pub(in crate::write) fn validate_role(object: &Value, namespaced: bool, out: &mut CauseList) {
    if !namespaced && object["aggregationRule"].is_object() {
        let (all, at) =
            (&object["aggregationRule"]["clusterRoleSelectors"], "aggregationRule.clusterRoleSelectors");
        if is_empty(all) {
            let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            out.push(StatusCause::required(at, why));
        }
        for (i, selector) in indexed_items(all) {
            super::validate_label_selector(selector, &format!("{at}[{i}]"), out);
        }
    }
    for (i, rule) in indexed_items(&object["rules"]) {
        let at = format!("rules[{i}]");
        if !is_empty(&rule["nonResourceURLs"]) {
            if namespaced {
                out.push(StatusCause::invalid(
                    format!("{at}.nonResourceURLs"),
                    &rule["nonResourceURLs"],
                    "namespaced rules cannot apply to non-resource URLs",
                ));
            }
            if !is_empty(&rule["apiGroups"])
                || !is_empty(&rule["resources"])
                || !is_empty(&rule["resourceNames"])
            {
                out.push(StatusCause::invalid(
                    format!("{at}.nonResourceURLs"),
                    &rule["nonResourceURLs"],
                    "rules cannot apply to both regular resources and non-resource URLs",
                ));
            }
        } else {
            validate_resource_rule(rule, &at, out);
        }
        if is_empty(&rule["verbs"]) {
            out.push(StatusCause::required(format!("{at}.verbs"), ""));
        }
    }
}

fn validate_resource_rule(rule: &Value, at: &str, out: &mut CauseList) {
    if is_empty(&rule["apiGroups"]) {
        out.push(StatusCause::required(
            format!("{at}.apiGroups"),
            "resource rules must supply at least one api group",
        ));
    }
    if is_empty(&rule["resources"]) {
        out.push(StatusCause::required(
            format!("{at}.resources"),
            "resource rules must supply at least one resource",
        ));
    }
}

pub(in crate::write) fn validate_role_binding(object: &Value, namespaced: bool, out: &mut CauseList) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let role = &object["roleRef"];
    let text = |v: &Value| json!(v.as_str().unwrap_or(""));
    if role["apiGroup"] != GROUP {
        out.push(StatusCause::not_supported("roleRef.apiGroup", &text(&role["apiGroup"]), &[GROUP]));
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !role["kind"].as_str().is_some_and(|k| kinds.contains(&k)) {
        out.push(StatusCause::not_supported("roleRef.kind", &text(&role["kind"]), kinds));
    }
    if is_empty(&role["name"]) {
        out.push(StatusCause::required("roleRef.name", ""));
    } else if role["name"].as_str().is_some_and(|name| name.contains('/')) {
        out.push(StatusCause::invalid("roleRef.name", &role["name"], "may not contain '/'"));
    }
    for (i, subject) in indexed_items(&object["subjects"]) {
        let at = format!("subjects[{i}]");
        let unnamed = out.len();
        match subject["kind"].as_str().unwrap_or("") {
            "ServiceAccount" => {
                if let Some(name) = subject["name"].as_str().filter(|n| !n.is_empty()) {
                    add_problems(
                        meta::subdomain_problems(name),
                        &subject["name"],
                        &format!("{at}.name"),
                        out,
                    );
                }
                if !is_empty(&subject["apiGroup"]) {
                    out.push(StatusCause::not_supported(
                        format!("{at}.apiGroup"),
                        &subject["apiGroup"],
                        &[""],
                    ));
                }
                if !namespaced && is_empty(&subject["namespace"]) {
                    out.push(StatusCause::required(format!("{at}.namespace"), ""));
                }
            }
            "User" | "Group" => {
                if subject["apiGroup"] != GROUP {
                    out.push(StatusCause::not_supported(
                        format!("{at}.apiGroup"),
                        &text(&subject["apiGroup"]),
                        &[GROUP],
                    ));
                }
            }
            _ => out.push(StatusCause::not_supported(
                format!("{at}.kind"),
                &text(&subject["kind"]),
                &["ServiceAccount", "User", "Group"],
            )),
        }
        if is_empty(&subject["name"]) {
            // Unknown kinds are reported before the missing name, known ones after it.
            let known = matches!(subject["kind"].as_str(), Some("ServiceAccount" | "User" | "Group"));
            let at = StatusCause::required(format!("{at}.name"), "");
            if known { out.insert(unnamed, at) } else { out.push(at) }
        }
    }
}

pub(in crate::write) fn validate_priority_class(object: &Value, new: bool, out: &mut CauseList) {
    let name = meta::metadata_text(object, "name");
    let value = object["value"].as_i64().unwrap_or(0);
    if name.starts_with("system-") {
        let known = matches!(
            (name, value),
            ("system-node-critical", 2_000_001_000) | ("system-cluster-critical", 2_000_000_000)
        );
        if !known {
            out.push(StatusCause::forbidden(
                "metadata.name",
                &format!(
                    "priority class names with 'system-' prefix are reserved for system use only. error: {name} is not a known system priority class"
                ),
            ));
        }
    } else if value > 1_000_000_000 {
        out.push(StatusCause::forbidden(
            "value",
            "maximum allowed value of a user defined priority is 1000000000",
        ));
    }
    if new && !object["preemptionPolicy"].is_null() {
        check_one_of(
            &object["preemptionPolicy"],
            "preemptionPolicy".into(),
            &["PreemptLowerPriority", "Never"],
            out,
        );
    }
}

pub(in crate::write) fn validate_lease(spec: &Value, out: &mut CauseList) {
    if spec["leaseDurationSeconds"].as_i64().is_some_and(|s| s <= 0) {
        out.push(StatusCause::invalid(
            "spec.leaseDurationSeconds",
            &spec["leaseDurationSeconds"],
            "must be greater than 0",
        ));
    }
    super::check_non_negative(&spec["leaseTransitions"], "spec.leaseTransitions".into(), out);
}

pub(in crate::write) fn validate_event(object: &Value, out: &mut CauseList) {
    let home = meta::metadata_text(object, "namespace");
    let about = object["involvedObject"]["namespace"].as_str().unwrap_or("");
    let fits = if about.is_empty() { matches!(home, "" | "default" | "kube-system") } else { about == home };
    if !fits {
        out.push(StatusCause::invalid(
            "involvedObject.namespace",
            &json!(about),
            "does not match event.namespace",
        ));
    }
    // One with a time of its own is of the newer form, by whatever version it comes.
    if !object["eventTime"].is_null() {
        validate_newer_fields(object, "reportingComponent", out);
    }
}

/// Validates an event of the newer API, which must be complete; older events need not be.
/// Its reporter is required.
fn validate_newer_fields(object: &Value, component: &str, out: &mut CauseList) {
    let by = object["reportingComponent"].as_str().unwrap_or("");
    if by.is_empty() {
        out.push(StatusCause::required(component, ""));
    }
    add_problems(meta::qualified_problems(by), &json!(by), component, out);
    for key in ["reportingInstance", "action", "reason"] {
        if is_empty(&object[key]) {
            out.push(StatusCause::required(key, ""));
        }
    }
}

pub(crate) fn validate_newer_event(object: &Value) -> Result<(), CauseList> {
    let mut out = CauseList::new();
    // The namespace is filled in from the path only later.
    if object["eventTime"].is_null() {
        out.push(StatusCause::required("eventTime", ""));
    }
    let kind = object["type"].as_str().unwrap_or("");
    if !matches!(kind, "Normal" | "Warning") {
        out.push(StatusCause::invalid("type", &json!(""), &format!("has invalid value: {kind}")));
    }
    if !object["eventTime"].is_null() {
        validate_newer_fields(object, "reportingController", &mut out);
    }
    for (key, limit) in [("message", 1024), ("reason", 128), ("action", 128), ("reportingInstance", 128)] {
        if object[key].as_str().is_some_and(|text| text.len() > limit) {
            let why = format!("can have at most {limit} characters");
            out.push(StatusCause::invalid(key, &json!(""), &why));
        }
    }
    if object["count"].as_i64().unwrap_or(0) != 0 {
        out.push(StatusCause::invalid("count", &json!(""), "needs to be unset"));
    }
    if object["series"]["count"].as_i64().is_some_and(|count| count < 2) {
        out.push(StatusCause::invalid("series.count", &json!(""), "should be at least 2"));
    }
    if out.is_empty() {
        return Ok(());
    }
    if is_empty(&object["involvedObject"]["namespace"]) {
        let why = "does not match event.namespace";
        out.insert(0, StatusCause::invalid("involvedObject.namespace", &json!(""), why));
    }
    Err(out)
}
