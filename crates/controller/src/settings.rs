//! Settings of a controller.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use slipway_cluster::election::ElectionTimes;
use slipway_git::CacheOptions;
use slipway_promotion::PromotionSettings;

/// The name of the controller's Lease.
pub(crate) const LEASE: &str = "kardinal-controller";
/// The Secret with the tokens and the key of the API.
pub(crate) const API_SECRET: &str = "kardinal-bundle-api";
/// The time work under way is given when the process is told to stop.
pub(crate) const STOP_LIMIT: Duration = Duration::from_secs(25);
/// The time work under way is given when the lease is lost: another process begins soon after.
pub(crate) const LOSS_LIMIT: Duration = Duration::from_secs(5);

/// Who carries out steps that belong to a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ControllerMode {
    /// Nobody else: there are no agents, and none is missed.
    #[default]
    Standalone,
    /// Agents: the controller watches their heartbeats.
    Distributed,
}

/// Where a controller listens; an absent address is not served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListenAddresses {
    pub api: Option<SocketAddr>,
    pub metrics: Option<SocketAddr>,
    pub probes: Option<SocketAddr>,
}

impl ListenAddresses {
    /// The usual ports of a controller, on all addresses.
    pub fn usual() -> Self {
        let at = |port| Some(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)));
        Self { api: at(8083), metrics: at(8080), probes: at(8081) }
    }

    /// The usual ports of an agent.
    pub fn usual_of_agents() -> Self {
        let at = |port| Some(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)));
        Self { api: None, metrics: at(8085), probes: at(8086) }
    }
}

/// The files of the certificate the API is served with; read again when they change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// Settings of a controller.
#[derive(Clone, Debug)]
pub struct ControllerOptions {
    /// The namespace of the controller itself: of its Lease and of the Secret with the tokens.
    pub namespace: String,
    /// Names this process; no two may have the same.
    pub identity: String,
    pub mode: ControllerMode,
    pub election: ElectionTimes,
    pub listen: ListenAddresses,
    pub tls: Option<TlsFiles>,
    /// The directory of Git's mirrors.
    pub cache_directory: PathBuf,
    pub cache: CacheOptions,
    pub promotion: PromotionSettings,
    /// The namespace of bundles whose request names none.
    pub bundle_namespace: String,
}

impl ControllerOptions {
    /// The usual settings of a controller in a namespace.
    pub fn new(namespace: &str, identity: &str, cache_directory: impl Into<PathBuf>) -> Self {
        Self {
            namespace: namespace.to_owned(),
            identity: identity.to_owned(),
            mode: ControllerMode::default(),
            election: ElectionTimes::default(),
            listen: ListenAddresses::usual(),
            tls: None,
            cache_directory: cache_directory.into(),
            cache: CacheOptions::default(),
            promotion: PromotionSettings::default(),
            bundle_namespace: "default".to_owned(),
        }
    }
}
