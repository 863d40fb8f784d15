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
    } else if let Err(problems) = names::check_subdomain(group) {
        errors.push(FieldError::invalid("spec.group", group, problems.join(",")));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid("spec.group", group, "should be a domain with at least one dot"));
    }
    match at("/spec/scope") {
        "" => errors.push(FieldError::required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        other => errors.push(FieldError::not_supported("spec.scope", other, ["Cluster", "Namespaced"])),
    }
    if definition["spec"]["preserveUnknownFields"] == true {
        let at = "spec.preserveUnknownFields";
        if definition["spec"]["versions"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|v| has_defaults(&v["schema"]["openAPIV3Schema"]))
        {
            errors.push(FieldError::invalid(
                at,
                true,
                "must be false in order to use defaults in the schema",
            ));
        }
        let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(FieldError::invalid(at, true, why));
    }
    check_versions(definition, plural, kind, &mut errors);
    if is_protected(group) && definition.pointer("/metadata/annotations/api-approved.kubernetes.io").is_none()
    {
        errors.push(FieldError::required(
            "metadata.annotations[api-approved.kubernetes.io]",
            "protected groups must have approval annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111",
        ));
    }
    errors
}

/// Returns true if a schema gives a field a default. Objects have a limited depth, so the recursion ends.
fn has_defaults(schema: &Value) -> bool {
    schema.is_object()
        && (!schema["default"].is_null()
            || schema["properties"].as_object().is_some_and(|fields| fields.values().any(has_defaults))
            || has_defaults(&schema["items"])
            || has_defaults(&schema["additionalProperties"]))
}

fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group == *domain || group.ends_with(&format!(".{domain}")))
}

fn check_names(definition: &Value, plural: &str, kind: &str, errors: &mut Vec<FieldError>) {
    let names = &definition["spec"]["names"];
    let text = |key: &str| names[key].as_str().unwrap_or_default();
    let (lower, list) =
        (kind.to_lowercase(), if kind.is_empty() { String::new() } else { format!("{kind}List") });
    let or =
        |given: &str, default: &str| if given.is_empty() { default.to_owned() } else { given.to_owned() };
    let all = [
        ("plural", plural.to_owned()),
        ("singular", or(text("singular"), &lower)),
        ("kind", kind.to_owned()),
        ("listKind", or(text("listKind"), &list)),
    ];
    for (key, _) in all.iter().filter(|(_, name)| name.is_empty()) {
        errors.push(FieldError::required(format!("spec.names.{key}"), ""));
    }
    for (key, name) in all.iter().filter(|(_, name)| !name.is_empty()) {
        // Kinds are written in capitals, plurals are part of paths.
        let mixed = key.to_ascii_lowercase().ends_with("kind");
        let lower = if mixed { name.to_lowercase() } else { name.clone() };
        if let Err(problems) = names::check_label_1035(&lower) {
            let start = if mixed { "may have mixed case, but should otherwise match: " } else { "" };
            let detail = format!("{start}{}", problems.join(","));
            errors.push(FieldError::invalid(format!("spec.names.{key}"), name.as_str(), detail));
        }
    }
    check_labels(&names["shortNames"], "spec.names.shortNames", errors);
    if !kind.is_empty() && text("listKind") == kind {
        let why = "kind and listKind may not be the same";
        errors.push(FieldError::invalid("spec.names.listKind", kind, why));
    }
    check_labels(&names["categories"], "spec.names.categories", errors);
}

fn check_labels(all: &Value, field: &str, errors: &mut Vec<FieldError>) {
    for (index, name) in all.as_array().into_iter().flatten().enumerate() {
        let name = name.as_str().unwrap_or_default();
        if let Err(problems) = names::check_label_1035(name) {
            errors.push(FieldError::invalid(format!("{field}[{index}]"), name, problems.join(",")));
        }
    }
}

fn check_versions(definition: &Value, plural: &str, kind: &str, errors: &mut Vec<FieldError>) {
    let versions =
        definition.pointer("/spec/versions").and_then(Value::as_array).cloned().unwrap_or_default();
    let (schema, columns, subresources, selectable) = (
        shared_value(&versions, "/schema/openAPIV3Schema"),
        shared_value(&versions, "/additionalPrinterColumns"),
        shared_value(&versions, "/subresources"),
        shared_value(&versions, "/selectableFields"),
    );
    for (index, version) in versions.iter().enumerate() {
        if version.pointer("/schema/openAPIV3Schema").is_none_or(Value::is_null) {
            let at = format!("spec.versions[{index}].schema.openAPIV3Schema");
            errors.push(FieldError::required(at, ""));
        }
    }
    for (index, version) in versions.iter().enumerate() {
        let at = format!("spec.versions[{index}]");
        let name = version["name"].as_str().unwrap_or_default();
        if let Err(problems) = names::check_label_1035(name) {
            errors.push(FieldError::invalid(format!("{at}.name"), name, problems.join(",")));
        }
        check_warning(version, &at, errors);
        if let (None, Some(own)) = (schema, version.pointer("/schema/openAPIV3Schema")) {
            check_root(own, has_status(version), &format!("{at}.schema.openAPIV3Schema"), errors);
        }
        if subresources.is_none() {
            let at = format!("{at}.subresources.scale");
            check_scale(&version["subresources"]["scale"], &at, errors);
        }
        if columns.is_none() {
            let at = format!("{at}.additionalPrinterColumns");
            check_columns(&version["additionalPrinterColumns"], &at, errors);
        }
        if selectable.is_none() {
            check_selectable(version, &at, errors);
        }
    }
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
    if let Some(name) = versions.first().and_then(|version| version["name"].as_str())
        && !name.is_empty()
        && let Err(problems) = names::check_label_1035(name)
    {
        errors.push(FieldError::invalid("spec.version", name, problems.join(",")));
    }
    check_names(definition, plural, kind, errors);
    if let Some(schema) = schema {
        let status = versions.iter().any(has_status);
        check_root(schema, status, "spec.validation.openAPIV3Schema", errors);
    }
    if let Some(subresources) = subresources {
        check_scale(&subresources["scale"], "spec.subresources.scale", errors);
    }
    if let Some(columns) = columns {
        check_columns(columns, "spec.additionalPrinterColumns", errors);
    }
    if let Some(first) = versions.first().filter(|_| selectable.is_some()) {
        check_selectable(first, "spec", errors);
    }
    check_conversion(definition, errors);
    check_stored(definition, &versions, errors);
}

fn has_status(version: &Value) -> bool {
    version["subresources"]["status"].is_object()
}

/// Checks the deprecation warning of a version.
fn check_warning(version: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let Some(text) = version["deprecationWarning"].as_str() else { return };
    let mut refuse =
        |why: String| errors.push(FieldError::invalid(format!("{at}.deprecationWarning"), text, why));
    if version["deprecated"] != true {
        return refuse("can only be set for deprecated versions".into());
    }
    if text.len() > 256 {
        refuse("must be <= 256 characters long".into());
    }
    if text.is_empty() {
        refuse("must not be an empty string".into());
    }
    if let Some((index, _)) = text.char_indices().find(|(_, c)| c.is_control()) {
        refuse(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        ));
    }
}

/// The schema fields allowed at the root with a status subresource, by their Go name.
const AT_ROOT: [&str; 22] = [
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
];

fn check_root(schema: &Value, status: bool, path: &str, errors: &mut Vec<FieldError>) {
    let kind = schema["type"].as_str().unwrap_or_default();
    if status && !kind.is_empty() && kind != "object" {
        errors.push(FieldError::invalid(
            format!("{path}.type"),
            kind,
            "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled",
        ));
    } else if status
        && schema.as_object().into_iter().flatten().any(|(key, value)| !is_zero(value) && !may_be_root(key))
    {
        let why = format!(
            "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
            AT_ROOT.join(" ")
        );
        errors.push(FieldError::invalid(path, schema.clone(), why));
    }
    errors.extend(check_schema(schema, path));
}

fn is_zero(value: &Value) -> bool {
    matches!(value, Value::Null | Value::Bool(false)) || value.as_str() == Some("")
}

fn may_be_root(key: &str) -> bool {
    match key {
        "x-kubernetes-preserve-unknown-fields" | "x-kubernetes-validations" => true,
        _ => AT_ROOT.iter().any(|name| name.eq_ignore_ascii_case(key)),
    }
}

/// The value all versions share: it is reported once, at the path it had in older definitions.
fn shared_value<'a>(versions: &'a [Value], pointer: &str) -> Option<&'a Value> {
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
        let formats = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
        if !text("format").is_empty() && !formats.contains(&text("format")) {
            let why = format!("must be one of {}", formats.join(","));
            errors.push(FieldError::invalid(format!("{at}.format"), text("format"), why));
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
        if !path.starts_with('.') || (found.is_null() && path != ".metadata") {
            errors.push(FieldError::invalid(at, path, "is an invalid path: does not refer to a valid field"));
            continue;
        }
        if path.starts_with(".metadata") {
            errors.push(FieldError::invalid(&*at, path, "must not point to fields in metadata"));
        }
        if !matches!(found["type"].as_str(), Some("string" | "integer" | "boolean")) {
            let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.push(FieldError::invalid(at, path, why));
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
        None if conversion.is_null() => {}
        Some("None") => {}
        None | Some("") => errors.push(FieldError::required("spec.conversion.strategy", "")),
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
