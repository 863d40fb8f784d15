//! Go's reflect.Value, as far as templates can tell: whether a value is there, sits in an interface,
//! or can have its address taken.

use std::borrow::Cow;

use crate::value::{GoValue, ListKind, MapKind};

#[derive(Clone)]
pub(crate) enum ReflectValue {
    /// No value at all.
    Invalid,
    /// Of static type `interface {}`: an element of a map or list, or a function's `any` result.
    Iface(GoValue),
    /// Of its dynamic type.
    Val(GoValue),
    /// The same, reached through a pointer.
    Addr(GoValue),
}

impl ReflectValue {
    /// `reflect.ValueOf(v)`
    pub(crate) fn value_of(v: GoValue) -> ReflectValue {
        if v.is_nil() { ReflectValue::Invalid } else { ReflectValue::Val(v) }
    }

    /// An element of a slice of this type.
    pub(crate) fn list_element(kind: ListKind, v: GoValue) -> ReflectValue {
        match kind {
            ListKind::Any => ReflectValue::Iface(v),
            _ => ReflectValue::Addr(v),
        }
    }

    /// An entry of a map of this type.
    pub(crate) fn map_entry(kind: MapKind, v: GoValue) -> ReflectValue {
        match kind {
            MapKind::Any | MapKind::Values => ReflectValue::Iface(v),
            MapKind::Strings | MapKind::Bytes => ReflectValue::Val(v),
        }
    }

    /// Returns the value of a missing entry of a map of this type (`missingkey=zero`).
    pub(crate) fn missing_entry(kind: MapKind) -> ReflectValue {
        match kind {
            MapKind::Any | MapKind::Values => ReflectValue::Iface(GoValue::Nil),
            MapKind::Strings => ReflectValue::Val(GoValue::str("")),
            MapKind::Bytes => ReflectValue::Val(GoValue::Bytes(crate::str::GoString::default())),
        }
    }

    /// Takes a value out of its interface.
    pub(crate) fn open_interface(self) -> ReflectValue {
        match self {
            ReflectValue::Iface(v) => ReflectValue::value_of(v),
            v => v,
        }
    }

    /// Follows interfaces and pointers.
    pub(crate) fn follow_pointers(self) -> ReflectValue {
        match self.open_interface() {
            ReflectValue::Val(GoValue::Ptr(o)) | ReflectValue::Addr(GoValue::Ptr(o)) => {
                ReflectValue::Addr(GoValue::Object(o))
            }
            v => v,
        }
    }

    pub(crate) fn is_true(&self) -> bool {
        match self {
            ReflectValue::Invalid => false,
            ReflectValue::Iface(v) | ReflectValue::Val(v) | ReflectValue::Addr(v) => v.is_true(),
        }
    }

    /// The value as an `interface {}` would hold it.
    pub(crate) fn into_value(self) -> GoValue {
        match self {
            ReflectValue::Invalid => GoValue::Nil,
            ReflectValue::Iface(v) | ReflectValue::Val(v) | ReflectValue::Addr(v) => v,
        }
    }

    /// The static type.
    pub(crate) fn type_name(&self) -> Cow<'static, str> {
        match self {
            ReflectValue::Invalid => "<invalid reflect.Value>".into(),
            ReflectValue::Iface(_) => "interface {}".into(),
            ReflectValue::Val(v) | ReflectValue::Addr(v) => v.type_name(),
        }
    }
}
