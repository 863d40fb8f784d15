//! From an `openAPIV3Schema` to the forms the rest works with.

use std::collections::HashMap;

use regex::Regex;
use serde_json::Value;
use slipway_go::regexp::{self, RegexpError};

use super::rules::ValidationRule;
use crate::schema::{
    AnyForm, ListKind, ListShape, MapShape, OmitRule, PatchRule, ScalarType, Schema, Shape, ShapeId,
    StructField, TypeRef, TypeRegistry,
};

/// The JSON types a schema can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JsonType {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

/// A structural schema, read leniently: what does not make sense is ignored.
#[derive(Clone, Debug, Default)]
pub struct StructuralSchema {
    pub(super) json_type: Option<JsonType>,
    pub(super) nullable: bool,
    pub(super) default: Option<Value>,
    pub(super) properties: Vec<(String, StructuralSchema)>,
    by_name: HashMap<String, usize>,
    pub(super) additional: Option<Box<StructuralSchema>>,
    pub(super) items: Option<Box<StructuralSchema>>,
    pub(super) required: Vec<String>,
    pub(super) preserve_unknown: bool,
    pub(super) embedded_resource: bool,
    pub(super) int_or_string: bool,
    pub(super) list: ListKind,
    pub(super) atomic_map: bool,
    pub(super) patch: PatchRule,
    pub(super) checks: ValueChecks,
    pub(super) rules: Vec<ValidationRule>,
}

/// Conditions on values.
#[derive(Clone, Debug, Default)]
pub(super) struct ValueChecks {
    pub(super) minimum: Option<(f64, bool)>,
    pub(super) maximum: Option<(f64, bool)>,
    pub(super) multiple_of: Option<f64>,
    pub(super) min_length: Option<u64>,
    pub(super) max_length: Option<u64>,
    pub(super) pattern: Option<(String, Option<Regex>)>,
    pub(super) format: Option<String>,
    pub(super) min_items: Option<u64>,
    pub(super) max_items: Option<u64>,
    pub(super) unique_items: bool,
    pub(super) min_properties: Option<u64>,
    pub(super) max_properties: Option<u64>,
    pub(super) values: Vec<Value>,
    pub(super) all_of: Vec<StructuralSchema>,
    pub(super) any_of: Vec<StructuralSchema>,
    pub(super) one_of: Vec<StructuralSchema>,
    pub(super) not: Option<Box<StructuralSchema>>,
}

/// Patterns are compiled to at most this size, so that none can exhaust memory.
pub(super) const LARGEST_PATTERN: usize = 1 << 20;

/// Compiles a pattern as Go's RE2 would take it.
pub(super) fn compile_pattern(text: &str) -> Result<Regex, RegexpError> {
    regexp::compile_text_pattern(text, LARGEST_PATTERN)
}

impl StructuralSchema {
    /// Reads a schema.
    pub fn parse(schema: &Value) -> Self {
        let flag = |key: &str| schema.get(key).and_then(Value::as_bool).unwrap_or_default();
        let text = |key: &str| schema.get(key).and_then(Value::as_str);
        let child = |key: &str| {
            schema.get(key).filter(|child| child.is_object()).map(|child| Box::new(Self::parse(child)))
        };
        let properties: Vec<(String, StructuralSchema)> = schema
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(name, property)| (name.clone(), Self::parse(property)))
            .collect();
        let by_name = properties.iter().enumerate().map(|(at, (name, _))| (name.clone(), at)).collect();
        let texts = |key: &str| -> Vec<String> {
            let values = schema.get(key).and_then(Value::as_array).into_iter().flatten();
            values.filter_map(|value| value.as_str().map(str::to_owned)).collect()
        };
        let additional = match schema.get("additionalProperties") {
            Some(Value::Bool(true)) => Some(Box::new(Self::anything())),
            _ => child("additionalProperties"),
        };
        Self {
            json_type: match text("type") {
                Some("object") => Some(JsonType::Object),
                Some("array") => Some(JsonType::Array),
                Some("string") => Some(JsonType::String),
                Some("integer") => Some(JsonType::Integer),
                Some("number") => Some(JsonType::Number),
                Some("boolean") => Some(JsonType::Boolean),
                _ => None,
            },
            nullable: flag("nullable"),
            default: schema.get("default").filter(|default| !default.is_null()).cloned(),
            properties,
            by_name,
            additional,
            items: child("items"),
            required: texts("required"),
            preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded_resource: flag("x-kubernetes-embedded-resource"),
            int_or_string: flag("x-kubernetes-int-or-string"),
            list: match text("x-kubernetes-list-type") {
                Some("set") => ListKind::Set,
                Some("map") => ListKind::Map(texts("x-kubernetes-list-map-keys")),
                _ => ListKind::Atomic,
            },
            atomic_map: text("x-kubernetes-map-type") == Some("atomic"),
            patch: PatchRule::parse(
                text("x-kubernetes-patch-strategy").unwrap_or_default(),
                text("x-kubernetes-patch-merge-key").unwrap_or_default(),
            ),
            checks: ValueChecks::parse(schema),
            rules: ValidationRule::read_all(schema),
        }
    }

    /// The schema of content nobody described.
    pub(super) fn anything() -> Self {
        Self { preserve_unknown: true, ..Self::default() }
    }

    pub(super) fn property(&self, name: &str) -> Option<&StructuralSchema> {
        self.by_name.get(name).map(|&at| &self.properties[at].1)
    }
}

impl ValueChecks {
    fn parse(schema: &Value) -> Self {
        let number = |key: &str| schema.get(key).and_then(Value::as_f64);
        let count = |key: &str| schema.get(key).and_then(Value::as_u64);
        let flag = |key: &str| schema.get(key).and_then(Value::as_bool).unwrap_or_default();
        let schemas = |key: &str| -> Vec<StructuralSchema> {
            schema
                .get(key)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .map(StructuralSchema::parse)
                .collect()
        };
        Self {
            minimum: number("minimum").map(|bound| (bound, flag("exclusiveMinimum"))),
            maximum: number("maximum").map(|bound| (bound, flag("exclusiveMaximum"))),
            multiple_of: number("multipleOf").filter(|factor| *factor != 0.0),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            pattern: schema
                .get("pattern")
                .and_then(Value::as_str)
                .filter(|text| !text.is_empty())
                .map(|text| (text.to_owned(), compile_pattern(text).ok())),
            format: schema
                .get("format")
                .and_then(Value::as_str)
                .filter(|format| {
                    let json_type = schema.get("type").and_then(Value::as_str).unwrap_or_default();
                    super::formats::is_known(json_type, format)
                })
                .map(str::to_owned),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            unique_items: flag("uniqueItems"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
            values: schema.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
            all_of: schemas("allOf"),
            any_of: schemas("anyOf"),
            one_of: schemas("oneOf"),
            not: schema.get("not").map(|not| Box::new(StructuralSchema::parse(not))),
        }
    }
}

/// Builds the types of a custom resource's objects.
pub(super) fn build_types(api_version: &str, kind: &str, schema: &StructuralSchema) -> TypeRegistry {
    let mut builder = TypeBuilder { types: TypeRegistry::default(), imported: HashMap::new() };
    let root = builder.object_shape(schema, true);
    let root = builder.types.push_shape(root);
    builder.types.roots.insert(format!("{api_version}/{kind}"), root);
    builder.types
}

struct TypeBuilder {
    types: TypeRegistry,
    imported: HashMap<ShapeId, ShapeId>,
}

impl TypeBuilder {
    fn add_shape(&mut self, schema: &StructuralSchema) -> ShapeId {
        let shape = match schema.json_type {
            _ if schema.int_or_string => Shape::Scalar(ScalarType::IntOrString),
            // A text with a format is any scalar to those who merge.
            Some(JsonType::String) if schema.checks.format.as_deref().is_some_and(|f| f != "byte") => {
                Shape::Scalar(ScalarType::Time)
            }
            Some(JsonType::String) => Shape::Scalar(ScalarType::String),
            Some(JsonType::Integer) => Shape::Scalar(ScalarType::Int64),
            Some(JsonType::Number) => Shape::Scalar(ScalarType::Float),
            Some(JsonType::Boolean) => Shape::Scalar(ScalarType::Bool),
            Some(JsonType::Array) => {
                let item = match &schema.items {
                    Some(items) => self.add_shape(items),
                    None => self.types.push_shape(Shape::Any(AnyForm::Raw)),
                };
                Shape::List(ListShape { item, kind: schema.list.clone() })
            }
            Some(JsonType::Object) => self.object_shape(schema, schema.embedded_resource),
            None if schema.properties.is_empty() => Shape::Any(AnyForm::Raw),
            None => self.object_shape(schema, schema.embedded_resource),
        };
        self.types.push_shape(shape)
    }

    fn object_shape(&mut self, schema: &StructuralSchema, is_resource: bool) -> Shape {
        let mut map = MapShape { atomic: schema.atomic_map, ..MapShape::default() };
        if is_resource {
            let text = self.types.push_shape(Shape::Scalar(ScalarType::String));
            map.fields.push(optional_field("apiVersion", text));
            map.fields.push(optional_field("kind", text));
            let pod =
                Schema::built_in().types().type_of_kind("v1", "Pod").and_then(|pod| pod.child("metadata"));
            let metadata = match pod {
                Some(metadata) => self.import_type(metadata),
                None => self.types.push_shape(Shape::Any(AnyForm::Raw)),
            };
            map.fields.push(optional_field("metadata", metadata));
        }
        for (name, property) in &schema.properties {
            if is_resource && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                continue;
            }
            let shape = self.add_shape(property);
            map.fields.push(StructField {
                required: schema.required.contains(name),
                default: property.default.clone(),
                patch: property.patch.clone(),
                ..optional_field(name, shape)
            });
        }
        map.rest = match &schema.additional {
            Some(additional) => Some(self.add_shape(additional)),
            None if schema.preserve_unknown => Some(self.types.push_shape(Shape::Any(AnyForm::Raw))),
            None => None,
        };
        Shape::Map(map)
    }

    /// Copies a built-in type and what it refers to.
    fn import_type(&mut self, from: TypeRef<'_>) -> ShapeId {
        if let Some(&id) = self.imported.get(&from.id()) {
            return id;
        }
        let place = self.types.push_shape(Shape::Any(AnyForm::Raw));
        self.imported.insert(from.id(), place);
        let shape = match from.shape() {
            Shape::Map(map) => {
                let mut map = map.clone();
                for field in &mut map.fields {
                    field.shape = self.import_type(from.at(field.shape));
                }
                map.rest = map.rest.map(|rest| self.import_type(from.at(rest)));
                map.embedded.clear();
                Shape::Map(map)
            }
            Shape::List(list) => {
                Shape::List(ListShape { item: self.import_type(from.at(list.item)), kind: list.kind.clone() })
            }
            other => other.clone(),
        };
        self.types.shapes[place.0 as usize] = shape;
        place
    }
}

fn optional_field(name: &str, shape: ShapeId) -> StructField {
    StructField {
        name: name.to_owned(),
        shape,
        // Custom resources are not Go structs: nothing is printed that was not set.
        omit: OmitRule::Empty,
        pointer: true,
        required: false,
        number: 0,
        patch: PatchRule::default(),
        values: Vec::new(),
        default: None,
    }
}
