//! POST: a new object.

use crate::http::respond::Reply;
use crate::status::{Result, Status};
use crate::write::FieldOwnership;
use crate::write::admit::meta;
use crate::write::convert;

use super::{NameSource, ResourceRequest, check_identity};

pub(super) fn create_object(request: &ResourceRequest) -> Result<Reply> {
    let author = request.write_author("CreateOptions")?;
    let validation = request.query.field_validation("CreateOptions")?;
    let mut warnings = Vec::new();
    let mut value = request.decode_object(validation, &mut warnings)?;
    check_identity(request, &mut value, NameSource::Free)?;
    if let Some(reply) = crate::auth::review::answer_review(request, &value)? {
        return Ok(reply);
    }
    let newer_event = request.served.def.group == "events.k8s.io";
    let value = convert::to_storage(&request.served, value);
    if newer_event {
        crate::write::admit::validate::validate_newer_event(&value).map_err(|causes| {
            Status::invalid(
                request.storage_resource().kind_name(),
                meta::metadata_text(&value, "name"),
                causes,
            )
        })?;
    }
    let storage = request.storage_resource();
    let created =
        request.core.create_object(&storage, &request.path.namespace, value, &author, FieldOwnership::Update);
    let mut written = created.map_err(|mut status| {
        status.warnings.append(&mut warnings);
        status
    })?;
    warnings.append(&mut written.warnings);
    written.warnings = warnings;
    Ok(request.write_reply(written))
}
