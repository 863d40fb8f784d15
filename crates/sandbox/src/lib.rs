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
mod state;
mod status;
mod store;
mod write;

pub use self::http::control::{Credentials, LARGEST_SNAPSHOT, Server};
pub use self::http::fault::{Fault, FaultLayer, FaultService, Rule};
pub use self::http::respond::{Body, BoxError};
pub use self::http::service::ApiService;
pub use api::select::Labels;
pub use auth::User;
pub use clock::{Clock, Speed};
pub use controllers::cron::Schedule;
pub use controllers::{Cluster, Controller, Item, Next, Queue};
pub use ids::{fnv32a, safe_encode};
pub use sandbox::{BuildError, Builder, Sandbox};
pub use status::{Cause, Status};
pub use store::{Change, DataNotice, DurableError, Event, Key, Object, Recovery, Snapshot, Store};
pub use write::admit::prepare::Part;
pub use write::delete::{DeleteOptions, Propagation};
