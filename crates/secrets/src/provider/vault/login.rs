//! Logins of Vault: one a run, renewed by logging in again when the token nears its end.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::{Duration, Instant};

use super::super::aws::credentials::AwsCredentialChain;
use super::super::aws::sigv4::{SigningScope, signed_headers};
use super::super::build::BuildContext;
use super::super::{ErrorCode, ProviderError};
use super::VaultConnection;
use crate::config::{AwsSettings, VaultAuth};

/// Where a projected token of a pod is mounted.
const POD_TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// Keeps the token of a run.
pub(super) struct TokenKeeper {
    auth: VaultAuth,
    mount: Option<String>,
    context: BuildContext,
    /// Held during a login, so that there is only one.
    token: Mutex<Option<KeptToken>>,
}

/// A token of the run.
pub(super) struct KeptToken {
    value: SecretString,
    source: TokenSource,
    /// The moment less than a fifth of its time is left.
    renew_at: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TokenSource {
    /// The user's.
    Given,
    /// A login of this run.
    Issued,
}

impl KeptToken {
    pub(super) fn value(&self) -> &str {
        self.value.expose_secret()
    }

    /// Tells a token this run logged in for from the user's own.
    pub(super) fn is_issued(&self) -> bool {
        self.source == TokenSource::Issued
    }
}

impl TokenKeeper {
    pub(super) fn new(auth: VaultAuth, mount: Option<String>, context: BuildContext) -> Self {
        Self { auth, mount, context, token: Mutex::new(None) }
    }

    /// The token, after a login where one is needed.
    pub(super) async fn token(&self, connection: &VaultConnection) -> Result<String, ProviderError> {
        let mut kept = self.token.lock().await;
        if let Some(token) = kept.as_ref().filter(|token| token.renew_at.is_none_or(|at| Instant::now() < at))
        {
            return Ok(token.value.expose_secret().to_owned());
        }
        let token = self.log_in(connection).await?;
        let value = token.value.expose_secret().to_owned();
        *kept = Some(token);
        Ok(value)
    }

    /// Forgets a refused token if it was of a login and time has passed for it; tells whether to try again.
    pub(super) async fn forget_expired(&self, refused: &str) -> bool {
        let mut kept = self.token.lock().await;
        let is_stale = |token: &KeptToken| {
            token.source == TokenSource::Issued
                && token.value.expose_secret() == refused
                && token.renew_at.is_some_and(|at| Instant::now() >= at)
        };
        match kept.as_ref() {
            // Somebody else logged in meanwhile.
            Some(token) if token.value.expose_secret() != refused => true,
            Some(token) if is_stale(token) => {
                *kept = None;
                true
            }
            _ => false,
        }
    }

    /// Forgets the token: it was revoked.
    pub(super) async fn forget(&self) {
        *self.token.lock().await = None;
    }

    /// Hands out the token of the run, which is forgotten here.
    pub(super) async fn take(&self) -> Option<KeptToken> {
        self.token.lock().await.take()
    }

    async fn log_in(&self, connection: &VaultConnection) -> Result<KeptToken, ProviderError> {
        let (default_mount, body) = match &self.auth {
            VaultAuth::Token(token) => return self.given(token.as_ref()).await,
            VaultAuth::AppRole { role_id, secret_id, wrapped_secret_id } => {
                let mut body = json!({"role_id": self.context.credential(role_id).await?.expose_secret()});
                if let Some(secret_id) = secret_id {
                    body["secret_id"] = self.context.credential(secret_id).await?.expose_secret().into();
                }
                if let Some(wrapped) = wrapped_secret_id {
                    let wrapped = self.context.credential(wrapped).await?;
                    body["secret_id"] = self.unwrap(connection, wrapped.expose_secret()).await?.into();
                }
                ("approle", body)
            }
            VaultAuth::Kubernetes { role, token, token_path } => {
                let jwt = match (token, token_path) {
                    (Some(token), _) => self.context.credential(token).await?,
                    // Read at every login: the kubelet replaces it.
                    (None, Some(path)) => self.context.secret_file(path)?,
                    (None, None) => self.context.secret_file(std::path::Path::new(POD_TOKEN))?,
                };
                ("kubernetes", json!({"role": role, "jwt": jwt.expose_secret()}))
            }
            VaultAuth::Jwt { role, jwt } => {
                let jwt = self.context.credential(jwt).await?;
                let mut body = json!({"jwt": jwt.expose_secret()});
                if let Some(role) = role {
                    body["role"] = role.as_str().into();
                }
                ("jwt", body)
            }
            VaultAuth::Aws { .. } => ("aws", self.aws_body().await?),
        };
        let mount = self.mount.as_deref().unwrap_or(default_mount);
        let answer =
            connection.post(&format!("auth/{mount}/login"), &body, None).await.map_err(
                |error| match error.code {
                    ErrorCode::Invalid | ErrorCode::Forbidden | ErrorCode::Unauthenticated => {
                        ProviderError::new(
                            ErrorCode::Unauthenticated,
                            format!("login at auth/{mount} refused"),
                        )
                        .hint("look at the role and its bindings, and at `authMount:`")
                    }
                    _ => error,
                },
            )?;
        let token = answer.pointer("/auth/client_token").and_then(Value::as_str).ok_or_else(|| {
            ProviderError::new(ErrorCode::Invalid, format!("the login at auth/{mount} gave no token"))
        })?;
        let lifetime =
            answer.pointer("/auth/lease_duration").and_then(Value::as_u64).filter(|seconds| *seconds > 0);
        let renew_at = lifetime.map(|seconds| Instant::now() + Duration::from_secs(seconds).mul_f64(0.8));
        Ok(KeptToken { value: self.context.hide(token), source: TokenSource::Issued, renew_at })
    }

    /// The user's own token: the configuration's, the environment's, or that of `vault login`.
    async fn given(
        &self,
        configured: Option<&crate::config::Credential>,
    ) -> Result<KeptToken, ProviderError> {
        let environment = &self.context.environment;
        let value = match configured {
            Some(credential) => self.context.credential(credential).await?,
            None => match environment.first(&["VAULT_TOKEN", "BAO_TOKEN"]) {
                Some(token) => self.context.hide(token.expose_secret()),
                None => {
                    let file = environment.in_home(".vault-token").filter(|path| path.is_file()).ok_or_else(|| {
                        ProviderError::new(ErrorCode::Unauthenticated, "there is no token")
                            .hint("set `token:` or `authMethod:` of the provider, export VAULT_TOKEN, or run `vault login`")
                    })?;
                    self.context.secret_file(&file)?
                }
            },
        };
        Ok(KeptToken { value, source: TokenSource::Given, renew_at: None })
    }

    async fn unwrap(&self, connection: &VaultConnection, wrapping: &str) -> Result<String, ProviderError> {
        let answer =
            connection.post("sys/wrapping/unwrap", &json!({}), Some(wrapping)).await.map_err(|error| {
                match error.code {
                ErrorCode::Invalid | ErrorCode::Forbidden => ProviderError::new(
                    ErrorCode::Unauthenticated,
                    "the wrapped secret id cannot be unwrapped",
                )
                .hint("it works once and for a short time: if nobody of you used it, somebody else may have"),
                _ => error,
            }
            })?;
        let secret_id = answer.pointer("/data/secret_id").and_then(Value::as_str);
        let missing = || ProviderError::new(ErrorCode::Invalid, "what was wrapped is no secret id");
        let secret_id = secret_id.ok_or_else(missing)?;
        self.context.redactor.register(secret_id);
        Ok(secret_id.to_owned())
    }

    /// A signed request to STS that Vault sends in our name to learn who we are. It is signed for the very region
    /// whose host it names.
    async fn aws_body(&self) -> Result<Value, ProviderError> {
        const BODY: &str = "Action=GetCallerIdentity&Version=2011-06-15";
        let VaultAuth::Aws { role, region, server_id, sts_endpoint } = &self.auth else {
            return Ok(Value::Null);
        };
        let settings = AwsSettings { region: region.clone(), ..AwsSettings::default() };
        let chain = AwsCredentialChain::new(settings, self.context.clone())?;
        let region = chain.region().unwrap_or("us-east-1").to_owned();
        let url = match sts_endpoint {
            Some(url) => url.clone(),
            None => slipway_http::parse_url(&format!("https://sts.{region}.amazonaws.com/"))
                .map_err(|error| ProviderError::new(ErrorCode::Config, error.to_string()))?,
        };
        let keys = chain.credentials().await?;
        let mut headers =
            vec![("Content-Type".to_owned(), "application/x-www-form-urlencoded; charset=utf-8".to_owned())];
        if let Some(id) = server_id {
            headers.push(("X-Vault-AWS-IAM-Server-ID".to_owned(), id.clone()));
        }
        let scope = SigningScope { region: &region, service: "sts", now: self.context.clock.now() };
        let signed = signed_headers(&scope, &keys, "POST", &url, &headers, BODY.as_bytes());
        let map: serde_json::Map<String, Value> =
            signed.into_iter().map(|(name, value)| (name, json!([value]))).collect();
        Ok(json!({
            "role": role.clone().unwrap_or_default(),
            "iam_http_request_method": "POST",
            "iam_request_url": STANDARD.encode(url.as_str()),
            "iam_request_body": STANDARD.encode(BODY),
            "iam_request_headers": STANDARD.encode(Value::Object(map).to_string()),
        }))
    }
}
