//! `slipway run`: runbooks.

mod document;
mod graph;
mod validate;

use crate::exit::Exit;
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
    /// Draw the steps and what each needs
    Graph(graph::Args),
    /// Print the JSON Schema of runbooks, for editors
    Schema,
}

pub fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Validate(args) => validate::run(args, session),
        Command::Graph(args) => graph::run(args, session),
        Command::Schema => {
            show::print(&(serde_json::to_string_pretty(&slipway_runbook::schema())? + "\n"))?;
            Ok(Exit::Done)
        }
    }
}
