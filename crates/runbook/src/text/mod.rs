//! The text of a document before it is YAML: references, pipelines, and where every piece came from.

mod pipeline;
mod scan;
mod segments;
mod substitute;

pub use scan::Reference;
pub use segments::Origin;
pub use substitute::{DollarEscape, Substituted, substitute};
