//! Objects as text: one stream, files, phases, and what Flux and Argo CD need beside them.

mod argo;
mod emit;
mod flux;
mod layout;
mod marker;

pub use argo::ArgoApp;
pub use emit::EmitOptions;
pub use flux::FluxOptions;
pub use layout::FileLayout;
pub use marker::{DirectoryPlan, ForeignFiles, MARKER, plan_directory};

/// A file to write: its path below the output directory and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutFile {
    pub path: String,
    pub text: String,
}

pub(crate) use emit::order_keys;
