//! One HTTP client for repositories and registries, with limits on what it takes in.

use reqwest::header::{AUTHORIZATION, HeaderMap};
use reqwest::{Method, Response};

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
}

/// A client.
#[derive(Clone, Debug)]
pub struct Client {
    inner: reqwest::Client,
    pub(super) plain_http: bool,
}

/// The most that is taken in at once: an index of a large repository, or a chart.
const LARGEST_BODY: usize = 256 * 1024 * 1024;

impl Client {
    pub fn new(options: &ClientOptions) -> Result<Self, Error> {
        let bad = |error: reqwest::Error| Error::Publish(describe(&error));
        let agent = if options.user_agent.is_empty() { "Helm/3.17.3" } else { &options.user_agent };
        let mut builder = reqwest::Client::builder()
            .user_agent(agent)
            .connect_timeout(std::time::Duration::from_secs(30))
            .tls_danger_accept_invalid_certs(options.insecure_skip_tls_verify);
        if let Some(ca) = &options.ca {
            builder = builder.tls_certs_merge(reqwest::Certificate::from_pem_bundle(ca).map_err(bad)?);
        }
        if let Some(identity) = &options.identity {
            builder = builder.identity(reqwest::Identity::from_pem(identity).map_err(bad)?);
        }
        Ok(Self { inner: builder.build().map_err(bad)?, plain_http: options.plain_http })
    }

    /// Fetches a file; the error is Helm's.
    pub async fn get(&self, url: &str, login: Option<&Login>) -> Result<Vec<u8>, Error> {
        self.get_up_to(url, login, LARGEST_BODY).await
    }

    /// Fetches a file of at most so many bytes.
    pub async fn get_up_to(&self, url: &str, login: Option<&Login>, most: usize) -> Result<Vec<u8>, Error> {
        let mut headers = HeaderMap::new();
        if let Some(login) = login {
            headers.insert(AUTHORIZATION, basic(login)?);
        }
        let response = self.send(Method::GET, url, headers, None).await?;
        if !response.status().is_success() {
            let status = response.status();
            return Err(Error::Publish(format!(
                "failed to fetch {url} : {} {}",
                status.as_u16(),
                status.canonical_reason().unwrap_or_default()
            )));
        }
        body(response, most).await
    }

    pub(super) async fn send(
        &self,
        method: Method,
        url: &str,
        headers: HeaderMap,
        content: Option<Vec<u8>>,
    ) -> Result<Response, Error> {
        let mut request = self.inner.request(method, url).headers(headers);
        if let Some(content) = content {
            request = request.body(content);
        }
        request.send().await.map_err(|error| Error::Publish(describe(&error)))
    }
}

pub(super) fn basic(login: &Login) -> Result<reqwest::header::HeaderValue, Error> {
    use base64::Engine as _;
    let pair =
        base64::engine::general_purpose::STANDARD.encode(format!("{}:{}", login.username, login.password));
    header(&format!("Basic {pair}"))
}

pub(super) fn header(text: &str) -> Result<reqwest::header::HeaderValue, Error> {
    let mut value = reqwest::header::HeaderValue::from_str(text)
        .map_err(|_| Error::Publish("a header has characters it cannot have".into()))?;
    value.set_sensitive(true);
    Ok(value)
}

/// The content, up to a limit.
pub(super) async fn body(mut response: Response, most: usize) -> Result<Vec<u8>, Error> {
    let too_large = |url: &url::Url| Error::Publish(format!("{url} is larger than {most} bytes"));
    if response.content_length().is_some_and(|length| length > most as u64) {
        return Err(too_large(response.url()));
    }
    let mut content = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if content.len() + chunk.len() <= most => content.extend_from_slice(&chunk),
            Ok(Some(_)) => return Err(too_large(response.url())),
            Ok(None) => return Ok(content),
            Err(error) => return Err(Error::Publish(describe(&error))),
        }
    }
}

/// The error with its causes; addresses in it never carry credentials, which travel in headers.
fn describe(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    text
}
