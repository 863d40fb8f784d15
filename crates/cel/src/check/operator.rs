//! The types operators take and give.

use super::{Checked, Checker, Step};
use crate::error::CelErrorKind;
use crate::parse::{Binary, Expr, Kind, Logic, Unary, print};
use crate::types::Type;

const NUMBERS: &[Type] = &[Type::Int, Type::Uint, Type::Double];

/// The operand and result types of arithmetic, lists aside.
const ARITHMETIC: &[(&[Binary], Type, Type, Type)] = &[
    (
        &[Binary::Add, Binary::Subtract, Binary::Multiply, Binary::Divide, Binary::Modulo],
        Type::Int,
        Type::Int,
        Type::Int,
    ),
    (
        &[Binary::Add, Binary::Subtract, Binary::Multiply, Binary::Divide, Binary::Modulo],
        Type::Uint,
        Type::Uint,
        Type::Uint,
    ),
    (
        &[Binary::Add, Binary::Subtract, Binary::Multiply, Binary::Divide],
        Type::Double,
        Type::Double,
        Type::Double,
    ),
    (&[Binary::Add], Type::String, Type::String, Type::String),
    (&[Binary::Add], Type::Bytes, Type::Bytes, Type::Bytes),
    (&[Binary::Add, Binary::Subtract], Type::Duration, Type::Duration, Type::Duration),
    (&[Binary::Add, Binary::Subtract], Type::Timestamp, Type::Duration, Type::Timestamp),
    (&[Binary::Add], Type::Duration, Type::Timestamp, Type::Timestamp),
    (&[Binary::Subtract], Type::Timestamp, Type::Timestamp, Type::Duration),
];

impl Checker<'_> {
    /// The type without `nullable`, for operators, which take the value.
    fn bare_type(&self, ty: &Type) -> Type {
        match self.params.shallow(ty) {
            Type::Nullable(inner) => self.params.shallow(&inner),
            other => other,
        }
    }

    pub(super) fn check_unary(&mut self, operator: Unary, operand: &Expr, offset: u32) -> Checked {
        let mut checked = self.check_expr(operand);
        if operator == Unary::Not {
            checked = self.as_truth(operand, checked);
        }
        let (node, ty) = checked;
        let bare = self.bare_type(&ty);
        let unknown = bare.is_dyn() || matches!(bare, Type::Param(_));
        let (name, fits, result) = match operator {
            Unary::Not => ("!_", unknown || bare == Type::Bool, Type::Bool),
            Unary::Negate => {
                let result = if unknown { Type::Dyn } else { bare.clone() };
                ("-_", unknown || matches!(bare, Type::Int | Type::Double), result)
            }
        };
        if !fits {
            self.no_overload(offset, name, false, &[ty]);
            return self.error_node(offset);
        }
        let step = match operator {
            Unary::Not => Step::Not(Box::new(node)),
            Unary::Negate => Step::Negate(Box::new(node)),
        };
        (self.make_node(offset, step, &result), result)
    }

    pub(super) fn check_logic(&mut self, kind: Logic, terms: &[Expr], offset: u32) -> Checked {
        let nodes = terms.iter().map(|term| self.check_condition(term)).collect();
        let step = if kind == Logic::And { Step::And(nodes) } else { Step::Or(nodes) };
        (self.make_node(offset, step, &Type::Bool), Type::Bool)
    }

    pub(super) fn check_ternary(&mut self, condition: &Expr, yes: &Expr, no: &Expr, offset: u32) -> Checked {
        let checked = self.check_expr(condition);
        let (condition, test) = self.as_truth(condition, checked);
        let (yes, first) = self.check_expr(yes);
        let (no, second) = self.check_expr(no);
        let bare = self.bare_type(&test);
        let fits = bare.is_dyn() || matches!(bare, Type::Bool | Type::Param(_));
        let mark = self.params.mark();
        if !fits || !self.params.unify(&first, &second) {
            self.params.undo(mark);
            self.no_overload(offset, "_?_:_", false, &[test, first, second]);
            return self.error_node(offset);
        }
        let ty = match (self.params.shallow(&first), self.params.shallow(&second)) {
            (a, b) if a.is_dyn() || b.is_dyn() => Type::Dyn,
            (Type::Null, other) => other,
            (other, _) => other,
        };
        (self.make_node(offset, Step::Ternary(Box::new([condition, yes, no])), &ty), ty)
    }

    pub(super) fn check_binary(
        &mut self,
        operator: Binary,
        left: &Expr,
        right: &Expr,
        offset: u32,
    ) -> Checked {
        let left_checked = self.check_expr(left);
        let errors = self.errors.len();
        let right_checked = self.check_expr(right);
        if operator == Binary::Subtract && self.errors.len() > errors {
            self.hyphen_hint(left, right, errors);
        }
        let ((left_node, left_type), (right_node, right_type)) =
            self.flag_operands(operator, (left, left_checked), (right, right_checked));
        let Some(ty) = self.binary_type(operator, &left_type, &right_type) else {
            let hint = self.convert_hint(operator, left, &left_type, right, &right_type);
            let error = self.no_overload(offset, &operator.name(), false, &[left_type, right_type]);
            error.hint = hint;
            return self.error_node(offset);
        };
        (self.make_node(offset, Step::Binary(operator, Box::new([left_node, right_node])), &ty), ty)
    }

    fn binary_type(&mut self, operator: Binary, left: &Type, right: &Type) -> Option<Type> {
        let mark = self.params.mark();
        match operator {
            Binary::Equal | Binary::NotEqual => {
                let fits = self.params.unify(left, right);
                if !fits {
                    self.params.undo(mark);
                }
                fits.then_some(Type::Bool)
            }
            Binary::Less | Binary::LessEqual | Binary::Greater | Binary::GreaterEqual => {
                let (left, right) = (self.bare_type(left), self.bare_type(right));
                let unknown = |ty: &Type| ty.is_dyn() || matches!(ty, Type::Param(_));
                let ordered = |ty: &Type| {
                    unknown(ty)
                        || NUMBERS.contains(ty)
                        || matches!(
                            ty,
                            Type::Bool | Type::String | Type::Bytes | Type::Timestamp | Type::Duration
                        )
                };
                let both = NUMBERS.contains(&left) && NUMBERS.contains(&right);
                let fits = ordered(&left)
                    && ordered(&right)
                    && (both || left == right || unknown(&left) || unknown(&right));
                fits.then_some(Type::Bool)
            }
            Binary::In => {
                let fits = match self.bare_type(right) {
                    Type::List(element) => self.params.unify(&element, left),
                    Type::Map(key, _) => self.params.unify(&key, left),
                    Type::Object(_) => self.params.unify(&Type::String, left),
                    other => other.is_dyn() || matches!(other, Type::Param(_)),
                };
                if !fits {
                    self.params.undo(mark);
                }
                fits.then_some(Type::Bool)
            }
            _ => self.arithmetic_type(operator, left, right),
        }
    }

    fn arithmetic_type(&mut self, operator: Binary, left: &Type, right: &Type) -> Option<Type> {
        let (left, right) = (self.bare_type(left), self.bare_type(right));
        let unknown = |ty: &Type| ty.is_dyn() || matches!(ty, Type::Param(_));
        if operator == Binary::Add && matches!((&left, &right), (Type::List(_), _) | (_, Type::List(_))) {
            if unknown(&left) || unknown(&right) {
                return Some(Type::list(Type::Dyn));
            }
            let mark = self.params.mark();
            if self.params.unify(&left, &right) {
                return Some(left);
            }
            self.params.undo(mark);
            return None;
        }
        let mut result: Option<Type> = None;
        for (operators, a, b, gives) in ARITHMETIC {
            if !operators.contains(&operator)
                || !(unknown(&left) || left == *a)
                || !(unknown(&right) || right == *b)
            {
                continue;
            }
            match &result {
                None => result = Some(gives.clone()),
                Some(found) if found == gives => {}
                Some(_) => return Some(Type::Dyn),
            }
        }
        // Both unknown may also be lists.
        if operator == Binary::Add && unknown(&left) && unknown(&right) {
            return Some(Type::Dyn);
        }
        result
    }

    /// `a.success-rate` is a subtraction, which is hardly what was meant.
    fn hyphen_hint(&mut self, left: &Expr, right: &Expr, from: usize) {
        let (Kind::Select { operand, field, .. }, Kind::Ident(name)) = (&left.kind, &right.kind) else {
            return;
        };
        let hint = format!("a name with a hyphen needs brackets: `{}[\"{field}-{name}\"]`", print(operand));
        for error in self.errors.iter_mut().skip(from) {
            if error.kind == CelErrorKind::Undeclared && error.offset == right.offset as usize {
                error.hint = Some(hint.clone());
            }
        }
    }

    /// Says how to make both sides one type, when that is plain.
    fn convert_hint(
        &self,
        operator: Binary,
        left: &Expr,
        left_type: &Type,
        right: &Expr,
        right_type: &Type,
    ) -> Option<String> {
        let (a, b) = (self.bare_type(left_type), self.bare_type(right_type));
        let text = operator.text();
        let converted = |to: &str, expr: &Expr| format!("{to}({})", print(expr));
        let number = |ty: &Type| NUMBERS.contains(ty);
        let whole = |left: String, right: String| {
            let shown = format!("`{left} {text} {right}`");
            (shown.len() < 200).then_some(shown)
        };
        match (&a, &b) {
            (Type::String, Type::Bool) if matches!(right.kind, Kind::Bool(_)) => {
                whole(print(left), format!("\"{}\"", print(right)))
            }
            (Type::Bool, Type::String) if matches!(left.kind, Kind::Bool(_)) => {
                whole(format!("\"{}\"", print(left)), print(right))
            }
            (Type::String, b) if number(b) && operator != Binary::Add => {
                whole(converted(&b.to_string(), left), print(right))
            }
            (a, Type::String) if number(a) && operator != Binary::Add => {
                whole(print(left), converted(&a.to_string(), right))
            }
            (Type::String, b) if number(b) => whole(print(left), converted("string", right)),
            (a, Type::String) if number(a) => whole(converted("string", left), print(right)),
            (Type::Int, Type::Double) if !matches!(left.kind, Kind::Int(_)) => {
                whole(converted("double", left), print(right))
            }
            (Type::Double, Type::Int) => match right.kind {
                Kind::Int(number) => whole(print(left), format!("{number}.0")),
                _ => whole(print(left), converted("double", right)),
            },
            (Type::Int, Type::Double) => whole(format!("{}.0", print(left)), print(right)),
            _ => None,
        }
    }
}
