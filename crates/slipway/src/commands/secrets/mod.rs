//! `slipway secrets`: one file a command.

mod audit;
pub mod discover;
pub mod flags;
pub mod list;
pub mod login;
pub mod policy;
pub mod resolution;
pub mod test;

use crate::exit::Exit;
use crate::session::Session;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Fetch secrets and say whether that works; values are never shown
    Test(test::Args),
    /// List the names a provider holds
    #[command(alias = "ls")]
    List(list::Args),
    /// Find the references in YAML files
    Discover(discover::Args),
    /// Log in to a provider and show who it takes you for
    Login(login::Args),
    /// Give a provider's token back
    Logout(login::Args),
    /// What the policy says
    #[command(subcommand)]
    Policy(policy::Command),
    /// Show who used which secret
    Audit(audit::Args),
}

pub fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Test(args) => test::run(args, session),
        Command::List(args) => list::run(args, session),
        Command::Discover(args) => discover::run(args, session),
        Command::Login(args) => login::run(args, session),
        Command::Logout(args) => login::log_out(args, session),
        Command::Policy(policy::Command::Check(args)) => policy::check(args, session),
        Command::Audit(args) => audit::run(args, session),
    }
}
