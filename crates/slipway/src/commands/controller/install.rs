//! `slipway controller install|uninstall`: our own chart, taken to the cluster by the release engine.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser as _;
use slipway_controller::chart::write_chart;

use crate::commands::release::{ApplyArgs, DeleteArgs, apply, delete};
use crate::exit::Exit;
use crate::session::Session;

/// The name of the release.
const RELEASE: &str = "kardinal";

/// Install the controller into the cluster, or bring it up to date
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The chart is part of this program; `--write-chart DIR` writes it down for Helm or a GitOps tool."
)]
pub struct InstallArgs {
    /// Name of the release
    #[arg(long, value_name = "NAME", default_value = RELEASE)]
    name: String,

    /// Values file; repeat for more
    #[arg(short = 'f', long, value_name = "FILE")]
    values: Vec<PathBuf>,

    /// Value of the chart, as in `replicaCount=2`; repeat for more
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Only show the plan
    #[arg(long)]
    dry_run: bool,

    /// Do not wait until the controller runs
    #[arg(long)]
    no_wait: bool,

    /// Write the chart into a directory and end
    #[arg(long, value_name = "DIR")]
    write_chart: Option<PathBuf>,
}

/// Remove the controller; definitions and everything people created stay
#[derive(Debug, clap::Args)]
pub struct UninstallArgs {
    /// Name of the release
    #[arg(long, value_name = "NAME", default_value = RELEASE)]
    name: String,

    /// Only show the plan
    #[arg(long)]
    dry_run: bool,
}

/// The flags of `apply` and `delete`, which do the work.
#[derive(Debug, clap::Parser)]
#[command(no_binary_name = true)]
struct ApplyLine {
    #[command(flatten)]
    args: ApplyArgs,
}

#[derive(Debug, clap::Parser)]
#[command(no_binary_name = true)]
struct DeleteLine {
    #[command(flatten)]
    args: DeleteArgs,
}

pub fn install(args: &InstallArgs, session: &Session) -> anyhow::Result<Exit> {
    if let Some(directory) = &args.write_chart {
        write_chart(directory)?;
        say!("wrote the chart to {}", directory.display());
        return Ok(Exit::Done);
    }
    let place = tempfile::tempdir()?;
    write_chart(place.path())?;
    let mut words: Vec<OsString> = vec![args.name.clone().into(), place.path().into()];
    for file in &args.values {
        words.extend(["--values".into(), file.into()]);
    }
    for pair in &args.set {
        words.extend(["--set".into(), pair.into()]);
    }
    if args.dry_run {
        words.push("--dry-run".into());
    }
    if args.no_wait {
        words.push("--no-wait".into());
    }
    apply(&ApplyLine::try_parse_from(words)?.args, session)
}

pub fn uninstall(args: &UninstallArgs, session: &Session) -> anyhow::Result<Exit> {
    let mut words: Vec<OsString> = vec![args.name.clone().into()];
    if args.dry_run {
        words.push("--dry-run".into());
    }
    delete(&DeleteLine::try_parse_from(words)?.args, session)
}
