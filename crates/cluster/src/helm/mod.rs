//! Releases stored where Helm stores them, in the form Helm reads and writes.
//!
//! [`Release`] is the record of one revision with every field Helm 3 and 4 know; what we do not know
//! is kept. [`codec`] packs it as Helm does, [`ReleaseStorage`] keeps it in Secrets, ConfigMaps
//! or a database (`sql`).

pub mod codec;
mod release;
mod sql;
mod storage;

pub use release::{ChartRecord, HelmTime, Hook, HookRun, Release, RevisionInfo, RevisionStatus};
pub use sql::{ConnectionStringError, SqlDatabase, SqlSettings};
pub use storage::{
    DamagedRevision, ReleaseHistory, ReleasePlace, ReleaseStorage, StorageDriver, StorageScope,
    StoredRevision,
};
