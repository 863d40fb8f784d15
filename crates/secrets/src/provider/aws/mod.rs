//! Amazon's services: signed JSON calls.

pub(crate) mod credentials;
pub(crate) mod ini;
mod lent;
pub(crate) mod parameters;
pub(crate) mod profile;
pub(crate) mod secrets_manager;
pub(crate) mod sigv4;
pub(crate) mod sts;

use serde_json::Value;
use slipway_http::header::HeaderName;
use slipway_http::{HeaderValue, HttpRequest, Method};
use url::Url;

use self::credentials::AwsCredentialChain;
use self::sigv4::{SigningScope, signed_headers};
use super::build::BuildContext;
use super::rest::{RestAnswer, RestClient, TlsOptions};
use super::{ErrorCode, LoginInfo, ProviderError};
use crate::config::AwsSettings;

/// One of Amazon's JSON services.
pub(crate) struct AwsService {
    rest: RestClient,
    endpoint: Url,
    region: String,
    /// As signatures name it: `secretsmanager`.
    service: &'static str,
    /// Before the action's name: `AmazonSSM`.
    target: &'static str,
    chain: AwsCredentialChain,
    context: BuildContext,
}

impl AwsService {
    pub(crate) fn new(
        settings: AwsSettings,
        context: BuildContext,
        service: &'static str,
        target: &'static str,
    ) -> Result<Self, ProviderError> {
        let rest = RestClient::new(context.limits, &context.network, TlsOptions::default())?;
        let custom = settings.endpoint.clone().or_else(|| endpoint_variable(&context));
        let chain = AwsCredentialChain::new(settings, context.clone())?;
        let region = chain.region().map(str::to_owned).ok_or_else(|| {
            ProviderError::new(ErrorCode::Config, "the region is not known")
                .hint("set `region:` of the provider, or AWS_REGION")
        })?;
        let endpoint = match custom {
            Some(url) => url,
            None => slipway_http::parse_url(&format!("https://{service}.{region}.{}/", domain(&region)))
                .map_err(|error| ProviderError::new(ErrorCode::Config, error.to_string()))?,
        };
        Ok(Self { rest, endpoint, region, service, target, chain, context })
    }

    /// Calls an action.
    pub(crate) async fn call(&self, action: &str, body: &Value) -> Result<Value, AwsError> {
        let keys = self.chain.credentials().await.map_err(AwsError::Local)?;
        let content = body.to_string().into_bytes();
        let headers = vec![
            ("Content-Type".to_owned(), "application/x-amz-json-1.1".to_owned()),
            ("X-Amz-Target".to_owned(), format!("{}.{action}", self.target)),
        ];
        let scope =
            SigningScope { region: &self.region, service: self.service, now: self.context.clock.now() };
        let signed = signed_headers(&scope, &keys, "POST", &self.endpoint, &headers, &content);
        let request = signed_request(self.endpoint.clone(), &signed, content).map_err(AwsError::Local)?;
        let answer = self.rest.send_unless(&request, is_throttled).await.map_err(AwsError::Local)?;
        if answer.status.is_success() {
            Ok(answer.json())
        } else {
            Err(AwsError::Refused(AwsRefusal::read(&answer)))
        }
    }

    /// Collects the names on every page of a listing whose entries are under `list`.
    pub(crate) async fn list_names(
        &self,
        action: &str,
        list: &str,
        mut body: Value,
    ) -> Result<Vec<String>, AwsError> {
        let mut names = Vec::new();
        for _ in 0..MOST_PAGES {
            let answer = self.call(action, &body).await?;
            let entries = answer.get(list).and_then(Value::as_array).into_iter().flatten();
            let found = entries.filter_map(|entry| entry.get("Name").and_then(Value::as_str));
            names.extend(found.map(str::to_owned));
            match answer.get("NextToken").filter(|token| token.is_string()) {
                Some(token) => body["NextToken"] = token.clone(),
                None => break,
            }
        }
        Ok(names)
    }

    /// Asks STS who we are.
    pub(crate) async fn login(&self) -> Result<LoginInfo, ProviderError> {
        self.chain.caller().await
    }
}

/// `AWS_ENDPOINT_URL`: the user's own setting, as the SDKs read it.
fn endpoint_variable(context: &BuildContext) -> Option<Url> {
    context.environment.text("AWS_ENDPOINT_URL").and_then(|text| slipway_http::parse_url(text).ok())
}

/// The domain of a region's services.
pub(crate) fn domain(region: &str) -> &'static str {
    if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" }
}

/// A request whose headers are signed already. The signature is bound to its host.
pub(crate) fn signed_request(
    url: Url,
    signed: &[(String, String)],
    content: Vec<u8>,
) -> Result<HttpRequest, ProviderError> {
    let mut request = HttpRequest::new(Method::POST, url);
    request.content = Some(content);
    for (name, value) in signed {
        let wrong = || {
            ProviderError::new(ErrorCode::Config, format!("the header {name} has characters it cannot have"))
        };
        if name.eq_ignore_ascii_case("host") {
            continue;
        }
        if name.eq_ignore_ascii_case("authorization") {
            let authorization = slipway_http::Authorization::from_header(
                slipway_http::header::AUTHORIZATION,
                value,
                request.url.origin(),
            );
            request.authorization = Some(authorization.map_err(|_| wrong())?);
            continue;
        }
        let name: HeaderName = name.parse().map_err(|_| wrong())?;
        request.headers.insert(name, HeaderValue::from_str(value).map_err(|_| wrong())?);
    }
    Ok(request)
}

/// The end of a call that gave no result.
#[derive(Clone, Debug)]
pub(crate) enum AwsError {
    /// No answer came.
    Local(ProviderError),
    Refused(AwsRefusal),
}

/// The most pages of a listing that are read.
const MOST_PAGES: usize = 100;

/// An answer of AWS that is an error.
#[derive(Clone, Debug)]
pub(crate) struct AwsRefusal {
    /// `ResourceNotFoundException`
    pub(crate) kind: String,
    pub(crate) status: u16,
    /// Set when a secret waits to be deleted. AWS has no code of its own for that, only words.
    pub(crate) is_deleted: bool,
}

impl AwsRefusal {
    fn read(answer: &RestAnswer) -> Self {
        let body = answer.json();
        let text = |key: &str| body.get(key).and_then(Value::as_str).unwrap_or_default();
        let kind =
            text("__type").rsplit('#').next().unwrap_or_default().split(':').next().unwrap_or_default();
        let message = format!("{}{}", text("message"), text("Message")).to_lowercase();
        Self { kind: kind.to_owned(), status: answer.status.as_u16(), is_deleted: message.contains("delet") }
    }

    /// The refusal in our terms; `doing` names action and secret.
    pub(crate) fn error(&self, doing: &str) -> ProviderError {
        let kind = if self.kind.is_empty() { format!("HTTP {}", self.status) } else { self.kind.clone() };
        let (code, hint) = match self.kind.as_str() {
            "ResourceNotFoundException" | "ParameterNotFound" | "ParameterVersionNotFound" => {
                (ErrorCode::NotFound, "look at the name, the region and the account")
            }
            "InvalidRequestException" if self.is_deleted => {
                let error =
                    ProviderError::new(ErrorCode::NotFound, format!("{doing}: scheduled for deletion"));
                return error.hint("restore it: `aws secretsmanager restore-secret`");
            }
            "AccessDeniedException" | "AccessDenied" => {
                (ErrorCode::Forbidden, "the identity's policy must allow this action on this secret")
            }
            "DecryptionFailure" | "KMSAccessDeniedException" => {
                (ErrorCode::Forbidden, "the identity needs kms:Decrypt on the key")
            }
            "UnrecognizedClientException"
            | "InvalidSignatureException"
            | "ExpiredTokenException"
            | "InvalidClientTokenId"
            | "SignatureDoesNotMatch" => {
                (ErrorCode::Unauthenticated, "the credentials are wrong or have expired; is the clock right?")
            }
            kind if is_throttling(kind) => {
                (ErrorCode::RateLimited, "AWS is throttling: lower `secrets.limits.concurrency`")
            }
            _ if self.status >= 500 => (ErrorCode::Unavailable, "AWS is in trouble: try again later"),
            _ => (ErrorCode::Invalid, "look at the provider's settings"),
        };
        ProviderError::new(code, format!("{doing}: {kind}")).hint(hint)
    }
}

impl AwsError {
    pub(crate) fn error(&self, doing: &str) -> ProviderError {
        match self {
            Self::Local(error) => error.clone(),
            Self::Refused(refusal) => refusal.error(doing),
        }
    }

    pub(crate) fn is_access_denied(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.kind == "AccessDeniedException")
    }
}

fn is_throttling(kind: &str) -> bool {
    matches!(kind, "ThrottlingException" | "Throttling" | "TooManyRequestsException" | "RequestLimitExceeded")
}

fn is_throttled(answer: &RestAnswer) -> bool {
    answer.status.as_u16() == 400 && is_throttling(&AwsRefusal::read(answer).kind)
        || answer.status.as_u16() == 503
}
