//! `slipway chart`: one file a family of commands.

pub mod fetch;
pub mod secret;
pub mod verify;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::ValueEnum;
use schemars::JsonSchema;
use serde::Serialize;
use slipway_chart::deps::{self, UpdateOptions};
use slipway_chart::net::{AccessOptions, RemoteCharts};
use slipway_chart::{Chart, ChartPart, LoadOptions, PackageOptions};
use slipway_manifest::jsonpath::JsonPath;
use slipway_problem::Problem;

use super::flags::{AccessFlags, DependencyFlags, SourceFlags, default_keyring};
use crate::cli::Output;
use crate::exit::{Exit, UsageError};
use crate::files;
use crate::helm;
use crate::help::Usual;
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
        /// Name of the chart and its directory; a path is taken as well
        #[arg(value_name = "NAME")]
        path: PathBuf,
        /// Chart to begin as: an absolute path, or a name under Helm's directory of starters; `<CHARTNAME>` stands for the name
        #[arg(short = 'p', long, value_name = "CHART")]
        starter: Option<PathBuf>,
    },
    /// Show a part of a chart
    Show {
        /// What to show
        part: ShownPart,
        /// A directory, `.tgz`, `REPO/NAME`, `oci://…` or address
        chart: String,
        /// Print this of the values instead, as kubectl writes it: `{.image.tag}`
        #[arg(long, value_name = "TEMPLATE")]
        jsonpath: Option<String>,
        #[command(flatten)]
        source: Box<SourceFlags>,
    },
    /// Pack a chart; the same chart gives the same bytes
    Package(Box<Package>),
    /// Check the signature of a packed chart
    Verify {
        /// The packed chart; its `.prov` lies beside it
        #[arg(value_name = "CHART.tgz")]
        chart: PathBuf,
        /// Public keys to check with [default: ~/.gnupg/pubring.gpg]
        #[arg(long, value_name = "FILE")]
        keyring: Option<PathBuf>,
    },
    /// Fetch a packed chart
    Pull(Box<fetch::Pull>),
    /// Publish a packed chart in a registry
    Push(fetch::Push),
    /// Find charts
    #[command(subcommand)]
    Search(fetch::Search),
    /// Logins for registries
    #[command(subcommand)]
    Registry(fetch::Registry),
    /// Encrypted values and files, as werf and Nelm keep them
    #[command(subcommand)]
    Secret(secret::Command),
    /// A chart's dependencies
    #[command(subcommand)]
    Deps(Deps),
}

#[derive(Debug, clap::Subcommand)]
enum Deps {
    /// List what Chart.yaml asks for and whether charts/ has it
    List {
        /// The chart's directory
        #[arg(value_name = "CHART", default_value = ".")]
        chart: PathBuf,
    },
    /// Resolve dependencies anew, fill charts/ and write Chart.lock
    Update(Box<BringIn>),
    /// Fill charts/ with what Chart.lock names
    Build(Box<BringIn>),
}

/// How dependencies are brought in.
#[derive(Debug, clap::Args)]
struct BringIn {
    /// The chart's directory
    #[arg(value_name = "CHART", default_value = ".")]
    chart: PathBuf,
    /// Use the indexes fetched last
    #[arg(long)]
    skip_refresh: bool,
    /// Check the signatures of the charts that are fetched
    #[arg(long)]
    verify: bool,
    /// Public keys signatures are checked with [default: ~/.gnupg/pubring.gpg]
    #[arg(long, value_name = "FILE")]
    keyring: Option<PathBuf>,
    #[command(flatten)]
    access: AccessFlags,
}

impl BringIn {
    fn remote(&self) -> anyhow::Result<RemoteCharts> {
        let remote = self.access.remote();
        if self.skip_refresh {
            remote.use_cache()?;
        }
        Ok(remote)
    }

    fn options(&self) -> anyhow::Result<UpdateOptions> {
        let keyring = self.verify.then(|| self.keyring.clone().unwrap_or_else(default_keyring));
        let signatures = keyring.map(|keyring| verify::signature_check(&keyring)).transpose()?;
        Ok(UpdateOptions { signatures, ..now() })
    }
}

#[derive(Debug, clap::Args)]
struct Package {
    /// The chart's directory
    #[arg(value_name = "CHART")]
    chart: PathBuf,
    /// Where to put the archive
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    destination: PathBuf,
    /// Another version than Chart.yaml's
    #[arg(long, value_name = "VERSION", add = Usual)]
    version: Option<String>,
    /// Another appVersion than Chart.yaml's
    #[arg(long, value_name = "VERSION")]
    app_version: Option<String>,
    /// Bring dependencies up to date first
    #[arg(short = 'u', long)]
    dependency_update: bool,
    /// Sign the archive
    #[arg(long, requires = "key")]
    sign: bool,
    /// Name of the key to sign with, or a part of it
    #[arg(long, value_name = "NAME")]
    key: Option<String>,
    /// Keyring with the secret key [default: ~/.gnupg/pubring.gpg]
    #[arg(long, value_name = "FILE")]
    keyring: Option<PathBuf>,
    /// File with the key's passphrase, `-` for standard input
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
    #[command(flatten)]
    dependencies: DependencyFlags,
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
        Command::Create { path, starter } => create(path, starter.as_deref(), session)?,
        Command::Show { part, chart, jsonpath, source } => {
            show_part(*part, jsonpath.as_deref(), &source.locate(chart, session)?)?;
        }
        Command::Package(args) => package(args, session)?,
        Command::Verify { chart, keyring } => {
            let keyring = keyring.clone().unwrap_or_else(default_keyring);
            let verified = verify::check(chart, &keyring)?;
            show::show(session.output(), &verified, |verified| verified.text.clone())?;
        }
        Command::Pull(args) => return fetch::pull(args, session),
        Command::Push(args) => return fetch::push(args, session),
        Command::Search(args) => return fetch::search(args, session),
        Command::Registry(args) => return fetch::registry(args),
        Command::Secret(command) => secret::run(command, session)?,
        Command::Deps(Deps::List { chart }) => list(chart, session)?,
        Command::Deps(Deps::Update(args)) => {
            lines(&deps::update_dependencies(&args.chart, &args.remote()?, &args.options()?)?)?;
        }
        Command::Deps(Deps::Build(args)) => {
            lines(&deps::build_dependencies(&args.chart, &args.remote()?, &args.options()?)?)?;
        }
    }
    Ok(Exit::Done)
}

fn show_part(part: ShownPart, jsonpath: Option<&str>, path: &Path) -> anyhow::Result<()> {
    let part = match part {
        ShownPart::Chart => ChartPart::Chart,
        ShownPart::Values => ChartPart::Values,
        ShownPart::Readme => ChartPart::Readme,
        ShownPart::Crds => ChartPart::Crds,
        ShownPart::All => ChartPart::All,
    };
    let Some(template) = jsonpath else {
        return show::data(slipway_chart::show_chart(&load(path)?, part)?);
    };
    if part != ChartPart::Values {
        let problem = Problem::error("--jsonpath reads values");
        return Err(
            UsageError(problem.hint("write `slipway chart show values CHART --jsonpath …`").into()).into()
        );
    }
    let template = JsonPath::parse(template)?;
    // Read again: the chart has every number as a float, and nobody wants to see port 80.0.
    let values = slipway_chart::show_chart(&load(path)?, part)?;
    let values = slipway_yaml::from_str_helm(&String::from_utf8_lossy(&values))?;
    show::data(template.print_object(&values)?.into_bytes())
}

/// A chart that was written.
#[derive(Serialize, JsonSchema)]
pub struct WrittenChart {
    path: PathBuf,
}

fn show_written(path: PathBuf, session: &Session) -> anyhow::Result<()> {
    show::show(session.output(), &WrittenChart { path }, |written| format!("{}\n", written.path.display()))
}

fn package(args: &Package, session: &Session) -> anyhow::Result<()> {
    if args.dependency_update {
        let said = deps::update_dependencies(&args.chart, &args.dependencies.remote(), &now())?;
        if session.output() == Output::Table {
            lines(&said)?;
        }
    }
    let options = PackageOptions {
        version: args.version.clone(),
        app_version: args.app_version.clone(),
        ..PackageOptions::default()
    };
    let package = slipway_chart::package_chart(&load(&args.chart)?, &options)?;
    fs::create_dir_all(&args.destination)
        .with_context(|| format!("create {}", args.destination.display()))?;
    let path = args.destination.join(&package.file_name);
    let signature = match &args.key {
        Some(key) if args.sign => {
            let keyring = args.keyring.clone().unwrap_or_else(default_keyring);
            Some(verify::sign(&package, key, &keyring, args.passphrase_file.as_deref())?)
        }
        _ => None,
    };
    files::replace(&path, &package.bytes)?;
    if let Some(signature) = signature {
        files::replace(Path::new(&format!("{}.prov", path.display())), signature.as_bytes())?;
    }
    show_written(path, session)
}

/// Brings in what a chart declares and `charts/` lacks.
pub fn update_dependencies(chart: &Path, access: &AccessOptions) -> anyhow::Result<()> {
    // The version asked for is the chart's own.
    let access = AccessOptions { version: String::new(), ..access.clone() };
    deps::update_dependencies(chart, &helm::remote(access), &now())?;
    Ok(())
}

fn load(path: &Path) -> Result<Chart, slipway_chart::ChartError> {
    Chart::load(path, &LoadOptions::default())
}

fn now() -> UpdateOptions {
    UpdateOptions { generated: jiff::Timestamp::now().to_string(), ..UpdateOptions::default() }
}

fn lines(lines: &[String]) -> anyhow::Result<()> {
    show::print(&lines.iter().map(|line| format!("{line}\n")).collect::<String>())
}

fn create(path: &Path, starter: Option<&Path>, session: &Session) -> anyhow::Result<()> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let files = match starter {
        Some(starter) => slipway_chart::create_from(&load(&helm::starters().join(starter))?, name)?,
        None => slipway_chart::create(name)?,
    };
    if path.exists() {
        bail!(
            Problem::error(format!("`{}` is there already", path.display()))
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
    show_written(path.to_owned(), session)
}

fn list(path: &Path, session: &Session) -> anyhow::Result<()> {
    let listed = deps::list_dependencies(&load(path)?, path);
    show::show(session.output(), &listed, |listed| {
        let mut table = Table::new(&["name", "version", "repository", "status"]);
        for one in listed {
            table.row([one.name.clone(), one.version.clone(), one.repository.clone(), one.status.clone()]);
        }
        table.render()
    })
}
