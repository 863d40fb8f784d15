//! Go's reflect.Value, as far as templates can tell: whether a value is there, sits in an interface,
//! or can have its address taken.

use std::borrow::Cow;

use crate::value::{ListKind, MapKind, Value};

#[derive(Clone)]
pub(crate) enum Rv {
    /// No value at all.
    Invalid,
    /// Of static type `interface {}`: an element of a map or list, or a function's `any` result.
    Iface(Value),
    /// Of its dynamic type.
    Val(Value),
    /// The same, reached through a pointer.
    Addr(Value),
}

impl Rv {
    /// `reflect.ValueOf(v)`
    pub(crate) fn of(v: Value) -> Rv {
        if v.is_nil() { Rv::Invalid } else { Rv::Val(v) }
    }

    /// An element of a slice of this type.
    pub(crate) fn element(kind: ListKind, v: Value) -> Rv {
        match kind {
            ListKind::Any => Rv::Iface(v),
            _ => Rv::Addr(v),
        }
    }

    /// An entry of a map of this type.
    pub(crate) fn entry(kind: MapKind, v: Value) -> Rv {
        match kind {
            MapKind::Any | MapKind::Values => Rv::Iface(v),
            MapKind::Strings | MapKind::Bytes => Rv::Val(v),
        }
    }

    /// What a missing entry of a map of this type gives (`missingkey=zero`).
    pub(crate) fn missing(kind: MapKind) -> Rv {
        match kind {
            MapKind::Any | MapKind::Values => Rv::Iface(Value::Nil),
            MapKind::Strings => Rv::Val(Value::str("")),
            MapKind::Bytes => Rv::Val(Value::Bytes(crate::str::Str::default())),
        }
    }

    /// Takes a value out of its interface.
    pub(crate) fn open(self) -> Rv {
        match self {
            Rv::Iface(v) => Rv::of(v),
            v => v,
        }
    }

    /// Follows interfaces and pointers.
    pub(crate) fn indirect(self) -> Rv {
        match self.open() {
            Rv::Val(Value::Ptr(o)) | Rv::Addr(Value::Ptr(o)) => Rv::Addr(Value::Object(o)),
            v => v,
        }
    }

    pub(crate) fn truth(&self) -> bool {
        match self {
            Rv::Invalid => false,
            Rv::Iface(v) | Rv::Val(v) | Rv::Addr(v) => v.truth(),
        }
    }

    /// The value as an `interface {}` would hold it.
    pub(crate) fn into_value(self) -> Value {
        match self {
            Rv::Invalid => Value::Nil,
            Rv::Iface(v) | Rv::Val(v) | Rv::Addr(v) => v,
        }
    }

    /// The static type.
    pub(crate) fn type_name(&self) -> Cow<'static, str> {
        match self {
            Rv::Invalid => "<invalid reflect.Value>".into(),
            Rv::Iface(_) => "interface {}".into(),
            Rv::Val(v) | Rv::Addr(v) => v.type_name(),
        }
    }
}
