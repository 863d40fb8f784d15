//! Paths to one value: fields by name, elements of lists by position or by what they hold.

use serde_json::{Map, Value};

use crate::resource::scalar_text;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PathStep {
    Field(String),
    Index(usize),
    /// `-`: the last element.
    Last,
    /// `[key=value]`, or `[=value]` for a plain element.
    Matching {
        key: String,
        value: String,
    },
}

/// A path that does not lead to a value, and the reason.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LookupError {
    #[error("`{0}` cannot be a step of a path here")]
    NotAStep(String),
    #[error("there is no {0}")]
    Missing(String),
    #[error("{0} is looked for in {1}")]
    WrongContainer(String, &'static str),
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Object(_) => "a mapping",
        Value::Array(_) => "a list",
        _ => "a plain value",
    }
}

impl PathStep {
    fn describe(&self) -> String {
        match self {
            Self::Field(name) => format!("field `{name}`"),
            Self::Index(at) => format!("element {at}"),
            Self::Last => "last element".to_owned(),
            Self::Matching { key, value } => format!("element `[{key}={value}]`"),
        }
    }

    /// Reads the parts of a path; empty ones say nothing.
    fn read_all<'t>(parts: impl Iterator<Item = &'t str>) -> Result<Vec<Self>, LookupError> {
        parts.map(str::trim).filter(|part| !part.is_empty()).map(Self::parse_step).collect()
    }

    fn parse_step(part: &str) -> Result<Self, LookupError> {
        if let Ok(number) = part.parse::<i64>() {
            return usize::try_from(number)
                .map(Self::Index)
                .map_err(|_| LookupError::NotAStep(part.to_owned()));
        }
        match part {
            "-" => return Ok(Self::Last),
            "*" => return Err(LookupError::NotAStep(part.to_owned())),
            _ => {}
        }
        let Some(inner) = part.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) else {
            return Ok(Self::Field(part.to_owned()));
        };
        match inner.split_once('=') {
            Some((key, value)) => Ok(Self::Matching { key: key.to_owned(), value: value.to_owned() }),
            None => Err(LookupError::NotAStep(part.to_owned())),
        }
    }

    fn find_position(&self, list: &[Value]) -> Option<usize> {
        match self {
            Self::Field(_) => None,
            Self::Index(at) => Some(*at).filter(|at| *at < list.len()),
            Self::Last => list.len().checked_sub(1),
            Self::Matching { key, value } => list.iter().position(|element| {
                let found = if key.is_empty() { Some(element) } else { element.get(key) };
                found.and_then(scalar_text).is_some_and(|text| text == *value)
            }),
        }
    }
}

/// Splits at `separator`; one after a backslash is part of a name.
fn split_escaped(path: &str, separator: char) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for part in path.split(separator) {
        match parts.last_mut() {
            Some(last) if last.ends_with('\\') => {
                last.pop();
                last.push(separator);
                last.push_str(part);
            }
            _ => parts.push(part.to_owned()),
        }
    }
    parts
}

/// Reads `spec.ports[0].port`, `a.[b.c].d` and `containers.[name=a.b].image`.
pub(crate) fn read_dotted(path: &str) -> Result<Vec<PathStep>, LookupError> {
    let mut parts: Vec<String> = Vec::new();
    let mut rest = split_escaped(path, '.').into_iter();
    while let Some(part) = rest.next() {
        if !part.starts_with('[') || part.ends_with(']') {
            parts.push(part);
            continue;
        }
        let mut whole = part;
        for more in rest.by_ref() {
            whole.push('.');
            whole.push_str(&more);
            if whole.ends_with(']') {
                break;
            }
        }
        parts.push(if whole.contains('=') { whole } else { whole.trim_matches(['[', ']']).to_owned() });
    }
    let mut steps = Vec::new();
    for part in &parts {
        // `ports[0]` is the field and its element.
        let indexed = part.strip_suffix(']').and_then(|rest| rest.rsplit_once('['));
        match indexed.filter(|(_, at)| !at.is_empty() && at.bytes().all(|digit| digit.is_ascii_digit())) {
            Some((name, at)) => steps.extend([name, at]),
            None => steps.push(part.as_str()),
        }
    }
    PathStep::read_all(steps.into_iter())
}

/// Reads `spec/template/spec/containers/[name=web]/image`; `\/` is a slash inside a name.
pub(crate) fn read_slashed(path: &str) -> Result<Vec<PathStep>, LookupError> {
    PathStep::read_all(split_escaped(path, '/').iter().map(String::as_str))
}

/// The value a path leads to.
pub(crate) fn find_value<'v>(
    object: &'v Map<String, Value>,
    path: &[PathStep],
) -> Result<&'v Value, LookupError> {
    let mut found: Option<&Value> = None;
    for step in path {
        let next = match (found, step) {
            (None, PathStep::Field(name)) | (Some(Value::Object(_)), PathStep::Field(name)) => {
                found.map_or(object, |value| value.as_object().unwrap_or(object)).get(name)
            }
            (Some(Value::Array(list)), step) if !matches!(step, PathStep::Field(_)) => {
                step.find_position(list).and_then(|at| list.get(at))
            }
            (Some(Value::Null), _) => None,
            (container, step) => {
                let kind = container.map_or("a mapping", kind_of);
                return Err(LookupError::WrongContainer(step.describe(), kind));
            }
        };
        found = Some(next.ok_or_else(|| LookupError::Missing(step.describe()))?);
    }
    found.ok_or_else(|| LookupError::NotAStep(String::new()))
}

/// The plain value a path leads to, made with everything on the way to it when it is not there.
pub(crate) fn find_or_make<'v>(
    object: &'v mut Map<String, Value>,
    path: &[PathStep],
) -> Result<&'v mut Value, LookupError> {
    let (Some(PathStep::Field(first)), rest) = (path.first(), path.get(1..).unwrap_or_default()) else {
        let first = path.first().map_or_else(String::new, PathStep::describe);
        return Err(LookupError::WrongContainer(first, "a mapping"));
    };
    let mut found = object.entry(first.clone()).or_insert_with(|| made_for(rest.first()));
    for (at, step) in rest.iter().enumerate() {
        let next = rest.get(at + 1);
        found = match (found, step) {
            (Value::Object(map), PathStep::Field(name)) => {
                map.entry(name.clone()).or_insert_with(|| made_for(next))
            }
            (Value::Array(list), PathStep::Matching { key, value }) => {
                let at = step.find_position(list).unwrap_or_else(|| {
                    let text = Value::String(value.clone());
                    list.push(if key.is_empty() {
                        text
                    } else {
                        Value::Object(Map::from_iter([(key.clone(), text)]))
                    });
                    list.len() - 1
                });
                &mut list[at]
            }
            (Value::Array(list), PathStep::Index(_) | PathStep::Last) => match step.find_position(list) {
                Some(at) => &mut list[at],
                None => return Err(LookupError::Missing(step.describe())),
            },
            (Value::Null, step) => return Err(LookupError::Missing(step.describe())),
            (container, step) => {
                return Err(LookupError::WrongContainer(step.describe(), kind_of(container)));
            }
        };
    }
    match found {
        Value::Object(_) | Value::Array(_) => {
            Err(LookupError::WrongContainer("a plain value".to_owned(), kind_of(found)))
        }
        scalar => Ok(scalar),
    }
}

/// A missing value, made for the step that comes after it.
fn made_for(next: Option<&PathStep>) -> Value {
    match next {
        None => Value::Null,
        Some(PathStep::Field(_) | PathStep::Last) => Value::Object(Map::new()),
        Some(PathStep::Index(_) | PathStep::Matching { .. }) => Value::Array(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_to_one_value() {
        let object = json!({
            "spec": {"ports": [{"name": "a.b", "port": 1}, {"port": 2}], "args": ["x", "y"]},
            "metadata": {"annotations": {"a.b/c": "d"}}
        });
        let object = object.as_object().expect("a mapping");
        for (path, expected) in [
            ("spec.ports[1].port", Some(json!(2))),
            ("spec.ports.[name=a.b].port", Some(json!(1))),
            ("spec.ports.-.port", Some(json!(2))),
            ("spec.args.[=y]", Some(json!("y"))),
            ("metadata.annotations.[a.b/c]", Some(json!("d"))),
            (r"metadata.annotations.a\.b/c", Some(json!("d"))),
            ("spec.ports.port", None),
            ("spec.ports.7", None),
            ("spec.ports.*.port", None),
            ("spec.nothing", None),
        ] {
            let found = read_dotted(path).and_then(|path| find_value(object, &path).cloned());
            assert_eq!(found.ok(), expected, "{path}");
        }
    }

    #[test]
    fn missing_parts_are_made() {
        for (path, expected) in [
            ("a/b", json!({"a": {"b": null}, "l": [{"name": "x"}]})),
            ("l/[name=y]/z", json!({"l": [{"name": "x"}, {"name": "y", "z": null}]})),
            (r"m/a\/b", json!({"l": [{"name": "x"}], "m": {"a/b": null}})),
        ] {
            let mut object = json!({"l": [{"name": "x"}]}).as_object().cloned().expect("a mapping");
            let path = read_slashed(path).expect("a path");
            find_or_make(&mut object, &path).expect("a value");
            assert_eq!(Value::Object(object), expected, "{path:?}");
        }
    }
}
