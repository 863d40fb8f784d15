//! DELETE of one object.

use serde_json::Value;

use crate::http::respond::Reply;
use crate::status::{Result, Status, deletion_status};
use crate::write::delete::{DeleteOptions, DeletionOutcome, DeletionPropagation};

use super::ResourceRequest;

pub(super) fn delete_object(request: &ResourceRequest) -> Result<Reply> {
    let options = delete_options(request)?;
    let served = request.storage_resource();
    let admitted = match request.core.store.get(&served.table, &request.object_key()) {
        Some(object) => request.check_deletion(&served, &object, options.dry_run)?,
        None => Vec::new(),
    };
    let warnings = [orphan_warnings(request), admitted].concat();
    let deleted = request.core.delete_object(&served, &request.object_key(), &options);
    let deleted = deleted.map_err(|mut status| {
        // Warnings about the request are sent with a refusal as well.
        status.warnings.extend(warnings.iter().cloned());
        status
    });
    let reply = match deleted? {
        DeletionOutcome::Gone { uid, rev } => {
            Reply::value(200, deletion_status(request.served.resource_name(), &request.path.name, &uid))
                .with_revision(rev)
        }
        DeletionOutcome::GoneShown(value, rev) => request.value_reply(200, value).with_revision(rev),
        DeletionOutcome::Pending(object) => {
            let rev = object.rev;
            request.object_reply(200, &object).with_revision(Some(rev))
        }
        DeletionOutcome::PendingShown(value) => request.value_reply(200, value),
    };
    Ok(reply.with_warnings(request.all_warnings(warnings)))
}

/// Returns the warning about jobs that are deleted without their pods.
pub(super) fn orphan_warnings(request: &ResourceRequest) -> Vec<String> {
    let body = request.parse_options().map(|parsed| parsed.value).unwrap_or_default();
    let said = ["propagationPolicy", "orphanDependents"]
        .iter()
        .any(|word| !body[*word].is_null() || request.query.non_empty(word).is_some());
    if &*request.served.table != "jobs.batch" || said {
        return super::list::read_warnings(request);
    }
    vec![
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning"
            .into(),
    ]
}

/// Options from the body, which may be empty, JSON, YAML or protobuf.
pub(super) fn delete_options(request: &ResourceRequest) -> Result<DeleteOptions> {
    let body = if request.body.is_empty() {
        Value::Null
    } else {
        let value = request
            .parse_options()
            .map_err(|mut status| {
                if let Some((_, why)) = status.message.split_once("): ") {
                    let why = why.rsplit_once(" (").map_or(why, |(why, _)| why);
                    status.message = why.to_owned();
                }
                status
            })?
            .value;
        if value.is_array() {
            return Err(Status::bad_request(
                "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }",
            ));
        }
        let word = match &value["gracePeriodSeconds"] {
            Value::String(_) => "string",
            Value::Bool(_) => "bool",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
            _ => "",
        };
        if !word.is_empty() {
            return Err(Status::bad_request(format!(
                "json: cannot unmarshal {word} into Go struct field DeleteOptions.gracePeriodSeconds of type int64"
            )));
        }
        let kind = value["kind"].as_str().unwrap_or("");
        if !matches!(kind, "" | "DeleteOptions") {
            let version = value["apiVersion"].as_str().filter(|v| !v.is_empty()).unwrap_or("meta.k8s.io/v1");
            return Err(Status::bad_request(format!(
                "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
            )));
        }
        value
    };
    let options = DeleteOptions::from_request(&body, &request.query)?;
    // Replication controllers keep their old default: their pods are orphaned unless the options say otherwise.
    let keeps = matches!(&*request.served.table, "jobs.batch" | "replicationcontrollers");
    let propagation = options.propagation.or(keeps.then_some(DeletionPropagation::Orphan));
    Ok(DeleteOptions { propagation, ..options })
}
