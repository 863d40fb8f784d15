//! Says whether a schema is structural: complete enough to prune and default by.

use serde_json::{Map, Value};

use super::compile::{StructuralSchema, compile_pattern};
use super::validate;
use crate::depth;
use crate::field_error::FieldError;

/// The position of a schema.
#[derive(Clone, Copy, PartialEq)]
enum SchemaLevel {
    Root,
    Field,
    Item,
}

/// Errors in the order they are reported: what keeps a schema from being structural, sorted; defaults;
/// the rest.
#[derive(Default)]
struct SchemaErrors {
    structural: Vec<FieldError>,
    defaults: Vec<FieldError>,
    schema: Vec<FieldError>,
}

/// Checks a schema; `path` is where it stands (`spec.validation.openAPIV3Schema`).
pub fn check_schema(schema: &Value, path: &str) -> Vec<FieldError> {
    if depth::check_depth(schema).is_err() {
        return vec![FieldError::forbidden(path, depth::TooDeep.to_string())];
    }
    let mut found = SchemaErrors::default();
    match schema.as_object() {
        Some(map) => check_level(map, SchemaLevel::Root, path, &mut found),
        None => found.schema.push(FieldError::required(path, "")),
    }
    found.structural.sort_by_key(ToString::to_string);
    let mut errors = found.structural;
    errors.append(&mut found.defaults);
    errors.append(&mut found.schema);
    errors
}

fn text_field<'a>(schema: &'a Map<String, Value>, key: &str) -> &'a str {
    schema.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn bool_field(schema: &Map<String, Value>, key: &str) -> bool {
    schema.get(key).and_then(Value::as_bool).unwrap_or_default()
}

const UNSUPPORTED: [&str; 12] = [
    "$ref",
    "$schema",
    "id",
    "definitions",
    "dependencies",
    "patternProperties",
    "additionalItems",
    "discriminator",
    "readOnly",
    "writeOnly",
    "xml",
    "deprecated",
];
const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

fn check_level(schema: &Map<String, Value>, level: SchemaLevel, path: &str, found: &mut SchemaErrors) {
    let before = found.schema.len();
    for key in UNSUPPORTED {
        if schema.get(key).is_some_and(|value| !value.is_null() && value != &Value::Bool(false)) {
            let why = format!("{key} is not supported");
            found.schema.push(FieldError::forbidden(format!("{path}.{key}"), why));
        }
    }
    // What cannot be read is not said to be incomplete as well.
    if found.schema.len() == before {
        check_type(schema, level, path, found);
    }
    if bool_field(schema, "uniqueItems") {
        found.schema.push(FieldError::forbidden(
            format!("{path}.uniqueItems"),
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ));
    }
    check_additional(schema, level, path, found);
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        if let Some(property) = property.as_object() {
            check_level(property, SchemaLevel::Field, &format!("{path}.properties[{name}]"), found);
        }
    }
    check_values(schema, path, found);
    if level == SchemaLevel::Root || bool_field(schema, "x-kubernetes-embedded-resource") {
        check_metadata(schema, path, &mut found.structural);
    }
    match schema.get("items") {
        Some(Value::Object(items)) => check_level(items, SchemaLevel::Item, &format!("{path}.items"), found),
        Some(Value::Array(_)) => found.schema.push(FieldError::forbidden(
            format!("{path}.items"),
            "items must be a schema object and not an array",
        )),
        _ if text_field(schema, "type") == "array" => {
            found.structural.push(FieldError::required(format!("{path}.items"), "must be specified"));
        }
        _ => {}
    }
    if bool_field(schema, "x-kubernetes-embedded-resource")
        && !bool_field(schema, "x-kubernetes-preserve-unknown-fields")
        && schema.get("properties").and_then(Value::as_object).is_none_or(Map::is_empty)
    {
        found.structural.push(FieldError::required(
            format!("{path}.properties"),
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
        ));
    }
    if bool_field(schema, "x-kubernetes-int-or-string") {
        for key in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
            if bool_field(schema, key) {
                let why = "must be false if x-kubernetes-int-or-string is true";
                found.structural.push(FieldError::invalid(format!("{path}.{key}"), true, why));
            }
        }
    }
    check_extensions(schema, path, &mut found.schema);
    check_rules(schema, path, &mut found.schema);
    check_default(schema, path, &mut found.defaults);
}

fn check_additional(schema: &Map<String, Value>, level: SchemaLevel, path: &str, found: &mut SchemaErrors) {
    let has_properties =
        schema.get("properties").and_then(Value::as_object).is_some_and(|map| !map.is_empty());
    let at = format!("{path}.additionalProperties");
    match schema.get("additionalProperties") {
        None | Some(Value::Null) => {}
        Some(Value::Bool(false)) => {
            found.schema.push(FieldError::forbidden(at, "additionalProperties cannot be set to false"));
        }
        Some(additional) => {
            if has_properties {
                let why = "additionalProperties and properties are mutual exclusive";
                found.schema.push(FieldError::forbidden(&*at, why));
            }
            if level == SchemaLevel::Root {
                found.structural.push(FieldError::forbidden(&*at, "must not be used at the root"));
            }
            if bool_field(schema, "x-kubernetes-embedded-resource") {
                let why = "must not be used if x-kubernetes-embedded-resource is set";
                found.structural.push(FieldError::forbidden(&*at, why));
            }
            if let Some(additional) = additional.as_object() {
                check_level(additional, SchemaLevel::Field, &at, found);
            }
        }
    }
}

fn check_type(schema: &Map<String, Value>, level: SchemaLevel, path: &str, found: &mut SchemaErrors) {
    let json_type = text_field(schema, "type");
    let at = format!("{path}.type");
    let free = bool_field(schema, "x-kubernetes-int-or-string")
        || bool_field(schema, "x-kubernetes-preserve-unknown-fields");
    if bool_field(schema, "x-kubernetes-embedded-resource") && json_type != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        found.structural.push(if json_type.is_empty() {
            FieldError::required(&*at, detail)
        } else {
            FieldError::invalid(&*at, json_type, detail)
        });
    } else if json_type.is_empty() && !free {
        let detail = match level {
            SchemaLevel::Root => "must not be empty at the root",
            SchemaLevel::Item => "must not be empty for specified array items",
            SchemaLevel::Field => "must not be empty for specified object fields",
        };
        found.structural.push(FieldError::required(&*at, detail));
    }
    if level == SchemaLevel::Root && !json_type.is_empty() && json_type != "object" {
        found.structural.push(FieldError::invalid(&*at, json_type, "must be object at the root"));
    }
    if json_type == "null" {
        let why = "type cannot be set to null, use nullable as an alternative";
        found.schema.push(FieldError::forbidden(at, why));
    } else if !json_type.is_empty() && !TYPES.contains(&json_type) {
        found.schema.push(FieldError::not_supported(at, json_type, TYPES));
    }
}

const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Checks the fields of rules besides their expressions.
fn check_rules(schema: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array);
    for (index, rule) in rules.into_iter().flatten().enumerate() {
        let at = |key: &str| format!("{path}.x-kubernetes-validations[{index}].{key}");
        let of = |key: &str| rule[key].as_str().unwrap_or_default();
        let broken = |text: &str| text.contains(['\n', '\r']);
        let empty = "must be non-empty if specified";
        let message = of("message").trim();
        if of("rule").trim().is_empty() {
            errors.push(FieldError::required(at("rule"), "rule is not specified"));
        } else if !of("message").is_empty() && message.is_empty() {
            errors.push(FieldError::invalid(at("message"), of("message"), empty));
        } else if broken(message) {
            errors.push(FieldError::invalid(at("message"), of("message"), "must not contain line breaks"));
        } else if broken(of("rule").trim()) && message.is_empty() {
            let why = "message must be specified if rule contains line breaks";
            errors.push(FieldError::required(at("message"), why));
        }
        if !of("messageExpression").is_empty() && of("messageExpression").trim().is_empty() {
            let why = "messageExpression must be non-empty if specified";
            errors.push(FieldError::required(at("messageExpression"), why));
        }
        if let Some(reason) = rule["reason"].as_str().filter(|reason| !REASONS.contains(reason)) {
            errors.push(FieldError::not_supported(at("reason"), reason, REASONS));
        }
        let field = of("fieldPath");
        if !field.is_empty() {
            if field.trim().is_empty() {
                errors.push(FieldError::invalid(at("fieldPath"), field, empty));
            }
            if broken(field) {
                errors.push(FieldError::invalid(at("fieldPath"), field, "must not contain line breaks"));
            }
            if !is_path(schema, field) {
                errors.push(FieldError::invalid(at("fieldPath"), field, "must be a valid path"));
            }
        }
    }
}

/// Returns true if a path of names (`.a['b'].c`) leads to a field.
fn is_path(schema: &Map<String, Value>, path: &str) -> bool {
    let (mut schema, mut rest) = (schema, path);
    while !rest.is_empty() {
        let (name, after) = if let Some(quoted) = rest.strip_prefix("['") {
            match quoted.split_once("']") {
                Some(parts) => parts,
                None => return false,
            }
        } else if let Some(named) = rest.strip_prefix('.') {
            named.split_at(named.find(['.', '[']).unwrap_or(named.len()))
        } else {
            return false;
        };
        let properties = schema.get("properties").and_then(|properties| properties.get(name));
        match properties.or_else(|| schema.get("additionalProperties")).and_then(Value::as_object) {
            Some(next) => (schema, rest) = (next, after),
            None => return false,
        }
    }
    true
}

fn check_extensions(schema: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    let json_type = text_field(schema, "type");
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        errors.push(FieldError::invalid(
            format!("{path}.x-kubernetes-preserve-unknown-fields"),
            false,
            "must be true or undefined",
        ));
    }
    let given = |key: &str| schema.get(key).is_some_and(Value::is_string);
    let list_type = text_field(schema, "x-kubernetes-list-type");
    if given("x-kubernetes-list-type") && json_type != "array" {
        let at = format!("{path}.type");
        let detail = "must be array if x-kubernetes-list-type is specified";
        errors.push(if json_type.is_empty() {
            FieldError::required(at, detail)
        } else {
            FieldError::invalid(at, json_type, detail)
        });
    }
    if given("x-kubernetes-list-type") && !matches!(list_type, "atomic" | "set" | "map") {
        errors.push(FieldError::not_supported(
            format!("{path}.x-kubernetes-list-type"),
            list_type,
            ["atomic", "set", "map"],
        ));
    }
    let items = schema.get("items").and_then(Value::as_object);
    let keys: Vec<&str> = schema
        .get("x-kubernetes-list-map-keys")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let keys_at = format!("{path}.x-kubernetes-list-map-keys");
    if list_type == "map" {
        if keys.is_empty() {
            errors.push(FieldError::required(keys_at, "must not be empty if x-kubernetes-list-type is map"));
        } else if let Some(items) = items {
            check_map_keys(&keys, items, path, errors);
        } else if schema.get("items").is_none_or(Value::is_null) {
            let why = "must have a schema if x-kubernetes-list-type is map";
            errors.push(FieldError::required(format!("{path}.items"), why));
        }
    } else if !keys.is_empty() {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        let at = format!("{path}.x-kubernetes-list-type");
        errors.push(if given("x-kubernetes-list-type") {
            FieldError::invalid(at, list_type, detail)
        } else {
            FieldError::required(at, detail)
        });
    }
    if list_type == "set"
        && let Some(items) = items
    {
        let is_atomic = match text_field(items, "type") {
            "object" => text_field(items, "x-kubernetes-map-type") == "atomic",
            "array" => matches!(text_field(items, "x-kubernetes-list-type"), "" | "atomic"),
            _ => true,
        };
        if bool_field(items, "nullable") {
            errors.push(FieldError::forbidden(
                format!("{path}.items.nullable"),
                "cannot be nullable when x-kubernetes-list-type is set",
            ));
        }
        if !is_atomic {
            let key = if text_field(items, "type") == "object" {
                "x-kubernetes-map-type"
            } else {
                "x-kubernetes-list-type"
            };
            errors.push(FieldError::invalid(
                format!("{path}.items.{key}"),
                items.get(key).cloned().unwrap_or(Value::Null),
                "must be atomic as item of a list with x-kubernetes-list-type=set",
            ));
        }
    }
    let map_type = text_field(schema, "x-kubernetes-map-type");
    if given("x-kubernetes-map-type") && json_type != "object" {
        let at = format!("{path}.type");
        let detail = "must be object if x-kubernetes-map-type is specified";
        errors.push(if json_type.is_empty() {
            FieldError::required(at, detail)
        } else {
            FieldError::invalid(at, json_type, detail)
        });
    }
    if given("x-kubernetes-map-type") && !matches!(map_type, "atomic" | "granular") {
        errors.push(FieldError::not_supported(
            format!("{path}.x-kubernetes-map-type"),
            map_type,
            ["atomic", "granular"],
        ));
    }
}

fn check_map_keys(keys: &[&str], items: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    if text_field(items, "type") != "object" {
        errors.push(FieldError::invalid(
            format!("{path}.items.type"),
            text_field(items, "type"),
            "must be object if parent array's x-kubernetes-list-type is map",
        ));
    }
    let required: Vec<&str> = items
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for key in keys {
        match items.get("properties").and_then(|properties| properties.get(*key)) {
            None => errors.push(FieldError::invalid(
                format!("{path}.x-kubernetes-list-map-keys"),
                keys.iter().map(|key| Value::from(*key)).collect::<Vec<_>>(),
                "entries must all be names of item properties",
            )),
            Some(property) => {
                if property.get("default").is_none_or(Value::is_null) && !required.contains(key) {
                    errors.push(FieldError::required(
                        format!("{path}.items.properties[{key}].default"),
                        "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
                    ));
                }
                if matches!(property.get("type").and_then(Value::as_str), Some("object" | "array")) {
                    errors.push(FieldError::invalid(
                        format!("{path}.items.properties[{key}].type"),
                        property["type"].clone(),
                        "must be a scalar type if parent array's x-kubernetes-list-type is map",
                    ));
                }
            }
        }
    }
    if keys.iter().enumerate().any(|(at, key)| keys[..at].contains(key)) {
        errors.push(FieldError::invalid(
            format!("{path}.x-kubernetes-list-map-keys"),
            keys.iter().map(|key| Value::from(*key)).collect::<Vec<_>>(),
            "must not contain duplicate entries",
        ));
    }
}

fn check_metadata(schema: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    for key in ["apiVersion", "kind"] {
        if let Some(json_type) = properties.get(key).and_then(|p| p.get("type")).and_then(Value::as_str)
            && json_type != "string"
        {
            errors.push(FieldError::invalid(
                format!("{path}.properties[{key}].type"),
                json_type,
                "must be string",
            ));
        }
    }
    let Some(metadata) = properties.get("metadata").and_then(Value::as_object) else { return };
    let at = format!("{path}.properties[metadata]");
    if let Some(json_type) = metadata.get("type").and_then(Value::as_str)
        && json_type != "object"
    {
        errors.push(FieldError::invalid(format!("{at}.type"), json_type, "must be object"));
    }
    let more =
        metadata.keys().any(|key| !matches!(key.as_str(), "type" | "properties" | "description" | "title"))
            || metadata.get("properties").and_then(Value::as_object).is_some_and(|inner| {
                inner.keys().any(|key| !matches!(key.as_str(), "name" | "generateName"))
            });
    if more {
        errors.push(FieldError::forbidden(
            at,
            "must not specify anything other than name and generateName, but metadata is implicitly specified",
        ));
    }
}

/// Checks conditions on values, and what may not stand inside them.
fn check_values(schema: &Map<String, Value>, path: &str, found: &mut SchemaErrors) {
    let regex = text_field(schema, "pattern");
    if !regex.is_empty()
        && let Err(error) = compile_pattern(regex)
    {
        found.schema.push(FieldError::invalid(
            format!("{path}.pattern"),
            regex,
            format!("must be a valid regular expression, but isn't: {error}"),
        ));
    }
    let int_or_string = bool_field(schema, "x-kubernetes-int-or-string");
    for key in ["allOf", "anyOf", "oneOf"] {
        let branches = schema.get(key).and_then(Value::as_array).into_iter().flatten();
        for (index, branch) in branches.enumerate() {
            if let Some(branch) = branch.as_object() {
                check_branch(branch, &format!("{path}.{key}[{index}]"), int_or_string, found);
            }
        }
    }
    if let Some(not) = schema.get("not").and_then(Value::as_object) {
        check_branch(not, &format!("{path}.not"), false, found);
    }
}

fn check_branch(branch: &Map<String, Value>, path: &str, int_or_string: bool, found: &mut SchemaErrors) {
    let mut forbid = |key: &str, detail: &str| {
        found.structural.push(FieldError::forbidden(format!("{path}.{key}"), detail));
    };
    for key in ["description", "title", "type"] {
        // `anyOf: [{type: integer}, {type: string}]` is how int-or-string is said twice.
        let allowed =
            key == "type" && int_or_string && matches!(text_field(branch, "type"), "integer" | "string");
        if !text_field(branch, key).is_empty() && !allowed {
            forbid(key, "must be empty to be structural");
        }
    }
    for key in ["default", "additionalProperties"] {
        if branch.get(key).is_some_and(|value| !value.is_null()) {
            forbid(key, "must be undefined to be structural");
        }
    }
    for key in ["nullable", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"] {
        if bool_field(branch, key) {
            forbid(key, "must be false to be structural");
        }
    }
    for key in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-list-type", "x-kubernetes-map-type"] {
        if branch.get(key).is_some_and(|value| !value.is_null()) {
            forbid(key, "must be undefined to be structural");
        }
    }
    if branch.get("x-kubernetes-list-map-keys").and_then(Value::as_array).is_some_and(|keys| !keys.is_empty())
    {
        forbid("x-kubernetes-list-map-keys", "must be empty to be structural");
    }
    if branch.get("x-kubernetes-validations").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty())
    {
        forbid("x-kubernetes-validations", "must be empty to be structural");
    }
    check_values(branch, path, found);
    for (name, property) in branch.get("properties").and_then(Value::as_object).into_iter().flatten() {
        if let Some(property) = property.as_object() {
            check_branch(property, &format!("{path}.properties[{name}]"), false, found);
        }
    }
    if let Some(items) = branch.get("items").and_then(Value::as_object) {
        check_branch(items, &format!("{path}.items"), false, found);
    }
}

/// A default must be valid by its own schema.
fn check_default(schema: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    let Some(default) = schema.get("default").filter(|default| !default.is_null()) else { return };
    let structural = StructuralSchema::parse(&Value::Object(schema.clone()));
    for mut error in validate::validate_default(default, &structural) {
        let dot = if error.field.is_empty() { "" } else { "." };
        error.field = format!("{path}.default{dot}{}", error.field);
        errors.push(error);
    }
}
