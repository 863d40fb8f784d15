//! The chain of AWS credentials: configured keys, a profile, a web identity, the environment, the default profile, the
//! container's or the machine's role; then the role to assume. One lookup a run, another when keys expire.

use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::ExposeSecret as _;
use tokio::sync::Mutex;

use super::endpoint_variable;
use super::profile::{AwsRole, ProfileFiles, ProfileKeys};
use super::sigv4::AwsKeys;
use super::sts::StsClient;
use crate::config::{AwsSettings, is_host_word};
use crate::provider::build::BuildContext;
use crate::provider::{ErrorCode, LoginInfo, ProviderError};

pub(crate) struct AwsCredentialChain {
    settings: AwsSettings,
    context: BuildContext,
    profiles: ProfileFiles,
    region: Option<String>,
    keys: Mutex<Option<AwsKeys>>,
}

impl AwsCredentialChain {
    pub(crate) fn new(settings: AwsSettings, context: BuildContext) -> Result<Self, ProviderError> {
        let profiles = ProfileFiles::read(&context);
        let environment = &context.environment;
        let name =
            settings.profile.as_deref().or_else(|| environment.text("AWS_PROFILE")).unwrap_or("default");
        let profile = profiles.profile(name);
        if profile.is_none() && settings.profile.is_some() {
            return Err(ProviderError::new(ErrorCode::Config, format!("there is no AWS profile `{name}`"))
                .hint("profiles are in ~/.aws/config and ~/.aws/credentials"));
        }
        let profile = profile.unwrap_or_default();
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
        Ok(Self { settings, context, profiles, region, keys: Mutex::new(None) })
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
        if let Some(role) = self.configured_role()
            && self.settings.web_identity_token_file.is_none()
        {
            keys = self.sts()?.assume_role(&keys, &role).await?;
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
        if let Some(name) = &self.settings.profile {
            return self.profile_keys(name).await?.ok_or_else(|| no_profile_keys(name));
        }
        if let Some(keys) = self.web_identity().await? {
            return Ok(keys);
        }
        if let Some(keys) = self.environment_keys() {
            return Ok(keys);
        }
        let name = environment.text("AWS_PROFILE").unwrap_or("default");
        if self.profiles.profile(name).is_some()
            && let Some(keys) = self.profile_keys(name).await?
        {
            return Ok(keys);
        }
        match self.context.container_keys().await? {
            Some(keys) => Ok(keys),
            None => self.context.machine_keys().await,
        }
    }

    fn environment_keys(&self) -> Option<AwsKeys> {
        let environment = &self.context.environment;
        Some(AwsKeys {
            access_key_id: environment.text("AWS_ACCESS_KEY_ID")?.to_owned(),
            secret_access_key: environment.secret("AWS_SECRET_ACCESS_KEY")?.clone(),
            session_token: environment.secret("AWS_SESSION_TOKEN").cloned(),
            expires: None,
        })
    }

    /// The keys of a profile, after every role on its way; none if it names no keys.
    async fn profile_keys(&self, name: &str) -> Result<Option<AwsKeys>, ProviderError> {
        let Some(chain) = self.profiles.chain(name)? else { return Ok(None) };
        let mut keys = match chain.first {
            ProfileKeys::Own(keys) => keys,
            ProfileKeys::Program(words) => self.context.program_keys(&words).await?,
            ProfileKeys::SingleSignOn(login) => self.context.sso_keys(&login).await?,
            ProfileKeys::WebIdentity { file, role } => self.identity_keys(&file, &role).await?,
            ProfileKeys::Environment => self.environment_keys().ok_or_else(no_keys)?,
            ProfileKeys::Container => self.context.container_keys().await?.ok_or_else(no_keys)?,
            ProfileKeys::Machine => self.context.machine_keys().await?,
        };
        for role in &chain.roles {
            self.hide(&keys);
            keys = self.sts()?.assume_role(&keys, role).await?;
        }
        Ok(Some(keys))
    }

    /// The role the provider's own settings name.
    fn configured_role(&self) -> Option<AwsRole> {
        let settings = &self.settings;
        Some(AwsRole {
            arn: settings.role_arn.clone()?,
            external_id: settings.external_id.clone(),
            session_name: settings.session_name.clone(),
        })
    }

    async fn web_identity(&self) -> Result<Option<AwsKeys>, ProviderError> {
        let environment = &self.context.environment;
        let variable = environment.text("AWS_WEB_IDENTITY_TOKEN_FILE").map(PathBuf::from);
        let Some(file) = self.settings.web_identity_token_file.clone().or(variable) else { return Ok(None) };
        let ambient = || {
            let session_name = environment.text("AWS_ROLE_SESSION_NAME").map(str::to_owned);
            Some(AwsRole {
                arn: environment.text("AWS_ROLE_ARN")?.to_owned(),
                session_name,
                external_id: None,
            })
        };
        let role = self.configured_role().or_else(ambient).ok_or_else(|| {
            ProviderError::new(ErrorCode::Config, "a web identity needs a role")
                .hint("set `roleArn:`, or AWS_ROLE_ARN")
        })?;
        self.identity_keys(&file, &role).await.map(Some)
    }

    async fn identity_keys(&self, file: &Path, role: &AwsRole) -> Result<AwsKeys, ProviderError> {
        let token = self.context.secret_file(file)?;
        self.sts()?.assume_role_with_web_identity(token.expose_secret(), role).await
    }
}

/// The failure of a chain that ended without keys.
pub(super) fn no_keys() -> ProviderError {
    ProviderError::new(ErrorCode::Unauthenticated, "there are no AWS credentials").hint(
        "export AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or set `profile:` or `webIdentityTokenFile:`",
    )
}

fn no_profile_keys(name: &str) -> ProviderError {
    ProviderError::new(ErrorCode::Unauthenticated, format!("the profile `{name}` has no access keys"))
        .hint("give it keys, a role with a source, `credential_process`, or a login: `aws configure sso`")
}
