//! The clusters of a stack and the charts it fetches: each opened or brought here once.

use std::collections::HashMap;
use std::path::PathBuf;

use slipway_chart::net::Access;
use slipway_cluster::Cluster;
use slipway_stack::engine::Connect;
use slipway_stack::plan::ClusterRef;
use slipway_stack::{Class, NodeError, expand};
use tokio::sync::Mutex;

use crate::charts::{self, ChartRequest};
use crate::connect;
use crate::session::Session;

/// Every cluster of a run.
pub struct Clusters<'s> {
    session: &'s Session,
    /// Where the paths of kubeconfigs start.
    root: PathBuf,
    open: Mutex<HashMap<String, Cluster>>,
    fetched: Mutex<HashMap<(String, String), PathBuf>>,
}

impl<'s> Clusters<'s> {
    /// Knows how to reach clusters as the settings of a session and the files under `root` say.
    pub fn new(session: &'s Session, root: PathBuf) -> Self {
        Self { session, root, open: Mutex::default(), fetched: Mutex::default() }
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
            connect::to_cluster(&settings, wanted.context.as_deref()).await
        };
        let connection =
            connection.map_err(|error| NodeError::new(Class::Unauthenticated, format!("{error:#}")))?;
        let cluster = Cluster::new(connection.client);
        open.insert(wanted.name.clone(), cluster.clone());
        Ok(cluster)
    }

    async fn fetch(&self, chart: &str, version: Option<&str>) -> Result<PathBuf, NodeError> {
        let wanted = (chart.to_owned(), version.unwrap_or_default().to_owned());
        let mut fetched = self.fetched.lock().await;
        if let Some(path) = fetched.get(&wanted) {
            return Ok(path.clone());
        }
        let access = Access { version: wanted.1.clone(), ..Access::default() };
        let request = ChartRequest { reference: chart.to_owned(), access, ..ChartRequest::default() };
        let (path, notes) =
            charts::locate(&request).map_err(|error| NodeError::new(Class::Invalid, format!("{error:#}")))?;
        notes.iter().filter(|_| !self.session.is_quiet()).for_each(|note| say!("{note}"));
        fetched.insert(wanted, path.clone());
        Ok(path)
    }
}
