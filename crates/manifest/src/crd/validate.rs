//! Checks values against a schema, with the texts a server answers.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::compile::{JsonType, StructuralSchema};
use super::formats;
use crate::field_error::FieldError;
use crate::schema::ListKind;

/// Checks a whole object.
pub(super) fn validate_object(object: &Value, schema: &StructuralSchema) -> Vec<FieldError> {
    let mut errors = validate_values(object, schema);
    errors.extend(validate_items(object, schema));
    errors
}

/// Checks the values of an object, not whether items of lists stand there twice.
pub(super) fn validate_values(object: &Value, schema: &StructuralSchema) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_value(object, schema, &mut String::new(), &mut errors);
    errors
}

/// Checks that items of lists stand there once.
pub(super) fn validate_items(object: &Value, schema: &StructuralSchema) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_lists(object, schema, &mut String::new(), &mut errors);
    errors
}

/// Checks one value as if it stood alone, as defaults are.
pub(super) fn validate_default(value: &Value, schema: &StructuralSchema) -> Vec<FieldError> {
    validate_object(value, schema)
}

/// The type of a value as JSON has it, and as Go holds it.
fn type_of(value: &Value) -> (&'static str, &'static str) {
    match value {
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::Number(number) if number.is_i64() => ("integer", "int64"),
        Value::Number(_) => ("number", "float64"),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
    }
}

/// Returns true if a number written with a point is an integer.
fn is_whole(value: &Value) -> bool {
    value.as_f64().is_some_and(is_whole_number)
}

fn is_whole_number(number: f64) -> bool {
    number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_991.0
}

/// Returns an error if a value is not of its schema's type.
fn type_error(schema: &StructuralSchema, value: &Value, path: &str) -> Option<FieldError> {
    let (found, held) = type_of(value);
    let expected = match schema.json_type {
        _ if schema.int_or_string => "integer,string",
        None => return None,
        Some(JsonType::Object) => "object",
        Some(JsonType::Array) => "array",
        Some(JsonType::String) => "string",
        Some(JsonType::Integer) => "integer",
        Some(JsonType::Number) => "number",
        Some(JsonType::Boolean) => "boolean",
    };
    let numeric = matches!(expected, "integer" | "number" | "integer,string");
    let named = expected.split(',').any(|word| word == found);
    let fits = named || (found == "integer" && numeric) || (found == "number" && numeric && is_whole(value));
    let error = |expected: &str, found: &str| {
        let why = format!("{path} in body must be of type {expected}: \"{found}\"");
        Some(FieldError::type_invalid(path, found, why))
    };
    match schema.checks.format.as_deref().filter(|format| !format.is_empty()) {
        Some(format) if !value.is_null() => match value {
            // The format of a list is not checked.
            Value::String(_) | Value::Array(_) if !numeric => None,
            Value::String(_) | Value::Array(_) if !fits => error(expected, found),
            _ if !fits => error(format, held),
            _ => None,
        },
        _ if !fits => error(expected, found),
        _ => None,
    }
}

fn check_value(value: &Value, schema: &StructuralSchema, path: &mut String, errors: &mut Vec<FieldError>) {
    if value.is_null() && schema.nullable {
        return;
    }
    errors.extend(type_error(schema, value, path));
    if !value.is_null() {
        check_branches(value, schema, path, errors);
    }
    match value {
        Value::String(text) => check_string(text, schema, path, errors),
        Value::Number(_) => check_number(value, schema, path, errors),
        Value::Array(items) => check_array(items, schema, path, errors),
        Value::Object(_) | Value::Null | Value::Bool(_) => {}
    }
    let values = &schema.checks.values;
    if !values.is_empty() && !values.iter().any(|allowed| is_same_value(allowed, value)) {
        let allowed: Vec<String> = values
            .iter()
            .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            .collect();
        errors.push(FieldError::not_supported(&*path, value.clone(), allowed.iter().map(String::as_str)));
    }
    if let Value::Object(map) = value {
        check_members(map, schema, path, errors);
    }
}

fn is_same_value(a: &Value, b: &Value) -> bool {
    a == b || (a.is_number() && b.is_number() && a.as_f64() == b.as_f64())
}

fn check_string(text: &str, schema: &StructuralSchema, path: &str, errors: &mut Vec<FieldError>) {
    let checks = &schema.checks;
    let length = text.chars().count() as u64;
    let invalid = |detail: String| FieldError::invalid(path, text, format!("{path} in body {detail}"));
    if let Some(limit) = checks.max_length.filter(|limit| length > *limit) {
        errors.push(FieldError::too_long(path, limit));
    } else if let Some(limit) = checks.min_length.filter(|limit| length < *limit) {
        errors.push(invalid(format!("should be at least {limit} chars long")));
    } else if let Some((pattern, Some(regex))) = &checks.pattern
        && !regex.is_match(text)
    {
        errors.push(invalid(format!("should match '{pattern}'")));
    }
    if let Some(format) = &checks.format
        && !schema.int_or_string
        && !formats::matches_format(format, text)
    {
        errors.push(FieldError::type_invalid(
            path,
            text,
            format!("{path} in body must be of type {format}: {text:?}"),
        ));
    }
}

/// A number, or the bound of one, that its type and format cannot hold.
fn out_of_range(value: &Value, schema: &StructuralSchema, what: &str, path: &str) -> Option<FieldError> {
    let format = schema.checks.format.as_deref().unwrap_or("");
    let number = value.as_f64()?;
    let (kind, held) = match (schema.json_type?, format) {
        (JsonType::Integer, "int32") => (
            "integer",
            number.fract() == 0.0 && number.abs() <= f64::from(i32::MAX) || number == f64::from(i32::MIN),
        ),
        (JsonType::Integer, _) => {
            ("integer", value.is_i64() || (number.fract() == 0.0 && number.abs() < i64::MAX as f64))
        }
        (JsonType::Number, "float") => ("number", number.abs() <= f64::from(f32::MAX)),
        _ => return None,
    };
    let format =
        if format.is_empty() { "(default format)".to_owned() } else { format!("with format {format}") };
    let why = format!("{what} value must be of type {kind} {format} in {path}");
    (!held).then(|| FieldError::invalid(path, "", why))
}

fn check_number(value: &Value, schema: &StructuralSchema, path: &str, errors: &mut Vec<FieldError>) {
    let checks = &schema.checks;
    let Some(number) = value.as_f64() else { return };
    if !schema.int_or_string {
        errors.extend(out_of_range(value, schema, "Checked", path));
    }
    // Bounds of integers are integers, unless they do not fit.
    let mut native = |bound: f64, what: &str| {
        let odd = out_of_range(&Value::from(bound), schema, what, path);
        let native = odd.is_none() && value.is_i64();
        errors.extend(odd);
        if native { bound.trunc() } else { bound }
    };
    let factor = checks.multiple_of.map(|factor| native(factor, "MultipleOf"));
    let least = checks.minimum.map(|(bound, open)| (native(bound, "Minimum boundary"), open));
    let most = checks.maximum.map(|(bound, open)| (native(bound, "Maximum boundary"), open));
    let mut invalid = |detail: String| {
        errors.push(FieldError::invalid(path, value.clone(), format!("{path} in body {detail}")));
    };
    match factor {
        Some(factor) if factor <= 0.0 => {
            let why = format!("factor MultipleOf declared for {path} must be positive: {factor}");
            errors.push(FieldError::invalid(path, bound_value(factor), why));
        }
        Some(factor)
            if !is_whole_number(if factor < 1.0 { number * (1.0 / factor) } else { number / factor }) =>
        {
            invalid(format!("should be a multiple of {factor}"));
        }
        _ => {}
    }
    let mut invalid = |detail: String| {
        errors.push(FieldError::invalid(path, value.clone(), format!("{path} in body {detail}")));
    };
    match least {
        Some((bound, true)) if number <= bound => invalid(format!("should be greater than {bound}")),
        Some((bound, false)) if number < bound => {
            invalid(format!("should be greater than or equal to {bound}"));
        }
        _ => {}
    }
    match most {
        Some((bound, true)) if number >= bound => invalid(format!("should be less than {bound}")),
        Some((bound, false)) if number > bound => invalid(format!("should be less than or equal to {bound}")),
        _ => {}
    }
}

/// A bound as it is shown.
fn bound_value(number: f64) -> Value {
    if is_whole_number(number) { Value::from(number as i64) } else { Value::from(number) }
}

fn check_array(items: &[Value], schema: &StructuralSchema, path: &mut String, errors: &mut Vec<FieldError>) {
    let checks = &schema.checks;
    let length = path.len();
    if let Some(item) = &schema.items {
        for (index, inner) in items.iter().enumerate() {
            let _ = write!(path, "[{index}]");
            check_value(inner, item, path, errors);
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
    if checks.unique_items && items.iter().map(canonical_text).collect::<HashSet<_>>().len() != items.len() {
        errors.push(FieldError::duplicate(&**path, Value::Array(items.to_vec())));
    }
}

fn check_members(
    map: &Map<String, Value>,
    schema: &StructuralSchema,
    path: &mut String,
    errors: &mut Vec<FieldError>,
) {
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
            check_value(inner, child, path, errors);
            path.truncate(length);
        }
    }
    for key in schema.required.iter().filter(|key| !map.contains_key(*key)) {
        errors.push(FieldError::required(join(path, key), ""));
    }
}

/// In how many places something is wrong.
fn count_places(errors: &[FieldError]) -> usize {
    errors.iter().map(|error| error.field.as_str()).collect::<HashSet<_>>().len()
}

/// `allOf`, `anyOf`, `oneOf` and `not`.
fn check_branches(inner: &Value, schema: &StructuralSchema, path: &mut String, errors: &mut Vec<FieldError>) {
    let checks = &schema.checks;
    let mut against = |branch: &StructuralSchema| {
        let mut found = Vec::new();
        check_value(inner, branch, path, &mut found);
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
        nearest.extend(any.into_iter().min_by_key(|found| count_places(found)));
    }
    match one.iter().filter(|found| found.is_empty()).count() {
        1 => {}
        0 if one.is_empty() => {}
        0 => {
            invalid("must validate one and only one schema (oneOf). Found none valid");
            nearest.extend(one.into_iter().min_by_key(|found| count_places(found)));
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
fn canonical_text(value: &Value) -> String {
    let mut value = value.clone();
    value.sort_all_objects();
    value.to_string()
}

/// Items of sets and keyed lists may stand once.
fn check_lists(value: &Value, schema: &StructuralSchema, path: &mut String, errors: &mut Vec<FieldError>) {
    let length = path.len();
    match value {
        Value::Array(items) => {
            check_repeated(items, schema, path, errors);
            for (index, item) in items.iter().enumerate() {
                let _ = write!(path, "[{index}]");
                if let Some(item_schema) = &schema.items {
                    check_lists(item, item_schema, path, errors);
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
                    check_lists(value, child, path, errors);
                    path.truncate(length);
                }
            }
        }
        _ => {}
    }
}

/// Reports items that occur twice in a set or keyed list; a third time is not reported.
fn check_repeated(items: &[Value], schema: &StructuralSchema, path: &str, errors: &mut Vec<FieldError>) {
    let keys = match &schema.list {
        ListKind::Atomic => return,
        ListKind::Set => None,
        ListKind::Map(keys) => Some(keys),
    };
    if keys.is_some()
        && let Some(odd) = items.iter().position(|item| !item.is_object() && !item.is_null())
    {
        let why = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid(format!("{path}[{odd}]"), items[odd].clone(), why));
        return;
    }
    let mut seen: HashMap<String, usize> = HashMap::new();
    for (index, item) in items.iter().enumerate() {
        let key = keys.map_or_else(
            || item.clone(),
            |keys| keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone()))).collect(),
        );
        let times = seen.entry(canonical_text(&key)).or_default();
        *times += 1;
        if *times == 2 {
            errors.push(FieldError::duplicate(format!("{path}[{index}]"), key));
        }
    }
}
