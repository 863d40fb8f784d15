//! Reading and writing objects of the kinds.

use serde_json::{Value, json};
use slipway_cluster::{
    Cluster, DeleteOptions, DeleteOutcome, DeletePropagation, Error, ErrorClass, ListOptions, ObjectPatch,
    WriteOptions,
};
use slipway_manifest::{ObjectRef, patch};

use super::labels::FIELD_MANAGER;
use super::resource::{KindSpec, Resource};

/// Why an object could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum KindError {
    #[error(transparent)]
    Cluster(#[from] Error),
    #[error("{object} is not as its definition says")]
    Malformed {
        object: ObjectRef,
        #[source]
        source: serde_json::Error,
    },
    #[error("the cluster serves no {kind}; install the definitions first")]
    NoKind { kind: &'static str },
}

impl KindError {
    /// Somebody else wrote the object in between: read it again.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Cluster(error) if error.class == ErrorClass::Conflict)
    }

    pub fn is_already_there(&self) -> bool {
        matches!(self, Self::Cluster(error) if error.class == ErrorClass::AlreadyExists)
    }

    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Cluster(error) if error.class == ErrorClass::NotFound)
    }

    /// The same may work a little later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Cluster(error) if error.is_transient() || error.class == ErrorClass::Conflict)
    }
}

fn write_options() -> WriteOptions {
    WriteOptions::for_manager(FIELD_MANAGER)
}

/// Takes an object apart.
pub fn parse<S: KindSpec>(object: Value) -> Result<Resource<S>, KindError> {
    let at = ObjectRef::of(&object);
    serde_json::from_value(object).map_err(|source| KindError::Malformed { object: at, source })
}

/// Reads an object; `None` when it does not exist.
pub async fn get<S: KindSpec>(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
) -> Result<Option<Resource<S>>, KindError> {
    cluster.get(&S::at(namespace, name)).await?.map(parse).transpose()
}

/// Lists the objects of a namespace, or of all namespaces.
pub async fn list<S: KindSpec>(
    cluster: &Cluster,
    namespace: Option<&str>,
    options: &ListOptions,
) -> Result<Vec<Resource<S>>, KindError> {
    let kind = cluster.find_kind(&S::gvk()).await?.ok_or(KindError::NoKind { kind: S::KIND })?;
    let list = cluster.list(&kind, namespace, options).await?;
    list.items.into_iter().map(parse).collect()
}

/// Creates an object.
pub async fn create<S: KindSpec>(cluster: &Cluster, object: &Resource<S>) -> Result<Resource<S>, KindError> {
    let at = object.reference();
    let manifest = object.manifest().map_err(|source| KindError::Malformed { object: at.clone(), source })?;
    parse(cluster.create(&at, &manifest, &write_options()).await?)
}

/// Writes a status if it differs from the one read, and only if nobody wrote the object since.
///
/// Returns the object as it is afterwards.
pub async fn patch_status<S: KindSpec>(
    cluster: &Cluster,
    read: &Resource<S>,
    status: &S::Status,
) -> Result<Resource<S>, KindError> {
    if read.status == *status {
        return Ok(read.clone());
    }
    let at = read.reference();
    let malformed = |source| KindError::Malformed { object: at.clone(), source };
    // Of a status that is not there yet every field is new, also one that is false or zero.
    let before = match read.status == S::Status::default() {
        true => json!({}),
        false => serde_json::to_value(&read.status).map_err(malformed)?,
    };
    let after = serde_json::to_value(status).map_err(malformed)?;
    let changes = patch::merge::create(&before, &after).unwrap_or(after);
    let body = json!({"metadata": {"resourceVersion": read.metadata.resource_version}, "status": changes});
    parse(cluster.patch(&at, &ObjectPatch::Merge(body), &write_options(), Some("status")).await?)
}

/// Changes metadata by a merge patch (`{"annotations": {…}}`), only if nobody wrote the object since.
pub async fn patch_metadata<S: KindSpec>(
    cluster: &Cluster,
    read: &Resource<S>,
    mut metadata: Value,
) -> Result<Resource<S>, KindError> {
    metadata["resourceVersion"] = read.metadata.resource_version.as_str().into();
    let body = json!({"metadata": metadata});
    parse(cluster.patch(&read.reference(), &ObjectPatch::Merge(body), &write_options(), None).await?)
}

/// Changes fields of a spec by a merge patch, only if nobody wrote the object since.
pub async fn patch_spec<S: KindSpec>(
    cluster: &Cluster,
    read: &Resource<S>,
    spec: Value,
) -> Result<Resource<S>, KindError> {
    let body = json!({"metadata": {"resourceVersion": read.metadata.resource_version}, "spec": spec});
    parse(cluster.patch(&read.reference(), &ObjectPatch::Merge(body), &write_options(), None).await?)
}

/// Adds or removes a finalizer; nothing is written where that changes nothing.
pub async fn set_finalizer<S: KindSpec>(
    cluster: &Cluster,
    read: &Resource<S>,
    finalizer: &str,
    presence: FinalizerPresence,
) -> Result<Resource<S>, KindError> {
    let mut finalizers = read.metadata.finalizers.clone();
    match presence {
        FinalizerPresence::Present if !finalizers.iter().any(|known| known == finalizer) => {
            finalizers.push(finalizer.to_owned());
        }
        FinalizerPresence::Absent => finalizers.retain(|known| known != finalizer),
        FinalizerPresence::Present => {}
    }
    if finalizers == read.metadata.finalizers {
        return Ok(read.clone());
    }
    patch_metadata(cluster, read, json!({"finalizers": finalizers})).await
}

/// Whether a finalizer is to be on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalizerPresence {
    Present,
    Absent,
}

/// Deletes this very object; that it is gone already is fine.
pub async fn delete<S: KindSpec>(
    cluster: &Cluster,
    object: &Resource<S>,
    propagation: DeletePropagation,
) -> Result<DeleteOutcome, KindError> {
    let options =
        DeleteOptions { propagation, uid: Some(object.metadata.uid.clone()), ..DeleteOptions::default() };
    match cluster.delete(&object.reference(), &options).await {
        // Another object of that name took its place.
        Err(error) if error.class == ErrorClass::Conflict => Ok(DeleteOutcome::Gone),
        outcome => Ok(outcome?),
    }
}
