//! Answers: JSON, text, and refusals with a code and the field that is to blame.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};

pub(crate) type Reply = Response<Full<Bytes>>;

/// A request that is not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    /// A word for programs.
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// The fields that are wrong, each with what is wrong with it.
    pub(crate) fields: Vec<FieldProblem>,
    /// Seconds after which the same may work.
    pub(crate) retry_after: Option<u64>,
}

/// Something wrong with a field of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldProblem {
    /// The path from the root of the body.
    pub(crate) field: String,
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), fields: Vec::new(), retry_after: None }
    }

    pub(crate) fn invalid(fields: Vec<FieldProblem>) -> Self {
        let message = match fields.as_slice() {
            [one] => format!("{}: {}", one.field, one.message),
            several => format!("{} fields are not as they should be", several.len()),
        };
        Self { fields, ..Self::new(StatusCode::BAD_REQUEST, "invalid", message) }
    }

    /// The cluster cannot be asked.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self { retry_after: Some(5), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message) }
    }

    pub(crate) fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
    }
}

impl From<Refusal> for Reply {
    fn from(refusal: Refusal) -> Self {
        let mut body = json!({"error": refusal.message, "code": refusal.code});
        if let Some(first) = refusal.fields.first() {
            body["field"] = first.field.as_str().into();
            body["problems"] = refusal
                .fields
                .iter()
                .map(|one| json!({"field": one.field, "message": one.message}))
                .collect();
        }
        let mut reply = json_reply(refusal.status, &body);
        if let Some(seconds) = refusal.retry_after {
            reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if refusal.status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Bearer");
            reply.headers_mut().insert(http::header::WWW_AUTHENTICATE, challenge);
        }
        reply
    }
}

/// Answers with JSON.
pub(crate) fn json_reply(status: StatusCode, body: &Value) -> Reply {
    typed_reply(status, "application/json", format!("{body}\n"))
}

/// Answers with text of a type.
pub(crate) fn typed_reply(status: StatusCode, kind: &'static str, body: String) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from(body)));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("X-Content-Type-Options", HeaderValue::from_static("nosniff"));
    reply
}
