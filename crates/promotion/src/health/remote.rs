//! Clusters of environments that run elsewhere: a kubeconfig in a Secret becomes a connection.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use data_encoding::BASE64;
use slipway_cluster::Cluster;
use slipway_cluster::connect::{ConnectOptions, CredentialPolicy, KubeconfigSource, connect};
use slipway_event::Redactor;
use slipway_manifest::{ObjectRef, object};

use super::error::HealthError;
use crate::kinds::labels::ALLOW_NAMESPACES;

/// The longest a remote cluster may take to accept a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// The keys of a Secret that may hold a kubeconfig.
const KEYS: [&str; 3] = ["kubeconfig", "value", "config"];

/// Connections to remote clusters, one a Secret and version of it.
pub(super) struct RemoteClusters {
    redactor: Redactor,
    open: Mutex<BTreeMap<SecretName, OpenCluster>>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SecretName {
    namespace: String,
    name: String,
}

struct OpenCluster {
    resource_version: String,
    cluster: Cluster,
}

impl RemoteClusters {
    pub(super) fn new(redactor: Redactor) -> Self {
        Self { redactor, open: Mutex::default() }
    }

    /// Connects with the kubeconfig of a Secret in the pipeline's namespace, or of one that the controller's
    /// namespace shares with it.
    pub(super) async fn connect(
        &self,
        control: &Cluster,
        namespace: &str,
        name: &str,
        shared_namespace: Option<&str>,
    ) -> Result<Cluster, HealthError> {
        let own = control.get(&ObjectRef::core("Secret", Some(namespace), name)).await?;
        let (place, secret) = match (own, shared_namespace) {
            (Some(secret), _) => (namespace, secret),
            (None, Some(shared)) => {
                let secret = control.get(&ObjectRef::core("Secret", Some(shared), name)).await?;
                let allowed = secret.filter(|secret| allows(secret, namespace));
                (shared, allowed.ok_or_else(|| missing(namespace, name))?)
            }
            (None, None) => return Err(missing(namespace, name)),
        };
        let key = SecretName { namespace: place.to_owned(), name: name.to_owned() };
        let version = secret["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        if let Some(open) = self.open.lock().unwrap_or_else(PoisonError::into_inner).get(&key)
            && open.resource_version == version
        {
            return Ok(open.cluster.clone());
        }
        let data = KEYS.into_iter().find_map(|key| secret["data"][key].as_str());
        let text = data.and_then(|data| String::from_utf8(BASE64.decode(data.as_bytes()).ok()?).ok());
        let (namespace, name) = (place.to_owned(), name.to_owned());
        let Some(text) = text else { return Err(HealthError::KubeconfigMissing { namespace, name }) };
        let options = ConnectOptions {
            kubeconfig: KubeconfigSource::Text(text.into()),
            credentials: CredentialPolicy::Inline,
            timeout: Some(CONNECT_LIMIT),
            ..ConnectOptions::default()
        };
        let connection = connect(&options, &self.redactor).await.map_err(|problem| {
            HealthError::KubeconfigRejected { namespace, name, problem: Box::new(problem) }
        })?;
        let cluster = super::patient(connection.cluster);
        let open = OpenCluster { resource_version: version.to_owned(), cluster: cluster.clone() };
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(key, open);
        Ok(cluster)
    }

    /// Forgets a connection whose credentials were refused.
    pub(super) fn forget(&self, name: &str) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|key, _| key.name != name);
    }
}

fn missing(namespace: &str, name: &str) -> HealthError {
    HealthError::SecretMissing { namespace: namespace.to_owned(), name: name.to_owned() }
}

/// A Secret of the controller's namespace lists the namespaces that may use it.
fn allows(secret: &serde_json::Value, namespace: &str) -> bool {
    let allowed = object::annotation(secret, ALLOW_NAMESPACES).unwrap_or_default();
    allowed.split(',').map(str::trim).any(|allowed| allowed == namespace || allowed == "*")
}
