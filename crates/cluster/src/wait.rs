//! Waiting until an object is as a condition says, in kubectl's words.

use slipway_manifest::ObjectRef;
use std::fmt;
use std::time::Duration;

use serde_json::Value;
use slipway_manifest::jsonpath::{JsonPath, MissingFields};
use tokio::time::Instant;

use crate::Cluster;
use crate::error::{Error, ErrorClass};
use crate::observe::{Observer, Seen};
use crate::track::scalar;

/// What to wait for.
#[derive(Clone, Debug)]
pub enum Condition {
    /// A condition of the object has a status.
    Condition { kind: String, status: String },
    /// A JSONPath finds something, or a certain value.
    JsonPath { path: Box<JsonPath>, text: String, value: Option<String> },
    /// The object is gone.
    Delete,
    /// The object is there.
    Create,
}

/// Why a text is no condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct InvalidCondition {
    pub message: String,
    pub hint: Option<String>,
}

fn invalid(message: impl Into<String>, hint: Option<&str>) -> InvalidCondition {
    InvalidCondition { message: message.into(), hint: hint.map(str::to_owned) }
}

const BRACES: &str = "put the path in braces: jsonpath={…}=value";

impl Condition {
    /// Reads `delete`, `condition=NAME[=VALUE]` or `jsonpath=PATH[=VALUE]`.
    pub fn parse(text: &str) -> Result<Condition, InvalidCondition> {
        if text == "delete" {
            return Ok(Condition::Delete);
        }
        if let Some(rest) = text.strip_prefix("condition=") {
            let (kind, status) = match rest.split_once('=') {
                Some((kind, value)) => (kind, value_of(value)?),
                None => (rest, "True".to_owned()),
            };
            if kind.is_empty() {
                return Err(invalid("the condition name is empty", Some("write `condition=Ready`")));
            }
            return Ok(Condition::Condition { kind: kind.to_owned(), status });
        }
        if let Some(rest) = text.strip_prefix("jsonpath=") {
            return json_path(rest);
        }
        let hint = match text {
            "create" => "wait for existence with `jsonpath={.metadata.uid}`".to_owned(),
            _ if text.eq_ignore_ascii_case("delete") => "write `delete`".to_owned(),
            // A word alone is most likely a condition.
            _ if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphabetic()) => {
                let mut name = text.to_owned();
                name[..1].make_ascii_uppercase();
                format!("write `condition={name}`")
            }
            _ => "write `condition=NAME[=VALUE]`, `jsonpath={PATH}[=VALUE]` or `delete`".to_owned(),
        };
        Err(invalid(format!("`{text}` is not a wait target"), Some(&hint)))
    }

    /// Whether the object, or its absence, is what was waited for.
    pub fn is_met(&self, object: Option<&Value>) -> bool {
        match (self, object) {
            (Condition::Delete, object) => object.is_none(),
            (_, None) => false,
            (Condition::Create, Some(_)) => true,
            (Condition::Condition { kind, status }, Some(object)) => has_condition(object, kind, status),
            (Condition::JsonPath { path, value, .. }, Some(object)) => {
                let Ok(found) = path.find_values(object) else { return false };
                found.iter().flatten().any(|result| match value {
                    None => !is_empty(result),
                    Some(value) => scalar(result).is_some_and(|text| text.trim() == value.trim()),
                })
            }
        }
    }
}

fn value_of(text: &str) -> Result<String, InvalidCondition> {
    let quoted = ['\'', '"'].into_iter().find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote));
    match quoted.unwrap_or(text) {
        "" => Err(invalid("nothing follows `=`", Some("leave `=` out to wait for any value"))),
        value => Ok(value.to_owned()),
    }
}

fn json_path(rest: &str) -> Result<Condition, InvalidCondition> {
    let (path, value) = if rest.starts_with('{') {
        let Some(end) = rest.rfind('}') else {
            return Err(invalid("invalid jsonpath: the closing brace is missing", None));
        };
        match &rest[end + 1..] {
            "" => (&rest[..=end], None),
            after => match after.strip_prefix('=') {
                Some(value) => (&rest[..=end], Some(value)),
                None => {
                    let message = "invalid jsonpath: only `=value` may follow the closing brace";
                    return Err(invalid(message, Some(BRACES)));
                }
            },
        }
    } else {
        match rest.split_once('=') {
            Some((path, value)) => (path, Some(value)),
            None => (rest, None),
        }
    };
    let inner = match path.strip_prefix('{') {
        Some(inner) => inner.strip_suffix('}').unwrap_or(inner),
        None if path.contains(['{', '}']) => {
            return Err(invalid(
                "invalid jsonpath: braces stand inside a path without braces around it",
                Some(BRACES),
            ));
        }
        None if value.is_some() && path.contains("[?") && !path.contains(")]") => {
            return Err(invalid(
                "invalid jsonpath: a path with `=` in it cannot stand without braces",
                Some(BRACES),
            ));
        }
        None => path,
    };
    let inner = inner.trim();
    let inner = inner.strip_prefix(['$', '@']).unwrap_or(inner);
    if inner.is_empty() || inner == "." {
        return Err(invalid("invalid jsonpath: the expression is empty", None));
    }
    if inner.contains('}') && inner.contains('{') {
        return Err(invalid("invalid jsonpath: one expression in braces is expected", None));
    }
    if ["range ", "end"].iter().any(|word| inner == word.trim() || inner.starts_with("range ")) {
        return Err(invalid("invalid jsonpath: `range` and `end` cannot be waited for", None));
    }
    let normal = if inner.starts_with(['.', '[']) { format!("{{{inner}}}") } else { format!("{{.{inner}}}") };
    // What is not there, or not of the right type, may be so a moment later.
    let parsed = JsonPath::parse(&escape_keys(&normal))
        .map_err(|e| invalid(format!("invalid jsonpath: {e}"), None))?
        .with_missing_fields(MissingFields::Lenient);
    let value = value.map(value_of).transpose()?;
    Ok(Condition::JsonPath { path: Box::new(parsed), text: normal, value })
}

/// Makes dots inside quoted keys, `['a.b/c']`, mean themselves, and both quotes the same; kubectl wants
/// the former escaped and the latter single.
fn escape_keys(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut quote = None;
    let mut is_key_list = false;
    let mut previous = ' ';
    for (index, c) in path.char_indices() {
        match (quote, c) {
            (None, '[') => is_key_list = path[index + 1..].trim_start().starts_with(['\'', '"']),
            (None, ']') => is_key_list = false,
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), _) if c == open && previous != '\\' => quote = None,
            (Some(_), '.') if is_key_list && previous != '\\' => out.push('\\'),
            _ => {}
        }
        let is_mark = c == '"' && is_key_list && previous != '\\';
        out.push(if is_mark { '\'' } else { c });
        previous = c;
    }
    out
}

/// Null, an empty text, list or map; `false` and `0` are values.
pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn has_condition(object: &Value, kind: &str, status: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let found = conditions
        .filter(|condition| condition["type"].as_str().is_some_and(|known| known.eq_ignore_ascii_case(kind)))
        .find_map(|condition| Some((condition, condition["status"].as_str()?)));
    let Some((condition, found)) = found else { return false };
    let seen = condition["observedGeneration"].as_i64().or(object["status"]["observedGeneration"].as_i64());
    let is_behind = matches!((seen, object["metadata"]["generation"].as_i64()),
        (Some(seen), Some(wanted)) if seen < wanted);
    !is_behind && found.eq_ignore_ascii_case(status)
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Condition::Delete => f.write_str("delete"),
            Condition::Create => f.write_str("create"),
            Condition::Condition { kind, status } => write!(f, "condition={kind}={status}"),
            Condition::JsonPath { text, value: None, .. } => write!(f, "jsonpath={text}"),
            Condition::JsonPath { text, value: Some(value), .. } => write!(f, "jsonpath={text}={value}"),
        }
    }
}

/// Waits until the condition is met and gives the object as it was then; `None` for a deletion. Reads
/// once, then watches: no polling where the server can tell.
pub async fn until(
    cluster: &Cluster,
    at: &ObjectRef,
    condition: &Condition,
    timeout: Option<Duration>,
) -> Result<Option<Value>, Error> {
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    let wait = async {
        let mut observer = match Observer::start(cluster, at).await {
            Ok(observer) => observer,
            // What nobody serves is not there.
            Err(e) if e.class == ErrorClass::NoKind && matches!(condition, Condition::Delete) => {
                return Ok(None);
            }
            Err(e) => return Err(e),
        };
        loop {
            match observer.seen() {
                Seen::Present(object) if condition.is_met(Some(&object)) => {
                    return Ok(Some(Value::clone(&object)));
                }
                Seen::Absent if condition.is_met(None) => return Ok(None),
                Seen::Present(_) | Seen::Absent => {}
            }
            observer.changed().await?;
        }
    };
    match deadline {
        None => wait.await,
        Some(deadline) => tokio::time::timeout_at(deadline, wait).await.unwrap_or_else(|_| {
            let seconds = timeout.unwrap_or_default().as_secs_f64();
            let message = format!("{condition} is not met after {seconds} s");
            Err(Error::new(ErrorClass::Timeout, format!("wait for {at}"), message).at(at))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_table_of_conditions() {
        let object = json!({
            "metadata": {"generation": 3, "annotations": {"a.b/c": "v"}},
            "status": {"observedGeneration": 2, "phase": "Running", "ready": 0, "ok": false, "ips": [],
                "ports": [80, 443], "note": "",
                "conditions": [{"type": "Ready", "status": "True"},
                    {"type": "Synced", "status": "False", "observedGeneration": 3}]},
        });
        for (text, expected) in [
            ("condition=Ready", Some(false)),
            ("condition=synced=false", Some(true)),
            ("condition=Missing", Some(false)),
            ("jsonpath=status.phase=Running", Some(true)),
            ("jsonpath={status.phase}", Some(true)),
            ("jsonpath={$.status.phase}", Some(true)),
            ("jsonpath={.status.phase}=\"Running\"", Some(true)),
            ("jsonpath={.status.ready}", Some(true)),
            ("jsonpath={.status.ready}=0", Some(true)),
            ("jsonpath={.status.ok}", Some(true)),
            ("jsonpath={.status.note}", Some(false)),
            ("jsonpath={.status.ips}", Some(false)),
            ("jsonpath={.status.ips[0]}", Some(false)),
            ("jsonpath={.status.ports[-1]}=443", Some(true)),
            ("jsonpath={.status.ports[*]}=80", Some(true)),
            ("jsonpath={.status.ports[0:1]}=443", Some(false)),
            ("jsonpath={.status.ports}=80", Some(false)),
            ("jsonpath={.metadata.annotations.a\\.b/c}=v", Some(true)),
            ("jsonpath={.metadata.annotations['a.b/c']}=v", Some(true)),
            ("jsonpath={.metadata.annotations[\"a.b/c\"]}=v", Some(true)),
            ("jsonpath={.metadata.annotations['a\\.b/c']}=v", Some(true)),
            ("jsonpath={.status['phase','note']}=Running", Some(true)),
            ("jsonpath={.status.conditions[?(@.type==\"Ready\")].status}=True", Some(true)),
            ("jsonpath={.status.conditions[?(@.type=='Nope')].status}=True", Some(false)),
            ("jsonpath={.status.ports[?(@>100)]}=443", Some(true)),
            ("jsonpath={..type}=Synced", Some(true)),
            ("jsonpath={.status.none.deeper}", Some(false)),
            ("jsonpath={.status.phase}{.status.note}", None),
            ("jsonpath={.status.phase}=", None),
            ("jsonpath={.status.phase}x", None),
            ("jsonpath={.status.phase", None),
            ("jsonpath=", None),
            ("jsonpath={}", None),
            ("jsonpath=.status.conditions[?(@.type==\"Ready\")].status=True", None),
            ("condition=", None),
            ("condition=Ready=", None),
            ("create", None),
            ("Delete", None),
            ("", None),
            ("delete", Some(false)),
        ] {
            let found = Condition::parse(text).ok().map(|condition| condition.is_met(Some(&object)));
            assert_eq!(found, expected, "{text}");
        }
        assert!(Condition::Delete.is_met(None));
        assert!(!Condition::parse("condition=Ready").unwrap().is_met(None));
    }
}
