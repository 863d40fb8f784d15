//! Kubernetes objects without a cluster.
//!
//! The object model is [`serde_json::Value`] in source order; [`object`] reads identity off it.
//! [`schema`] knows every built-in type and gives custom resources the same form, so that everything
//! else is written once: [`patch`] (JSON, merge and strategic merge patches, applied and created).
//!
//! Nothing here talks to a cluster, reads the environment or prints.

pub mod apply;
pub mod depth;
pub mod fields;
pub mod jsonpath;
pub mod names;
pub mod object;
pub mod patch;
pub mod quantity;
pub mod schema;
pub mod selector;

pub use object::{Gvk, Gvr, ObjectId};
pub use schema::{Schema, TypeRef, Types};
