//! Applying patches: choosing objects, walking paths, writing values, remembering every write.

pub(crate) mod cast;
mod eval;
mod realize;
mod run;
mod target;
mod whole;

pub(crate) use eval::item_seg;
pub use eval::{Seg, show_segs};
pub(crate) use realize::{NoValue, Realize};
pub use run::{Write, WriteKind};
pub(crate) use run::{apply, truth};
pub(crate) use target::Targets;
