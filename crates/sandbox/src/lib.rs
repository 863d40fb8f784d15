//! A Kubernetes-compatible API server inside the binary, with simulated controllers.
//!
//! [`Sandbox::builder`] makes a cluster in this process: [`Sandbox::client`] reaches it without
//! sockets, [`Sandbox::serve`] serves the very same thing over TLS for kubectl, Helm and everything
//! else. A request flows from `http` through a handler of `api` into `write` (defaults, admission,
//! validation under `admit`) and the `store`; `controllers` react to the store's events and write through
//! the same path.

mod api;
mod auth;
mod bootstrap;
mod clock;
pub mod clone;
mod controllers;
mod core;
mod http;
mod ids;
mod sandbox;
mod setting;
mod state;
mod status;
mod store;
mod write;

pub use self::http::control::{ClientCredentials, LARGEST_SNAPSHOT, SandboxServer};
pub use self::http::fault::{Fault, FaultLayer, FaultRule, FaultService};
pub use self::http::respond::{BoxError, ResponseBody};
pub use self::http::service::ApiService;
pub use api::select::LabelFilter;
pub use auth::User;
pub use clock::{Clock, ClockSpeed};
pub use controllers::cron::CronSchedule;
pub use controllers::{ClusterHandle, Controller, NextReconcile, WorkItem, WorkQueue};
pub use ids::{fnv32a, safe_encode};
pub use sandbox::{BuildError, Sandbox, SandboxBuilder};
pub use setting::SettingError;
pub use status::{Status, StatusCause};
pub use store::{
    ChangeType, DataNotice, DurableError, ObjectKey, RecoveryMode, Snapshot, Store, StoreEvent, StoredObject,
};
pub use write::admit::prepare::ObjectPart;
pub use write::delete::{DeleteOptions, DeletionPropagation};
