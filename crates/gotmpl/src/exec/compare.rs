//! The functions of text/template that look at values through reflection.

use std::cmp::Ordering;

use super::TemplateRenderer;
use super::reflect_value::ReflectValue;
use crate::builtin::Builtin;
use crate::fmt;
use crate::func::FuncError;
use crate::parse::ast::Expr;
use crate::value::{GoKind, GoList, GoMap, GoValue};

const INCOMPATIBLE: &str = "incompatible types for comparison";
const BAD_TYPE: &str = "invalid type for comparison";

/// The kinds comparison knows.
#[derive(Clone, Copy, PartialEq)]
enum Basic {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Complex(f64, f64),
    Str,
    Other,
}

fn basic_kind(v: &GoValue) -> Basic {
    match v {
        GoValue::Bool(b) => Basic::Bool(*b),
        GoValue::Float64(n) => Basic::Float(*n),
        GoValue::Complex128(re, im) => Basic::Complex(*re, *im),
        GoValue::Str(_) => Basic::Str,
        GoValue::Object(o) => match o.underlying_value() {
            Some(inner) if !matches!(inner, GoValue::Str(_)) => basic_kind(&inner),
            _ => Basic::Other,
        },
        _ => match (v.as_int(), v.as_uint()) {
            (Some(n), _) => Basic::Int(n),
            (_, Some(n)) => Basic::Uint(n),
            _ => Basic::Other,
        },
    }
}

fn string_bytes(v: &GoValue) -> &[u8] {
    match v {
        GoValue::Str(s) => s,
        _ => &[],
    }
}

impl Builtin {
    /// Takes operands of any type, present or not.
    pub(super) fn takes_reflection(self) -> bool {
        use Builtin as B;
        matches!(
            self,
            B::And
                | B::Or
                | B::Not
                | B::Len
                | B::Index
                | B::Slice
                | B::Call
                | B::Eq
                | B::Ne
                | B::Lt
                | B::Le
                | B::Gt
                | B::Ge
        )
    }
}

impl TemplateRenderer<'_> {
    pub(super) fn call_reflecting(
        &mut self,
        b: Builtin,
        args: &[ReflectValue],
        nodes: &[Expr],
    ) -> Result<ReflectValue, FuncError> {
        let none = ReflectValue::Invalid;
        let arg = |i: usize| args.get(i).unwrap_or(&none);
        let bool = |b: bool| Ok(ReflectValue::Val(GoValue::Bool(b)));
        match b {
            Builtin::Not => bool(!arg(0).is_true()),
            Builtin::Len => len(arg(0)),
            Builtin::Index => self.index(args),
            Builtin::Slice => slice_value(args),
            Builtin::Call => {
                // Nothing a template can hold is a function.
                let v = arg(0).clone().open_interface();
                if matches!(v, ReflectValue::Invalid) {
                    return Err("call of nil".into());
                }
                let name = nodes.first().map(ToString::to_string).unwrap_or_default();
                Err(FuncError::new(format!("non-function {name} of type {}", v.type_name())))
            }
            Builtin::Eq => bool(self.equals_any(args)?),
            Builtin::Ne => bool(!self.equals_any(args)?),
            Builtin::Lt => bool(is_less(arg(0), arg(1))?),
            Builtin::Le => bool(is_less(arg(0), arg(1))? || self.equals_any(args)?),
            Builtin::Gt => bool(!(is_less(arg(0), arg(1))? || self.equals_any(args)?)),
            Builtin::Ge => bool(!is_less(arg(0), arg(1))?),
            _ => Ok(ReflectValue::Invalid),
        }
    }

    fn equals_any(&self, args: &[ReflectValue]) -> Result<bool, FuncError> {
        let Some((first, others)) = args.split_first() else {
            return Err("missing argument for comparison".into());
        };
        if others.is_empty() {
            return Err("missing argument for comparison".into());
        }
        let a = first.clone().into_value();
        let ka = basic_kind(&a);
        for other in others {
            let b = other.clone().into_value();
            let truth = match (ka, basic_kind(&b)) {
                (Basic::Bool(a), Basic::Bool(b)) => a == b,
                (Basic::Int(a), Basic::Int(b)) => a == b,
                (Basic::Uint(a), Basic::Uint(b)) => a == b,
                (Basic::Float(a), Basic::Float(b)) => a == b,
                (Basic::Complex(a, b), Basic::Complex(c, d)) => a == c && b == d,
                (Basic::Str, Basic::Str) => string_bytes(&a) == string_bytes(&b),
                (Basic::Int(i), Basic::Uint(u)) | (Basic::Uint(u), Basic::Int(i)) => {
                    u64::try_from(i).is_ok_and(|i| i == u)
                }
                (Basic::Other, Basic::Other) => self.is_same_value(&a, &b)?,
                _ if a.is_nil() || b.is_nil() => false,
                _ => return Err(INCOMPATIBLE.into()),
            };
            if truth {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Equality of what is neither number, string nor bool.
    fn is_same_value(&self, a: &GoValue, b: &GoValue) -> Result<bool, FuncError> {
        let max = self.ctx.limits().value_bytes;
        let show = |v: &GoValue| {
            let shown = fmt::sprintf(b"%s", std::slice::from_ref(v), max)?;
            Ok::<_, FuncError>(String::from_utf8_lossy(&shown).into_owned())
        };
        if a.kind() != b.kind() && !a.is_nil() && !b.is_nil() {
            return Err(FuncError::new(format!(
                "non-comparable types {}: {}, {}: {}",
                show(a)?,
                a.type_name(),
                b.type_name(),
                {
                    let shown = fmt::sprint_value(b, max)?;
                    String::from_utf8_lossy(&shown).into_owned()
                }
            )));
        }
        let (nil_a, nil_b) = (is_nil(a), is_nil(b));
        if nil_a || nil_b {
            return Ok(nil_a == nil_b);
        }
        match b {
            GoValue::Ptr(o) => Ok(matches!(a, GoValue::Ptr(p) if std::rc::Rc::ptr_eq(o, p))),
            GoValue::Object(o) if o.kind() == GoKind::Struct && is_comparable(b) => Ok(a.deep_equal(b)),
            _ => Err(FuncError::new(format!("non-comparable type {}: {}", show(b)?, b.type_name()))),
        }
    }

    fn index(&mut self, args: &[ReflectValue]) -> Result<ReflectValue, FuncError> {
        let Some((item, indexes)) = args.split_first() else { return Ok(ReflectValue::Invalid) };
        let mut item = item.clone().open_interface();
        if matches!(item, ReflectValue::Invalid) {
            return Err("index of untyped nil".into());
        }
        for index in indexes {
            let index = index.clone().into_value();
            item = match item.follow_pointers() {
                ReflectValue::Invalid => return Err("index of nil pointer".into()),
                v => v,
            };
            let plain = item.clone().into_value();
            item = match plain.kind() {
                GoKind::String => {
                    let bytes = string_bytes(&plain);
                    let at = index_arg(&index, bytes.len())?;
                    match bytes.get(at) {
                        Some(b) => ReflectValue::Val(GoValue::Uint8(*b)),
                        None => return Err("reflect: string index out of range".into()),
                    }
                }
                GoKind::Slice => {
                    let l = plain.elements().unwrap_or_else(|| GoList::new(Vec::new()));
                    let at = index_arg(&index, l.len())?;
                    if let Some(trace) = &mut self.trace {
                        trace.note_read(l.id(), &format!("[{at}]"));
                    }
                    match l.get(at) {
                        Some(v) => ReflectValue::list_element(l.kind(), v),
                        None => return Err("reflect: slice index out of range".into()),
                    }
                }
                GoKind::Map => {
                    let m = plain.map_entries().unwrap_or_default();
                    let key = match &index {
                        GoValue::Str(key) => key,
                        GoValue::Nil => return Err("value is nil; should be of type string".into()),
                        v => {
                            return Err(FuncError::new(format!(
                                "value has type {}; should be string",
                                v.type_name()
                            )));
                        }
                    };
                    self.map_entry(&m, key)
                }
                _ => return Err(FuncError::new(format!("can't index item of type {}", item.type_name()))),
            };
        }
        Ok(item)
    }

    fn map_entry(&mut self, m: &GoMap, key: &[u8]) -> ReflectValue {
        if let Some(trace) = &mut self.trace {
            trace.note_read(m.id(), &String::from_utf8_lossy(key));
        }
        match m.get(key) {
            Some(v) => ReflectValue::map_entry(m.kind(), v),
            None => ReflectValue::missing_entry(m.kind()),
        }
    }
}

/// Go's isNil: nil itself, nil maps and slices.
fn is_nil(v: &GoValue) -> bool {
    match v {
        GoValue::Nil => true,
        GoValue::List(l) => l.is_nil(),
        GoValue::Map(m) => m.is_nil(),
        _ => false,
    }
}

/// A struct whose fields are all comparable.
fn is_comparable(v: &GoValue) -> bool {
    match v {
        GoValue::List(_) | GoValue::Map(_) | GoValue::Bytes(_) => false,
        GoValue::Object(o) => match o.kind() {
            GoKind::Struct => o.field_list().iter().all(|(_, v)| is_comparable(v)),
            GoKind::Slice | GoKind::Map => false,
            _ => true,
        },
        _ => true,
    }
}

fn is_less(a: &ReflectValue, b: &ReflectValue) -> Result<bool, FuncError> {
    let (a, b) = (a.clone().into_value(), b.clone().into_value());
    let (ka, kb) = (basic_kind(&a), basic_kind(&b));
    if ka == Basic::Other || kb == Basic::Other {
        return Err(BAD_TYPE.into());
    }
    Ok(match (ka, kb) {
        (Basic::Bool(_), Basic::Bool(_)) | (Basic::Complex(..), Basic::Complex(..)) => {
            return Err(BAD_TYPE.into());
        }
        (Basic::Int(a), Basic::Int(b)) => a < b,
        (Basic::Uint(a), Basic::Uint(b)) => a < b,
        (Basic::Float(a), Basic::Float(b)) => a < b,
        (Basic::Str, Basic::Str) => string_bytes(&a).cmp(string_bytes(&b)) == Ordering::Less,
        (Basic::Int(i), Basic::Uint(u)) => u64::try_from(i).map_or(true, |i| i < u),
        (Basic::Uint(u), Basic::Int(i)) => u64::try_from(i).is_ok_and(|i| u < i),
        _ => return Err(INCOMPATIBLE.into()),
    })
}

fn len(v: &ReflectValue) -> Result<ReflectValue, FuncError> {
    match v.clone() {
        ReflectValue::Iface(GoValue::Nil) => return Err("len of nil pointer".into()),
        ReflectValue::Invalid => return Err("reflect: call of reflect.Value.Type on zero Value".into()),
        _ => {}
    }
    let v = v.clone().follow_pointers().into_value();
    match v.len() {
        Some(n) => Ok(ReflectValue::Val(GoValue::Int(i64::try_from(n).unwrap_or(i64::MAX)))),
        None => Err(FuncError::new(format!("len of type {}", v.type_name()))),
    }
}

fn index_arg(index: &GoValue, cap: usize) -> Result<usize, FuncError> {
    let n = match (index, index.as_int(), index.as_uint()) {
        (_, Some(n), _) => n,
        (_, _, Some(n)) => n as i64,
        (GoValue::Nil, ..) => return Err("cannot index slice/array with nil".into()),
        _ => {
            return Err(FuncError::new(format!("cannot index slice/array with type {}", index.type_name())));
        }
    };
    match usize::try_from(n) {
        Ok(at) if at <= cap => Ok(at),
        _ => Err(FuncError::new(format!("index out of range: {n}"))),
    }
}

fn slice_value(args: &[ReflectValue]) -> Result<ReflectValue, FuncError> {
    let Some((item, indexes)) = args.split_first() else { return Ok(ReflectValue::Invalid) };
    let item = match item.clone().open_interface() {
        ReflectValue::Invalid => return Err("slice of untyped nil".into()),
        v => v.into_value(),
    };
    if indexes.len() > 3 {
        return Err(FuncError::new(format!("too many slice indexes: {}", indexes.len())));
    }
    let string = item.kind() == GoKind::String;
    if !string && item.kind() != GoKind::Slice {
        return Err(FuncError::new(format!("can't slice item of type {}", item.type_name())));
    }
    if string && indexes.len() == 3 {
        return Err("cannot 3-index slice a string".into());
    }
    let len = item.len().unwrap_or(0);
    let mut at = [0, len, len];
    for (i, index) in indexes.iter().enumerate() {
        at[i] = index_arg(&index.clone().into_value(), len)?;
    }
    if at[0] > at[1] {
        return Err(FuncError::new(format!("invalid slice index: {} > {}", at[0], at[1])));
    }
    if indexes.len() == 3 && at[1] > at[2] {
        return Err(FuncError::new(format!("invalid slice index: {} > {}", at[1], at[2])));
    }
    Ok(ReflectValue::Val(match &item {
        GoValue::Str(s) => GoValue::str(&s[at[0]..at[1]]),
        _ => {
            let l = item.elements().unwrap_or_else(|| GoList::new(Vec::new()));
            let items = l.items()[at[0]..at[1]].to_vec();
            GoValue::List(GoList::of(l.kind(), items))
        }
    }))
}
