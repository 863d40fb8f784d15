//! JSON requests to one server: limits, breaker, conditional requests, pages.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indexmap::IndexMap;
use jiff::Timestamp;
use secrecy::ExposeSecret as _;
use serde::de::DeserializeOwned;
use serde_json::Value;
use slipway_event::{Clock, Redactor};
use slipway_http::header::{ACCEPT, CONTENT_TYPE, ETAG, IF_NONE_MATCH, LINK, RETRY_AFTER};
use slipway_http::{
    Authorization, HeaderName, HeaderValue, HttpClient, HttpError, HttpRequest, HttpResponse, Login, Method,
};
use url::Url;

use crate::app_token::AppTokens;
use crate::breaker::{Breaker, Halt, HostReport, RequestCount};
use crate::credential::{ScmCredential, token_header};
use crate::error::ScmError;
use crate::remote::ProviderKind;

/// The most that is taken in at once.
const LARGEST_ANSWER: usize = 16 << 20;
/// The most pages of one list.
const MOST_PAGES: usize = 100;
/// Answers that are kept for conditional requests, and the largest of them.
const MOST_KEPT: usize = 1_000;
const LARGEST_KEPT: usize = 256 << 10;

/// What all clients of one server with the same credentials share.
pub(crate) struct HostState {
    host: String,
    breaker: Mutex<Breaker>,
    kept: Mutex<IndexMap<String, KeptAnswer>>,
    /// Requests by what they did and the status of the answer; 0 where there was none.
    requests: Mutex<BTreeMap<(String, u16), u64>>,
}

struct KeptAnswer {
    tag: String,
    body: Vec<u8>,
    next: Option<Url>,
}

/// A client of one server.
#[derive(Clone)]
pub(crate) struct ApiClient {
    pub(crate) http: HttpClient,
    pub(crate) root: Url,
    pub(crate) kind: ProviderKind,
    pub(crate) credential: ScmCredential,
    pub(crate) app_tokens: Option<Arc<AppTokens>>,
    pub(crate) state: Arc<HostState>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) redactor: Redactor,
    /// The pause between two looks at something that is not there yet.
    pub(crate) settle_pause: Duration,
}

/// An answer that is no failure.
pub(crate) struct ApiAnswer {
    pub(crate) body: Vec<u8>,
    pub(crate) next: Option<Url>,
    pub(crate) scopes: Option<String>,
}

impl HostState {
    pub(crate) fn new(host: String) -> Self {
        Self { host, breaker: Mutex::new(Breaker::new()), kept: Mutex::default(), requests: Mutex::default() }
    }

    pub(crate) fn report(&self, now: Timestamp) -> HostReport {
        let breaker = self.breaker();
        HostReport {
            host: self.host.clone(),
            breaker: breaker.state(now),
            limited_until: breaker.limited_until.filter(|until| now < *until),
            remaining: breaker.remaining,
            requests: self.request_counts(),
        }
    }

    fn request_counts(&self) -> Vec<RequestCount> {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let count = |((action, status), count): (&(String, u16), &u64)| RequestCount {
            action: action.clone(),
            status: *status,
            count: *count,
        };
        requests.iter().map(count).collect()
    }

    fn count_request(&self, doing: &str, status: u16) {
        // Numbers of pull requests are no part of what a request does.
        let words = doing.split(' ').filter(|word| !word.contains(|c: char| c.is_ascii_digit()));
        let action = words.collect::<Vec<_>>().join(" ");
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry((action, status)).or_insert(0) += 1;
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kept(&self) -> MutexGuard<'_, IndexMap<String, KeptAnswer>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives a probe back if its request is dropped half-way.
struct Admission<'s> {
    state: &'s HostState,
    is_settled: bool,
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        if !self.is_settled {
            self.state.breaker().abandoned();
        }
    }
}

impl ApiClient {
    /// An address below the root: each segment is encoded, so that none can change the path.
    pub(crate) fn url(&self, segments: &[&str], query: &[(&str, &str)]) -> Url {
        let mut url = self.root.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }

    /// Reads one thing.
    pub(crate) async fn get<T: DeserializeOwned>(&self, url: Url, doing: &str) -> Result<T, ScmError> {
        let answer = self.send(Method::GET, url, None, doing).await?;
        read(&answer.body, doing)
    }

    /// Sends a change and reads the answer.
    pub(crate) async fn change<T: DeserializeOwned>(
        &self,
        method: Method,
        url: Url,
        body: &Value,
        doing: &str,
    ) -> Result<T, ScmError> {
        let answer = self.send(method, url, Some(body), doing).await?;
        read(&answer.body, doing)
    }

    /// Sends a change whose answer says nothing of interest.
    pub(crate) async fn command(
        &self,
        method: Method,
        url: Url,
        body: Option<&Value>,
        doing: &str,
    ) -> Result<(), ScmError> {
        self.send(method, url, body, doing).await.map(drop)
    }

    /// Reads every page of a list that `Link` headers hold together.
    pub(crate) async fn list<T: DeserializeOwned>(&self, url: Url, doing: &str) -> Result<Vec<T>, ScmError> {
        let mut all = Vec::new();
        let mut next = Some(url);
        for _ in 0..MOST_PAGES {
            let Some(url) = next else { break };
            let answer = self.send(Method::GET, url, None, doing).await?;
            all.extend(read::<Vec<T>>(&answer.body, doing)?);
            next = answer.next;
        }
        Ok(all)
    }

    /// Reads one thing that may need a moment to be there.
    pub(crate) async fn get_settled<T: DeserializeOwned>(
        &self,
        url: Url,
        doing: &str,
    ) -> Result<T, ScmError> {
        for _ in 0..12 {
            match self.get(url.clone(), doing).await {
                Err(ScmError::NotFound { .. }) => tokio::time::sleep(self.settle_pause).await,
                result => return result,
            }
        }
        self.get(url, doing).await
    }

    /// Sends one request, if the server is fit to be asked.
    pub(crate) async fn send(
        &self,
        method: Method,
        url: Url,
        body: Option<&Value>,
        doing: &str,
    ) -> Result<ApiAnswer, ScmError> {
        let key = (method == Method::GET).then(|| url.to_string());
        let mut request = HttpRequest::new(method, url);
        request.authorization = Some(self.authorization(request.url.origin()).await?);
        let accepted = match self.kind {
            ProviderKind::GitHub => "application/vnd.github+json",
            _ => "application/json",
        };
        request.headers.insert(ACCEPT, HeaderValue::from_static(accepted));
        if self.kind == ProviderKind::GitHub {
            let version = HeaderValue::from_static("2022-11-28");
            request.headers.insert(HeaderName::from_static("x-github-api-version"), version);
        }
        if let Some(body) = body {
            request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            request.content = Some(body.to_string().into_bytes());
        }
        if let Some(kept) = key.as_ref().and_then(|key| self.kept_tag(key)) {
            request.headers.insert(IF_NONE_MATCH, kept);
        }
        self.exchange(request, key, doing).await
    }

    async fn exchange(
        &self,
        request: HttpRequest,
        key: Option<String>,
        doing: &str,
    ) -> Result<ApiAnswer, ScmError> {
        let host = || self.state.host.clone();
        self.state.breaker().admit(self.clock.now()).map_err(|halt| match halt {
            Halt::Open(until) => ScmError::CircuitOpen { host: host(), until },
            Halt::Limited(until) => ScmError::RateLimited { host: host(), until },
        })?;
        let mut admission = Admission { state: &self.state, is_settled: false };
        let doing = doing.to_owned();
        let sent = async {
            let answer = self.http.send_request(request).await?;
            let head = AnswerHead::read(&answer, self.clock.now());
            Ok::<_, HttpError>((head, answer.read_body(LARGEST_ANSWER).await?))
        };
        let outcome = sent.await;
        self.state.count_request(&doing, outcome.as_ref().map_or(0, |(head, _)| head.status));
        let now = self.clock.now();
        let mut breaker = self.state.breaker();
        let (head, body) = match outcome {
            Ok(answered) => answered,
            Err(HttpError::Interrupted(address)) => {
                drop(breaker);
                return Err(ScmError::Unreachable { doing, source: HttpError::Interrupted(address) });
            }
            Err(source) => {
                admission.is_settled = true;
                breaker.failed(now, None);
                return Err(ScmError::Unreachable { doing, source });
            }
        };
        admission.is_settled = true;
        breaker.remaining = head.remaining.or(breaker.remaining);
        if let Some(until) = head.limited_until {
            breaker.succeeded();
            breaker.limited_until = Some(until);
            return Err(ScmError::RateLimited { host: host(), until });
        }
        if head.status >= 500 {
            breaker.failed(now, head.retry_at);
            return Err(ScmError::Unavailable { doing, status: head.status, retry_at: head.retry_at });
        }
        breaker.succeeded();
        drop(breaker);
        self.settle(head, body, key, doing)
    }

    /// Sorts an answer of a server that is well.
    fn settle(
        &self,
        head: AnswerHead,
        body: Vec<u8>,
        key: Option<String>,
        doing: String,
    ) -> Result<ApiAnswer, ScmError> {
        match head.status {
            200..=299 => {
                if let (Some(key), Some(tag)) = (key, head.tag)
                    && body.len() <= LARGEST_KEPT
                {
                    let mut kept = self.state.kept();
                    kept.shift_remove(&key);
                    if kept.len() >= MOST_KEPT {
                        kept.shift_remove_index(0);
                    }
                    kept.insert(key, KeptAnswer { tag, body: body.clone(), next: head.next.clone() });
                }
                Ok(ApiAnswer { body, next: head.next, scopes: head.scopes })
            }
            304 => {
                let kept = self.state.kept();
                let kept = key.as_ref().and_then(|key| kept.get(key));
                let kept = kept.ok_or(ScmError::Unreadable { doing })?;
                Ok(ApiAnswer { body: kept.body.clone(), next: kept.next.clone(), scopes: head.scopes })
            }
            status @ (401 | 403) => Err(ScmError::Denied { doing, status, reason: self.reason(&body) }),
            404 => Err(ScmError::NotFound { doing }),
            status => Err(ScmError::Refused { doing, status, reason: self.reason(&body) }),
        }
    }

    fn kept_tag(&self, key: &str) -> Option<HeaderValue> {
        HeaderValue::from_str(&self.state.kept().get(key)?.tag).ok()
    }

    async fn authorization(&self, origin: url::Origin) -> Result<Authorization, ScmError> {
        let unusable = |error: HttpError| ScmError::Credential { reason: error.to_string() };
        match &self.credential {
            ScmCredential::Token(token) => {
                token_header(self.kind, token.expose_secret(), origin).map_err(unusable)
            }
            ScmCredential::Login { user, password } => {
                let login = Login { username: user.clone(), password: password.expose_secret().to_owned() };
                Authorization::from_login(&login, origin).map_err(unusable)
            }
            ScmCredential::App(_) => {
                let missing = || ScmError::Credential { reason: "a GitHub App needs GitHub".to_owned() };
                let tokens = self.app_tokens.as_ref().ok_or_else(missing)?;
                let token = tokens.token(self).await?;
                Authorization::from_token(token.expose_secret(), origin).map_err(unusable)
            }
        }
    }

    /// What a server says of a refusal, without credentials and not at length.
    fn reason(&self, body: &[u8]) -> String {
        let json: Value = serde_json::from_slice(body).unwrap_or_default();
        let told = ["/message", "/error/message", "/error", "/errors/0/message"]
            .iter()
            .find_map(|place| json.pointer(place)?.as_str().map(str::to_owned))
            .or_else(|| Some(json.get("message")?.to_string()))
            .unwrap_or_else(|| "no reason given".to_owned());
        let told: String = told.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect();
        self.redactor.redact(&slipway_event::without_credentials(&told)).into_owned()
    }
}

/// Reads JSON into a type.
pub(crate) fn read<T: DeserializeOwned>(body: &[u8], doing: &str) -> Result<T, ScmError> {
    // An answer without content is null.
    let body = if body.iter().all(u8::is_ascii_whitespace) { b"null" } else { body };
    serde_json::from_slice(body).map_err(|_| ScmError::Unreadable { doing: doing.to_owned() })
}

/// What the headers of an answer say.
struct AnswerHead {
    status: u16,
    tag: Option<String>,
    next: Option<Url>,
    scopes: Option<String>,
    remaining: Option<u64>,
    retry_at: Option<Timestamp>,
    /// The end of a limit, if that is why the request was refused.
    limited_until: Option<Timestamp>,
}

impl AnswerHead {
    fn read(answer: &HttpResponse, now: Timestamp) -> Self {
        let text = |name: HeaderName| answer.header_text(&name).map(str::trim);
        let number = |name: &'static str| {
            text(HeaderName::from_static(name)).and_then(|text| text.parse::<i64>().ok())
        };
        let after =
            |seconds: i64| now.checked_add(jiff::SignedDuration::from_secs(seconds.clamp(1, 86_400))).ok();
        let status = answer.status_code().as_u16();
        let remaining = number("x-ratelimit-remaining").or_else(|| number("ratelimit-remaining"));
        let retry_at = text(RETRY_AFTER).and_then(|text| match text.parse::<i64>() {
            Ok(seconds) => after(seconds),
            Err(_) => jiff::fmt::rfc2822::parse(text).ok().map(|date| date.timestamp()),
        });
        let reset = number("x-ratelimit-reset").or_else(|| number("ratelimit-reset"));
        let reset =
            reset.and_then(|seconds| Timestamp::from_second(seconds).ok()).filter(|reset| *reset > now);
        let is_limited = status == 429 || (status == 403 && (retry_at.is_some() || remaining == Some(0)));
        let limited_until = is_limited.then(|| retry_at.or(reset).or_else(|| after(60)).unwrap_or(now));
        Self {
            status,
            tag: text(ETAG).map(str::to_owned),
            next: text(LINK).and_then(next_page).filter(|next| next.origin() == answer.origin),
            scopes: text(HeaderName::from_static("x-oauth-scopes")).map(str::to_owned),
            remaining: remaining.and_then(|count| u64::try_from(count).ok()),
            retry_at,
            limited_until,
        }
    }
}

/// The next page in a `Link` header.
fn next_page(header: &str) -> Option<Url> {
    let link = header.split(',').find(|link| link.contains("rel=\"next\""))?;
    let address = link.trim().strip_prefix('<')?.split_once('>')?.0;
    Url::parse(address).ok()
}
