//! Azure's access tokens: a client's secret or certificate, a federated token of a workload, the machine's identity, or
//! the login of the `az` program.

use std::path::PathBuf;

use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use slipway_http::header::HeaderName;
use slipway_http::{HeaderValue, HttpRequest, Method};
use tokio::sync::Mutex;
use tokio::time::{Duration, Instant};

use super::super::jwt::sign_with_certificate;
use super::super::rest::{RestClient, form_request, join};
use super::super::{ErrorCode, LoginInfo, ProviderError};
use super::Scope;
use crate::config::AzureSettings;
use crate::provider::build::BuildContext;

const METADATA: &str = "http://169.254.169.254/metadata/identity/oauth2/token";
const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

pub(super) struct AzureTokens {
    settings: AzureSettings,
    rest: RestClient,
    context: BuildContext,
    token: Mutex<Option<KeptToken>>,
}

struct KeptToken {
    scope: Scope,
    value: SecretString,
    renew_at: Instant,
    lifetime: Duration,
}

/// The way a token is asked for.
enum LoginMethod {
    ClientSecret {
        tenant: String,
        client: String,
        secret: SecretString,
    },
    Federated {
        tenant: String,
        client: String,
        token: SecretString,
    },
    Certificate {
        tenant: String,
        client: String,
        pem: SecretString,
    },
    ManagedIdentity {
        client: Option<String>,
    },
    /// The user's own login.
    AzureCli {
        tenant: Option<String>,
    },
}

impl AzureTokens {
    pub(super) fn new(settings: AzureSettings, rest: RestClient, context: BuildContext) -> Self {
        Self { settings, rest, context, token: Mutex::new(None) }
    }

    /// A token for a scope; one that is at hand also where only the tenant was not said.
    pub(super) async fn token(&self, scope: &Scope) -> Result<String, ProviderError> {
        let mut kept = self.token.lock().await;
        let fits = |token: &KeptToken| {
            let is_same = token.scope.resource == scope.resource
                && (scope.tenant.is_none() || token.scope.tenant == scope.tenant);
            is_same && Instant::now() < token.renew_at
        };
        if let Some(token) = kept.as_ref().filter(|token| fits(token)) {
            return Ok(token.value.expose_secret().to_owned());
        }
        let token = self.log_in(scope).await?;
        let value = token.value.expose_secret().to_owned();
        *kept = Some(token);
        Ok(value)
    }

    /// Tells whether a login is possible before a challenge named the tenant.
    pub(super) fn knows_tenant(&self) -> bool {
        let settings = &self.settings;
        settings.managed_identity
            || settings.tenant_id.is_some()
            || self.context.environment.text("AZURE_TENANT_ID").is_some()
    }

    pub(super) async fn info(&self) -> LoginInfo {
        let kept = self.token.lock().await;
        let identity = self.settings.client_id.clone().unwrap_or_else(|| "managed identity".to_owned());
        let now = self.context.clock.now();
        LoginInfo { identity, expires: kept.as_ref().and_then(|token| now.checked_add(token.lifetime).ok()) }
    }

    async fn method(&self, scope: &Scope) -> Result<LoginMethod, ProviderError> {
        let environment = &self.context.environment;
        let variable = |name: &str| environment.text(name).map(str::to_owned);
        let client = self.settings.client_id.clone().or_else(|| variable("AZURE_CLIENT_ID"));
        let tenant = self
            .settings
            .tenant_id
            .clone()
            .or_else(|| variable("AZURE_TENANT_ID"))
            .or_else(|| scope.tenant.clone());
        let none = || {
            ProviderError::new(ErrorCode::Unauthenticated, "there are no Azure credentials")
                .hint("set `tenantId`, `clientId` and one of `clientSecret`, `clientCertificate` and `federatedTokenFile`")
        };
        if self.settings.managed_identity {
            return Ok(LoginMethod::ManagedIdentity { client });
        }
        let secret = match &self.settings.client_secret {
            Some(credential) => Some(self.context.credential(credential).await?),
            None => environment.secret("AZURE_CLIENT_SECRET").cloned(),
        };
        if let Some(secret) = secret {
            let (tenant, client) = (tenant.ok_or_else(none)?, client.ok_or_else(none)?);
            return Ok(LoginMethod::ClientSecret { tenant, client, secret });
        }
        let certificate = self
            .settings
            .client_certificate
            .clone()
            .or_else(|| variable("AZURE_CLIENT_CERTIFICATE_PATH").map(PathBuf::from));
        if let Some(file) = certificate {
            let (tenant, client) = (tenant.ok_or_else(none)?, client.ok_or_else(none)?);
            return Ok(LoginMethod::Certificate { tenant, client, pem: self.context.secret_file(&file)? });
        }
        let file = self
            .settings
            .federated_token_file
            .clone()
            .or_else(|| variable("AZURE_FEDERATED_TOKEN_FILE").map(PathBuf::from));
        if let Some(file) = file {
            let (tenant, client) = (tenant.ok_or_else(none)?, client.ok_or_else(none)?);
            return Ok(LoginMethod::Federated { tenant, client, token: self.context.secret_file(&file)? });
        }
        // The login of a person says who they are by itself.
        let tenant = self.settings.tenant_id.clone().or_else(|| scope.tenant.clone());
        Ok(LoginMethod::AzureCli { tenant })
    }

    /// A token of the login that `az login` keeps.
    async fn cli_token(&self, tenant: Option<&str>, scope: &Scope) -> Result<KeptToken, ProviderError> {
        let mut words = vec!["az", "account", "get-access-token", "--output", "json", "--resource"];
        words.push(&scope.resource);
        words.extend(tenant.into_iter().flat_map(|tenant| ["--tenant", tenant]));
        let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        let none = |reason: &str| {
            ProviderError::new(ErrorCode::Unauthenticated, reason)
                .hint("set `tenantId`, `clientId` and `clientSecret`, `clientCertificate`, `federatedTokenFile`, `useManagedIdentity: true`, or run `az login`")
        };
        let output = self.context.command_output(&words).await.map_err(|error| match error.code {
            ErrorCode::Interrupted | ErrorCode::Timeout => error,
            ErrorCode::Unavailable => none("there are no Azure credentials, and `az` gives no token"),
            _ => none("there are no Azure credentials"),
        })?;
        let body: Value = serde_json::from_str(output.expose_secret()).unwrap_or_default();
        let token = body.get("accessToken").and_then(Value::as_str);
        let token = token.ok_or_else(|| none("`az account get-access-token` printed no token"))?;
        // Older versions of the program tell the time in the machine's own zone, so they are asked again soon.
        let now = self.context.clock.now().as_second();
        let left = body.get("expires_on").and_then(Value::as_i64).map_or(300, |at| (at - now).max(0));
        Ok(self.keep(token, Duration::from_secs(left.unsigned_abs()), scope))
    }

    fn keep(&self, token: &str, lifetime: Duration, scope: &Scope) -> KeptToken {
        KeptToken {
            scope: scope.clone(),
            value: self.context.hide(token),
            renew_at: Instant::now() + lifetime.mul_f64(0.8),
            lifetime,
        }
    }

    async fn log_in(&self, scope: &Scope) -> Result<KeptToken, ProviderError> {
        let config =
            |error: slipway_http::HttpError| ProviderError::new(ErrorCode::Config, error.to_string());
        let wanted = format!("{}/.default", scope.resource);
        let request = match self.method(scope).await? {
            LoginMethod::ClientSecret { tenant, client, secret } => form_request(
                self.token_url(&tenant)?,
                &[
                    ("grant_type", "client_credentials"),
                    ("client_id", &client),
                    ("client_secret", secret.expose_secret()),
                    ("scope", &wanted),
                ],
            ),
            LoginMethod::Federated { tenant, client, token } => form_request(
                self.token_url(&tenant)?,
                &[
                    ("grant_type", "client_credentials"),
                    ("client_id", &client),
                    ("client_assertion_type", ASSERTION),
                    ("client_assertion", token.expose_secret()),
                    ("scope", &wanted),
                ],
            ),
            LoginMethod::Certificate { tenant, client, pem } => {
                let url = self.token_url(&tenant)?;
                let now = self.context.clock.now().as_second();
                let id: [u8; 16] = rand::random();
                let claims = json!({
                    "aud": url.as_str(), "iss": client, "sub": client, "jti": data_encoding::HEXLOWER.encode(&id),
                    "iat": now, "nbf": now, "exp": now + 600,
                });
                let assertion = sign_with_certificate(&claims, pem.expose_secret())?;
                self.context.redactor.register(&assertion);
                let form = [
                    ("grant_type", "client_credentials"),
                    ("client_id", &client),
                    ("client_assertion_type", ASSERTION),
                    ("client_assertion", &assertion),
                    ("scope", &wanted),
                ];
                form_request(url, &form)
            }
            LoginMethod::AzureCli { tenant } => return self.cli_token(tenant.as_deref(), scope).await,
            LoginMethod::ManagedIdentity { client } => {
                let mut url = slipway_http::parse_url(METADATA).map_err(config)?;
                url.query_pairs_mut()
                    .append_pair("api-version", "2018-02-01")
                    .append_pair("resource", &scope.resource);
                if let Some(client) = client {
                    url.query_pairs_mut().append_pair("client_id", &client);
                }
                let mut request = HttpRequest::new(Method::GET, url);
                request.headers.insert(HeaderName::from_static("metadata"), HeaderValue::from_static("true"));
                request
            }
        };
        let answer = self.rest.send(&request).await?;
        let body = answer.json();
        let token = body.get("access_token").and_then(Value::as_str).filter(|_| answer.status.is_success());
        let token = token.ok_or_else(|| {
            ProviderError::new(
                ErrorCode::Unauthenticated,
                format!("Azure gave no token: HTTP {}", answer.status.as_u16()),
            )
            .hint("look at tenant, client and secret; has the secret expired?")
        })?;
        let seconds =
            body.get("expires_in").and_then(|value| value.as_u64().or_else(|| value.as_str()?.parse().ok()));
        Ok(self.keep(token, Duration::from_secs(seconds.unwrap_or(3600)), scope))
    }

    fn token_url(&self, tenant: &str) -> Result<url::Url, ProviderError> {
        let config =
            |error: slipway_http::HttpError| ProviderError::new(ErrorCode::Config, error.to_string());
        let base = match &self.settings.endpoint {
            Some(url) => url.clone(),
            None => slipway_http::parse_url(self.settings.cloud.authority()).map_err(config)?,
        };
        Ok(join(&base, &format!("{tenant}/oauth2/v2.0/token")))
    }
}
