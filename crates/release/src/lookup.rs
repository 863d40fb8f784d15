//! Rendering with a cluster to look things up in.

use std::sync::Arc;

use serde_json::Value;
use slipway_chart::Capabilities;
use slipway_cluster::{Cluster, ListOptions};
use slipway_gotmpl::{FuncError, TemplateHost};
use slipway_manifest::object::split_api_version;
use slipway_manifest::{Gvk, ObjectRef};
use slipway_problem::Problem;
use slipway_source::{LoadedSource, RenderContext, RenderedSource};

use crate::failure::Failure;

/// Answers `lookup` from a cluster; used from a thread of its own.
struct ClusterHost {
    cluster: Cluster,
    runtime: tokio::runtime::Handle,
}

/// The answer to `lookup`: an object, a list if no name is given, or nothing.
pub async fn lookup_object(
    cluster: &Cluster,
    gvk: Gvk,
    namespace: &str,
    name: &str,
) -> Result<Value, slipway_cluster::Error> {
    let empty = || Value::Object(serde_json::Map::new());
    let Some(kind) = cluster.find_kind(&gvk).await? else { return Ok(empty()) };
    let namespace = Some(namespace).filter(|namespace| kind.namespaced && !namespace.is_empty());
    if name.is_empty() {
        let listed = cluster.list(&kind, namespace, &ListOptions::default()).await?;
        return Ok(serde_json::json!({
            "apiVersion": gvk.api_version(), "kind": format!("{}List", gvk.kind), "items": listed.items,
        }));
    }
    Ok(cluster.get(&ObjectRef::new(gvk, namespace, name)).await?.unwrap_or_else(empty))
}

impl TemplateHost for ClusterHost {
    fn lookup_object(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<slipway_gotmpl::GoValue, FuncError> {
        let (group, version) = split_api_version(api_version);
        let found = self.runtime.block_on(lookup_object(
            &self.cluster,
            Gvk::new(group, version, kind),
            namespace,
            name,
        ));
        match found {
            Ok(value) => Ok(slipway_gotmpl::GoValue::from_json(&value, slipway_gotmpl::WholeNumbers::Int64)),
            Err(error) => Err(FuncError::new(error.to_string())),
        }
    }
}

/// The release a source is rendered for.
#[derive(Clone, Debug)]
pub(crate) struct RenderRequest {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) revision: i64,
    pub(crate) is_upgrade: bool,
    pub(crate) capabilities: Capabilities,
    pub(crate) skip_crds: bool,
    pub(crate) skip_schema_validation: bool,
    pub(crate) subchart_notes: bool,
}

/// Renders on a thread where `lookup` may wait for the cluster.
pub(crate) async fn render_source(
    cluster: &Cluster,
    source: Arc<LoadedSource>,
    request: RenderRequest,
) -> Result<RenderedSource, Failure> {
    let live = ClusterHost { cluster: cluster.clone(), runtime: tokio::runtime::Handle::current() };
    let work = move || {
        source.render(&RenderContext {
            name: &request.name,
            namespace: &request.namespace,
            revision: request.revision,
            is_upgrade: request.is_upgrade,
            capabilities: &request.capabilities,
            skip_crds: request.skip_crds,
            skip_schema_validation: request.skip_schema_validation,
            subchart_notes: request.subchart_notes,
            cluster: &live,
        })
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(rendered) => rendered.map_err(Failure::Source),
        Err(error) => Err(Problem::error(format!("rendering broke off: {error}")).into()),
    }
}
