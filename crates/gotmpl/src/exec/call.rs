//! Commands and calls: operands evaluated against Go signatures.

use std::rc::Rc;

use super::data::ValuesMethod;
use super::reflect_value::ReflectValue;
use super::{At, Exec, State, TemplateRenderer};
use crate::builtin::Builtin;
use crate::func::{FuncArgs, FuncCode, FuncError, FuncSignature, GoType, TemplateFunc};
use crate::object::GoObject;
use crate::parse::ast::{CommandNode, Expr, FieldChain, NumberLiteral, VariableNode};
use crate::value::{GoKind, GoMap, GoValue, MapKind, RED_ZONE, SEGMENT};

/// Something that can be called.
pub(super) enum Callee<'f> {
    Func(&'f TemplateFunc),
    Method(Rc<dyn GoObject>, FuncSignature),
    /// A method of chartutil.Values.
    Values(&'f GoMap, ValuesMethod),
}

impl Callee<'_> {
    fn signature(&self) -> FuncSignature {
        match self {
            Callee::Func(f) => f.signature,
            Callee::Method(_, signature) => *signature,
            Callee::Values(_, method) => method.signature(),
        }
    }

    fn builtin(&self) -> Option<Builtin> {
        match self {
            Callee::Func(TemplateFunc { code: FuncCode::Builtin(b), .. }) => Some(*b),
            _ => None,
        }
    }
}

impl TemplateRenderer<'_> {
    pub(super) fn eval_command<'t>(
        &mut self,
        s: &mut State<'t>,
        dot: &ReflectValue,
        command: &'t CommandNode,
        last: Option<ReflectValue>,
    ) -> Exec<ReflectValue> {
        let args = command.args.as_slice();
        let Some(first) = args.first() else { return Ok(ReflectValue::Invalid) };
        match first {
            Expr::Field(_, names) => {
                s.at = At::Expr(first);
                return self.eval_field_chain(
                    s,
                    dot,
                    dot.clone(),
                    At::Expr(first),
                    FieldChain(names),
                    args,
                    last,
                );
            }
            Expr::Chain(..) => return self.eval_chain(s, dot, first, args, last),
            Expr::Ident(_, name, func) => {
                s.at = At::Expr(first);
                return self.call(s, dot, &Callee::Func(func), At::Command(command), name, args, last);
            }
            Expr::Pipe(pipe) => {
                not_a_function(s, args, last.as_ref())?;
                return stacker::maybe_grow(RED_ZONE, SEGMENT, || self.eval_pipeline(s, dot, pipe));
            }
            Expr::Variable(v) => return self.eval_variable(s, dot, v, args, last),
            _ => {}
        }
        s.at = At::Expr(first);
        not_a_function(s, args, last.as_ref())?;
        match first {
            Expr::Dot(_) => Ok(dot.clone()),
            Expr::Nil(_) => Err(s.error_here("nil is not a command")),
            literal => eval_constant(s, literal),
        }
    }

    fn eval_variable<'t>(
        &mut self,
        s: &mut State<'t>,
        dot: &ReflectValue,
        v: &'t VariableNode,
        args: &'t [Expr],
        last: Option<ReflectValue>,
    ) -> Exec<ReflectValue> {
        s.at = At::Variable(v);
        let value = self.variable_value(s, v.variable_name())?;
        let fields = v.field_chain();
        if fields.0.is_empty() {
            not_a_function(s, args, last.as_ref())?;
            return Ok(value);
        }
        self.eval_field_chain(s, dot, value, At::Variable(v), fields, args, last)
    }

    fn eval_chain<'t>(
        &mut self,
        s: &mut State<'t>,
        dot: &ReflectValue,
        chain: &'t Expr,
        args: &'t [Expr],
        last: Option<ReflectValue>,
    ) -> Exec<ReflectValue> {
        s.at = At::Expr(chain);
        let Expr::Chain(_, base, names) = chain else { return Ok(ReflectValue::Invalid) };
        let base = self.eval_operand(s, dot, base)?;
        self.eval_field_chain(s, dot, base, At::Expr(chain), FieldChain(names), args, last)
    }

    /// An operand of no particular type.
    fn eval_operand<'t>(&mut self, s: &mut State<'t>, dot: &ReflectValue, e: &'t Expr) -> Exec<ReflectValue> {
        s.at = At::Expr(e);
        match e {
            Expr::Dot(_) => Ok(dot.clone()),
            Expr::Nil(_) => Ok(ReflectValue::Invalid),
            Expr::Field(_, names) => {
                self.eval_field_chain(s, dot, dot.clone(), At::Expr(e), FieldChain(names), &[], None)
            }
            Expr::Variable(v) => self.eval_variable(s, dot, v, &[], None),
            Expr::Pipe(pipe) => stacker::maybe_grow(RED_ZONE, SEGMENT, || self.eval_pipeline(s, dot, pipe)),
            Expr::Ident(_, name, func) => {
                self.call(s, dot, &Callee::Func(func), At::Expr(e), name, &[], None)
            }
            Expr::Chain(..) => self.eval_chain(s, dot, e, &[], None),
            literal => eval_constant(s, literal),
        }
    }

    /// An operand for a parameter of type `ty`.
    fn eval_argument<'t>(
        &mut self,
        s: &mut State<'t>,
        dot: &ReflectValue,
        ty: GoType,
        e: &'t Expr,
    ) -> Exec<GoValue> {
        match e {
            Expr::Nil(_) => {
                s.at = At::Expr(e);
                if ty.can_be_nil() {
                    Ok(ty.zero_value())
                } else {
                    Err(s.error_here(format!("cannot assign nil to {ty}")))
                }
            }
            Expr::Bool(..) | Expr::Number(_) | Expr::String(..) => {
                s.at = At::Expr(e);
                literal_of_type(s, ty, e)
            }
            _ => {
                let v = self.eval_operand(s, dot, e)?;
                validate_type(s, v, ty)
            }
        }
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn call<'t>(
        &mut self,
        s: &mut State<'t>,
        dot: &ReflectValue,
        callee: &Callee<'_>,
        node: At<'t>,
        name: &str,
        args: &'t [Expr],
        last: Option<ReflectValue>,
    ) -> Exec<ReflectValue> {
        // The first one is the function itself.
        let args = args.get(1..).unwrap_or_default();
        let signature = callee.signature();
        let fixed = signature.params.len();
        let count = args.len() + usize::from(last.is_some());
        if signature.variadic.is_some() {
            if count < fixed {
                return Err(s.error_here(format!(
                    "wrong number of args for {name}: want at least {fixed} got {}",
                    args.len()
                )));
            }
        } else if count != fixed {
            return Err(s.error_here(format!("wrong number of args for {name}: want {fixed} got {count}")));
        }
        let builtin = callee.builtin();
        match builtin {
            Some(b @ (Builtin::And | Builtin::Or)) => {
                let mut value = ReflectValue::Invalid;
                for arg in args {
                    value = self.eval_operand(s, dot, arg)?;
                    if value.is_true() == (b == Builtin::Or) {
                        return Ok(value);
                    }
                }
                return Ok(last.unwrap_or(value));
            }
            Some(b) if b.takes_reflection() => {
                let mut values = Vec::with_capacity(count);
                for arg in args {
                    values.push(self.eval_operand(s, dot, arg)?);
                }
                values.extend(last);
                if b == Builtin::Call && args.is_empty() {
                    // Go names the callee after its first written operand without looking for one.
                    return Err(super::ExecError::go_panic(
                        "runtime error: index out of range [0] with length 0",
                    ));
                }
                let result = self.call_reflecting(b, &values, args);
                return result.map_err(|e| call_error(s, node, name, &e));
            }
            _ => {}
        }
        let param = |i: usize| signature.params.get(i).copied().or(signature.variadic).unwrap_or(GoType::Any);
        let mut values = Vec::with_capacity(count);
        for (i, arg) in args.iter().enumerate() {
            values.push(self.eval_argument(s, dot, param(i), arg)?);
        }
        if let Some(last) = last {
            values.push(validate_type(s, last, param(args.len()))?);
        }
        let result = match callee {
            Callee::Func(TemplateFunc { code: FuncCode::Plain(body), .. }) => {
                body(&mut self.ctx, FuncArgs(&values))
            }
            Callee::Func(TemplateFunc { code: FuncCode::Builtin(b), .. }) => self.call_printing(*b, &values),
            Callee::Method(o, _) => o.call(name, &mut self.ctx, FuncArgs(&values)),
            Callee::Values(m, method) => self.values_method(m, *method, FuncArgs(&values)),
        };
        match result {
            Ok(v) if signature.result == GoType::Any => Ok(ReflectValue::Iface(v)),
            Ok(v) => Ok(ReflectValue::Val(v)),
            Err(e) => Err(call_error(s, node, name, &e)),
        }
    }
}

fn call_error<'t>(s: &mut State<'t>, node: At<'t>, name: &str, e: &FuncError) -> Box<super::ExecError> {
    s.at = node;
    s.located_error(format!("error calling {name}: {}", e.message()), e.is_limit())
}

fn not_a_function(s: &State<'_>, args: &[Expr], last: Option<&ReflectValue>) -> Exec<()> {
    match args.first() {
        Some(first) if args.len() > 1 || last.is_some() => {
            let shown = match first {
                Expr::Pipe(p) => p.to_string(),
                e => e.to_string(),
            };
            Err(s.error_here(format!("can't give argument to non-function {shown}")))
        }
        _ => Ok(()),
    }
}

/// A literal where any type will do.
fn eval_constant<'t>(s: &mut State<'t>, e: &'t Expr) -> Exec<ReflectValue> {
    s.at = At::Expr(e);
    Ok(match e {
        Expr::Bool(_, b) => ReflectValue::Val(GoValue::Bool(*b)),
        Expr::String(_, text, _) => ReflectValue::Val(GoValue::Str(text.clone())),
        Expr::Number(n) => match ideal_number(n) {
            Some(v) => ReflectValue::value_of(v),
            None => return Err(s.error_here(format!("{} overflows int", n.text))),
        },
        _ => ReflectValue::Invalid,
    })
}

/// The type Go gives a numeric literal on its own; none if it is too large for an int.
fn ideal_number(n: &NumberLiteral) -> Option<GoValue> {
    if let Some((re, im)) = n.complex {
        return Some(GoValue::Complex128(re, im));
    }
    let hex = n.text.len() > 2
        && n.text.as_bytes()[..2].eq_ignore_ascii_case(b"0x")
        && !n.text.contains(['p', 'P']);
    let rune = n.text.starts_with('\'');
    if let Some(f) = n.float
        && !hex
        && !rune
        && n.text.contains(['.', 'e', 'E', 'p', 'P'])
    {
        return Some(GoValue::Float64(f));
    }
    match (n.int, n.uint) {
        (Some(i), _) => Some(GoValue::Int(i)),
        (None, Some(_)) => None,
        _ => Some(GoValue::Nil),
    }
}

/// A literal for a parameter of type `ty`: numbers fit any numeric type that can hold them.
fn literal_of_type<'t>(s: &mut State<'t>, ty: GoType, e: &'t Expr) -> Exec<GoValue> {
    let number = match e {
        Expr::Number(n) => Some(n),
        _ => None,
    };
    let (value, expected) = match ty.go_kind() {
        GoKind::Interface => return eval_constant(s, e).map(ReflectValue::into_value),
        GoKind::Bool => {
            let v = if let Expr::Bool(_, b) = e { Some(GoValue::Bool(*b)) } else { None };
            (v, "bool")
        }
        GoKind::String => {
            let v = if let Expr::String(_, text, _) = e { Some(GoValue::Str(text.clone())) } else { None };
            (v, "string")
        }
        GoKind::Int => (number.and_then(|n| n.int).map(GoValue::Int), "integer"),
        GoKind::Int64 => (number.and_then(|n| n.int).map(GoValue::Int64), "integer"),
        GoKind::Int32 => (number.and_then(|n| n.int).map(|n| GoValue::Int32(n as i32)), "integer"),
        GoKind::Uint32 => {
            (number.and_then(|n| n.uint).map(|n| GoValue::Uint32(n as u32)), "unsigned integer")
        }
        GoKind::Uint64 => (number.and_then(|n| n.uint).map(GoValue::Uint64), "unsigned integer"),
        GoKind::Float64 => (number.and_then(|n| n.float).map(GoValue::Float64), "float"),
        _ => return Err(s.error_here(format!("can't handle {e} for arg of type {ty}"))),
    };
    value.ok_or_else(|| s.error_here(format!("expected {expected}; found {e}")))
}

/// Go's assignability of an evaluated operand to a parameter.
fn validate_type(s: &State<'_>, v: ReflectValue, ty: GoType) -> Exec<GoValue> {
    let (value, addressable) = match v {
        ReflectValue::Invalid if ty.can_be_nil() => return Ok(ty.zero_value()),
        ReflectValue::Invalid => return Err(s.error_here(format!("invalid value; expected {ty}"))),
        ReflectValue::Iface(v) if ty == GoType::Any => return Ok(v),
        ReflectValue::Iface(GoValue::Nil) => {
            return Err(s.error_here(format!("wrong type for value; expected {ty}; got interface {{}}")));
        }
        ReflectValue::Iface(v) | ReflectValue::Val(v) => (v, false),
        ReflectValue::Addr(v) => (v, true),
    };
    if ty.accepts_value(&value) {
        return Ok(match (ty, value) {
            // Assigned to a map parameter, chartutil.Values is a plain map.
            (GoType::Map, GoValue::Map(m)) if m.kind() != MapKind::Any => {
                GoValue::Map(m.with_kind(MapKind::Any))
            }
            (_, v) => v,
        });
    }
    match &value {
        GoValue::Ptr(o) if o.type_name() == ty.type_name() => Ok(GoValue::Object(Rc::clone(o))),
        GoValue::Object(o)
            if addressable && ty.type_name().strip_prefix('*').is_some_and(|t| t == o.type_name()) =>
        {
            Ok(GoValue::Ptr(Rc::clone(o)))
        }
        v => Err(s.error_here(format!("wrong type for value; expected {ty}; got {}", v.type_name()))),
    }
}
