//! The binary: commands, terminal, configuration, exit codes. No logic of its own.

// First, because it brings the macro `say!`.
#[macro_use]
mod term;

mod charts;
mod cli;
mod commands;
mod config;
mod connect;
mod deferred;
mod examples;
mod exit;
mod files;
mod helm;
mod help;
mod interrupt;
mod logs;
mod memory;
mod other_tools;
mod panic;
mod reference;
mod session;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ContextKind;

use crate::cli::Cli;
use crate::commands::completions::{self, ASKING_SHELL};
use crate::exit::Exit;
use crate::session::Session;
use crate::term::failure::FailureForm;
use crate::term::output::{self, Ending, OutputLost};
use crate::term::style::{HINT, paint};

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(panic::report_panic));
    let words: Vec<_> = std::env::args_os().collect();
    let exit = match config::variable(ASKING_SHELL) {
        Some(shell) => completions::answer(&shell, &words),
        None => match Cli::read(&words) {
            Ok(cli) => run(cli),
            Err(error) => usage(error, &words),
        },
    };
    let exit = match output::finish() {
        Ending::Written | Ending::Closed => exit,
        Ending::Failed(error) => {
            // Unless the command said it already.
            if exit.is_success() {
                term::failure::tell(&OutputLost(error).into(), FailureForm::Text);
            }
            exit.or_failed()
        }
        Ending::Abandoned => exit.or_failed(),
    };
    output::finish_messages();
    exit.into()
}

fn run(cli: Cli) -> Exit {
    let mut form = FailureForm::of_flags(&cli.globals);
    let result = Session::open(&cli.globals).and_then(|session| {
        form = session.failure_form();
        commands::run(cli.command, &session)
    });
    match result {
        Ok(exit) => {
            if form == FailureForm::Object && !exit.is_success() {
                term::failure::tell_exit(exit);
            }
            exit
        }
        Err(failure) => {
            term::failure::tell(&failure, form);
            Exit::of(&failure)
        }
    }
}

/// Prints what clap has to say: help and version are answers, the rest is a usage error (64).
fn usage(mut error: clap::Error, line: &[OsString]) -> Exit {
    let hint = other_tools::translation_hint(&error, line);
    if hint.is_some() {
        // What sounds alike is not what is meant.
        error.remove(ContextKind::SuggestedSubcommand);
    } else {
        other_tools::keep_nearest(&mut error);
    }
    // The line of a suggestion that was taken away leaves a gap.
    let text = error.render().ansi().to_string().replace("\n\n\n", "\n\n");
    let text = term::escape::mark(&text);
    if !error.use_stderr() {
        output::print(&text);
        return Exit::Done;
    }
    match FailureForm::of_words(line) {
        FailureForm::Object => term::failure::tell_usage(&error, hint),
        FailureForm::Text => {
            output::message(&text);
            if let Some(hint) = hint {
                say!("  {} {hint}", paint(HINT, "hint:"));
            }
        }
    }
    Exit::Usage
}
