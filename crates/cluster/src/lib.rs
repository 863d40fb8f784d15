//! A Kubernetes cluster as the engines see it.
//!
//! [`Cluster`] wraps a `kube::Client` (a real server or the sandbox, nobody can tell): discovery,
//! objects as `serde_json::Value`, every failure sorted into an [`ErrorClass`] and passing trouble
//! retried. [`connect`] makes one from kubeconfig files. [`helm`] stores releases where Helm finds them,
//! [`lock`] keeps two runs off one release, [`election`] one process of several at work, [`track`] follows objects until they are ready, with their
//! [`logs`] (and those of all pods of something: [`pod_logs`]), and [`wait`] waits in kubectl's words. Everything that watches shares one watch for each
//! kind and namespace.
//! The crate decides nothing: it reads, writes, watches and tells.

mod calls;
mod cluster;
pub mod connect;
pub mod crd;
mod deadline;
pub mod election;
mod error;
mod gate;
pub mod helm;
mod kinds;
mod last_error;
mod lease;
pub mod lock;
pub mod logs;
mod namespace;
mod objects;
mod observe;
pub mod pod_logs;
mod record;
mod request;
mod rights;
pub mod track;
pub mod wait;
mod watch;

pub use calls::{CallCounts, RequestVerb};
pub use cluster::{Cluster, RequestLimits, ServerVersion};
pub use deadline::Deadline;
pub use error::{ApiStatus, ConnectionFault, Error, ErrorClass};
pub use gate::WriteGate;
pub use kinds::{ServedKind, ServedKinds};
pub use last_error::LastRequestError;
pub use namespace::{NamespaceCreation, NamespaceState};
pub use objects::{
    ApplyOptions, DeleteOptions, DeleteOutcome, DeletePropagation, ListOptions, ObjectList, ObjectPatch,
    WriteOptions,
};
pub use record::SecretStore;
pub use request::RetryPolicy;
pub use rights::{AccessNeed, AccessRules};
pub use watch::{KindWatch, WatchSink};
