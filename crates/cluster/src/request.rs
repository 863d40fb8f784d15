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

use crate::calls::Verb;
use crate::error::{ConnectionFault, Error, ErrorClass, Status};
use crate::{Cluster, trouble};

const AGENT: &str = concat!("slipway/", env!("CARGO_PKG_VERSION"));

/// How long trouble that may pass is borne.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retry {
    /// How often a request is sent at most.
    pub attempts: u32,
    /// The pause after the first failure; it doubles from there.
    pub first: Duration,
    pub longest: Duration,
    /// After this long no further attempt is made.
    pub patience: Duration,
    /// How long a write waits for an admission or conversion webhook to come up.
    pub webhooks: Duration,
    /// How long one attempt may take.
    pub answer: Duration,
}

impl Default for Retry {
    fn default() -> Retry {
        Retry {
            attempts: 12,
            first: Duration::from_millis(100),
            longest: Duration::from_secs(5),
            patience: Duration::from_secs(60),
            webhooks: Duration::from_secs(240),
            answer: Duration::from_secs(60),
        }
    }
}

impl Retry {
    /// A single attempt.
    pub fn never() -> Retry {
        Retry { attempts: 1, patience: Duration::ZERO, webhooks: Duration::ZERO, ..Retry::default() }
    }

    /// The pause after failure number `attempt`, from 1: doubling, and spread so that many clients do
    /// not come back at the same moment.
    pub(crate) fn pause(&self, attempt: u32) -> Duration {
        let full = self.first.saturating_mul(1 << attempt.saturating_sub(1).min(16)).min(self.longest);
        full.mul_f64(rand::rng().random_range(0.5..1.0))
    }
}

/// When a request may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Doing it twice is doing it once.
    Always,
    /// Only if the server certainly did nothing.
    Unserved,
}

/// One request, ready to be sent any number of times.
pub(crate) struct Call {
    pub(crate) verb: Verb,
    pub(crate) method: Method,
    /// The path with its query.
    pub(crate) path: String,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: Bytes,
    pub(crate) repeat: Repeat,
    pub(crate) dry_run: bool,
    pub(crate) action: String,
    pub(crate) at: Option<ObjectRef>,
}

impl Call {
    pub(crate) fn new(
        verb: Verb,
        method: Method,
        path: impl Into<String>,
        action: impl Into<String>,
    ) -> Call {
        Call {
            verb,
            method,
            path: path.into(),
            headers: Vec::new(),
            body: Bytes::new(),
            repeat: Repeat::Always,
            dry_run: false,
            action: action.into(),
            at: None,
        }
    }

    pub(crate) fn get(verb: Verb, path: impl Into<String>, action: impl Into<String>) -> Call {
        Call::new(verb, Method::GET, path, action)
    }

    pub(crate) fn body(mut self, content_type: &'static str, body: &Value) -> Call {
        self.headers.push((CONTENT_TYPE, HeaderValue::from_static(content_type)));
        self.body = body.to_string().into();
        self
    }

    fn request(&self) -> Result<Request<Body>, Error> {
        let mut request = Request::new(Body::from(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self
            .path
            .parse()
            .map_err(|e| self.error(ErrorClass::Other, format!("the path `{}` is no URL: {e}", self.path)))?;
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        for (name, value) in &self.headers {
            headers.insert(name.clone(), value.clone());
        }
        Ok(request)
    }

    pub(crate) fn error(&self, class: ErrorClass, message: impl Into<String>) -> Error {
        self.place(Error::new(class, &self.action, message))
    }

    fn place(&self, error: Error) -> Error {
        match &self.at {
            Some(at) => error.at(at),
            None => error,
        }
    }
}

/// What came of sending a call, and whether an earlier attempt may have been served unseen.
pub(crate) struct Sent {
    pub(crate) answer: Result<Value, Error>,
    pub(crate) was_ambiguous: bool,
}

/// How far an attempt to send a call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Queued,
    /// Waits until it is known whose the lock is.
    Guarded,
    Sent,
    Answered,
}

/// The attempts at one call.
struct Tries {
    started: Instant,
    count: u32,
    stage: Stage,
    /// Why the call was sent again.
    last: Option<Error>,
    was_ambiguous: bool,
}

impl Tries {
    fn new() -> Tries {
        let started = Instant::now();
        Tries { started, count: 0, stage: Stage::Queued, last: None, was_ambiguous: false }
    }

    /// An error that is not repeated any more, with the status of the answer and how often it was asked for.
    fn given_up(&self, mut error: Error) -> Error {
        let mut notes = Vec::new();
        if let Some(code) =
            error.code().filter(|code| error.is_transient() && !error.message.contains(&code.to_string()))
        {
            notes.push(format!("status {code}"));
        }
        if self.count > 1 {
            notes.push(format!("tried {} times in {}", self.count, seconds(self.started.elapsed())));
        }
        if !notes.is_empty() {
            error.message.push_str(&format!(" ({})", notes.join("; ")));
        }
        error
    }

    /// What to tell when the deadline passed: what the server last answered, or what was waited for.
    fn out_of_time(&mut self, call: &Call) -> Error {
        if let Some(last) = self.last.take() {
            return self.given_up(last);
        }
        let elapsed = seconds(self.started.elapsed());
        call.error(
            ErrorClass::Timeout,
            match self.stage {
                Stage::Queued => format!("waited {elapsed} for its turn"),
                Stage::Guarded => format!("waited {elapsed} to learn whether the lock is still ours"),
                Stage::Sent | Stage::Answered => format!("no answer within {elapsed}"),
            },
        )
    }
}

/// A duration in seconds, with a digit after the point where it matters.
pub(crate) fn seconds(duration: Duration) -> String {
    let tenths = duration.as_millis().div_ceil(100);
    match tenths % 10 {
        0 => format!("{} s", tenths / 10),
        digit => format!("{}.{digit} s", tenths / 10),
    }
}

impl Cluster {
    /// Sends a call and reads its JSON answer.
    pub(crate) async fn json(&self, call: Call) -> Result<Value, Error> {
        self.json_sent(&call).await.answer
    }

    async fn exchange(&self, call: &Call, client: &kube::Client) -> Result<Value, Error> {
        let response = self.attempt(call, client).await?;
        let bytes = response.into_body().collect().await.map_err(|e| {
            call.error(ErrorClass::Transport, format!("the answer broke off: {}", deepest(&e)))
        })?;
        serde_json::from_slice(&bytes.to_bytes()).map_err(|e| {
            // Half an answer is trouble of the connection.
            let class = if e.is_eof() { ErrorClass::Transport } else { ErrorClass::Other };
            call.error(class, format!("the answer is not JSON: {e}"))
        })
    }

    /// Sends a call once and gives the open answer: watches and logs.
    pub(crate) async fn open(&self, call: &Call) -> Result<Response<Body>, Error> {
        self.0.calls.count(call.verb, false, false);
        let (client, age) = self.client_and_age();
        let answer = self.attempt(call, &client).await;
        match answer {
            Err(e) if e.class == ErrorClass::Unauthorized && self.reconnect(age).await => {
                self.attempt(call, &self.client()).await
            }
            answer => answer,
        }
    }

    /// Sends a call until it is answered, has been tried often enough, or the deadline of the handle passes.
    pub(crate) async fn json_sent(&self, call: &Call) -> Sent {
        let mut tries = Tries::new();
        let Some(deadline) = &self.1.deadline else { return self.send_repeatedly(call, &mut tries).await };
        if deadline.has_passed() {
            let error = match deadline.trouble() {
                Some(last) => {
                    call.error(last.class, format!("no time is left to send it; the last error: {last}"))
                }
                None => call.error(ErrorClass::Timeout, "no time is left to send it"),
            };
            let error = Error { is_late: true, ..error };
            return Sent { answer: Err(error), was_ambiguous: false };
        }
        let sent = tokio::time::timeout_at(deadline.instant(), self.send_repeatedly(call, &mut tries)).await;
        sent.unwrap_or_else(|_| {
            let was_ambiguous = tries.was_ambiguous || tries.stage == Stage::Sent;
            let error = Error { is_late: true, ..tries.out_of_time(call) };
            // What is not sent any more can say why.
            deadline.note(Some(&error));
            Sent { answer: Err(error), was_ambiguous }
        })
    }

    async fn send_repeatedly(&self, call: &Call, tries: &mut Tries) -> Sent {
        let retry = self.0.retry;
        let mut has_reconnected = false;
        loop {
            tries.count += 1;
            self.0.calls.count(call.verb, call.dry_run, tries.count > 1);
            let (client, age) = self.client_and_age();
            let answer = {
                // A dry run changes nothing.
                let is_write = call.verb.is_write() && !call.dry_run;
                let slots = if is_write { &self.0.writes } else { &self.0.reads };
                tries.stage = Stage::Queued;
                let _slot = slots.acquire().await;
                if let Some(gate) = self.1.gate.as_ref().filter(|_| is_write) {
                    tries.stage = Stage::Guarded;
                    if !gate.pass().await {
                        let error = call.error(ErrorClass::Other, "the lock was lost to another run");
                        return Sent { answer: Err(error), was_ambiguous: tries.was_ambiguous };
                    }
                }
                tries.stage = Stage::Sent;
                match tokio::time::timeout(retry.answer, self.exchange(call, &client)).await {
                    Ok(answer) => answer,
                    Err(_) => Err(call.error(
                        ErrorClass::Timeout,
                        format!("no answer within {} s", retry.answer.as_secs()),
                    )),
                }
            };
            tries.stage = Stage::Answered;
            let error = match answer {
                Ok(value) => {
                    if tries.count > 1 {
                        self.note(None);
                    }
                    return Sent { answer: Ok(value), was_ambiguous: tries.was_ambiguous };
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
            let may_repeat = error.is_transient() && (call.repeat == Repeat::Always || is_unserved);
            let is_webhook = error.class == ErrorClass::WebhookUnavailable;
            // A plan must not sit waiting for a webhook that this very release may bring.
            let patience = if !is_webhook {
                retry.patience
            } else if call.dry_run || !call.verb.is_write() {
                Duration::ZERO
            } else {
                retry.webhooks
            };
            let pause = match error.retry_after {
                Some(asked) => asked.min(Duration::from_secs(30)).max(retry.pause(1)),
                None => retry.pause(tries.count),
            };
            let is_late = self.1.deadline.as_ref().is_some_and(|deadline| pause >= deadline.left());
            let is_last = (tries.count >= retry.attempts && !is_webhook)
                || tries.started.elapsed() + pause > patience
                || is_late;
            if error.is_transient() {
                self.note(Some(&tries.given_up(error.clone())));
            }
            if !may_repeat || is_last {
                let error = Error { is_late: may_repeat && is_late, ..error };
                return Sent { answer: Err(tries.given_up(error)), was_ambiguous: tries.was_ambiguous };
            }
            tries.last = Some(error);
            tokio::time::sleep(pause).await;
        }
    }

    /// Keeps what requests are up against for whoever runs out of time.
    fn note(&self, error: Option<&Error>) {
        trouble::note(error);
        if let Some(deadline) = &self.1.deadline {
            deadline.note(error);
        }
    }

    async fn attempt(&self, call: &Call, client: &kube::Client) -> Result<Response<Body>, Error> {
        let response = client.send(call.request()?).await.map_err(|e| trouble(call, &e))?;
        for warning in response.headers().get_all(WARNING) {
            if let Some(text) = warning.to_str().ok().and_then(warning_text) {
                self.warn(&text);
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
        let mut error = call.place(Error::from_status(&call.action, Status::read(code, &body)));
        error.retry_after = after.or(error.retry_after);
        Err(error)
    }
}

/// Whether the server surely did not act on the request.
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

fn trouble(call: &Call, error: &kube::Error) -> Error {
    match error {
        kube::Error::Api(status) => {
            let status = Status {
                code: status.code,
                reason: status.reason.clone(),
                message: status.message.clone(),
                details: Value::Null,
            };
            call.place(Error::from_status(&call.action, status))
        }
        kube::Error::Auth(e) => call.error(ErrorClass::Unauthorized, deepest(e)),
        kube::Error::HyperError(_) | kube::Error::Service(_) | kube::Error::ReadEvents(_) => {
            let fault = ConnectionFault::of(error);
            let class = match fault {
                Some(ConnectionFault::Untrusted) => ErrorClass::Other,
                Some(ConnectionFault::Refused) | None => ErrorClass::Transport,
            };
            Error { fault, ..call.error(class, deepest(error)) }
        }
        other => call.error(ErrorClass::Other, deepest(other)),
    }
}

/// The chain of causes in one line, without repetition.
pub(crate) fn deepest(error: &(dyn std::error::Error + 'static)) -> String {
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
pub(crate) struct Query(String);

impl Query {
    pub(crate) fn new() -> Query {
        Query(String::new())
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Query {
        if !value.is_empty() {
            self.0.push(if self.0.is_empty() { '?' } else { '&' });
            self.0.push_str(name);
            self.0.push('=');
            self.0.extend(url::form_urlencoded::byte_serialize(value.as_bytes()));
        }
        self
    }

    /// `path?query`, or the path alone.
    pub(crate) fn on(self, path: &str) -> String {
        format!("{path}{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound() {
        let retry = Retry::default();
        for (attempt, longest) in [(1, 100), (2, 200), (3, 400), (7, 5000), (60, 5000)] {
            let pause = retry.pause(attempt).as_millis();
            assert!(pause <= longest && pause >= longest / 2, "{attempt}: {pause}");
        }
    }

    #[test]
    fn warnings_are_read() {
        assert_eq!(warning_text(r#"299 - "v1beta1 is \"old\"""#).as_deref(), Some(r#"v1beta1 is "old""#));
        assert_eq!(warning_text("299"), None);
        assert_eq!(Query::new().with("a", "b c").with("d", "").on("/x"), "/x?a=b+c");
    }
}
