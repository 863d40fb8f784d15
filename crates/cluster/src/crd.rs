//! Waits until the kinds of a definition are served.

use std::time::Duration;

use serde_json::Value;
use slipway_manifest::Gvk;
use tokio::time::Instant;

use crate::Cluster;
use crate::error::{Error, ErrorClass};

/// The kinds a `CustomResourceDefinition` says are served.
pub fn served_kinds(definition: &Value) -> Vec<Gvk> {
    let spec = &definition["spec"];
    let (group, kind) =
        (spec["group"].as_str().unwrap_or_default(), spec["names"]["kind"].as_str().unwrap_or_default());
    let versions = spec["versions"].as_array().into_iter().flatten();
    versions
        .filter(|version| version["served"] == true)
        .filter_map(|version| Some(Gvk::new(group, version["name"].as_str()?, kind)))
        .collect()
}

/// Waits until every served version of a definition shows up in discovery; usually a tenth of a second.
pub async fn wait_until_served(
    cluster: &Cluster,
    definition: &Value,
    patience: Duration,
) -> Result<(), Error> {
    let wanted = served_kinds(definition);
    let started = Instant::now();
    let mut pause = Duration::from_millis(20);
    loop {
        cluster.invalidate_kinds().await;
        let kinds = cluster.served_kinds().await?;
        let Some(missing) = wanted.iter().find(|gvk| kinds.by_gvk(gvk).is_none()) else { return Ok(()) };
        if started.elapsed() + pause > patience {
            let message = format!("still not served after {} s", patience.as_secs());
            return Err(Error::new(ErrorClass::Timeout, format!("wait for {missing}"), message));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(500));
    }
}
