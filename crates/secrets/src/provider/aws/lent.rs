//! Keys for a while, from whoever lends them: the machine, its container service, single sign-on, a program.

use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use secrecy::ExposeSecret as _;
use serde_json::Value;
use slipway_http::header::HeaderName;
use slipway_http::{Authorization, HeaderValue, HttpRequest, Method};
use url::{Host, Url};

use super::credentials::no_keys;
use super::endpoint_variable;
use super::profile::SsoLogin;
use super::sigv4::AwsKeys;
use crate::config::{ResolveLimits, is_host_word};
use crate::digest::sha1_hex;
use crate::provider::build::BuildContext;
use crate::provider::rest::{RestClient, TlsOptions, join, unexpected};
use crate::provider::{ErrorCode, ProviderError};

/// The address machines of EC2 ask for their role's keys.
const METADATA: &str = "http://169.254.169.254/";
/// The address containers of ECS ask.
const CONTAINER: &str = "http://169.254.170.2/";

/// The names of fields of keys; every lender has its own.
struct KeyFields {
    id: &'static str,
    secret: &'static str,
    token: &'static str,
    expires: &'static str,
}

const MACHINE_FIELDS: KeyFields =
    KeyFields { id: "AccessKeyId", secret: "SecretAccessKey", token: "Token", expires: "Expiration" };
const PROGRAM_FIELDS: KeyFields = KeyFields { token: "SessionToken", ..MACHINE_FIELDS };
const SSO_FIELDS: KeyFields =
    KeyFields { id: "accessKeyId", secret: "secretAccessKey", token: "sessionToken", expires: "expiration" };

impl KeyFields {
    fn read(&self, keys: &Value) -> Option<AwsKeys> {
        let text = |key: &str| keys.get(key).and_then(Value::as_str);
        let expires = keys.get(self.expires).and_then(|time| match time {
            Value::Number(number) => Timestamp::from_millisecond(number.as_i64()?).ok(),
            _ => time.as_str()?.parse().ok(),
        });
        Some(AwsKeys {
            access_key_id: text(self.id)?.to_owned(),
            secret_access_key: text(self.secret)?.to_owned().into(),
            session_token: text(self.token).map(|token| token.to_owned().into()),
            expires,
        })
    }
}

impl BuildContext {
    /// Keys a program prints (`credential_process` of a profile).
    pub(super) async fn program_keys(&self, words: &[String]) -> Result<AwsKeys, ProviderError> {
        let output = self.command_output(words).await?;
        let body: Value = serde_json::from_str(output.expose_secret()).unwrap_or_default();
        let wrong = || {
            ProviderError::new(ErrorCode::Invalid, "credential_process printed no keys of version 1")
                .hint("it prints {\"Version\":1,\"AccessKeyId\":…,\"SecretAccessKey\":…}")
        };
        if body.get("Version").and_then(Value::as_u64) != Some(1) {
            return Err(wrong());
        }
        PROGRAM_FIELDS.read(&body).ok_or_else(wrong)
    }

    /// Keys for the token that `aws sso login` left.
    pub(super) async fn sso_keys(&self, login: &SsoLogin) -> Result<AwsKeys, ProviderError> {
        let expired = || {
            let reason = format!("the single sign-on of the AWS profile `{}` has expired", login.profile);
            ProviderError::new(ErrorCode::Unauthenticated, reason)
                .hint(format!("run `aws sso login --profile {}`", login.profile))
        };
        let name = format!(".aws/sso/cache/{}.json", sha1_hex(login.cache_key.as_bytes()));
        let file = self.environment.in_home(&name).filter(|path| path.is_file()).ok_or_else(expired)?;
        let cached: Value =
            serde_json::from_str(self.secret_file(&file)?.expose_secret()).unwrap_or_default();
        let text = |key: &str| cached.get(key).and_then(Value::as_str);
        let is_current = text("expiresAt")
            .and_then(|time| time.replace("UTC", "Z").parse::<Timestamp>().ok())
            .is_some_and(|at| at > self.clock.now());
        let token = self.hide(text("accessToken").filter(|_| is_current).ok_or_else(expired)?);
        if !is_host_word(&login.region) {
            return Err(ProviderError::new(
                ErrorCode::Config,
                "the sso_region has characters it cannot have",
            )
            .hint("a region is a name such as eu-west-1"));
        }
        let portal = match endpoint_variable(self) {
            Some(url) => url,
            None => {
                let host = format!("https://portal.sso.{0}.{1}/", login.region, super::domain(&login.region));
                parse(&host)?
            }
        };
        let mut url = join(&portal, "federation/credentials");
        url.query_pairs_mut().append_pair("role_name", &login.role).append_pair("account_id", &login.account);
        let mut request = HttpRequest::new(Method::GET, url);
        let header = HeaderName::from_static("x-amz-sso_bearer_token");
        let origin = request.url.origin();
        request.authorization =
            Some(Authorization::from_header(header, token.expose_secret(), origin).map_err(|_| expired())?);
        let answer =
            RestClient::new(self.limits, &self.network, TlsOptions::default())?.send(&request).await?;
        match answer.status.as_u16() {
            200 => {
                let body = answer.json();
                let keys = body.get("roleCredentials").and_then(|keys| SSO_FIELDS.read(keys));
                keys.ok_or_else(|| {
                    ProviderError::new(ErrorCode::Invalid, "single sign-on gave no keys")
                        .hint("try again; if it stays, the answer is damaged on its way")
                })
            }
            401 => Err(expired()),
            403 | 404 => Err(ProviderError::new(
                ErrorCode::Forbidden,
                format!("single sign-on refused the role {} of the account {}", login.role, login.account),
            )
            .hint("look at sso_account_id and sso_role_name of the profile")),
            _ => Err(unexpected(&answer, "single sign-on")),
        }
    }

    /// Keys of the container's role: ECS, or a pod identity of EKS. None where there is no container service.
    pub(super) async fn container_keys(&self) -> Result<Option<AwsKeys>, ProviderError> {
        let environment = &self.environment;
        let url = match environment.text("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") {
            Some(path) => join(&parse(CONTAINER)?, path),
            None => match environment.text("AWS_CONTAINER_CREDENTIALS_FULL_URI") {
                Some(url) => parse(url)?,
                None => return Ok(None),
            },
        };
        if !is_container_service(&url) {
            return Err(ProviderError::new(
                ErrorCode::Config,
                "AWS_CONTAINER_CREDENTIALS_FULL_URI is no address of a container service",
            )
            .hint("it is https, or an address of this machine"));
        }
        let mut request = HttpRequest::new(Method::GET, url);
        let token = match environment.text("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
            Some(file) => Some(self.secret_file(std::path::Path::new(file))?),
            None => environment.secret("AWS_CONTAINER_AUTHORIZATION_TOKEN").cloned(),
        };
        if let Some(token) = token {
            let name = slipway_http::header::AUTHORIZATION;
            let origin = request.url.origin();
            let header = Authorization::from_header(name, token.expose_secret(), origin);
            request.authorization = Some(header.map_err(|_| no_keys())?);
        }
        let answer =
            RestClient::new(self.limits, &self.network, TlsOptions::default())?.send(&request).await?;
        if !answer.status.is_success() {
            return Err(unexpected(&answer, "the container's credentials"));
        }
        MACHINE_FIELDS.read(&answer.json()).ok_or_else(no_keys).map(Some)
    }

    /// Keys of the machine's role (IMDSv2). No credential is sent for them.
    pub(super) async fn machine_keys(&self) -> Result<AwsKeys, ProviderError> {
        if self.environment.text("AWS_EC2_METADATA_DISABLED") == Some("true") {
            return Err(no_keys());
        }
        let base = self.environment.text("AWS_EC2_METADATA_SERVICE_ENDPOINT").unwrap_or(METADATA);
        let base = slipway_http::parse_url(base).map_err(|_| no_keys())?;
        // Elsewhere nobody answers there, so the wait is short.
        let limits = ResolveLimits { timeout: Duration::from_secs(1), retries: 0, ..self.limits };
        let rest = RestClient::new(limits, &self.network, TlsOptions::default())?;
        let ask = |method, path: &str, header: (&'static str, String)| {
            let mut request = HttpRequest::new(method, join(&base, path));
            if let Ok(value) = HeaderValue::from_str(&header.1) {
                request.headers.insert(HeaderName::from_static(header.0), value);
            }
            request
        };
        let none = |error: ProviderError| match error.code {
            ErrorCode::Interrupted => error,
            _ => no_keys(),
        };
        let ttl = ("x-aws-ec2-metadata-token-ttl-seconds", "300".to_owned());
        let token = rest.send(&ask(Method::PUT, "latest/api/token", ttl)).await.map_err(none)?;
        let session = ("x-aws-ec2-metadata-token", token.text());
        const ROLES: &str = "latest/meta-data/iam/security-credentials";
        let role = rest.send(&ask(Method::GET, ROLES, session.clone())).await.map_err(none)?;
        let role = role.text().lines().next().unwrap_or_default().to_owned();
        let keys = rest.send(&ask(Method::GET, &format!("{ROLES}/{role}"), session)).await.map_err(none)?;
        MACHINE_FIELDS.read(&keys.json()).ok_or_else(no_keys)
    }
}

fn parse(text: &str) -> Result<Url, ProviderError> {
    slipway_http::parse_url(text).map_err(|error| ProviderError::new(ErrorCode::Config, error.to_string()))
}

/// Tells that an address may be asked for keys: over TLS, or without leaving the machine.
fn is_container_service(url: &Url) -> bool {
    const SERVICES: [&str; 3] = ["169.254.170.2", "169.254.170.23", "fd00:ec2::23"];
    let is_service = |address: IpAddr| {
        address.is_loopback() || SERVICES.iter().any(|service| service.parse() == Ok(address))
    };
    match (url.scheme(), url.host()) {
        ("https", _) => true,
        (_, Some(Host::Ipv4(address))) => is_service(address.into()),
        (_, Some(Host::Ipv6(address))) => is_service(address.into()),
        (_, host) => matches!(host, Some(Host::Domain("localhost"))),
    }
}
