//! The API: which resources are served, the documents that describe them, and a handler a verb.

pub(crate) mod crd;
pub(crate) mod discovery;
pub(crate) mod handlers;
pub(crate) mod openapi;
pub(crate) mod resource;
pub(crate) mod select;
pub(crate) mod table;
mod verb;

pub(crate) use verb::Verb;
