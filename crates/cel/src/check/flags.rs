//! Texts of labels that stand for truth values.

use super::{Checked, Checker, Node, Step};
use crate::parse::{Binary, Expr, Kind};
use crate::types::Type;
use crate::value::Value;

impl Checker<'_> {
    /// Returns true if an expression is an entry of a map whose texts may stand for truth values.
    fn is_flag(&self, expr: &Expr, ty: &Type) -> bool {
        let (Kind::Select { operand, optional: false, .. } | Kind::Index { operand, optional: false, .. }) =
            &expr.kind
        else {
            return false;
        };
        let shadowed =
            |path: &str| self.scopes.iter().any(|local| path.split('.').next() == Some(&*local.name));
        self.params.shallow(ty) == Type::String
            && operand
                .dotted()
                .is_some_and(|path| self.env.flags.iter().any(|known| **known == *path) && !shadowed(&path))
    }

    /// The truth a label says, where truth is asked for.
    pub(super) fn as_truth(&self, expr: &Expr, (node, ty): Checked) -> Checked {
        if !self.is_flag(expr, &ty) {
            return (node, ty);
        }
        let offset = node.offset;
        (self.make_node(offset, Step::Flag(Box::new(node)), &Type::Bool), Type::Bool)
    }

    /// Makes a literal truth compared with a label the text that says it.
    pub(super) fn flag_operands(
        &self,
        operator: Binary,
        (left, left_checked): (&Expr, Checked),
        (right, right_checked): (&Expr, Checked),
    ) -> (Checked, Checked) {
        if matches!(operator, Binary::Equal | Binary::NotEqual) {
            if let Some(text) = truth_text(right)
                && self.is_flag(left, &left_checked.1)
            {
                return (left_checked, self.text(text, right));
            }
            if let Some(text) = truth_text(left)
                && self.is_flag(right, &right_checked.1)
            {
                return (self.text(text, left), right_checked);
            }
        }
        (left_checked, right_checked)
    }

    fn text(&self, text: &'static str, at: &Expr) -> Checked {
        let step = Step::Literal(Value::string(text));
        (Node { offset: at.offset, coerce: super::Coerce::No, step }, Type::String)
    }
}

fn truth_text(expr: &Expr) -> Option<&'static str> {
    match expr.kind {
        Kind::Bool(true) => Some("true"),
        Kind::Bool(false) => Some("false"),
        _ => None,
    }
}
