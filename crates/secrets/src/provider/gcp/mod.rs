//! Google Cloud Secret Manager: versions by number or `latest`, global or regional.
//!
//! A path is `name`, `project/name`, or the full resource name.

mod federation;
mod token;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::Value;
use slipway_http::header::HeaderName;
use slipway_http::{Authorization, HeaderValue, HttpRequest, Method};
use url::Url;

use self::token::GoogleTokens;
use super::build::BuildContext;
use super::rest::{RestAnswer, RestClient, TlsOptions, join, unexpected};
use super::{
    ErrorCode, FetchOutcomes, FetchedSecret, ListEntry, LoginInfo, Provider, ProviderError, fetch_singly,
};
use crate::config::{GcpSettings, is_host_word};
use crate::digest::crc32c;
use crate::material::SecretContent;
use crate::reference::Locator;

const MOST_PAGES: usize = 100;

pub(crate) struct SecretManager {
    rest: RestClient,
    base: Url,
    project: Option<String>,
    location: Option<String>,
    quota_project: Option<String>,
    tokens: GoogleTokens,
}

impl SecretManager {
    pub(crate) fn new(settings: GcpSettings, context: BuildContext) -> Result<Self, ProviderError> {
        let rest = RestClient::new(context.limits, &context.network, TlsOptions::default())?;
        let host = match &settings.location {
            Some(location) => format!("https://secretmanager.{location}.rep.googleapis.com/"),
            None => "https://secretmanager.googleapis.com/".to_owned(),
        };
        let usual = slipway_http::parse_url(&host)
            .map_err(|error| ProviderError::new(ErrorCode::Config, error.to_string()))?;
        let base = settings.endpoint.clone().unwrap_or(usual);
        let environment = &context.environment;
        let variables = ["GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT"];
        let from_variable =
            variables.iter().find_map(|name| environment.text(name)).filter(|name| is_host_word(name));
        let project = settings.project.clone().or_else(|| from_variable.map(str::to_owned));
        Ok(Self {
            tokens: GoogleTokens::new(&settings, &base, rest.clone(), context),
            rest,
            base,
            project,
            location: settings.location,
            quota_project: settings.quota_project,
        })
    }

    /// `projects/P/secrets/NAME` of a path.
    fn resource(&self, path: &str) -> Result<String, ProviderError> {
        let path = path.trim_matches('/');
        if path.starts_with("projects/") {
            return Ok(path.to_owned());
        }
        let (project, name) = match path.split_once('/') {
            Some((project, name)) => (Some(project.to_owned()), name),
            None => (self.project.clone(), path),
        };
        let project = project.ok_or_else(|| {
            ProviderError::new(ErrorCode::Config, "the project is not known")
                .hint("set `project:` of the provider, GOOGLE_CLOUD_PROJECT, or write `project/name`")
        })?;
        if name.contains('/') {
            return Err(ProviderError::new(ErrorCode::Invalid, format!("`{path}` is no name of a secret"))
                .hint("write `name`, `project/name` or `projects/P/secrets/NAME`"));
        }
        let place =
            self.location.as_ref().map(|location| format!("/locations/{location}")).unwrap_or_default();
        Ok(format!("projects/{project}{place}/secrets/{name}"))
    }

    async fn get(&self, url: Url) -> Result<RestAnswer, ProviderError> {
        let mut request = HttpRequest::new(Method::GET, url);
        if let Some(token) = self.tokens.token().await? {
            let authorization = Authorization::from_token(&token, request.url.origin());
            request.authorization = Some(
                authorization.map_err(|error| ProviderError::new(ErrorCode::Config, error.to_string()))?,
            );
        }
        if let Some(project) = self.quota_project.as_deref().and_then(|name| HeaderValue::from_str(name).ok())
        {
            request.headers.insert(HeaderName::from_static("x-goog-user-project"), project);
        }
        self.rest.send(&request).await
    }

    async fn read(&self, locator: &Locator) -> Result<FetchedSecret, ProviderError> {
        if locator.stage.is_some() {
            let error = ProviderError::new(ErrorCode::Invalid, "Google's secrets have no stages");
            return Err(error.hint("use `?version=` with a number, an alias or `latest`"));
        }
        let version = locator.version.as_deref().unwrap_or("latest");
        let name = format!("{}/versions/{version}", self.resource(&locator.path)?);
        let mut url = join(&self.base, &format!("v1/{name}"));
        url.set_path(&format!("{}:access", url.path()));
        let answer = self.get(url).await?;
        if !answer.status.is_success() {
            return Err(failure(&answer, &name));
        }
        let body = answer.json();
        let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str);
        let invalid = |reason: String| {
            ProviderError::new(ErrorCode::Invalid, reason)
                .hint("try again; if it stays, the answer is damaged on its way")
        };
        let data = text("/payload/data").ok_or_else(|| invalid(format!("{name} has no data")))?;
        let data = STANDARD.decode(data).map_err(|_| invalid(format!("the data of {name} is no base64")))?;
        let promised = body
            .pointer("/payload/dataCrc32c")
            .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        if promised.is_some_and(|promised| promised != crc32c(&data).to_string()) {
            return Err(invalid(format!("the checksum of {name} does not fit its data")));
        }
        let version = text("/name").and_then(|name| name.rsplit('/').next()).map(str::to_owned);
        Ok(FetchedSecret::new(SecretContent::bytes(data), version))
    }
}

fn failure(answer: &RestAnswer, name: &str) -> ProviderError {
    let body = answer.json();
    match body.pointer("/error/status").and_then(Value::as_str) {
        Some("FAILED_PRECONDITION") => {
            ProviderError::new(ErrorCode::NotFound, format!("{name} is disabled or destroyed")).hint(
                "`latest` is the version created last, even if it is disabled: enable it, or pin `?version=`",
            )
        }
        Some("NOT_FOUND") => {
            ProviderError::new(ErrorCode::NotFound, name.to_owned()).hint("look at the name and the project")
        }
        Some("PERMISSION_DENIED") => ProviderError::new(ErrorCode::Forbidden, format!("access {name}"))
            .hint("the identity needs secretmanager.versions.access (role Secret Manager Secret Accessor)"),
        _ => unexpected(answer, &format!("access {name}")),
    }
}

impl Provider for SecretManager {
    fn fetch<'a>(&'a self, locators: &'a [Locator]) -> BoxFuture<'a, FetchOutcomes> {
        fetch_singly(locators, |locator| self.read(locator)).boxed()
    }

    fn list<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Vec<ListEntry>, ProviderError>> {
        async move {
            let resource = self.resource("x")?;
            let parent = resource.strip_suffix("/x").unwrap_or(&resource).to_owned();
            let mut entries = Vec::new();
            let mut page: Option<String> = None;
            for _ in 0..MOST_PAGES {
                let mut url = join(&self.base, &format!("v1/{parent}"));
                url.query_pairs_mut().append_pair("pageSize", "250");
                if !path.is_empty() {
                    url.query_pairs_mut().append_pair("filter", &format!("name:{path}"));
                }
                if let Some(token) = &page {
                    url.query_pairs_mut().append_pair("pageToken", token);
                }
                let answer = self.get(url).await?;
                if !answer.status.is_success() {
                    return Err(failure(&answer, &parent));
                }
                let body = answer.json();
                let names = body.get("secrets").and_then(Value::as_array).into_iter().flatten();
                let names = names.filter_map(|secret| secret.get("name")?.as_str()?.rsplit('/').next());
                entries.extend(names.map(ListEntry::secret));
                page = body
                    .get("nextPageToken")
                    .and_then(Value::as_str)
                    .filter(|token| !token.is_empty())
                    .map(str::to_owned);
                if page.is_none() {
                    break;
                }
            }
            Ok(entries)
        }
        .boxed()
    }

    fn login(&self) -> BoxFuture<'_, Result<LoginInfo, ProviderError>> {
        self.tokens.login().boxed()
    }
}
