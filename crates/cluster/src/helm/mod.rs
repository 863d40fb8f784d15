//! Releases stored where Helm stores them, in the form Helm reads and writes.
//!
//! [`Release`] is the record of one revision with every field Helm 3 and 4 know; what we do not know
//! is kept. [`codec`] packs it as Helm does, [`Storage`] keeps it in Secrets or ConfigMaps.

pub mod codec;
mod release;
mod storage;

pub use release::{ChartRecord, Hook, HookRun, Info, Release, Status, Time};
pub use storage::{Damaged, Driver, History, Scope, Storage, Stored};
