//! Macros: calls whose arguments are expressions to be evaluated again and again, or not at all.

use std::sync::Arc;

use super::{Checked, Checker, Coerce, Loop, LoopKind, Node, Step, coercion};
use crate::error::CelErrorKind;
use crate::library::Library;
use crate::parse::{Expr, Kind};
use crate::types::Type;

/// The names of macros, for suggestions.
pub(super) const NAMES: &[&str] = &[
    "has",
    "all",
    "exists",
    "exists_one",
    "existsOne",
    "filter",
    "map",
    "transformList",
    "transformMap",
    "sortBy",
    "optMap",
    "optFlatMap",
];

/// The macro a call is, by its name and number of arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Macro {
    Has,
    Bind,
    OptMap,
    OptFlatMap,
    /// Number of variables it declares; set if a condition stands before the result.
    Loop {
        kind: LoopKind,
        variables: usize,
        filtered: bool,
    },
}

/// Finds the macro a call means.
pub(super) fn find(libraries: &[Library], target: Option<&Expr>, name: &str, args: usize) -> Option<Macro> {
    let looped = |kind, variables, filtered| Some(Macro::Loop { kind, variables, filtered });
    let Some(target) = target else { return (name == "has").then_some(Macro::Has) };
    match (name, args) {
        ("all", 2) => looped(LoopKind::All, 1, false),
        ("exists", 2) => looped(LoopKind::Exists, 1, false),
        ("exists_one" | "existsOne", 2) => looped(LoopKind::ExistsOne, 1, false),
        ("filter", 2) => looped(LoopKind::Filter, 1, false),
        ("map", 2) => looped(LoopKind::Map, 1, false),
        ("map", 3) => looped(LoopKind::Map, 1, true),
        ("all", 3) => looped(LoopKind::All, 2, false),
        ("exists", 3) => looped(LoopKind::Exists, 2, false),
        ("exists_one" | "existsOne", 3) => looped(LoopKind::ExistsOne, 2, false),
        ("transformList", 3) => looped(LoopKind::Map, 2, false),
        ("transformList", 4) => looped(LoopKind::Map, 2, true),
        ("transformMap", 3) => looped(LoopKind::TransformMap, 2, false),
        ("transformMap", 4) => looped(LoopKind::TransformMap, 2, true),
        ("sortBy", 2) if libraries.contains(&Library::Lists) => looped(LoopKind::SortBy, 1, false),
        ("optMap", 2) if libraries.contains(&Library::Optionals) => Some(Macro::OptMap),
        ("optFlatMap", 2) if libraries.contains(&Library::Optionals) => Some(Macro::OptFlatMap),
        ("bind", 3) if target.kind == Kind::Ident("cel".into()) => Some(Macro::Bind),
        _ => None,
    }
}

impl Checker<'_> {
    pub(super) fn macro_call(
        &mut self,
        target: Option<&Expr>,
        name: &str,
        args: &[Expr],
        offset: u32,
    ) -> Option<Checked> {
        let found = find(&self.env.libraries, target, name, args.len())?;
        Some(match (found, target) {
            (Macro::Has, _) => self.check_has(args, offset),
            (Macro::Bind, _) => self.check_bind(args, offset),
            (Macro::OptMap, Some(target)) => self.opt_map(target, args, false, offset),
            (Macro::OptFlatMap, Some(target)) => self.opt_map(target, args, true, offset),
            (Macro::Loop { kind, variables, filtered }, Some(target)) => {
                self.check_comprehension(kind, variables, filtered, target, args, offset)
            }
            _ => self.error_node(offset),
        })
    }

    /// The name an argument declares.
    fn simple_name(&mut self, arg: &Expr) -> Arc<str> {
        match &arg.kind {
            Kind::Ident(name) if !name.starts_with('.') => name.clone(),
            _ => {
                self.report_error(CelErrorKind::Syntax, arg.offset, "argument must be a simple name");
                "_".into()
            }
        }
    }

    fn check_bind(&mut self, args: &[Expr], offset: u32) -> Checked {
        let [name, init, body] = args else { return self.error_node(offset) };
        let name = self.simple_name(name);
        let (init, ty) = self.check_expr(init);
        let slot = self.enter_scope(&name, ty);
        let (body, ty) = self.check_expr(body);
        self.leave_scope(1);
        let step = Step::Bind { slot, init: Box::new(init), body: Box::new(body) };
        (self.make_node(offset, step, &ty), ty)
    }

    fn opt_map(&mut self, target: &Expr, args: &[Expr], flat: bool, offset: u32) -> Checked {
        let [name, body] = args else { return self.error_node(offset) };
        let (target_node, ty) = self.check_expr(target);
        let inner = self.inside_optional(&ty, target.offset);
        let name = self.simple_name(name);
        let slot = self.enter_scope(&name, inner);
        let (body_node, body_type) = self.check_expr(body);
        self.leave_scope(1);
        let ty = if flat {
            Type::optional(self.inside_optional(&body_type, body.offset))
        } else {
            Type::optional(body_type)
        };
        let step = Step::OptMap { slot, target: Box::new(target_node), body: Box::new(body_node), flat };
        (self.make_node(offset, step, &ty), ty)
    }

    /// A part that must be true or false.
    pub(super) fn check_condition(&mut self, expr: &Expr) -> Node {
        let checked = self.check_expr(expr);
        let (node, ty) = self.as_truth(expr, checked);
        let bare = match self.params.shallow(&ty) {
            Type::Nullable(inner) => self.params.shallow(&inner),
            other => other,
        };
        if !self.params.unify(&Type::Bool, &bare) {
            let found = self.params.deep(&ty);
            self.report_error(
                CelErrorKind::Mismatch,
                expr.offset,
                format!("expected type 'bool' but found '{found}'"),
            );
        }
        node
    }

    /// The types of what a loop's variables hold: with one, the element of a list or the key of a map;
    /// with two, the index or key and the element.
    fn range_types(&mut self, ty: &Type, variables: usize, offset: u32) -> (Type, Type) {
        match self.params.shallow(ty) {
            Type::List(element) if variables == 1 => ((*element).clone(), Type::Dyn),
            Type::List(element) => (Type::Int, (*element).clone()),
            Type::Map(key, value) => ((*key).clone(), (*value).clone()),
            Type::Object(_) => (Type::String, Type::Dyn),
            Type::Nullable(inner) => self.range_types(&inner, variables, offset),
            other if other.is_dyn() || matches!(other, Type::Param(_)) => (Type::Dyn, Type::Dyn),
            other => {
                let message = format!(
                    "expression of type '{}' cannot be range of a comprehension (must be list, map, or dynamic)",
                    self.params.deep(&other)
                );
                self.report_error(CelErrorKind::Mismatch, offset, message);
                (Type::Error, Type::Error)
            }
        }
    }

    fn check_comprehension(
        &mut self,
        kind: LoopKind,
        variables: usize,
        filtered: bool,
        target: &Expr,
        args: &[Expr],
        offset: u32,
    ) -> Checked {
        let (range, range_type) = self.check_expr(target);
        let (first, second) = self.range_types(&range_type, variables, target.offset);
        let names: Vec<Arc<str>> = args.iter().take(variables).map(|arg| self.simple_name(arg)).collect();
        let element = coercion(&self.params.shallow(if variables == 1 { &first } else { &second }));
        let slot = self.enter_scope(&names[0], first.clone());
        let second_slot = (variables == 2).then(|| self.enter_scope(&names[1], second.clone()));

        let rest = &args[variables..];
        let takes_condition =
            matches!(kind, LoopKind::All | LoopKind::Exists | LoopKind::ExistsOne | LoopKind::Filter);
        let mut condition = None;
        let mut result = None;
        let mut result_type = Type::Bool;
        for (at, arg) in rest.iter().enumerate() {
            if takes_condition || (filtered && at == 0) {
                condition = Some(self.check_condition(arg));
            } else {
                let (node, ty) = self.check_expr(arg);
                result = Some(node);
                result_type = ty;
            }
        }
        self.leave_scope(variables);
        let ty = match kind {
            LoopKind::All | LoopKind::Exists | LoopKind::ExistsOne => Type::Bool,
            LoopKind::Filter => Type::list(first),
            LoopKind::Map => Type::list(result_type),
            LoopKind::TransformMap => Type::map(first, result_type),
            LoopKind::SortBy => Type::list(first),
        };
        let element = if variables == 1 && matches!(self.params.shallow(&range_type), Type::Map(..)) {
            Coerce::No
        } else {
            element
        };
        let step =
            Step::Loop(Box::new(Loop { kind, range, slot, second: second_slot, element, condition, result }));
        (self.make_node(offset, step, &ty), ty)
    }
}
