//! The `Status` object: every refusal of the server, with the exact texts clients look for.

use serde_json::{Map, Value, json};

/// A request's failure, rendered to clients as a `v1 Status`.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    pub code: u16,
    /// Empty when the real server sends none.
    pub reason: &'static str,
    pub message: String,
    /// `None` leaves the member out; `Some({})` prints an empty object.
    pub details: Option<Value>,
    pub retry_after: Option<u32>,
    /// A fresh continue token, sent with `410 Expired` answers to paged lists.
    pub continue_token: Option<String>,
    /// Warnings to send along.
    pub warnings: Vec<String>,
}

pub(crate) type Result<T> = std::result::Result<T, Box<Status>>;

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}: {}", self.code, self.reason, self.message)
    }
}

impl std::error::Error for Status {}

/// A group and plural resource, printed as `deployments.apps`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedResource<'a> {
    pub group: &'a str,
    pub what: &'a str,
}

impl std::fmt::Display for NamedResource<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.group.is_empty() { f.write_str(self.what) } else { write!(f, "{}.{}", self.what, self.group) }
    }
}

impl Status {
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Box<Status> {
        Box::new(Status {
            code,
            reason,
            message: message.into(),
            details: None,
            retry_after: None,
            continue_token: None,
            warnings: Vec::new(),
        })
    }

    fn with_details(mut self: Box<Self>, details: Value) -> Box<Self> {
        self.details = Some(details);
        self
    }

    pub fn bad_request(message: impl Into<String>) -> Box<Status> {
        Status::new(400, "BadRequest", message)
    }

    /// An error with no API meaning: the real server prints its text with code 500 and no reason.
    pub fn plain_500(message: impl Into<String>) -> Box<Status> {
        Status::new(500, "", message)
    }

    pub fn internal(message: impl std::fmt::Display) -> Box<Status> {
        let message = message.to_string();
        Status::new(500, "InternalError", format!("Internal error occurred: {message}"))
            .with_details(json!({"causes": [{"message": message}]}))
    }

    pub fn unauthorized() -> Box<Status> {
        Status::new(401, "Unauthorized", "Unauthorized")
    }

    pub fn not_found(resource: NamedResource<'_>, name: &str) -> Box<Status> {
        Status::new(404, "NotFound", format!("{resource} {} not found", go_quoted(name)))
            .with_details(resource_details(resource, name))
    }

    /// A path below a served group-version that names no resource.
    pub fn no_such_resource() -> Box<Status> {
        Status::new(404, "NotFound", "the server could not find the requested resource")
            .with_details(json!({}))
    }

    pub fn already_exists(resource: NamedResource<'_>, name: &str) -> Box<Status> {
        Status::new(409, "AlreadyExists", format!("{resource} \"{name}\" already exists"))
            .with_details(resource_details(resource, name))
    }

    pub fn conflict(resource: NamedResource<'_>, name: &str, why: &str) -> Box<Status> {
        Status::new(409, "Conflict", format!("Operation cannot be fulfilled on {resource} \"{name}\": {why}"))
            .with_details(resource_details(resource, name))
    }

    pub fn stale(resource: NamedResource<'_>, name: &str) -> Box<Status> {
        Status::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub fn forbidden(resource: NamedResource<'_>, name: &str, why: &str) -> Box<Status> {
        let subject = if name.is_empty() { resource.to_string() } else { format!("{resource} \"{name}\"") };
        let message = if resource.what.is_empty() {
            format!("forbidden: {why}")
        } else {
            format!("{subject} is forbidden: {why}")
        };
        Status::new(403, "Forbidden", message).with_details(resource_details(resource, name))
    }

    pub fn method_not_allowed() -> Box<Status> {
        Status::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
        .with_details(json!({}))
    }

    pub fn too_large(limit: usize) -> Box<Status> {
        Status::new(413, "RequestEntityTooLarge", format!("Request entity too large: limit is {limit}"))
    }

    /// The client did not send its request in time.
    pub fn request_timeout(message: impl Into<String>) -> Box<Status> {
        Status::new(408, "Timeout", message)
    }

    pub fn expired(message: impl Into<String>) -> Box<Status> {
        Status::new(410, "Expired", message)
    }

    pub fn future_version(asked: u64, current: u64) -> Box<Status> {
        let mut status = Status::new(
            504,
            "Timeout",
            format!("Timeout: Too large resource version: {asked}, current: {current}"),
        )
        .with_details(json!({
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        }));
        status.retry_after = Some(1);
        status
    }

    pub fn too_many_requests(message: impl Into<String>, causes: Value, retry_after: u32) -> Box<Status> {
        let mut body = Map::new();
        if causes.as_array().is_some_and(|c| !c.is_empty()) {
            body.insert("causes".into(), causes);
        }
        if retry_after > 0 {
            body.insert("retryAfterSeconds".into(), retry_after.into());
        }
        let mut status = Status::new(429, "TooManyRequests", message).with_details(Value::Object(body));
        status.retry_after = (retry_after > 0).then_some(retry_after);
        status
    }

    /// 422 with one cause per field problem. `kind` is the Kind of a built-in object and the plural of
    /// nothing else: the real server names the type it validated.
    pub fn invalid(kind: NamedResource<'_>, name: &str, found: Vec<StatusCause>) -> Box<Status> {
        // A repeated problem is reported once.
        let mut causes: Vec<StatusCause> = Vec::with_capacity(found.len());
        for cause in found {
            if !causes.contains(&cause) {
                causes.push(cause);
            }
        }
        let mut texts: Vec<String> = causes.iter().map(|c| format!("{}: {}", c.field, c.message)).collect();
        let listed = if texts.len() == 1 { texts.remove(0) } else { format!("[{}]", texts.join(", ")) };
        let subject = NamedResource { group: kind.group, what: kind.what };
        let mut body = resource_details(subject, name);
        body["causes"] = causes.iter().map(StatusCause::to_json).collect();
        let subject = format!("{subject} {}", go_quoted(name));
        Status::new(422, "Invalid", format!("{subject} is invalid: {listed}")).with_details(body)
    }

    /// The body as clients see it.
    pub fn to_value(&self) -> Value {
        let mut out = Map::new();
        out.insert("kind".into(), "Status".into());
        out.insert("apiVersion".into(), "v1".into());
        let mut metadata = Map::new();
        if let Some(token) = &self.continue_token {
            metadata.insert("continue".into(), token.as_str().into());
        }
        out.insert("metadata".into(), Value::Object(metadata));
        out.insert("status".into(), "Failure".into());
        out.insert("message".into(), self.message.as_str().into());
        if !self.reason.is_empty() {
            out.insert("reason".into(), self.reason.into());
        }
        if let Some(details) = &self.details {
            out.insert("details".into(), details.clone());
        }
        out.insert("code".into(), self.code.into());
        Value::Object(out)
    }
}

/// A text as Go's `%q` prints it.
fn go_quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if u32::from(c) < 0x20 || c == '\x7f' => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A value as messages show it.
fn shown_value(value: &Value) -> String {
    // Go's encoder is careful with what HTML would read.
    let escaped =
        || value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    value.as_str().map_or_else(escaped, go_quoted)
}

fn resource_details(resource: NamedResource<'_>, name: &str) -> Value {
    let mut out = Map::new();
    if !name.is_empty() {
        out.insert("name".into(), name.into());
    }
    if !resource.group.is_empty() {
        out.insert("group".into(), resource.group.into());
    }
    if !resource.what.is_empty() {
        out.insert("kind".into(), resource.what.into());
    }
    Value::Object(out)
}

/// The answer to a deletion that removed the object at once.
pub(crate) fn deletion_status(resource: NamedResource<'_>, name: &str, uid: &str) -> Value {
    let mut body = resource_details(resource, name);
    body["uid"] = uid.into();
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": body})
}

/// One field problem of an invalid object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusCause {
    pub reason: &'static str,
    pub field: String,
    pub message: String,
}

impl StatusCause {
    fn to_json(&self) -> Value {
        json!({"reason": self.reason, "message": self.message, "field": self.field})
    }

    pub fn required(field: impl Into<String>, detail: &str) -> StatusCause {
        let message =
            if detail.is_empty() { "Required value".to_owned() } else { format!("Required value: {detail}") };
        StatusCause { reason: "FieldValueRequired", field: field.into(), message }
    }

    pub fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> StatusCause {
        StatusCause {
            reason: "FieldValueInvalid",
            field: field.into(),
            message: format!("Invalid value: {}: {detail}", shown_value(value)),
        }
    }

    /// An invalid value that is not shown.
    pub fn invalid_unshown(field: impl Into<String>, detail: &str) -> StatusCause {
        let message = format!("Invalid value: {detail}");
        StatusCause { reason: "FieldValueInvalid", field: field.into(), message }
    }

    pub fn not_supported(field: impl Into<String>, value: &Value, supported: &[&str]) -> StatusCause {
        let listed: Vec<String> = supported.iter().map(|s| format!("{s:?}")).collect();
        StatusCause {
            reason: "FieldValueNotSupported",
            field: field.into(),
            message: format!("Unsupported value: {value}: supported values: {}", listed.join(", ")),
        }
    }

    pub fn forbidden(field: impl Into<String>, detail: &str) -> StatusCause {
        let message = if detail.is_empty() { "Forbidden".to_owned() } else { format!("Forbidden: {detail}") };
        StatusCause { reason: "FieldValueForbidden", field: field.into(), message }
    }

    pub fn duplicate(field: impl Into<String>, value: &Value) -> StatusCause {
        StatusCause {
            reason: "FieldValueDuplicate",
            field: field.into(),
            message: format!("Duplicate value: {value}"),
        }
    }

    pub fn not_found(field: impl Into<String>, value: &Value) -> StatusCause {
        StatusCause {
            reason: "FieldValueNotFound",
            field: field.into(),
            message: format!("Not found: {value}"),
        }
    }

    pub fn too_long(field: impl Into<String>, limit: usize) -> StatusCause {
        StatusCause {
            reason: "FieldValueTooLong",
            field: field.into(),
            message: format!("Too long: may not be more than {limit} bytes"),
        }
    }

    pub fn too_many(field: impl Into<String>, actual: usize, limit: usize) -> StatusCause {
        StatusCause {
            reason: "FieldValueTooMany",
            field: field.into(),
            message: format!("Too many: {actual}: must have at most {limit} items"),
        }
    }

    pub fn type_invalid(field: impl Into<String>, value: &Value, detail: &str) -> StatusCause {
        StatusCause {
            reason: "FieldValueTypeInvalid",
            field: field.into(),
            message: format!("Invalid value: {value}: {detail}"),
        }
    }
}
