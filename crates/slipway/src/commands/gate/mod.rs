//! `slipway gate`: policy gates, live and tried out. One file a command.

pub mod check;
pub mod list;
pub mod simulate;

use crate::exit::Exit;
use crate::session::Session;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List gate templates: whom they bind, where, and whether they can be used
    #[command(alias = "ls")]
    List(list::ListArgs),
    /// Show a gate: its expression, where it applies, and what it holds now
    Explain(list::ExplainArgs),
    /// Check files of gates, and run their test cases, without a cluster
    Test(check::TestArgs),
    /// Try gates at another time, with other values, or on past promotions
    Simulate(Box<simulate::SimulateArgs>),
    /// Open a gate for a while, on record
    Override(list::OverrideArgs),
}

pub fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    match &args.command {
        Command::List(args) => list::run(args, session),
        Command::Explain(args) => list::explain_gate(args, session),
        Command::Test(args) => check::run(args, session),
        Command::Simulate(args) => simulate::run(args, session),
        Command::Override(args) => list::override_gate(args, session),
    }
}
