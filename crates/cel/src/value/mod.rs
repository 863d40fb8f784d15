//! The values expressions compute: cheap to clone, lazily over JSON.

mod equal;
mod json;
mod list;
mod map;
mod show;
mod text;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

pub(crate) use equal::{compare, compare_numbers, equal};
pub use list::List;
pub(crate) use map::Entries;
pub use map::{Key, Map};
pub(crate) use show::{double_text, duration_text, go_float};
pub use text::Str;

use crate::types::Type;

/// A value; it may borrow from the JSON the expression is evaluated over.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Str<'a>),
    Bytes(Arc<[u8]>),
    Timestamp(Timestamp),
    Duration(SignedDuration),
    List(List<'a>),
    Map(Map<'a>),
    /// A type as a value: its name.
    Type(Arc<str>),
    Optional(Option<Arc<Value<'a>>>),
    /// A value of a library: an address, a quantity, a version.
    Opaque(Arc<dyn Opaque>),
}

/// A value only its library looks into.
pub trait Opaque: fmt::Debug + Send + Sync + 'static {
    /// The name of its type.
    fn type_name(&self) -> &str;
    /// Returns true if it equals another value of the same type.
    fn equals(&self, other: &dyn Opaque) -> bool;
    /// For the library to look into it.
    fn as_any(&self) -> &dyn Any;
    /// Returns the value as text.
    fn show(&self) -> String;
}

impl<'a> Value<'a> {
    /// A text.
    pub fn string(text: impl Into<Str<'a>>) -> Self {
        Self::String(text.into())
    }

    /// A list of values.
    pub fn list(values: impl Into<Arc<[Value<'a>]>>) -> Self {
        Self::List(List::Values(values.into()))
    }

    /// An optional that holds a value.
    pub fn some(value: Value<'a>) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    /// The text, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The truth, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(truth) => Some(*truth),
            _ => None,
        }
    }

    /// The name of its type, as `type()` gives it.
    pub fn type_name(&self) -> &str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Type(_) => "type",
            Self::Optional(_) => "optional_type",
            Self::Opaque(value) => value.type_name(),
        }
    }

    /// Its static type, as far as its outermost kind tells.
    pub fn ty(&self) -> Type {
        match self {
            Self::Null => Type::Null,
            Self::Bool(_) => Type::Bool,
            Self::Int(_) => Type::Int,
            Self::Uint(_) => Type::Uint,
            Self::Double(_) => Type::Double,
            Self::String(_) => Type::String,
            Self::Bytes(_) => Type::Bytes,
            Self::Timestamp(_) => Type::Timestamp,
            Self::Duration(_) => Type::Duration,
            Self::List(_) => Type::list(Type::Dyn),
            Self::Map(_) => Type::map(Type::Dyn, Type::Dyn),
            Self::Type(_) => Type::Type,
            Self::Optional(_) => Type::optional(Type::Dyn),
            Self::Opaque(value) => Type::opaque(value.type_name()),
        }
    }

    /// Returns true if it is its type's zero value: zero, empty, false.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(truth) => !truth,
            Self::Int(number) => *number == 0,
            Self::Uint(number) => *number == 0,
            Self::Double(number) => *number == 0.0,
            Self::String(text) => text.is_empty(),
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::Timestamp(_) | Self::Type(_) | Self::Opaque(_) => false,
            Self::Duration(duration) => duration.is_zero(),
            Self::List(list) => list.is_empty(),
            Self::Map(map) => map.is_empty(),
            Self::Optional(inner) => inner.is_none(),
        }
    }
}

impl PartialEq for Value<'_> {
    /// Equality as `==` in an expression: numbers of different types are equal when they are the same
    /// number.
    fn eq(&self, other: &Self) -> bool {
        equal(self, other, &crate::eval::Meter::unlimited()).unwrap_or(false)
    }
}
