//! `slipway pipeline`: what is where and why, and what people ask of a pipeline. One file a command.

pub mod act;
mod demo;
mod explain;
mod history;
pub mod init;
mod list;
mod rehearse;
pub mod show;
pub mod validate;

use crate::exit::Exit;
use crate::session::Session;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Everything here can be done with kubectl as well: the commands read and write objects of \
                  kardinal.io/v1alpha1 and nothing else."
)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List pipelines with the version in each environment
    #[command(alias = "ls")]
    List(list::ListArgs),
    /// Show the environments, steps and gates of a pipeline
    #[command(alias = "status")]
    Show(show::ShowArgs),
    /// Say why an environment waits: every gate with its values, and everything else that holds it
    Explain(explain::ExplainArgs),
    /// Show what was promoted where, when and by whom
    History(history::HistoryArgs),
    /// Show what differs between two bundles
    Diff(history::DiffArgs),
    /// Draw the environments and gates
    Graph(show::GraphArgs),
    /// Check files of pipelines, gates and windows, without a cluster
    Validate(validate::ValidateArgs),
    /// Take a version into an environment by hand
    Promote(act::PromoteArgs),
    /// Take an environment back to the version it ran before
    Rollback(act::RollbackArgs),
    /// Hold a pipeline: nothing starts, nothing is merged
    Pause(act::PauseArgs),
    /// Let a paused pipeline go on
    Resume(act::ResumeArgs),
    /// Try a failed step again
    Retry(act::RetryArgs),
    /// Approve a bundle for an environment, where there are no pull requests
    Approve(act::ApproveArgs),
    /// Make a pipeline from a few lines, or by answering questions
    Init(init::InitArgs),
    /// Play a whole promotion in simulated time, with nothing installed
    Rehearse(Box<rehearse::RehearseArgs>),
    /// Bring up a pipeline to look at, on the embedded cluster
    Demo(demo::DemoArgs),
}

pub fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    match &args.command {
        Command::List(args) => list::run(args, session),
        Command::Show(args) => show::run(args, session),
        Command::Explain(args) => explain::run(args, session),
        Command::History(args) => history::run(args, session),
        Command::Diff(args) => history::diff(args, session),
        Command::Graph(args) => show::graph(args, session),
        Command::Validate(args) => validate::run(args, session),
        Command::Promote(args) => act::promote(args, session),
        Command::Rollback(args) => act::rollback(args, session),
        Command::Pause(args) => act::pause(args, session),
        Command::Resume(args) => act::resume(args, session),
        Command::Retry(args) => act::retry(args, session),
        Command::Approve(args) => act::approve(args, session),
        Command::Init(args) => init::run(args, session),
        Command::Rehearse(args) => rehearse::run(args, session),
        Command::Demo(args) => demo::run(args, session),
    }
}
