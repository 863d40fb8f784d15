//! Google's access tokens: a service account's key, the user's own login, a workload identity, or the machine's account;
//! then, where asked for, the account to act as. Ambient credentials go to Google's own addresses only.

use std::path::PathBuf;

use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use slipway_http::header::HeaderName;
use slipway_http::{Authorization, HeaderValue, HttpRequest, Method};
use tokio::sync::Mutex;
use tokio::time::{Duration, Instant};
use url::Url;

use super::super::jwt::sign_rs256;
use super::super::rest::{RestAnswer, RestClient, form_request, join, json_request, unexpected};
use super::super::{ErrorCode, LoginInfo, ProviderError};
use super::federation::subject_token;
use crate::config::GcpSettings;
use crate::provider::build::BuildContext;

const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
const TOKEN_URI: &str = "https://oauth2.googleapis.com/token";
const METADATA: &str =
    "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token";
const IMPERSONATION: &str = "https://iamcredentials.googleapis.com/";
const ACCOUNTS: &str = "v1/projects/-/serviceAccounts";
const STS_URI: &str = "https://sts.googleapis.com/v1/token";

pub(super) struct GoogleTokens {
    credentials_file: Option<PathBuf>,
    impersonate: Option<String>,
    /// The service that lends tokens of accounts.
    impersonation: String,
    /// Nobody is sent the user's own credentials but Google.
    is_emulator: bool,
    rest: RestClient,
    context: BuildContext,
    token: Mutex<Option<KeptToken>>,
}

struct KeptToken {
    value: SecretString,
    identity: String,
    renew_at: Instant,
    lifetime: Duration,
}

impl GoogleTokens {
    pub(super) fn new(settings: &GcpSettings, base: &Url, rest: RestClient, context: BuildContext) -> Self {
        let host = base.host_str().unwrap_or_default();
        let is_google =
            base.scheme() == "https" && (host == "googleapis.com" || host.ends_with(".googleapis.com"));
        Self {
            credentials_file: settings.credentials_file.clone(),
            impersonate: settings.impersonate.clone(),
            impersonation: match &settings.endpoint {
                Some(endpoint) if !is_google => join(endpoint, ACCOUNTS).to_string(),
                _ => format!("{IMPERSONATION}{ACCOUNTS}"),
            },
            is_emulator: !is_google,
            rest,
            context,
            token: Mutex::new(None),
        }
    }

    /// A token; none for an address that is not Google's when no credentials were given for it.
    pub(super) async fn token(&self) -> Result<Option<String>, ProviderError> {
        if self.is_emulator && self.credentials_file.is_none() {
            return Ok(None);
        }
        let mut kept = self.token.lock().await;
        if kept.as_ref().is_none_or(|token| Instant::now() >= token.renew_at) {
            let base = self.base_token().await?;
            *kept = Some(match &self.impersonate {
                Some(account) => {
                    let url = format!("{}/{account}:generateAccessToken", self.impersonation);
                    self.act_as(&url, &base).await?
                }
                None => base,
            });
        }
        Ok(kept.as_ref().map(|token| token.value.expose_secret().to_owned()))
    }

    pub(super) async fn login(&self) -> Result<LoginInfo, ProviderError> {
        self.token().await?;
        let kept = self.token.lock().await;
        let now = self.context.clock.now();
        Ok(kept.as_ref().map_or_else(
            || LoginInfo {
                identity: "nobody (no credentials are sent to this address)".to_owned(),
                expires: None,
            },
            |token| LoginInfo {
                identity: token.identity.clone(),
                expires: now.checked_add(token.lifetime).ok(),
            },
        ))
    }

    async fn base_token(&self) -> Result<KeptToken, ProviderError> {
        let environment = &self.context.environment;
        let named = self
            .credentials_file
            .clone()
            .or_else(|| environment.text("GOOGLE_APPLICATION_CREDENTIALS").map(PathBuf::from));
        let usual = || {
            environment
                .in_home(".config/gcloud/application_default_credentials.json")
                .filter(|path| path.is_file())
        };
        match named.or_else(usual) {
            Some(path) => self.file_token(&path).await,
            None => self.machine_token().await,
        }
    }

    async fn file_token(&self, path: &std::path::Path) -> Result<KeptToken, ProviderError> {
        let text = self.context.secret_file(path)?;
        let file: Value = serde_json::from_str(text.expose_secret()).map_err(|_| {
            ProviderError::new(ErrorCode::Config, format!("{} is no JSON", path.display()))
                .hint("expected Google credentials")
        })?;
        // `gcloud auth application-default login --impersonate-service-account` wraps the user's own login.
        if file.get("type").and_then(Value::as_str) != Some("impersonated_service_account") {
            return self.credentials_token(&file, path).await;
        }
        let url = file.get("service_account_impersonation_url").and_then(Value::as_str);
        let (Some(url), Some(source)) = (url, file.get("source_credentials")) else {
            let reason = format!("{} names no account to act as", path.display());
            return Err(ProviderError::new(ErrorCode::Config, reason).hint("log in again"));
        };
        let base = self.credentials_token(source, path).await?;
        self.act_as(url, &base).await
    }

    async fn credentials_token(
        &self,
        file: &Value,
        path: &std::path::Path,
    ) -> Result<KeptToken, ProviderError> {
        let shown = path.display();
        let config = |reason: String, hint: &str| ProviderError::new(ErrorCode::Config, reason).hint(hint);
        let get = |key: &str| file.get(key).and_then(Value::as_str);
        let need = |key: &str| {
            get(key).ok_or_else(|| config(format!("{shown} has no `{key}`"), "create the key again"))
        };
        match get("type") {
            Some("service_account") => {
                let (email, key) = (need("client_email")?, need("private_key")?);
                self.context.redactor.register(key);
                let uri = get("token_uri").unwrap_or(TOKEN_URI);
                let now = self.context.clock.now().as_second();
                let claims = json!({"iss": email, "scope": SCOPE, "aud": uri, "iat": now, "exp": now + 3600});
                let assertion = sign_rs256(&claims, get("private_key_id"), key)?;
                let form = [
                    ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
                    ("assertion", assertion.as_str()),
                ];
                self.trade(uri, &form, email).await
            }
            Some("authorized_user") => {
                let (id, secret, refresh) =
                    (need("client_id")?, need("client_secret")?, need("refresh_token")?);
                self.context.redactor.register(refresh);
                let form = [
                    ("grant_type", "refresh_token"),
                    ("client_id", id),
                    ("client_secret", secret),
                    ("refresh_token", refresh),
                ];
                self.trade(get("token_uri").unwrap_or(TOKEN_URI), &form, "user").await
            }
            Some("external_account") => {
                let subject = subject_token(file, &self.rest, &self.context).await?;
                let form = [
                    ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
                    ("requested_token_type", "urn:ietf:params:oauth:token-type:access_token"),
                    ("audience", need("audience")?),
                    ("scope", SCOPE),
                    ("subject_token_type", need("subject_token_type")?),
                    ("subject_token", subject.expose_secret()),
                ];
                let token = self.trade(get("token_url").unwrap_or(STS_URI), &form, need("audience")?).await?;
                match get("service_account_impersonation_url") {
                    Some(url) => self.act_as(url, &token).await,
                    None => Ok(token),
                }
            }
            other => Err(config(
                format!("{shown} holds credentials of the type `{}`", other.unwrap_or("none")),
                "use a service account's key, a workload identity or `gcloud auth application-default login`",
            )),
        }
    }

    async fn trade(
        &self,
        uri: &str,
        form: &[(&str, &str)],
        identity: &str,
    ) -> Result<KeptToken, ProviderError> {
        let url = slipway_http::parse_url(uri)
            .map_err(|error| ProviderError::new(ErrorCode::Config, error.to_string()))?;
        let answer = self.rest.send(&form_request(url, form)).await?;
        self.kept(&answer, identity)
    }

    async fn machine_token(&self) -> Result<KeptToken, ProviderError> {
        let none = |_| {
            ProviderError::new(ErrorCode::Unauthenticated, "there are no Google credentials")
                .hint("set `credentialsFile:`, GOOGLE_APPLICATION_CREDENTIALS, or run `gcloud auth application-default login`")
        };
        let url = slipway_http::parse_url(METADATA)
            .map_err(|error| ProviderError::new(ErrorCode::Config, error.to_string()))?;
        let mut request = HttpRequest::new(Method::GET, url);
        request
            .headers
            .insert(HeaderName::from_static("metadata-flavor"), HeaderValue::from_static("Google"));
        let answer = self.rest.send(&request).await.map_err(none)?;
        self.kept(&answer, "the machine's service account")
    }

    /// Trades a token for one of the service account an address stands for.
    async fn act_as(&self, address: &str, base: &KeptToken) -> Result<KeptToken, ProviderError> {
        let config =
            |error: slipway_http::HttpError| ProviderError::new(ErrorCode::Config, error.to_string());
        let url = slipway_http::parse_url(address).map_err(config)?;
        let account = address.rsplit('/').next().unwrap_or_default();
        let account = account.strip_suffix(":generateAccessToken").unwrap_or(account).to_owned();
        let mut request = json_request(Method::POST, url, &json!({"scope": [SCOPE], "lifetime": "3600s"}));
        request.authorization = Some(
            Authorization::from_token(base.value.expose_secret(), request.url.origin()).map_err(config)?,
        );
        let answer = self.rest.send(&request).await?;
        let body = answer.json();
        let token = body.get("accessToken").and_then(Value::as_str).filter(|_| answer.status.is_success());
        let token = token.ok_or_else(|| {
            unexpected(&answer, &format!("act as {account}"))
                .hint("the identity needs iam.serviceAccounts.getAccessToken on it (role Service Account Token Creator)")
        })?;
        Ok(self.keep(token, Duration::from_secs(3600), &account))
    }

    fn kept(&self, answer: &RestAnswer, identity: &str) -> Result<KeptToken, ProviderError> {
        let body = answer.json();
        let refused = || {
            ProviderError::new(
                ErrorCode::Unauthenticated,
                format!("Google gave no token: HTTP {}", answer.status.as_u16()),
            )
            .hint("is the key revoked, or the login too old? `gcloud auth application-default login`")
        };
        let token = body
            .get("access_token")
            .and_then(Value::as_str)
            .filter(|_| answer.status.is_success())
            .ok_or_else(refused)?;
        let lifetime = body.get("expires_in").and_then(Value::as_u64).unwrap_or(3600);
        Ok(self.keep(token, Duration::from_secs(lifetime), identity))
    }

    fn keep(&self, token: &str, lifetime: Duration, identity: &str) -> KeptToken {
        let renew_at = Instant::now() + lifetime.mul_f64(0.8);
        KeptToken { value: self.context.hide(token), identity: identity.to_owned(), renew_at, lifetime }
    }
}
