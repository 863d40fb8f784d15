//! The types expressions have before they are evaluated.

mod schema;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

pub use schema::escape_field;

use crate::value::Value;

/// The static type of an expression; prints as CEL writes it (`map(string, list(int))`).
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// Known only when evaluated.
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    List(Arc<Type>),
    Map(Arc<Type>, Arc<Type>),
    /// An object with named fields.
    Object(Arc<ObjectType>),
    /// The type of types.
    Type,
    Optional(Arc<Type>),
    /// The type or null.
    Nullable(Arc<Type>),
    /// A type of a library, known by name.
    Opaque(Arc<str>),
    /// In the signature of a function: any type, the same wherever the number is the same.
    Param(u32),
    /// The type of an erroneous expression; the error was reported where it arose.
    Error,
}

/// A type with named fields.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectType {
    pub name: Arc<str>,
    /// By the name expressions use.
    pub fields: BTreeMap<Arc<str>, Field>,
    /// True if fields that are not declared may be read, as `dyn`.
    pub open: bool,
}

/// One field of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name in the data; differs from the name in expressions where that had to be escaped.
    pub key: Arc<str>,
    pub ty: Type,
}

impl Type {
    /// A list of something.
    pub fn list(element: Self) -> Self {
        Self::List(Arc::new(element))
    }

    /// A map from one type to another.
    pub fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new(key), Arc::new(value))
    }

    /// A value that may be absent.
    pub fn optional(inner: Self) -> Self {
        Self::Optional(Arc::new(inner))
    }

    /// A value that may be null.
    pub fn nullable(inner: Self) -> Self {
        Self::Nullable(Arc::new(inner))
    }

    /// A type of a library.
    pub fn opaque(name: &str) -> Self {
        Self::Opaque(name.into())
    }

    /// An object with exactly these fields.
    pub fn object<'a>(name: &str, fields: impl IntoIterator<Item = (&'a str, Self)>) -> Self {
        let field = |(key, ty): (&str, Self)| {
            let key: Arc<str> = key.into();
            (key.clone(), Field { key, ty })
        };
        let fields = fields.into_iter().map(field).collect();
        Self::Object(Arc::new(ObjectType { name: name.into(), fields, open: false }))
    }

    /// Returns true if nothing is known of it before evaluation.
    pub fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// Returns true if a value fits, looking no deeper than its outermost kind.
    pub(crate) fn admits(&self, value: &Value<'_>) -> bool {
        match (self, value) {
            (Self::Dyn | Self::Error | Self::Param(_), _)
            | (Self::Null | Self::Nullable(_), Value::Null)
            | (Self::Bool, Value::Bool(_))
            | (Self::Int, Value::Int(_))
            | (Self::Uint, Value::Uint(_))
            | (Self::Double, Value::Double(_))
            | (Self::String, Value::String(_))
            | (Self::Bytes, Value::Bytes(_))
            | (Self::Timestamp, Value::Timestamp(_))
            | (Self::Duration, Value::Duration(_))
            | (Self::List(_), Value::List(_))
            | (Self::Map(..) | Self::Object(_), Value::Map(_))
            | (Self::Type, Value::Type(_))
            | (Self::Optional(_), Value::Optional(_)) => true,
            (Self::Nullable(inner), other) => inner.admits(other),
            (Self::Opaque(name), Value::Opaque(other)) => **name == *other.type_name(),
            _ => false,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::List(element) => write!(f, "list({element})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Object(object) => f.write_str(&object.name),
            Self::Type => f.write_str("type"),
            Self::Optional(inner) => write!(f, "optional_type({inner})"),
            Self::Nullable(inner) => write!(f, "wrapper({inner})"),
            Self::Opaque(name) => f.write_str(name),
            Self::Param(number) => write!(f, "{}", char::from(b'A' + (number % 26) as u8)),
            Self::Error => f.write_str("!error!"),
        }
    }
}
