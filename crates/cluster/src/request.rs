//! Sending a request until it is answered: retries, back-off, credentials that expired.

use slipway_manifest::ObjectRef;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT, WARNING,
};
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use rand::RngExt;
use serde_json::Value;
use tokio::time::Instant;

use crate::calls::RequestVerb;
use crate::connect::describe_login_error;
use crate::error::{ApiStatus, ConnectionFault, Error, ErrorClass};
use crate::rights::{self, AccessNeed};
use crate::{Cluster, last_error};

const USER_AGENT_NAME: &str = concat!("slipway/", env!("CARGO_PKG_VERSION"));

/// The retries of requests that fail with a transient error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryPolicy {
    /// The most times a request is sent.
    pub attempts: u32,
    /// The pause after the first failure; it doubles from there.
    pub first: Duration,
    pub longest: Duration,
    /// After this long no further attempt is made.
    pub patience: Duration,
    /// Time limit for a write to wait until an admission or conversion webhook is available.
    pub webhooks: Duration,
    /// Time limit of one attempt.
    pub answer: Duration,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy {
            attempts: 12,
            first: Duration::from_millis(100),
            longest: Duration::from_secs(5),
            patience: Duration::from_secs(60),
            webhooks: Duration::from_secs(240),
            answer: Duration::from_secs(60),
        }
    }
}

impl RetryPolicy {
    /// A single attempt.
    pub fn never() -> RetryPolicy {
        RetryPolicy {
            attempts: 1,
            patience: Duration::ZERO,
            webhooks: Duration::ZERO,
            ..RetryPolicy::default()
        }
    }

    /// The pause after failure number `attempt`, from 1: doubling, and spread so that many clients do
    /// not come back at the same moment.
    pub(crate) fn pause_after(&self, attempt: u32) -> Duration {
        let full = self.first.saturating_mul(1 << attempt.saturating_sub(1).min(16)).min(self.longest);
        full.mul_f64(rand::rng().random_range(0.5..1.0))
    }
}

/// The rule that says when a request may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RepeatRule {
    /// The request is idempotent.
    Always,
    /// Only if the server certainly did not act.
    Unserved,
}

/// One request, ready to be sent any number of times.
pub(crate) struct ApiCall {
    pub(crate) verb: RequestVerb,
    pub(crate) method: Method,
    /// The path with its query.
    pub(crate) path: String,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Bytes,
    pub(crate) repeat: RepeatRule,
    pub(crate) dry_run: bool,
    pub(crate) action: String,
    pub(crate) at: Option<ObjectRef>,
}

impl ApiCall {
    pub(crate) fn new(
        verb: RequestVerb,
        method: Method,
        path: impl Into<String>,
        action: impl Into<String>,
    ) -> ApiCall {
        ApiCall {
            verb,
            method,
            path: path.into(),
            headers: Vec::new(),
            body: Bytes::new(),
            repeat: RepeatRule::Always,
            dry_run: false,
            action: action.into(),
            at: None,
        }
    }

    pub(crate) fn get(verb: RequestVerb, path: impl Into<String>, action: impl Into<String>) -> ApiCall {
        ApiCall::new(verb, Method::GET, path, action)
    }

    pub(crate) fn with_body(mut self, content_type: &'static str, body: &Value) -> ApiCall {
        self.headers.push((CONTENT_TYPE, HeaderValue::from_static(content_type)));
        self.body = body.to_string().into();
        self
    }

    fn build_request(&self) -> Result<Request<Body>, Error> {
        let mut request = Request::new(Body::from(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.path.parse().map_err(|e| {
            self.call_error(ErrorClass::Other, format!("the path `{}` is no URL: {e}", self.path))
        })?;
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, HeaderValue::from_static(USER_AGENT_NAME));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        for (name, value) in &self.headers {
            headers.insert(name.clone(), value.clone());
        }
        Ok(request)
    }

    pub(crate) fn call_error(&self, class: ErrorClass, message: impl Into<String>) -> Error {
        self.with_object(Error::new(class, &self.action, message))
    }

    fn with_object(&self, error: Error) -> Error {
        match &self.at {
            Some(at) => error.at(at),
            None => error,
        }
    }
}

/// The answer to a call; `was_ambiguous` if an earlier attempt may have been served without an answer.
pub(crate) struct CallOutcome {
    pub(crate) answer: Result<Value, Error>,
    pub(crate) was_ambiguous: bool,
}

/// The progress of one attempt to send a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SendStage {
    Queued,
    /// Waits until it is certain that the lock is held.
    Guarded,
    Sent,
    Answered,
}

/// The attempts at one call.
struct CallAttempts {
    started: Instant,
    count: u32,
    stage: SendStage,
    /// The error the call was sent again for.
    last: Option<Error>,
    was_ambiguous: bool,
}

impl CallAttempts {
    fn new() -> CallAttempts {
        let started = Instant::now();
        CallAttempts { started, count: 0, stage: SendStage::Queued, last: None, was_ambiguous: false }
    }

    /// The final error of a call, with the status of the answer and the number of attempts.
    fn given_up(&self, mut error: Error) -> Error {
        let mut notes = Vec::new();
        if let Some(code) = error
            .status_code()
            .filter(|code| error.is_transient() && !error.message.contains(&code.to_string()))
        {
            notes.push(format!("status {code}"));
        }
        if self.count > 1 {
            notes.push(format!("tried {} times in {}", self.count, format_seconds(self.started.elapsed())));
        }
        if !notes.is_empty() {
            error.message.push_str(&format!(" ({})", notes.join("; ")));
        }
        error
    }

    /// The error after the deadline: the server's last answer, or the stage the call waited in.
    fn out_of_time(&mut self, call: &ApiCall) -> Error {
        if let Some(last) = self.last.take() {
            return self.given_up(last);
        }
        let elapsed = format_seconds(self.started.elapsed());
        call.call_error(
            ErrorClass::Timeout,
            match self.stage {
                SendStage::Queued => format!("waited {elapsed} for its turn"),
                SendStage::Guarded => format!("waited {elapsed} to learn whether the lock is still ours"),
                SendStage::Sent | SendStage::Answered => format!("no answer within {elapsed}"),
            },
        )
    }
}

/// A duration in seconds, with a digit after the point where it matters.
pub(crate) fn format_seconds(duration: Duration) -> String {
    let tenths = duration.as_millis().div_ceil(100);
    match tenths % 10 {
        0 => format!("{} s", tenths / 10),
        digit => format!("{}.{digit} s", tenths / 10),
    }
}

impl Cluster {
    /// Sends a call and reads its JSON answer.
    pub(crate) async fn call_json(&self, call: ApiCall) -> Result<Value, Error> {
        self.call_json_outcome(&call).await.answer
    }

    async fn exchange_json(&self, call: &ApiCall, client: &kube::Client) -> Result<Value, Error> {
        let response = self.send_once(call, client).await?;
        let bytes = response.into_body().collect().await.map_err(|e| {
            call.call_error(ErrorClass::Transport, format!("the answer broke off: {}", error_chain(&e)))
        })?;
        serde_json::from_slice(&bytes.to_bytes()).map_err(|e| {
            // An incomplete answer is an error of the connection.
            let (class, fault) = match e.is_eof() {
                true => (ErrorClass::Transport, None),
                false => (ErrorClass::Other, Some(ConnectionFault::NotKubernetes)),
            };
            Error { fault, ..call.call_error(class, format!("the answer is not JSON: {e}")) }
        })
    }

    /// Sends a call once and gives the open answer: watches and logs.
    pub(crate) async fn open_stream(&self, call: &ApiCall) -> Result<Response<Body>, Error> {
        self.0.calls.count_call(call.verb, false, false);
        let (client, age) = self.client_and_age();
        let answer = self.send_once(call, &client).await;
        match answer {
            Err(e) if e.class == ErrorClass::Unauthorized && self.reconnect(age).await => {
                self.send_once(call, &self.client()).await
            }
            answer => answer,
        }
    }

    /// Sends a call until it is answered, has been tried often enough, or the deadline of the handle passes.
    pub(crate) async fn call_json_outcome(&self, call: &ApiCall) -> CallOutcome {
        let mut tries = CallAttempts::new();
        let Some(deadline) = &self.1.deadline else { return self.send_repeatedly(call, &mut tries).await };
        if deadline.has_passed() {
            let error = match deadline.last_error() {
                Some(last) => {
                    call.call_error(last.class, format!("no time is left to send it; the last error: {last}"))
                }
                None => call.call_error(ErrorClass::Timeout, "no time is left to send it"),
            };
            let error = Error { is_late: true, ..error };
            return CallOutcome { answer: Err(error), was_ambiguous: false };
        }
        let sent = tokio::time::timeout_at(deadline.instant(), self.send_repeatedly(call, &mut tries)).await;
        sent.unwrap_or_else(|_| {
            let was_ambiguous = tries.was_ambiguous || tries.stage == SendStage::Sent;
            let error = Error { is_late: true, ..tries.out_of_time(call) };
            // A call that is not sent again reports its last error.
            deadline.record_error(Some(&error));
            CallOutcome { answer: Err(error), was_ambiguous }
        })
    }

    async fn send_repeatedly(&self, call: &ApiCall, tries: &mut CallAttempts) -> CallOutcome {
        let retry = self.0.retry;
        let mut has_reconnected = false;
        loop {
            tries.count += 1;
            self.0.calls.count_call(call.verb, call.dry_run, tries.count > 1);
            let (client, age) = self.client_and_age();
            let answer = {
                // A dry run changes nothing.
                let is_write = call.verb.is_write() && !call.dry_run;
                let slots = if is_write { &self.0.writes } else { &self.0.reads };
                tries.stage = SendStage::Queued;
                let _slot = slots.acquire().await;
                if let Some(gate) = self.1.gate.as_ref().filter(|_| is_write) {
                    tries.stage = SendStage::Guarded;
                    if !gate.wait_until_held().await {
                        let error = call.call_error(ErrorClass::Other, "the lock was lost to another run");
                        return CallOutcome { answer: Err(error), was_ambiguous: tries.was_ambiguous };
                    }
                }
                tries.stage = SendStage::Sent;
                match tokio::time::timeout(retry.answer, self.exchange_json(call, &client)).await {
                    Ok(answer) => answer,
                    Err(_) => Err(call.call_error(
                        ErrorClass::Timeout,
                        format!("no answer within {} s", retry.answer.as_secs()),
                    )),
                }
            };
            tries.stage = SendStage::Answered;
            let error = match answer {
                Ok(value) => {
                    if tries.count > 1 {
                        self.record_error(None);
                    }
                    return CallOutcome { answer: Ok(value), was_ambiguous: tries.was_ambiguous };
                }
                Err(error) => error,
            };
            if error.class == ErrorClass::Unauthorized && !has_reconnected {
                has_reconnected = true;
                if self.reconnect(age).await {
                    continue;
                }
            }
            let is_unserved = is_unserved(&error);
            tries.was_ambiguous |= error.is_transient() && !is_unserved;
            let may_repeat = error.is_transient() && (call.repeat == RepeatRule::Always || is_unserved);
            let is_webhook = error.class == ErrorClass::WebhookUnavailable;
            // A plan must not wait for a webhook that this very release may bring.
            let patience = if !is_webhook {
                retry.patience
            } else if call.dry_run || !call.verb.is_write() {
                Duration::ZERO
            } else {
                retry.webhooks
            };
            let pause = match error.retry_after {
                Some(asked) => asked.min(Duration::from_secs(30)).max(retry.pause_after(1)),
                None => retry.pause_after(tries.count),
            };
            let is_late = self.1.deadline.as_ref().is_some_and(|deadline| pause >= deadline.time_left());
            let is_last = (tries.count >= retry.attempts && !is_webhook)
                || tries.started.elapsed() + pause > patience
                || is_late;
            if error.is_transient() {
                self.record_error(Some(&tries.given_up(error.clone())));
            }
            if !may_repeat || is_last {
                let error = Error { is_late: may_repeat && is_late, ..error };
                return CallOutcome {
                    answer: Err(tries.given_up(error)),
                    was_ambiguous: tries.was_ambiguous,
                };
            }
            tries.last = Some(error);
            tokio::time::sleep(pause).await;
        }
    }

    /// Records the last error of requests, for timeouts to report.
    fn record_error(&self, error: Option<&Error>) {
        last_error::record_error(error);
        if let Some(deadline) = &self.1.deadline {
            deadline.record_error(error);
        }
    }

    async fn send_once(&self, call: &ApiCall, client: &kube::Client) -> Result<Response<Body>, Error> {
        let sent = Instant::now();
        let answer = client.send(call.build_request()?).await;
        let (method, path, took) = (&call.method, &call.path, sent.elapsed());
        match &answer {
            Ok(response) => tracing::debug!("{method} {path}: {} in {took:.1?}", response.status().as_u16()),
            Err(_) => tracing::debug!("{method} {path}: no answer after {took:.1?}"),
        }
        let response = answer.map_err(|e| self.with_hint(call, transport_error(call, &e)))?;
        for warning in response.headers().get_all(WARNING) {
            if let Some(text) = warning.to_str().ok().and_then(warning_text) {
                self.record_warning(&text);
            }
        }
        if response.status().is_success() {
            return Ok(response);
        }
        let code = response.status().as_u16();
        let after = retry_after(response.headers());
        let body = match response.into_body().collect().await {
            Ok(body) => body.to_bytes(),
            Err(_) => Bytes::new(),
        };
        let mut error =
            call.with_object(Error::from_status(&call.action, ApiStatus::parse_body(code, &body)));
        error.retry_after = after.or(error.retry_after);
        Err(self.with_hint(call, error))
    }

    /// Says with an error what would have to change for the server to take the request.
    fn with_hint(&self, call: &ApiCall, error: Error) -> Error {
        let hint = match error.class {
            ErrorClass::Unauthorized => self.1.login.as_ref().map(|login| login.refusal_hint()),
            ErrorClass::Forbidden => {
                let told = error.status.as_ref().map_or("", |status| &status.message);
                AccessNeed::find(told, &call.path)
                    .map(|need| need.to_string())
                    .or_else(|| rights::path_hint(told))
            }
            _ => None,
        };
        Error { hint: hint.map(String::into_boxed_str), ..error }
    }
}

/// Returns true if the server surely did not act on the request.
fn is_unserved(error: &Error) -> bool {
    match error.class {
        ErrorClass::Throttled => true,
        ErrorClass::Transport => error.fault == Some(ConnectionFault::Refused),
        _ => false,
    }
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds: u64 = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// The text of `299 - "the text"`.
fn warning_text(header: &str) -> Option<String> {
    let start = header.find('"')?;
    let end = header.rfind('"').filter(|end| *end > start)?;
    Some(header[start + 1..end].replace("\\\"", "\""))
}

fn transport_error(call: &ApiCall, error: &kube::Error) -> Error {
    match error {
        kube::Error::Api(status) => {
            let status = ApiStatus {
                code: status.code,
                reason: status.reason.clone(),
                message: status.message.clone(),
                details: Value::Null,
            };
            call.with_object(Error::from_status(&call.action, status))
        }
        kube::Error::Auth(e) => call.call_error(ErrorClass::Unauthorized, describe_login_error(None, e)),
        kube::Error::HyperError(_) | kube::Error::Service(_) | kube::Error::ReadEvents(_) => {
            if let Some(why) = find_auth_error(error) {
                return call.call_error(ErrorClass::Unauthorized, describe_login_error(None, why));
            }
            let fault = ConnectionFault::find_in(error);
            let class = match fault {
                Some(ConnectionFault::Untrusted) => ErrorClass::Other,
                // A connection that was disturbed looks like a stranger, too.
                Some(ConnectionFault::Refused | ConnectionFault::NotKubernetes) | None => {
                    ErrorClass::Transport
                }
            };
            let why = match fault {
                Some(ConnectionFault::Refused) => "connection refused: nothing listens there".to_owned(),
                Some(ConnectionFault::NotKubernetes) => "it does not speak TLS".to_owned(),
                Some(ConnectionFault::Untrusted) | None => connection_reason(error),
            };
            Error { fault, ..call.call_error(class, why) }
        }
        other => call.call_error(ErrorClass::Other, error_chain(other)),
    }
}

/// Finds a failed login among the causes of an error: a request logs in again when its token expired.
fn find_auth_error<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e kube::client::AuthError> {
    let mut current = Some(error);
    while let Some(error) = current {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        current = error.source();
    }
    None
}

/// The reason that a connection failed, without the layers of libraries above it.
fn connection_reason(error: &(dyn std::error::Error + 'static)) -> String {
    const LAYERS: &[&str] = &["client error (Connect)", "client error (SendRequest)", "tcp connect error"];
    let chain = error_chain(error);
    let mut rest = chain.strip_prefix("ServiceError: ").unwrap_or(&chain);
    while let Some(inner) = LAYERS.iter().find_map(|layer| rest.strip_prefix(layer)?.strip_prefix(": ")) {
        rest = inner;
    }
    rest.to_owned()
}

/// The chain of causes in one line, without repetition.
pub(crate) fn error_chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut current = Some(error);
    while let Some(error) = current {
        let text = error.to_string();
        if !texts.iter().any(|known| known.contains(&text)) {
            texts.push(text);
        }
        current = error.source();
    }
    texts.join(": ")
}

/// A query of a URL; empty values are left out.
pub(crate) struct UrlQuery(String);

impl UrlQuery {
    pub(crate) fn new() -> UrlQuery {
        UrlQuery(String::new())
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> UrlQuery {
        if !value.is_empty() {
            self.0.push(if self.0.is_empty() { '?' } else { '&' });
            self.0.push_str(name);
            self.0.push('=');
            self.0.extend(url::form_urlencoded::byte_serialize(value.as_bytes()));
        }
        self
    }

    /// `path?query`, or the path alone.
    pub(crate) fn append_to(self, path: &str) -> String {
        format!("{path}{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound() {
        let retry = RetryPolicy::default();
        for (attempt, longest) in [(1, 100), (2, 200), (3, 400), (7, 5000), (60, 5000)] {
            let pause = retry.pause_after(attempt).as_millis();
            assert!(pause <= longest && pause >= longest / 2, "{attempt}: {pause}");
        }
    }

    #[test]
    fn warnings_are_read() {
        assert_eq!(warning_text(r#"299 - "v1beta1 is \"old\"""#).as_deref(), Some(r#"v1beta1 is "old""#));
        assert_eq!(warning_text("299"), None);
        assert_eq!(UrlQuery::new().with("a", "b c").with("d", "").append_to("/x"), "/x?a=b+c");
    }
}
