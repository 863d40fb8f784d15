//! The chain of AWS credentials: configured keys, a profile, a web identity, the environment, the machine's role;
//! then the role to assume. One lookup a run, another when keys expire.

use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::ExposeSecret as _;
use serde_json::Value;
use slipway_http::header::HeaderName;
use slipway_http::{HeaderValue, HttpRequest, Method};
use tokio::sync::Mutex;

use super::endpoint_variable;
use super::ini::{Profile, find_profile};
use super::sigv4::AwsKeys;
use super::sts::StsClient;
use crate::config::{AwsSettings, ResolveLimits, is_host_word};
use crate::provider::build::BuildContext;
use crate::provider::rest::{RestClient, TlsOptions};
use crate::provider::{ErrorCode, LoginInfo, ProviderError};

/// The address machines of EC2 ask for their role's keys.
const METADATA: &str = "http://169.254.169.254/";

pub(crate) struct AwsCredentialChain {
    settings: AwsSettings,
    context: BuildContext,
    profile: Profile,
    region: Option<String>,
    keys: Mutex<Option<AwsKeys>>,
}

impl AwsCredentialChain {
    pub(crate) fn new(settings: AwsSettings, context: BuildContext) -> Result<Self, ProviderError> {
        let profile = read_profile(&settings, &context)?;
        let environment = &context.environment;
        let from_variable =
            ["AWS_REGION", "AWS_DEFAULT_REGION"].iter().find_map(|name| environment.text(name));
        let region = settings
            .region
            .clone()
            .or_else(|| from_variable.map(str::to_owned))
            .or_else(|| profile.get("region").cloned());
        if region.as_deref().is_some_and(|region| !is_host_word(region)) {
            return Err(ProviderError::new(ErrorCode::Config, "the region has characters it cannot have")
                .hint("a region is a name such as eu-west-1"));
        }
        Ok(Self { settings, context, profile, region, keys: Mutex::new(None) })
    }

    pub(crate) fn region(&self) -> Option<&str> {
        self.region.as_deref()
    }

    /// Keys that are good for a while.
    pub(crate) async fn credentials(&self) -> Result<AwsKeys, ProviderError> {
        let mut kept = self.keys.lock().await;
        let soon = self.context.clock.now() + Duration::from_secs(60);
        if let Some(keys) = kept.as_ref().filter(|keys| keys.expires.is_none_or(|at| at > soon)) {
            return Ok(keys.clone());
        }
        let mut keys = self.base_keys().await?;
        if let Some(role) = &self.settings.role_arn
            && self.settings.web_identity_token_file.is_none()
        {
            keys = self.sts()?.assume_role(&keys, role, &self.settings).await?;
        }
        self.hide(&keys);
        *kept = Some(keys.clone());
        Ok(keys)
    }

    /// Asks STS whose keys these are.
    pub(crate) async fn caller(&self) -> Result<LoginInfo, ProviderError> {
        let keys = self.credentials().await?;
        let identity = self.sts()?.caller(&keys).await?;
        Ok(LoginInfo { identity, expires: keys.expires })
    }

    fn sts(&self) -> Result<StsClient, ProviderError> {
        let region = self.region.clone().unwrap_or_else(|| "us-east-1".to_owned());
        // An endpoint of one service is not that of another.
        let endpoint = self.settings.sts_endpoint.clone().or_else(|| endpoint_variable(&self.context));
        StsClient::new(region, endpoint, self.context.clone())
    }

    fn hide(&self, keys: &AwsKeys) {
        self.context.redactor.register(keys.secret_access_key.expose_secret());
        if let Some(token) = &keys.session_token {
            self.context.redactor.register(token.expose_secret());
        }
    }

    async fn base_keys(&self) -> Result<AwsKeys, ProviderError> {
        let environment = &self.context.environment;
        if let (Some(id), Some(secret)) = (&self.settings.access_key_id, &self.settings.secret_access_key) {
            let session_token = match &self.settings.session_token {
                Some(token) => Some(self.context.credential(token).await?),
                None => None,
            };
            return Ok(AwsKeys {
                access_key_id: self.context.credential(id).await?.expose_secret().to_owned(),
                secret_access_key: self.context.credential(secret).await?,
                session_token,
                expires: None,
            });
        }
        // A profile counts here only when somebody named it; the default one comes after the environment.
        if self.settings.profile.is_some() {
            return self.profile_keys().ok_or_else(|| self.no_profile_keys());
        }
        if let Some(keys) = self.web_identity().await? {
            return Ok(keys);
        }
        let variables = (environment.text("AWS_ACCESS_KEY_ID"), environment.secret("AWS_SECRET_ACCESS_KEY"));
        if let (Some(id), Some(secret)) = variables {
            return Ok(AwsKeys {
                access_key_id: id.to_owned(),
                secret_access_key: secret.clone(),
                session_token: environment.secret("AWS_SESSION_TOKEN").cloned(),
                expires: None,
            });
        }
        if let Some(keys) = self.profile_keys() {
            return Ok(keys);
        }
        self.machine_keys().await
    }

    fn profile_keys(&self) -> Option<AwsKeys> {
        Some(AwsKeys {
            access_key_id: self.profile.get("aws_access_key_id")?.clone(),
            secret_access_key: self.profile.get("aws_secret_access_key")?.clone().into(),
            session_token: self.profile.get("aws_session_token").map(|token| token.clone().into()),
            expires: None,
        })
    }

    fn no_profile_keys(&self) -> ProviderError {
        let name = self.settings.profile.as_deref().unwrap_or_default();
        ProviderError::new(ErrorCode::Unauthenticated, format!("the profile `{name}` has no access keys"))
            .hint("profiles with keys are read from ~/.aws; for single sign-on export keys: `aws configure export-credentials`")
    }

    async fn web_identity(&self) -> Result<Option<AwsKeys>, ProviderError> {
        let environment = &self.context.environment;
        let variable = environment.text("AWS_WEB_IDENTITY_TOKEN_FILE").map(PathBuf::from);
        let Some(file) = self.settings.web_identity_token_file.clone().or(variable) else { return Ok(None) };
        let role =
            self.settings.role_arn.as_deref().or_else(|| environment.text("AWS_ROLE_ARN")).ok_or_else(
                || {
                    ProviderError::new(ErrorCode::Config, "a web identity needs a role")
                        .hint("set `roleArn:`, or AWS_ROLE_ARN")
                },
            )?;
        let token = self.context.secret_file(&file)?;
        self.sts()?.assume_role_with_web_identity(token.expose_secret(), role, &self.settings).await.map(Some)
    }

    /// Keys of the machine's role (IMDSv2). No credential is sent for them.
    async fn machine_keys(&self) -> Result<AwsKeys, ProviderError> {
        let none = || {
            ProviderError::new(ErrorCode::Unauthenticated, "there are no AWS credentials")
                .hint("export AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or set `profile:` or `webIdentityTokenFile:`")
        };
        if self.context.environment.text("AWS_EC2_METADATA_DISABLED") == Some("true") {
            return Err(none());
        }
        let base = self.context.environment.text("AWS_EC2_METADATA_SERVICE_ENDPOINT").unwrap_or(METADATA);
        let base = slipway_http::parse_url(base).map_err(|_| none())?;
        // Elsewhere nobody answers there, so the wait is short.
        let limits = ResolveLimits { timeout: Duration::from_secs(1), retries: 0, ..self.context.limits };
        let rest = RestClient::new(limits, &self.context.network, TlsOptions::default())?;
        let ask = |method, path: &str, header: (&'static str, String)| {
            let mut request = HttpRequest::new(method, crate::provider::rest::join(&base, path));
            if let Ok(value) = HeaderValue::from_str(&header.1) {
                request.headers.insert(HeaderName::from_static(header.0), value);
            }
            request
        };
        let ttl = ("x-aws-ec2-metadata-token-ttl-seconds", "300".to_owned());
        let token = rest.send(&ask(Method::PUT, "latest/api/token", ttl)).await.map_err(|_| none())?;
        let session = ("x-aws-ec2-metadata-token", token.text());
        const ROLES: &str = "latest/meta-data/iam/security-credentials";
        let role = rest.send(&ask(Method::GET, ROLES, session.clone())).await.map_err(|_| none())?;
        let role = role.text().lines().next().unwrap_or_default().to_owned();
        let keys = rest
            .send(&ask(Method::GET, &format!("{ROLES}/{role}"), session))
            .await
            .map_err(|_| none())?
            .json();
        let text = |key: &str| keys.get(key).and_then(Value::as_str);
        Ok(AwsKeys {
            access_key_id: text("AccessKeyId").ok_or_else(none)?.to_owned(),
            secret_access_key: text("SecretAccessKey").ok_or_else(none)?.to_owned().into(),
            session_token: text("Token").map(|token| token.to_owned().into()),
            expires: text("Expiration").and_then(|time| time.parse().ok()),
        })
    }
}

/// The settings of the profile that is named, or of the default one.
fn read_profile(settings: &AwsSettings, context: &BuildContext) -> Result<Profile, ProviderError> {
    let environment = &context.environment;
    let name = settings.profile.as_deref().or_else(|| environment.text("AWS_PROFILE")).unwrap_or("default");
    let file = |variable: &str, usual: &str| {
        environment.text(variable).map(PathBuf::from).or_else(|| environment.in_home(usual))
    };
    let files =
        [file("AWS_CONFIG_FILE", ".aws/config"), file("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials")];
    let read =
        |path: &Path| slipway_problem::read_text_file(path).ok().and_then(|text| find_profile(&text, name));
    let found: Vec<Profile> = files.iter().flatten().filter_map(|path| read(path)).collect();
    if found.is_empty() && settings.profile.is_some() {
        return Err(ProviderError::new(ErrorCode::Config, format!("there is no AWS profile `{name}`"))
            .hint("profiles are in ~/.aws/config and ~/.aws/credentials"));
    }
    Ok(found.into_iter().flatten().collect())
}
