//! The meeting point of units and strategies: what a rollout works with, and how it ends.

use slipway_cluster::Cluster;
use slipway_event::Events;
use slipway_release::{ExecuteOptions, ReleaseReport, ReleaseRequest};
use slipway_source::RenderedSource;
use tokio_util::sync::CancellationToken;

use crate::ledger::ApplyLedger;

/// Everything a strategy works with. The lock of the unit is held and the intent is in the ledger.
#[derive(Clone)]
pub struct DeployContext<'a> {
    pub cluster: &'a Cluster,
    /// The release as a whole; its content is `rendered`.
    pub request: &'a ReleaseRequest,
    /// The proven objects, with secrets.
    pub rendered: &'a RenderedSource,
    pub options: &'a ExecuteOptions,
    pub ledger: &'a ApplyLedger,
    pub events: &'a Events,
    pub cancel: CancellationToken,
}

/// The end of a rollout that did not fail.
#[derive(Clone, Debug)]
pub enum DeployOutcome {
    /// The release is deployed as a whole.
    Deployed(Box<ReleaseReport>),
    /// A step waits for somebody to resume it.
    Paused { step: String },
    /// Checks failed and the rollout was taken back; the release is what it was before.
    TakenBack { why: String },
}
