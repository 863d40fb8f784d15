//! Whole commands, as a user runs them.

mod bad_input;
mod charts;
mod config;
mod connection;
mod controller;
#[cfg(unix)]
mod documentation;
mod failures;
mod graph;
mod helm_flags;
mod json_output;
#[cfg(unix)]
mod leak_scan;
#[cfg(unix)]
mod leak_sinks;
#[cfg(unix)]
mod leak_sockets;
mod leaks;
mod mistakes;
#[cfg(unix)]
mod output;
#[cfg(target_os = "linux")]
mod pictures;
mod policy;
mod promotion;
mod release;
mod run;
mod runbook;
mod runbook_secrets;
mod runbook_sources;
mod sandbox;
#[cfg(target_os = "linux")]
mod screen;
#[cfg(unix)]
mod secret_interrupt;
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
mod unit;
mod unit_mistakes;
#[cfg(target_os = "linux")]
mod watching;
