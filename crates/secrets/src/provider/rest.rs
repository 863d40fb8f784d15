//! JSON over HTTP with repetitions: what all network providers share.

use std::time::Duration;

use secrecy::{ExposeSecret, SecretSlice};
use serde_json::Value;
use slipway_http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use slipway_http::{
    ClientOptions, HeaderValue, HttpClient, HttpError, HttpRequest, HttpResponse, Method, NetworkLimits,
    NetworkOptions, StatusCode,
};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::{ErrorCode, ProviderError};
use crate::config::ResolveLimits;

/// The most that is taken in at once.
const LARGEST_ANSWER: usize = 8 * 1024 * 1024;
const LONGEST_PAUSE: Duration = Duration::from_secs(20);

/// The time one request may take that gives back what a run was lent.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends requests of one provider.
#[derive(Clone, Debug)]
pub(crate) struct RestClient {
    client: HttpClient,
    limits: ResolveLimits,
    stop: CancellationToken,
    tls: TlsOptions,
}

/// Settings of connections beyond the common ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsOptions {
    pub(crate) ca: Option<Vec<u8>>,
    pub(crate) skip_verify: bool,
}

/// An answer that was read whole. Its body may hold secrets and is never repeated in messages.
pub(crate) struct RestAnswer {
    pub(crate) status: StatusCode,
    pub(crate) challenge: Option<String>,
    body: SecretSlice<u8>,
    retry_after: Option<Duration>,
}

impl RestAnswer {
    /// The body as JSON; null if it is none.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(self.body.expose_secret()).unwrap_or_default()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(self.body.expose_secret()).into_owned()
    }
}

impl RestClient {
    pub(crate) fn new(
        limits: ResolveLimits,
        network: &NetworkOptions,
        tls: TlsOptions,
    ) -> Result<Self, ProviderError> {
        let network = NetworkOptions {
            limits: NetworkLimits { connect: limits.timeout, idle: limits.timeout, total: limits.timeout },
            stop: network.stop.clone(),
        };
        let stop = network.stop.clone();
        let options = ClientOptions {
            ca: tls.ca.clone(),
            insecure_skip_tls_verify: tls.skip_verify,
            user_agent: concat!("slipway/", env!("CARGO_PKG_VERSION")).to_owned(),
            network,
            ..ClientOptions::default()
        };
        let client = HttpClient::new(&options)
            .map_err(|error| ProviderError::new(ErrorCode::Config, error.to_string()))?;
        Ok(Self { client, limits, stop, tls })
    }

    /// A client for giving back what a run was lent: it works after the user ended the run, with one short attempt.
    pub(crate) fn for_cleanup(&self) -> Result<Self, ProviderError> {
        let limits =
            ResolveLimits { timeout: self.limits.timeout.min(CLEANUP_TIMEOUT), retries: 0, ..self.limits };
        Self::new(limits, &NetworkOptions::default(), self.tls.clone())
    }

    /// The same client without repetitions.
    pub(crate) fn single_attempt(&self) -> Self {
        Self { limits: ResolveLimits { retries: 0, ..self.limits }, ..self.clone() }
    }

    /// Sends a request, again while the backend is busy or out of reach.
    pub(crate) async fn send(&self, request: &HttpRequest) -> Result<RestAnswer, ProviderError> {
        self.send_unless(request, |_| false).await
    }

    /// Sends a request, again also for answers that `is_busy` recognises.
    pub(crate) async fn send_unless(
        &self,
        request: &HttpRequest,
        is_busy: impl Fn(&RestAnswer) -> bool,
    ) -> Result<RestAnswer, ProviderError> {
        let mut pause = self.limits.backoff;
        for attempt in 0.. {
            let is_last = attempt >= self.limits.retries;
            let wait = match self.send_once(request).await {
                Ok(answer) if is_last || !(is_repeatable(answer.status) || is_busy(&answer)) => {
                    return Ok(answer);
                }
                Ok(answer) => answer.retry_after.unwrap_or(pause),
                Err(error) if is_last || !is_transient(&error) => return Err(unreachable(&error)),
                Err(_) => pause,
            };
            // Jitter keeps many runs from coming back at the same moment.
            let jitter = rand::random_range(0.75..1.25);
            let pausing = tokio::time::sleep(wait.min(LONGEST_PAUSE).mul_f64(jitter));
            if self.stop.run_until_cancelled(pausing).await.is_none() {
                return Err(ProviderError::new(ErrorCode::Interrupted, "stopped"));
            }
            pause *= 2;
        }
        Err(ProviderError::new(ErrorCode::Unavailable, "no attempt was made"))
    }

    async fn send_once(&self, request: &HttpRequest) -> Result<RestAnswer, HttpError> {
        let answer = self.client.send_request(request.clone()).await?;
        let header = |answer: &HttpResponse, name| answer.header_text(name).map(str::to_owned);
        let retry_after =
            header(&answer, &RETRY_AFTER).and_then(|text| text.parse().ok()).map(Duration::from_secs);
        let challenge = header(&answer, &WWW_AUTHENTICATE);
        let status = answer.status_code();
        let body = answer.read_body(LARGEST_ANSWER).await?;
        Ok(RestAnswer { status, challenge, body: body.into(), retry_after })
    }
}

fn is_repeatable(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 473 | 500 | 502 | 504)
}

fn is_transient(error: &HttpError) -> bool {
    error.is_timeout() || matches!(error, HttpError::Transport(_))
}

fn unreachable(error: &HttpError) -> ProviderError {
    if matches!(error, HttpError::Interrupted(_)) {
        return ProviderError::new(ErrorCode::Interrupted, "stopped");
    }
    let code = if error.is_timeout() { ErrorCode::Timeout } else { ErrorCode::Unavailable };
    ProviderError::new(code, error.to_string())
        .hint("is the backend reachable from here? look at its address and at proxies")
}

/// The error for an answer nobody expected.
pub(crate) fn unexpected(answer: &RestAnswer, doing: &str) -> ProviderError {
    let (code, hint) = match answer.status.as_u16() {
        401 => (ErrorCode::Unauthenticated, "log in again: the credentials are wrong or have expired"),
        403 => (ErrorCode::Forbidden, "ask for the right to read it"),
        404 => (ErrorCode::NotFound, "look at the path and at the provider's address"),
        429 => (
            ErrorCode::RateLimited,
            "the backend is busy: try again later, or lower `secrets.limits.concurrency`",
        ),
        400..=499 => (
            ErrorCode::Invalid,
            "the backend does not understand the request: look at the provider's settings",
        ),
        _ => (ErrorCode::Unavailable, "the backend is in trouble: try again later"),
    };
    ProviderError::new(code, format!("{doing}: HTTP {}", answer.status.as_u16())).hint(hint)
}

/// A request with a JSON body.
pub(crate) fn json_request(method: Method, url: Url, body: &Value) -> HttpRequest {
    let mut request = HttpRequest::new(method, url);
    request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    request.content = Some(body.to_string().into_bytes());
    request
}

/// A POST of a form.
pub(crate) fn form_request(url: Url, pairs: &[(&str, &str)]) -> HttpRequest {
    let form = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    let mut request = HttpRequest::new(Method::POST, url);
    request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
    request.content = Some(form.into_bytes());
    request
}

/// An address below another, its segments encoded.
pub(crate) fn join(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(path.split('/').filter(|segment| !segment.is_empty()));
    }
    url
}
