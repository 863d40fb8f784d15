//! What people ask for: requests that become changes of objects, all of which kubectl could make as well.
//!
//! [`NewBundle`] becomes a Bundle, [`preview_bundle`] says what the translator would make of it, [`plan_promotion`] takes a
//! version into one environment by hand, [`pause_gate`] holds a pipeline, [`GateOverrideRequest`] opens a gate for a while,
//! [`approve_bundle`] approves where there are no pull requests, and [`PipelineConfig`] makes a Pipeline of a few lines.

mod approve;
mod bundle;
mod graph;
mod hold;
mod init;
mod overrides;
mod preview;
mod promote;
mod whoami;

pub use approve::approve_bundle;
pub use bundle::{ImageError, NewBundle, parse_image};
pub use graph::graph_template;
pub use hold::{PauseOutcome, ResumeOutcome, pause_gate, pause_pipeline, resume_pipeline};
pub use init::{PipelineConfig, ScaffoldedFile, read_config, scaffold_files};
pub use overrides::{GateOverrideRequest, OverrideError, override_gate};
pub use preview::{BundlePreview, PreviewedEnvironment, PreviewedGate, preview_bundle};
pub use promote::{PromoteError, PromotionPlan, plan_promotion};
pub use whoami::find_user;
