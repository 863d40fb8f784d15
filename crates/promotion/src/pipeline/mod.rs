//! The state of a Pipeline: whether it is valid, what each environment runs, and which Bundles are kept.

mod reconcile;
mod summary;

pub use reconcile::PipelineReconciler;
pub use summary::{deployment_metrics, environment_statuses};
