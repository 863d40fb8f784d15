//! Named Go types a host gives to templates: structs with fields, types with methods.

use std::any::Any;
use std::borrow::Cow;

use crate::func::{FuncArgs, FuncContext, FuncError, FuncResult, FuncSignature};
use crate::str::GoString;
use crate::value::{GoKind, GoValue};

/// A value of a named Go type.
///
/// [`GoValue::Object`] holds the thing itself, [`GoValue::Ptr`] a pointer to it; what is reached through a
/// pointer is *addressable* and shows the methods of `*T` besides those of `T`.
pub trait GoObject: Any {
    /// The type `T` as `%T` prints it, without a `*`.
    fn type_name(&self) -> Cow<'static, str>;

    /// The kind of `T`.
    fn kind(&self) -> GoKind {
        GoKind::Struct
    }

    /// The exported fields of a struct in declaration order, an embedded struct as one field.
    fn fields(&self) -> Vec<(&'static str, GoValue)> {
        Vec::new()
    }

    /// One field by name, promoted ones included.
    fn field(&self, name: &str) -> Option<GoValue> {
        self.fields().into_iter().find(|(n, _)| *n == name).map(|(_, v)| v)
    }

    /// The plain value underneath a named slice, map, string or number type.
    fn inner(&self) -> Option<GoValue> {
        None
    }

    /// Why Go refuses to call a method that is there: what it returns does not fit a template.
    fn uncallable(&self, name: &str) -> Option<String> {
        let _ = name;
        None
    }

    /// The signature of a method; those with pointer receivers only when `addressable`.
    fn method(&self, name: &str, addressable: bool) -> Option<FuncSignature> {
        let _ = (name, addressable);
        None
    }

    /// Calls a method that [`GoObject::method`] described; the arguments fit its signature.
    fn call(&self, name: &str, ctx: &mut FuncContext<'_>, args: FuncArgs<'_>) -> FuncResult {
        let _ = (ctx, args);
        Err(FuncError::new(format!("no method {name}")))
    }

    /// What its `String()` (or `Error()`) method gives; a pointer receiver's only when `addressable`.
    fn text(&self, addressable: bool) -> Option<GoString> {
        let _ = addressable;
        None
    }

    /// What encoding/json makes of it.
    fn json(&self) -> ObjectJson {
        ObjectJson::Fields(self.fields().into_iter().map(|(k, v)| (GoString::from(k), v)).collect())
    }

    /// Deep equality with another object of the same type name.
    fn equals(&self, other: &dyn GoObject) -> bool {
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

impl dyn GoObject {
    /// The concrete host type, for functions that take one (`unixEpoch`, `genSignedCert` …).
    pub fn downcast<T: GoObject>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

/// The JSON form of an [`GoObject`].
pub enum ObjectJson {
    /// An object with its members in this order.
    Fields(Vec<(GoString, GoValue)>),
    /// Whatever this value encodes to.
    Value(GoValue),
    /// Cannot be encoded; the text is encoding/json's.
    Error(String),
}
