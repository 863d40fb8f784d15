//! Requests, and the credentials that go with them to one host alone.

use reqwest::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};
use slipway_event::without_credentials;
use url::{Origin, Url};

use crate::HttpError;

/// A name and password, or a token.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Login {
    pub username: String,
    pub password: String,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login").field("username", &self.username).finish_non_exhaustive()
    }
}

/// A header with credentials and the only origin it is sent to.
#[derive(Clone, Debug)]
pub struct Authorization {
    pub(crate) name: HeaderName,
    pub(crate) value: HeaderValue,
    pub(crate) origin: Origin,
}

impl Authorization {
    /// A user's name and password.
    pub fn basic(login: &Login, origin: Origin) -> Result<Self, HttpError> {
        use base64::Engine as _;
        let pair = base64::engine::general_purpose::STANDARD
            .encode(format!("{}:{}", login.username, login.password));
        Self::header(AUTHORIZATION, &format!("Basic {pair}"), origin)
    }

    /// A token.
    pub fn bearer(token: &str, origin: Origin) -> Result<Self, HttpError> {
        Self::header(AUTHORIZATION, &format!("Bearer {token}"), origin)
    }

    /// Any header that lets somebody in.
    pub fn header(name: HeaderName, value: &str, origin: Origin) -> Result<Self, HttpError> {
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| HttpError::Invalid("a header has characters it cannot have".into()))?;
        value.set_sensitive(true);
        Ok(Self { name, value, origin })
    }
}

/// Something to send.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    pub method: Method,
    pub url: Url,
    pub headers: HeaderMap,
    pub authorization: Option<Authorization>,
    pub content: Option<Vec<u8>>,
}

impl HttpRequest {
    pub fn new(method: Method, url: Url) -> Self {
        Self { method, url, headers: HeaderMap::new(), authorization: None, content: None }
    }

    /// Goes where an answer points to, if that is allowed.
    pub(crate) fn redirect(&mut self, status: StatusCode, location: &str) -> Result<(), HttpError> {
        let from = shown(&self.url);
        let refused = |why: String| HttpError::Redirect(format!("{from} redirects {why}"));
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

/// Reads the address of something that is reached by HTTP.
pub fn parse_url(url: &str) -> Result<Url, HttpError> {
    let address = without_credentials(url);
    let url = Url::parse(url).map_err(|error| HttpError::Invalid(format!("{address}: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(HttpError::Invalid(format!(
            "{address}: could not find protocol handler for: {}",
            url.scheme()
        )));
    }
    Ok(url)
}

/// An address without its credentials.
pub fn shown(url: &Url) -> String {
    without_credentials(url.as_str()).into_owned()
}
