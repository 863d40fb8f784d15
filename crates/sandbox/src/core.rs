//! What every request and every controller shares.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::api::resource::{Registry, Served};
use crate::auth::Auth;
use crate::clock::Clock;
use crate::ids::Ids;
use crate::store::Store;
use crate::write::admit::allocate::Allocator;

/// The parts of the options that requests look at.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Enforce RBAC for everyone but `system:masters`.
    pub rbac: bool,
    /// How many nodes a new cluster has.
    pub nodes: usize,
    /// The version the server says it is, without `v`.
    pub version: String,
    /// PEM of the certificate authority, published as `kube-root-ca.crt`.
    pub ca: String,
    /// `host:port` as `/api` tells it.
    pub address: RwLockString,
}

/// A string that is learned after start: the address of the first listener.
#[derive(Debug, Clone, Default)]
pub(crate) struct RwLockString(Arc<RwLock<String>>);

impl RwLockString {
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
    pub ids: Ids,
    pub options: Settings,
    pub auth: Auth,
    pub addresses: Allocator,
    /// Held while definitions are read and served anew.
    pub refreshing: Mutex<()>,
    registry: RwLock<Arc<Registry>>,
}

impl Core {
    pub(crate) fn new(store: Arc<Store>, clock: Arc<Clock>, ids: Ids, options: Settings, auth: Auth) -> Core {
        Core {
            store,
            clock,
            ids,
            options,
            auth,
            addresses: Allocator::default(),
            refreshing: Mutex::default(),
            registry: RwLock::new(Arc::new(Registry::new(vec![], 0))),
        }
    }

    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.registry.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Serves other custom resources from now on.
    pub(crate) fn set_custom_resources(&self, customs: Vec<Arc<Served>>) {
        let mut registry = self.registry.write().unwrap_or_else(PoisonError::into_inner);
        let generation = registry.generation + 1;
        *registry = Arc::new(Registry::new(customs, generation));
    }

    /// The resource of a table in its storage version.
    pub(crate) fn of_table(&self, table: &str) -> Option<Arc<Served>> {
        self.registry().of_table(table).cloned()
    }

    pub(crate) fn now(&self) -> String {
        crate::clock::rfc3339(self.clock.now())
    }
}
