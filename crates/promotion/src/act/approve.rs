//! Approval where there are no pull requests.

use serde_json::json;
use slipway_cluster::Cluster;

use crate::kinds::{self, Bundle, BundleSpec, KindError};

/// Label on bundles: the environment that may be promoted to.
const APPROVED_FOR: &str = "kardinal.io/approved-for";

/// Approves a bundle for an environment of a pipeline on a plain Git server.
pub async fn approve_bundle(
    cluster: &Cluster,
    bundle: &Bundle,
    environment: &str,
) -> Result<Bundle, KindError> {
    let mut read = bundle.clone();
    loop {
        match kinds::patch_metadata(cluster, &read, json!({"labels": {APPROVED_FOR: environment}})).await {
            // The controller wrote in between; what it wrote is kept.
            Err(error) if error.is_conflict() => {
                let found = kinds::get::<BundleSpec>(cluster, bundle.namespace(), bundle.name()).await?;
                let Some(found) = found else { return Err(error) };
                read = found;
            }
            written => return written,
        }
    }
}
