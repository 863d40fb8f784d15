//! A Kubernetes cluster as the engines see it.
//!
//! [`Cluster`] wraps a `kube::Client` (a real server or the sandbox, nobody can tell): discovery,
//! objects as `serde_json::Value`, every failure sorted into an [`ErrorClass`] and passing trouble
//! retried. [`connect`] makes one from kubeconfig files. [`helm`] stores releases where Helm finds them,
//! [`lock`] keeps two runs off one release, [`track`] follows objects until they are ready, with their
//! [`logs`] (and [`listen`] to all pods of something), and [`wait`] waits in kubectl's words. Everything that watches shares one watch for each
//! kind and namespace.
//! The crate decides nothing: it reads, writes, watches and tells.

mod calls;
mod cluster;
pub mod connect;
pub mod crd;
mod deadline;
mod error;
mod gate;
pub mod helm;
mod kinds;
pub mod listen;
pub mod lock;
pub mod logs;
mod namespace;
mod objects;
mod observe;
mod record;
mod request;
mod rights;
pub mod track;
mod trouble;
pub mod wait;
mod watch;

pub use calls::{Calls, Verb};
pub use cluster::{Cluster, Limits, ServerVersion};
pub use deadline::Deadline;
pub use error::{ConnectionFault, Error, ErrorClass, Status};
pub use gate::Gate;
pub use kinds::{Kind, Kinds};
pub use namespace::{Missing, Namespace};
pub use objects::{Apply, Delete, Deleted, ListOptions, Listed, Patch, Propagation, WriteOptions};
pub use record::SecretStore;
pub use request::Retry;
pub use rights::Rights;
pub use trouble::Trouble;
