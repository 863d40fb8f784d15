//! Plays the GitOps tool: brings the images of the repository into the cluster.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;
use slipway_cluster::{Cluster, ObjectPatch, WriteOptions};
use slipway_manifest::{Gvk, ObjectRef};

use crate::gitea::Gitea;

/// Environments that are not synced for now.
#[derive(Clone, Default)]
pub(crate) struct Stuck(Arc<Mutex<BTreeSet<String>>>);

impl Stuck {
    pub(crate) fn set(&self, environment: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(environment.to_owned());
    }

    pub(crate) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn has(&self, environment: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(environment)
    }
}

/// Syncs environments until it is aborted.
pub(crate) async fn play(
    gitea: Gitea,
    repository: &'static str,
    cluster: Cluster,
    environments: &'static [&'static str],
    stuck: Stuck,
) {
    loop {
        for environment in environments.iter().copied().filter(|environment| !stuck.has(environment)) {
            let path = format!("environments/{environment}/kustomization.yaml");
            let Ok(text) = gitea.file(repository, &path).await else { continue };
            let tag = text.lines().find_map(|line| line.trim().strip_prefix("newTag:"));
            // Without its comment.
            let Some(tag) = tag.and_then(|tag| tag.split('#').next()) else { continue };
            let tag = tag.trim().trim_matches('"');
            let at = ObjectRef::new(Gvk::new("apps", "v1", "Deployment"), Some(environment), "my-app");
            let containers = json!([{"name": "app", "image": format!("ghcr.io/acme/app:{tag}")}]);
            let patch =
                ObjectPatch::Strategic(json!({"spec": {"template": {"spec": {"containers": containers}}}}));
            let _ = cluster.patch(&at, &patch, &WriteOptions::for_manager("player"), None).await;
        }
        tokio::time::sleep(crate::PAUSE * 3).await;
    }
}
