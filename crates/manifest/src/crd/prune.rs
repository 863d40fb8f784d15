//! Drops what a schema does not describe.

use std::fmt::Write as _;

use serde_json::Value;

use super::compile::StructuralSchema;
use crate::decode::unknown_fields;
use crate::schema::{Schema, TypeRef};

/// Prunes an object and names what was dropped, in the order of the document.
pub(super) fn prune_object(object: &mut Value, schema: &StructuralSchema) -> Vec<String> {
    let mut dropped = Vec::new();
    prune_resource(object, schema, &mut String::new(), &mut dropped);
    dropped
}

/// The type of every object's metadata.
fn metadata_type() -> Option<TypeRef<'static>> {
    Schema::built_in().types().type_of_kind("v1", "Pod")?.child("metadata")
}

fn prune_resource(
    object: &mut Value,
    schema: &StructuralSchema,
    path: &mut String,
    dropped: &mut Vec<String>,
) {
    let Some(map) = object.as_object_mut() else { return };
    let length = path.len();
    let mut gone = Vec::new();
    for (key, value) in map.iter_mut() {
        let dot = if path.is_empty() { "" } else { "." };
        match key.as_str() {
            "apiVersion" | "kind" => {}
            "metadata" => {
                if let Some(kind) = metadata_type() {
                    for name in unknown_fields(value, kind) {
                        let inner = name.trim_start_matches("unknown field \"");
                        dropped.push(format!("unknown field \"{path}{dot}metadata.{inner}"));
                    }
                    strip_undeclared(value, kind);
                }
            }
            _ => {
                if let Some(child) = schema.property(key).or(schema.additional.as_deref()) {
                    let _ = write!(path, "{dot}{key}");
                    prune_value(value, child, path, dropped);
                    path.truncate(length);
                } else if !schema.preserve_unknown {
                    dropped.push(format!("unknown field \"{path}{dot}{key}\""));
                    gone.push(key.clone());
                }
            }
        }
    }
    if !gone.is_empty() {
        map.retain(|key, _| !gone.contains(key));
    }
}

/// Drops fields a built-in type does not have.
fn strip_undeclared(value: &mut Value, kind: TypeRef<'_>) {
    match value {
        Value::Object(map) => {
            map.retain(|key, _| kind.child(key).is_some() || kind.as_map().is_none());
            for (key, value) in map.iter_mut() {
                if let Some(child) = kind.child(key) {
                    strip_undeclared(value, child);
                }
            }
        }
        Value::Array(items) => {
            if let Some(item) = kind.item() {
                items.iter_mut().for_each(|value| strip_undeclared(value, item));
            }
        }
        _ => {}
    }
}

fn prune_value(value: &mut Value, schema: &StructuralSchema, path: &mut String, dropped: &mut Vec<String>) {
    if schema.embedded_resource {
        return prune_resource(value, schema, path, dropped);
    }
    let length = path.len();
    match value {
        Value::Object(map) => {
            let mut gone = Vec::new();
            for (key, value) in map.iter_mut() {
                let child = schema.property(key).or(schema.additional.as_deref());
                if child.is_none() && !schema.preserve_unknown {
                    dropped.push(format!("unknown field \"{path}.{key}\""));
                    gone.push(key.clone());
                } else if let Some(child) = child {
                    let _ = write!(path, ".{key}");
                    prune_value(value, child, path, dropped);
                    path.truncate(length);
                }
            }
            if !gone.is_empty() {
                map.retain(|key, _| !gone.contains(key));
            }
        }
        Value::Array(items) => {
            // Below what is kept unseen there is nothing to know.
            let Some(item) = schema.items.as_deref() else { return };
            for (index, value) in items.iter_mut().enumerate() {
                let _ = write!(path, "[{index}]");
                prune_value(value, item, path, dropped);
                path.truncate(length);
            }
        }
        _ => {}
    }
}
