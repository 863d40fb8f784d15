//! `slipway chart create|show|package|deps`

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::ValueEnum;
use slipway_chart::deps::{self, Offline, UpdateOptions};
use slipway_chart::{Chart, LoadOptions, PackageOptions, Part};
use slipway_problem::{Location, Problem};

use crate::exit::Exit;
use crate::files;
use crate::session::Session;
use crate::term::show;
use crate::term::table::Table;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Start a new chart in a directory of its name
    Create {
        #[arg(value_name = "NAME")]
        path: PathBuf,
    },
    /// Show a part of a chart
    Show {
        /// What to show
        part: ShownPart,
        /// A directory or `.tgz`
        chart: PathBuf,
    },
    /// Pack a chart; the same chart gives the same bytes
    Package {
        #[arg(value_name = "CHART")]
        chart: PathBuf,
        /// Where to put the archive
        #[arg(short, long, value_name = "DIR", default_value = ".")]
        destination: PathBuf,
        /// Another version than Chart.yaml's
        #[arg(long, value_name = "VERSION")]
        version: Option<String>,
        /// Another appVersion than Chart.yaml's
        #[arg(long, value_name = "VERSION")]
        app_version: Option<String>,
    },
    /// A chart's dependencies
    #[command(subcommand)]
    Deps(Deps),
}

#[derive(Debug, clap::Subcommand)]
enum Deps {
    /// List what Chart.yaml asks for and whether charts/ has it
    List {
        #[arg(value_name = "CHART", default_value = ".")]
        chart: PathBuf,
    },
    /// Resolve dependencies beside the chart (`file://`) anew, fill charts/ and write Chart.lock
    Update {
        #[arg(value_name = "CHART", default_value = ".")]
        chart: PathBuf,
    },
    /// Fill charts/ with what Chart.lock names
    Build {
        #[arg(value_name = "CHART", default_value = ".")]
        chart: PathBuf,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ShownPart {
    Chart,
    Values,
    Readme,
    Crds,
    All,
}

pub fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Create { path } => create(path)?,
        Command::Show { part, chart } => {
            let part = match part {
                ShownPart::Chart => Part::Chart,
                ShownPart::Values => Part::Values,
                ShownPart::Readme => Part::Readme,
                ShownPart::Crds => Part::Crds,
                ShownPart::All => Part::All,
            };
            std::io::stdout().lock().write_all(&slipway_chart::show(&load(chart)?, part)?)?;
        }
        Command::Package { chart, destination, version, app_version } => {
            let options = PackageOptions {
                version: version.clone(),
                app_version: app_version.clone(),
                ..PackageOptions::default()
            };
            let package = slipway_chart::package(&load(chart)?, &options)?;
            fs::create_dir_all(destination).with_context(|| format!("create {}", destination.display()))?;
            let path = destination.join(&package.file_name);
            files::replace(&path, &package.bytes)?;
            show::print(&format!("{}\n", path.display()))?;
        }
        Command::Deps(Deps::List { chart }) => list(chart, session)?,
        Command::Deps(Deps::Update { chart }) => lines(&deps::update(chart, &Offline, &now())?)?,
        Command::Deps(Deps::Build { chart }) => lines(&deps::build(chart, &Offline, &now())?)?,
    }
    Ok(Exit::Done)
}

fn load(path: &Path) -> Result<Chart, slipway_chart::Error> {
    Chart::load(path, &LoadOptions::default())
}

fn now() -> UpdateOptions {
    UpdateOptions { generated: jiff::Timestamp::now().to_string() }
}

fn lines(lines: &[String]) -> anyhow::Result<()> {
    show::print(&lines.iter().map(|line| format!("{line}\n")).collect::<String>())
}

fn create(path: &Path) -> anyhow::Result<()> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let files = slipway_chart::create(name)?;
    if path.exists() {
        bail!(
            Problem::error("something of that name is there already")
                .at(Location::file(path.display().to_string()))
                .hint("choose another name, or remove it first")
        );
    }
    for file in files {
        let target = path.join(&file.name);
        let failed = || format!("write {}", target.display());
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).with_context(failed)?;
        }
        fs::write(&target, &file.data).with_context(failed)?;
    }
    show::print(&format!("{}\n", path.display()))
}

fn list(path: &Path, session: &Session) -> anyhow::Result<()> {
    let listed = deps::list(&load(path)?, path);
    let data: Vec<_> = listed
        .iter()
        .map(|one| {
            serde_json::json!({
                "name": one.name, "version": one.version, "repository": one.repository, "status": one.status,
            })
        })
        .collect();
    show::show(session.output(), &data, |_| {
        let mut table = Table::new(&["name", "version", "repository", "status"]);
        for one in &listed {
            table.row([one.name.clone(), one.version.clone(), one.repository.clone(), one.status.clone()]);
        }
        table.render()
    })
}
