//! Chart repositories: their index, the user's list of them, and finding a chart in one.

mod config;
mod index;
mod search;

pub use config::{RepositoryEntry, RepositoryList};
#[cfg(feature = "net")]
pub(crate) use index::absolute;
pub use index::{IndexEntry, RepositoryIndex};
pub use search::{SearchHit, SearchOptions, search};
