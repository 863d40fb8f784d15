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
        // Kinds are written in capitals, plurals are part of paths.
        let lower = if field.ends_with("kind") { value.to_ascii_lowercase() } else { value.to_owned() };
        if value.is_empty() {
            errors.push(FieldError::required(field, ""));
        } else if let Err(problems) = names::label_1035(&lower) {
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
    let mut seen = std::collections::HashSet::new();
    if !versions.iter().all(|version| seen.insert(version["name"].as_str())) {
        let why = "must contain unique version names";
        errors.push(FieldError::invalid("spec.versions", internal_versions(&versions), why));
    }
    let storage = versions.iter().filter(|version| version["storage"] == true).count();
    if storage != 1 {
        let why = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", internal_versions(&versions), why));
    }
    check_stored(definition, &versions, errors);
    let schema_of = |version: &Value| version.pointer("/schema/openAPIV3Schema").cloned();
    if let Some(schema) = shared(&versions, "/schema/openAPIV3Schema") {
        errors.extend(check_schema(schema, "spec.validation.openAPIV3Schema"));
    }
    if let Some(name) = versions.first().and_then(|version| version["name"].as_str())
        && let Err(problems) = names::label_1035(name)
    {
        errors.push(FieldError::invalid("spec.version", name, problems.join(",")));
    }
    let columns = shared(&versions, "/additionalPrinterColumns");
    if let Some(columns) = columns {
        check_columns(columns, "spec.additionalPrinterColumns", errors);
    }
    let subresources = shared(&versions, "/subresources");
    if let Some(subresources) = subresources {
        check_scale(&subresources["scale"], "spec.subresources.scale", errors);
    }
    if let Some(first) = versions.first().filter(|_| shared(&versions, "/selectableFields").is_some()) {
        check_selectable(first, "spec", errors);
    }
    let one_schema = shared(&versions, "/schema/openAPIV3Schema").is_some();
    for (index, version) in versions.iter().enumerate() {
        let at = format!("spec.versions[{index}]");
        let name = version["name"].as_str().unwrap_or_default();
        if let Err(problems) = names::label_1035(name) {
            errors.push(FieldError::invalid(format!("{at}.name"), name, problems.join(",")));
        }
        match schema_of(version) {
            None => errors.push(FieldError::required(format!("{at}.schema.openAPIV3Schema"), "")),
            Some(schema) if !one_schema => {
                errors.extend(check_schema(&schema, &format!("{at}.schema.openAPIV3Schema")));
            }
            Some(_) => {}
        }
        if shared(&versions, "/selectableFields").is_none() {
            check_selectable(version, &at, errors);
        }
        if columns.is_none() {
            check_columns(
                &version["additionalPrinterColumns"],
                &format!("{at}.additionalPrinterColumns"),
                errors,
            );
        }
        if subresources.is_none() {
            let at = format!("{at}.subresources.scale");
            check_scale(&version["subresources"]["scale"], &at, errors);
        }
    }
    check_conversion(definition, errors);
}

/// What all versions have alike: it is reported once, at the place it had in older definitions.
fn shared<'a>(versions: &'a [Value], pointer: &str) -> Option<&'a Value> {
    let first = versions.first()?.pointer(pointer)?;
    versions.iter().all(|version| version.pointer(pointer) == Some(first)).then_some(first)
}

/// Versions as Go prints its internal type. What all share is kept elsewhere.
fn internal_versions(versions: &[Value]) -> Value {
    versions
        .iter()
        .map(|version| {
            serde_json::json!({
                "Name": version["name"],
                "Served": version["served"] == true,
                "Storage": version["storage"] == true,
                "Deprecated": version["deprecated"] == true,
                "DeprecationWarning": version["deprecationWarning"],
                "Schema": null,
                "Subresources": null,
                "AdditionalPrinterColumns": null,
                "SelectableFields": null,
            })
        })
        .collect()
}

/// Versions objects may be stored in must be there to read them.
fn check_stored(definition: &Value, versions: &[Value], errors: &mut Vec<FieldError>) {
    // Only a server keeps record of what is stored.
    let Some(status) = definition.get("status") else { return };
    let stored = status["storedVersions"].as_array().map_or(&[][..], Vec::as_slice);
    if stored.is_empty() {
        let why = "must have at least one stored version";
        errors.push(FieldError::invalid("status.storedVersions", status["storedVersions"].clone(), why));
        return;
    }
    for (index, name) in stored.iter().enumerate() {
        if !versions.iter().any(|version| version["name"] == *name) {
            let name = name.as_str().unwrap_or_default();
            errors.push(FieldError::invalid(
                format!("status.storedVersions[{index}]"),
                name,
                format!(
                    "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
                ),
            ));
        }
    }
    let storage = versions.iter().rev().find(|version| version["storage"] == true);
    if let Some(storage) = storage.and_then(|version| version["name"].as_str())
        && versions.iter().filter(|version| version["storage"] == true).count() > 1
        && !stored.iter().any(|name| name == storage)
    {
        errors.push(FieldError::invalid(
            "status.storedVersions",
            Value::from(stored.to_vec()),
            format!("must have the storage version {storage}"),
        ));
    }
}

const SIMPLE_PATH: &str = "must be a simple json path starting with .";

fn check_columns(columns: &Value, field: &str, errors: &mut Vec<FieldError>) {
    for (index, column) in columns.as_array().into_iter().flatten().enumerate() {
        let at = format!("{field}[{index}]");
        let text = |key: &str| column[key].as_str().unwrap_or_default();
        if text("name").is_empty() {
            errors.push(FieldError::required(format!("{at}.name"), ""));
        }
        match text("type") {
            "" => errors.push(FieldError::required(
                format!("{at}.type"),
                "must be one of boolean,date,integer,number,string",
            )),
            "boolean" | "date" | "integer" | "number" | "string" => {}
            other => errors.push(FieldError::invalid(
                format!("{at}.type"),
                other,
                "must be one of boolean,date,integer,number,string",
            )),
        }
        match text("jsonPath") {
            "" => errors.push(FieldError::required(format!("{at}.JSONPath"), "")),
            path if !path.starts_with('.') => {
                errors.push(FieldError::invalid(format!("{at}.JSONPath"), path, SIMPLE_PATH));
            }
            _ => {}
        }
    }
}

/// Objects can be selected by single values their schema knows.
fn check_selectable(version: &Value, field: &str, errors: &mut Vec<FieldError>) {
    for (index, selectable) in version["selectableFields"].as_array().into_iter().flatten().enumerate() {
        let at = format!("{field}.selectableFields[{index}].jsonPath");
        let path = selectable["jsonPath"].as_str().unwrap_or_default();
        if path.is_empty() {
            errors.push(FieldError::required(at, ""));
            continue;
        }
        let root = version.pointer("/schema/openAPIV3Schema").unwrap_or(&Value::Null);
        let found = path
            .trim_start_matches('.')
            .split('.')
            .fold(root, |schema, name| schema["properties"].get(name).unwrap_or(&Value::Null));
        let single = matches!(found["type"].as_str(), Some("string" | "integer" | "boolean"));
        if !path.starts_with('.') || path.starts_with(".metadata") || !single {
            errors.push(FieldError::invalid(at, path, "is an invalid path: does not refer to a valid field"));
        }
    }
}

fn check_scale(scale: &Value, field: &str, errors: &mut Vec<FieldError>) {
    if !scale.is_object() {
        return;
    }
    for (key, below, why) in [
        ("specReplicasPath", &[".spec."][..], "should be a json path under .spec"),
        ("statusReplicasPath", &[".status."], "should be a json path under .status"),
        ("labelSelectorPath", &[".spec.", ".status."], "should be a json path under either .spec or .status"),
    ] {
        let at = format!("{field}.{key}");
        match scale[key].as_str().unwrap_or_default() {
            "" if key == "labelSelectorPath" => {}
            "" => errors.push(FieldError::required(at, "")),
            path if !path.starts_with('.') => errors.push(FieldError::invalid(at, path, SIMPLE_PATH)),
            path if !below.iter().any(|start| path.starts_with(start)) => {
                errors.push(FieldError::invalid(at, path, why));
            }
            _ => {}
        }
    }
}

fn check_conversion(definition: &Value, errors: &mut Vec<FieldError>) {
    let conversion = &definition["spec"]["conversion"];
    let webhook = &conversion["webhook"];
    match conversion["strategy"].as_str() {
        None | Some("None") => {}
        Some("Webhook") => {
            if webhook["conversionReviewVersions"].as_array().is_none_or(Vec::is_empty) {
                errors.push(FieldError::required("spec.conversion.conversionReviewVersions", ""));
            }
            if webhook["clientConfig"].is_null() {
                errors.push(FieldError::required(
                    "spec.conversion.webhookClientConfig",
                    "required when strategy is set to Webhook",
                ));
            }
        }
        Some(other) => {
            errors.push(FieldError::not_supported("spec.conversion.strategy", other, ["None", "Webhook"]));
        }
    }
}
