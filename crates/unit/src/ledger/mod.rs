//! The ledger: facts about a unit, each bound to the one before by its hash. The first is bound to the unit's digest.
//!
//! It lives inside of the unit. Where the unit cannot be written it lives in a file beside it (*sidecar*), and
//! [`merge_ledger`] brings the two together.

mod apply;
mod entry;
mod merge;
mod store;

pub use apply::{ApplyLedger, ApplyStatus, StepRecord, StepStatus};
pub(crate) use entry::read_ledger;
pub use entry::{EntryKind, LedgerEntry, UnitTarget};
pub use merge::{MergeOutcome, merge_ledger};
pub use store::{LedgerIdentity, LedgerPlace, UnitLedger};
