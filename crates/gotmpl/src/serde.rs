//! Values to and from serde: Go's encoding/json view of them.

use std::cell::Cell;
use std::fmt;

use base64::Engine as _;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::ser::{Error as _, SerializeMap, SerializeSeq, Serializer};
use serde::{Deserialize, Serialize};

use crate::object::{Json, Object};
use crate::str::Str;
use crate::value::{List, MAX_VALUE_DEPTH, Map, RED_ZONE, SEGMENT, Value};

/// What a decoded whole number becomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Numbers {
    /// `float64`, as in everything Helm reads from YAML or JSON.
    Float64,
    /// `int64` if written without fraction or exponent, as `--set` gives.
    Int64,
}

impl Numbers {
    fn signed(self, n: i64) -> Value {
        match self {
            Numbers::Float64 => Value::Float64(n as f64),
            Numbers::Int64 => Value::Int64(n),
        }
    }

    fn unsigned(self, n: u64) -> Value {
        match (self, i64::try_from(n)) {
            (Numbers::Int64, Ok(n)) => Value::Int64(n),
            _ => Value::Float64(n as f64),
        }
    }
}

impl Value {
    /// Converts the common object model.
    pub fn from_json(json: &serde_json::Value, numbers: Numbers) -> Value {
        // A parsed document nests a few hundred levels at most: its reader limits that.
        match json {
            serde_json::Value::Null => Value::Nil,
            serde_json::Value::Bool(b) => Value::Bool(*b),
            serde_json::Value::Number(n) => match (n.as_i64(), n.as_u64()) {
                (Some(n), _) => numbers.signed(n),
                (_, Some(n)) => numbers.unsigned(n),
                _ => Value::Float64(n.as_f64().unwrap_or_default()),
            },
            serde_json::Value::String(s) => Value::Str(s.as_str().into()),
            serde_json::Value::Array(items) => stacker::maybe_grow(RED_ZONE, SEGMENT, || {
                Value::list(items.iter().map(|v| Value::from_json(v, numbers)).collect())
            }),
            serde_json::Value::Object(members) => stacker::maybe_grow(RED_ZONE, SEGMENT, || {
                Value::Map(
                    members.iter().map(|(k, v)| (k.as_str(), Value::from_json(v, numbers))).collect::<Map>(),
                )
            }),
        }
    }
}

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Counts nesting across recursive `serialize` calls, which share no state of ours.
struct Nested;

impl Nested {
    fn enter() -> Option<Nested> {
        DEPTH.with(|d| {
            (d.get() < MAX_VALUE_DEPTH).then(|| {
                d.set(d.get() + 1);
                Nested
            })
        })
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        DEPTH.with(|d| d.set(d.get().saturating_sub(1)));
    }
}

fn cycle<E: serde::ser::Error>(v: &Value) -> E {
    E::custom(format!("json: unsupported value: encountered a cycle via {}", v.type_name()))
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Nil => s.serialize_unit(),
            Value::Bool(b) => s.serialize_bool(*b),
            Value::Int(n) | Value::Int64(n) => s.serialize_i64(*n),
            Value::Int32(n) => s.serialize_i64(i64::from(*n)),
            Value::Uint8(n) => s.serialize_u64(u64::from(*n)),
            Value::Uint32(n) => s.serialize_u64(u64::from(*n)),
            Value::Uint64(n) => s.serialize_u64(*n),
            Value::Float64(n) => s.serialize_f64(*n),
            Value::Complex128(..) => Err(S::Error::custom("json: unsupported type: complex128")),
            Value::Str(b) => s.serialize_str(&go_lossy(b)),
            // encoding/json writes []byte as base64.
            Value::Bytes(b) if b.is_empty() => s.serialize_str(""),
            Value::Bytes(b) => s.serialize_str(&base64::engine::general_purpose::STANDARD.encode(b)),
            Value::List(l) if l.is_nil() => s.serialize_unit(),
            Value::Map(m) if m.is_nil() => s.serialize_unit(),
            Value::List(l) => {
                let Some(_nested) = Nested::enter() else { return Err(cycle(self)) };
                stacker::maybe_grow(RED_ZONE, SEGMENT, || {
                    let items = l.items();
                    let mut seq = s.serialize_seq(Some(items.len()))?;
                    for v in items.iter() {
                        seq.serialize_element(v)?;
                    }
                    seq.end()
                })
            }
            Value::Map(m) => {
                let Some(_nested) = Nested::enter() else { return Err(cycle(self)) };
                stacker::maybe_grow(RED_ZONE, SEGMENT, || {
                    let entries = m.entries();
                    let mut map = s.serialize_map(Some(entries.len()))?;
                    for (k, v) in entries.iter() {
                        map.serialize_entry(go_lossy(k).as_ref(), v)?;
                    }
                    map.end()
                })
            }
            Value::Object(o) | Value::Ptr(o) => {
                let Some(_nested) = Nested::enter() else { return Err(cycle(self)) };
                stacker::maybe_grow(RED_ZONE, SEGMENT, || object(o.as_ref(), s))
            }
        }
    }
}

fn object<S: Serializer>(o: &dyn Object, s: S) -> Result<S::Ok, S::Error> {
    match o.json() {
        Json::Value(v) => v.serialize(s),
        Json::Error(text) => Err(S::Error::custom(text)),
        Json::Fields(fields) => {
            let mut map = s.serialize_map(Some(fields.len()))?;
            for (k, v) in &fields {
                map.serialize_entry(k.lossy().as_ref(), v)?;
            }
            map.end()
        }
    }
}

/// Go puts one U+FFFD for each bad byte, not one for each bad sequence.
pub(crate) fn go_lossy(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(s) => s.into(),
        Err(_) => {
            let mut out = String::with_capacity(bytes.len() + 8);
            for chunk in bytes.utf8_chunks() {
                out.push_str(chunk.valid());
                out.extend(chunk.invalid().iter().map(|_| '\u{FFFD}'));
            }
            out.into()
        }
    }
}

impl Serialize for Str {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&go_lossy(self))
    }
}

/// Decodes with every number a float64, as Helm's readers do.
impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        ValueSeed(Numbers::Float64).deserialize(d)
    }
}

/// Decodes with the chosen numbers.
#[derive(Clone, Copy, Debug)]
pub struct ValueSeed(pub Numbers);

impl<'de> DeserializeSeed<'de> for ValueSeed {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Value, D::Error> {
        let Some(_nested) = Nested::enter() else {
            return Err(D::Error::custom("exceeded max depth"));
        };
        stacker::maybe_grow(RED_ZONE, SEGMENT, || d.deserialize_any(self))
    }
}

impl<'de> Visitor<'de> for ValueSeed {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Nil)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Nil)
    }

    fn visit_some<D: Deserializer<'de>>(self, d: D) -> Result<Value, D::Error> {
        self.deserialize(d)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, d: D) -> Result<Value, D::Error> {
        self.deserialize(d)
    }

    fn visit_bool<E>(self, b: bool) -> Result<Value, E> {
        Ok(Value::Bool(b))
    }

    fn visit_i64<E>(self, n: i64) -> Result<Value, E> {
        Ok(self.0.signed(n))
    }

    fn visit_u64<E>(self, n: u64) -> Result<Value, E> {
        Ok(self.0.unsigned(n))
    }

    fn visit_i128<E>(self, n: i128) -> Result<Value, E> {
        Ok(Value::Float64(n as f64))
    }

    fn visit_u128<E>(self, n: u128) -> Result<Value, E> {
        Ok(Value::Float64(n as f64))
    }

    fn visit_f64<E>(self, n: f64) -> Result<Value, E> {
        Ok(Value::Float64(n))
    }

    fn visit_str<E>(self, s: &str) -> Result<Value, E> {
        Ok(Value::Str(s.into()))
    }

    fn visit_bytes<E>(self, b: &[u8]) -> Result<Value, E> {
        Ok(Value::Str(b.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(v) = seq.next_element_seed(self)? {
            items.push(v);
        }
        Ok(Value::List(List::new(items)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let map = Map::new();
        while let Some(k) = access.next_key::<String>()? {
            map.insert(k, access.next_value_seed(self)?);
        }
        Ok(Value::Map(map))
    }
}
