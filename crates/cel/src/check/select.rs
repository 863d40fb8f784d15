//! Fields and elements: `a.b`, `a.?b`, `a[b]`, `has(a.b)`.

use std::sync::Arc;

use slipway_problem::nearest_name;

use super::{Checked, Checker, Node, Step};
use crate::error::CelErrorKind;
use crate::parse::{Expr, Kind};
use crate::types::Type;
use crate::value::Value;

/// The way a field is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Plain,
    Optional,
    /// Only whether it is there.
    Test,
}

impl Checker<'_> {
    /// The key in the data and the type of a field; none when the error was reported.
    fn field_type(&mut self, operand: &Type, field: &Arc<str>, offset: u32) -> Option<(Arc<str>, Type)> {
        match self.params.shallow(operand) {
            Type::Nullable(inner) => self.field_type(&inner, field, offset),
            Type::Map(key, value) => {
                if !self.params.unify(&key, &Type::String) {
                    let ty = self.params.deep(operand);
                    let message = format!("type '{ty}' does not support field selection");
                    self.report_error(CelErrorKind::Mismatch, offset, message);
                    return None;
                }
                Some((field.clone(), (*value).clone()))
            }
            Type::Object(object) => match object.fields.get(field) {
                Some(found) => Some((found.key.clone(), found.ty.clone())),
                None if object.open => Some((field.clone(), Type::Dyn)),
                None => {
                    let found = nearest_name(field, object.fields.keys().map(|name| &**name));
                    let hint = found.map(|name| format!("did you mean `{name}`?"));
                    let message = format!("undefined field '{field}'");
                    self.report_error(CelErrorKind::UndefinedField, offset, message).hint = hint;
                    None
                }
            },
            Type::Dyn | Type::Error | Type::Param(_) => Some((field.clone(), Type::Dyn)),
            other => {
                let ty = self.params.deep(&other);
                let message = format!("type '{ty}' does not support field selection");
                self.report_error(CelErrorKind::Mismatch, offset, message);
                None
            }
        }
    }

    pub(super) fn check_select(&mut self, expr: &Expr) -> Checked {
        let Kind::Select { operand, field, optional } = &expr.kind else {
            return self.error_node(expr.offset);
        };
        if let Some(node) = self.type_name(expr) {
            return (node, Type::Type);
        }
        if let Some(name) = self.dotted_variable(expr) {
            return self.check_ident(&name, expr.offset);
        }
        let access = if *optional { Access::Optional } else { Access::Plain };
        let (node, ty) = self.check_expr(operand);
        self.access_node(node, &ty, field, access, expr.offset)
    }

    /// A declared variable whose name has dots, unless a local one stands before its first.
    fn dotted_variable(&self, expr: &Expr) -> Option<Arc<str>> {
        let Kind::Select { field, optional: false, .. } = &expr.kind else { return None };
        let mut named = self.env.variables.keys().filter(|name| name.contains('.'));
        let ending = |name: &str| name.rsplit_once('.').is_some_and(|(_, last)| last == &**field);
        let name = named.find(|name| ending(name) && expr.dotted().as_deref() == Some(&***name))?;
        let first = name.split('.').next().unwrap_or_default();
        (!self.scopes.iter().any(|local| &*local.name == first)).then(|| name.clone())
    }

    /// The types whose names have dots.
    fn type_name(&self, expr: &Expr) -> Option<Node> {
        let Kind::Select { field, .. } = &expr.kind else { return None };
        if !matches!(&**field, "Timestamp" | "Duration" | "IP" | "CIDR" | "URL" | "Quantity" | "Semver") {
            return None;
        }
        let name = expr.dotted()?;
        let known = ["google.protobuf.Timestamp", "google.protobuf.Duration", "net.IP", "net.CIDR"];
        let known = known.contains(&name.as_str())
            || matches!(name.as_str(), "kubernetes.URL" | "kubernetes.Quantity" | "kubernetes.Semver");
        let step = Step::Literal(Value::Type(name.as_str().into()));
        known.then(|| self.make_node(expr.offset, step, &Type::Type))
    }

    fn access_node(
        &mut self,
        node: Node,
        ty: &Type,
        field: &Arc<str>,
        access: Access,
        offset: u32,
    ) -> Checked {
        let operand = Box::new(node);
        // A field of what may be absent may be absent.
        let (inner, viral) = match self.params.shallow(ty) {
            Type::Optional(inner) => ((*inner).clone(), true),
            other => (other, false),
        };
        let Some((field, found)) = self.field_type(&inner, field, offset) else {
            return self.error_node(offset);
        };
        let (step, ty) = match access {
            Access::Test => (Step::Has { operand, field }, Type::Bool),
            Access::Plain if !viral => (Step::Select { operand, field }, found),
            Access::Plain | Access::Optional => {
                let found = match self.params.shallow(&found) {
                    Type::Optional(_) if viral => found,
                    _ => Type::optional(found),
                };
                (Step::SelectOptional { operand, field }, found)
            }
        };
        (self.make_node(offset, step, &ty), ty)
    }

    pub(super) fn check_has(&mut self, args: &[Expr], offset: u32) -> Checked {
        let [Expr { kind: Kind::Select { operand, field, optional: false }, .. }] = args else {
            let place = args.first().map_or(offset, |arg| arg.offset);
            let error = self.report_error(CelErrorKind::Syntax, place, "invalid argument to has() macro");
            error.hint = Some("`has(a.b)` asks whether `a` has the field `b`".to_owned());
            return self.error_node(offset);
        };
        let (node, ty) = self.check_expr(operand);
        self.access_node(node, &ty, field, Access::Test, offset)
    }

    pub(super) fn check_index(
        &mut self,
        operand: &Expr,
        index: &Expr,
        optional: bool,
        offset: u32,
    ) -> Checked {
        let (node, ty) = self.check_expr(operand);
        let (index, index_type) = self.check_expr(index);
        let (inner, viral) = match self.params.shallow(&ty) {
            Type::Optional(inner) => (self.params.shallow(&inner), true),
            Type::Nullable(inner) => (self.params.shallow(&inner), false),
            other => (other, false),
        };
        let found = match &inner {
            Type::List(element) => self.params.unify(&Type::Int, &index_type).then(|| (**element).clone()),
            Type::Map(key, value) => self.params.unify(key, &index_type).then(|| (**value).clone()),
            Type::Object(object) if object.open => {
                self.params.unify(&Type::String, &index_type).then_some(Type::Dyn)
            }
            other => (other.is_dyn() || matches!(other, Type::Param(_))).then_some(Type::Dyn),
        };
        let Some(found) = found else {
            let name = if optional { "_[?_]" } else { "_[_]" };
            self.no_overload(offset, name, false, &[ty, index_type]);
            return self.error_node(offset);
        };
        let both = Box::new([node, index]);
        if optional || viral {
            let ty = Type::optional(found);
            return (self.make_node(offset, Step::IndexOptional(both), &ty), ty);
        }
        (self.make_node(offset, Step::Index(both), &found), found)
    }
}
