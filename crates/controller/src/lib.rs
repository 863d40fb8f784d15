//! One running process of promotion.
//!
//! [`run_controller`] takes part in an election; the replica that leads runs the controllers of `slipway-promotion`, and every
//! replica serves HTTP (`server`): bundles, webhooks, approvals, the timeline, probes and metrics. [`run_agent`] carries
//! out the steps of one shard from another cluster. Handlers keep nothing that matters: they read and write objects, and
//! annotations wake the replica that works.

mod agent;
pub mod chart;
pub mod doctor;
mod metrics;
mod process;
mod server;
mod settings;

pub use agent::{AgentOptions, run_agent};
pub use process::{ControllerError, ControllerHandle, ControllerServices, run_controller};
pub use server::tokens_schema;
pub use settings::{ControllerMode, ControllerOptions, ListenAddresses, TlsFiles};
