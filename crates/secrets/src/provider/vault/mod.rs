//! HashiCorp Vault and OpenBao: key-value engines 1 and 2, and raw reads of other engines with leases.
//!
//! * `app/db` is a path of the configured mount, `mount:team-kv/app/db` one of another mount.
//! * `read:database/creds/ro` reads any path as it is.

mod login;

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use slipway_http::{HeaderName, HeaderValue, HttpRequest, Method};
use url::Url;

use self::login::TokenKeeper;
use super::build::BuildContext;
use super::rest::{RestAnswer, RestClient, TlsOptions, join, json_request, unexpected};
use super::{
    ErrorCode, FetchOutcomes, FetchedSecret, ListEntry, LoginInfo, LogoutOutcome, Provider, ProviderError,
    fetch_singly,
};
use crate::config::{KvVersion, VaultSettings};
use crate::material::SecretContent;
use crate::reference::Locator;

pub(crate) struct VaultProvider {
    connection: VaultConnection,
    mount: String,
    kv_version: KvVersion,
    tokens: TokenKeeper,
    /// Versions of mounts that were asked for.
    versions: Mutex<HashMap<String, KvVersion>>,
}

/// The way to a cluster of servers.
pub(crate) struct VaultConnection {
    rest: RestClient,
    /// At least one.
    addresses: Vec<Url>,
    /// The one that answered last; the others are tried when it does not.
    current: AtomicUsize,
    namespace: Option<String>,
}

/// A path with the engine that holds it.
enum VaultPath<'p> {
    Kv { mount: &'p str, path: &'p str },
    Raw(&'p str),
}

impl VaultProvider {
    pub(crate) fn new(settings: VaultSettings, context: BuildContext) -> Result<Self, ProviderError> {
        let config = |reason: String, hint: &str| ProviderError::new(ErrorCode::Config, reason).hint(hint);
        let from_variable = ["VAULT_ADDR", "BAO_ADDR"].iter().find_map(|name| context.environment.text(name));
        let mut addresses = settings.addresses;
        if let (true, Some(text)) = (addresses.is_empty(), from_variable) {
            addresses.push(slipway_http::parse_url(text).map_err(|error| {
                config(error.to_string(), "VAULT_ADDR is an address such as https://vault:8200")
            })?);
        }
        if addresses.is_empty() {
            let hint = "set `address:` of the provider, or VAULT_ADDR";
            return Err(config("it has no address".to_owned(), hint));
        }
        let ca = settings.ca_cert.as_deref().map(|path| {
            slipway_problem::read_file(path).map_err(|error| {
                config(format!("cannot read {}: {error}", path.display()), slipway_problem::read_hint(&error))
            })
        });
        let tls = TlsOptions { ca: ca.transpose()?, skip_verify: settings.tls_skip_verify };
        let rest = RestClient::new(context.limits, &context.network, tls)?;
        let namespace =
            settings.namespace.or_else(|| context.environment.text("VAULT_NAMESPACE").map(str::to_owned));
        Ok(Self {
            connection: VaultConnection { rest, addresses, current: AtomicUsize::new(0), namespace },
            mount: settings.mount,
            kv_version: settings.kv_version,
            tokens: TokenKeeper::new(settings.auth, settings.auth_mount, context),
            versions: Mutex::default(),
        })
    }

    fn path<'p>(&'p self, path: &'p str) -> VaultPath<'p> {
        let path = path.trim_matches('/');
        if let Some(raw) = path.strip_prefix("read:") {
            return VaultPath::Raw(raw);
        }
        match path.strip_prefix("mount:").and_then(|rest| rest.split_once('/')) {
            Some((mount, path)) => VaultPath::Kv { mount, path },
            None => VaultPath::Kv { mount: &self.mount, path },
        }
    }

    /// Asks with a token; once more with a new one when an old token was refused.
    async fn ask(&self, path: &str, query: &[(&str, &str)]) -> Result<RestAnswer, ProviderError> {
        let mut renewed = false;
        loop {
            let token = self.tokens.token(&self.connection).await?;
            let request = |address: &Url| {
                let mut url = join(address, &format!("v1/{path}"));
                if !query.is_empty() {
                    url.query_pairs_mut().extend_pairs(query);
                }
                HttpRequest::new(Method::GET, url)
            };
            let answer = self.connection.send(request, Some(&token)).await?;
            if answer.status.as_u16() == 403 && !renewed && self.tokens.forget_expired(&token).await {
                renewed = true;
                continue;
            }
            return Ok(answer);
        }
    }

    async fn version_of(&self, mount: &str) -> Result<KvVersion, ProviderError> {
        if self.kv_version != KvVersion::Auto {
            return Ok(self.kv_version);
        }
        if let Some(known) =
            self.versions.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get(mount)
        {
            return Ok(*known);
        }
        let answer = self.ask(&format!("sys/internal/ui/mounts/{mount}"), &[]).await?;
        let found = match answer.status.as_u16() {
            200 => match answer.json().pointer("/data/options/version").and_then(Value::as_str) {
                Some("2") => KvVersion::Two,
                _ => KvVersion::One,
            },
            403 => {
                tracing::info!("the version of the mount {mount} may not be asked for: taking it for 2");
                KvVersion::Two
            }
            _ => return Err(failure(&answer, &format!("ask for the mount {mount}"))),
        };
        self.versions
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .insert(mount.to_owned(), found);
        Ok(found)
    }

    async fn read(&self, locator: &Locator) -> Result<FetchedSecret, ProviderError> {
        if locator.stage.is_some() {
            let error = ProviderError::new(ErrorCode::Invalid, "Vault has no stages");
            return Err(error.hint("use `?version=NUMBER`"));
        }
        match self.path(&locator.path) {
            VaultPath::Raw(path) => self.read_raw(path).await,
            VaultPath::Kv { mount, path } => match self.version_of(mount).await? {
                KvVersion::One if locator.version.is_some() => Err(ProviderError::new(
                    ErrorCode::Invalid,
                    format!("the mount {mount} keeps no versions (KV version 1)"),
                )
                .hint("leave `version` out")),
                KvVersion::One => self.read_raw(&format!("{mount}/{path}")).await,
                KvVersion::Two | KvVersion::Auto => {
                    self.read_kv2(mount, path, locator.version.as_deref()).await
                }
            },
        }
    }

    async fn read_kv2(
        &self,
        mount: &str,
        path: &str,
        version: Option<&str>,
    ) -> Result<FetchedSecret, ProviderError> {
        let query: Vec<(&str, &str)> = version.map(|version| ("version", version)).into_iter().collect();
        let answer = self.ask(&format!("{mount}/data/{path}"), &query).await?;
        let mut body = answer.json();
        let metadata = body.pointer("/data/metadata").cloned().unwrap_or_default();
        let number = metadata.get("version").map(Value::to_string);
        let shown = number.clone().unwrap_or_default();
        let gone = |what: &str| {
            let reason = format!("{mount}/{path} is {what} (version {shown})");
            Err(ProviderError::new(ErrorCode::NotFound, reason)
                .hint("undelete it, or ask for another version"))
        };
        if metadata.get("destroyed").and_then(Value::as_bool) == Some(true) {
            return gone("destroyed");
        }
        if metadata.get("deletion_time").and_then(Value::as_str).is_some_and(|time| !time.is_empty()) {
            return gone("deleted");
        }
        if answer.status.as_u16() != 200 {
            return Err(failure(&answer, &format!("read {mount}/{path}")));
        }
        match body.pointer_mut("/data/data").map(Value::take) {
            Some(fields @ Value::Object(_)) => Ok(FetchedSecret::new(SecretContent::fields(fields), number)),
            _ => Err(no_data(mount, path)),
        }
    }

    async fn read_raw(&self, path: &str) -> Result<FetchedSecret, ProviderError> {
        let answer = self.ask(path, &[]).await?;
        if answer.status.as_u16() != 200 {
            return Err(failure(&answer, &format!("read {path}")));
        }
        let mut body = answer.json();
        let lease =
            body.get("lease_id").and_then(Value::as_str).filter(|id| !id.is_empty()).map(str::to_owned);
        match body.get_mut("data").map(Value::take) {
            Some(fields @ Value::Object(_)) => {
                Ok(FetchedSecret { content: SecretContent::fields(fields), version: None, lease })
            }
            _ => Err(no_data("", path)),
        }
    }
}

fn no_data(mount: &str, path: &str) -> ProviderError {
    let reason = format!("{} holds no data", [mount, path].join("/").trim_matches('/'));
    ProviderError::new(ErrorCode::Invalid, reason).hint("is the mount's version right? set `kvVersion:`")
}

impl VaultConnection {
    /// The same servers, for giving back what a run was lent.
    fn for_cleanup(&self) -> Result<Self, ProviderError> {
        Ok(Self {
            rest: self.rest.for_cleanup()?,
            addresses: self.addresses.clone(),
            current: AtomicUsize::new(self.current.load(Ordering::Relaxed)),
            namespace: self.namespace.clone(),
        })
    }

    /// Sends to the server that answered last; to the next one while a server is out of reach, sealed or on standby.
    /// A server is asked again and again only when no other gave an answer.
    pub(crate) async fn send(
        &self,
        request: impl Fn(&Url) -> HttpRequest,
        token: Option<&str>,
    ) -> Result<RestAnswer, ProviderError> {
        let first = self.current.load(Ordering::Relaxed);
        let count = self.addresses.len();
        if count > 1 {
            let once = self.rest.single_attempt();
            for index in (0..count).map(|offset| (first + offset) % count) {
                let outcome = self.send_by(&once, request(&self.addresses[index]), token).await;
                if !is_elsewhere(&outcome) {
                    self.current.store(index, Ordering::Relaxed);
                    return outcome;
                }
            }
        }
        self.send_by(&self.rest, request(&self.addresses[first % count]), token).await
    }

    async fn send_by(
        &self,
        rest: &RestClient,
        mut request: HttpRequest,
        token: Option<&str>,
    ) -> Result<RestAnswer, ProviderError> {
        request.headers.insert(HeaderName::from_static("x-vault-request"), HeaderValue::from_static("true"));
        if let Some(namespace) = self.namespace.as_deref().and_then(|name| HeaderValue::from_str(name).ok()) {
            request.headers.insert(HeaderName::from_static("x-vault-namespace"), namespace);
        }
        if let Some(token) = token {
            let name = HeaderName::from_static("x-vault-token");
            let authorization = slipway_http::Authorization::from_header(name, token, request.url.origin());
            request.authorization = Some(authorization.map_err(|_| {
                ProviderError::new(ErrorCode::Config, "the token has characters it cannot have")
                    .hint("is there a line break in it?")
            })?);
        }
        let answer = rest.send(&request).await?;
        if answer.status.as_u16() == 503 {
            return Err(ProviderError::new(ErrorCode::Unavailable, "vault is sealed, or not started yet")
                .hint("unseal it: `vault operator unseal`"));
        }
        Ok(answer)
    }

    /// Posts to an endpoint and gives the body of a success.
    pub(crate) async fn post(
        &self,
        path: &str,
        body: &Value,
        token: Option<&str>,
    ) -> Result<Value, ProviderError> {
        let request = |address: &Url| json_request(Method::POST, join(address, &format!("v1/{path}")), body);
        let answer = self.send(request, token).await?;
        if answer.status.is_success() { Ok(answer.json()) } else { Err(failure(&answer, path)) }
    }
}

/// Tells that another server of the cluster may give a better answer.
fn is_elsewhere(outcome: &Result<RestAnswer, ProviderError>) -> bool {
    match outcome {
        Ok(answer) => matches!(answer.status.as_u16(), 429 | 472 | 473 | 500..=599),
        Err(error) => matches!(error.code, ErrorCode::Unavailable | ErrorCode::Timeout),
    }
}

/// The error for an answer, with hints in Vault's terms.
fn failure(answer: &RestAnswer, doing: &str) -> ProviderError {
    let error = unexpected(answer, doing);
    match error.code {
        ErrorCode::Forbidden => {
            error.hint("the token's policies must allow `read` of this path; has the token expired?")
        }
        ErrorCode::NotFound => {
            error.hint("look at the path, the mount and the namespace; keys come after `#`")
        }
        _ => error,
    }
}

impl Provider for VaultProvider {
    fn fetch<'a>(&'a self, locators: &'a [Locator]) -> BoxFuture<'a, FetchOutcomes> {
        fetch_singly(locators, |locator| self.read(locator)).boxed()
    }

    fn list<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Vec<ListEntry>, ProviderError>> {
        async move {
            let target = match self.path(path) {
                VaultPath::Raw(path) => path.to_owned(),
                VaultPath::Kv { mount, path } => match self.version_of(mount).await? {
                    KvVersion::One => format!("{mount}/{path}"),
                    KvVersion::Two | KvVersion::Auto => format!("{mount}/metadata/{path}"),
                },
            };
            let answer = self.ask(&target, &[("list", "true")]).await?;
            if answer.status.as_u16() != 200 {
                return Err(failure(&answer, &format!("list {target}")));
            }
            let body = answer.json();
            let names = body
                .pointer("/data/keys")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str);
            let entry = |name: &str| match name.strip_suffix('/') {
                Some(folder) => ListEntry::folder(folder),
                None => ListEntry::secret(name),
            };
            Ok(names.map(entry).collect())
        }
        .boxed()
    }

    fn login(&self) -> BoxFuture<'_, Result<LoginInfo, ProviderError>> {
        async move {
            let answer = self.ask("auth/token/lookup-self", &[]).await?;
            if answer.status.as_u16() != 200 {
                return Err(failure(&answer, "look the token up"));
            }
            let body = answer.json();
            let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str);
            let identity = text("/data/display_name").unwrap_or("token").to_owned();
            Ok(LoginInfo { identity, expires: text("/data/expire_time").and_then(|time| time.parse().ok()) })
        }
        .boxed()
    }

    fn logout(&self) -> BoxFuture<'_, Result<LogoutOutcome, ProviderError>> {
        async move {
            let token = self.tokens.token(&self.connection).await?;
            self.connection.post("auth/token/revoke-self", &json!({}), Some(&token)).await?;
            self.tokens.forget().await;
            Ok(LogoutOutcome::Revoked)
        }
        .boxed()
    }

    fn finish<'a>(&'a self, leases: &'a [String]) -> BoxFuture<'a, Result<(), ProviderError>> {
        async move {
            let Some(token) = self.tokens.take().await else { return Ok(()) };
            if leases.is_empty() && !token.is_issued() {
                return Ok(());
            }
            let connection = self.connection.for_cleanup()?;
            let mut result = Ok(());
            for lease in leases {
                let body = json!({"lease_id": lease});
                let revoked = connection.post("sys/leases/revoke", &body, Some(token.value())).await;
                result = result.and(revoked.map(|_| ()));
            }
            // A token of a login is ours to end; the user's own is not.
            if token.is_issued() {
                let revoked =
                    connection.post("auth/token/revoke-self", &json!({}), Some(token.value())).await;
                result = result.and(revoked.map(|_| ()));
            }
            result
        }
        .boxed()
    }
}
