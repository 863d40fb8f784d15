//! Connections to servers, and what those to one server share.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use slipway_event::{Clock, Redactor};
use slipway_http::{AddressPolicy, ClientOptions, HttpClient, NetworkLimits, NetworkOptions};

use crate::api::{ApiClient, HostState};
use crate::app_token::AppTokens;
use crate::azure::AzureDevOps;
use crate::bitbucket::Bitbucket;
use crate::breaker::HostReport;
use crate::credential::ScmCredential;
use crate::error::ScmError;
use crate::gitea::Gitea;
use crate::github::GitHub;
use crate::gitlab::GitLab;
use crate::none::PlainServer;
use crate::provider::ScmProvider;
use crate::remote::{ProviderKind, RemoteRepository};

/// Settings of all connections.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// PEM certificates to trust besides the system's.
    pub ca: Option<Vec<u8>>,
    /// PEM certificate and key to show.
    pub identity: Option<Vec<u8>>,
    /// The addresses servers may have; any without a policy.
    pub addresses: Option<AddressPolicy>,
    pub network: NetworkOptions,
    /// The pause between two looks at a pull request that is not there yet.
    pub settle_pause: Duration,
    /// A server in this process, asked instead of every other: for rehearsals.
    pub in_process: Option<InProcessServer>,
}

/// A server of pull requests in this process.
#[derive(Clone)]
pub struct InProcessServer(pub Arc<dyn ScmProvider>);

impl std::fmt::Debug for InProcessServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("InProcessServer").field(&self.0.kind()).finish()
    }
}

impl Default for ConnectOptions {
    fn default() -> Self {
        let limits = NetworkLimits {
            connect: Duration::from_secs(10),
            idle: Duration::from_secs(30),
            total: Duration::from_secs(60),
        };
        Self {
            ca: None,
            identity: None,
            addresses: None,
            network: NetworkOptions { limits, ..NetworkOptions::default() },
            settle_pause: Duration::from_millis(250),
            in_process: None,
        }
    }
}

/// Connects to servers. Those with the same credentials share a rate limit, a breaker and tokens.
pub struct ScmConnections {
    clock: Arc<dyn Clock>,
    redactor: Redactor,
    hosts: Mutex<BTreeMap<HostKey, SharedHost>>,
}

/// A server and the credentials it is asked with.
type HostKey = (String, String);

#[derive(Clone)]
struct SharedHost {
    state: Arc<HostState>,
    app_tokens: Option<Arc<AppTokens>>,
}

impl ScmConnections {
    /// Every token is told to the redactor.
    pub fn new(clock: Arc<dyn Clock>, redactor: Redactor) -> Self {
        Self { clock, redactor, hosts: Mutex::default() }
    }

    /// Connects to a repository's server. Nothing is sent yet.
    pub fn connect(
        &self,
        repository: RemoteRepository,
        credential: ScmCredential,
        options: &ConnectOptions,
    ) -> Result<Arc<dyn ScmProvider>, ScmError> {
        if let Some(InProcessServer(server)) = &options.in_process {
            return Ok(server.clone());
        }
        if repository.kind == ProviderKind::None {
            return Ok(Arc::new(PlainServer { credential }));
        }
        credential.register(&self.redactor);
        let client = ClientOptions {
            ca: options.ca.clone(),
            identity: options.identity.clone(),
            user_agent: concat!("slipway/", env!("CARGO_PKG_VERSION")).to_owned(),
            addresses: options.addresses.clone(),
            network: options.network.clone(),
            ..ClientOptions::default()
        };
        let http =
            HttpClient::new(&client).map_err(|error| ScmError::Credential { reason: error.to_string() })?;
        let key = (repository.host(), credential.fingerprint());
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = hosts.entry(key).or_insert_with(|| SharedHost {
            state: Arc::new(HostState::new(repository.host())),
            app_tokens: match &credential {
                ScmCredential::App(app) => Some(Arc::new(AppTokens::new(app.clone()))),
                ScmCredential::Token(_) | ScmCredential::Login { .. } => None,
            },
        });
        let shared = shared.clone();
        drop(hosts);
        let api = ApiClient {
            http,
            root: repository.api_root.clone(),
            kind: repository.kind,
            credential,
            app_tokens: shared.app_tokens,
            state: shared.state,
            clock: self.clock.clone(),
            redactor: self.redactor.clone(),
            settle_pause: options.settle_pause,
        };
        Ok(match repository.kind {
            ProviderKind::GitHub => Arc::new(GitHub::new(api, repository)),
            ProviderKind::GitLab => Arc::new(GitLab::new(api, repository)),
            ProviderKind::Gitea => Arc::new(Gitea::new(api, repository)),
            ProviderKind::Bitbucket => Arc::new(Bitbucket::new(api, repository)),
            ProviderKind::AzureDevOps => Arc::new(AzureDevOps::new(api, repository)),
            ProviderKind::None => Arc::new(PlainServer { credential: api.credential }),
        })
    }

    /// The state of every server that was asked, for conditions and metrics.
    pub fn report(&self) -> Vec<HostReport> {
        let hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        hosts.values().map(|shared| shared.state.report(self.clock.now())).collect()
    }
}
