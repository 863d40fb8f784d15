//! AWS Security Token Service: who we are, and becoming a role.

use secrecy::SecretString;
use url::Url;

use super::profile::AwsRole;
use super::sigv4::{AwsKeys, SigningScope, signed_headers};
use super::{domain, signed_request};
use crate::provider::build::BuildContext;
use crate::provider::rest::{RestAnswer, RestClient, TlsOptions, form_request, unexpected};
use crate::provider::{ErrorCode, ProviderError};

const VERSION: &str = "2011-06-15";

pub(crate) struct StsClient {
    rest: RestClient,
    url: Url,
    region: String,
    context: BuildContext,
}

impl StsClient {
    pub(crate) fn new(
        region: String,
        endpoint: Option<Url>,
        context: BuildContext,
    ) -> Result<Self, ProviderError> {
        let rest = RestClient::new(context.limits, &context.network, TlsOptions::default())?;
        let url = match endpoint {
            Some(url) => url,
            None => slipway_http::parse_url(&format!("https://sts.{region}.{}/", domain(&region)))
                .map_err(|error| ProviderError::new(ErrorCode::Config, error.to_string()))?,
        };
        Ok(Self { rest, url, region, context })
    }

    /// The ARN of the keys' owner.
    pub(crate) async fn caller(&self, keys: &AwsKeys) -> Result<String, ProviderError> {
        let answer = self.signed(keys, &[("Action", "GetCallerIdentity"), ("Version", VERSION)]).await?;
        let arn = element(&answer.text(), "Arn").map(str::to_owned);
        arn.ok_or_else(|| ProviderError::new(ErrorCode::Invalid, "STS did not say who we are"))
    }

    pub(crate) async fn assume_role(&self, keys: &AwsKeys, role: &AwsRole) -> Result<AwsKeys, ProviderError> {
        let mut form = vec![("Action", "AssumeRole"), ("Version", VERSION), ("RoleArn", role.arn.as_str())];
        form.push(("RoleSessionName", role.session_name.as_deref().unwrap_or("slipway")));
        form.extend(role.external_id.as_deref().map(|id| ("ExternalId", id)));
        role_keys(&self.signed(keys, &form).await?)
    }

    /// The token itself is the proof, so the request is not signed.
    pub(crate) async fn assume_role_with_web_identity(
        &self,
        token: &str,
        role: &AwsRole,
    ) -> Result<AwsKeys, ProviderError> {
        let name = role.session_name.as_deref().unwrap_or("slipway");
        let form = [
            ("Action", "AssumeRoleWithWebIdentity"),
            ("Version", VERSION),
            ("RoleArn", role.arn.as_str()),
            ("RoleSessionName", name),
            ("WebIdentityToken", token),
        ];
        let answer = self.rest.send(&form_request(self.url.clone(), &form)).await?;
        role_keys(&checked(answer)?)
    }

    async fn signed(&self, keys: &AwsKeys, form: &[(&str, &str)]) -> Result<RestAnswer, ProviderError> {
        let plain = form_request(self.url.clone(), form);
        let content = plain.content.unwrap_or_default();
        let headers = [("Content-Type".to_owned(), "application/x-www-form-urlencoded".to_owned())];
        let scope = SigningScope { region: &self.region, service: "sts", now: self.context.clock.now() };
        let signed = signed_headers(&scope, keys, "POST", &self.url, &headers, &content);
        checked(self.rest.send(&signed_request(self.url.clone(), &signed, content)?).await?)
    }
}

fn checked(answer: RestAnswer) -> Result<RestAnswer, ProviderError> {
    if answer.status.is_success() {
        return Ok(answer);
    }
    let text = answer.text();
    let code = element(&text, "Code").unwrap_or_default();
    let known: String = code.chars().filter(char::is_ascii_alphanumeric).take(60).collect();
    let error = unexpected(&answer, "STS");
    let error = ProviderError::new(
        if error.code == ErrorCode::Invalid { ErrorCode::Unauthenticated } else { error.code },
        format!("STS refused: {known}"),
    );
    Err(error.hint("look at the role's trust policy and at the credentials"))
}

fn role_keys(answer: &RestAnswer) -> Result<AwsKeys, ProviderError> {
    let text = answer.text();
    let missing = || ProviderError::new(ErrorCode::Invalid, "STS gave no credentials");
    let get = |name: &str| element(&text, name).map(str::to_owned);
    Ok(AwsKeys {
        access_key_id: get("AccessKeyId").ok_or_else(missing)?,
        secret_access_key: get("SecretAccessKey").map(SecretString::from).ok_or_else(missing)?,
        session_token: get("SessionToken").map(SecretString::from),
        expires: get("Expiration").and_then(|time| time.parse().ok()),
    })
}

/// The text of an XML element that has no attributes and no children; enough for answers of STS.
fn element<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let (_, after) = text.split_once(&format!("<{name}>"))?;
    after.split_once(&format!("</{name}>")).map(|(inner, _)| inner)
}
