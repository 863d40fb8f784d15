//! Azure Key Vault: secrets by name and version. The vault's challenge says where to log in, and is believed only
//! when it speaks of the vault's own domain.

mod token;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::Value;
use slipway_http::{Authorization, HttpRequest, Method};
use url::Url;

use self::token::AzureTokens;
use super::build::BuildContext;
use super::rest::{RestAnswer, RestClient, TlsOptions, join, unexpected};
use super::{
    ErrorCode, FetchOutcomes, FetchedSecret, ListEntry, LoginInfo, Provider, ProviderError, fetch_singly,
};
use crate::config::AzureSettings;
use crate::material::SecretContent;
use crate::reference::Locator;

const MOST_PAGES: usize = 400;

pub(crate) struct KeyVault {
    rest: RestClient,
    vault: Url,
    api_version: String,
    tokens: AzureTokens,
    context: BuildContext,
}

impl KeyVault {
    pub(crate) fn new(settings: AzureSettings, context: BuildContext) -> Result<Self, ProviderError> {
        let rest = RestClient::new(context.limits, &context.network, TlsOptions::default())?;
        let vault = settings.vault_url.clone();
        let api_version = settings.api_version.clone();
        let tokens = AzureTokens::new(settings, rest.clone(), context.clone());
        Ok(Self { rest, vault, api_version, tokens, context })
    }

    /// Asks with a token; a vault that wants another one, or is the first to name the tenant, says so in its
    /// challenge.
    async fn get(&self, url: Url) -> Result<RestAnswer, ProviderError> {
        let known = Scope::of_vault(&self.vault);
        let token = if self.tokens.knows_tenant() { Some(self.tokens.token(&known).await?) } else { None };
        let answer = self.send(&url, token.as_deref()).await?;
        let Some(challenge) = answer.challenge.as_deref().filter(|_| answer.status.as_u16() == 401) else {
            return Ok(answer);
        };
        let scope = Scope::of_challenge(challenge, &self.vault)?;
        let token = self.tokens.token(&scope).await?;
        self.send(&url, Some(&token)).await
    }

    async fn send(&self, url: &Url, token: Option<&str>) -> Result<RestAnswer, ProviderError> {
        let mut request = HttpRequest::new(Method::GET, url.clone());
        let config =
            |error: slipway_http::HttpError| ProviderError::new(ErrorCode::Config, error.to_string());
        let authorization = token.map(|token| Authorization::bearer(token, request.url.origin()));
        request.authorization = authorization.transpose().map_err(config)?;
        self.rest.send(&request).await
    }

    async fn read(&self, locator: &Locator) -> Result<FetchedSecret, ProviderError> {
        let name = locator.path.trim_matches('/');
        if locator.stage.is_some() {
            let error = ProviderError::new(ErrorCode::Invalid, "Azure's secrets have no stages");
            return Err(error.hint("use `?version=`"));
        }
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if name.is_empty() || name.len() > 127 || !name.bytes().all(fits) {
            return Err(ProviderError::new(ErrorCode::Invalid, format!("`{name}` is no name of a secret"))
                .hint("Azure's names have letters, digits and dashes: write `app-db` for `app/db`"));
        }
        let path = match &locator.version {
            Some(version) => format!("secrets/{name}/{version}"),
            None => format!("secrets/{name}"),
        };
        let mut url = join(&self.vault, &path);
        url.query_pairs_mut().append_pair("api-version", &self.api_version);
        let answer = self.get(url).await?;
        if !answer.status.is_success() {
            return Err(failure(&answer, name));
        }
        let body = answer.json();
        self.check_attributes(&body, name)?;
        let text = |key: &str| body.get(key).and_then(Value::as_str);
        let value = text("value")
            .ok_or_else(|| ProviderError::new(ErrorCode::Invalid, format!("`{name}` has no value")))?;
        let version = text("id").and_then(|id| id.rsplit('/').next()).map(str::to_owned);
        Ok(FetchedSecret::new(SecretContent::bytes(value), version))
    }

    /// Disabled, not yet valid and expired secrets are not used.
    fn check_attributes(&self, body: &Value, name: &str) -> Result<(), ProviderError> {
        let attribute = |key: &str| body.pointer(&format!("/attributes/{key}"));
        let time = |key: &str| {
            attribute(key).and_then(Value::as_i64).and_then(|second| Timestamp::from_second(second).ok())
        };
        let now = self.context.clock.now();
        let unusable = |what: &str| {
            Err(ProviderError::new(ErrorCode::NotFound, format!("`{name}` {what}"))
                .hint("enable it, or create a new version"))
        };
        if attribute("enabled").and_then(Value::as_bool) == Some(false) {
            return unusable("is disabled");
        }
        if time("nbf").is_some_and(|start| start > now) {
            return unusable("is not valid yet");
        }
        if time("exp").is_some_and(|end| end <= now) {
            return unusable("has expired");
        }
        Ok(())
    }
}

fn failure(answer: &RestAnswer, name: &str) -> ProviderError {
    let body = answer.json();
    match body.pointer("/error/code").and_then(Value::as_str) {
        Some("SecretNotFound") => ProviderError::new(ErrorCode::NotFound, format!("`{name}`"))
            .hint("look at the name and the vault"),
        Some("SecretDisabled") => ProviderError::new(ErrorCode::NotFound, format!("`{name}` is disabled"))
            .hint("enable it, or create a new version"),
        Some("Forbidden") => ProviderError::new(ErrorCode::Forbidden, format!("get `{name}`")).hint(
            "the identity needs the role Key Vault Secrets User, and the vault's firewall must let you in",
        ),
        _ => unexpected(answer, &format!("get `{name}`")),
    }
}

/// The tenant and resource a token is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scope {
    /// From the challenge; the configured tenant otherwise.
    pub(super) tenant: Option<String>,
    /// `https://vault.azure.net`
    pub(super) resource: String,
}

impl Scope {
    /// The scope every vault of a cloud has.
    fn of_vault(vault: &Url) -> Self {
        let host = vault.host_str().unwrap_or_default();
        let domain = host.split_once('.').map_or(host, |(_, domain)| domain);
        Self { tenant: None, resource: format!("https://{domain}") }
    }

    /// The scope a challenge names, if it is of the vault's own domain: otherwise a vault could ask for tokens of
    /// other services.
    fn of_challenge(challenge: &str, vault: &Url) -> Result<Self, ProviderError> {
        let parameter = |name: &str| {
            challenge
                .split([',', ' '])
                .filter_map(|part| part.trim().split_once('='))
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.trim_matches('"').to_owned())
        };
        let refused = |reason: &str| {
            Err(ProviderError::new(ErrorCode::Unauthenticated, format!("the vault's challenge {reason}"))
                .hint("is `vaultUrl:` really a vault of yours?"))
        };
        let Some(resource) = parameter("resource").or_else(|| parameter("scope")) else {
            return refused("names no resource");
        };
        let resource = resource.trim_end_matches("/.default").trim_end_matches('/').to_owned();
        let host = Url::parse(&resource).ok().and_then(|url| url.host_str().map(str::to_owned));
        let vault_host = vault.host_str().unwrap_or_default();
        let is_own = host.is_some_and(|host| vault_host == host || vault_host.ends_with(&format!(".{host}")));
        if !is_own {
            return refused("asks for a token of another service");
        }
        let authority = parameter("authorization").or_else(|| parameter("authorization_uri"));
        let tenant = authority
            .and_then(|uri| Url::parse(&uri).ok())
            .and_then(|uri| uri.path_segments()?.next().map(str::to_owned));
        Ok(Self { tenant: tenant.filter(|tenant| !tenant.is_empty()), resource })
    }
}

impl Provider for KeyVault {
    fn fetch<'a>(&'a self, locators: &'a [Locator]) -> BoxFuture<'a, FetchOutcomes> {
        fetch_singly(locators, |locator| self.read(locator)).boxed()
    }

    fn list<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Vec<ListEntry>, ProviderError>> {
        async move {
            let mut url = join(&self.vault, "secrets");
            url.query_pairs_mut()
                .append_pair("api-version", &self.api_version)
                .append_pair("maxresults", "25");
            let mut entries = Vec::new();
            for _ in 0..MOST_PAGES {
                let answer = self.get(url.clone()).await?;
                if !answer.status.is_success() {
                    return Err(failure(&answer, "list"));
                }
                let body = answer.json();
                let ids = body.get("value").and_then(Value::as_array).into_iter().flatten();
                let names = ids.filter_map(|entry| entry.get("id")?.as_str()?.rsplit('/').next());
                entries.extend(names.filter(|name| name.starts_with(path)).map(ListEntry::secret));
                let Some(next) = body.get("nextLink").and_then(Value::as_str) else { break };
                let next =
                    slipway_http::parse_url(next).ok().filter(|next| next.origin() == self.vault.origin());
                url = next.ok_or_else(|| {
                    ProviderError::new(ErrorCode::Invalid, "the list goes on at another host")
                        .hint("is `vaultUrl:` really a vault of yours?")
                })?;
            }
            Ok(entries)
        }
        .boxed()
    }

    fn login(&self) -> BoxFuture<'_, Result<LoginInfo, ProviderError>> {
        async move {
            self.tokens.token(&Scope::of_vault(&self.vault)).await?;
            Ok(self.tokens.info().await)
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_of_other_services_are_not_believed() {
        let vault = Url::parse("https://app.vault.azure.net/").unwrap();
        let challenge = |resource: &str| {
            format!(
                "Bearer authorization=\"https://login.microsoftonline.com/tenant-1\", resource=\"{resource}\""
            )
        };
        let scope = Scope::of_challenge(&challenge("https://vault.azure.net"), &vault).unwrap();
        assert_eq!(
            scope,
            Scope { tenant: Some("tenant-1".into()), resource: "https://vault.azure.net".into() }
        );
        for foreign in
            ["https://management.azure.com", "https://azure.net.evil.example", "https://t.azure.net", "x"]
        {
            assert!(Scope::of_challenge(&challenge(foreign), &vault).is_err(), "{foreign}");
        }
        assert!(Scope::of_challenge("Bearer", &vault).is_err());
    }
}
