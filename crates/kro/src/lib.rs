//! The Graph controller: objects that read each other, applied in the order that gives and kept that way.
//!
//! A [`GraphSpec`] is a set of nodes whose bodies hold expressions. It is compiled (`compile`: dialects, expressions,
//! dependencies, every problem at once), and each Graph is walked whenever something it reads has changed (`walk`: admit,
//! resolve, apply, observe, prune). [`GraphController`] owns the queue; one watch a kind feeds all Graphs (`feed`). The
//! kinds and their definitions are in [`api`] and [`definitions`]. The crate knows nothing of what Graphs are for.

pub mod api;
mod compile;
mod controller;
mod definition;
mod expression;
mod feed;
mod flip;
mod functions;
mod memory;
mod names;
mod project;
mod queue;
mod reconcile;
mod revision;
mod scan;
mod specs;
mod status;
mod template;
mod tombstones;
mod walk;
mod work_queue;

pub use api::{ApiGroup, GraphSpec, NodeSpec, NodeState};
pub use compile::{CompileError, SpecFault, SpecProblem, check_spec};
pub use controller::{AllowedKinds, ControllerError, ControllerOptions, GraphController, WriteScope};
pub use definition::{DefinitionFrame, conditions_schema, definitions};
pub use flip::probe_change;
pub use names::GraphId;
pub use scan::{Segment, UnterminatedExpression, scan};
pub use work_queue::{QueueReport, WORK_BOUNDS, WorkQueue, contain_panic};
