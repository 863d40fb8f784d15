//! `slipway kustomize build|edit`

use std::path::{Path, PathBuf};

use slipway_kustomize::{BuildOptions, build};

use crate::exit::Exit;
use crate::term::{report, show};

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Build a kustomization and print its objects
    Build(BuildArgs),
}

#[derive(Debug, clap::Args)]
struct BuildArgs {
    /// The directory of the kustomization
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,
}

pub fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Build(args) => print(&args.directory),
    }
}

/// Builds the kustomization in a directory and prints what it becomes.
pub fn print(directory: &Path) -> anyhow::Result<Exit> {
    let built = build(directory, &BuildOptions::default())?;
    for warning in &built.warnings {
        anstream::eprint!("{}", report::render(warning));
    }
    show::print(&built.to_yaml())?;
    Ok(Exit::Done)
}
