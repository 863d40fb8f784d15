//! The common fields of Kubernetes objects: type, namespace, name, labels, annotations.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use slipway_problem::{Location, Problem, Problems};

use crate::ObjectId;

/// A kind of a group and version; prints as `apps/v1, Kind=Deployment`, as Kubernetes does.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Gvk {
    pub group: String,
    pub version: String,
    pub kind: String,
}

impl Gvk {
    pub fn new(group: impl Into<String>, version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// Reads `apiVersion` (`v1`, `apps/v1`) and `kind`.
    pub fn from_api_version(api_version: &str, kind: &str) -> Self {
        let (group, version) = split_api_version(api_version);
        Self::new(group, version, kind)
    }

    /// Gives the `apiVersion` field: `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        join_api_version(&self.group, &self.version)
    }
}

impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

/// A resource of a group and version: what stands in a URL.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Gvr {
    pub group: String,
    pub version: String,
    /// The plural name, `deployments`.
    pub resource: String,
}

impl Gvr {
    pub fn new(group: impl Into<String>, version: impl Into<String>, resource: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into(), resource: resource.into() }
    }

    pub fn api_version(&self) -> String {
        join_api_version(&self.group, &self.version)
    }
}

impl fmt::Display for Gvr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Resource={}", self.group, self.version, self.resource)
    }
}

/// Returns the name Go's errors have for the type of a JSON value.
pub fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Splits `apps/v1` into `("apps", "v1")` and `v1` into `("", "v1")`.
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// Joins a group and a version into an `apiVersion`.
pub fn join_api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

fn text_field<'a>(object: &'a Value, field: &str) -> Option<&'a str> {
    object.get(field)?.as_str()
}

pub fn api_version(object: &Value) -> Option<&str> {
    text_field(object, "apiVersion")
}

pub fn kind(object: &Value) -> Option<&str> {
    text_field(object, "kind")
}

/// Reads the type of an object; absent parts are empty.
pub fn gvk(object: &Value) -> Gvk {
    Gvk::from_api_version(api_version(object).unwrap_or_default(), kind(object).unwrap_or_default())
}

pub fn metadata(object: &Value) -> Option<&Map<String, Value>> {
    object.get("metadata")?.as_object()
}

/// Gives `metadata`, making it if the object has none. `None` when the object is not a map.
pub fn metadata_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    let metadata = object.as_object_mut()?.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
    }
    metadata.as_object_mut()
}

fn metadata_text<'a>(object: &'a Value, field: &str) -> Option<&'a str> {
    metadata(object)?.get(field)?.as_str().filter(|text| !text.is_empty())
}

pub fn name(object: &Value) -> Option<&str> {
    metadata_text(object, "name")
}

pub fn namespace(object: &Value) -> Option<&str> {
    metadata_text(object, "namespace")
}

/// The id the server gave the object; another one of the same name has another.
pub fn uid(object: &Value) -> Option<&str> {
    metadata_text(object, "uid")
}

pub fn labels(object: &Value) -> impl Iterator<Item = (&str, &str)> {
    text_pairs(object, "labels")
}

pub fn annotations(object: &Value) -> impl Iterator<Item = (&str, &str)> {
    text_pairs(object, "annotations")
}

pub fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    metadata(object)?.get("labels")?.get(key)?.as_str()
}

pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    metadata(object)?.get("annotations")?.get(key)?.as_str()
}

fn text_pairs<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
    metadata(object)
        .and_then(|metadata| metadata.get(field)?.as_object())
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
}

/// Sets a label, making `metadata.labels` where needed.
pub fn set_label(object: &mut Value, key: &str, value: &str) {
    set_pair(object, "labels", key, value);
}

/// Sets an annotation, making `metadata.annotations` where needed.
pub fn set_annotation(object: &mut Value, key: &str, value: &str) {
    set_pair(object, "annotations", key, value);
}

fn set_pair(object: &mut Value, field: &str, key: &str, value: &str) {
    let Some(metadata) = metadata_mut(object) else { return };
    let pairs = metadata.entry(field).or_insert_with(|| Value::Object(Map::new()));
    if !pairs.is_object() {
        *pairs = Value::Object(Map::new());
    }
    if let Some(pairs) = pairs.as_object_mut() {
        pairs.insert(key.to_owned(), Value::String(value.to_owned()));
    }
}

/// Returns true if the object is a list of objects (`kind: List`, `ConfigMapList`), not an object itself.
pub fn is_list(object: &Value) -> bool {
    kind(object).is_some_and(|kind| kind.ends_with("List"))
        && object.get("items").is_some_and(Value::is_array)
}

/// Replaces every list by its items, in order; lists within lists too.
///
/// Items of a typed list (`ConfigMapList`) that lack `apiVersion` and `kind` take them from the list.
pub fn expand_lists(objects: Vec<Value>) -> Vec<Value> {
    let mut expanded = Vec::with_capacity(objects.len());
    let mut pending: Vec<Value> = objects.into_iter().rev().collect();
    while let Some(mut object) = pending.pop() {
        if !is_list(&object) {
            expanded.push(object);
            continue;
        }
        let list = gvk(&object);
        let item_kind = list.kind.strip_suffix("List").unwrap_or_default();
        let Some(Value::Array(mut items)) = object.get_mut("items").map(Value::take) else { continue };
        if !item_kind.is_empty() {
            for item in &mut items {
                let Some(fields) = item.as_object_mut() else { continue };
                if !fields.contains_key("kind") {
                    fields.shift_insert(0, "kind".to_owned(), Value::String(item_kind.to_owned()));
                }
                if !fields.contains_key("apiVersion") {
                    fields.shift_insert(0, "apiVersion".to_owned(), Value::String(list.api_version()));
                }
            }
        }
        pending.extend(items.into_iter().rev());
    }
    expanded
}

/// Checks that a manifest names an object: a map with `apiVersion`, `kind` and a name.
pub fn check_identity(object: &Value, at: Option<&Location>) -> Result<ObjectId, Problems> {
    let mut problems = Problems::new();
    let mut report = |problem: Problem| {
        problems.push(match at {
            Some(at) => problem.at(at.clone()),
            None => problem,
        });
    };
    if !object.is_object() {
        report(Problem::error(format!("a Kubernetes object must be a map, found {}", type_name(object))));
        return problems.into_result(ObjectId::of(object));
    }
    for field in ["apiVersion", "kind"] {
        match object.get(field) {
            Some(Value::String(text)) if !text.is_empty() => {}
            None | Some(Value::Null | Value::String(_)) => {
                report(
                    Problem::error(format!("the object has no `{field}`"))
                        .hint("every Kubernetes object needs `apiVersion`, `kind` and `metadata.name`"),
                );
            }
            Some(other) => {
                report(Problem::error(format!("`{field}` must be a string, found {}", type_name(other))));
            }
        }
    }
    match object.get("metadata") {
        None | Some(Value::Null) => report(Problem::error("the object has no `metadata.name`")),
        Some(Value::Object(metadata)) => {
            for field in ["name", "namespace", "generateName"] {
                if let Some(value) =
                    metadata.get(field).filter(|value| !value.is_null() && !value.is_string())
                {
                    report(
                        Problem::error(format!(
                            "`metadata.{field}` must be a string, found {}",
                            type_name(value)
                        ))
                        .hint("put the value in quotes"),
                    );
                }
            }
            let named = |field| {
                metadata.get(field).is_some_and(|value| !value.is_null() && value.as_str() != Some(""))
            };
            if !named("name") && !named("generateName") {
                report(Problem::error("the object has no `metadata.name`"));
            }
            for field in ["labels", "annotations"] {
                match metadata.get(field) {
                    None | Some(Value::Null) => {}
                    Some(Value::Object(pairs)) => {
                        for (key, value) in pairs.iter().filter(|(_, value)| !value.is_string()) {
                            report(
                                Problem::error(format!(
                                    "`metadata.{field}` value of `{key}` must be a string, found {}",
                                    type_name(value)
                                ))
                                .hint("put the value in quotes"),
                            );
                        }
                    }
                    Some(other) => report(Problem::error(format!(
                        "`metadata.{field}` must be a map, found {}",
                        type_name(other)
                    ))),
                }
            }
        }
        Some(other) => {
            report(Problem::error(format!("`metadata` must be a map, found {}", type_name(other))));
        }
    }
    problems.into_result(ObjectId::of(object))
}

/// Names the JSON type of a value as a person would.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}
