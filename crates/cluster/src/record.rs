//! A run record kept in a Secret: the journal's store where there is a cluster.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use slipway_journal::{RecordDocument, RecordStore, StoreAction, StoreError, StoreFault, StoreFuture};
use slipway_manifest::{ObjectRef, object};
use tokio::sync::Mutex;

use crate::{Cluster, DeleteOptions, Error, ErrorClass, WriteOptions};

/// The label that names the owner of a record.
const OWNER_LABEL: &str = "app.kubernetes.io/managed-by";
const KEY: &str = "record.json";
/// How often a write that met another one is tried again.
const CONFLICTS: usize = 5;

/// The Secret a record lives in.
#[derive(Debug)]
pub struct SecretStore {
    cluster: Cluster,
    at: ObjectRef,
    /// The field manager and the owner the Secret is labelled with.
    manager: String,
    /// The version that was last read or written; none when there is no Secret.
    version: Mutex<Option<String>>,
}

impl SecretStore {
    /// Keeps the record in the Secret `namespace/name`, which belongs to `manager`.
    pub fn new(cluster: &Cluster, namespace: &str, name: &str, manager: &str) -> Self {
        let at = ObjectRef::core("Secret", Some(namespace), name);
        Self { cluster: cluster.clone(), at, manager: manager.to_owned(), version: Mutex::new(None) }
    }

    /// Goes on from a version that was read before: the first write replaces it.
    #[must_use]
    pub fn known_version(self, version: Option<String>) -> Self {
        Self { version: Mutex::new(version), ..self }
    }

    /// The version that was last read or written; none when there is no Secret.
    pub async fn version(&self) -> Option<String> {
        self.version.lock().await.clone()
    }

    fn failed(&self, action: StoreAction) -> impl FnOnce(Error) -> StoreError {
        let place = self.place();
        move |error| {
            let fault = match error.class {
                ErrorClass::NotFound => StoreFault::NoPlace,
                ErrorClass::Forbidden => StoreFault::Forbidden,
                _ => StoreFault::Other,
            };
            StoreError::Failed { place, action, fault, source: Box::new(error) }
        }
    }

    /// Reads the Secret if it is there, and makes sure that it is ours.
    async fn get(&self) -> Result<Option<Value>, StoreError> {
        let live = self.cluster.get(&self.at).await.map_err(self.failed(StoreAction::Read))?;
        match &live {
            Some(secret) if object::label(secret, OWNER_LABEL) != Some(self.manager.as_str()) => {
                Err(StoreError::Foreign { place: self.place(), manager: self.manager.clone() })
            }
            _ => Ok(live),
        }
    }

    async fn read(&self) -> Result<Option<Vec<u8>>, StoreError> {
        let mut version = self.version.lock().await;
        let live = self.get().await?;
        *version = live.as_ref().and_then(resource_version);
        let Some(live) = live else { return Ok(None) };
        let corrupt = |why: String| StoreError::Corrupt { place: self.place(), why };
        let text = live["data"][KEY].as_str().ok_or_else(|| corrupt(format!("it has no `{KEY}`")))?;
        STANDARD.decode(text).map(Some).map_err(|error| corrupt(error.to_string()))
    }

    async fn write(&self, record: &RecordDocument) -> Result<(), StoreError> {
        let mut version = self.version.lock().await;
        let options = WriteOptions::for_manager(&self.manager);
        let mut tries = 0;
        loop {
            let body = self.secret(record, version.as_deref());
            let sent = match *version {
                Some(_) => self.cluster.replace(&self.at, &body, &options).await,
                None => self.cluster.create(&self.at, &body, &options).await,
            };
            let error = match sent {
                Ok(live) => {
                    *version = resource_version(&live);
                    return Ok(());
                }
                Err(error) => error,
            };
            let met = matches!(error.class, ErrorClass::Conflict | ErrorClass::AlreadyExists)
                || (error.class == ErrorClass::NotFound && version.is_some());
            if !met || tries >= CONFLICTS {
                return Err(self.failed(StoreAction::Write)(error));
            }
            tries += 1;
            *version = self.get().await?.as_ref().and_then(resource_version);
        }
    }

    fn secret(&self, record: &RecordDocument, version: Option<&str>) -> Value {
        let mut secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {
                "name": self.at.name, "namespace": self.at.namespace,
                "labels": {OWNER_LABEL: self.manager},
                "annotations": record.annotations,
            },
            "data": {KEY: STANDARD.encode(&record.content)},
        });
        if let Some(version) = version {
            secret["metadata"]["resourceVersion"] = version.into();
        }
        secret
    }
}

fn resource_version(live: &Value) -> Option<String> {
    live["metadata"]["resourceVersion"].as_str().map(str::to_owned)
}

impl RecordStore for SecretStore {
    /// Returns `namespace/name`.
    fn place(&self) -> String {
        format!("{}/{}", self.at.namespace.as_deref().unwrap_or_default(), self.at.name)
    }

    fn load(&self) -> StoreFuture<'_, Option<Vec<u8>>> {
        Box::pin(self.read())
    }

    fn save<'a>(&'a self, record: &'a RecordDocument) -> StoreFuture<'a, ()> {
        Box::pin(self.write(record))
    }

    fn remove(&self) -> StoreFuture<'_, ()> {
        Box::pin(async {
            if self.get().await?.is_none() {
                return Ok(());
            }
            let deleted = self.cluster.delete(&self.at, &DeleteOptions::default()).await;
            deleted.map(drop).map_err(self.failed(StoreAction::Delete))
        })
    }
}
