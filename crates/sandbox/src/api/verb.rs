//! Verbs of requests, in the words RBAC uses.

use http::Method;

use crate::http::query::QueryParameters;
use crate::http::route::ResourcePath;

/// The verb of a request on a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    /// The verb of a request; methods the API has no use for have none.
    pub(crate) fn of_request(method: &Method, path: &ResourcePath, query: &QueryParameters) -> Option<Verb> {
        let named = !path.name.is_empty();
        let watching = path.watch || query.bool_value("watch") == Some(true);
        Some(match *method {
            Method::GET | Method::HEAD if watching && (!named || path.watch) => Verb::Watch,
            Method::GET | Method::HEAD if named => Verb::Get,
            Method::GET | Method::HEAD => Verb::List,
            Method::POST => Verb::Create,
            Method::PUT => Verb::Update,
            Method::PATCH => Verb::Patch,
            Method::DELETE if named => Verb::Delete,
            Method::DELETE => Verb::DeleteCollection,
            _ => return None,
        })
    }

    /// The word for it in roles, discovery and fault rules.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
        }
    }
}
