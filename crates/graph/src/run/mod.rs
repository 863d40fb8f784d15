//! Running a graph.

mod observer;
mod outcome;
mod policy;
mod scheduler;
mod state;
mod worker;

pub use observer::RunEvent;
pub use outcome::{Failure, NodeReport, Outcome, Report, StopReason, Summary};
pub use policy::{Backoff, NodePolicy, OnFailure, Policy, Retry, Running, Schedule};
pub use scheduler::Run;
pub use worker::{Classify, Context, Done, ErrorClass, ErrorClasses, Worker};
