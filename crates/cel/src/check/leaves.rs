//! The values an expression reads from its variables, each as a whole.

use std::sync::Arc;

use super::macros::{Macro, find};
use crate::deep::deeper;
use crate::env::Env;
use crate::parse::{Binary, Expr, Kind, print};
use crate::program::{Comparison, ComparisonOperator, Leaf};

/// Longer literals are not kept for people to read.
const LONGEST: usize = 80;

struct Walk<'e> {
    env: &'e Env,
    /// Names that macros declare.
    hidden: Vec<Arc<str>>,
    found: Vec<Leaf>,
}

/// Every leaf, in the order it is written.
pub(super) fn leaves(env: &Env, expr: &Expr) -> Vec<Leaf> {
    let mut walk = Walk { env, hidden: Vec::new(), found: Vec::new() };
    walk.visit_expr(expr, None);
    walk.found
}

impl Walk<'_> {
    fn is_variable(&self, name: &str) -> bool {
        self.env.variables.contains_key(name) && !self.hidden.iter().any(|hidden| **hidden == *name)
    }

    /// The leaf a chain of fields, elements and methods of a variable is.
    fn chain(&self, expr: &Expr) -> Option<Leaf> {
        let mut leaf = match &expr.kind {
            Kind::Ident(name) => {
                let variable = name.trim_start_matches('.');
                self.is_variable(variable).then(|| Leaf {
                    text: String::new(),
                    variable: variable.to_owned(),
                    path: Vec::new(),
                    comparison: None,
                    offset: 0,
                    parts: Vec::new(),
                })?
            }
            Kind::Select { operand, field, .. } => {
                let mut leaf = self.chain(operand)?;
                leaf.path.push(field.to_string());
                leaf
            }
            Kind::Index { operand, index, .. } => {
                let mut leaf = self.chain(operand)?;
                leaf.path.push(literal(index)?);
                leaf
            }
            // A method of the variable itself (`schedule.in("Europe/Berlin")`) reads it as a field does.
            Kind::Call { target: Some(target), name, args } if matches!(target.kind, Kind::Ident(_)) => {
                if find(&self.env.libraries, Some(target), name, args.len()).is_some() {
                    return None;
                }
                let mut leaf = self.chain(target)?;
                leaf.path.push(name.to_string());
                for arg in args {
                    leaf.path.push(literal(arg)?);
                }
                leaf
            }
            _ => return None,
        };
        leaf.parts.push(expr.offset);
        leaf.offset = expr.offset;
        Some(leaf)
    }

    fn visit_expr(&mut self, expr: &Expr, comparison: Option<&Comparison>) {
        deeper(|| self.visit_expr_here(expr, comparison));
    }

    fn visit_expr_here(&mut self, expr: &Expr, comparison: Option<&Comparison>) {
        if let Some(mut leaf) = self.chain(expr) {
            leaf.text = print(expr);
            leaf.comparison = comparison.cloned();
            self.found.push(leaf);
            return;
        }
        match &expr.kind {
            Kind::Binary(operator, left, right) => {
                self.visit_expr(left, compared(*operator, right).as_ref());
                let mirrored = mirror(*operator).and_then(|operator| compared(operator, left));
                self.visit_expr(right, mirrored.as_ref());
            }
            Kind::Select { operand, .. } | Kind::Unary(_, operand) => self.visit_expr(operand, None),
            Kind::Index { operand, index, .. } => {
                self.visit_expr(operand, None);
                self.visit_expr(index, None);
            }
            Kind::Call { target, name, args } => self.visit_call(expr, target.as_deref(), name, args),
            Kind::Logic(_, terms) => terms.iter().for_each(|term| self.visit_expr(term, None)),
            Kind::Ternary(a, b, c) => [a, b, c].into_iter().for_each(|part| self.visit_expr(part, None)),
            Kind::List(items) => items.iter().for_each(|item| self.visit_expr(&item.value, None)),
            Kind::Map(entries) => {
                for entry in entries {
                    self.visit_expr(&entry.key, None);
                    self.visit_expr(&entry.value, None);
                }
            }
            _ => {}
        }
    }

    fn visit_call(&mut self, expr: &Expr, target: Option<&Expr>, name: &str, args: &[Expr]) {
        let found = find(&self.env.libraries, target, name, args.len());
        let hides = match found {
            // The answer is what the expression reads, not the field.
            Some(Macro::Has) => {
                if let [field] = args
                    && let Some(leaf) = self.chain(field)
                {
                    self.found.push(Leaf {
                        text: print(expr),
                        offset: expr.offset,
                        parts: vec![expr.offset],
                        ..leaf
                    });
                }
                return;
            }
            None if target.is_none() && args.is_empty() => {
                let leaf = Leaf {
                    text: print(expr),
                    variable: name.to_owned(),
                    path: Vec::new(),
                    comparison: None,
                    offset: expr.offset,
                    parts: vec![expr.offset],
                };
                return self.found.push(leaf);
            }
            None => 0,
            Some(Macro::Loop { variables, .. }) => variables,
            Some(_) => 1,
        };
        let mut args = args;
        if found == Some(Macro::Bind) {
            if let [_, init, ..] = args {
                self.visit_expr(init, None);
            }
        } else if let Some(target) = target {
            self.visit_expr(target, None);
        }
        let before = self.hidden.len();
        for name in args.iter().take(hides) {
            if let Kind::Ident(name) = &name.kind {
                self.hidden.push(name.clone());
            }
        }
        args = args.get(hides + usize::from(found == Some(Macro::Bind))..).unwrap_or_default();
        args.iter().for_each(|arg| self.visit_expr(arg, None));
        self.hidden.truncate(before);
    }
}

/// The text of a literal, as a key of a map or an argument.
fn literal(expr: &Expr) -> Option<String> {
    match &expr.kind {
        Kind::String(text) => Some(text.to_string()),
        Kind::Int(number) => Some(number.to_string()),
        Kind::Bool(truth) => Some(truth.to_string()),
        _ => None,
    }
}

/// The comparison with a constant.
fn compared(operator: Binary, with: &Expr) -> Option<Comparison> {
    let operator = match operator {
        Binary::Equal => ComparisonOperator::Equal,
        Binary::NotEqual => ComparisonOperator::NotEqual,
        Binary::Less => ComparisonOperator::Less,
        Binary::LessEqual => ComparisonOperator::LessEqual,
        Binary::Greater => ComparisonOperator::Greater,
        Binary::GreaterEqual => ComparisonOperator::GreaterEqual,
        Binary::In => ComparisonOperator::In,
        _ => return None,
    };
    let text = is_constant(with).then(|| print(with)).filter(|text| text.len() <= LONGEST)?;
    let whole = match with.kind {
        Kind::Int(number) => Some(number),
        _ => None,
    };
    Some(Comparison { operator, literal: text, whole })
}

/// The operator that says the same with its sides exchanged.
fn mirror(operator: Binary) -> Option<Binary> {
    Some(match operator {
        Binary::Equal | Binary::NotEqual => operator,
        Binary::Less => Binary::Greater,
        Binary::LessEqual => Binary::GreaterEqual,
        Binary::Greater => Binary::Less,
        Binary::GreaterEqual => Binary::LessEqual,
        _ => return None,
    })
}

fn is_constant(expr: &Expr) -> bool {
    match &expr.kind {
        Kind::Null
        | Kind::Bool(_)
        | Kind::Int(_)
        | Kind::Uint(_)
        | Kind::Double(_)
        | Kind::String(_)
        | Kind::Bytes(_) => true,
        Kind::List(items) => items.iter().all(|item| !item.optional && is_constant(&item.value)),
        Kind::Call { target: None, name, args } => {
            matches!(&**name, "duration" | "timestamp" | "semver" | "quantity")
                && args.iter().all(is_constant)
        }
        _ => false,
    }
}
