//! The state that requests and controllers share.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::api::resource::{ResourceRegistry, ServedResource};
use crate::auth::Authenticator;
use crate::clock::Clock;
use crate::ids::IdGenerator;
use crate::store::Store;
use crate::write::admit::allocate::AddressAllocator;

/// The parts of the options that requests look at.
#[derive(Debug, Clone)]
pub(crate) struct ServerSettings {
    /// Enforce RBAC for everyone but `system:masters`.
    pub rbac: bool,
    /// Number of nodes of a new cluster.
    pub nodes: usize,
    /// The version the server says it is, without `v`.
    pub version: String,
    /// PEM of the certificate authority, published as `kube-root-ca.crt`.
    pub ca: String,
    /// `host:port` as `/api` tells it.
    pub address: LateAddress,
}

/// A string that is learned after start: the address of the first listener.
#[derive(Debug, Clone, Default)]
pub(crate) struct LateAddress(Arc<RwLock<String>>);

impl LateAddress {
    pub(crate) fn get(&self) -> String {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, text: &str) {
        text.clone_into(&mut self.0.write().unwrap_or_else(PoisonError::into_inner));
    }
}

/// The server's state.
pub(crate) struct Core {
    pub store: Arc<Store>,
    pub clock: Arc<Clock>,
    pub ids: IdGenerator,
    pub options: ServerSettings,
    pub auth: Authenticator,
    pub addresses: AddressAllocator,
    /// Held while definitions are read and served anew.
    pub refreshing: Mutex<()>,
    registry: RwLock<Arc<ResourceRegistry>>,
}

impl Core {
    pub(crate) fn new(
        store: Arc<Store>,
        clock: Arc<Clock>,
        ids: IdGenerator,
        options: ServerSettings,
        auth: Authenticator,
    ) -> Core {
        Core {
            store,
            clock,
            ids,
            options,
            auth,
            addresses: AddressAllocator::default(),
            refreshing: Mutex::default(),
            registry: RwLock::new(Arc::new(ResourceRegistry::new(vec![], 0))),
        }
    }

    pub(crate) fn registry(&self) -> Arc<ResourceRegistry> {
        self.registry.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Serves other custom resources from now on.
    pub(crate) fn set_custom_resources(&self, customs: Vec<Arc<ServedResource>>) {
        let mut registry = self.registry.write().unwrap_or_else(PoisonError::into_inner);
        let generation = registry.generation + 1;
        *registry = Arc::new(ResourceRegistry::new(customs, generation));
    }

    /// The resource of a table in its storage version.
    pub(crate) fn of_table(&self, table: &str) -> Option<Arc<ServedResource>> {
        self.registry().of_table(table).cloned()
    }

    pub(crate) fn now(&self) -> String {
        crate::clock::rfc3339(self.clock.now())
    }
}
