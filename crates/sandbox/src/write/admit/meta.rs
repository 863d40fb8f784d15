//! `metadata`: what the server sets, keeps and refuses, whatever the kind.

use regex::Regex;
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

use super::rules;
use crate::api::resource::ServedResource;
use crate::status::StatusCause;

/// The order Go prints metadata in.
const ORDER: &[&str] = &[
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// Puts metadata in order and drops what is empty.
pub(crate) fn order_metadata(object: &mut Value, sorted: bool) {
    let Some(Value::Object(meta)) = object.get_mut("metadata") else { return };
    let mut old = std::mem::take(meta);
    let mut keys: Vec<&str> = ORDER.to_vec();
    if sorted {
        keys.sort_unstable();
    }
    for key in keys {
        let Some(value) = old.shift_remove(key) else { continue };
        let empty = match &value {
            Value::Null => true,
            Value::String(s) => s.is_empty(),
            Value::Object(m) => m.is_empty(),
            Value::Array(a) => a.is_empty(),
            Value::Number(n) => key == "generation" && n.as_i64() == Some(0),
            Value::Bool(_) => false,
        };
        if !empty {
            meta.insert(key.to_owned(), value);
        }
    }
}

/// The metadata of an object, made if it is missing.
pub(crate) fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    if !object.get("metadata").is_some_and(Value::is_object) {
        object["metadata"] = json!({});
    }
    match &mut object["metadata"] {
        Value::Object(meta) => meta,
        _ => unreachable!("metadata was just made an object"),
    }
}

pub(crate) fn metadata_text<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"][key].as_str().unwrap_or("")
}

/// The check of names of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// Dots allowed, 253 characters.
    Subdomain,
    /// One label, 63 characters.
    Label,
    /// Anything that is one path segment: RBAC names.
    PathSegment,
    /// An IP address as it is written at best.
    Address,
}

pub(crate) fn name_rule(kind: (&str, &str)) -> NameRule {
    match kind {
        ("", "Namespace" | "Service") | ("apps", "StatefulSet") => NameRule::Label,
        ("rbac.authorization.k8s.io", _)
        | ("policy", "PodDisruptionBudget")
        | ("certificates.k8s.io", "ClusterTrustBundle") => NameRule::PathSegment,
        ("networking.k8s.io", "IPAddress") => NameRule::Address,
        _ => NameRule::Subdomain,
    }
}

static SUBDOMAIN: LazyLock<Regex> =
    LazyLock::new(|| compile_pattern(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"));
static LABEL: LazyLock<Regex> = LazyLock::new(|| compile_pattern(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"));
static QUALIFIED: LazyLock<Regex> =
    LazyLock::new(|| compile_pattern(r"^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"));
static VALUE: LazyLock<Regex> =
    LazyLock::new(|| compile_pattern(r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"));

pub(crate) fn compile_pattern(pattern: &str) -> Regex {
    // Every pattern is a constant of this crate and compiled by a test.
    Regex::new(pattern).unwrap_or_else(|e| unreachable!("{e}"))
}

pub(crate) const SUBDOMAIN_TEXT: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
pub(crate) const LABEL_TEXT: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED_TEXT: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_TEXT: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Returns true if a text has the form of a DNS subdomain, whatever its length.
pub(crate) fn is_subdomain(text: &str) -> bool {
    SUBDOMAIN.is_match(text)
}

/// Returns the problems of a DNS subdomain.
pub(crate) fn subdomain_problems(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    if text.len() > 253 {
        out.push("must be no more than 253 characters".to_owned());
    }
    if !is_subdomain(text) {
        out.push(SUBDOMAIN_TEXT.to_owned());
    }
    out
}

/// Returns the problems of a DNS label.
pub(crate) fn label_problems(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    if text.len() > 63 {
        out.push("must be no more than 63 characters".to_owned());
    }
    if !LABEL.is_match(text) {
        let why = if SUBDOMAIN.is_match(text) { "must not contain dots" } else { LABEL_TEXT };
        out.push(why.to_owned());
    }
    out
}

/// Returns the problems of a DNS label that must start with a letter.
pub(crate) fn dns_label_problems(text: &str) -> Vec<String> {
    const WHY: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
    let mut out = Vec::new();
    if text.len() > 63 {
        out.push("must be no more than 63 characters".to_owned());
    }
    if !LABEL.is_match(text) || !text.starts_with(|c: char| c.is_ascii_lowercase()) {
        out.push(WHY.to_owned());
    }
    out
}

fn name_problems(rule: NameRule, name: &str) -> Vec<String> {
    match rule {
        NameRule::Subdomain => subdomain_problems(name),
        NameRule::Label => label_problems(name),
        NameRule::PathSegment => segment_problems(name),
        NameRule::Address => super::validate::canonical_ip_problem(name).into_iter().collect(),
    }
}

/// Returns the problems of a path segment.
pub(crate) fn segment_problems(name: &str) -> Vec<String> {
    if name == "." || name == ".." {
        return vec![format!("may not be '{name}'")];
    }
    ["/", "%"]
        .iter()
        .filter(|odd| name.contains(**odd))
        .map(|odd| format!("may not contain '{odd}'"))
        .collect()
}

/// Returns the problems of a qualified name such as a label key: `prefix/name`.
pub(crate) fn qualified_problems(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                out.push("prefix part must be non-empty".to_owned());
            } else {
                out.extend(subdomain_problems(prefix).into_iter().map(|p| format!("prefix part {p}")));
            }
            *name
        }
        _ => {
            return vec![
                "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
                    .to_owned(),
            ];
        }
    };
    if name.is_empty() {
        out.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        out.push("name part must be no more than 63 bytes".to_owned());
    }
    if !QUALIFIED.is_match(name) {
        out.push(QUALIFIED_TEXT.to_owned());
    }
    out
}

/// The same for a label key, which the messages call so.
pub(crate) fn label_key_problems(text: &str) -> Vec<String> {
    let problems = qualified_problems(text).into_iter();
    problems
        .map(|problem| in_bytes_one(problem.replace("a qualified name must", "a valid label key must")))
        .collect()
}

/// Newer checks count bytes where older ones say characters.
pub(crate) fn in_bytes(problems: Vec<String>) -> Vec<String> {
    problems.into_iter().map(in_bytes_one).collect()
}

fn in_bytes_one(problem: String) -> String {
    if problem.contains("must be no more than ") { problem.replace(" characters", " bytes") } else { problem }
}

/// Returns the problems of a DNS subdomain with letters of any case.
pub(crate) fn caseless_problems(text: &str) -> Vec<String> {
    const WHY: &str = "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'Example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    let problems = in_bytes(subdomain_problems(&text.to_ascii_lowercase())).into_iter();
    problems.map(|problem| if problem == SUBDOMAIN_TEXT { WHY.to_owned() } else { problem }).collect()
}

/// Returns the problems of a label value.
pub(crate) fn label_value_problems(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    if text.len() > 63 {
        out.push("must be no more than 63 bytes".to_owned());
    }
    if !VALUE.is_match(text) {
        out.push(VALUE_TEXT.to_owned());
    }
    out
}

/// Checks a set of labels found at `field`.
pub(crate) fn validate_labels(labels: &Value, field: &str, out: &mut Vec<StatusCause>) {
    for (key, value) in sorted_members(labels) {
        out.extend(qualified_problems(key).iter().map(|p| StatusCause::invalid(field, &json!(key), p)));
        let text = value.as_str().unwrap_or("");
        for problem in label_value_problems(text) {
            // The same of two labels is said once.
            let cause = StatusCause::invalid(field, value, &problem);
            if !out.contains(&cause) {
                out.push(cause);
            }
        }
    }
}

/// Map members in key order, as Go's sorted iteration gives them.
pub(crate) fn sorted_members(map: &Value) -> Vec<(&String, &Value)> {
    let mut all: Vec<_> = map.as_object().into_iter().flatten().collect();
    all.sort_by(|a, b| a.0.cmp(b.0));
    all
}

/// Checks what a name is generated from.
pub(crate) fn validate_prefix(object: &Value, rule: NameRule, out: &mut Vec<StatusCause>) {
    let prefix = metadata_text(object, "generateName");
    if prefix.is_empty() {
        return;
    }
    // A generated name ends in letters, so a trailing dash is fine.
    let trial = match prefix.strip_suffix('-') {
        Some(start) if !start.is_empty() => format!("{start}a"),
        _ => prefix.to_owned(),
    };
    let problems = name_problems(rule, &trial);
    out.extend(problems.iter().map(|p| StatusCause::invalid("metadata.generateName", &json!(prefix), p)));
}

fn is_odd_finalizer(name: &str) -> bool {
    !name.contains('/') && !matches!(name, "kubernetes" | "orphan" | "foregroundDeletion")
}

/// Warns about finalizers that a custom resource did not have before and that others may use as well.
pub(crate) fn warn_about_finalizers(object: &Value, old: Option<&Value>, out: &mut Vec<String>) {
    let listed = |object: &Value| -> std::collections::BTreeSet<String> {
        let all = object["metadata"]["finalizers"].as_array().into_iter().flatten();
        all.filter_map(|name| name.as_str().map(str::to_owned)).collect()
    };
    let before = old.map(listed).unwrap_or_default();
    for name in listed(object).difference(&before).filter(|name| is_odd_finalizer(name)) {
        let path = if name.contains('.') { " including a path (/)" } else { "" };
        out.push(format!(
            "metadata.finalizers: {name:?}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
        ));
    }
}

/// Checks metadata on create and update alike.
pub(crate) fn validate_metadata(
    object: &Value,
    served: &ServedResource,
    rule: NameRule,
    out: &mut Vec<StatusCause>,
) {
    let (meta, namespaced) = (&object["metadata"], served.def.namespaced);
    validate_prefix(object, rule, out);
    match meta["name"].as_str().unwrap_or("") {
        "" => out.push(StatusCause::required("metadata.name", "name or generateName is required")),
        name => {
            let problems = name_problems(rule, name);
            out.extend(problems.iter().map(|p| StatusCause::invalid("metadata.name", &json!(name), p)));
        }
    }
    match (namespaced, meta["namespace"].as_str().unwrap_or("")) {
        (true, "") => out.push(StatusCause::required("metadata.namespace", "")),
        (true, namespace) => {
            let problems = label_problems(namespace);
            out.extend(
                problems.iter().map(|p| StatusCause::invalid("metadata.namespace", &json!(namespace), p)),
            );
        }
        (false, "") => {}
        (false, _) => {
            out.push(StatusCause::forbidden("metadata.namespace", "not allowed on this type"));
        }
    }
    if meta["generation"].as_i64().is_some_and(|g| g < 0) {
        out.push(StatusCause::invalid(
            "metadata.generation",
            &meta["generation"],
            "must be greater than or equal to 0",
        ));
    }
    validate_labels(&meta["labels"], "metadata.labels", out);
    let mut size = 0;
    for (key, value) in sorted_members(&meta["annotations"]) {
        let problems = qualified_problems(&key.to_lowercase());
        out.extend(problems.iter().map(|p| StatusCause::invalid("metadata.annotations", &json!(key), p)));
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > 256 * 1024 {
        out.push(StatusCause::too_long("metadata.annotations", 256 * 1024));
    }
    validate_owners(&meta["ownerReferences"], out);
    let needs_domains = served.custom.is_none() && rules::needs_finalizer_domains(served.rule_key());
    for (i, finalizer) in meta["finalizers"].as_array().into_iter().flatten().enumerate() {
        let text = finalizer.as_str().unwrap_or("");
        let problems = qualified_problems(text);
        out.extend(problems.iter().map(|p| StatusCause::invalid("metadata.finalizers", finalizer, p)));
        if needs_domains && is_odd_finalizer(text) {
            out.push(StatusCause::invalid(
                format!("metadata.finalizers[{i}]"),
                finalizer,
                "name is neither a standard finalizer name nor is it fully qualified",
            ));
        }
    }
    let has = |name: &str| meta["finalizers"].as_array().is_some_and(|f| f.iter().any(|v| v == name));
    if has("orphan") && has("foregroundDeletion") {
        out.push(StatusCause::invalid(
            "metadata.finalizers",
            &meta["finalizers"],
            "finalizer orphan and foregroundDeletion cannot be both set",
        ));
    }
}

/// Keeps the first of the owners that are listed twice, and returns a warning for each.
pub(crate) fn single_owners(object: &mut Value) -> Vec<String> {
    let Some(Value::Array(owners)) = object.pointer_mut("/metadata/ownerReferences") else { return vec![] };
    let mut seen: Vec<Value> = Vec::new();
    let mut repeated = Vec::new();
    owners.retain(|owner| {
        let fresh = !seen.contains(&owner["uid"]);
        if fresh {
            seen.push(owner["uid"].clone());
        } else if let Some(uid) = owner["uid"].as_str() {
            repeated.push(uid.to_owned());
        }
        fresh
    });
    if repeated.is_empty() {
        return vec![];
    }
    vec![format!(
        ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
        repeated.join(", ")
    )]
}

fn validate_owners(owners: &Value, out: &mut Vec<StatusCause>) {
    let mut controller: Option<String> = None;
    for (i, owner) in owners.as_array().into_iter().flatten().enumerate() {
        let field = |name: &str| format!("metadata.ownerReferences[{i}].{name}");
        let text = |key: &str| owner[key].as_str().unwrap_or("");
        for key in ["apiVersion", "kind", "name", "uid"] {
            if text(key).is_empty() {
                out.push(StatusCause::required(field(key), "must not be empty"));
            }
        }
        if text("apiVersion").matches('/').count() > 1 {
            let why = "must be <group>/<version> or <version>";
            out.push(StatusCause::invalid(field("apiVersion"), &owner["apiVersion"], why));
        }
        if text("apiVersion") == "v1" && text("kind") == "Event" {
            out.push(StatusCause::invalid(
                format!("metadata.ownerReferences[{i}]"),
                owner,
                "/v1, Kind=Event is disallowed from being an owner",
            ));
        }
        if owner["controller"] == true {
            match &controller {
                Some(first) => out.push(StatusCause::invalid(
                    "metadata.ownerReferences",
                    owners,
                    &format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {}/{}",
                        text("kind"),
                        text("name")
                    ),
                )),
                None => controller = Some(format!("{}/{}", text("kind"), text("name"))),
            }
        }
    }
}

/// Checks what an update may not change.
pub(crate) fn validate_update(new: &Value, old: &Value, out: &mut Vec<StatusCause>) {
    let (now, was) = (&new["metadata"], &old["metadata"]);
    if was["deletionTimestamp"].is_string() {
        let known = |f: &Value| was["finalizers"].as_array().is_some_and(|all| all.contains(f));
        let fresh: Vec<String> = now["finalizers"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|f| !known(f))
            .map(ToString::to_string)
            .collect();
        if !fresh.is_empty() {
            let mut listed = fresh;
            listed.sort();
            out.push(StatusCause::forbidden(
                "metadata.finalizers",
                &format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                    listed.join(", ")
                ),
            ));
        }
    }
    for key in ["name", "namespace", "uid", "deletionGracePeriodSeconds"] {
        if now[key] != was[key] {
            out.push(StatusCause::invalid(format!("metadata.{key}"), &now[key], "field is immutable"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_compile_and_judge() {
        assert!(subdomain_problems("a.b-c.d").is_empty());
        assert_eq!(subdomain_problems("Bad_Name").len(), 1);
        assert_eq!(label_problems("a.b"), ["must not contain dots"]);
        assert!(qualified_problems("example.com/My.Name").is_empty());
        assert_eq!(qualified_problems("a/b/c").len(), 1);
        assert_eq!(label_value_problems(""), Vec::<String>::new());
    }

    #[test]
    fn order_and_emptiness() {
        let mut object = json!({"metadata": {"labels": {}, "uid": "u", "name": "n", "generation": 0}});
        order_metadata(&mut object, false);
        assert_eq!(object.to_string(), r#"{"metadata":{"name":"n","uid":"u"}}"#);
    }
}
