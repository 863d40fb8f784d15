//! The binary: commands, terminal, configuration, exit codes. No logic of its own.

mod charts;
mod cli;
mod commands;
mod config;
mod connect;
mod exit;
mod files;
mod helm;
mod interrupt;
mod logs;
mod reference;
mod rehearse;
mod session;
mod term;

use std::process::ExitCode;

use crate::cli::Cli;
use crate::exit::Exit;
use crate::session::Session;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    let cli = match Cli::read(&words) {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let result = Session::open(&cli.globals).and_then(|session| commands::run(cli.command, &session));
    match result {
        Ok(exit) => exit.into(),
        Err(failure) => {
            term::report::failure(&failure);
            Exit::of(&failure).into()
        }
    }
}

/// Prints what clap has to say: help and version are answers, the rest is a usage error (64).
fn usage(error: &clap::Error) -> ExitCode {
    // Nothing is left to be done when the terminal is gone.
    let _ = error.print();
    if error.use_stderr() { Exit::Usage.into() } else { Exit::Done.into() }
}
