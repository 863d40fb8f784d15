//! Preconditions of a write: `resourceVersion` and `uid`, and the refusals that name them.

use serde_json::json;

use crate::api::resource::ServedResource;
use crate::status::{Result, Status};
use crate::store::{ObjectKey, StoredObject};

/// Reads a `resourceVersion`.
pub(crate) fn parse_revision(text: &str) -> Result<u64> {
    text.parse()
        .map_err(|_| Status::plain_500(format!("strconv.ParseUint: parsing {}: invalid syntax", json!(text))))
}

/// The refusal of a write meant for an object with another uid.
pub(crate) fn other_uid(
    served: &ServedResource,
    live: &StoredObject,
    uid: &str,
    dry_run: bool,
) -> Box<Status> {
    uid_conflict(served, &live.key, uid, &live.uid, dry_run)
}

/// The same where there may be no object at all.
pub(crate) fn uid_conflict(
    served: &ServedResource,
    key: &ObjectKey,
    uid: &str,
    found: &str,
    dry_run: bool,
) -> Box<Status> {
    // A dry run does not reach the storage layer, which adds the prefix.
    let path = registry_path(served, key);
    let path = if dry_run { path.trim_start_matches("/registry") } else { &*path };
    Status::conflict(
        served.resource_name(),
        &key.name,
        &format!(
            "StorageError: invalid object, Code: 4, Key: {path}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {found}"
        ),
    )
}

/// Returns the path of an object in etcd, which some messages name.
pub(crate) fn registry_path(served: &ServedResource, key: &ObjectKey) -> String {
    let place = match (served.def.group.as_str(), &*served.table) {
        (_, "services") => "services/specs".to_owned(),
        (_, "endpoints") => "services/endpoints".to_owned(),
        (_, "nodes") => "minions".to_owned(),
        (_, "replicationcontrollers") => "controllers".to_owned(),
        (group, _) if served.custom.is_some() => format!("{group}/{}", served.def.plural),
        _ => served.def.plural.clone(),
    };
    if key.namespace.is_empty() {
        format!("/registry/{place}/{}", key.name)
    } else {
        format!("/registry/{place}/{}/{}", key.namespace, key.name)
    }
}
