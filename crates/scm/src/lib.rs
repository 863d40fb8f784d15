//! Pull requests as approvals, on every kind of server that has them.
//!
//! [`ScmConnections`] connects to a repository's server and gives a [`ScmProvider`]; [`open_pull_request`] is the way
//! to have exactly one pull request a branch. [`PromotionSummary`] writes what a pull request says,
//! [`WebhookReceiver`] tells true deliveries from forged and repeated ones. A delivery is a hint to look, never a
//! state: only what a provider answers counts.
//!
//! Every request counts against its server's rate limit and its circuit breaker, and no text shows a token.

mod api;
mod app_token;
mod azure;
mod bitbucket;
mod breaker;
mod connect;
mod content;
mod credential;
mod error;
mod escape;
mod gitea;
mod github;
mod gitlab;
mod marker;
mod none;
mod open;
mod provider;
mod remote;
mod webhook;

pub use breaker::{BreakerState, HostReport, RequestCount};
pub use connect::{ConnectOptions, InProcessServer, ScmConnections};
pub use content::{
    ArtifactRow, ChangeRow, ConfigChange, GateRow, GateStatus, Link, PromotionKind, PromotionSummary,
    PromotionUrgency, UpstreamRow, gates_comment,
};
pub use credential::{AppCredential, ScmCredential};
pub use error::{ErrorClass, ScmError};
pub use escape::escape_markdown;
pub use marker::StepMarker;
pub use open::{OpenOutcome, open_pull_request};
pub use provider::{
    AccessReport, CheckState, CommitCheck, MergeMethod, MergeOutcome, MergeRequest, Mergeability,
    NewPullRequest, PullRequest, PullRequestChange, PullRequestState, ReviewRequest, ReviewSummary,
    ScmProvider,
};
pub use remote::{ProviderKind, RemoteError, RemoteRepository};
pub use webhook::{
    DeliveryLog, WebhookError, WebhookEvent, WebhookHeaders, WebhookOutcome, WebhookReceiver, WebhookSecret,
};
