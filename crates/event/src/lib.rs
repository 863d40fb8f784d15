//! The event stream every engine speaks.
//!
//! Engines never print. They hold an [`Events`] handle and send [`Event`] payloads; an engine that works inside of
//! another's run is given [`Events::child`], whose records carry the [`Scope`]. The handle stamps events (run id, sequence number, time), masks every registered secret and passes the resulting
//! [`Record`] to its [`Sink`]s. A terminal, a JSON-lines file, a gRPC stream and a web page are all
//! sinks of the same records, so they can never disagree.
//!
//! The JSON form of a record is versioned and documented in `docs/reference/events.md`.

mod clock;
mod event;
mod events;
mod node;
mod observe;
mod redact;
mod run_id;
mod scope;
mod sink;

pub use clock::{Clock, ManualClock, SystemClock};
pub use event::{
    Event, FORMAT_VERSION, LogStream, NodeOutcome, ObjectState, PlannedChanges, PromptAnswer, Record,
    ReplicaCounts, RunOutcome,
};
pub use events::Events;
pub use node::{NodeId, NodeKind, NodeName};
pub use redact::{Coverage, MASK, RedactingWriter, Redactor, without_credentials};
pub use run_id::{InvalidRunId, RunId};
pub use scope::{Scope, ScopeKind};
pub use sink::{Broadcast, FileSink, JsonLines, Memory, Sink, Tee};
pub use slipway_graph::NodeTotals;
