//! Field ownership: which manager owns what, for updates and server-side apply.

use serde_json::{Value, json};
use slipway_manifest::apply;
use slipway_manifest::fields::{FieldPath, FieldSet};

use super::WriteAuthor;
use crate::api::resource::ServedResource;
use crate::core::Core;
use crate::status::{Result, Status};
use crate::write::admit::prepare::ObjectPart;
use crate::write::admit::rules;

impl Core {
    /// Calls `call` with the manager, version and subresource that ownership is recorded for.
    fn with_apply_request<T>(
        &self,
        served: &ServedResource,
        author: &WriteAuthor,
        part: ObjectPart,
        call: impl FnOnce(&apply::WriteRequest<'_>) -> T,
    ) -> T {
        let reset = reset_fields(served, part);
        let now = self.now();
        let registry = self.registry();
        let versions = served_versions(&registry, served);
        let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
        call(&apply::WriteRequest {
            manager: &author.manager,
            api_version: served.api_version(),
            subresource: if author.scale { "scale" } else { subresource_of(part) },
            now: &now,
            reset: reset.as_ref(),
            served: &versions,
        })
    }

    /// Records the author's ownership of what changed.
    pub(super) fn record_ownership(
        &self,
        served: &ServedResource,
        live: Option<&Value>,
        new: Value,
        author: &WriteAuthor,
        part: ObjectPart,
    ) -> Result<Value> {
        self.with_apply_request(served, author, part, |request| {
            apply::update(live, new, served.type_ref(), request)
        })
        .map_err(|e| Status::plain_500(e.to_string()))
    }

    /// Applies a configuration to the live object, or to nothing.
    pub(crate) fn apply_config(
        &self,
        served: &ServedResource,
        live: Option<&Value>,
        config: &Value,
        author: &WriteAuthor,
        part: ObjectPart,
        force: bool,
    ) -> Result<apply::AppliedObject> {
        let applied = self.with_apply_request(served, author, part, |request| {
            apply::apply(live, config, served.type_ref(), request, force)
        });
        applied.map_err(|e| match e {
            apply::ApplyError::Conflicts(conflicts) => {
                let causes: Vec<Value> = conflicts
                    .0
                    .iter()
                    .map(|c| {
                        json!({"reason": "FieldManagerConflict", "message": c.cause_message(), "field": c.path.to_string()})
                    })
                    .collect();
                let mut status = Status::new(409, "Conflict", conflicts.to_string());
                status.details = Some(json!({"causes": causes}));
                status
            }
            apply::ApplyError::ManagedFields | apply::ApplyError::WrongType(_) => Status::bad_request(e.to_string()),
            other => Status::plain_500(other.to_string()),
        })
    }
}

pub(super) fn subresource_of(part: ObjectPart) -> &'static str {
    match part {
        ObjectPart::Main => "",
        ObjectPart::Status => "status",
        ObjectPart::Finalize => "finalize",
        ObjectPart::Approval => "approval",
        ObjectPart::EphemeralContainers => "ephemeralcontainers",
        ObjectPart::Resize => "resize",
    }
}

/// The fields an endpoint does not write.
fn reset_fields(served: &ServedResource, part: ObjectPart) -> Option<FieldSet> {
    let paths = match part {
        // The spec of a request stays as it was.
        ObjectPart::Main if served.rule_key() == ("certificates.k8s.io", "CertificateSigningRequest") => {
            vec![FieldPath::from_names(["spec"]), FieldPath::from_names(["status"])]
        }
        ObjectPart::Main if served.has_status() && !rules::status_on_main(served.rule_key()) => {
            vec![FieldPath::from_names(["status"])]
        }
        ObjectPart::Status => {
            let mut paths = vec![FieldPath::from_names(["spec"])];
            let written =
                if served.custom.is_some() { &[] } else { rules::metadata_with_status(served.rule_key()) };
            for key in ["labels", "annotations", "finalizers", "ownerReferences"] {
                if !written.contains(&key) {
                    paths.push(FieldPath::from_names(["metadata", key]));
                }
            }
            paths
        }
        _ => return None,
    };
    Some(paths.iter().collect())
}

fn served_versions(
    registry: &crate::api::resource::ResourceRegistry,
    served: &ServedResource,
) -> Vec<String> {
    registry
        .groups
        .iter()
        .find(|g| g.name == served.def.group)
        .map(|g| g.versions.iter().map(|v| slipway_manifest::object::join_api_version(&g.name, v)).collect())
        .unwrap_or_default()
}
