//! Field access: methods, struct fields, map entries.

use std::rc::Rc;

use super::call::Callee;
use super::data;
use super::reflect_value::ReflectValue;
use super::{At, Exec, State, TemplateRenderer};
use crate::parse::ast::{Expr, FieldChain};
use crate::value::{GoKind, GoValue, MapKind};

impl TemplateRenderer<'_> {
    /// `receiver.a.b.c`, the arguments going to the last one if it is a method.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn eval_field_chain<'t>(
        &mut self,
        s: &mut State<'t>,
        dot: &ReflectValue,
        mut receiver: ReflectValue,
        node: At<'t>,
        names: FieldChain<'t>,
        args: &'t [Expr],
        last: Option<ReflectValue>,
    ) -> Exec<ReflectValue> {
        let mut rest = names.0;
        while let Some(at) = rest.find('.') {
            receiver = self.eval_field(s, dot, &rest[..at], node, &[], None, receiver)?;
            rest = &rest[at + 1..];
        }
        self.eval_field(s, dot, rest, node, args, last, receiver)
    }

    #[allow(clippy::too_many_arguments)]
    fn eval_field<'t>(
        &mut self,
        s: &mut State<'t>,
        dot: &ReflectValue,
        name: &'t str,
        node: At<'t>,
        args: &'t [Expr],
        last: Option<ReflectValue>,
        receiver: ReflectValue,
    ) -> Exec<ReflectValue> {
        let has_args = args.len() > 1 || last.is_some();
        // What a message names is the static type, before following interface and pointer.
        let (value, addressable, outer) = match receiver {
            ReflectValue::Invalid => return Ok(ReflectValue::Invalid),
            ReflectValue::Iface(GoValue::Nil) => {
                return Err(s.error_here(format!("nil pointer evaluating interface {{}}.{name}")));
            }
            ReflectValue::Iface(GoValue::Ptr(o)) => (GoValue::Object(o), true, Outer::Interface),
            ReflectValue::Iface(v) => (v, false, Outer::Interface),
            ReflectValue::Val(GoValue::Ptr(o)) | ReflectValue::Addr(GoValue::Ptr(o)) => {
                (GoValue::Object(o), true, Outer::Pointer)
            }
            ReflectValue::Val(v) => (v, false, Outer::Same),
            ReflectValue::Addr(v) => (v, true, Outer::Same),
        };
        match &value {
            GoValue::Map(m) => {
                if m.kind() == MapKind::Values
                    && let Some(method) = data::values_method(name)
                {
                    return self.call(s, dot, &Callee::Values(m, method), node, name, args, last);
                }
                if has_args {
                    return Err(s.error_here(format!("{name} is not a method but has arguments")));
                }
                if let Some(trace) = &mut self.trace {
                    trace.note_read(m.id(), name);
                }
                return Ok(match m.get(name) {
                    Some(v) => ReflectValue::map_entry(m.kind(), v),
                    None => ReflectValue::missing_entry(m.kind()),
                });
            }
            GoValue::Object(o) => {
                if let Some(signature) = o.method_signature(name, addressable) {
                    let callee = Callee::Method(Rc::clone(o), signature);
                    return self.call(s, dot, &callee, node, name, args, last);
                }
                if let Some(reason) = o.uncallable_reason(name) {
                    return Err(s.error_here(reason));
                }
                match o.kind() {
                    GoKind::Struct => {
                        if let Some(v) = o.field_named(name) {
                            if has_args {
                                return Err(s.error_here(format!(
                                    "{name} has arguments but cannot be invoked as function"
                                )));
                            }
                            return Ok(if addressable {
                                ReflectValue::Addr(v)
                            } else {
                                ReflectValue::Val(v)
                            });
                        }
                    }
                    GoKind::Map => {
                        if let Some(m) = value.map_entries() {
                            if has_args {
                                return Err(s.error_here(format!("{name} is not a method but has arguments")));
                            }
                            return Ok(match m.get(name) {
                                Some(v) => ReflectValue::map_entry(m.kind(), v),
                                None => ReflectValue::missing_entry(m.kind()),
                            });
                        }
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        let outer = match outer {
            Outer::Interface => "interface {}".to_owned(),
            Outer::Pointer => format!("*{}", value.type_name()),
            Outer::Same => value.type_name().into_owned(),
        };
        Err(s.error_here(format!("can't evaluate field {name} in type {outer}")))
    }
}

enum Outer {
    Interface,
    Pointer,
    Same,
}
