//! A whole cluster as a value.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::auth::pki::CertificateAuthority;
use crate::auth::{Authenticator, TokenKey, User};
use crate::clock::{Clock, ClockSpeed};
use crate::controllers::{self, ClusterHandle, Controller, ControllerEngine};
use crate::core::{Core, ServerSettings};
use crate::http::fault::FaultLayer;
use crate::http::service::{ApiService, CallerIdentity};
use crate::ids::IdGenerator;
use crate::store::{DataNotice, LogOptions, RecoveryMode, Store};

/// The reason a sandbox cannot start.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("open the data directory {}: {why}", .dir.display())]
    Data {
        dir: PathBuf,
        #[source]
        why: std::io::Error,
    },
    #[error("the data directory {} is in use by another sandbox", .dir.display())]
    Locked { dir: PathBuf },
    #[error("read the token signing key: {0}")]
    Key(#[source] std::io::Error),
    #[error("make certificates: {0}")]
    Certificates(String),
    #[error("start the controllers: {0}")]
    Controllers(#[source] std::io::Error),
}

/// The options of a sandbox.
pub struct SandboxBuilder {
    speed: ClockSpeed,
    start: Option<Timestamp>,
    seed: Option<u64>,
    nodes: usize,
    rbac: bool,
    version: String,
    data_dir: Option<PathBuf>,
    log: LogOptions,
    history: usize,
    workloads: bool,
    controllers: Vec<Box<dyn Controller>>,
}

impl Default for SandboxBuilder {
    fn default() -> SandboxBuilder {
        SandboxBuilder {
            speed: ClockSpeed::Max,
            start: None,
            seed: None,
            nodes: 2,
            rbac: false,
            version: "1.37.0".into(),
            data_dir: None,
            log: LogOptions::default(),
            history: 16 * 1024,
            workloads: true,
            controllers: Vec::new(),
        }
    }
}

impl SandboxBuilder {
    /// Sets the speed of simulated time; as fast as possible by default.
    pub fn speed(mut self, speed: ClockSpeed) -> SandboxBuilder {
        self.speed = speed;
        self
    }

    /// Sets the start time of the cluster's clock.
    pub fn start_at(mut self, start: Timestamp) -> SandboxBuilder {
        self.start = Some(start);
        self
    }

    /// Makes uids and generated names the same every time.
    pub fn seed(mut self, seed: u64) -> SandboxBuilder {
        self.seed = Some(seed);
        self
    }

    pub fn nodes(mut self, nodes: usize) -> SandboxBuilder {
        self.nodes = nodes;
        self
    }

    /// Enforces RBAC for everyone but `system:masters`.
    pub fn rbac(mut self, enforce: bool) -> SandboxBuilder {
        self.rbac = enforce;
        self
    }

    /// The Kubernetes version the server says it is, such as `1.37.0`.
    pub fn version(mut self, version: &str) -> SandboxBuilder {
        self.version = version.trim_start_matches('v').to_owned();
        self
    }

    /// Keeps everything in a directory, durable before each answer.
    pub fn data_dir(mut self, dir: impl Into<PathBuf>) -> SandboxBuilder {
        self.data_dir = Some(dir.into());
        self
    }

    /// Sets the reaction to missing acknowledged writes in the data directory; refuse by default.
    pub fn recovery(mut self, recovery: RecoveryMode) -> SandboxBuilder {
        self.log.recovery = recovery;
        self
    }

    #[cfg(test)]
    pub(crate) fn disk(mut self, disk: Arc<dyn crate::store::Disk>) -> SandboxBuilder {
        self.log.disk = disk;
        self
    }

    /// Sets the number of events per resource that watches can go back.
    pub fn history(mut self, events: usize) -> SandboxBuilder {
        self.history = events;
        self
    }

    /// Leaves workloads as they are written: no pods, no endpoints, no volumes.
    pub fn without_workloads(mut self) -> SandboxBuilder {
        self.workloads = false;
        self
    }

    /// Runs another controller.
    pub fn controller(mut self, controller: Box<dyn Controller>) -> SandboxBuilder {
        self.controllers.push(controller);
        self
    }

    pub fn build(self) -> Result<Sandbox, BuildError> {
        let store = match &self.data_dir {
            Some(dir) => Store::open_with(dir, self.history, self.log).map_err(|e| match e.kind() {
                std::io::ErrorKind::ResourceBusy => BuildError::Locked { dir: dir.clone() },
                _ => BuildError::Data { dir: dir.clone(), why: e },
            })?,
            None => Arc::new(Store::new(self.history)),
        };
        let mut notices = store.notices().to_vec();
        let authority = CertificateAuthority::open(self.data_dir.as_deref())
            .map_err(|e| BuildError::Certificates(e.to_string()))?;
        if let Some(file) = authority.made_in().filter(|_| store.current_revision() > 0) {
            notices.push(DataNotice::IdentityMissing { file: file.to_owned() });
        }
        let clock = Arc::new(Clock::new(self.speed, self.start));
        let token = authority.admin_token().to_owned();
        let auth = Authenticator {
            tokens: vec![(token, Arc::new(User::admin()))],
            key: TokenKey::from_pkcs8(authority.token_key()).map_err(BuildError::Key)?,
        };
        let settings = ServerSettings {
            rbac: self.rbac,
            nodes: self.nodes,
            version: self.version,
            ca: authority.certificate_pem().to_owned(),
            address: crate::core::LateAddress::default(),
        };
        let core = Arc::new(Core::new(store, clock, IdGenerator::new(self.seed), settings, auth));
        core.options.address.set("127.0.0.1:6443");
        crate::state::rebuild_derived_state(&core);
        controllers::furnish_cluster(&core, self.nodes);
        let mut all = controllers::system_controllers();
        if self.workloads {
            all.extend(controllers::workload::workload_controllers());
        }
        all.extend(self.controllers);
        let engine = ControllerEngine::start(&core, all).map_err(BuildError::Controllers)?;
        let faults = FaultLayer::new(self.seed.unwrap_or_default()).compacting(&core.store);
        Ok(Sandbox {
            inner: Arc::new(Inner { core, engine, authority: Arc::new(authority), faults, notices }),
        })
    }
}

struct Inner {
    core: Arc<Core>,
    engine: ControllerEngine,
    authority: Arc<CertificateAuthority>,
    faults: FaultLayer,
    notices: Vec<DataNotice>,
}

/// A Kubernetes cluster in this process. Cheap to clone; it ends when the last clone is dropped.
#[derive(Clone)]
pub struct Sandbox {
    inner: Arc<Inner>,
}

impl Sandbox {
    pub fn builder() -> SandboxBuilder {
        SandboxBuilder::default()
    }

    /// The API as a tower service that speaks for the administrator.
    pub fn service(&self) -> ApiService {
        self.service_as(User::admin())
    }

    /// The API as a tower service that speaks for somebody.
    pub fn service_as(&self, user: User) -> ApiService {
        ApiService::new(self.inner.core.clone(), CallerIdentity::Fixed(Arc::new(user)))
    }

    /// A client that reaches the cluster without sockets.
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.service(), "default")
    }

    /// The cluster as controllers see it.
    pub fn cluster(&self) -> ClusterHandle {
        ClusterHandle::new(self.inner.core.clone())
    }

    pub fn store(&self) -> &Arc<Store> {
        &self.inner.core.store
    }

    pub fn clock(&self) -> &Arc<Clock> {
        &self.inner.core.clock
    }

    /// Waits until the controllers have nothing left to do.
    pub async fn settle(&self) {
        self.inner.engine.settle().await;
    }

    /// Moves time forward and lets everything that is due happen.
    pub async fn advance(&self, by: Duration) {
        self.inner.engine.advance(by);
        self.settle().await;
    }

    /// The faults of requests that come through a listener; rules can be added and cleared while it serves.
    pub fn faults(&self) -> &FaultLayer {
        &self.inner.faults
    }

    /// The notices about the data directory for its owner.
    pub fn notices(&self) -> &[DataNotice] {
        &self.inner.notices
    }

    pub(crate) fn authority(&self) -> &Arc<CertificateAuthority> {
        &self.inner.authority
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.inner.core
    }
}
