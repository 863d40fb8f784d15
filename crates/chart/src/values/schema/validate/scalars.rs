//! Checks of one value against the keywords for types, numbers and strings.

use serde_json::{Map, Number, Value};
use slipway_go::regexp::Regexp;

use super::super::{format, get};
use super::{Outcome, Path, sorted_entries};

fn is_whole(number: &Number) -> bool {
    number.as_f64().is_none_or(|number| number.fract() == 0.0)
}

pub(super) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if is_whole(number) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns the expected types, if the value has none of them.
pub(super) fn wrong_type(map: &Map<String, Value>, value: &Value) -> Option<String> {
    let types: Vec<&str> = match get(map, "type")? {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    let given = type_of(value);
    let fits = types.iter().any(|kind| *kind == given || (*kind == "number" && given == "integer"));
    match types.as_slice() {
        [] => None,
        _ if fits => None,
        [one] => Some((*one).to_owned()),
        several => Some(format!("[{}]", several.join(","))),
    }
}

pub(super) fn check_common(map: &Map<String, Value>, value: &Value, path: &Path<'_>, out: &mut Outcome) {
    if let Some(wanted) = get(map, "const")
        && !is_equal(wanted, value)
    {
        out.add_finding(path, format!("{path} does not match: {}", go_json(wanted)));
    }
    if let Some(Value::Array(allowed)) = get(map, "enum")
        && !allowed.iter().any(|allowed| is_equal(allowed, value))
    {
        let allowed: Vec<String> = allowed.iter().map(go_json).collect();
        out.add_finding(path, format!("{path} must be one of the following: {}", allowed.join(", ")));
    }
    out.score += 1;
}

pub(super) fn check_number(map: &Map<String, Value>, number: &Number, path: &Path<'_>, out: &mut Outcome) {
    let Some(value) = number.as_f64() else { return };
    let bound = |key: &str| get(map, key).and_then(Value::as_f64);
    let flagged = |key: &str| get(map, key) == Some(&Value::Bool(true));
    if let Some(step) = bound("multipleOf")
        && step != 0.0
    {
        let times = value / step;
        if (times - times.round()).abs() > 1e-9 * times.abs().max(1.0) {
            out.add_finding(path, format!("Must be a multiple of {}", number_text(step)));
        }
    }
    if let Some(most) = bound("maximum") {
        if flagged("exclusiveMaximum") {
            if value >= most {
                out.add_finding(path, format!("Must be less than {}", number_text(most)));
            }
        } else if value > most {
            out.add_finding(path, format!("Must be less than or equal to {}", number_text(most)));
        }
    }
    if let Some(most) = bound("exclusiveMaximum").filter(|most| value >= *most) {
        out.add_finding(path, format!("Must be less than {}", number_text(most)));
    }
    if let Some(least) = bound("minimum") {
        if flagged("exclusiveMinimum") {
            if value <= least {
                out.add_finding(path, format!("Must be greater than {}", number_text(least)));
            }
        } else if value < least {
            out.add_finding(path, format!("Must be greater than or equal to {}", number_text(least)));
        }
    }
    if let Some(least) = bound("exclusiveMinimum").filter(|least| value <= *least) {
        out.add_finding(path, format!("Must be greater than {}", number_text(least)));
    }
    out.score += 1;
}

fn number_text(number: f64) -> String {
    slipway_yaml::go_float(number)
}

pub(super) fn check_string(map: &Map<String, Value>, text: &str, path: &Path<'_>, out: &mut Outcome) {
    let bound = |key: &str| get(map, key).and_then(Value::as_f64);
    let length = text.chars().count() as f64;
    if let Some(least) = bound("minLength").filter(|least| length < *least) {
        out.add_finding(path, format!("String length must be greater than or equal to {least}"));
    }
    if let Some(most) = bound("maxLength").filter(|most| length > *most) {
        out.add_finding(path, format!("String length must be less than or equal to {most}"));
    }
    if let Some(Value::String(pattern)) = get(map, "pattern")
        && Regexp::compile(pattern.as_bytes()).is_ok_and(|regex| !regex.is_match(text.as_bytes()))
    {
        out.add_finding(path, format!("Does not match pattern '{pattern}'"));
    }
    if let Some(Value::String(name)) = get(map, "format")
        && !format::matches_format(name, text)
    {
        out.add_finding(path, format!("Does not match format '{name}'"));
    }
    out.score += 1;
}

/// Equality with numbers compared by value.
pub(super) fn is_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| is_equal(a, b)))
        }
        (a, b) => a == b,
    }
}

/// A value as Go's encoder writes it in a message.
fn go_json(value: &Value) -> String {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => slipway_yaml::go_json_float(float),
            _ => number.to_string(),
        },
        Value::Array(items) => format!("[{}]", items.iter().map(go_json).collect::<Vec<_>>().join(",")),
        Value::Object(map) => {
            let entries = sorted_entries(map);
            let entries: Vec<String> = entries
                .into_iter()
                .map(|(key, value)| format!("{}:{}", Value::String(key.clone()), go_json(value)))
                .collect();
            format!("{{{}}}", entries.join(","))
        }
        other => other.to_string(),
    }
}
