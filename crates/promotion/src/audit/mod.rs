//! The audit trail: everything that happened to promotions, in one chain of hashes a pipeline.
//!
//! `facts` reads from an object what has happened to it (pure), [`AuditTrail`] adds what is not recorded yet, and
//! [`verify_chain`] finds what was changed, removed or put in between. The position in the chain is the name of an entry,
//! so that the API server decides who is next, and the key of a fact keeps it from being recorded twice.

mod facts;
mod recorder;
mod trail;
mod verify;

pub use facts::{AuditFact, bundle_facts, gate_facts, pipeline_facts, step_facts};
pub use recorder::AuditRecorder;
pub use trail::{AuditTrail, list_events};
pub use verify::{ChainFault, ChainReport, event_hash, verify_chain};
