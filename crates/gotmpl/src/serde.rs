//! Values to and from serde: Go's encoding/json view of them.

use std::cell::Cell;
use std::fmt;

use base64::Engine as _;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::ser::{Error as _, SerializeMap, SerializeSeq, Serializer};
use serde::{Deserialize, Serialize};

use crate::object::{GoObject, ObjectJson};
use crate::str::GoString;
use crate::value::{GoList, GoMap, GoValue, MAX_VALUE_DEPTH, RED_ZONE, SEGMENT};

/// What a decoded whole number becomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WholeNumbers {
    /// `float64`, as in everything Helm reads from YAML or JSON.
    Float64,
    /// `int64` if written without fraction or exponent, as `--set` gives.
    Int64,
}

impl WholeNumbers {
    fn signed(self, n: i64) -> GoValue {
        match self {
            WholeNumbers::Float64 => GoValue::Float64(n as f64),
            WholeNumbers::Int64 => GoValue::Int64(n),
        }
    }

    fn unsigned(self, n: u64) -> GoValue {
        match (self, i64::try_from(n)) {
            (WholeNumbers::Int64, Ok(n)) => GoValue::Int64(n),
            _ => GoValue::Float64(n as f64),
        }
    }
}

impl GoValue {
    /// Converts the common object model.
    pub fn from_json(json: &serde_json::Value, numbers: WholeNumbers) -> GoValue {
        // A parsed document nests a few hundred levels at most: its reader limits that.
        match json {
            serde_json::Value::Null => GoValue::Nil,
            serde_json::Value::Bool(b) => GoValue::Bool(*b),
            serde_json::Value::Number(n) => match (n.as_i64(), n.as_u64()) {
                (Some(n), _) => numbers.signed(n),
                (_, Some(n)) => numbers.unsigned(n),
                _ => GoValue::Float64(n.as_f64().unwrap_or_default()),
            },
            serde_json::Value::String(s) => GoValue::Str(s.as_str().into()),
            serde_json::Value::Array(items) => stacker::maybe_grow(RED_ZONE, SEGMENT, || {
                GoValue::list(items.iter().map(|v| GoValue::from_json(v, numbers)).collect())
            }),
            serde_json::Value::Object(members) => stacker::maybe_grow(RED_ZONE, SEGMENT, || {
                GoValue::Map(
                    members
                        .iter()
                        .map(|(k, v)| (k.as_str(), GoValue::from_json(v, numbers)))
                        .collect::<GoMap>(),
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

fn cycle<E: serde::ser::Error>(v: &GoValue) -> E {
    E::custom(format!("json: unsupported value: encountered a cycle via {}", v.type_name()))
}

impl Serialize for GoValue {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            GoValue::Nil => s.serialize_unit(),
            GoValue::Bool(b) => s.serialize_bool(*b),
            GoValue::Int(n) | GoValue::Int64(n) => s.serialize_i64(*n),
            GoValue::Int32(n) => s.serialize_i64(i64::from(*n)),
            GoValue::Uint8(n) => s.serialize_u64(u64::from(*n)),
            GoValue::Uint32(n) => s.serialize_u64(u64::from(*n)),
            GoValue::Uint64(n) => s.serialize_u64(*n),
            GoValue::Float64(n) => s.serialize_f64(*n),
            GoValue::Complex128(..) => Err(S::Error::custom("json: unsupported type: complex128")),
            GoValue::Str(b) => s.serialize_str(&go_lossy(b)),
            // encoding/json writes []byte as base64.
            GoValue::Bytes(b) if b.is_empty() => s.serialize_str(""),
            GoValue::Bytes(b) => s.serialize_str(&base64::engine::general_purpose::STANDARD.encode(b)),
            GoValue::List(l) if l.is_nil() => s.serialize_unit(),
            GoValue::Map(m) if m.is_nil() => s.serialize_unit(),
            GoValue::List(l) => {
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
            GoValue::Map(m) => {
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
            GoValue::Object(o) | GoValue::Ptr(o) => {
                let Some(_nested) = Nested::enter() else { return Err(cycle(self)) };
                stacker::maybe_grow(RED_ZONE, SEGMENT, || object(o.as_ref(), s))
            }
        }
    }
}

fn object<S: Serializer>(o: &dyn GoObject, s: S) -> Result<S::Ok, S::Error> {
    match o.json() {
        ObjectJson::Value(v) => v.serialize(s),
        ObjectJson::Error(text) => Err(S::Error::custom(text)),
        ObjectJson::Fields(fields) => {
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

impl Serialize for GoString {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&go_lossy(self))
    }
}

/// Decodes with every number a float64, as Helm's readers do.
impl<'de> Deserialize<'de> for GoValue {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        ValueSeed(WholeNumbers::Float64).deserialize(d)
    }
}

/// Decodes with the chosen numbers.
#[derive(Clone, Copy, Debug)]
pub struct ValueSeed(pub WholeNumbers);

impl<'de> DeserializeSeed<'de> for ValueSeed {
    type Value = GoValue;
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<GoValue, D::Error> {
        let Some(_nested) = Nested::enter() else {
            return Err(D::Error::custom("exceeded max depth"));
        };
        stacker::maybe_grow(RED_ZONE, SEGMENT, || d.deserialize_any(self))
    }
}

impl<'de> Visitor<'de> for ValueSeed {
    type Value = GoValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<GoValue, E> {
        Ok(GoValue::Nil)
    }

    fn visit_none<E>(self) -> Result<GoValue, E> {
        Ok(GoValue::Nil)
    }

    fn visit_some<D: Deserializer<'de>>(self, d: D) -> Result<GoValue, D::Error> {
        self.deserialize(d)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, d: D) -> Result<GoValue, D::Error> {
        self.deserialize(d)
    }

    fn visit_bool<E>(self, b: bool) -> Result<GoValue, E> {
        Ok(GoValue::Bool(b))
    }

    fn visit_i64<E>(self, n: i64) -> Result<GoValue, E> {
        Ok(self.0.signed(n))
    }

    fn visit_u64<E>(self, n: u64) -> Result<GoValue, E> {
        Ok(self.0.unsigned(n))
    }

    fn visit_i128<E>(self, n: i128) -> Result<GoValue, E> {
        Ok(GoValue::Float64(n as f64))
    }

    fn visit_u128<E>(self, n: u128) -> Result<GoValue, E> {
        Ok(GoValue::Float64(n as f64))
    }

    fn visit_f64<E>(self, n: f64) -> Result<GoValue, E> {
        Ok(GoValue::Float64(n))
    }

    fn visit_str<E>(self, s: &str) -> Result<GoValue, E> {
        Ok(GoValue::Str(s.into()))
    }

    fn visit_bytes<E>(self, b: &[u8]) -> Result<GoValue, E> {
        Ok(GoValue::Str(b.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<GoValue, A::Error> {
        let mut items = Vec::new();
        while let Some(v) = seq.next_element_seed(self)? {
            items.push(v);
        }
        Ok(GoValue::List(GoList::new(items)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<GoValue, A::Error> {
        let map = GoMap::new();
        while let Some(k) = access.next_key::<String>()? {
            map.insert(k, access.next_value_seed(self)?);
        }
        Ok(GoValue::Map(map))
    }
}
