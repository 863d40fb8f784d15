//! Clusters of environments that run elsewhere: a kubeconfig in a Secret becomes a connection.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use data_encoding::BASE64;
use slipway_cluster::Cluster;
use slipway_cluster::connect::{ConnectOptions, CredentialPolicy, KubeconfigSource, connect};
use slipway_event::Redactor;
use slipway_http::parse_url;
use slipway_manifest::{ObjectRef, object};

use super::error::HealthError;
use crate::OutboundClients;
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

#[derive(Clone)]
struct OpenCluster {
    resource_version: String,
    /// The host of its server.
    host: String,
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
        outbound: &OutboundClients,
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
        let known = self.open.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        let open = match known.filter(|open| open.resource_version == version) {
            Some(open) => open,
            None => self.open(&key, &secret).await?,
        };
        // A name may lead elsewhere tomorrow.
        outbound.check_host(&open.host).await.map_err(|source| HealthError::ServerForbidden {
            namespace: place.to_owned(),
            name: name.to_owned(),
            source,
        })?;
        Ok(open.cluster)
    }

    /// Connects anew. Nothing is sent yet.
    async fn open(&self, key: &SecretName, secret: &serde_json::Value) -> Result<OpenCluster, HealthError> {
        let data = KEYS.into_iter().find_map(|key| secret["data"][key].as_str());
        let text = data.and_then(|data| String::from_utf8(BASE64.decode(data.as_bytes()).ok()?).ok());
        let (namespace, name) = (key.namespace.clone(), key.name.clone());
        let Some(text) = text else { return Err(HealthError::KubeconfigMissing { namespace, name }) };
        let options = ConnectOptions {
            kubeconfig: KubeconfigSource::Text(text.into()),
            credentials: CredentialPolicy::Inline,
            timeout: Some(CONNECT_LIMIT),
            ..ConnectOptions::default()
        };
        let connection = connect(&options, &self.redactor).await.map_err(|problem| {
            let (namespace, name) = (namespace.clone(), name.clone());
            HealthError::KubeconfigRejected { namespace, name, problem: Box::new(problem) }
        })?;
        let server = connection.server;
        let host = parse_url(&server).ok().and_then(|url| url.host_str().map(str::to_owned));
        let Some(host) = host else { return Err(HealthError::ServerInvalid { namespace, name, server }) };
        let resource_version = secret["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        let open = OpenCluster { resource_version, host, cluster: super::patient(connection.cluster) };
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), open.clone());
        Ok(open)
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
