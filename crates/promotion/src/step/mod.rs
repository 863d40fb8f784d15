//! Promotion steps: a version on its way into one environment, carried out entry by entry and resumed after any crash.
//!
//! [`StepReconciler::reconcile_step`] is one turn: guards (`reconciler`), the conditions under which a step begins
//! (`start`, `queue`), then entry after entry (`run`), each announced in the status before it begins (`status`). The built-in
//! entries are under `actions`, one file each. Edits of files are replayed on another base whenever that is needed
//! (`edit`, `workspace`); everything else is found again by looking: a commit by its trailer, a pull request by its branch.
//! [`StepReconciler::receive_webhook`] turns deliveries into reasons to look. `finish` ends a step and removes its traces.

mod access;
mod actions;
mod condition;
mod context;
mod diagnose;
mod drift;
mod edit;
mod finish;
mod hold;
mod orphans;
mod outcome;
mod plain_merge;
mod pull_request;
mod queue;
mod reconciler;
mod retry;
mod run;
mod sequence;
mod start;
mod status;
mod webhook;
mod workspace;

pub use actions::StepAction;
pub use diagnose::{RepositoryFault, RepositoryReport};
pub use reconciler::{ArgoCdWrites, StepOptions, StepReconciler, StepServices};
pub use retry::{RetryOutcome, retry_step};
pub use sequence::{SequenceInputs, default_sequence};
pub use webhook::{DeliveryError, WebhookDelivery};
