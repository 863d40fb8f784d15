//! Named Go types a host gives to templates: structs with fields, types with methods.

use std::any::Any;
use std::borrow::Cow;

use crate::func::{Args, Ctx, FuncError, FuncResult, Signature};
use crate::str::Str;
use crate::value::{Kind, Value};

/// A value of a named Go type.
///
/// [`Value::Object`] holds the thing itself, [`Value::Ptr`] a pointer to it; what is reached through a
/// pointer is *addressable* and shows the methods of `*T` besides those of `T`.
pub trait Object: Any {
    /// The type `T` as `%T` prints it, without a `*`.
    fn type_name(&self) -> Cow<'static, str>;

    /// The kind of `T`.
    fn kind(&self) -> Kind {
        Kind::Struct
    }

    /// The exported fields of a struct in declaration order, an embedded struct as one field.
    fn fields(&self) -> Vec<(&'static str, Value)> {
        Vec::new()
    }

    /// One field by name, promoted ones included.
    fn field(&self, name: &str) -> Option<Value> {
        self.fields().into_iter().find(|(n, _)| *n == name).map(|(_, v)| v)
    }

    /// The plain value underneath a named slice, map, string or number type.
    fn inner(&self) -> Option<Value> {
        None
    }

    /// Why Go refuses to call a method that is there: what it returns does not fit a template.
    fn uncallable(&self, name: &str) -> Option<String> {
        let _ = name;
        None
    }

    /// The signature of a method; those with pointer receivers only when `addressable`.
    fn method(&self, name: &str, addressable: bool) -> Option<Signature> {
        let _ = (name, addressable);
        None
    }

    /// Calls a method that [`Object::method`] described; the arguments fit its signature.
    fn call(&self, name: &str, ctx: &mut Ctx<'_>, args: Args<'_>) -> FuncResult {
        let _ = (ctx, args);
        Err(FuncError::new(format!("no method {name}")))
    }

    /// What its `String()` (or `Error()`) method gives; a pointer receiver's only when `addressable`.
    fn text(&self, addressable: bool) -> Option<Str> {
        let _ = addressable;
        None
    }

    /// What encoding/json makes of it.
    fn json(&self) -> Json {
        Json::Fields(self.fields().into_iter().map(|(k, v)| (Str::from(k), v)).collect())
    }

    /// Deep equality with another object of the same type name.
    fn equals(&self, other: &dyn Object) -> bool {
        let (a, b) = (self.fields(), other.fields());
        a.len() == b.len()
            && a.iter().zip(&b).all(|((_, a), (_, b))| a.deep_equal(b))
            && match (self.inner(), other.inner()) {
                (Some(a), Some(b)) => a.deep_equal(&b),
                (None, None) => true,
                _ => false,
            }
    }
}

impl dyn Object {
    /// The concrete host type, for functions that take one (`unixEpoch`, `genSignedCert` …).
    pub fn downcast<T: Object>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

/// The JSON form of an [`Object`].
pub enum Json {
    /// An object with its members in this order.
    Fields(Vec<(Str, Value)>),
    /// Whatever this value encodes to.
    Value(Value),
    /// Cannot be encoded; the text is encoding/json's.
    Error(String),
}
