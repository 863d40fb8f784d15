//! `condition=…`, `jsonpath=…` and `delete`: what a wait is for, and whether an object has got there.

use serde_json::Value;
use slipway_manifest::jsonpath::JsonPath;

/// What is awaited.
#[derive(Clone, Debug)]
pub enum Until {
    Condition {
        name: String,
        status: String,
    },
    JsonPath {
        path: JsonPath,
        value: Option<String>,
    },
    /// Nothing is left.
    Delete,
}

/// Why a text is no [`Until`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UntilError {
    pub message: String,
    pub hint: Option<String>,
}

impl UntilError {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Reads what is awaited.
pub fn parse(text: &str) -> Result<Until, UntilError> {
    if text == "delete" {
        return Ok(Until::Delete);
    }
    if let Some(rest) = text.strip_prefix("condition=") {
        let (name, status) = match rest.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (rest, None),
        };
        if name.is_empty() {
            return Err(UntilError::new("the condition name is empty").hint("write `condition=Ready`"));
        }
        let status = status.map(expected).transpose()?.unwrap_or_else(|| "True".into());
        return Ok(Until::Condition { name: name.to_owned(), status });
    }
    if let Some(rest) = text.strip_prefix("jsonpath=") {
        return json_path(rest);
    }
    let error = UntilError::new(format!("`{text}` is not a wait target"));
    Err(match text {
        "create" => error.hint("wait for existence with `jsonpath={.metadata.uid}`"),
        _ if text.eq_ignore_ascii_case("delete") => error.hint("write `delete`"),
        _ if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphabetic()) => {
            let mut name = text.to_owned();
            name[..1].make_ascii_uppercase();
            error.hint(format!("write `condition={name}`"))
        }
        _ => error.hint("write `condition=…`, `jsonpath=…` or `delete`"),
    })
}

/// What follows `=`, without its quotes.
fn expected(text: &str) -> Result<String, UntilError> {
    let quoted = ['"', '\''].into_iter().find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote));
    let value = quoted.unwrap_or(text);
    if value.is_empty() {
        return Err(UntilError::new("nothing follows `=`").hint("leave `=` out to wait for any value"));
    }
    Ok(value.to_owned())
}

fn json_path(rest: &str) -> Result<Until, UntilError> {
    let invalid = |message: &str| UntilError::new(format!("invalid jsonpath: {message}"));
    let (path, value) = if let Some(inner) = rest.strip_prefix('{') {
        let Some(close) = inner.rfind('}') else {
            return Err(invalid("the closing brace is missing"));
        };
        let after = &inner[close + 1..];
        let value = match after.strip_prefix('=') {
            Some(value) => Some(value),
            None if after.is_empty() => None,
            None => return Err(invalid("only `=value` may follow the closing brace")),
        };
        (&inner[..close], value)
    } else {
        match rest.split_once('=') {
            Some((path, value)) => (path, Some(value)),
            None => (rest, None),
        }
    };
    if path.trim().is_empty() {
        return Err(invalid("the expression is empty"));
    }
    let bare = !rest.starts_with('{');
    if path.contains(['{', '}']) {
        return Err(invalid("one expression in braces is expected"));
    }
    let path = path.trim();
    let path = path.strip_prefix(['$', '@']).unwrap_or(path);
    let rooted = if path.starts_with(['.', '[']) { path.to_owned() } else { format!(".{path}") };
    let parsed = JsonPath::parse(&format!("{{{rooted}}}")).map_err(|error| {
        let error = invalid(&error.to_string());
        if bare && rest.contains("?(") { error.hint("a path with a filter needs braces") } else { error }
    })?;
    let value = value.map(expected).transpose()?;
    Ok(Until::JsonPath { path: parsed, value })
}

impl Until {
    /// Whether an object that exists has got there.
    pub fn is_met(&self, object: &Value) -> bool {
        match self {
            Self::Delete => false,
            Self::Condition { name, status } => condition(object, name, status),
            Self::JsonPath { path, value } => {
                let found = path.find(object).unwrap_or_default();
                let mut found = found.iter().flatten();
                match value {
                    None => found.any(|value| !is_empty(value)),
                    Some(expected) => {
                        found.any(|value| scalar(value).is_some_and(|text| text.trim() == expected))
                    }
                }
            }
        }
    }
}

fn condition(object: &Value, name: &str, expected: &str) -> bool {
    let Some(conditions) = object["status"]["conditions"].as_array() else { return false };
    let found = conditions.iter().find(|condition| {
        condition["type"].as_str().is_some_and(|kind| kind.eq_ignore_ascii_case(name))
            && condition["status"].is_string()
    });
    let Some(condition) = found else { return false };
    let observed =
        condition["observedGeneration"].as_i64().or_else(|| object["status"]["observedGeneration"].as_i64());
    if let (Some(generation), Some(observed)) = (object["metadata"]["generation"].as_i64(), observed)
        && observed < generation
    {
        return false;
    }
    condition["status"].as_str().is_some_and(|status| status.eq_ignore_ascii_case(expected))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        _ => None,
    }
}
