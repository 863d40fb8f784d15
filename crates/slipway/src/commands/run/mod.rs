//! `slipway run`: runbooks.

mod apply;
mod connection;
mod document;
mod fetch;
pub mod graph;
mod preview;
mod status;
pub mod validate;

use std::borrow::Cow;

use slipway_event::Redactor;
use slipway_problem::{Problem, Problems};

use crate::exit::{Exit, UsageError};
use crate::session::Session;
use crate::term::show;

/// Bootstrap clusters from khook.io/v1 runbooks
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Check a runbook without a cluster and report everything that is wrong with it
    Validate(validate::Args),
    /// Say for every step what would happen now, and why; nothing is written
    Plan(preview::PlanArgs),
    /// Show what would change, line by line; nothing is written
    Diff(preview::DiffArgs),
    /// Carry the steps out, each after those it needs
    Apply(Box<apply::ApplyArgs>),
    /// Take away what the steps made, in the opposite order
    Destroy(Box<apply::DestroyArgs>),
    /// Show the record of the last run and what the next would leave out
    Status(status::Args),
    /// Draw the steps and what each needs
    Graph(graph::Args),
    /// Print the JSON Schema of runbooks, for editors
    Schema,
}

pub fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    perform(args, session).map_err(|failure| masked(failure, session.redactor()))
}

/// A failure without the secrets of the runbook.
fn masked(failure: anyhow::Error, redactor: &Redactor) -> anyhow::Error {
    let problem = |mut problem: Problem| {
        redactor.redact_in_place(&mut problem.message);
        for text in problem.hint.iter_mut().chain(&mut problem.excerpt) {
            redactor.redact_in_place(text);
        }
        problem
    };
    let all = |problems: Problems| problems.into_iter().map(problem).collect::<Problems>();
    let failure = match failure.downcast::<UsageError>() {
        Ok(UsageError(problems)) => return UsageError(all(problems)).into(),
        Err(failure) => failure,
    };
    let failure = match failure.downcast::<Problems>() {
        Ok(problems) => return all(problems).into(),
        Err(failure) => failure,
    };
    let failure = match failure.downcast::<Problem>() {
        Ok(found) => return problem(found).into(),
        Err(failure) => failure,
    };
    let text = format!("{failure:#}");
    match redactor.redact(&text) {
        Cow::Borrowed(_) => failure,
        Cow::Owned(text) => anyhow::Error::msg(text),
    }
}

fn perform(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Validate(args) => validate::run(args, session),
        Command::Plan(args) => preview::plan(args, session),
        Command::Diff(args) => preview::diff(args, session),
        Command::Apply(args) => apply::apply(args, session),
        Command::Destroy(args) => apply::destroy(args, session),
        Command::Status(args) => status::run(args, session),
        Command::Graph(args) => graph::run(args, session),
        Command::Schema => {
            show::print(&(serde_json::to_string_pretty(&slipway_runbook::schema())? + "\n"))?;
            Ok(Exit::Done)
        }
    }
}
