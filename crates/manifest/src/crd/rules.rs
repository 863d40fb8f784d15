//! `x-kubernetes-validations`: finds the rules of each value. The caller evaluates them.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::compile::StructuralSchema;
use crate::field_error::{FieldError, FieldErrorKind};
use crate::schema::ListKind;

/// One rule of a schema.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValidationRule {
    /// The CEL expression.
    pub rule: String,
    pub message: String,
    pub message_expression: String,
    pub reason: String,
    /// The path a failure is reported at, relative to the rule: `.spec.x`.
    pub field_path: String,
    pub optional_old_self: bool,
}

/// The failure of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RuleFailure {
    /// The result of `messageExpression`, or the evaluation's error; `None` means the rule's own message.
    pub message: Option<String>,
}

/// Evaluates rules. A rule about a change (`oldSelf`) holds when there is no old value.
pub trait RuleChecker {
    fn check_rule(
        &self,
        rule: &ValidationRule,
        value: &Value,
        old: Option<&Value>,
    ) -> Result<(), RuleFailure>;
}

impl ValidationRule {
    pub(super) fn read_all(schema: &Value) -> Vec<ValidationRule> {
        let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten();
        rules
            .map(|rule| {
                let text = |key: &str| rule.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
                ValidationRule {
                    rule: text("rule"),
                    message: text("message"),
                    message_expression: text("messageExpression"),
                    reason: text("reason"),
                    field_path: text("fieldPath"),
                    optional_old_self: rule
                        .get("optionalOldSelf")
                        .and_then(Value::as_bool)
                        .unwrap_or_default(),
                }
            })
            .collect()
    }
}

/// Returns true if a schema has rules anywhere.
pub(super) fn has_rules(schema: &StructuralSchema) -> bool {
    !schema.rules.is_empty()
        || schema.properties.iter().any(|(_, property)| has_rules(property))
        || schema.items.as_deref().is_some_and(has_rules)
        || schema.additional.as_deref().is_some_and(has_rules)
}

const NOT_CHECKED: &str = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";

pub(super) fn check_rules(
    object: &Value,
    old: Option<&Value>,
    schema: &StructuralSchema,
    errors: &[FieldError],
    checker: &dyn RuleChecker,
) -> Vec<FieldError> {
    if !has_rules(schema) {
        return Vec::new();
    }
    let blocking = errors.iter().any(|error| {
        matches!(
            error.kind,
            FieldErrorKind::NotSupported
                | FieldErrorKind::Required
                | FieldErrorKind::TooLong
                | FieldErrorKind::TooMany
                | FieldErrorKind::TypeInvalid
        )
    });
    if blocking {
        return vec![FieldError::invalid("", Value::Null, NOT_CHECKED)];
    }
    let mut found = Vec::new();
    check_value(object, old, schema, &mut String::new(), checker, &mut found);
    found
}

fn check_value(
    value: &Value,
    old: Option<&Value>,
    schema: &StructuralSchema,
    path: &mut String,
    checker: &dyn RuleChecker,
    found: &mut Vec<FieldError>,
) {
    if value.is_null() {
        return;
    }
    for rule in &schema.rules {
        if let Err(failure) = checker.check_rule(rule, value, old) {
            found.push(rule_error(rule, failure, value, path));
        }
    }
    let length = path.len();
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                let child = match schema.property(key) {
                    Some(child) => {
                        let dot = if path.is_empty() { "" } else { "." };
                        let _ = write!(path, "{dot}{key}");
                        child
                    }
                    None => {
                        let Some(child) = schema.additional.as_deref() else { continue };
                        let _ = write!(path, "[{key}]");
                        child
                    }
                };
                check_value(inner, old.and_then(|old| old.get(key)), child, path, checker, found);
                path.truncate(length);
            }
        }
        Value::Array(items) => {
            let Some(child) = schema.items.as_deref() else { return };
            let before = old.and_then(Value::as_array);
            for (index, item) in items.iter().enumerate() {
                // Only items of keyed lists can be told to be the same before and after.
                let old = match &schema.list {
                    ListKind::Map(keys) => before.and_then(|before| {
                        before.iter().find(|old| key_fields(old, keys) == key_fields(item, keys))
                    }),
                    _ => None,
                };
                let _ = write!(path, "[{index}]");
                check_value(item, old, child, path, checker, found);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

fn key_fields<'a>(item: &'a Value, keys: &'a [String]) -> Map<String, Value> {
    keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone()))).collect()
}

fn rule_error(rule: &ValidationRule, failure: RuleFailure, value: &Value, path: &str) -> FieldError {
    let detail = failure.message.filter(|message| !message.is_empty()).unwrap_or_else(|| {
        if rule.message.is_empty() {
            format!("failed rule: {}", rule.rule.trim())
        } else {
            rule.message.trim().to_owned()
        }
    });
    let field = format!("{path}{}", rule.field_path);
    let field = field.trim_start_matches('.');
    match rule.reason.as_str() {
        "FieldValueRequired" => FieldError::required(field, detail),
        "FieldValueForbidden" => FieldError::forbidden(field, detail),
        "FieldValueDuplicate" => FieldError { detail, ..FieldError::duplicate(field, value.clone()) },
        _ if value.is_object() || value.is_array() => FieldError::invalid_unshown(field, detail),
        _ => FieldError::invalid(field, value.clone(), detail),
    }
}
