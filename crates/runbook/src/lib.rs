//! Runbooks: `khook.io/v1` documents that bootstrap a cluster, step by step.
//!
//! A document is text first: [`Variables`] are gathered from flags, files and the environment, and
//! [`substitute`] puts them into the text while remembering where every piece came from, so that
//! whatever is found wrong later is reported where the user wrote it. [`load`] does all of that and
//! gives a [`Document`], or [`Diagnostics`]: everything that is wrong, at once.

mod decode;
mod diagnostic;
pub mod hash;
mod load;
mod model;
mod schema;
mod text;
pub mod until;
mod variables;

pub use diagnostic::{Diagnostic, Diagnostics};
pub use load::{LoadOptions, Loaded, load};
pub use model::{
    Action, Apply, Auth, ChartSource, Delete, Document, Helm, Job, ManifestSource, OnError, Patch, PatchType,
    Rollout, RolloutVerb, Selection, State, Step, ValuesSource, Wait, When, WorkloadKind,
};
pub use schema::schema;
pub use text::{Origin, Reference, Substituted, substitute};
pub use variables::{Given, Inputs, Variable, Variables};
