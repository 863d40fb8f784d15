//! Checks a CustomResourceDefinition as a whole.

use serde_json::Value;

use super::structural::check_schema;
use crate::field_error::FieldError;
use crate::names;

/// Checks a definition as a server does before it accepts it. Defaults (`singular`, `listKind`) need
/// not be set.
pub fn check_definition(definition: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let at = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (group, plural, kind) = (at("/spec/group"), at("/spec/names/plural"), at("/spec/names/kind"));
    let name = at("/metadata/name");
    let expected = format!("{plural}.{group}");
    if name != expected {
        errors.push(FieldError::invalid("metadata.name", name, "must be spec.names.plural+\".\"+spec.group"));
    }
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else if let Err(problems) = names::subdomain(group) {
        errors.push(FieldError::invalid("spec.group", group, problems.join(",")));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid("spec.group", group, "should be a domain with at least one dot"));
    }
    check_names(definition, plural, kind, &mut errors);
    match at("/spec/scope") {
        "" => errors.push(FieldError::required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        other => errors.push(FieldError::not_supported("spec.scope", other, ["Cluster", "Namespaced"])),
    }
    if is_protected(group) && definition.pointer("/metadata/annotations/api-approved.kubernetes.io").is_none()
    {
        errors.push(FieldError::required(
            "metadata.annotations[api-approved.kubernetes.io]",
            "protected groups must have approval annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111",
        ));
    }
    check_versions(definition, &mut errors);
    errors
}

fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group == *domain || group.ends_with(&format!(".{domain}")))
}

fn check_names(definition: &Value, plural: &str, kind: &str, errors: &mut Vec<FieldError>) {
    for (field, value) in [("spec.names.plural", plural), ("spec.names.kind", kind)] {
        if value.is_empty() {
            errors.push(FieldError::required(field, ""));
        } else if let Err(problems) = names::label_1035(&value.to_ascii_lowercase()) {
            let detail = if field.ends_with("kind") {
                format!("may have mixed case, but should otherwise match: {}", problems.join(","))
            } else {
                problems.join(",")
            };
            errors.push(FieldError::invalid(field, value, detail));
        }
    }
    let names_of = |key: &str| definition.pointer(&format!("/spec/names/{key}")).and_then(Value::as_str);
    if names_of("listKind").is_some_and(|list_kind| !list_kind.is_empty() && list_kind == kind) {
        errors.push(FieldError::invalid(
            "spec.names.listKind",
            kind,
            "kind and listKind may not be the same",
        ));
    }
}

fn check_versions(definition: &Value, errors: &mut Vec<FieldError>) {
    let versions =
        definition.pointer("/spec/versions").and_then(Value::as_array).cloned().unwrap_or_default();
    let storage = versions.iter().filter(|version| version["storage"] == true).count();
    if storage != 1 {
        errors.push(FieldError::invalid(
            "spec.versions",
            Value::Array(versions.clone()),
            "must have exactly one version marked as storage version",
        ));
    }
    let schema_of = |version: &Value| version.pointer("/schema/openAPIV3Schema").cloned();
    // A schema all versions share is reported once, at the place it had in older definitions.
    let shared = versions
        .first()
        .and_then(schema_of)
        .filter(|first| versions.iter().all(|v| schema_of(v).as_ref() == Some(first)));
    if let Some(schema) = &shared {
        errors.extend(check_schema(schema, "spec.validation.openAPIV3Schema"));
    }
    let mut seen = std::collections::HashSet::new();
    for (index, version) in versions.iter().enumerate() {
        let at = format!("spec.versions[{index}]");
        let name = version["name"].as_str().unwrap_or_default();
        if let Err(problems) = names::label_1035(name) {
            errors.push(FieldError::invalid(format!("{at}.name"), name, problems.join(",")));
        }
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(format!("{at}.name"), name));
        }
        match schema_of(version) {
            None => errors
                .push(FieldError::required(format!("{at}.schema.openAPIV3Schema"), "schemas are required")),
            Some(schema) if shared.is_none() => {
                errors.extend(check_schema(&schema, &format!("{at}.schema.openAPIV3Schema")));
            }
            Some(_) => {}
        }
    }
}
