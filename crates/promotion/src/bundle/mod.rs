//! The life of a Bundle: admission, its Graph, its record, and its end.

mod admission;
mod admit;
mod clean_up;
mod graph;
mod group;
mod history;
mod org_gates;
mod outcome;
mod progress;
mod reconcile;
mod record;
mod supersede;

pub(crate) use admission::{covered_environments, decide_skips};
pub use history::expired_bundles;
pub(crate) use outcome::condition::ROLLED_BACK;
pub use progress::{
    BundleProgress, GraphEnvironment, derive_progress, environment_states, graph_environments,
};
pub use reconcile::{BundleReconciler, ReconcileError};
pub use record::{EvidenceSources, record_environment};
pub use supersede::{SupersedeDecision, SupersedeInput, compare_age, decide_supersede};
