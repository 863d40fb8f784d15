//! Chart repositories: their index, the user's list of them, and finding a chart in one.

mod config;
mod index;
mod search;

pub use config::{Repositories, Repository};
#[cfg(feature = "net")]
pub(crate) use index::absolute;
pub use index::{Entry, Index};
pub use search::{Hit, SearchOptions, search};
