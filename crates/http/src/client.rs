//! The client: connects, follows redirects it may follow, and waits no longer than it is told to.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::LOCATION;
use reqwest::{Method, Response, StatusCode};
use slipway_event::without_credentials;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use url::{Origin, Url};

use crate::HttpError;
use crate::address::{AddressError, AddressPolicy};
use crate::request::{Authorization, HttpRequest, Login, parse_url, shown_url};

/// Options of a connection.
#[derive(Clone, Debug, Default)]
pub struct ClientOptions {
    /// PEM certificates to trust besides the system's.
    pub ca: Option<Vec<u8>>,
    /// PEM certificate and key to show.
    pub identity: Option<Vec<u8>>,
    pub insecure_skip_tls_verify: bool,
    /// Talk to registries without TLS.
    pub plain_http: bool,
    /// The user agent; Helm's name if empty.
    pub user_agent: String,
    pub redirects: RedirectScope,
    /// The addresses that may be connected to, where somebody else has written the target; any without one.
    pub addresses: Option<AddressPolicy>,
    pub network: NetworkOptions,
}

/// The redirects that are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RedirectScope {
    #[default]
    Anywhere,
    /// None: the answer that redirects is the answer.
    Nowhere,
}

/// The limits of a request, and its cancellation.
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

/// An HTTP client.
#[derive(Clone, Debug)]
pub struct HttpClient {
    inner: reqwest::Client,
    plain_http: bool,
    redirects: RedirectScope,
    addresses: Option<AddressPolicy>,
    network: NetworkOptions,
}

/// The most that is taken in at once: an index of a large repository, or a chart.
const LARGEST_BODY: usize = 256 * 1024 * 1024;
const MOST_REDIRECTS: usize = 10;

impl HttpClient {
    pub fn new(options: &ClientOptions) -> Result<Self, HttpError> {
        let bad = |error: reqwest::Error| HttpError::Invalid(describe_error(&error));
        let agent = if options.user_agent.is_empty() { "Helm/3.17.3" } else { &options.user_agent };
        let mut builder = reqwest::Client::builder()
            .user_agent(agent)
            .connect_timeout(options.network.limits.connect)
            // Followed in `send`, which knows whom credentials and content are for.
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .tls_danger_accept_invalid_certs(options.insecure_skip_tls_verify);
        if let Some(addresses) = &options.addresses {
            builder = builder.dns_resolver(Arc::new(addresses.clone()));
        }
        if let Some(ca) = &options.ca {
            builder = builder.tls_certs_merge(reqwest::Certificate::from_pem_bundle(ca).map_err(bad)?);
        }
        if let Some(identity) = &options.identity {
            builder = builder.identity(reqwest::Identity::from_pem(identity).map_err(bad)?);
        }
        Ok(Self {
            inner: builder.build().map_err(bad)?,
            plain_http: options.plain_http,
            redirects: options.redirects,
            addresses: options.addresses.clone(),
            network: options.network.clone(),
        })
    }

    /// Tells that registries are talked to without TLS.
    pub fn plain_http(&self) -> bool {
        self.plain_http
    }

    /// Fetches a file; the login is for the address's own host. The error is Helm's.
    pub async fn get(&self, url: &str, login: Option<&Login>) -> Result<Vec<u8>, HttpError> {
        self.get_up_to(url, login, LARGEST_BODY).await
    }

    /// Fetches a file of at most so many bytes.
    pub async fn get_up_to(
        &self,
        url: &str,
        login: Option<&Login>,
        most: usize,
    ) -> Result<Vec<u8>, HttpError> {
        let mut request = HttpRequest::new(Method::GET, parse_url(url)?);
        if let Some(login) = login {
            request.authorization = Some(Authorization::from_login(login, request.url.origin())?);
        }
        let answer = self.send_request(request).await?;
        let status = answer.status_code();
        if !status.is_success() {
            return Err(HttpError::Status {
                address: without_credentials(url).into_owned(),
                status: status.as_u16(),
                reason: status.canonical_reason().unwrap_or_default(),
            });
        }
        answer.read_body(most).await
    }

    /// Sends a request and follows redirects.
    pub async fn send_request(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let patience = Patience::new(&request.url, &self.network);
        for _ in 0..=MOST_REDIRECTS {
            if let Some(addresses) = &self.addresses {
                // Connections are judged where names become addresses; a target without a name has to be judged here.
                let judged = self.network.stop.run_until_cancelled(addresses.check_url(&request.url)).await;
                judged.unwrap_or_else(|| Err(HttpError::Interrupted(patience.address.clone())))?;
            }
            let mut headers = request.headers.clone();
            if let Some(authorization) =
                request.authorization.as_ref().filter(|one| one.origin == request.url.origin())
            {
                headers.insert(authorization.name.clone(), authorization.value.clone());
            }
            let mut builder =
                self.inner.request(request.method.clone(), request.url.clone()).headers(headers);
            // While an upload makes its way nothing comes back.
            let wait = if request.content.is_some() { Wait::Upload } else { Wait::Answer };
            if let Some(content) = &request.content {
                builder = builder.body(content.clone());
            }
            let response = patience.wait_for(wait, builder.send()).await?;
            let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            match location {
                Some(location)
                    if is_redirect(response.status()) && self.redirects == RedirectScope::Anywhere =>
                {
                    request.follow_redirect(response.status(), location)?;
                }
                _ => return Ok(HttpResponse { response, origin: request.url.origin(), patience }),
            }
        }
        Err(HttpError::Redirect(format!("{} redirects more than {MOST_REDIRECTS} times", patience.address)))
    }
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// The response of a server; its body is still to be read.
pub struct HttpResponse {
    response: Response,
    /// The address that answered, after redirects.
    pub origin: Origin,
    patience: Patience,
}

impl HttpResponse {
    pub fn status_code(&self) -> StatusCode {
        self.response.status()
    }

    pub fn header_text(&self, name: &reqwest::header::HeaderName) -> Option<&str> {
        self.response.headers().get(name).and_then(|value| value.to_str().ok())
    }

    /// The content, up to a limit.
    pub async fn read_body(mut self, most: usize) -> Result<Vec<u8>, HttpError> {
        let too_large =
            |patience: &Patience| HttpError::TooLarge { address: patience.address.clone(), limit: most };
        if self.response.content_length().is_some_and(|length| length > most as u64) {
            return Err(too_large(&self.patience));
        }
        let mut content = Vec::new();
        loop {
            match self.patience.wait_for(Wait::Answer, self.response.chunk()).await? {
                Some(chunk) if content.len() + chunk.len() <= most => content.extend_from_slice(&chunk),
                Some(_) => return Err(too_large(&self.patience)),
                None => return Ok(content),
            }
        }
    }
}

/// The event a request waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    Upload,
    Answer,
}

/// The time that is left of a request.
struct Patience {
    /// The address being fetched, without credentials.
    address: String,
    end: Instant,
    network: NetworkOptions,
}

impl Patience {
    fn new(url: &Url, network: &NetworkOptions) -> Self {
        let end = Instant::now() + network.limits.total;
        Self { address: shown_url(url), end, network: network.clone() }
    }

    async fn wait_for<T>(
        &self,
        wait: Wait,
        work: impl Future<Output = Result<T, reqwest::Error>>,
    ) -> Result<T, HttpError> {
        let NetworkLimits { connect, idle, total } = self.network.limits;
        let quiet = Instant::now() + idle;
        let end = if wait == Wait::Upload { self.end } else { self.end.min(quiet) };
        let timed = tokio::time::timeout_at(end, work);
        let Some(result) = self.network.stop.run_until_cancelled(timed).await else {
            return Err(HttpError::Interrupted(self.address.clone()));
        };
        let address = || self.address.clone();
        match result {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) if let Some(leads_to) = forbidden_address(&error) => {
                Err(HttpError::ForbiddenAddress { address: address(), leads_to })
            }
            Ok(Err(error)) if error.is_connect() && error.is_timeout() => {
                Err(HttpError::ConnectTimeout { address: address(), limit: connect })
            }
            Ok(Err(error)) => Err(HttpError::Transport(describe_error(&error))),
            Err(_) if end == self.end => Err(HttpError::TotalTimeout { address: address(), limit: total }),
            Err(_) => Err(HttpError::IdleTimeout { address: address(), limit: idle }),
        }
    }
}

/// The address that was looked up and may not be connected to.
fn forbidden_address(error: &reqwest::Error) -> Option<IpAddr> {
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        if let Some(AddressError::Forbidden { address, .. }) = inner.downcast_ref() {
            return Some(*address);
        }
        cause = inner.source();
    }
    None
}

/// The error with its causes, without credentials.
fn describe_error(error: &reqwest::Error) -> String {
    let mut text = match error.url() {
        Some(url) if error.is_connect() => format!("cannot reach {url}"),
        _ => error.to_string(),
    };
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        let said = inner.to_string();
        // Layers of libraries above the reason.
        if !matches!(said.as_str(), "client error (Connect)" | "tcp connect error") {
            text.push_str(&format!(": {said}"));
        }
        cause = inner.source();
    }
    without_credentials(&text).into_owned()
}
