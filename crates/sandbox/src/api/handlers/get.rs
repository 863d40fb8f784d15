//! GET of one object.

use crate::http::respond::Reply;
use crate::status::{Result, Status};

use super::Request;

pub(super) fn handle(request: &Request) -> Result<Reply> {
    if let Some(version) = request.query.some("resourceVersion") {
        let asked = super::list::version_or_500(version)?;
        let current = request.core.store.rev();
        if asked > current {
            return Err(Status::future_version(asked, current));
        }
    }
    let object = request
        .core
        .store
        .get(&request.served.table, &request.key())
        .ok_or_else(|| Status::not_found(request.served.named(), &request.path.name))?;
    Ok(request
        .object_reply(200, &object)
        .with_warnings(request.all_warnings(super::list::read_warnings(request))))
}
