//! Promotion: takes versions through the environments of a pipeline.
//!
//! A [`kinds::Pipeline`] lists environments, a [`kinds::Bundle`] is a version to take through them. The translator makes a
//! Graph of the two and of the policy gates that apply (`translate`, pure). The Graph controller of `slipway-kro` creates the
//! gates and steps of that Graph in order; the reconcilers here evaluate gates (`gate`), carry out steps (`step`), prove
//! health (`health`) and keep the Bundle's record (`bundle`). People look at all of it through `view` and ask for things
//! through `act`; `files` reads objects of the kinds that are written in files.

pub mod act;
pub mod agents;
pub mod audit;
pub mod bundle;
pub mod contract;
mod controller;
pub mod files;
pub mod gate;
pub mod health;
pub mod kinds;
pub mod metric;
pub mod notify;
mod options;
mod outbound;
pub mod pipeline;
mod registry;
mod requeue;
pub mod rollback;
pub mod step;
pub mod subscription;
pub mod translate;
mod validate;
pub mod view;
mod webhook;
pub mod window;

pub use controller::{
    ControllerReport, ControllerRole, PromotionController, PromotionError, PromotionServices,
    PromotionSettings,
};
pub use options::PromotionOptions;
pub use outbound::{ForbiddenHost, OutboundClients, OutboundPolicy};
pub use requeue::Requeue;
pub use slipway_kro::ApiGroup;
pub use validate::{PipelineFault, PipelineProblem, validate_pipeline};
pub use webhook::is_signed;
