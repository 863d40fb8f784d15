//! Documents to objects: reading files of objects, and patches and configurations written like them.

use std::sync::Arc;

use serde_json::Value;
use slipway_problem::{Location, Problem, Problems};
use slipway_yaml::{YamlNode, YamlReader};

use crate::resource::{Origin, Resource, Step};
use crate::schema::{self, Field, Type};
use crate::written::{self, Document};

/// Returns true if an entry is YAML itself rather than the name of a file.
pub(crate) fn is_inline(entry: &str) -> bool {
    entry.contains('\n') || entry.contains(": ") || entry.trim_start().starts_with('{')
}

/// Reads the documents of a file of objects or of a patch written in a kustomization, which has no
/// file of its own and whose problems are shown where it is written.
pub(crate) fn read_documents(text: &str, file: &str, at: &Location) -> Result<Vec<Document>, Problems> {
    let inline = file.is_empty();
    let read = YamlReader::kustomize().read(text, if inline { &at.file } else { file });
    match read {
        Ok(nodes) => {
            let there = nodes.into_iter().filter(|node| !node.is_null());
            Ok(there.map(|node| Document(Arc::new(node))).collect())
        }
        Err(problems) if inline => Err(problems
            .into_iter()
            .map(|problem| {
                let line = problem.at.as_ref().map_or(0, |at| at.line);
                Problem {
                    at: Some(at.clone()),
                    excerpt: None,
                    message: format!("{} (line {line} of the patch)", problem.message),
                    ..problem
                }
            })
            .collect()),
        Err(problems) => Err(problems),
    }
}

/// The treatment of annotations that are no strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Annotations {
    /// They become the text they were written as.
    AsText,
    /// The same, but null means removal.
    KeepNulls,
}

/// Deepest nesting of lists of objects in lists of objects.
const DEEPEST_LIST: usize = 8;

/// Turns a document into objects; lists of objects are taken apart.
pub(crate) fn read_objects(
    document: &Document,
    origin: Origin,
    annotations: Annotations,
    objects: &mut Vec<Resource>,
    problems: &mut Problems,
) {
    let mut open = vec![(&*document.0, 0)];
    while let Some((node, depth)) = open.pop() {
        if node.is_null() || node.as_seq().is_some_and(<[YamlNode]>::is_empty) {
            continue;
        }
        let Some(map) = node.as_map() else {
            problems.push(node.problem(format!("an object is a mapping, not {}", node.kind())));
            continue;
        };
        let kind = map.get("kind").and_then(YamlNode::as_str).unwrap_or_default();
        if kind.ends_with("List")
            && depth < DEEPEST_LIST
            && let Some(items) = map.get("items").and_then(YamlNode::as_seq)
        {
            open.extend(items.iter().rev().map(|item| (item, depth + 1)));
            continue;
        }
        if let Some(mut resource) = read_object(node, origin.clone(), annotations, problems) {
            resource.document = Some(document.clone());
            objects.push(resource);
        }
    }
}

fn read_object(
    node: &YamlNode,
    origin: Origin,
    annotations: Annotations,
    problems: &mut Problems,
) -> Option<Resource> {
    let mut complete = true;
    if node.get("kind").and_then(YamlNode::as_str).is_none_or(str::is_empty) {
        problems.push(node.problem("the object has no `kind`"));
        complete = false;
    }
    let name = node.get("metadata").and_then(|metadata| metadata.get("name"));
    if name.and_then(YamlNode::scalar_text).is_none_or(|name| name.is_empty()) {
        let problem = node.problem("the object has no `metadata.name`");
        problems.push(if node.at(["metadata", "generateName"]).is_some() {
            problem.hint("`generateName` is not enough: a build has to know what objects are called")
        } else {
            problem
        });
        complete = false;
    }
    if !complete {
        return None;
    }
    let mut value = written::object(node, problems);
    if let Some(Value::Object(metadata)) = value.get_mut("metadata") {
        for key in ["name", "namespace"] {
            if let Some(found) = metadata.get_mut(key)
                && (found.is_number() || found.is_boolean())
                && let Some(text) = node.at(["metadata", key]).and_then(YamlNode::scalar_text)
            {
                *found = Value::String(text.into_owned());
            }
        }
    }
    let mut unquoted = Vec::new();
    if let Some(written) = node.at(["metadata", "annotations"]).and_then(YamlNode::as_map)
        && let Some(Value::Object(read)) =
            value.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"))
    {
        for (key, value) in written.iter() {
            // A date reads as a moment, but is the text it was written as.
            let is_date = |text: &str| {
                let raw = value.raw();
                raw.starts_with(|letter: char| letter.is_ascii_digit()) && !raw.contains('\n') && text != raw
            };
            let is_text = value.as_str().is_some_and(|text| !is_date(text));
            if is_text || (value.is_null() && annotations == Annotations::KeepNulls) {
                continue;
            }
            if value.as_map().is_none() && value.as_seq().is_none() {
                let key = key.key_text().into_owned();
                unquoted.push((key.clone(), annotation_of(&value.to_json())));
                read.insert(key, Value::String(value.raw().to_owned()));
            }
        }
    }
    let mut resource = Resource::new(value, origin, node.location());
    resource.unquoted = unquoted;
    let text = |field: &str| node.get(field).and_then(YamlNode::as_str).unwrap_or_default();
    let schema = schema::of_kind(text("apiVersion"), text("kind"));
    find_blanks(node, schema, &mut Vec::new(), &mut resource.blanks);
    Some(resource)
}

/// The annotation that JSON makes of a value.
fn annotation_of(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Number(number) => number.as_f64().map(written::go_float).unwrap_or_default(),
        other => crate::resource::scalar_text(other).unwrap_or_default(),
    }
}

/// Notes fields without a value, in mappings and in lists that merge by key.
fn find_blanks(
    node: &YamlNode,
    schema: Option<&'static Type>,
    path: &mut Vec<Step>,
    blanks: &mut Vec<Vec<Step>>,
) {
    let Some(map) = node.as_map() else { return };
    for (key, value) in map.iter() {
        let says_null = value.is_null() && !value.raw().is_empty() && !value.is_quoted();
        if says_null || value.as_str().is_some() {
            continue;
        }
        path.push(Step::Field(key.key_text().into_owned()));
        let field = schema.and_then(|schema| schema.field(&key.key_text()));
        if value.is_null() {
            blanks.push(path.clone());
        } else if let Some(list) = value.as_seq() {
            if field.is_some_and(|field| field.merge_keys.is_some()) {
                for (at, element) in list.iter().enumerate() {
                    path.push(Step::Element(at));
                    find_blanks(element, field.and_then(Field::value_type), path, blanks);
                    path.pop();
                }
            }
        } else {
            find_blanks(value, field.and_then(Field::value_type), path, blanks);
        }
        path.pop();
    }
}
