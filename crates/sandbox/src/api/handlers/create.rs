//! POST: a new object.

use crate::http::respond::Reply;
use crate::status::{Result, Status};
use crate::write::Ownership;
use crate::write::admit::meta;
use crate::write::convert;

use super::{Naming, Request, check_identity};

pub(super) fn handle(request: &Request) -> Result<Reply> {
    let author = request.author("CreateOptions")?;
    let validation = request.query.field_validation("CreateOptions")?;
    let mut warnings = Vec::new();
    let mut value = request.decode_object(validation, &mut warnings)?;
    check_identity(request, &mut value, Naming::Free)?;
    if let Some(reply) = crate::auth::review::answer(request, &value)? {
        return Ok(reply);
    }
    let newer_event = request.served.def.group == "events.k8s.io";
    let value = convert::to_storage(&request.served, value);
    if newer_event {
        crate::write::admit::validate::newer_event(&value).map_err(|causes| {
            Status::invalid(request.storage().named_kind(), meta::text(&value, "name"), causes)
        })?;
    }
    let storage = request.storage();
    let created = request.core.create(&storage, &request.path.namespace, value, &author, Ownership::Update);
    let mut written = created.map_err(|mut status| {
        status.warnings.append(&mut warnings);
        status
    })?;
    warnings.append(&mut written.warnings);
    written.warnings = warnings;
    Ok(request.reply(written))
}
