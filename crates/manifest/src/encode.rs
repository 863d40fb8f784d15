//! Writes Kubernetes' protobuf form, guided by the field numbers of the schema, byte for byte as Go does.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::decode::PROTOBUF_MAGIC;
use crate::schema::{AnyForm, Field, MapShape, Scalar, SchemaAlternative, Shape, ShapeId, TypeRef, Types};

/// Writes an object of a known kind, with the envelope that names its type.
pub fn encode_protobuf(object: &Value, types: &Types) -> Option<Vec<u8>> {
    let text = |key: &str| object[key].as_str().unwrap_or("");
    let (version, kind) = (text("apiVersion"), text("kind"));
    let of = types.kind(version, kind).or_else(|| partial(version, kind, types))?;
    let mut raw = Writer::default();
    raw.message(object.as_object(), of);
    let mut meta = Writer::default();
    meta.bytes(1, version.as_bytes());
    meta.bytes(2, kind.as_bytes());
    let mut envelope = Writer(PROTOBUF_MAGIC.to_vec());
    envelope.bytes(1, &meta.0);
    envelope.bytes(2, &raw.0);
    // The content's encoding and type, which nobody gives.
    envelope.bytes(3, b"");
    envelope.bytes(4, b"");
    Some(envelope.0)
}

/// Writes one event of a watch around an object that has its envelope.
pub fn encode_watch_event(kind: &str, object: &[u8]) -> Vec<u8> {
    let mut raw = Writer::default();
    raw.bytes(1, object);
    let mut event = Writer::default();
    event.bytes(1, kind.as_bytes());
    event.bytes(2, &raw.0);
    event.0
}

/// The type of metadata alone: that of an object which has nothing else it must say.
fn partial<'t>(version: &str, kind: &str, types: &'t Types) -> Option<TypeRef<'t>> {
    match (version, kind) {
        ("meta.k8s.io/v1" | "meta.k8s.io/v1beta1", "PartialObjectMetadata") => types.kind("v1", "ConfigMap"),
        ("meta.k8s.io/v1" | "meta.k8s.io/v1beta1", "PartialObjectMetadataList") => {
            types.kind("v1", "ConfigMapList")
        }
        _ => None,
    }
}

/// A place in a message, in the order of numbers.
enum Slot<'s> {
    Field(&'s Field),
    Embedded(ShapeId),
}

#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3);
        self.varint(value);
    }

    fn bytes(&mut self, field: u32, content: &[u8]) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(content.len() as u64);
        self.0.extend_from_slice(content);
    }

    /// Writes a struct's fields. What is no pointer in Go is written even when it is zero.
    fn message(&mut self, members: Option<&Map<String, Value>>, kind: TypeRef<'_>) {
        let Shape::Map(shape) = kind.shape() else { return };
        for (number, slot) in slots(shape) {
            match slot {
                Slot::Embedded(id) => {
                    let mut inner = Writer::default();
                    inner.message(members, kind.at(id));
                    self.bytes(number, &inner.0);
                }
                Slot::Field(field) => {
                    let value = members.and_then(|m| m.get(&field.name)).filter(|v| !v.is_null());
                    self.field(number, value, field.pointer, kind.at(field.shape));
                }
            }
        }
    }

    fn field(&mut self, number: u32, value: Option<&Value>, pointer: bool, kind: TypeRef<'_>) {
        match (kind.shape(), value) {
            (Shape::List(list), value) => {
                for item in value.and_then(Value::as_array).into_iter().flatten() {
                    self.single(number, Some(item), kind.at(list.item));
                }
            }
            (Shape::Map(MapShape { name, rest: Some(rest), .. }), value) if name.is_empty() => {
                let mut entries: Vec<_> = value.and_then(Value::as_object).into_iter().flatten().collect();
                entries.sort_by(|a, b| a.0.cmp(b.0));
                for (key, value) in entries {
                    let mut entry = Writer::default();
                    entry.bytes(1, key.as_bytes());
                    entry.entry_value(value, kind.at(*rest));
                    self.bytes(number, &entry.0);
                }
            }
            (_, None) if pointer => {}
            (Shape::Scalar(Scalar::Bytes), None) => {}
            (_, value) => self.single(number, value, kind),
        }
    }

    /// The value of a map's entry; a list there is a message with the items in field 1.
    fn entry_value(&mut self, value: &Value, kind: TypeRef<'_>) {
        if let Shape::List(list) = kind.shape() {
            let mut items = Writer::default();
            for item in value.as_array().into_iter().flatten() {
                items.single(1, Some(item), kind.at(list.item));
            }
            self.bytes(2, &items.0);
        } else {
            self.single(2, Some(value), kind);
        }
    }

    fn single(&mut self, number: u32, value: Option<&Value>, kind: TypeRef<'_>) {
        match kind.shape() {
            Shape::Scalar(scalar) => self.scalar(number, value.unwrap_or(&Value::Null), *scalar),
            Shape::Map(_) => {
                let mut inner = Writer::default();
                inner.message(value.and_then(Value::as_object), kind);
                self.bytes(number, &inner.0);
            }
            Shape::Any(AnyForm::Raw) => {
                let mut inner = Writer::default();
                if let Some(value) = value {
                    inner.bytes(1, value.to_string().as_bytes());
                }
                self.bytes(number, &inner.0);
            }
            Shape::Any(AnyForm::SchemaOr(id, alternative)) => {
                let mut inner = Writer::default();
                inner.schema_or(value.unwrap_or(&Value::Null), kind.at(*id), *alternative);
                self.bytes(number, &inner.0);
            }
            Shape::List(_) => {}
        }
    }

    /// A schema, or what may stand in its place.
    fn schema_or(&mut self, value: &Value, schema: TypeRef<'_>, alternative: SchemaAlternative) {
        match (alternative, value) {
            (SchemaAlternative::Bool, Value::Object(_)) => {
                self.number(1, 1);
                self.single(2, Some(value), schema);
            }
            (SchemaAlternative::Bool, _) => self.number(1, u64::from(value == &Value::Bool(true))),
            (SchemaAlternative::Schemas, Value::Array(items)) => {
                for item in items {
                    self.single(2, Some(item), schema);
                }
            }
            (SchemaAlternative::Strings, Value::Array(items)) => {
                for item in items {
                    self.bytes(2, item.as_str().unwrap_or("").as_bytes());
                }
            }
            (SchemaAlternative::Schemas | SchemaAlternative::Strings, _) => {
                self.single(1, Some(value), schema);
            }
        }
    }

    fn scalar(&mut self, number: u32, value: &Value, scalar: Scalar) {
        let text = || value.as_str().unwrap_or("");
        let integer = || value.as_i64().unwrap_or_else(|| value.as_f64().unwrap_or(0.0) as i64);
        match scalar {
            Scalar::String => self.bytes(number, text().as_bytes()),
            Scalar::Bytes => self.bytes(number, &STANDARD.decode(text()).unwrap_or_default()),
            Scalar::Bool => self.number(number, u64::from(value == &Value::Bool(true))),
            // Negative numbers take all ten bytes, as 64-bit ones do.
            Scalar::Int32 | Scalar::Int64 => self.number(number, integer() as u64),
            Scalar::Float => {
                self.varint(u64::from(number) << 3 | 1);
                self.0.extend_from_slice(&value.as_f64().unwrap_or(0.0).to_le_bytes());
            }
            Scalar::Time | Scalar::MicroTime => {
                let mut inner = Writer::default();
                if let Ok(time) = text().parse::<jiff::Timestamp>() {
                    inner.number(1, time.as_second() as u64);
                    inner.number(2, i64::from(time.subsec_nanosecond()) as u64);
                }
                self.bytes(number, &inner.0);
            }
            Scalar::Duration => {
                let mut inner = Writer::default();
                inner.number(1, integer() as u64);
                self.bytes(number, &inner.0);
            }
            Scalar::Quantity => {
                let mut inner = Writer::default();
                let shown = if value.is_null() { "0".to_owned() } else { plain(value) };
                inner.bytes(1, shown.as_bytes());
                self.bytes(number, &inner.0);
            }
            Scalar::IntOrString => {
                let mut inner = Writer::default();
                inner.number(1, u64::from(value.is_string()));
                inner.number(2, integer() as u64);
                inner.bytes(3, text().as_bytes());
                self.bytes(number, &inner.0);
            }
        }
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// What a message consists of, by number.
fn slots(shape: &MapShape) -> Vec<(u32, Slot<'_>)> {
    let fields = shape.fields.iter().filter(|f| f.number != 0).map(|f| (f.number, Slot::Field(f)));
    let embedded = shape.embedded.iter().map(|&(number, id)| (number, Slot::Embedded(id)));
    let mut slots: Vec<_> = fields.chain(embedded).collect();
    slots.sort_by_key(|(number, _)| *number);
    slots
}
