//! Reads Kubernetes' protobuf form, guided by the field numbers of the schema.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::{DecodeError, DecodedObject, decode_value};
use crate::schema::{AnyForm, MapShape, ScalarType, SchemaAlternative, Shape, TypeRef, TypeRegistry};

/// The prefix of every protobuf body.
pub const MAGIC: &[u8; 4] = b"k8s\0";

/// The reason a protobuf body cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    #[error("the body does not begin with the Kubernetes protobuf prefix")]
    Prefix,
    #[error("the protobuf body is cut short or damaged")]
    Damaged,
    #[error("the protobuf body is nested too deep")]
    TooDeep,
    #[error("no kind {1:?} is registered for version {0:?}")]
    UnknownKind(String, String),
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

const DEEPEST: usize = 64;

/// Reads a protobuf body: an envelope that names the type, and the object.
pub fn decode_protobuf(body: &[u8], types: &TypeRegistry) -> Result<DecodedObject, ProtobufError> {
    let body = body.strip_prefix(MAGIC).ok_or(ProtobufError::Prefix)?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &body[..0]);
    for field in MessageFields(body) {
        match field? {
            (1, WireValue::Bytes(meta)) => {
                for field in MessageFields(meta) {
                    match field? {
                        (1, WireValue::Bytes(text)) => api_version = read_string(text)?,
                        (2, WireValue::Bytes(text)) => kind = read_string(text)?,
                        _ => {}
                    }
                }
            }
            (2, WireValue::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    // Every group knows the options by its own version; they are one type.
    let shared = (kind == "DeleteOptions").then_some("v1");
    let of = types
        .type_of_kind(shared.unwrap_or(&api_version), &kind)
        .ok_or_else(|| ProtobufError::UnknownKind(api_version.clone(), kind.clone()))?;
    let mut map = Map::new();
    map.insert("kind".to_owned(), kind.into());
    map.insert("apiVersion".to_owned(), api_version.into());
    if let Shape::Map(shape) = of.shape() {
        read_message(raw, of, shape, &mut map, 0)?;
    }
    Ok(decode_value(Value::Object(map), of)?)
}

enum WireValue<'a> {
    Number(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
}

struct MessageFields<'a>(&'a [u8]);

impl<'a> MessageFields<'a> {
    fn read_varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn read_field(&mut self) -> Option<(u32, WireValue<'a>)> {
        let tag = self.read_varint()?;
        let number = u32::try_from(tag >> 3).ok()?;
        let wire = match tag & 7 {
            0 => WireValue::Number(self.read_varint()?),
            1 => {
                let (bytes, rest) = self.0.split_first_chunk::<8>()?;
                self.0 = rest;
                WireValue::Fixed(u64::from_le_bytes(*bytes))
            }
            2 => {
                let length = usize::try_from(self.read_varint()?).ok()?;
                let (bytes, rest) = self.0.split_at_checked(length)?;
                self.0 = rest;
                WireValue::Bytes(bytes)
            }
            5 => {
                let (bytes, rest) = self.0.split_first_chunk::<4>()?;
                self.0 = rest;
                WireValue::Fixed(u64::from(u32::from_le_bytes(*bytes)))
            }
            _ => return None,
        };
        Some((number, wire))
    }
}

impl<'a> Iterator for MessageFields<'a> {
    type Item = Result<(u32, WireValue<'a>), ProtobufError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.read_field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field.ok_or(ProtobufError::Damaged))
    }
}

fn read_string(bytes: &[u8]) -> Result<String, ProtobufError> {
    String::from_utf8(bytes.to_vec()).map_err(|_| ProtobufError::Damaged)
}

fn read_message(
    bytes: &[u8],
    kind: TypeRef<'_>,
    shape: &MapShape,
    map: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), ProtobufError> {
    if depth > DEEPEST {
        return Err(ProtobufError::TooDeep);
    }
    for field in MessageFields(bytes) {
        let (number, wire) = field?;
        if let Some(&(_, embedded)) = shape.embedded.iter().find(|(known, _)| *known == number) {
            let embedded = kind.at(embedded);
            if let (WireValue::Bytes(bytes), Shape::Map(shape)) = (wire, embedded.shape()) {
                read_message(bytes, embedded, shape, map, depth + 1)?;
            }
            continue;
        }
        let Some(known) = shape.fields.iter().find(|known| known.number == number) else { continue };
        let child = kind.at(known.shape);
        match child.shape() {
            Shape::List(list) => {
                let items = map.entry(known.name.clone()).or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(items) = items {
                    read_repeated(wire, kind.at(list.item), items, depth)?;
                }
            }
            Shape::Map(free) if free.name.is_empty() => {
                let Some(rest) = free.rest else { continue };
                let WireValue::Bytes(bytes) = wire else { return Err(ProtobufError::Damaged) };
                let (key, value) = read_entry(bytes, kind.at(rest), depth + 1)?;
                let entries = map.entry(known.name.clone()).or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(entries) = entries {
                    entries.insert(key, value);
                }
            }
            _ => {
                let value = read_single(wire, child, depth + 1)?;
                map.insert(known.name.clone(), value);
            }
        }
    }
    Ok(())
}

fn read_repeated(
    wire: WireValue<'_>,
    item: TypeRef<'_>,
    items: &mut Vec<Value>,
    depth: usize,
) -> Result<(), ProtobufError> {
    let packed = matches!(item.as_scalar(), Some(ScalarType::Int32 | ScalarType::Int64 | ScalarType::Bool));
    match wire {
        WireValue::Bytes(bytes) if packed => {
            let mut fields = MessageFields(bytes);
            while !fields.0.is_empty() {
                let number = fields.read_varint().ok_or(ProtobufError::Damaged)?;
                items.push(read_single(WireValue::Number(number), item, depth + 1)?);
            }
        }
        wire => items.push(read_single(wire, item, depth + 1)?),
    }
    Ok(())
}

/// A map entry: key in field 1, value in field 2.
fn read_entry(bytes: &[u8], kind: TypeRef<'_>, depth: usize) -> Result<(String, Value), ProtobufError> {
    let mut key = String::new();
    let mut value = Value::Null;
    for field in MessageFields(bytes) {
        match field? {
            (1, WireValue::Bytes(text)) => key = read_string(text)?,
            (2, wire) => {
                value = match kind.shape() {
                    // A list as a value is a message with the items in field 1.
                    Shape::List(list) => {
                        let WireValue::Bytes(bytes) = wire else { return Err(ProtobufError::Damaged) };
                        let mut items = Vec::new();
                        for field in MessageFields(bytes) {
                            if let (1, wire) = field? {
                                read_repeated(wire, kind.at(list.item), &mut items, depth)?;
                            }
                        }
                        Value::Array(items)
                    }
                    _ => read_single(wire, kind, depth)?,
                };
            }
            _ => {}
        }
    }
    Ok((key, value))
}

fn read_single(wire: WireValue<'_>, kind: TypeRef<'_>, depth: usize) -> Result<Value, ProtobufError> {
    Ok(match (kind.shape(), wire) {
        (Shape::Scalar(scalar), wire) => scalar_value(*scalar, wire)?,
        (Shape::Map(shape), WireValue::Bytes(bytes)) => {
            let mut map = Map::new();
            read_message(bytes, kind, shape, &mut map, depth)?;
            Value::Object(map)
        }
        (Shape::Any(AnyForm::Raw), WireValue::Bytes(bytes)) => {
            let mut value = Value::Null;
            for field in MessageFields(bytes) {
                if let (1, WireValue::Bytes(json)) = field? {
                    value = serde_json::from_slice(json).map_err(|_| ProtobufError::Damaged)?;
                }
            }
            value
        }
        (Shape::Any(AnyForm::SchemaOr(id, alternative)), WireValue::Bytes(bytes)) => {
            schema_or(bytes, kind.at(*id), *alternative, depth)?
        }
        _ => return Err(ProtobufError::Damaged),
    })
}

/// A schema, or what may stand in its place.
fn schema_or(
    bytes: &[u8],
    schema: TypeRef<'_>,
    alternative: SchemaAlternative,
    depth: usize,
) -> Result<Value, ProtobufError> {
    let mut value = Value::Null;
    let mut list = Vec::new();
    for field in MessageFields(bytes) {
        match (alternative, field?) {
            // The boolean comes with a schema as well; the schema says more.
            (SchemaAlternative::Bool, (1, WireValue::Number(allows))) if value.is_null() => {
                value = (allows != 0).into();
            }
            (SchemaAlternative::Bool, (2, wire))
            | (SchemaAlternative::Schemas | SchemaAlternative::Strings, (1, wire)) => {
                value = decode_value(read_single(wire, schema, depth + 1)?, schema)?.object;
            }
            (SchemaAlternative::Schemas, (2, wire)) => {
                list.push(decode_value(read_single(wire, schema, depth + 1)?, schema)?.object);
            }
            (SchemaAlternative::Strings, (2, WireValue::Bytes(text))) => list.push(read_string(text)?.into()),
            _ => {}
        }
    }
    Ok(if list.is_empty() { value } else { Value::Array(list) })
}

fn scalar_value(scalar: ScalarType, wire: WireValue<'_>) -> Result<Value, ProtobufError> {
    Ok(match (scalar, wire) {
        (ScalarType::String, WireValue::Bytes(bytes)) => read_string(bytes)?.into(),
        (ScalarType::Bytes, WireValue::Bytes(bytes)) => STANDARD.encode(bytes).into(),
        (ScalarType::Bool, WireValue::Number(number)) => (number != 0).into(),
        (ScalarType::Int32 | ScalarType::Int64, WireValue::Number(number)) => (number as i64).into(),
        (ScalarType::Float, WireValue::Fixed(bits)) => f64::from_bits(bits).into(),
        (ScalarType::Time | ScalarType::MicroTime, WireValue::Bytes(bytes)) => {
            let (mut seconds, mut nanos) = (0i64, 0i64);
            for field in MessageFields(bytes) {
                match field? {
                    (1, WireValue::Number(number)) => seconds = number as i64,
                    (2, WireValue::Number(number)) => nanos = number as i64,
                    _ => {}
                }
            }
            if bytes.is_empty() {
                return Ok(Value::Null);
            }
            let nanos = i32::try_from(nanos).map_err(|_| ProtobufError::Damaged)?;
            let time = jiff::Timestamp::new(seconds, nanos).map_err(|_| ProtobufError::Damaged)?;
            // As JSON has them: seconds, or six digits whatever they are.
            if scalar == ScalarType::Time { format!("{time:.0}").into() } else { format!("{time:.6}").into() }
        }
        (ScalarType::Quantity, WireValue::Bytes(bytes)) => {
            let mut text = String::from("0");
            for field in MessageFields(bytes) {
                if let (1, WireValue::Bytes(bytes)) = field? {
                    text = read_string(bytes)?;
                }
            }
            text.into()
        }
        (ScalarType::IntOrString, WireValue::Bytes(bytes)) => {
            let (mut is_text, mut number, mut text) = (false, 0i64, String::new());
            for field in MessageFields(bytes) {
                match field? {
                    (1, WireValue::Number(kind)) => is_text = kind == 1,
                    (2, WireValue::Number(value)) => number = value as i64,
                    (3, WireValue::Bytes(bytes)) => text = read_string(bytes)?,
                    _ => {}
                }
            }
            if is_text { text.into() } else { number.into() }
        }
        _ => return Err(ProtobufError::Damaged),
    })
}
