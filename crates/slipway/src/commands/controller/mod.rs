//! The controller of promotions: run it, install it, remove it. One file a command.

mod install;
pub mod run;

use crate::exit::Exit;
use crate::session::Session;

/// The controller of promotions: run, install and remove it
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Run the controller in this process: one of several leads, all answer requests
    Run(Box<run::RunArgs>),
    /// Install the controller into the cluster, or bring it up to date, definitions included
    Install(Box<install::InstallArgs>),
    /// Remove the controller; definitions and everything people created stay
    Uninstall(Box<install::UninstallArgs>),
}

pub fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Run(args) => run::run(args, session),
        Command::Install(args) => install::install(args, session),
        Command::Uninstall(args) => install::uninstall(args, session),
    }
}
