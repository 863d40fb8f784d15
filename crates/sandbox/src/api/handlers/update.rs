//! PUT: a whole object in place of the live one.

use serde_json::Value;

use crate::http::respond::Reply;
use crate::status::{NamedResource, Result, Status, StatusCause};
use crate::write::admit::meta;
use crate::write::admit::prepare::ObjectPart;
use crate::write::admit::rules;
use crate::write::convert;
use crate::write::{FieldOwnership, UpdateProposal, WriteAuthor, WriteResult};

use super::{NameSource, ResourceRequest, check_identity};

pub(super) fn update_object(request: &ResourceRequest) -> Result<Reply> {
    replace_part(request, ObjectPart::Main)
}

/// Replaces one part of an object by the body's.
pub(super) fn replace_part(request: &ResourceRequest, part: ObjectPart) -> Result<Reply> {
    let author = request.write_author("UpdateOptions")?;
    let validation = request.query.field_validation("UpdateOptions")?;
    let mut warnings = Vec::new();
    let value = request.decode_object(validation, &mut warnings)?;
    match replace_by(request, part, &author, value) {
        Ok(mut written) => {
            warnings.append(&mut written.warnings);
            written.warnings = warnings;
            Ok(request.write_reply(written))
        }
        Err(mut status) => {
            status.warnings.append(&mut warnings);
            Err(status)
        }
    }
}

fn replace_by(
    request: &ResourceRequest,
    part: ObjectPart,
    author: &WriteAuthor,
    mut value: Value,
) -> Result<WriteResult> {
    check_identity(request, &mut value, NameSource::Required)?;
    let served = request.storage_resource();
    let value = convert::to_storage(&request.served, value);
    let key = request.object_key();
    let missing = request.core.store.get(&served.table, &key).is_none();
    let kind = served.rule_key();
    if missing && part == ObjectPart::Main && rules::created_by_update(kind) && served.custom.is_none() {
        let mut value = value;
        let uid = meta::metadata_text(&value, "uid");
        if !uid.is_empty() {
            return Err(crate::write::uid_conflict(&served, &key, uid, "", author.dry_run));
        }
        meta::metadata_mut(&mut value).shift_remove("resourceVersion");
        return request.core.create_object(
            &served,
            &request.path.namespace,
            value,
            author,
            FieldOwnership::Update,
        );
    }
    let ends = meta::metadata_text(&value, "deletionTimestamp");
    let live = request.core.store.get(&served.table, &key);
    let uid = meta::metadata_text(&value, "uid");
    // Another object is replaced by nothing, whatever else is wrong with it.
    let same = live.as_ref().is_some_and(|object| uid.is_empty() || uid == &*object.uid);
    if same && !ends.is_empty() && live.is_some_and(|object| !object.deleting) {
        let cause = StatusCause::invalid("metadata.deletionTimestamp", &ends.into(), "field is immutable");
        return Err(Status::invalid(served.kind_name(), &key.name, vec![cause]));
    }
    let unversioned = matches!(meta::metadata_text(&value, "resourceVersion"), "" | "0");
    if !missing && unversioned && (served.custom.is_some() || rules::needs_version_for_update(kind)) {
        let subject = NamedResource { group: &served.def.group, what: &served.def.plural };
        return Err(Status::invalid(
            subject,
            &request.path.name,
            vec![StatusCause::invalid(
                "metadata.resourceVersion",
                &0.into(),
                "must be specified for an update",
            )],
        ));
    }
    request.core.update_object(&served, &key, part, author, &mut |_| {
        Ok(UpdateProposal { value: value.clone(), ownership: FieldOwnership::Update, warnings: vec![] })
    })
}
