//! Whole commands, as a user runs them.

mod bad_input;
mod charts;
mod config;
mod graph;
#[cfg(unix)]
mod leak_scan;
mod leaks;
#[cfg(unix)]
mod output;
mod release;
mod run;
mod runbook;
mod runbook_secrets;
mod runbook_sources;
mod sandbox;
mod secret_sources;
mod secrets;
mod shell;
mod sources;
mod stack;
mod stack_runs;
mod support;
#[cfg(target_os = "linux")]
mod terminal;
#[cfg(unix)]
mod unbounded;
