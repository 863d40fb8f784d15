//! Errors of requests to an API server, classed by what a caller can do about them.

use slipway_manifest::ObjectRef;
use std::fmt;
use std::time::Duration;

use serde_json::Value;

/// The class of an error; decides what to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorClass {
    /// The object does not exist.
    NotFound,
    /// The server serves no such kind.
    NoKind,
    Forbidden,
    Unauthorized,
    /// A field that cannot change would have to: delete and create again.
    Immutable,
    /// The server understood the object and refuses it.
    Invalid,
    /// Server-side apply cannot make sense of the object: unknown fields or doubled list keys.
    TypedPatch,
    /// An admission or conversion webhook does not answer; it often does a little later.
    WebhookUnavailable,
    /// Somebody else wrote in between, or owns a field.
    Conflict,
    AlreadyExists,
    /// Too many requests.
    Throttled,
    /// No answer, or an incomplete one.
    Transport,
    /// The server reported an internal error.
    Server,
    Timeout,
    Other,
}

impl ErrorClass {
    /// Returns true if the same request may succeed a little later.
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            Self::Throttled | Self::Transport | Self::Server | Self::Timeout | Self::WebhookUnavailable
        )
    }
}

/// The reason no connection came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionFault {
    /// No process listens there, so the server surely did not act.
    Refused,
    /// The server's certificate is not trusted; a retry does not change that.
    Untrusted,
    /// Somebody answers who is no API server: no TLS, no JSON, or another JSON.
    NotKubernetes,
}

/// The TLS error that an I/O error holds, or one that it holds: the cause of an I/O error skips what it holds.
fn held_error(io: &std::io::Error) -> Option<&rustls::Error> {
    let mut held = io.get_ref()?;
    while let Some(inner) = held.downcast_ref::<std::io::Error>() {
        held = inner.get_ref()?;
    }
    held.downcast_ref()
}

impl ConnectionFault {
    /// Finds the fault among an error and its causes.
    pub(crate) fn find_in(error: &(dyn std::error::Error + 'static)) -> Option<Self> {
        let mut current = Some(error);
        while let Some(error) = current {
            let io = error.downcast_ref::<std::io::Error>();
            let held = io.and_then(held_error);
            match held.or_else(|| error.downcast_ref()) {
                Some(rustls::Error::InvalidCertificate(_)) => return Some(Self::Untrusted),
                Some(rustls::Error::InvalidMessage(_)) => return Some(Self::NotKubernetes),
                _ => {}
            }
            if io.is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionRefused) {
                return Some(Self::Refused);
            }
            current = error.source();
        }
        None
    }
}

/// The `Status` a server answered with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ApiStatus {
    pub code: u16,
    pub reason: String,
    pub message: String,
    /// `details`, with causes, as sent.
    pub details: Value,
}

impl ApiStatus {
    /// Reads the body of an answer that is not a success; text is taken as the message.
    pub(crate) fn parse_body(code: u16, body: &[u8]) -> ApiStatus {
        match serde_json::from_slice::<Value>(body) {
            Ok(value) if value["kind"] == "Status" => ApiStatus::from_object(&value, code),
            _ => ApiStatus {
                code,
                reason: String::new(),
                message: String::from_utf8_lossy(body).trim().chars().take(2000).collect(),
                details: Value::Null,
            },
        }
    }

    /// Reads a `Status` object.
    pub(crate) fn from_object(value: &Value, code: u16) -> ApiStatus {
        let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
        ApiStatus {
            code: value["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(code),
            reason: text("reason"),
            message: text("message"),
            details: value.get("details").cloned().unwrap_or_default(),
        }
    }

    /// The causes, each as field and message.
    pub fn causes(&self) -> impl Iterator<Item = (&str, &str)> {
        let causes = self.details.get("causes").and_then(Value::as_array);
        causes.into_iter().flatten().map(|cause| {
            let text = |field: &str| cause[field].as_str().unwrap_or_default();
            (text("field"), text("message"))
        })
    }
}

/// The phrases of server versions for a field that cannot change.
const IMMUTABLE: &[&str] = &[
    "is immutable",
    "may not change once set",
    "updates may not change fields other than",
    "updates to statefulset spec",
    "cannot change roleRef",
    "may not be changed in an update",
    "updates to parameters are forbidden",
    "updates to provisioner are forbidden",
    "updates to reclaimPolicy are forbidden",
];

const TYPED_PATCH: &[&str] =
    &["failed to create typed patch object", "failed to create manager for existing fields"];
const WEBHOOK: &[&str] = &["failed calling webhook", "conversion webhook for", "failed to call webhook"];

/// Classes an answer by its code, reason and message.
pub(crate) fn classify(status: &ApiStatus) -> ErrorClass {
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| status.message.contains(phrase));
    match status.code {
        // A webhook that denies a request is available.
        400..=599 if says(WEBHOOK) && !status.message.contains("denied the request") => {
            ErrorClass::WebhookUnavailable
        }
        400..=599 if says(TYPED_PATCH) => ErrorClass::TypedPatch,
        401 => ErrorClass::Unauthorized,
        403 => ErrorClass::Forbidden,
        404 if is_unknown_path(status) => ErrorClass::NoKind,
        404 => ErrorClass::NotFound,
        409 if status.reason == "AlreadyExists" => ErrorClass::AlreadyExists,
        409 => ErrorClass::Conflict,
        400 | 422 if says(IMMUTABLE) => ErrorClass::Immutable,
        400 | 413 | 415 | 422 => ErrorClass::Invalid,
        429 => ErrorClass::Throttled,
        408 | 504 => ErrorClass::Timeout,
        500..=599 => ErrorClass::Server,
        _ => ErrorClass::Other,
    }
}

/// A 404 that is about the path rather than the object.
fn is_unknown_path(status: &ApiStatus) -> bool {
    status.message.contains("could not find the requested resource")
        || status.message.contains("page not found")
}

/// A failed request: its action, its object, and the answer.
#[derive(Clone, Debug)]
pub struct Error {
    pub class: ErrorClass,
    /// The action, such as `apply Deployment shop/web`.
    pub action: String,
    pub at: Option<Box<ObjectRef>>,
    pub message: String,
    pub status: Option<Box<ApiStatus>>,
    /// The pause the server asked for.
    pub retry_after: Option<Duration>,
    /// True if the deadline of the handle kept it from being sent again.
    pub is_late: bool,
    /// The reason there was no connection, if it is known.
    pub fault: Option<ConnectionFault>,
    /// What to do about it, where that is known: the rule that would allow it, or whose credentials were refused.
    pub hint: Option<Box<str>>,
}

impl Error {
    pub fn new(class: ErrorClass, action: impl Into<String>, message: impl Into<String>) -> Error {
        let (action, message) = (action.into(), message.into());
        Error {
            class,
            action,
            at: None,
            message,
            status: None,
            retry_after: None,
            is_late: false,
            fault: None,
            hint: None,
        }
    }

    pub(crate) fn at(mut self, at: &ObjectRef) -> Error {
        self.at = Some(Box::new(at.clone()));
        self
    }

    pub(crate) fn from_status(action: &str, status: ApiStatus) -> Error {
        let message = match status.message.as_str() {
            "" => format!("the server answered {}", status.code),
            message => message.to_owned(),
        };
        let seconds = status.details["retryAfterSeconds"].as_u64();
        Error {
            class: classify(&status),
            action: action.to_owned(),
            at: None,
            message,
            retry_after: seconds.map(Duration::from_secs),
            status: Some(Box::new(status)),
            is_late: false,
            fault: None,
            hint: None,
        }
    }

    /// The HTTP code of the answer, if there was one.
    pub fn status_code(&self) -> Option<u16> {
        self.status.as_ref().map(|status| status.code)
    }

    /// Returns true if the same request may succeed a little later.
    pub fn is_transient(&self) -> bool {
        self.class.is_transient()
    }

    /// Returns true if neither such an object nor such a kind exists.
    pub fn is_absent(&self) -> bool {
        matches!(self.class, ErrorClass::NotFound | ErrorClass::NoKind)
    }

    /// Returns true if the namespace of the object is missing.
    pub fn is_missing_namespace(&self) -> bool {
        let kind = self.status.as_ref().and_then(|status| status.details["kind"].as_str());
        self.class == ErrorClass::NotFound && kind == Some("namespaces")
    }

    /// Tells that an object of the name exists and is on its way out. Servers say so in words alone.
    pub fn is_being_deleted(&self) -> bool {
        self.class == ErrorClass::AlreadyExists
            && self.status.as_ref().is_some_and(|status| status.message.contains("being deleted"))
    }

    /// Returns true if an admission webhook denied the request. Servers say so in the message alone.
    pub fn is_webhook_denial(&self) -> bool {
        self.status.as_ref().is_some_and(|status| status.message.contains("admission webhook"))
    }

    /// Returns true if a continue token or a resource version is too old: read from the start.
    pub fn is_expired(&self) -> bool {
        self.status_code() == Some(410)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.action, self.message)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn answers_are_sorted() {
        use ErrorClass::*;
        let selector =
            "Deployment.apps \"web\" is invalid: spec.selector: Invalid value: {}: field is immutable";
        let claim = "PersistentVolumeClaim \"a\" is invalid: spec: Forbidden: spec is immutable after creation except resources.requests";
        let cluster_ip =
            "Service \"a\" is invalid: spec.clusterIPs[0]: Invalid value: []: may not change once set";
        let pod =
            "Pod \"a\" is invalid: spec: Forbidden: pod updates may not change fields other than `spec.x`";
        let set = "StatefulSet.apps \"a\" is invalid: spec: Forbidden: updates to statefulset spec for fields other than 'replicas' are forbidden";
        let role = "RoleBinding \"a\" is invalid: roleRef: Invalid value: {}: cannot change roleRef";
        let priority = "PriorityClass \"a\" is invalid: value: Forbidden: may not be changed in an update.";
        let class =
            "StorageClass \"a\" is invalid: parameters: Forbidden: updates to parameters are forbidden.";
        let typed = "failed to create typed patch object (default/web; apps/v1, Kind=Deployment): .spec.x: field not declared in schema";
        let webhook = "Internal error occurred: failed calling webhook \"v.example.com\": connection refused";
        let convert = "conversion webhook for example.com/v1, Kind=Foo failed: connection refused";
        let denied = "admission webhook \"v.example.com\" denied the request: no";
        for (code, reason, message, class) in [
            (422, "Invalid", selector, Immutable),
            (422, "Invalid", claim, Immutable),
            (422, "Invalid", cluster_ip, Immutable),
            (422, "Invalid", pod, Immutable),
            (422, "Invalid", set, Immutable),
            (422, "Invalid", role, Immutable),
            (422, "Invalid", priority, Immutable),
            (422, "Invalid", class, Immutable),
            (422, "Invalid", "Deployment.apps \"web\" is invalid: spec.replicas: must be >= 0", Invalid),
            (403, "Forbidden", "configmaps \"x\" is immutable to you", Forbidden),
            (500, "", typed, TypedPatch),
            (500, "InternalError", webhook, WebhookUnavailable),
            (500, "InternalError", convert, WebhookUnavailable),
            (400, "BadRequest", denied, Invalid),
            (403, "Forbidden", denied, Forbidden),
            (500, "InternalError", "etcdserver: request timed out", Server),
            (503, "ServiceUnavailable", "apiserver is shutting down", Server),
            (504, "Timeout", "", Timeout),
            (429, "TooManyRequests", "", Throttled),
            (404, "NotFound", "configmaps \"a\" not found", NotFound),
            (404, "NotFound", "the server could not find the requested resource", NoKind),
            (404, "", "404 page not found", NoKind),
            (409, "AlreadyExists", "configmaps \"a\" already exists", AlreadyExists),
            (409, "Conflict", "Apply failed with 1 conflict", Conflict),
            (401, "Unauthorized", "Unauthorized", Unauthorized),
            (418, "", "", Other),
        ] {
            let status =
                ApiStatus { code, reason: reason.into(), message: message.into(), details: Value::Null };
            assert_eq!(classify(&status), class, "{code} {message}");
        }
    }

    #[test]
    fn bodies_of_refusals_are_read() {
        let body = json!({"kind": "Status", "code": 429, "reason": "TooManyRequests", "message": "slow",
            "details": {"retryAfterSeconds": 7, "causes": [{"field": "spec.x", "message": "no"}]}});
        let status = ApiStatus::parse_body(429, body.to_string().as_bytes());
        assert_eq!(status.causes().collect::<Vec<_>>(), [("spec.x", "no")]);
        let error = Error::from_status("get x", status);
        assert_eq!((error.class, error.retry_after), (ErrorClass::Throttled, Some(Duration::from_secs(7))));
        assert!(error.is_transient());
        assert_eq!(error.to_string(), "get x: slow");
        let plain = Error::from_status("get x", ApiStatus::parse_body(502, b"<html>Bad Gateway</html>\n"));
        assert_eq!((plain.class, plain.message.as_str()), (ErrorClass::Server, "<html>Bad Gateway</html>"));
        assert_eq!(
            Error::from_status("a", ApiStatus::parse_body(500, b"")).message,
            "the server answered 500"
        );
    }
}
