//! Kubernetes objects without a cluster.
//!
//! The object model is [`serde_json::Value`] in source order; [`object`] reads identity off it.
//! [`schema`] knows every built-in type and [`crd`] gives custom resources the same form, so that
//! everything else is written once: [`decode`] (JSON and protobuf, strict), [`encode`] (protobuf), [`patch`] (JSON, merge and
//! strategic merge patches, applied and created), [`fields`] and [`apply`] (who owns what, server-side
//! apply), [`diff`] (what changed, without noise and secrets). [`jsonpath`], [`selector`], [`quantity`],
//! [`names`] read kubectl's small languages with its error texts; [`pods`] finds containers, [`image`] reads their images.
//!
//! Nothing here talks to a cluster, reads the environment or prints.

pub mod apply;
pub mod crd;
pub mod decode;
pub mod depth;
pub mod diff;
pub mod encode;
mod encode_discovery;
pub mod field_error;
pub mod fields;
pub mod image;
pub mod jsonpath;
pub mod names;
pub mod object;
mod object_ref;
pub mod patch;
pub mod pods;
pub mod quantity;
pub mod schema;
pub mod selector;

pub use object::{Gvk, Gvr};
pub use object_ref::{ObjectId, ObjectRef};
pub use schema::{Schema, TypeRef, TypeRegistry};
