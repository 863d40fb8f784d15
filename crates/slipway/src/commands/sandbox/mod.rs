//! `slipway sandbox`: the embedded cluster, served for kubectl, Helm and everything else.

mod clone;
pub mod place;
mod steer;
pub mod up;

use crate::exit::Exit;
use crate::session::Session;
use place::Place;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Start the embedded cluster
    Up(up::UpArgs),
    /// Stop it
    Down,
    /// Say whether it runs and where
    Status,
    /// Print a kubeconfig, for the administrator or another user
    Kubeconfig(steer::KubeconfigArgs),
    /// Empty it
    #[command(after_help = "A running sandbox is emptied in place. When none runs, what the one \
                            started by `--sandbox` has kept is removed.")]
    Reset,
    /// Write everything it holds to a file
    Save(steer::SaveArgs),
    /// Replace what it holds by a file's content
    Load(steer::LoadArgs),
    /// Copy a live cluster's objects into it, to rehearse changes
    #[command(after_help = "Copies what people and pipelines wrote: workloads, configuration, custom \
                            resources and their definitions. What controllers made of it the sandbox \
                            makes itself. Without -n all namespaces but the system's own are copied; \
                            -n takes several, separated by commas. Nothing is written to the cluster.")]
    Clone(clone::CloneArgs),
}

pub fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let place = Place::of_user()?;
    match &args.command {
        Command::Up(args) if args.detach => up::detach(args, &place, session),
        Command::Up(args) => session.block_on(up::up(args, &place)),
        Command::Down => up::down(&place),
        Command::Status => up::status(&place, session),
        Command::Kubeconfig(args) => steer::kubeconfig(args, &place, session),
        Command::Reset => steer::reset(&place, session),
        Command::Save(args) => steer::save(args, &place, session),
        Command::Load(args) => steer::load(args, &place, session),
        Command::Clone(args) => session.block_on(clone::run(args, &place, session)),
    }
}
