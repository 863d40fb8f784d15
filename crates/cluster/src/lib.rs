//! A Kubernetes cluster as the engines see it.
//!
//! [`Cluster`] wraps a `kube::Client` (a real server or the sandbox, nobody can tell): discovery,
//! objects as `serde_json::Value`, every failure sorted into an [`ErrorClass`] and passing trouble
//! retried. [`helm`] stores releases where Helm finds them.
//! The crate decides nothing: it reads, writes, watches and tells.

// Watching and connecting come next and use the rest.
#![allow(dead_code)]

mod calls;
mod cluster;
mod error;
pub mod helm;
mod kinds;
mod objects;
mod request;
mod watch;

pub use calls::{Calls, Verb};
pub use cluster::{Cluster, Limits, ServerVersion};
pub use error::{Error, ErrorClass, Status};
pub use kinds::{At, Kind, Kinds};
pub use objects::{Apply, Delete, Deleted, ListOptions, Listed, Patch, Propagation, WriteOptions};
pub use request::Retry;
