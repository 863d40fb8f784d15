//! `slipway render --validate` and `--dry-run=server`: rendering with a cluster behind it, as Helm does.
//!
//! `--validate` takes the capabilities from the cluster and checks that it serves every kind and that
//! nothing rendered is there already without belonging to the release. `--dry-run=server` lets `lookup`
//! ask the cluster.

use serde_json::Value;
use slipway_chart::{Capabilities, RenderOptions, RenderedChart};
use slipway_cluster::Cluster;
use slipway_manifest::object;
use slipway_release::validate::{ExistingObjects, validate_rendered};
use tokio::runtime::Runtime;

use crate::session::Session;

/// A cluster that answers while a chart is rendered.
pub struct Live {
    runtime: Runtime,
    cluster: Cluster,
}

impl Live {
    pub fn connect(session: &Session) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let cluster = runtime.block_on(async {
            let connection = session.connect().await?;
            crate::connect::reached(connection.cluster.clone(), &connection).await
        })?;
        Ok(Self { runtime, cluster })
    }

    /// Returns what templates see of the cluster.
    pub fn capabilities(&self) -> anyhow::Result<Capabilities> {
        Ok(self.runtime.block_on(slipway_release::plan::read_capabilities(&self.cluster))?)
    }

    /// Returns what `lookup` finds.
    pub fn find(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Value, slipway_cluster::Error> {
        let (group, version) = object::split_api_version(api_version);
        let gvk = slipway_manifest::Gvk::new(group, version, kind);
        self.runtime.block_on(slipway_release::lookup::lookup_object(&self.cluster, gvk, namespace, name))
    }

    /// Checks what was rendered as installing it would.
    pub fn check(
        &self,
        rendered: &RenderedChart,
        options: &RenderOptions,
        existing: ExistingObjects,
    ) -> anyhow::Result<()> {
        let text = match &rendered.post_rendered {
            Some(text) => text.clone(),
            None => rendered.manifest_text(options),
        };
        Ok(self.runtime.block_on(validate_rendered(&self.cluster, &text, options, existing))?)
    }
}
