//! Applying patches: choosing objects, walking paths, writing values, remembering every write.

pub(crate) mod cast;
mod elements;
mod eval;
mod merge;
mod ready;
mod realize;
mod run;
mod seg;
mod target;
mod whole;

pub(crate) use realize::{NoValue, ValueRealizer};
pub use run::{PatchWrite, WriteKind};
pub(crate) use run::{apply_patches, bool_value};
pub(crate) use seg::item_seg;
pub use seg::{PathSegment, show_segs};
pub(crate) use target::ObjectTargets;
