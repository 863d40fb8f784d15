//! One strict server a provider, written from its public documentation.

pub(crate) mod azure;
pub(crate) mod bitbucket;
pub(crate) mod gitea;
pub(crate) mod github;
pub(crate) mod gitlab;

use serde_json::json;

use crate::model::Reply;

pub(crate) fn not_found() -> Reply {
    Reply::new(404, json!({"message": "Not Found"}))
}

pub(crate) fn unauthorized() -> Reply {
    Reply::new(401, json!({"message": "Bad credentials"}))
}
