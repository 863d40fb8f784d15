//! OpenAPI documents.

use http::{HeaderMap, Response};

use crate::core::Core;
use crate::query::Query;
use crate::respond::Body;
use crate::status::Result;

/// Answers a path below `/openapi/`; `None` when there is nothing there.
pub(crate) fn answer(_: &Core, _: &str, _: &Query, _: &HeaderMap) -> Result<Option<Response<Body>>> {
    Ok(None)
}
