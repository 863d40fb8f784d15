//! The `/scale` subresource of custom resources: where its values are, and their validation.

use serde_json::{Value, json};

use crate::status::StatusCause;
use crate::write::admit::prepare::ObjectPart;
use slipway_go::GoError;

/// The paths of the values `/scale` shows, in a custom resource.
#[derive(Debug, Clone)]
pub(crate) struct ScalePaths {
    pub spec_path: String,
    pub status_path: String,
    pub selector_path: Option<String>,
}

impl ScalePaths {
    /// Checks that the values `/scale` shows have the right types.
    pub(super) fn check_values(&self, object: &Value, part: ObjectPart, out: &mut Vec<StatusCause>) {
        let spec = (part != ObjectPart::Status).then_some(&self.spec_path);
        for path in spec.into_iter().chain([&self.status_path]) {
            let name = path.replace('/', ".");
            match nested_value(object, path, "int64", Value::is_i64) {
                Err(why) => out.push(StatusCause::invalid(name, &json!(0), why.as_str())),
                Ok(Some(number)) if number.as_i64().is_some_and(|n| n < 0) => {
                    out.push(StatusCause::invalid(name, number, "should be a non-negative integer"));
                }
                Ok(Some(number)) if number.as_i64().is_some_and(|n| n > i64::from(i32::MAX)) => {
                    out.push(StatusCause::invalid(
                        name,
                        number,
                        "should be less than or equal to 2147483647",
                    ));
                }
                Ok(_) => {}
            }
        }
        if let Some(path) = &self.selector_path
            && let Err(why) = nested_value(object, path, "string", Value::is_string)
        {
            out.push(StatusCause::invalid(path.replace('/', "."), &json!(""), why.as_str()));
        }
    }
}

/// The value at a path, which is to be of a type if it is there.
fn nested_value<'a>(
    object: &'a Value,
    path: &str,
    wanted: &str,
    fits: impl Fn(&Value) -> bool,
) -> Result<Option<&'a Value>, GoError> {
    let wrong = |at: &str, value: &Value, wanted: &str| {
        let (at, text, held) = (at.replace('/', "."), go_text(value), go_type(value));
        Err(format!("{at} accessor error: {text} is of the type {held}, expected {wanted}").into())
    };
    let (mut value, mut end) = (object, 0);
    for part in path.split('/').skip(1) {
        end += 1 + part.len();
        match value {
            Value::Null => return Ok(None),
            Value::Object(members) => match members.get(part) {
                Some(member) => value = member,
                None => return Ok(None),
            },
            other => return wrong(&path[..end], other, "map[string]interface{}"),
        }
    }
    if fits(value) { Ok(Some(value)) } else { wrong(path, value, wanted) }
}

/// A value as Go's `%v` prints it.
fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_text).collect::<Vec<_>>().join(" ")),
        Value::Object(members) => {
            let mut all: Vec<String> = members.iter().map(|(k, v)| format!("{k}:{}", go_text(v))).collect();
            all.sort();
            format!("map[{}]", all.join(" "))
        }
        other => other.to_string(),
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

pub(super) fn json_pointer(path: &str) -> String {
    path.trim_start_matches('.').split('.').fold(String::new(), |mut out, part| {
        out.push('/');
        out.push_str(part);
        out
    })
}
