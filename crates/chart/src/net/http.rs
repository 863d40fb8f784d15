//! The one HTTP client of repositories, registries, values files and schemas. Every request has a limit on
//! its size and its time, and credentials go to the host they are for.

use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use reqwest::{Method, Response, StatusCode};
use slipway_event::without_credentials;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use url::{Origin, Url};

use super::credentials::Login;
use crate::error::Error;

/// How to connect.
#[derive(Clone, Debug, Default)]
pub struct ClientOptions {
    /// PEM certificates to trust besides the system's.
    pub ca: Option<Vec<u8>>,
    /// PEM certificate and key to show.
    pub identity: Option<Vec<u8>>,
    pub insecure_skip_tls_verify: bool,
    /// Talk to registries without TLS.
    pub plain_http: bool,
    /// What it calls itself; Helm's name if empty.
    pub user_agent: String,
    pub network: NetworkOptions,
}

/// The patience a request is met with, and who may end it early.
#[derive(Clone, Debug, Default)]
pub struct NetworkOptions {
    pub limits: NetworkLimits,
    /// Ends every request once it is cancelled.
    pub stop: CancellationToken,
}

/// Time limits of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkLimits {
    /// Until a connection stands, encryption included.
    pub connect: Duration,
    /// Without a byte from the server.
    pub idle: Duration,
    /// From the first byte sent to the last byte received, redirects included.
    pub total: Duration,
}

impl Default for NetworkLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(30),
            idle: Duration::from_secs(60),
            total: Duration::from_secs(15 * 60),
        }
    }
}

/// A client.
#[derive(Clone, Debug)]
pub struct Client {
    inner: reqwest::Client,
    pub(super) plain_http: bool,
    network: NetworkOptions,
}

/// An `Authorization` header and the only origin it is sent to.
#[derive(Clone, Debug)]
pub(super) struct Authorization {
    value: HeaderValue,
    origin: Origin,
}

impl Authorization {
    pub(super) fn basic(login: &Login, origin: Origin) -> Result<Self, Error> {
        use base64::Engine as _;
        let pair = format!("{}:{}", login.username, login.password);
        Self::of(&format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair)), origin)
    }

    pub(super) fn bearer(token: &str, origin: Origin) -> Result<Self, Error> {
        Self::of(&format!("Bearer {token}"), origin)
    }

    fn of(text: &str, origin: Origin) -> Result<Self, Error> {
        let mut value = HeaderValue::from_str(text)
            .map_err(|_| Error::Publish("a header has characters it cannot have".into()))?;
        value.set_sensitive(true);
        Ok(Self { value, origin })
    }
}

/// Something to send.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) authorization: Option<Authorization>,
    pub(super) content: Option<Vec<u8>>,
}

impl Request {
    pub(super) fn new(method: Method, url: Url) -> Self {
        Self { method, url, headers: HeaderMap::new(), authorization: None, content: None }
    }

    /// Goes where an answer points to, if that is allowed.
    fn redirect(&mut self, status: StatusCode, location: &str) -> Result<(), Error> {
        let from = shown(&self.url);
        let refused = |why: String| Error::Publish(format!("{from} redirects {why}"));
        let mut target =
            self.url.join(location).map_err(|error| refused(format!("to no address: {error}")))?;
        if !matches!(target.scheme(), "http" | "https") {
            return Err(refused(format!("to {}, which is not HTTP", shown(&target))));
        }
        let same = target.origin() == self.url.origin();
        if same && target.username().is_empty() && target.password().is_none() {
            let _ = target.set_username(self.url.username());
            let _ = target.set_password(self.url.password());
        }
        if matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT) {
            if self.content.is_some() && !same {
                return Err(refused(format!("what is sent to another host, {}", shown(&target))));
            }
        } else if self.method != Method::HEAD {
            self.method = Method::GET;
            self.content = None;
            self.headers.remove(CONTENT_TYPE);
            self.headers.remove(CONTENT_LENGTH);
        }
        self.url = target;
        Ok(())
    }
}

/// The most that is taken in at once: an index of a large repository, or a chart.
const LARGEST_BODY: usize = 256 * 1024 * 1024;
const MOST_REDIRECTS: usize = 10;

impl Client {
    pub fn new(options: &ClientOptions) -> Result<Self, Error> {
        let bad = |error: reqwest::Error| Error::Publish(describe(&error));
        let agent = if options.user_agent.is_empty() { "Helm/3.17.3" } else { &options.user_agent };
        let mut builder = reqwest::Client::builder()
            .user_agent(agent)
            .connect_timeout(options.network.limits.connect)
            // Followed in `send`, which knows whom credentials and content are for.
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .tls_danger_accept_invalid_certs(options.insecure_skip_tls_verify);
        if let Some(ca) = &options.ca {
            builder = builder.tls_certs_merge(reqwest::Certificate::from_pem_bundle(ca).map_err(bad)?);
        }
        if let Some(identity) = &options.identity {
            builder = builder.identity(reqwest::Identity::from_pem(identity).map_err(bad)?);
        }
        Ok(Self {
            inner: builder.build().map_err(bad)?,
            plain_http: options.plain_http,
            network: options.network.clone(),
        })
    }

    /// Fetches a file; the login is for the address's own host. The error is Helm's.
    pub async fn get(&self, url: &str, login: Option<&Login>) -> Result<Vec<u8>, Error> {
        self.get_up_to(url, login, LARGEST_BODY).await
    }

    /// Fetches a file of at most so many bytes.
    pub async fn get_up_to(&self, url: &str, login: Option<&Login>, most: usize) -> Result<Vec<u8>, Error> {
        let mut request = Request::new(Method::GET, parse(url)?);
        if let Some(login) = login {
            request.authorization = Some(Authorization::basic(login, request.url.origin())?);
        }
        let answer = self.send(request).await?;
        let status = answer.status();
        if !status.is_success() {
            return Err(Error::Publish(format!(
                "failed to fetch {} : {} {}",
                without_credentials(url),
                status.as_u16(),
                status.canonical_reason().unwrap_or_default()
            )));
        }
        answer.body(most).await
    }

    /// Sends a request and follows redirects.
    pub(super) async fn send(&self, mut request: Request) -> Result<Answer, Error> {
        let patience = Patience::new(&request.url, &self.network);
        for _ in 0..=MOST_REDIRECTS {
            let mut headers = request.headers.clone();
            if let Some(authorization) =
                request.authorization.as_ref().filter(|one| one.origin == request.url.origin())
            {
                headers.insert(AUTHORIZATION, authorization.value.clone());
            }
            let mut builder =
                self.inner.request(request.method.clone(), request.url.clone()).headers(headers);
            // While an upload makes its way nothing comes back.
            let wait = if request.content.is_some() { Wait::Upload } else { Wait::Answer };
            if let Some(content) = &request.content {
                builder = builder.body(content.clone());
            }
            let response = patience.wait(wait, builder.send()).await?;
            let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            match location {
                Some(location) if is_redirect(response.status()) => {
                    request.redirect(response.status(), location)?;
                }
                _ => return Ok(Answer { response, origin: request.url.origin(), patience }),
            }
        }
        Err(Error::Publish(format!("{} redirects more than {MOST_REDIRECTS} times", patience.address)))
    }
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

pub(super) fn parse(url: &str) -> Result<Url, Error> {
    let address = without_credentials(url);
    let url = Url::parse(url).map_err(|error| Error::Publish(format!("{address}: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Error::Publish(format!(
            "{address}: could not find protocol handler for: {}",
            url.scheme()
        )));
    }
    Ok(url)
}

/// An address without its credentials.
pub(super) fn shown(url: &Url) -> String {
    without_credentials(url.as_str()).into_owned()
}

/// What a server answered; its content is still to come.
pub(super) struct Answer {
    response: Response,
    /// Who answered, after redirects.
    pub(super) origin: Origin,
    patience: Patience,
}

impl Answer {
    pub(super) fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub(super) fn header(&self, name: &reqwest::header::HeaderName) -> Option<&str> {
        self.response.headers().get(name).and_then(|value| value.to_str().ok())
    }

    /// The content, up to a limit.
    pub(super) async fn body(mut self, most: usize) -> Result<Vec<u8>, Error> {
        let too_large =
            |patience: &Patience| Error::Publish(format!("{} is larger than {most} bytes", patience.address));
        if self.response.content_length().is_some_and(|length| length > most as u64) {
            return Err(too_large(&self.patience));
        }
        let mut content = Vec::new();
        loop {
            match self.patience.wait(Wait::Answer, self.response.chunk()).await? {
                Some(chunk) if content.len() + chunk.len() <= most => content.extend_from_slice(&chunk),
                Some(_) => return Err(too_large(&self.patience)),
                None => return Ok(content),
            }
        }
    }
}

/// The reason somebody waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    Upload,
    Answer,
}

/// The time that is left of a request.
struct Patience {
    /// What is fetched, fit to be shown.
    address: String,
    end: Instant,
    network: NetworkOptions,
}

impl Patience {
    fn new(url: &Url, network: &NetworkOptions) -> Self {
        let end = Instant::now() + network.limits.total;
        Self { address: shown(url), end, network: network.clone() }
    }

    async fn wait<T>(
        &self,
        wait: Wait,
        work: impl Future<Output = Result<T, reqwest::Error>>,
    ) -> Result<T, Error> {
        let NetworkLimits { connect, idle, total } = self.network.limits;
        let quiet = Instant::now() + idle;
        let end = if wait == Wait::Upload { self.end } else { self.end.min(quiet) };
        let timed = tokio::time::timeout_at(end, work);
        let Some(result) = self.network.stop.run_until_cancelled(timed).await else {
            return Err(Error::Interrupted(self.address.clone()));
        };
        let late = |what: String| Error::Publish(format!("failed to fetch {}: {what}", self.address));
        match result {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) if error.is_connect() && error.is_timeout() => {
                Err(late(format!("no connection within {connect:?} (connect limit)")))
            }
            Ok(Err(error)) => Err(Error::Publish(describe(&error))),
            Err(_) if end == self.end => Err(late(format!("not complete within {total:?} (total limit)"))),
            Err(_) => Err(late(format!("the server sent nothing for {idle:?} (idle limit)"))),
        }
    }
}

/// The error with its causes, without credentials.
fn describe(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    without_credentials(&text).into_owned()
}
