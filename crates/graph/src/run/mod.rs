//! Running a graph.

mod observer;
mod outcome;
mod policy;
mod scheduler;
mod state;
mod worker;

pub use observer::RunEvent;
pub use outcome::{AttemptFailure, NodeReport, NodeTotals, Outcome, Report, StopReason};
pub use policy::{Backoff, NodePolicy, OnFailure, Policy, Retry, RunningNodes, Schedule};
pub use scheduler::Run;
pub use worker::{Classify, Context, Done, RetryClass, RetryClasses, Worker};
