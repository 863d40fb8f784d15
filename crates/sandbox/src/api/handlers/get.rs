//! GET of one object.

use crate::http::respond::Reply;
use crate::status::{Result, Status};

use super::ResourceRequest;

pub(super) fn get_object(request: &ResourceRequest) -> Result<Reply> {
    if let Some(version) = request.query.non_empty("resourceVersion") {
        let asked = super::list::version_or_500(version)?;
        let current = request.core.store.current_revision();
        if asked > current {
            return Err(Status::future_version(asked, current));
        }
    }
    let object = request
        .core
        .store
        .get(&request.served.table, &request.object_key())
        .ok_or_else(|| Status::not_found(request.served.resource_name(), &request.path.name))?;
    Ok(request
        .object_reply(200, &object)
        .with_warnings(request.all_warnings(super::list::read_warnings(request))))
}
