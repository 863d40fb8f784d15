//! DELETE of everything a selector matches.

use crate::http::respond::Reply;
use crate::status::Result;

use super::Request;

pub(super) fn handle(request: &Request) -> Result<Reply> {
    let options = super::delete::options(request)?;
    let filter = crate::api::select::Filter::read(&request.query, &request.served)?;
    let served = request.storage();
    let namespace = Some(request.path.namespace.as_str()).filter(|n| !n.is_empty());
    let most = request.query.int("limit")?.filter(|n| *n > 0).and_then(|n| usize::try_from(n).ok());
    let all = request.core.store.list(&served.table, namespace).into_iter();
    let victims: Vec<_> = all.filter(|o| filter.matches(o)).take(most.unwrap_or(usize::MAX)).collect();
    for object in &victims {
        request.check_deletion(&served, object, options.dry_run)?;
        // Gone meanwhile is gone.
        if let Err(status) = request.core.delete(&served, &object.key, &options)
            && status.code != 404
        {
            return Err(status);
        }
    }
    let rev = request.core.store.rev();
    let warnings = request.all_warnings(super::delete::warnings(request));
    Ok(super::list::print(request, &victims, rev, None, None).with_warnings(warnings).wrote(Some(rev)))
}
