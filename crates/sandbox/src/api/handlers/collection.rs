//! DELETE of everything a selector matches.

use crate::http::respond::Reply;
use crate::status::Result;

use super::ResourceRequest;

pub(super) fn delete_collection(request: &ResourceRequest) -> Result<Reply> {
    let options = super::delete::delete_options(request)?;
    let filter = crate::api::select::ObjectFilter::from_query(&request.query, &request.served)?;
    super::list::check_version(request)?;
    let served = request.storage_resource();
    let namespace = Some(request.path.namespace.as_str()).filter(|n| !n.is_empty());
    let most = request.query.int_value("limit")?.filter(|n| *n > 0).and_then(|n| usize::try_from(n).ok());
    let all = request.core.store.list(&served.table, namespace).into_iter();
    let victims: Vec<_> = all.filter(|o| filter.matches(o)).take(most.unwrap_or(usize::MAX)).collect();
    for object in &victims {
        request.check_deletion(&served, object, options.dry_run)?;
        // Gone meanwhile is gone.
        if let Err(status) = request.core.delete_object(&served, &object.key, &options)
            && status.code != 404
        {
            return Err(status);
        }
    }
    let rev = request.core.store.current_revision();
    let warnings = request.all_warnings(super::delete::orphan_warnings(request));
    Ok(super::list::print_page(request, &victims, rev, None, None)
        .with_warnings(warnings)
        .with_revision(Some(rev)))
}
