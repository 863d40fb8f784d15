//! Function calls: the overloads that fit, and their results.

use std::sync::Arc;

use slipway_problem::nearest_name;

use super::unify::Params;
use super::{Checked, Checker, Node, Step};
use crate::error::CelErrorKind;
use crate::eval::Meter;
use crate::library::{Library, Overload, Pattern};
use crate::parse::{Expr, Kind};
use crate::types::Type;
use crate::value::Value;

/// Functions of constants that are computed once, at compile time.
const FOLDED: &[&str] = &["duration", "timestamp", "quantity", "semver", "ip", "cidr", "url", "bytes"];

impl Checker<'_> {
    pub(super) fn check_call(
        &mut self,
        expr: &Expr,
        target: Option<&Expr>,
        name: &Arc<str>,
        args: &[Expr],
    ) -> Checked {
        if let Some(checked) = self.macro_call(target, name, args, expr.offset) {
            return checked;
        }
        let Some(target) = target else {
            let name: Arc<str> = name.trim_start_matches('.').into();
            return self.plain_call(&name, args, expr.offset);
        };
        if let Some(full) = self.qualified_name(target, name) {
            return self.plain_call(&full, args, expr.offset);
        }
        let (target_node, target_type) = self.check_expr(target);
        let mut nodes = vec![target_node];
        let mut types = vec![target_type];
        for arg in args {
            let (node, ty) = self.check_expr(arg);
            nodes.push(node);
            types.push(ty);
        }
        self.resolve_overload(name, true, nodes, types, expr.offset)
    }

    /// The full name of a function with dots (`math.greatest`), when the target is no variable.
    fn qualified_name(&self, target: &Expr, name: &str) -> Option<Arc<str>> {
        let mut head = target;
        while let Kind::Select { operand, .. } = &head.kind {
            head = operand;
        }
        let Kind::Ident(first) = &head.kind else { return None };
        let shadowed = self.scopes.iter().any(|local| local.name == *first)
            || (self.env.variables.contains_key(first) && matches!(target.kind, Kind::Ident(_)));
        let full = format!("{}.{name}", target.dotted()?);
        let known = self.env.functions.get(&full).is_some_and(|all| all.iter().any(|one| !one.member));
        (!shadowed && known).then(|| full.into())
    }

    fn plain_call(&mut self, name: &Arc<str>, args: &[Expr], offset: u32) -> Checked {
        let (mut nodes, mut types) = (Vec::with_capacity(args.len()), Vec::with_capacity(args.len()));
        for arg in args {
            let (node, ty) = self.check_expr(arg);
            nodes.push(node);
            types.push(ty);
        }
        self.resolve_overload(name, false, nodes, types, offset)
    }

    fn resolve_overload(
        &mut self,
        name: &Arc<str>,
        member: bool,
        nodes: Vec<Node>,
        types: Vec<Type>,
        offset: u32,
    ) -> Checked {
        let env = self.env;
        let Some(known) = env.functions.get(name) else {
            let found = nearest_name(name, env.functions.names().chain(super::macros::NAMES.iter().copied()));
            let hint = found.map(|found| format!("did you mean `{found}`?"));
            let message = format!("undeclared reference to '{name}' (in container '')");
            self.report_error(CelErrorKind::Undeclared, offset, message).hint = hint;
            return self.error_node(offset);
        };
        let mark = self.params.mark();
        let mut fitting: Vec<(Arc<Overload>, Type)> = Vec::new();
        for overload in known.iter().filter(|one| one.member == member && one.params.len() == types.len()) {
            if let Some(result) = self.fit_overload(overload, &types) {
                fitting.push((overload.clone(), result));
            }
            self.params.undo(mark);
        }
        if fitting.is_empty() {
            let hint = overload_hint(known, member);
            self.no_overload(offset, name, member, &types).hint = hint;
            return self.error_node(offset);
        }
        // What the only candidate asks of parameters holds.
        if let [(overload, result)] = &mut fitting[..]
            && let Some(again) = self.fit_overload(overload, &types)
        {
            *result = again;
        }
        let first = fitting[0].1.clone();
        let same = fitting.iter().all(|(_, result)| *result == first);
        let ty = if same { first } else { Type::Dyn };
        self.functions.push(name.clone());
        let overloads = fitting.into_iter().map(|(overload, _)| overload).collect();
        let node = self.call_node(name, overloads, nodes, &ty, offset);
        (node, ty)
    }

    /// The result when the overload takes the types.
    fn fit_overload(&mut self, overload: &Overload, types: &[Type]) -> Option<Type> {
        if overload.generics == 0 {
            let fits = overload.params.iter().zip(types).all(|(param, ty)| self.params.unify(param, ty));
            return fits.then(|| overload.result.clone());
        }
        let base = self.params.fresh(overload.generics);
        for (param, ty) in overload.params.iter().zip(types) {
            if !self.params.unify(&Params::instantiate(param, base), ty) {
                return None;
            }
        }
        Some(self.params.deep(&Params::instantiate(&overload.result, base)))
    }

    fn call_node(
        &mut self,
        name: &str,
        overloads: Vec<Arc<Overload>>,
        mut args: Vec<Node>,
        ty: &Type,
        offset: u32,
    ) -> Node {
        if name == "matches"
            && let [_, Node { step: Step::Literal(Value::String(pattern)), .. }] = &args[..]
        {
            match Pattern::new(pattern) {
                Ok(pattern) => {
                    args.truncate(1);
                    if let Some(text) = args.pop() {
                        return self.make_node(offset, Step::Matches(Box::new(text), pattern), ty);
                    }
                }
                Err(reason) => {
                    let place = args[1].offset;
                    let error = self.report_error(CelErrorKind::Constant, place, "invalid matches argument");
                    error.hint = Some(reason.to_string());
                }
            }
        }
        if matches!(name, "or" | "orValue") && args.len() == 2 && self.env.has(Library::Optionals) {
            let value = name == "orValue";
            if let (Some(other), Some(target)) = (args.pop(), args.pop()) {
                let step = Step::Or2 { target: Box::new(target), other: Box::new(other), value };
                return self.make_node(offset, step, ty);
            }
            args.clear();
        }
        if FOLDED.contains(&name)
            && let [Node { step: Step::Literal(value), offset: place, .. }] = &args[..]
            && let Some(overload) = overloads.iter().find(|one| one.admits(std::slice::from_ref(value)))
        {
            match (overload.run)(&Meter::unlimited(), std::slice::from_ref(value)) {
                Ok(value) => return self.make_node(offset, Step::Literal(value), ty),
                Err(reason) if matches!(name, "duration" | "timestamp") => {
                    let message = format!("invalid {name} argument");
                    let place = *place;
                    self.report_error(CelErrorKind::Constant, place, message).hint = Some(reason.to_string());
                }
                Err(_) => {}
            }
        }
        self.make_node(offset, Step::Call { overloads, args }, ty)
    }
}

/// Returns a hint with the arguments the function takes.
fn overload_hint(known: &[Arc<Overload>], member: bool) -> Option<String> {
    let style = known.iter().filter(|one| one.member == member);
    let mut shown: Vec<String> = style.map(|one| format!("`{one:?}`")).collect();
    if shown.is_empty() {
        shown = known.iter().map(|one| format!("`{one:?}`")).collect();
    }
    (shown.len() <= 4).then(|| format!("it is {}", shown.join(" or ")))
}
