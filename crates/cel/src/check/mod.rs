//! Finds the type of every part of an expression, and every error, before anything is evaluated.

mod call;
mod flags;
mod leaves;
mod macros;
mod node;
mod operator;
mod references;
mod select;
mod unify;

use std::sync::Arc;

pub(crate) use node::{Coerce, Loop, LoopKind, Node, Step};
use slipway_problem::nearest_name;
use unify::Params;

use crate::deep::deeper;
use crate::env::Env;
use crate::error::{CelError, CelErrorKind};
use crate::parse::{Element, Entry, Expr, Kind};
use crate::program::Program;
use crate::types::Type;
use crate::value::Value;

/// Checks an expression; gives the program or every error.
pub(crate) fn check(
    env: &Env,
    text: &str,
    expr: &Expr,
    wanted: Option<&Type>,
) -> Result<Program, Vec<CelError>> {
    let mut checker = Checker {
        env,
        params: Params::default(),
        scopes: Vec::new(),
        locals: 0,
        variables: Vec::new(),
        functions: Vec::new(),
        errors: Vec::new(),
    };
    let mut checked = checker.check_expr(expr);
    if wanted == Some(&Type::Bool) {
        checked = checker.as_truth(expr, checked);
    }
    let (node, ty) = checked;
    let ty = checker.params.finish(&ty);
    if let Some(wanted) = wanted
        && !checker.params.unify(wanted, &ty)
    {
        let message = format!("expected type '{wanted}' but found '{ty}'");
        checker.report_error(CelErrorKind::ResultType, expr.offset, message);
    }
    let mut errors = checker.errors;
    if !errors.is_empty() {
        errors.sort_by_key(|error| error.offset);
        errors.iter_mut().for_each(|error| error.locate(text));
        return Err(errors);
    }
    checker.functions.sort();
    checker.functions.dedup();
    Ok(Program {
        node,
        ty,
        variables: checker.variables,
        locals: checker.locals,
        references: references::references(env, expr),
        leaves: leaves::leaves(env, expr),
        functions: checker.functions,
        cost: env.limits.cost,
    })
}

/// Names that are types.
const TYPES: &[&str] = &[
    "bool",
    "bytes",
    "double",
    "dyn",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "type",
    "uint",
    "optional_type",
];

struct Local {
    name: Arc<str>,
    ty: Type,
    slot: u32,
}

struct Checker<'e> {
    env: &'e Env,
    params: Params,
    scopes: Vec<Local>,
    /// Number of slots for local variables the program needs.
    locals: usize,
    variables: Vec<Arc<str>>,
    functions: Vec<Arc<str>>,
    errors: Vec<CelError>,
}

type Checked = (Node, Type);

impl Checker<'_> {
    fn report_error(&mut self, kind: CelErrorKind, offset: u32, message: impl Into<String>) -> &mut CelError {
        self.errors.push(CelError::new(kind, offset as usize, message));
        let last = self.errors.len() - 1;
        &mut self.errors[last]
    }

    /// The node and the type of what is wrong; the error was reported.
    fn error_node(&self, offset: u32) -> Checked {
        (self.make_node(offset, Step::Literal(Value::Null), &Type::Error), Type::Error)
    }

    /// A node whose value is made to fit its type where JSON shows it otherwise.
    fn make_node(&self, offset: u32, step: Step, ty: &Type) -> Node {
        let from_data = matches!(
            step,
            Step::Variable(_) | Step::Select { .. } | Step::Index(_) | Step::Call { .. } | Step::Local(_)
        );
        let coerce = if from_data { coercion(&self.params.shallow(ty)) } else { Coerce::No };
        Node { offset, coerce, step }
    }

    fn check_expr(&mut self, expr: &Expr) -> Checked {
        deeper(|| self.check_expr_here(expr))
    }

    fn check_expr_here(&mut self, expr: &Expr) -> Checked {
        match &expr.kind {
            Kind::Ident(name) => self.check_ident(name, expr.offset),
            Kind::Select { .. } => self.check_select(expr),
            Kind::Index { operand, index, optional } => {
                self.check_index(operand, index, *optional, expr.offset)
            }
            Kind::Call { target, name, args } => self.check_call(expr, target.as_deref(), name, args),
            Kind::Unary(operator, operand) => self.check_unary(*operator, operand, expr.offset),
            Kind::Binary(operator, left, right) => self.check_binary(*operator, left, right, expr.offset),
            Kind::Logic(kind, terms) => self.check_logic(*kind, terms, expr.offset),
            Kind::Ternary(condition, yes, no) => self.check_ternary(condition, yes, no, expr.offset),
            Kind::List(items) => self.check_list(items, expr.offset),
            Kind::Map(entries) => self.check_map(entries, expr.offset),
            _ => self.check_literal(expr),
        }
    }

    fn check_literal(&mut self, expr: &Expr) -> Checked {
        let value = match &expr.kind {
            Kind::Bool(truth) => Value::Bool(*truth),
            Kind::Int(number) => Value::Int(*number),
            Kind::Uint(number) => Value::Uint(*number),
            Kind::Double(number) => Value::Double(*number),
            Kind::String(text) => Value::string(text.clone()),
            Kind::Bytes(bytes) => Value::Bytes(bytes.clone()),
            _ => Value::Null,
        };
        let ty = value.ty();
        (self.make_node(expr.offset, Step::Literal(value), &ty), ty)
    }

    fn check_ident(&mut self, written: &Arc<str>, offset: u32) -> Checked {
        let absolute = written.starts_with('.');
        let name = written.trim_start_matches('.');
        let local = self.scopes.iter().rev().find(|local| *local.name == *name && !absolute);
        if let Some(local) = local {
            let (slot, ty) = (local.slot, local.ty.clone());
            // The loop has made the element fit already.
            return (Node { offset, coerce: Coerce::No, step: Step::Local(slot) }, ty);
        }
        if let Some((name, ty)) = self.env.variables.get_key_value(name) {
            let (name, ty) = (name.clone(), ty.clone());
            let place = self.variables.iter().position(|known| *known == name).unwrap_or_else(|| {
                self.variables.push(name);
                self.variables.len() - 1
            });
            return (self.make_node(offset, Step::Variable(place as u32), &ty), ty);
        }
        if TYPES.contains(&name) {
            let step = Step::Literal(Value::Type(name.into()));
            return (self.make_node(offset, step, &Type::Type), Type::Type);
        }
        let hint = self.name_hint(name);
        let message = format!("undeclared reference to '{name}' (in container '')");
        self.report_error(CelErrorKind::Undeclared, offset, message).hint = hint;
        self.error_node(offset)
    }

    fn name_hint(&self, name: &str) -> Option<String> {
        let locals = self.scopes.iter().map(|local| &*local.name);
        let known: Vec<&str> = self.env.variables.keys().map(|name| &**name).chain(locals).collect();
        if let Some(found) = nearest_name(name, known.iter().copied()) {
            return Some(format!("did you mean `{found}`?"));
        }
        if known.is_empty() || known.len() > 12 {
            return None;
        }
        Some(format!("known here: `{}`", known.join("`, `")))
    }

    /// Declares a local variable until [`Checker::leave_scope`].
    fn enter_scope(&mut self, name: &Arc<str>, ty: Type) -> u32 {
        let slot = self.scopes.len() as u32;
        self.scopes.push(Local { name: name.clone(), ty, slot });
        self.locals = self.locals.max(self.scopes.len());
        slot
    }

    fn leave_scope(&mut self, count: usize) {
        self.scopes.truncate(self.scopes.len() - count);
    }

    /// The type of elements so far and one more.
    fn join_types(&mut self, so_far: Option<Type>, next: &Type, offset: u32) -> Type {
        let Some(so_far) = so_far else { return next.clone() };
        if so_far.is_dyn() || next.is_dyn() {
            return Type::Dyn;
        }
        let mark = self.params.mark();
        if self.params.unify(&so_far, next) {
            let null = matches!(so_far, Type::Null) != matches!(next, Type::Null);
            return if null { Type::Dyn } else { so_far };
        }
        self.params.undo(mark);
        if self.env.homogeneous {
            let (wanted, found) = (self.params.finish(&so_far), self.params.finish(next));
            let message = format!("expected type '{wanted}' but found '{found}'");
            let hint = "`dyn(…)` makes a mixed literal";
            self.report_error(CelErrorKind::Mismatch, offset, message).hint = Some(hint.to_owned());
        }
        Type::Dyn
    }

    fn check_list(&mut self, items: &[Element], offset: u32) -> Checked {
        let mut element = None;
        let mut nodes = Vec::with_capacity(items.len());
        for item in items {
            let (node, mut ty) = self.check_expr(&item.value);
            if item.optional {
                ty = self.inside_optional(&ty, item.value.offset);
            }
            element = Some(self.join_types(element, &ty, item.value.offset));
            nodes.push((node, item.optional));
        }
        let element = element.unwrap_or_else(|| self.params.fresh_type());
        let ty = Type::list(element);
        let constant = |(node, optional): &(Node, bool)| match &node.step {
            Step::Literal(value) if !optional => Some(value.clone()),
            _ => None,
        };
        let step = match nodes.iter().map(constant).collect::<Option<Vec<_>>>() {
            Some(values) => Step::Literal(Value::list(values)),
            None => Step::List(nodes),
        };
        (self.make_node(offset, step, &ty), ty)
    }

    fn check_map(&mut self, entries: &[Entry], offset: u32) -> Checked {
        let (mut key, mut value) = (None, None);
        let mut nodes = Vec::with_capacity(entries.len());
        for entry in entries {
            let (key_node, key_type) = self.check_expr(&entry.key);
            let known = self.params.shallow(&key_type);
            if !matches!(known, Type::Bool | Type::Int | Type::Uint | Type::String | Type::Param(_))
                && !known.is_dyn()
            {
                let message = format!("unsupported key type: {known}");
                self.report_error(CelErrorKind::Mismatch, entry.key.offset, message);
            }
            let (value_node, mut value_type) = self.check_expr(&entry.value);
            if entry.optional {
                value_type = self.inside_optional(&value_type, entry.value.offset);
            }
            key = Some(self.join_types(key, &key_type, entry.key.offset));
            value = Some(self.join_types(value, &value_type, entry.value.offset));
            nodes.push((key_node, value_node, entry.optional));
        }
        let key = key.unwrap_or_else(|| self.params.fresh_type());
        let value = value.unwrap_or_else(|| self.params.fresh_type());
        let ty = Type::map(key, value);
        (self.make_node(offset, Step::Map(nodes), &ty), ty)
    }

    /// Returns the type inside of an optional; reports an error when it is none.
    fn inside_optional(&mut self, ty: &Type, offset: u32) -> Type {
        match self.params.shallow(ty) {
            Type::Optional(inner) => (*inner).clone(),
            other if other.is_dyn() => Type::Dyn,
            other => {
                let message = format!("expected type 'optional_type({other})' but found '{other}'");
                self.report_error(CelErrorKind::Mismatch, offset, message);
                Type::Error
            }
        }
    }

    /// Reports that no overload takes these types.
    fn no_overload(&mut self, offset: u32, name: &str, member: bool, types: &[Type]) -> &mut CelError {
        let shown: Vec<String> = types.iter().map(|ty| self.params.deep(ty).to_string()).collect();
        let applied = match (member, shown.split_first()) {
            (true, Some((target, rest))) => format!("'{target}.({})'", rest.join(", ")),
            _ => format!("'({})'", shown.join(", ")),
        };
        let message = format!("found no matching overload for '{name}' applied to {applied}");
        self.report_error(CelErrorKind::NoOverload, offset, message)
    }
}

/// Returns the conversion that JSON values of a type need.
fn coercion(ty: &Type) -> Coerce {
    match ty {
        Type::Double => Coerce::Double,
        Type::Int => Coerce::Int,
        Type::Timestamp => Coerce::Timestamp,
        Type::Duration => Coerce::Duration,
        Type::Bytes => Coerce::Bytes,
        Type::Nullable(inner) => coercion(inner),
        _ => Coerce::No,
    }
}
