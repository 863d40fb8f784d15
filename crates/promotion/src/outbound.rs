//! The one place that decides whom promotion calls for others: addresses in pipelines, gates, checks, hooks,
//! subscriptions and kubeconfigs are written by teams, and requests to them are made by the controller.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use slipway_git::RepositoryAddress;
use slipway_http::{
    AddressPolicy, ClientOptions, HttpClient, HttpError, NetworkLimits, NetworkOptions, RedirectScope,
    parse_url, shown_url,
};
use tokio_util::sync::CancellationToken;

/// The hosts that may be called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutboundPolicy {
    /// Never the machine the controller runs on or its cloud, unless a host is allowed.
    pub addresses: AddressPolicy,
    /// Hosts that are registries without encryption, with a port where there is one.
    pub plain_registries: BTreeSet<String>,
}

/// Opens clients that keep to the policy; cheap to clone.
#[derive(Clone)]
pub struct OutboundClients {
    policy: Arc<OutboundPolicy>,
    stop: CancellationToken,
    shared: Arc<OnceLock<Result<HttpClient, HttpError>>>,
}

/// A request whose content is for one server only.
pub(crate) struct CallOptions {
    /// PEM certificates to trust besides the system's.
    pub(crate) ca: Option<Vec<u8>>,
    pub(crate) limit: Duration,
}

/// An address that may not be connected to.
#[derive(Debug, thiserror::Error)]
#[error("{host} leads to {address}, which may not be called from here")]
pub struct ForbiddenHost {
    pub host: String,
    pub address: std::net::IpAddr,
}

impl OutboundClients {
    /// Every request ends when `stop` says so.
    pub fn new(policy: OutboundPolicy, stop: CancellationToken) -> Self {
        Self { policy: Arc::new(policy), stop, shared: Arc::default() }
    }

    pub(crate) fn policy(&self) -> &OutboundPolicy {
        &self.policy
    }

    /// The client of gates, checks and hooks.
    pub(crate) fn shared(&self) -> Result<&HttpClient, HttpError> {
        let made = self.shared.get_or_init(|| HttpClient::new(&self.options()));
        made.as_ref().map_err(Clone::clone)
    }

    /// A client that goes nowhere but to the address it is given.
    pub(crate) fn call(&self, address: &str, options: CallOptions) -> Result<HttpClient, HttpError> {
        let url = parse_url(address)?;
        if !url.username().is_empty() || url.password().is_some() {
            let message =
                format!("{} holds credentials: put them into the Secret of the step", shown_url(&url));
            return Err(HttpError::Invalid(message));
        }
        let CallOptions { ca, limit } = options;
        let limits = NetworkLimits { connect: Duration::from_secs(10), idle: limit, total: limit };
        let network = NetworkOptions { limits, stop: self.stop.clone() };
        HttpClient::new(&ClientOptions { ca, redirects: RedirectScope::Nowhere, network, ..self.options() })
    }

    /// A client of registries, without encryption where somebody has asked for that.
    pub(crate) fn registry(&self, host: &str, is_plain: bool) -> Result<HttpClient, HttpError> {
        let plain_http = is_plain || self.policy.plain_registries.contains(host);
        HttpClient::new(&ClientOptions { plain_http, ..self.options() })
    }

    /// Judges the host of a repository, which Git connects to by itself.
    pub(crate) async fn check_repository(&self, address: &RepositoryAddress) -> Result<(), ForbiddenHost> {
        match address.host() {
            // A directory.
            "" => Ok(()),
            host => self.check_host(host).await,
        }
    }

    /// Judges a host somebody else connects to.
    pub(crate) async fn check_host(&self, host: &str) -> Result<(), ForbiddenHost> {
        let judged = self.policy.addresses.check_host(host).await;
        judged.map_err(|address| ForbiddenHost { host: host.to_owned(), address })
    }

    fn options(&self) -> ClientOptions {
        ClientOptions {
            user_agent: concat!("slipway/", env!("CARGO_PKG_VERSION")).to_owned(),
            addresses: Some(self.policy.addresses.clone()),
            network: NetworkOptions { stop: self.stop.clone(), ..NetworkOptions::default() },
            ..ClientOptions::default()
        }
    }
}
