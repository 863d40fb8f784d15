//! Workload identity federation: a token of somebody else (a CI service, another cloud) traded for Google's.

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use slipway_http::header::HeaderName;
use slipway_http::{HeaderValue, HttpRequest, Method};

use crate::config::AwsSettings;
use crate::provider::aws::credentials::AwsCredentialChain;
use crate::provider::aws::sigv4::{SigningScope, signed_headers};
use crate::provider::build::BuildContext;
use crate::provider::rest::{RestClient, unexpected};
use crate::provider::{ErrorCode, ProviderError};

/// Where Google's service checks who calls, in the form of files for AWS.
const AWS_VERIFICATION: &str =
    "https://sts.{region}.amazonaws.com?Action=GetCallerIdentity&Version=2011-06-15";

/// The token to trade, as a file of the type `external_account` says where to find it.
pub(super) async fn subject_token(
    file: &Value,
    rest: &RestClient,
    context: &BuildContext,
) -> Result<SecretString, ProviderError> {
    let config = |reason: &str, hint: &str| ProviderError::new(ErrorCode::Config, reason).hint(hint);
    let source = file.get("credential_source").cloned().unwrap_or_default();
    let text = |key: &str| source.get(key).and_then(Value::as_str);
    if text("environment_id").is_some() {
        return aws_token(file, &source, context).await;
    }
    if let Some(path) = text("file") {
        let content = context.secret_file(std::path::Path::new(path))?;
        return formatted(&source, content.expose_secret(), context);
    }
    if let Some(address) = text("url") {
        let url = slipway_http::parse_url(address)
            .map_err(|error| ProviderError::new(ErrorCode::Config, error.to_string()))?;
        let mut request = HttpRequest::new(Method::GET, url);
        for (name, value) in source.get("headers").and_then(Value::as_object).into_iter().flatten() {
            let header = name
                .parse::<HeaderName>()
                .ok()
                .zip(HeaderValue::from_str(value.as_str().unwrap_or_default()).ok());
            let (name, value) = header.ok_or_else(|| {
                config("a header of the credential source cannot be sent", "look at `headers`")
            })?;
            request.headers.insert(name, value);
        }
        let answer = rest.send(&request).await?;
        if !answer.status.is_success() {
            return Err(unexpected(&answer, "the token of the workload"));
        }
        return formatted(&source, &answer.text(), context);
    }
    Err(config(
        "the workload identity file names no source of tokens that is supported",
        "`file`, `url` and AWS are; `executable` and `certificate` are not",
    ))
}

/// The token in what the source gave: the text, or a field of it.
fn formatted(source: &Value, content: &str, context: &BuildContext) -> Result<SecretString, ProviderError> {
    let format = source.get("format").cloned().unwrap_or_default();
    let text = |key: &str| format.get(key).and_then(Value::as_str);
    let token = match (text("type").unwrap_or("text"), text("subject_token_field_name")) {
        ("text", _) => Some(content.trim().to_owned()),
        ("json", Some(field)) => serde_json::from_str::<Value>(content)
            .ok()
            .and_then(|content| content.get(field)?.as_str().map(str::to_owned)),
        _ => None,
    };
    let token = token.filter(|token| !token.is_empty()).ok_or_else(|| {
        ProviderError::new(ErrorCode::Unauthenticated, "the workload's source has no token")
            .hint("look at `credential_source.format` of the workload identity file")
    })?;
    Ok(context.hide(&token))
}

/// A request to AWS that Google sends in our name to learn who we are.
async fn aws_token(
    file: &Value,
    source: &Value,
    context: &BuildContext,
) -> Result<SecretString, ProviderError> {
    let chain = AwsCredentialChain::new(AwsSettings::default(), context.clone())?;
    let region = chain.region().map(str::to_owned).ok_or_else(|| {
        ProviderError::new(ErrorCode::Config, "the AWS region of the workload is not known")
            .hint("set AWS_REGION")
    })?;
    let keys = chain.credentials().await?;
    let template = source.get("regional_cred_verification_url").and_then(Value::as_str);
    let address = template.unwrap_or(AWS_VERIFICATION).replace("{region}", &region);
    let url = slipway_http::parse_url(&address)
        .map_err(|error| ProviderError::new(ErrorCode::Config, error.to_string()))?;
    let audience = file.get("audience").and_then(Value::as_str).unwrap_or_default();
    let target = ("x-goog-cloud-target-resource".to_owned(), audience.to_owned());
    let scope = SigningScope { region: &region, service: "sts", now: context.clock.now() };
    let headers = signed_headers(&scope, &keys, "POST", &url, &[target], b"");
    let headers: Vec<Value> =
        headers.into_iter().map(|(name, value)| json!({"key": name, "value": value})).collect();
    let request = json!({"url": url.as_str(), "method": "POST", "headers": headers}).to_string();
    let encoded: String = url::form_urlencoded::byte_serialize(request.as_bytes()).collect();
    // Google decodes it as a part of an address, where `+` is no space.
    Ok(context.hide(&encoded.replace('+', "%20")))
}
