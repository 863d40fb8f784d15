//! A Kubernetes-compatible API server inside the binary, with simulated controllers.
//!
//! [`Sandbox::builder`] makes a cluster in this process: [`Sandbox::client`] reaches it without
//! sockets, [`Sandbox::serve`] serves the very same thing over TLS for kubectl, Helm and everything
//! else. A request flows from `route` and `negotiate` through `handlers` into `write` (defaults,
//! admission, validation under `admit`) and the `store`; controllers react to the store's events and
//! write through the same path.

mod admit;
mod auth;
mod bind;
mod body;
mod bootstrap;
mod clock;
pub mod clone;
mod control;
mod controllers;
mod convert;
mod core;
mod crd;
mod crd_rules;
mod cron;
mod delete;
mod discovery;
mod fault;
mod fault_plan;
mod handlers;
mod ids;
mod negotiate;
mod net;
mod openapi;
mod pki;
mod query;
mod resource;
mod respond;
mod route;
mod sandbox;
mod select;
mod service;
mod state;
mod status;
mod store;
mod table;
mod typed;
mod write;
mod yaml;

pub use admit::prepare::Part;
pub use auth::User;
pub use clock::{Clock, Speed};
pub use control::{Credentials, LARGEST_SNAPSHOT, Server};
pub use controllers::{Cluster, Controller, Item, Next, Queue};
pub use cron::Schedule;
pub use delete::{DeleteOptions, Propagation};
pub use fault::{Fault, FaultLayer, FaultService, Rule};
pub use ids::{fnv32a, safe_encode};
pub use respond::{Body, BoxError};
pub use sandbox::{BuildError, Builder, Sandbox};
pub use select::Labels;
pub use service::ApiService;
pub use status::{Cause, Status};
pub use store::{Change, DataNotice, DurableError, Event, Key, Object, Recovery, Snapshot, Store};
