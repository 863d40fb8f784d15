//! Writes Kubernetes' protobuf form, guided by the field numbers of the schema, byte for byte as Go does.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::decode::PROTOBUF_MAGIC;
use crate::encode_discovery::write_document;
use crate::schema::{
    AnyForm, MapShape, ScalarType, SchemaAlternative, Shape, ShapeId, StructField, TypeRef, TypeRegistry,
};

/// Writes an object of a known kind or a discovery document, with the envelope that names its type.
pub fn encode_protobuf(object: &Value, types: &TypeRegistry) -> Option<Vec<u8>> {
    let text = |key: &str| object[key].as_str().unwrap_or("");
    let (version, kind) = (text("apiVersion"), text("kind"));
    let raw = match types.type_of_kind(version, kind).or_else(|| metadata_type(version, kind, types)) {
        Some(of) => {
            let mut raw = MessageWriter::default();
            raw.write_message(object.as_object(), of);
            raw
        }
        None => write_document(object, types)?,
    };
    let mut meta = MessageWriter::default();
    meta.write_bytes(1, version.as_bytes());
    meta.write_bytes(2, kind.as_bytes());
    let mut envelope = MessageWriter(PROTOBUF_MAGIC.to_vec());
    envelope.write_bytes(1, &meta.0);
    envelope.write_bytes(2, &raw.0);
    // The content's encoding and type, which nobody gives.
    envelope.write_bytes(3, b"");
    envelope.write_bytes(4, b"");
    Some(envelope.0)
}

/// Writes one event of a watch around an object that has its envelope.
pub fn encode_watch_event(kind: &str, object: &[u8]) -> Vec<u8> {
    let mut raw = MessageWriter::default();
    raw.write_bytes(1, object);
    let mut event = MessageWriter::default();
    event.write_bytes(1, kind.as_bytes());
    event.write_bytes(2, &raw.0);
    event.0
}

/// The type of metadata alone: that of an object which has nothing else it must say.
fn metadata_type<'t>(version: &str, kind: &str, types: &'t TypeRegistry) -> Option<TypeRef<'t>> {
    match (version, kind) {
        ("meta.k8s.io/v1" | "meta.k8s.io/v1beta1", "PartialObjectMetadata") => {
            types.type_of_kind("v1", "ConfigMap")
        }
        ("meta.k8s.io/v1" | "meta.k8s.io/v1beta1", "PartialObjectMetadataList") => {
            types.type_of_kind("v1", "ConfigMapList")
        }
        _ => None,
    }
}

/// A place in a message, in the order of numbers.
enum MessageSlot<'s> {
    Field(&'s StructField),
    Embedded(ShapeId),
}

/// Collects the fields of one message.
#[derive(Default)]
pub(crate) struct MessageWriter(Vec<u8>);

impl MessageWriter {
    pub(crate) fn written(&self) -> &[u8] {
        &self.0
    }

    fn write_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    pub(crate) fn write_number(&mut self, field: u32, value: u64) {
        self.write_varint(u64::from(field) << 3);
        self.write_varint(value);
    }

    pub(crate) fn write_bytes(&mut self, field: u32, content: &[u8]) {
        self.write_varint(u64::from(field) << 3 | 2);
        self.write_varint(content.len() as u64);
        self.0.extend_from_slice(content);
    }

    /// Writes a struct's fields. What is no pointer in Go is written even when it is zero.
    pub(crate) fn write_message(&mut self, members: Option<&Map<String, Value>>, kind: TypeRef<'_>) {
        let Shape::Map(shape) = kind.shape() else { return };
        for (number, slot) in message_slots(shape) {
            match slot {
                MessageSlot::Embedded(id) => {
                    let mut inner = MessageWriter::default();
                    inner.write_message(members, kind.at(id));
                    self.write_bytes(number, &inner.0);
                }
                MessageSlot::Field(field) => {
                    let value = members.and_then(|m| m.get(&field.name)).filter(|v| !v.is_null());
                    self.write_field(number, value, field.pointer, kind.at(field.shape));
                }
            }
        }
    }

    fn write_field(&mut self, number: u32, value: Option<&Value>, pointer: bool, kind: TypeRef<'_>) {
        match (kind.shape(), value) {
            (Shape::List(list), value) => {
                for item in value.and_then(Value::as_array).into_iter().flatten() {
                    self.write_single(number, Some(item), kind.at(list.item));
                }
            }
            (Shape::Map(MapShape { name, rest: Some(rest), .. }), value) if name.is_empty() => {
                let mut entries: Vec<_> = value.and_then(Value::as_object).into_iter().flatten().collect();
                entries.sort_by(|a, b| a.0.cmp(b.0));
                for (key, value) in entries {
                    let mut entry = MessageWriter::default();
                    entry.write_bytes(1, key.as_bytes());
                    entry.write_entry_value(value, kind.at(*rest));
                    self.write_bytes(number, &entry.0);
                }
            }
            (_, None) if pointer => {}
            (Shape::Scalar(ScalarType::Bytes), None) => {}
            (_, value) => self.write_single(number, value, kind),
        }
    }

    /// The value of a map's entry; a list there is a message with the items in field 1.
    fn write_entry_value(&mut self, value: &Value, kind: TypeRef<'_>) {
        if let Shape::List(list) = kind.shape() {
            let mut items = MessageWriter::default();
            for item in value.as_array().into_iter().flatten() {
                items.write_single(1, Some(item), kind.at(list.item));
            }
            self.write_bytes(2, &items.0);
        } else {
            self.write_single(2, Some(value), kind);
        }
    }

    fn write_single(&mut self, number: u32, value: Option<&Value>, kind: TypeRef<'_>) {
        match kind.shape() {
            Shape::Scalar(scalar) => self.write_scalar(number, value.unwrap_or(&Value::Null), *scalar),
            Shape::Map(_) => {
                let mut inner = MessageWriter::default();
                inner.write_message(value.and_then(Value::as_object), kind);
                self.write_bytes(number, &inner.0);
            }
            Shape::Any(AnyForm::Raw) => {
                let mut inner = MessageWriter::default();
                if let Some(value) = value {
                    inner.write_bytes(1, value.to_string().as_bytes());
                }
                self.write_bytes(number, &inner.0);
            }
            Shape::Any(AnyForm::SchemaOr(id, alternative)) => {
                let mut inner = MessageWriter::default();
                inner.write_schema_or(value.unwrap_or(&Value::Null), kind.at(*id), *alternative);
                self.write_bytes(number, &inner.0);
            }
            Shape::List(_) => {}
        }
    }

    /// A schema, or what may stand in its place.
    fn write_schema_or(&mut self, value: &Value, schema: TypeRef<'_>, alternative: SchemaAlternative) {
        match (alternative, value) {
            (SchemaAlternative::Bool, Value::Object(_)) => {
                self.write_number(1, 1);
                self.write_single(2, Some(value), schema);
            }
            (SchemaAlternative::Bool, _) => self.write_number(1, u64::from(value == &Value::Bool(true))),
            (SchemaAlternative::Schemas, Value::Array(items)) => {
                for item in items {
                    self.write_single(2, Some(item), schema);
                }
            }
            (SchemaAlternative::Strings, Value::Array(items)) => {
                for item in items {
                    self.write_bytes(2, item.as_str().unwrap_or("").as_bytes());
                }
            }
            (SchemaAlternative::Schemas | SchemaAlternative::Strings, _) => {
                self.write_single(1, Some(value), schema);
            }
        }
    }

    fn write_scalar(&mut self, number: u32, value: &Value, scalar: ScalarType) {
        let text = || value.as_str().unwrap_or("");
        let integer = || value.as_i64().unwrap_or_else(|| value.as_f64().unwrap_or(0.0) as i64);
        match scalar {
            ScalarType::String => self.write_bytes(number, text().as_bytes()),
            ScalarType::Bytes => self.write_bytes(number, &STANDARD.decode(text()).unwrap_or_default()),
            ScalarType::Bool => self.write_number(number, u64::from(value == &Value::Bool(true))),
            // Negative numbers take all ten bytes, as 64-bit ones do.
            ScalarType::Int32 | ScalarType::Int64 => self.write_number(number, integer() as u64),
            ScalarType::Float => {
                self.write_varint(u64::from(number) << 3 | 1);
                self.0.extend_from_slice(&value.as_f64().unwrap_or(0.0).to_le_bytes());
            }
            ScalarType::Time | ScalarType::MicroTime => {
                let mut inner = MessageWriter::default();
                if let Ok(time) = text().parse::<jiff::Timestamp>() {
                    inner.write_number(1, time.as_second() as u64);
                    inner.write_number(2, i64::from(time.subsec_nanosecond()) as u64);
                }
                self.write_bytes(number, &inner.0);
            }
            ScalarType::Duration => {
                let mut inner = MessageWriter::default();
                inner.write_number(1, integer() as u64);
                self.write_bytes(number, &inner.0);
            }
            ScalarType::Quantity => {
                let mut inner = MessageWriter::default();
                let shown = if value.is_null() { "0".to_owned() } else { plain_text(value) };
                inner.write_bytes(1, shown.as_bytes());
                self.write_bytes(number, &inner.0);
            }
            ScalarType::IntOrString => {
                let mut inner = MessageWriter::default();
                inner.write_number(1, u64::from(value.is_string()));
                inner.write_number(2, integer() as u64);
                inner.write_bytes(3, text().as_bytes());
                self.write_bytes(number, &inner.0);
            }
        }
    }
}

fn plain_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The fields and embedded structs of a message, ordered by number.
fn message_slots(shape: &MapShape) -> Vec<(u32, MessageSlot<'_>)> {
    let fields = shape.fields.iter().filter(|f| f.number != 0).map(|f| (f.number, MessageSlot::Field(f)));
    let embedded = shape.embedded.iter().map(|&(number, id)| (number, MessageSlot::Embedded(id)));
    let mut slots: Vec<_> = fields.chain(embedded).collect();
    slots.sort_by_key(|(number, _)| *number);
    slots
}
