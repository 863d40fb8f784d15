//! Rendered objects without secrets: their keys, their hashes, and the fields two renderings differ in.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;
use slipway_journal::digest;
use slipway_manifest::object;
use slipway_source::Document;

use crate::parallel::in_parallel;

/// Objects with their keys and hashes, in the order they were rendered in.
#[derive(Clone, Debug, Default)]
pub(crate) struct MaskedObjects {
    pub(crate) keys: Vec<String>,
    pub(crate) hashes: Vec<String>,
}

impl MaskedObjects {
    pub(crate) fn set_digest(&self) -> String {
        object_set_digest(self.keys.iter().map(String::as_str).zip(self.hashes.iter().map(String::as_str)))
    }

    /// The keys whose hashes are not the given ones, the missing and the new.
    pub(crate) fn differing(&self, sealed: &BTreeMap<&str, &str>) -> Vec<String> {
        let mut differing: Vec<String> = self
            .keys
            .iter()
            .zip(&self.hashes)
            .filter(|(key, hash)| sealed.get(key.as_str()) != Some(&hash.as_str()))
            .map(|(key, _)| key.clone())
            .collect();
        differing.extend(
            sealed.keys().filter(|key| !self.keys.iter().any(|own| own == *key)).map(|key| (*key).to_owned()),
        );
        differing.sort_unstable();
        differing.dedup();
        differing
    }
}

/// The keys of objects: `group/kind/namespace/name`. A second object of the same key is told apart by a number.
pub(crate) fn object_keys(documents: &[Document]) -> Vec<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut number = |key: String| {
        let count = seen.entry(key.clone()).or_default();
        *count += 1;
        if *count == 1 { key } else { format!("{key}#{count}") }
    };
    documents.iter().map(|document| number(object_key(document))).collect()
}

/// The key of an object by itself.
pub(crate) fn object_key(document: &Document) -> String {
    let value = &document.object;
    let gvk = object::gvk(value);
    let (namespace, name) =
        (object::namespace(value).unwrap_or_default(), object::name(value).unwrap_or_default());
    format!("{}/{}/{namespace}/{name}", gvk.group, gvk.kind)
}

/// Hashes objects; fields that differ at every rendering are left out. The first `known` hashes are those of definitions.
pub(crate) fn masked_objects(
    documents: &[Document],
    known: &[String],
    nondeterministic: &BTreeMap<String, Vec<String>>,
) -> MaskedObjects {
    let keys = object_keys(documents);
    let hash = |(document, key): &(&Document, &String)| {
        let left_out = nondeterministic.get(*key).map(Vec::as_slice).unwrap_or_default();
        object_hash(&document.object, left_out)
    };
    let rest: Vec<_> = documents.iter().zip(&keys).skip(known.len()).collect();
    let hashes = known.iter().cloned().chain(in_parallel(&rest, hash)).collect();
    MaskedObjects { keys, hashes }
}

const SERVER_FIELDS: [&str; 6] =
    ["creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"];

pub(super) fn object_hash(value: &Value, left_out: &[String]) -> String {
    let metadata = value.get("metadata");
    let has_server_fields =
        SERVER_FIELDS.iter().any(|field| metadata.is_some_and(|metadata| metadata.get(field).is_some()));
    if left_out.is_empty() && value.get("status").is_none() && !has_server_fields {
        return digest::json(value);
    }
    let mut value = value.clone();
    if let Some(fields) = value.as_object_mut() {
        fields.shift_remove("status");
    }
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in SERVER_FIELDS {
            metadata.shift_remove(field);
        }
    }
    for pointer in left_out {
        if let Some(field) = value.pointer_mut(pointer) {
            *field = Value::Null;
        }
    }
    digest::json(&value)
}

/// The digest of a set of objects, whatever their order.
pub(crate) fn object_set_digest<'o>(objects: impl Iterator<Item = (&'o str, &'o str)>) -> String {
    let mut lines: Vec<String> = objects.map(|(key, hash)| format!("{key}\0{hash}\n")).collect();
    lines.sort_unstable();
    digest::bytes(lines.concat().as_bytes())
}

/// The fields two values differ in, as JSON pointers.
pub(crate) fn differing_fields(first: &Value, second: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare(first, second, &mut String::new(), &mut found);
    found
}

fn compare(first: &Value, second: &Value, path: &mut String, found: &mut Vec<String>) {
    let length = path.len();
    match (first, second) {
        (Value::Object(first), Value::Object(second))
            if first.len() == second.len() && first.keys().all(|key| second.contains_key(key)) =>
        {
            for (key, value) in first {
                path.push('/');
                path.push_str(&key.replace('~', "~0").replace('/', "~1"));
                compare(value, &second[key], path, found);
                path.truncate(length);
            }
        }
        (Value::Array(first), Value::Array(second)) if first.len() == second.len() => {
            for (index, (one, other)) in first.iter().zip(second).enumerate() {
                path.push_str(&format!("/{index}"));
                compare(one, other, path, found);
                path.truncate(length);
            }
        }
        _ if first == second => {}
        _ => found.push(path.clone()),
    }
}
