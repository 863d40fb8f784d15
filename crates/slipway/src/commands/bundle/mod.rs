//! `slipway bundle`: versions on their way through a pipeline. One file a command.

pub mod create;
pub mod list;
pub mod wait;

use crate::exit::Exit;
use crate::session::Session;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Create a bundle: a version to promote
    Create(Box<create::CreateArgs>),
    /// List the bundles of a pipeline, or of all
    #[command(alias = "ls")]
    List(list::ListArgs),
    /// Show a bundle: where it comes from and how far it has come
    Show(list::ShowArgs),
    /// Wait until a bundle has reached an environment, or its end
    Wait(wait::WaitArgs),
    /// Delete a bundle; its open pull requests are closed
    Delete(list::DeleteArgs),
}

pub fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Create(args) => create::run(args, session),
        Command::List(args) => list::run(args, session),
        Command::Show(args) => list::show_bundle(args, session),
        Command::Wait(args) => wait::run(args, session),
        Command::Delete(args) => list::delete(args, session),
    }
}
