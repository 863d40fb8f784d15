//! The clusters of a stack, each opened once, and how its sources are read.

use std::collections::HashMap;
use std::path::PathBuf;

use slipway_cluster::Cluster;
use slipway_cluster::helm::StorageDriver;
use slipway_source::LoadContext;
use slipway_stack::engine::Connect;
use slipway_stack::plan::ClusterRef;
use slipway_stack::{FailureClass, NodeError, expand};
use tokio::sync::Mutex;

use crate::charts::{self, ChartRequest, HelmFetcher, Notes};
use crate::commands::inputs::SecretFlags;
use crate::commands::secrets::resolution::ReferenceResolver;
use crate::session::Session;

/// Every cluster of a run.
pub struct Clusters<'s> {
    session: &'s Session,
    /// Where the paths of kubeconfigs start.
    root: PathBuf,
    open: Mutex<HashMap<String, Cluster>>,
}

impl<'s> Clusters<'s> {
    /// Knows how to reach clusters as the settings of a session and the files under `root` say.
    pub fn new(session: &'s Session, root: PathBuf) -> Self {
        Self { session, root, open: Mutex::default() }
    }
}

impl Connect for Clusters<'_> {
    async fn connect(&self, wanted: &ClusterRef) -> Result<Cluster, NodeError> {
        let mut open = self.open.lock().await;
        if let Some(cluster) = open.get(&wanted.name) {
            return Ok(cluster.clone());
        }
        let mut settings = self.session.settings.clone();
        if let Some(path) = &wanted.kubeconfig {
            settings.kubeconfig.value = Some(expand(&self.root, crate::config::user_home().as_deref(), path));
        }
        let connection = if settings.sandbox {
            self.session.connect().await
        } else {
            self.session.connect_to_context(&settings, wanted.context.as_deref()).await
        };
        let connection = connection
            .and_then(|connection| self.session.with_releases(connection))
            .map_err(|error| NodeError::new(FailureClass::Unauthenticated, format!("{error:#}")))?;
        let cluster = connection.cluster;
        if cluster.release_driver() == StorageDriver::Sql
            && !settings.sandbox
            && let Some(other) = open.keys().next()
        {
            // Its rows do not say of which cluster they are, and each would take the other's for its own.
            let message = format!(
                "HELM_DRIVER is sql, and one database holds the releases of one cluster: run the stack for cluster {other} and \
                 cluster {} apart, with a database each",
                wanted.name
            );
            return Err(NodeError::new(FailureClass::Invalid, message));
        }
        open.insert(wanted.name.clone(), cluster.clone());
        Ok(cluster)
    }
}

/// How the sources of a stack get here and are read.
pub fn sources(references: &ReferenceResolver, session: &Session) -> LoadContext {
    let notes = if session.is_quiet() { Notes::Drop } else { Notes::Say };
    let fetcher = HelmFetcher::new(ChartRequest::default(), notes);
    let decryption = SecretFlags::default().decryption();
    charts::load_context_with(fetcher, decryption, references.clone(), session)
}
