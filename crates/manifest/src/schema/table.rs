//! From the table a real server gave (rows of fields) to [`TypeRegistry`].
//!
//! The table is `{"types": [{"n": name, "f": [row…], "ma": 1?}], "roots": {"apps/v1/Deployment": n}}`.
//! A row is `[json name, type, omit, protobuf number, patch strategy, merge key, {extensions}?]`; a type
//! is `string`, `*int32`, `[]#7`, `map[string]#9` … where `#n` is the n-th type.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

use super::types::{
    AnyForm, ListKind, ListShape, MapShape, OmitRule, PatchRule, ScalarType, SchemaAlternative, Shape,
    ShapeId, StructField, TypeRegistry,
};

#[derive(Deserialize)]
struct Table<'a> {
    #[serde(borrow)]
    types: Vec<TypeRow<'a>>,
    #[serde(borrow)]
    roots: HashMap<Cow<'a, str>, u32>,
}

#[derive(Deserialize)]
struct TypeRow<'a> {
    #[serde(borrow)]
    n: Cow<'a, str>,
    #[serde(borrow)]
    f: Vec<FieldRow<'a>>,
    #[serde(default)]
    ma: u8,
}

#[derive(Deserialize)]
struct FieldRow<'a>(
    #[serde(borrow)] Cow<'a, str>,
    #[serde(borrow)] Cow<'a, str>,
    #[serde(borrow)] Cow<'a, str>,
    #[serde(borrow)] Cow<'a, str>,
    #[serde(borrow)] Cow<'a, str>,
    #[serde(borrow)] Cow<'a, str>,
    #[serde(default)] Extensions,
);

#[derive(Deserialize, Default)]
struct Extensions {
    #[serde(default)]
    lt: String,
    #[serde(default)]
    lk: Vec<String>,
    #[serde(default)]
    ma: u8,
    #[serde(default)]
    en: Vec<String>,
    #[serde(default)]
    d: Option<Value>,
    #[serde(default)]
    r: u8,
    #[serde(default)]
    i: u8,
}

/// The reason a table cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    #[error("read schema table: {0}")]
    Json(#[from] serde_json::Error),
    #[error("schema table: `{0}` has a type expression `{1}` this program does not know")]
    Type(String, String),
    #[error("schema table: `{0}` embeds itself")]
    Cycle(String),
    #[error("read schema data: {0}")]
    Io(#[from] std::io::Error),
    #[error("the embedded schema data is damaged")]
    Damaged,
}

/// Reads a table into types.
pub fn parse_table(json: &str) -> Result<TypeRegistry, TableError> {
    let table: Table<'_> = serde_json::from_str(json)?;
    let mut builder =
        TableReader { types: TypeRegistry::default(), table: &table.types, composite: HashMap::new() };
    for row in &table.types {
        // Types may refer to later ones, so every type gets its place first.
        builder.types.shapes.push(special_shape(&row.n).unwrap_or(Shape::Any(AnyForm::Raw)));
    }
    for (index, row) in table.types.iter().enumerate() {
        if special_shape(&row.n).is_some() {
            continue;
        }
        let shape = builder.struct_shape(index)?;
        builder.types.shapes[index] = shape;
    }
    let mut types = builder.types;
    for (key, index) in table.roots {
        if index as usize >= table.types.len() {
            return Err(TableError::Type(key.into_owned(), format!("#{index}")));
        }
        types.roots.insert(key.into_owned(), ShapeId(index));
    }
    Ok(types)
}

fn special_shape(name: &str) -> Option<Shape> {
    Some(match name {
        "resource.Quantity" => Shape::Scalar(ScalarType::Quantity),
        "intstr.IntOrString" => Shape::Scalar(ScalarType::IntOrString),
        "v1.Time" | "time.Time" => Shape::Scalar(ScalarType::Time),
        "v1.MicroTime" => Shape::Scalar(ScalarType::MicroTime),
        "v1.Duration" => Shape::Scalar(ScalarType::Duration),
        "v1.JSON" | "runtime.RawExtension" | "v1.FieldsV1" => Shape::Any(AnyForm::Raw),
        _ => return None,
    })
}

/// The one field whose members have owners each though its type is owned as a whole elsewhere.
const GRANULAR: (&str, &str) = ("v1.PersistentVolumeSpec", "claimRef");

struct TableReader<'a> {
    types: TypeRegistry,
    table: &'a [TypeRow<'a>],
    composite: HashMap<(String, String, bool), ShapeId>,
}

impl TableReader<'_> {
    fn struct_shape(&mut self, index: usize) -> Result<Shape, TableError> {
        let row = &self.table[index];
        if let Some(alternative) = row.n.strip_prefix("v1.JSONSchemaPropsOr") {
            let alternative = match alternative {
                "Bool" => SchemaAlternative::Bool,
                "Array" => SchemaAlternative::Schemas,
                _ => SchemaAlternative::Strings,
            };
            let schema =
                row.f.iter().find_map(|field| field.1.strip_prefix("*#")).and_then(|n| n.parse().ok());
            return Ok(Shape::Any(
                schema.map_or(AnyForm::Raw, |n| AnyForm::SchemaOr(ShapeId(n), alternative)),
            ));
        }
        let mut shape = MapShape { name: row.n.to_string(), atomic: row.ma == 1, ..MapShape::default() };
        self.add_fields(index, 0, &mut shape)?;
        shape.index_fields();
        Ok(Shape::Map(shape))
    }

    fn add_fields(&mut self, index: usize, depth: usize, shape: &mut MapShape) -> Result<(), TableError> {
        let row = &self.table[index];
        if depth > 8 {
            return Err(TableError::Cycle(row.n.to_string()));
        }
        for field in &row.f {
            let FieldRow(name, expression, omit, number, strategy, key, ext) = field;
            let number = number.parse().unwrap_or(0);
            if ext.i == 1 {
                let inner: usize = expression
                    .strip_prefix('#')
                    .and_then(|n| n.parse().ok())
                    .filter(|&n| n < self.table.len())
                    .ok_or_else(|| TableError::Type(row.n.to_string(), expression.to_string()))?;
                self.add_fields(inner, depth + 1, shape)?;
                if depth == 0 && number != 0 {
                    shape.embedded.push((number, ShapeId(inner as u32)));
                }
                continue;
            }
            let (pointer, expression) = match expression.strip_prefix('*') {
                Some(inner) => (true, inner),
                None => (false, expression.as_ref()),
            };
            let kind = match ext.lt.as_str() {
                "s" => ListKind::Set,
                "m" => ListKind::Map(ext.lk.clone()),
                _ => ListKind::Atomic,
            };
            let mut id = self
                .shape_of_expression(expression, kind, ext.ma == 1)
                .ok_or_else(|| TableError::Type(row.n.to_string(), expression.to_owned()))?;
            if (row.n.as_ref(), name.as_ref()) == GRANULAR {
                let inner = id.0 as usize;
                if let Shape::Map(shape) = self.struct_shape(inner)? {
                    id = self.types.push_shape(Shape::Map(MapShape { atomic: false, ..shape }));
                }
            }
            shape.fields.push(StructField {
                name: name.to_string(),
                shape: id,
                omit: match omit.as_ref() {
                    "e" => OmitRule::Empty,
                    "ez" => OmitRule::Zero,
                    _ => OmitRule::Never,
                },
                pointer,
                required: ext.r == 1,
                number: if depth == 0 { number } else { 0 },
                patch: PatchRule::parse(strategy, key),
                values: ext.en.clone(),
                default: ext.d.clone(),
            });
        }
        Ok(())
    }

    fn shape_of_expression(&mut self, expression: &str, kind: ListKind, atomic: bool) -> Option<ShapeId> {
        if let Some(index) = expression.strip_prefix('#') {
            return index.parse().ok().filter(|&n: &u32| (n as usize) < self.table.len()).map(ShapeId);
        }
        let memo = (expression.to_owned(), format!("{kind:?}"), atomic);
        if let Some(&id) = self.composite.get(&memo) {
            return Some(id);
        }
        let shape = if let Some(item) = expression.strip_prefix("[]") {
            let item = self.shape_of_expression(item, ListKind::Atomic, false)?;
            Shape::List(ListShape { item, kind })
        } else if let Some(value) = expression.strip_prefix("map[string]") {
            let value = self.shape_of_expression(value, ListKind::Atomic, false)?;
            Shape::Map(MapShape { rest: Some(value), atomic, ..MapShape::default() })
        } else {
            match expression {
                "string" => Shape::Scalar(ScalarType::String),
                "bool" => Shape::Scalar(ScalarType::Bool),
                "int32" => Shape::Scalar(ScalarType::Int32),
                "int64" => Shape::Scalar(ScalarType::Int64),
                "float64" => Shape::Scalar(ScalarType::Float),
                "bytes" => Shape::Scalar(ScalarType::Bytes),
                "any" => Shape::Any(AnyForm::Raw),
                _ => return None,
            }
        };
        let id = self.types.push_shape(shape);
        self.composite.insert(memo, id);
        Some(id)
    }
}
