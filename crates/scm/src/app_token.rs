//! Tokens of a GitHub App: short-lived, made from a signed assertion, renewed before they end.

use jiff::{SignedDuration, Timestamp};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde_json::json;
use slipway_http::header::ACCEPT;
use slipway_http::{Authorization, HeaderValue, HttpRequest, Method, sign_rs256};
use tokio::sync::Mutex;

use crate::api::{ApiClient, read};
use crate::credential::AppCredential;
use crate::error::ScmError;

/// The tokens of one installation.
pub(crate) struct AppTokens {
    app: AppCredential,
    current: Mutex<Option<AppToken>>,
}

#[derive(Clone)]
struct AppToken {
    token: SecretString,
    /// When a fifth of its life is left.
    renew_at: Timestamp,
}

#[derive(Deserialize)]
struct TokenAnswer {
    token: SecretString,
    expires_at: Timestamp,
}

impl AppTokens {
    pub(crate) fn new(app: AppCredential) -> Self {
        Self { app, current: Mutex::default() }
    }

    /// A token that is good for a while; one request makes it for all who wait.
    pub(crate) async fn token(&self, api: &ApiClient) -> Result<SecretString, ScmError> {
        let mut current = self.current.lock().await;
        let now = api.clock.now();
        if let Some(kept) = current.as_ref().filter(|kept| now < kept.renew_at) {
            return Ok(kept.token.clone());
        }
        let fresh = self.exchange(api, now).await?;
        api.redactor.register(fresh.token.expose_secret());
        Ok(current.insert(fresh).token.clone())
    }

    async fn exchange(&self, api: &ApiClient, now: Timestamp) -> Result<AppToken, ScmError> {
        let doing = "get a token of the GitHub App";
        let second = now.as_second();
        // A minute back, since clocks differ; at most ten minutes of life.
        let claims = json!({"iat": second - 60, "exp": second + 540, "iss": self.app.app_id});
        let assertion = sign_rs256(&claims, None, self.app.private_key.expose_secret())
            .map_err(|error| ScmError::Credential { reason: error.to_string() })?;
        api.redactor.register(&assertion);
        let url = api.url(&["app", "installations", &self.app.installation_id, "access_tokens"], &[]);
        let mut request = HttpRequest::new(Method::POST, url);
        let unusable = |error: slipway_http::HttpError| ScmError::Credential { reason: error.to_string() };
        request.authorization =
            Some(Authorization::from_token(&assertion, request.url.origin()).map_err(unusable)?);
        request.headers.insert(ACCEPT, HeaderValue::from_static("application/vnd.github+json"));
        let unreachable = |source| ScmError::Unreachable { doing: doing.to_owned(), source };
        let answer = api.http.send_request(request).await.map_err(unreachable)?;
        let status = answer.status_code().as_u16();
        let body = answer.read_body(1 << 20).await.map_err(unreachable)?;
        match status {
            200..=299 => {}
            500.. => return Err(ScmError::Unavailable { doing: doing.to_owned(), status, retry_at: None }),
            _ => {
                let reason = "the app, its installation or its key is not accepted".to_owned();
                return Err(ScmError::Denied { doing: doing.to_owned(), status, reason });
            }
        }
        let answer: TokenAnswer = read(&body, doing)?;
        let life = answer.expires_at.duration_since(now).max(SignedDuration::ZERO);
        let renew_at = now.checked_add(life * 4 / 5).unwrap_or(now);
        Ok(AppToken { token: answer.token, renew_at })
    }
}
