//! The variables and paths an expression reads.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::macros::{Macro, find};
use crate::deep::deeper;
use crate::env::Env;
use crate::parse::{Expr, Kind};
use crate::program::Reference;

struct Walk<'e> {
    env: &'e Env,
    /// Names that macros declare.
    hidden: Vec<Arc<str>>,
    /// The paths read; true if every read of a path so far was optional.
    found: BTreeMap<(String, Vec<String>), bool>,
}

/// Every path read, sorted.
pub(super) fn references(env: &Env, expr: &Expr) -> Vec<Reference> {
    let mut walk = Walk { env, hidden: Vec::new(), found: BTreeMap::new() };
    walk.visit_expr(expr, false);
    let reference = |((variable, path), optional)| Reference { variable, path, optional };
    walk.found.into_iter().map(reference).collect()
}

impl Walk<'_> {
    /// The variable and path of a chain of fields, and whether it is read optionally; what an index
    /// computes is walked on its own, and ends the path.
    fn reference_path(&mut self, expr: &Expr) -> Option<(Arc<str>, Vec<String>, bool, bool)> {
        match &expr.kind {
            Kind::Ident(name) => {
                let name: Arc<str> = name.trim_start_matches('.').into();
                let known = self.env.variables.contains_key(&name) && !self.hidden.contains(&name);
                known.then(|| (name, Vec::new(), false, true))
            }
            Kind::Select { operand, field, optional } => {
                let (name, mut path, lazy, open) = self.reference_path(operand)?;
                if open {
                    path.push(field.to_string());
                }
                Some((name, path, lazy || *optional, open))
            }
            Kind::Index { operand, index, optional } => {
                let (name, mut path, lazy, open) = self.reference_path(operand)?;
                match &index.kind {
                    Kind::String(text) if open => {
                        path.push(text.to_string());
                        Some((name, path, lazy || *optional, true))
                    }
                    _ => {
                        self.visit_expr(index, false);
                        Some((name, path, lazy || *optional, false))
                    }
                }
            }
            _ => None,
        }
    }

    fn visit_expr(&mut self, expr: &Expr, optional: bool) {
        deeper(|| self.visit_expr_here(expr, optional));
    }

    fn visit_expr_here(&mut self, expr: &Expr, optional: bool) {
        if matches!(expr.kind, Kind::Ident(_) | Kind::Select { .. } | Kind::Index { .. })
            && let Some((name, path, lazy, _)) = self.reference_path(expr)
        {
            let all = self.found.entry((name.to_string(), path)).or_insert(true);
            *all &= lazy || optional;
            return;
        }
        match &expr.kind {
            Kind::Select { operand, .. } | Kind::Unary(_, operand) => self.visit_expr(operand, false),
            Kind::Index { operand: a, index: b, .. } | Kind::Binary(_, a, b) => {
                self.visit_expr(a, false);
                self.visit_expr(b, false);
            }
            Kind::Call { target, name, args } => self.visit_call(target.as_deref(), name, args),
            Kind::Logic(_, terms) => terms.iter().for_each(|term| self.visit_expr(term, false)),
            Kind::Ternary(a, b, c) => [a, b, c].into_iter().for_each(|part| self.visit_expr(part, false)),
            Kind::List(items) => items.iter().for_each(|item| self.visit_expr(&item.value, false)),
            Kind::Map(entries) => {
                for entry in entries {
                    self.visit_expr(&entry.key, false);
                    self.visit_expr(&entry.value, false);
                }
            }
            _ => {}
        }
    }

    fn visit_call(&mut self, target: Option<&Expr>, name: &str, args: &[Expr]) {
        let found = find(&self.env.libraries, target, name, args.len());
        let hides = match found {
            Some(Macro::Has) => {
                return args.iter().for_each(|arg| self.visit_expr(arg, true));
            }
            None => 0,
            Some(Macro::Loop { variables, .. }) => variables,
            Some(_) => 1,
        };
        if found != Some(Macro::Bind)
            && let Some(target) = target
        {
            self.visit_expr(target, false);
        }
        let (names, mut rest) = args.split_at(hides.min(args.len()));
        if found == Some(Macro::Bind)
            && let Some((init, body)) = rest.split_first()
        {
            self.visit_expr(init, false);
            rest = body;
        }
        let before = self.hidden.len();
        for name in names {
            if let Kind::Ident(name) = &name.kind {
                self.hidden.push(name.clone());
            }
        }
        rest.iter().for_each(|arg| self.visit_expr(arg, false));
        self.hidden.truncate(before);
    }
}
