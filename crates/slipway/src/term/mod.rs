//! How things look on a terminal.

pub mod diff;
pub mod progress;
pub mod report;
pub mod show;
pub mod style;
pub mod table;
