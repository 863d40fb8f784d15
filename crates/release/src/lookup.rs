//! Rendering with a cluster to look things up in.

use std::sync::Arc;
use std::time::SystemTime;

use serde_json::Value;
use slipway_cluster::{At, Cluster, ListOptions};
use slipway_gotmpl::{FuncError, Host, NoHost};
use slipway_manifest::Gvk;
use slipway_manifest::object::split_api_version;

use crate::failure::Failure;
use crate::source::{self, RenderRequest, Rendered, Source};

/// Answers `lookup` from a cluster; used from a thread of its own.
struct Live {
    cluster: Cluster,
    runtime: tokio::runtime::Handle,
    /// Answers everything else.
    backing: Arc<dyn Host + Send + Sync>,
}

/// The answer to `lookup`: an object, a list if no name is given, or nothing.
pub async fn find(
    cluster: &Cluster,
    gvk: Gvk,
    namespace: &str,
    name: &str,
) -> Result<Value, slipway_cluster::Error> {
    let empty = || Value::Object(serde_json::Map::new());
    let Some(kind) = cluster.kind(&gvk).await? else { return Ok(empty()) };
    let namespace = Some(namespace).filter(|namespace| kind.namespaced && !namespace.is_empty());
    if name.is_empty() {
        let listed = cluster.list(&kind, namespace, &ListOptions::default()).await?;
        return Ok(serde_json::json!({
            "apiVersion": gvk.api_version(), "kind": format!("{}List", gvk.kind), "items": listed.items,
        }));
    }
    Ok(cluster.get(&At::new(gvk, namespace, name)).await?.unwrap_or_else(empty))
}

impl Host for Live {
    fn lookup(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<slipway_gotmpl::Value, FuncError> {
        let (group, version) = split_api_version(api_version);
        let found =
            self.runtime.block_on(find(&self.cluster, Gvk::new(group, version, kind), namespace, name));
        match found {
            Ok(value) => Ok(slipway_gotmpl::Value::from_json(&value, slipway_gotmpl::Numbers::Int64)),
            Err(error) => Err(FuncError::new(error.to_string())),
        }
    }

    fn resolve(&self, host: &str) -> Option<String> {
        self.backing.resolve(host)
    }

    fn secret_file(&self, path: &str) -> Result<slipway_gotmpl::Value, FuncError> {
        self.backing.secret_file(path)
    }

    fn now(&self) -> SystemTime {
        self.backing.now()
    }

    fn local_zone(&self) -> Option<String> {
        self.backing.local_zone()
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        self.backing.fill_random(bytes);
    }

    fn is_seeded(&self) -> bool {
        self.backing.is_seeded()
    }
}

/// Renders on a thread where `lookup` may wait for the cluster.
pub async fn render(cluster: &Cluster, source: Source, request: RenderRequest) -> Result<Rendered, Failure> {
    let backing = request.backing.host.clone().unwrap_or_else(|| Arc::new(NoHost));
    let host = Live { cluster: cluster.clone(), runtime: tokio::runtime::Handle::current(), backing };
    let rendered = tokio::task::spawn_blocking(move || source::render(&source, &request, &host)).await;
    match rendered {
        Ok(rendered) => Ok(rendered?),
        Err(error) => Err(slipway_problem::Problem::error(format!("rendering broke off: {error}")).into()),
    }
}
