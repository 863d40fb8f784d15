//! Values read with their type: the identity of list items, and values that do not fit.

use std::collections::HashSet;
use std::fmt;

use serde_json::{Map, Value};

use crate::fields::{FieldPath, PathElement};
use crate::schema::{ListKind, OmitRule, ScalarType, Shape, StructField, TypeRef};
use slipway_go::GoError;

/// One place where a value does not fit its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeProblem {
    pub path: FieldPath,
    pub message: String,
}

impl fmt::Display for TypeProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.0.is_empty() {
            return f.write_str(&self.message);
        }
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// Every place where a value does not fit its type; prints as Kubernetes prints them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeProblems(pub Vec<TypeProblem>);

impl fmt::Display for TypeProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return only.fmt(f);
        }
        f.write_str("errors:")?;
        self.0.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

impl std::error::Error for TypeProblems {}

/// A value as its shape says to take it; where the shape allows anything, as the value itself is.
pub(super) enum TypedValue<'a, 'v> {
    Leaf,
    Map { map: Option<&'v Map<String, Value>>, kind: TypeRef<'a>, atomic: bool },
    List { list: Option<&'v [Value]>, item: TypeRef<'a>, kind: &'a ListKind },
}

/// Looks at a value through its type. A value of another JSON type is a leaf.
pub(super) fn typed_value<'a, 'v>(value: &'v Value, kind: TypeRef<'a>) -> TypedValue<'a, 'v> {
    match (kind.shape(), value) {
        (Shape::Map(shape), Value::Object(map)) => {
            TypedValue::Map { map: Some(map), kind, atomic: shape.atomic }
        }
        (Shape::Map(shape), Value::Null) => TypedValue::Map { map: None, kind, atomic: shape.atomic },
        (Shape::List(shape), Value::Array(list)) => {
            TypedValue::List { list: Some(list), item: kind.at(shape.item), kind: &shape.kind }
        }
        (Shape::List(shape), Value::Null) => {
            TypedValue::List { list: None, item: kind.at(shape.item), kind: &shape.kind }
        }
        (Shape::Any(_), Value::Object(map)) => TypedValue::Map { map: Some(map), kind, atomic: false },
        (Shape::Any(_), Value::Array(list)) => {
            TypedValue::List { list: Some(list), item: kind, kind: &ListKind::Atomic }
        }
        _ => TypedValue::Leaf,
    }
}

/// The default a key field takes when an item leaves it out: what the schema says, or the zero value of
/// a field that is always printed.
fn key_default(field: &StructField, kind: TypeRef<'_>) -> Option<Value> {
    if let Some(default) = &field.default {
        return Some(default.clone());
    }
    // A reference by name alone says in its schema that the name may be empty.
    let reference = kind.as_map().is_some_and(|map| map.name.ends_with(".LocalObjectReference"));
    if field.pointer || (field.omit != OmitRule::Never && !reference) {
        return None;
    }
    match kind.at(field.shape).as_scalar()? {
        ScalarType::Bool => Some(Value::Bool(false)),
        ScalarType::Int32 | ScalarType::Int64 => Some(0.into()),
        ScalarType::Float => Some(0.into()),
        _ => Some(Value::String(String::new())),
    }
}

/// Names a list item: by its key fields or by its value.
pub(super) fn item_element(
    item: &Value,
    item_kind: TypeRef<'_>,
    list: &ListKind,
) -> Result<PathElement, GoError> {
    match list {
        ListKind::Map(keys) => {
            let map = match item {
                Value::Object(map) => map,
                Value::Null => {
                    return Err("associative list with keys may not have a null element".into());
                }
                _ => return Err("associative list with keys may not have non-map elements".into()),
            };
            let mut fields = Vec::with_capacity(keys.len());
            for key in keys {
                let default = || key_default(item_kind.field(key)?, item_kind);
                if let Some(value) = map.get(key).cloned().or_else(default) {
                    fields.push((key.clone(), value));
                }
            }
            if fields.is_empty() {
                let keys: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
                return Err(format!(
                    "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
                    keys.join(" ")
                ).into());
            }
            Ok(PathElement::key(fields))
        }
        _ => match item {
            Value::Null => Err("associative list without keys has an element that's an explicit null".into()),
            Value::Object(_) => Err("associative list without keys has an element that's a map type".into()),
            Value::Array(_) => Err("not supported: associative list with lists as elements".into()),
            scalar => Ok(PathElement::value(scalar.clone())),
        },
    }
}

/// The treatment of list items that occur twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DuplicateItems {
    /// Stored objects may hold them, since other patch types let them in.
    Allowed,
    Refused,
}

/// Checks a value against its type: types, undeclared fields and duplicate list items.
pub fn validate(value: &Value, kind: TypeRef<'_>, duplicates: DuplicateItems) -> Result<(), TypeProblems> {
    let mut check = TypeChecker { problems: Vec::new(), path: Vec::new(), duplicates };
    check.check_value(value, kind);
    if check.problems.is_empty() { Ok(()) } else { Err(TypeProblems(check.problems)) }
}

struct TypeChecker {
    problems: Vec<TypeProblem>,
    path: Vec<PathElement>,
    duplicates: DuplicateItems,
}

impl TypeChecker {
    fn add_problem(&mut self, message: String) {
        self.problems.push(TypeProblem { path: FieldPath(self.path.clone()), message });
    }

    fn check_value(&mut self, value: &Value, kind: TypeRef<'_>) {
        if value.is_null() {
            return;
        }
        match (kind.shape(), value) {
            (Shape::Any(_), _) => {}
            (Shape::Map(shape), Value::Object(map)) => {
                for (key, value) in map {
                    self.path.push(PathElement::field(key));
                    match shape.field(key).map(|field| field.shape).or(shape.rest) {
                        Some(child) => self.check_value(value, kind.at(child)),
                        None => {
                            self.add_problem("field not declared in schema".to_owned());
                            self.path.pop();
                            return;
                        }
                    }
                    self.path.pop();
                }
            }
            (Shape::List(shape), Value::Array(items)) => {
                let item_kind = kind.at(shape.item);
                let mut seen = HashSet::new();
                for (index, item) in items.iter().enumerate() {
                    let element = if shape.kind == ListKind::Atomic {
                        PathElement::Index(index as i64)
                    } else {
                        match item_element(item, item_kind, &shape.kind) {
                            Ok(element) => element,
                            Err(message) => {
                                self.add_problem(format!("element {index}: {message}"));
                                return;
                            }
                        }
                    };
                    if shape.kind != ListKind::Atomic
                        && !seen.insert(element.clone())
                        && self.duplicates == DuplicateItems::Refused
                    {
                        self.add_problem(format!("duplicate entries for key {element}"));
                    }
                    self.path.push(element);
                    self.check_value(item, item_kind);
                    self.path.pop();
                }
            }
            (Shape::Map(_), other) => {
                self.add_problem(format!("expected map, got &{{{}}}", crate::patch::go_value(other)));
            }
            (Shape::List(_), other) => {
                self.add_problem(format!("expected list, got &{{{}}}", crate::patch::go_value(other)));
            }
            (Shape::Scalar(scalar), value) => {
                if let Some(message) = scalar_problem(*scalar, value) {
                    self.add_problem(message);
                }
            }
        }
    }
}

fn scalar_problem(scalar: ScalarType, value: &Value) -> Option<String> {
    match scalar {
        ScalarType::String | ScalarType::Bytes | ScalarType::Duration => (!value.is_string())
            .then(|| format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_syntax(value))),
        ScalarType::Bool => (!value.is_boolean())
            .then(|| format!("expected boolean, got &{{{}}}", crate::patch::go_value(value))),
        ScalarType::Int32 | ScalarType::Int64 | ScalarType::Float => {
            (!value.is_number()).then(|| format!("expected numeric (int or float), got {}", go_type(value)))
        }
        ScalarType::Time | ScalarType::MicroTime | ScalarType::Quantity => (value.is_array()
            || value.is_object())
        .then(|| format!("expected any scalar, got &{{{}}}", crate::patch::go_value(value))),
        // The schema says nothing of these; reading the object does.
        ScalarType::IntOrString => None,
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Prints a value as Go's `%#v` does.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(go_syntax).collect::<Vec<_>>().join(", "))
        }
        Value::Object(map) => {
            let mut pairs: Vec<_> = map.iter().collect();
            pairs.sort_by(|a, b| a.0.cmp(b.0));
            let pairs: Vec<_> =
                pairs.into_iter().map(|(key, value)| format!("{key:?}:{}", go_syntax(value))).collect();
            format!("map[string]interface {{}}{{{}}}", pairs.join(", "))
        }
        other => other.to_string(),
    }
}
