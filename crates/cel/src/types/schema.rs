//! Types from the structural schemas of custom resource definitions.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;

use super::{Field, ObjectType, Type};

/// Schemas nested deeper are `dyn`.
const DEEPEST: usize = 100;

/// Words that must be escaped as names of fields in an expression.
const KEYWORDS: &[&str] = &[
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
];

impl Type {
    /// The type of what a structural schema describes, as Kubernetes' validation rules see it.
    ///
    /// Fields whose names cannot be written in an expression even when escaped are left out.
    pub fn from_json_schema(schema: &Json) -> Self {
        of(schema, "object", false, 0)
    }

    /// Like [`Type::from_json_schema`] for the root of an object or an embedded one, whose `apiVersion`,
    /// `kind` and `metadata` exist though the schema need not name them.
    pub fn from_resource_schema(schema: &Json) -> Self {
        of(schema, "object", true, 0)
    }
}

fn flag(schema: &Json, name: &str) -> bool {
    schema.get(name).and_then(Json::as_bool).unwrap_or(false)
}

fn of(schema: &Json, name: &str, resource: bool, depth: usize) -> Type {
    let plain = plain(schema, name, resource, depth);
    match plain {
        Type::Dyn | Type::Object(_) => plain,
        other if flag(schema, "nullable") => Type::nullable(other),
        other => other,
    }
}

fn plain(schema: &Json, name: &str, resource: bool, depth: usize) -> Type {
    if depth > DEEPEST || flag(schema, "x-kubernetes-int-or-string") {
        return Type::Dyn;
    }
    let kind = schema.get("type").and_then(Json::as_str).unwrap_or_default();
    let format = schema.get("format").and_then(Json::as_str).unwrap_or_default();
    match kind {
        "boolean" => Type::Bool,
        "integer" => Type::Int,
        "number" => Type::Double,
        "string" => match format {
            "byte" => Type::Bytes,
            "date" | "date-time" => Type::Timestamp,
            "duration" => Type::Duration,
            _ => Type::String,
        },
        "array" => match schema.get("items") {
            Some(items) => Type::list(of(items, &format!("{name}.@idx"), false, depth + 1)),
            None => Type::list(Type::Dyn),
        },
        "object" => {
            let resource = resource || flag(schema, "x-kubernetes-embedded-resource");
            object(schema, name, resource, depth)
        }
        _ => Type::Dyn,
    }
}

fn object(schema: &Json, name: &str, resource: bool, depth: usize) -> Type {
    if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
        return Type::map(Type::String, of(values, &format!("{name}.@elem"), false, depth + 1));
    }
    let open = flag(schema, "x-kubernetes-preserve-unknown-fields")
        || schema.get("additionalProperties").and_then(Json::as_bool) == Some(true);
    let properties = schema.get("properties").and_then(Json::as_object);
    if open && properties.is_none_or(serde_json::Map::is_empty) && !resource {
        return Type::Dyn;
    }
    let mut fields = BTreeMap::new();
    let mut add = |key: &str, ty: Type| {
        if let Some(escaped) = escape_field(key) {
            fields.insert(Arc::from(escaped), Field { key: key.into(), ty });
        }
    };
    for (key, property) in properties.into_iter().flatten() {
        add(key, of(property, &format!("{name}.{key}"), false, depth + 1));
    }
    if resource {
        add("apiVersion", Type::String);
        add("kind", Type::String);
        let metadata = [("name", Type::String), ("generateName", Type::String)];
        add("metadata", Type::object(&format!("{name}.metadata"), metadata));
    }
    Type::Object(Arc::new(ObjectType { name: name.into(), fields, open }))
}

/// The name by which expressions read the field `key` (`a.b` is `a__dot__b`), if there is one.
pub fn escape_field(key: &str) -> Option<String> {
    let mut characters = key.chars();
    let first = characters.next()?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_.-/".contains(c);
    if first.is_ascii_digit() || !allowed(first) || !characters.all(allowed) {
        return None;
    }
    if KEYWORDS.contains(&key) {
        return Some(format!("__{key}__"));
    }
    let escaped = key.replace("__", "__underscores__");
    Some(escaped.replace('.', "__dot__").replace('-', "__dash__").replace('/', "__slash__"))
}
