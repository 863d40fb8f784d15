//! Checks values against a schema, with the texts a server answers.

use std::collections::HashSet;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::compile::{JsonType, Structural};
use super::formats;
use crate::field_error::FieldError;
use crate::schema::ListKind;

/// Checks a whole object.
pub(super) fn object(object: &Value, schema: &Structural) -> Vec<FieldError> {
    let mut errors = Vec::new();
    value(object, schema, &mut String::new(), &mut errors);
    lists(object, schema, &mut String::new(), &mut errors);
    errors
}

/// Checks one value as if it stood alone, as defaults are.
pub(super) fn alone(value: &Value, schema: &Structural) -> Vec<FieldError> {
    object(value, schema)
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) => {
            let whole =
                number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|n| n.fract() == 0.0);
            if whole { "integer" } else { "number" }
        }
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn fits(schema: &Structural, value: &Value) -> Result<(), &'static str> {
    let found = type_name(value);
    if schema.int_or_string {
        return if matches!(found, "integer" | "string") { Ok(()) } else { Err("integer,string") };
    }
    let (expected, fits) = match schema.json_type {
        None => return Ok(()),
        Some(JsonType::Object) => ("object", found == "object"),
        Some(JsonType::Array) => ("array", found == "array"),
        Some(JsonType::String) => ("string", found == "string"),
        Some(JsonType::Integer) => ("integer", found == "integer"),
        Some(JsonType::Number) => ("number", matches!(found, "integer" | "number")),
        Some(JsonType::Boolean) => ("boolean", found == "boolean"),
    };
    if fits { Ok(()) } else { Err(expected) }
}

/// How a number misses the format of its type.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Misfit {
    TooBig,
    /// It has a fraction, or is more than any integer.
    NoInteger,
}

fn type_word(schema: &Structural) -> &'static str {
    if schema.json_type == Some(JsonType::Integer) { "integer" } else { "number" }
}

fn misformed(schema: &Structural, value: &Value) -> Option<Misfit> {
    let number = value.as_f64()?;
    match (schema.json_type, schema.checks.format.as_deref()?) {
        (Some(JsonType::Integer), "int32" | "int64")
            if number.fract() != 0.0 || (!value.is_i64() && number.abs() >= i64::MAX as f64) =>
        {
            Some(Misfit::NoInteger)
        }
        (Some(JsonType::Integer), "int32")
            if number.abs() > f64::from(i32::MAX) && number != f64::from(i32::MIN) =>
        {
            Some(Misfit::TooBig)
        }
        (Some(JsonType::Number), "float") if number.abs() > f64::from(f32::MAX) => Some(Misfit::TooBig),
        _ => None,
    }
}

fn value(value: &Value, schema: &Structural, path: &mut String, errors: &mut Vec<FieldError>) {
    if value.is_null() && schema.nullable {
        return;
    }
    if let Some(misfit) = misformed(schema, value) {
        let (kind, format) = (type_word(schema), schema.checks.format.as_deref().unwrap_or(""));
        errors.push(FieldError::invalid(
            &*path,
            "",
            format!("Checked value must be of type {kind} with format {format} in {path}"),
        ));
        if misfit == Misfit::NoInteger {
            let why = format!("{path} in body must be of type {format}: \"float64\"");
            errors.push(FieldError::type_invalid(&*path, "float64", why));
            return;
        }
    } else if let Err(expected) = fits(schema, value) {
        let found = type_name(value);
        errors.push(FieldError::type_invalid(
            &*path,
            found,
            format!("{path} in body must be of type {expected}: \"{found}\""),
        ));
        return;
    }
    branches(value, schema, path, errors);
    match value {
        Value::String(text) => string(text, schema, path, errors),
        Value::Number(_) => number(value, schema, path, errors),
        Value::Array(items) => array(items, schema, path, errors),
        Value::Object(map) => members(map, schema, path, errors),
        Value::Null | Value::Bool(_) => {}
    }
    let values = &schema.checks.values;
    if !values.is_empty() && !values.iter().any(|allowed| same(allowed, value)) {
        let mut allowed: Vec<String> = values
            .iter()
            .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            .collect();
        allowed.sort();
        errors.push(FieldError::not_supported(&*path, value.clone(), allowed.iter().map(String::as_str)));
    }
}

fn same(a: &Value, b: &Value) -> bool {
    a == b || (a.is_number() && b.is_number() && a.as_f64() == b.as_f64())
}

fn string(text: &str, schema: &Structural, path: &str, errors: &mut Vec<FieldError>) {
    let checks = &schema.checks;
    let length = text.chars().count() as u64;
    let invalid = |detail: String| FieldError::invalid(path, text, format!("{path} in body {detail}"));
    if let Some(limit) = checks.max_length.filter(|limit| length > *limit) {
        errors.push(FieldError::too_long(path, limit));
        return;
    }
    if let Some(limit) = checks.min_length.filter(|limit| length < *limit) {
        errors.push(invalid(format!("should be at least {limit} chars long")));
        return;
    }
    if let Some((pattern, Some(regex))) = &checks.pattern
        && !regex.is_match(text)
    {
        errors.push(invalid(format!("should match '{pattern}'")));
    }
    if let Some(format) = &checks.format
        && !schema.int_or_string
        && !formats::matches(format, text)
    {
        errors.push(FieldError::type_invalid(
            path,
            text,
            format!("{path} in body must be of type {format}: {text:?}"),
        ));
    }
}

fn number(value: &Value, schema: &Structural, path: &str, errors: &mut Vec<FieldError>) {
    let checks = &schema.checks;
    let Some(number) = value.as_f64() else { return };
    let mut invalid = |detail: String| {
        errors.push(FieldError::invalid(path, value.clone(), format!("{path} in body {detail}")));
    };
    if let Some(factor) = checks.multiple_of
        && (number / factor).fract() != 0.0
    {
        invalid(format!("should be a multiple of {factor}"));
    }
    match checks.maximum {
        Some((bound, true)) if number >= bound => invalid(format!("should be less than {bound}")),
        Some((bound, false)) if number > bound => invalid(format!("should be less than or equal to {bound}")),
        _ => {}
    }
    match checks.minimum {
        Some((bound, true)) if number <= bound => invalid(format!("should be greater than {bound}")),
        Some((bound, false)) if number < bound => {
            invalid(format!("should be greater than or equal to {bound}"));
        }
        _ => {}
    }
}

fn array(items: &[Value], schema: &Structural, path: &mut String, errors: &mut Vec<FieldError>) {
    let checks = &schema.checks;
    let length = path.len();
    if let Some(item) = &schema.items {
        for (index, inner) in items.iter().enumerate() {
            let _ = write!(path, "[{index}]");
            value(inner, item, path, errors);
            path.truncate(length);
        }
    }
    let count = items.len() as u64;
    if let Some(limit) = checks.min_items.filter(|limit| count < *limit) {
        errors.push(FieldError::invalid(
            &**path,
            count,
            format!("{path} in body should have at least {limit} items"),
        ));
    }
    if let Some(limit) = checks.max_items.filter(|limit| count > *limit) {
        errors.push(FieldError::too_many(&**path, items.len(), limit));
    }
    if checks.unique_items && items.iter().map(canonical).collect::<HashSet<_>>().len() != items.len() {
        errors.push(FieldError::duplicate(&**path, Value::Array(items.to_vec())));
    }
}

fn members(map: &Map<String, Value>, schema: &Structural, path: &mut String, errors: &mut Vec<FieldError>) {
    let checks = &schema.checks;
    let length = path.len();
    let join = |path: &str, key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    let count = map.len() as u64;
    if let Some(limit) = checks.min_properties.filter(|limit| count < *limit) {
        errors.push(FieldError::invalid(
            &**path,
            count,
            format!("{path} in body should have at least {limit} properties"),
        ));
    }
    if let Some(limit) = checks.max_properties.filter(|limit| count > *limit) {
        errors.push(FieldError::too_many(&**path, map.len(), limit));
    }
    if schema.embedded_resource {
        for key in ["apiVersion", "kind"] {
            if map.get(key).and_then(Value::as_str).is_none_or(str::is_empty) {
                errors.push(FieldError::required(join(path, key), ""));
            }
        }
    }
    for (key, inner) in map {
        if let Some(child) = schema.property(key).or(schema.additional.as_deref()) {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(key);
            value(inner, child, path, errors);
            path.truncate(length);
        }
    }
    for key in schema.required.iter().filter(|key| !map.contains_key(*key)) {
        errors.push(FieldError::required(join(path, key), ""));
    }
}

/// `allOf`, `anyOf`, `oneOf` and `not`.
fn branches(inner: &Value, schema: &Structural, path: &mut String, errors: &mut Vec<FieldError>) {
    let checks = &schema.checks;
    let mut against = |branch: &Structural| {
        let mut found = Vec::new();
        value(inner, branch, path, &mut found);
        found
    };
    let any: Vec<_> = checks.any_of.iter().map(&mut against).collect();
    let one: Vec<_> = checks.one_of.iter().map(&mut against).collect();
    let all: Vec<_> = checks.all_of.iter().flat_map(&mut against).collect();
    let not = checks.not.as_deref().map(&mut against);
    let mut invalid =
        |detail: &str| errors.push(FieldError::invalid(&**path, "", format!("{path:?} {detail}")));
    let mut nearest = Vec::new();
    if !any.is_empty() && any.iter().all(|found| !found.is_empty()) {
        invalid("must validate at least one schema (anyOf)");
        nearest.extend(any.into_iter().min_by_key(Vec::len));
    }
    match one.iter().filter(|found| found.is_empty()).count() {
        1 => {}
        0 if one.is_empty() => {}
        0 => {
            invalid("must validate one and only one schema (oneOf). Found none valid");
            nearest.extend(one.into_iter().min_by_key(Vec::len));
        }
        many => invalid(&format!(
            "must validate one and only one schema (oneOf). Found {many} valid alternatives"
        )),
    }
    if not.is_some_and(|found| found.is_empty()) {
        invalid("must not validate the schema (not)");
    }
    if !all.is_empty() {
        invalid("must validate all the schemas (allOf)");
    }
    errors.extend(nearest.into_iter().flatten());
    errors.extend(all);
}

/// Text that is equal for equal values.
fn canonical(value: &Value) -> String {
    let mut value = value.clone();
    value.sort_all_objects();
    value.to_string()
}

/// Items of sets and keyed lists may stand once.
fn lists(value: &Value, schema: &Structural, path: &mut String, errors: &mut Vec<FieldError>) {
    let length = path.len();
    match value {
        Value::Array(items) => {
            let mut seen = HashSet::new();
            for (index, item) in items.iter().enumerate() {
                let _ = write!(path, "[{index}]");
                match &schema.list {
                    ListKind::Set => {
                        if !seen.insert(canonical(item)) {
                            errors.push(FieldError::duplicate(&**path, item.clone()));
                        }
                    }
                    ListKind::Map(keys) => {
                        let key: Map<String, Value> = keys
                            .iter()
                            .filter_map(|key| Some((key.clone(), item.get(key)?.clone())))
                            .collect();
                        let key = Value::Object(key);
                        if !seen.insert(canonical(&key)) {
                            errors.push(FieldError::duplicate(&**path, key));
                        }
                    }
                    ListKind::Atomic => {}
                }
                if let Some(item_schema) = &schema.items {
                    lists(item, item_schema, path, errors);
                }
                path.truncate(length);
            }
        }
        Value::Object(map) => {
            for (key, value) in map {
                if let Some(child) = schema.property(key).or(schema.additional.as_deref()) {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(key);
                    lists(value, child, path, errors);
                    path.truncate(length);
                }
            }
        }
        _ => {}
    }
}
