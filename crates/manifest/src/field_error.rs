//! Errors about fields, worded and classed as Kubernetes does.

use std::fmt;

use serde_json::{Value, json};

/// The kind of a field error, as Kubernetes classes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldErrorKind {
    Required,
    Invalid,
    /// Invalid, because of its type.
    TypeInvalid,
    NotSupported,
    Forbidden,
    Duplicate,
    NotFound,
    TooLong,
    TooMany,
}

/// One thing wrong with one field; prints as `spec.a: Invalid value: 0: must be positive`.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    pub kind: FieldErrorKind,
    /// `spec.containers[0].name`; empty for the object as a whole, which prints as `<nil>`.
    pub field: String,
    /// The offending value, where the message shows it.
    pub value: Option<Value>,
    pub detail: String,
}

impl FieldError {
    fn with_kind(
        kind: FieldErrorKind,
        field: impl Into<String>,
        value: Option<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self { kind, field: field.into(), value, detail: detail.into() }
    }

    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::with_kind(FieldErrorKind::Required, field, None, detail)
    }

    pub fn invalid(field: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::with_kind(FieldErrorKind::Invalid, field, Some(value.into()), detail)
    }

    /// Invalid, without showing the value.
    pub fn invalid_unshown(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::with_kind(FieldErrorKind::Invalid, field, None, detail)
    }

    pub fn type_invalid(
        field: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self::with_kind(FieldErrorKind::TypeInvalid, field, Some(value.into()), detail)
    }

    /// Not one of the supported values, which are listed as given.
    pub fn not_supported<'a>(
        field: impl Into<String>,
        value: impl Into<Value>,
        supported: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let supported: Vec<String> = supported.into_iter().map(|value| format!("{value:?}")).collect();
        let detail = format!("supported values: {}", supported.join(", "));
        Self::with_kind(FieldErrorKind::NotSupported, field, Some(value.into()), detail)
    }

    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::with_kind(FieldErrorKind::Forbidden, field, None, detail)
    }

    pub fn duplicate(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::with_kind(FieldErrorKind::Duplicate, field, Some(value.into()), "")
    }

    pub fn not_found(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::with_kind(FieldErrorKind::NotFound, field, Some(value.into()), "")
    }

    pub fn too_long(field: impl Into<String>, limit: u64) -> Self {
        Self::with_kind(FieldErrorKind::TooLong, field, None, format!("may not be more than {limit} bytes"))
    }

    pub fn too_many(field: impl Into<String>, count: usize, limit: u64) -> Self {
        Self::with_kind(
            FieldErrorKind::TooMany,
            field,
            Some(count.into()),
            format!("must have at most {limit} items"),
        )
    }

    /// The reason of the cause a server reports.
    pub fn reason(&self) -> &'static str {
        match self.kind {
            FieldErrorKind::Required => "FieldValueRequired",
            FieldErrorKind::Invalid => "FieldValueInvalid",
            FieldErrorKind::TypeInvalid => "FieldValueTypeInvalid",
            FieldErrorKind::NotSupported => "FieldValueNotSupported",
            FieldErrorKind::Forbidden => "FieldValueForbidden",
            FieldErrorKind::Duplicate => "FieldValueDuplicate",
            FieldErrorKind::NotFound => "FieldValueNotFound",
            FieldErrorKind::TooLong => "FieldValueTooLong",
            FieldErrorKind::TooMany => "FieldValueTooMany",
        }
    }

    /// The message without the field.
    pub fn message(&self) -> String {
        let what = match self.kind {
            FieldErrorKind::Required => "Required value",
            FieldErrorKind::Invalid | FieldErrorKind::TypeInvalid => "Invalid value",
            FieldErrorKind::NotSupported => "Unsupported value",
            FieldErrorKind::Forbidden => "Forbidden",
            FieldErrorKind::Duplicate => "Duplicate value",
            FieldErrorKind::NotFound => "Not found",
            FieldErrorKind::TooLong => "Too long",
            FieldErrorKind::TooMany => "Too many",
        };
        let mut message = what.to_owned();
        if let Some(value) = &self.value {
            message.push_str(&format!(": {value}"));
        }
        if !self.detail.is_empty() {
            message.push_str(&format!(": {}", self.detail));
        }
        message
    }

    /// The field as messages name it.
    pub fn field_name(&self) -> &str {
        if self.field.is_empty() { "<nil>" } else { &self.field }
    }

    /// The cause a server reports in `details.causes`.
    pub fn status_cause(&self) -> Value {
        json!({"reason": self.reason(), "message": self.message(), "field": self.field_name()})
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field_name(), self.message())
    }
}

impl std::error::Error for FieldError {}

/// The message of an `Invalid` answer: `Deployment.apps "web" is invalid: …`; several in brackets.
pub fn invalid_message(kind: &str, group: &str, name: &str, errors: &[FieldError]) -> String {
    let dot = if group.is_empty() { "" } else { "." };
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let all = if texts.len() == 1 { texts.concat() } else { format!("[{}]", texts.join(", ")) };
    format!("{kind}{dot}{group} {name:?} is invalid: {all}")
}
