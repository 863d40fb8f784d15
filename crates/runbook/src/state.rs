//! The record of what was done, kept in a Secret: what a run that follows may leave out.
//!
//! Its layout is the journal's [`RunSnapshot`], its store the cluster's [`SecretStore`]; here is which Secret it is, and
//! what to do when it cannot be used.

use slipway_cluster::{Cluster, SecretStore};
pub use slipway_journal::snapshot::words::{node_word, run_word};
pub use slipway_journal::{NodeSnapshot, NodeStatus, RunSnapshot, RunStatus};
use slipway_journal::{StoreError, StoreFault};

use crate::context::MANAGER;
use crate::model::State;

/// Opens the store of a document's record.
pub(crate) fn open_store(cluster: &Cluster, state: &State) -> SecretStore {
    SecretStore::new(cluster, &state.namespace, &state.name, MANAGER)
}

/// Returns what to do about a record that cannot be used.
pub fn store_hint(error: &StoreError) -> Option<&'static str> {
    match error {
        StoreError::Foreign { .. } => Some("set state.name, or delete that Secret"),
        StoreError::Corrupt { .. } => Some("delete the Secret; every step then runs again"),
        StoreError::Failed { fault: StoreFault::NoPlace, .. } => {
            Some("state.namespace must exist before the first step runs")
        }
        StoreError::Failed { fault: StoreFault::Forbidden, .. } => {
            Some("the record needs get, create, update and delete of Secrets in its namespace")
        }
        StoreError::Failed { fault: StoreFault::Other, .. } => None,
    }
}
