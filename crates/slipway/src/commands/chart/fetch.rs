//! `slipway chart pull|push|search|registry`

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use schemars::JsonSchema;
use serde::Serialize;
use slipway_chart::net::{self, AccessOptions, Login, OciReference, ProvenanceMode, run_blocking};
use slipway_chart::repo::{self, RepositoryEntry, RepositoryIndex, SearchOptions};
use slipway_chart::{Chart, LoadOptions};
use slipway_problem::Problem;

use super::verify;
use crate::cli::Output;
use crate::commands::flags::{LoginFlags, SourceFlags, TlsFlags, notes};
use crate::commands::repo::password_from_stdin;
use crate::exit::Exit;
use crate::files;
use crate::helm;
use crate::session::Session;
use crate::term::table::Table;
use crate::term::{output, show};

#[derive(Debug, clap::Args)]
pub struct Pull {
    /// `REPO/NAME`, `oci://…`, an address, or a name with --repo
    #[arg(value_name = "CHART", required = true)]
    charts: Vec<String>,

    /// Where to put the archive
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    destination: PathBuf,

    /// Unpack the chart
    #[arg(long)]
    untar: bool,

    /// Where to unpack it, under the destination
    #[arg(long, value_name = "DIR", default_value = ".")]
    untardir: PathBuf,

    /// Fetch the signature as well, without checking it
    #[arg(long)]
    prov: bool,

    #[command(flatten)]
    source: SourceFlags,
}

pub fn pull(args: &Pull, session: &Session) -> anyhow::Result<Exit> {
    let remote = args.source.remote();
    let provenance = match (args.source.verify, args.prov) {
        (true, _) => ProvenanceMode::Must,
        (false, true) => ProvenanceMode::IfThere,
        (false, false) => ProvenanceMode::No,
    };
    let mut pulled = Vec::new();
    for name in &args.charts {
        let temporary = if args.untar { Some(tempfile::tempdir()?) } else { None };
        let directory = temporary.as_ref().map_or(args.destination.as_path(), |folder| folder.path());
        let found = run_blocking(remote.download_chart(name, directory, provenance))?;
        notes(&found.notes, session);
        let verified = match args.source.verify {
            true => Some(verify::check(&found.path, &args.source.keyring())?),
            false => None,
        };
        if let (Some(verified), Output::Table) = (&verified, session.output()) {
            show::print(&verified.text)?;
        }
        let path = if args.untar {
            let chart = Chart::load(found.path.as_path(), &LoadOptions::default())?;
            let target = args.destination.join(&args.untardir);
            unpack(&chart, &found.path, &target)?;
            target.join(chart.name())
        } else {
            found.path
        };
        pulled.push(PulledChart { chart: name.clone(), path, verified: verified.is_some() });
    }
    show::show(session.output(), &pulled, |_| String::new())?;
    Ok(Exit::Done)
}

/// A chart that was fetched.
#[derive(Serialize, JsonSchema)]
pub struct PulledChart {
    chart: String,
    /// The archive, or the directory it was unpacked to.
    path: PathBuf,
    /// True if its signature was checked.
    verified: bool,
}

/// Unpacks an archive whose chart could be loaded, so that no name in it leads elsewhere.
fn unpack(chart: &Chart, archive: &Path, target: &Path) -> anyhow::Result<()> {
    let folder = target.join(chart.name());
    if folder.exists() {
        bail!("failed to untar: a file or directory with the name {} already exists", folder.display());
    }
    let bytes = files::read(archive)?;
    for file in slipway_chart::unpack(&bytes)? {
        let path = folder.join(&file.name);
        let failed = || format!("write {}", path.display());
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).with_context(failed)?;
        }
        fs::write(&path, &file.data).with_context(failed)?;
    }
    Ok(())
}

#[derive(Debug, clap::Args)]
pub struct Push {
    /// A packed chart; its `.prov` beside it is pushed too
    #[arg(value_name = "CHART.tgz")]
    chart: PathBuf,

    /// The registry and path: `oci://HOST/PATH`
    #[arg(value_name = "REMOTE")]
    remote: String,

    #[command(flatten)]
    login: LoginFlags,

    #[command(flatten)]
    tls: TlsFlags,
}

pub fn push(args: &Push, session: &Session) -> anyhow::Result<Exit> {
    if !args.remote.starts_with("oci://") {
        bail!("scheme prefix missing from remote (e.g. \"oci://\")");
    }
    let chart = Chart::load(args.chart.as_path(), &LoadOptions::default())?;
    let bytes = files::read(&args.chart)?;
    let provenance = slipway_problem::read_file(Path::new(&format!("{}.prov", args.chart.display()))).ok();
    let remote = helm::remote(AccessOptions { login: args.login.login(), ..args.tls.access() });
    let host = OciReference::parse(&format!("{}/{}", args.remote.trim_end_matches('/'), chart.name()))?.host;
    let credentials = remote.credentials_for(&host)?;
    let client = remote.client_for(&RepositoryEntry::default())?;
    let created = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let pushed = run_blocking(net::push(
        &client,
        &credentials,
        &args.remote,
        &chart.metadata,
        &bytes,
        provenance.as_deref(),
        &created,
    ))?;
    show::show(session.output(), &pushed, |pushed| {
        format!("Pushed: {}\nDigest: {}\n", pushed.reference, pushed.digest)
    })?;
    Ok(Exit::Done)
}

#[derive(Debug, clap::Subcommand)]
pub enum Search {
    /// Search the known repositories
    Repo(SearchRepo),
}

#[derive(Debug, clap::Args)]
pub struct SearchRepo {
    /// What to look for in names, descriptions and keywords
    #[arg(value_name = "KEYWORD")]
    words: Vec<String>,
    /// Every version instead of the newest
    #[arg(short = 'l', long)]
    versions: bool,
    /// Versions not yet released as well
    #[arg(long)]
    devel: bool,
    /// Version or constraint
    #[arg(long, value_name = "VERSION", default_value = "", hide_default_value = true)]
    version: String,
    /// The keyword is a regular expression
    #[arg(short, long)]
    regexp: bool,
    /// Widest column of a table, 0 for any
    #[arg(long, value_name = "N", default_value_t = 50)]
    max_col_width: usize,
    /// Fail if nothing is found
    #[arg(long)]
    fail_on_no_result: bool,
}

/// A chart that was found, under the names Helm gives the columns.
#[derive(Serialize, JsonSchema)]
pub struct ChartHit<'a> {
    name: &'a str,
    version: &'a str,
    app_version: &'a str,
    description: &'a str,
}

pub fn search(Search::Repo(args): &Search, session: &Session) -> anyhow::Result<Exit> {
    let home = helm::home();
    let known = home.read_repositories()?.repositories;
    if known.is_empty() {
        bail!(Problem::error("no repositories configured").hint("`slipway repo add NAME URL` adds one"));
    }
    let mut indexes: Vec<(String, RepositoryIndex)> = Vec::new();
    for repository in known {
        match home.cached_index(&repository.name) {
            Ok(index) => indexes.push((repository.name, index)),
            Err(_) => {
                say!("WARNING: Repo {:?} is corrupt or missing. Try 'slipway repo update'.", repository.name);
            }
        }
    }
    let options = SearchOptions {
        keyword: args.words.join(" "),
        regexp: args.regexp,
        versions: args.versions,
        version: args.version.clone(),
        devel: args.devel,
    };
    let hits = repo::search_charts(&indexes, &options)?;
    if hits.is_empty() {
        if args.fail_on_no_result {
            bail!("no results found");
        }
        if session.output() == Output::Table {
            show::print("No results found\n")?;
            return Ok(Exit::Done);
        }
    }
    let data: Vec<ChartHit<'_>> = hits
        .iter()
        .map(|hit| {
            let about = &hit.entry.metadata;
            ChartHit {
                name: &hit.name,
                version: &about.version,
                app_version: &about.app_version,
                description: &about.description,
            }
        })
        .collect();
    let short = |text: &str| match args.max_col_width {
        0 => text.to_owned(),
        most if text.chars().count() <= most => text.to_owned(),
        most => text.chars().take(most.saturating_sub(3)).chain("...".chars()).collect(),
    };
    show::show(session.output(), &data, |_| {
        let mut table = Table::new(&["name", "chart version", "app version", "description"]);
        for hit in &hits {
            let about = &hit.entry.metadata;
            table.row(
                [&hit.name, &about.version, &about.app_version, &about.description].map(|one| short(one)),
            );
        }
        table.render()
    })?;
    Ok(Exit::Done)
}

#[derive(Debug, clap::Subcommand)]
pub enum Registry {
    /// Log in to a registry
    Login(LogIn),
    /// Forget a registry's login
    Logout {
        /// The registry: `HOST` or `HOST:PORT`
        #[arg(value_name = "HOST")]
        host: String,
    },
}

#[derive(Debug, clap::Args)]
pub struct LogIn {
    /// The registry: `HOST` or `HOST:PORT`
    #[arg(value_name = "HOST")]
    host: String,
    /// User name
    #[arg(short, long, value_name = "NAME")]
    username: Option<String>,
    /// Password or token; better given with --password-stdin
    #[arg(short, long, value_name = "TEXT")]
    password: Option<String>,
    /// Read the password from standard input
    #[arg(long, conflicts_with = "password")]
    password_stdin: bool,
    /// Accept any certificate
    #[arg(long)]
    insecure: bool,
    #[command(flatten)]
    tls: TlsFlags,
}

pub fn registry(command: &Registry) -> anyhow::Result<Exit> {
    match command {
        Registry::Login(args) => {
            let password = match &args.password {
                Some(password) => password.clone(),
                None => password_from_stdin()?,
            };
            output::hide(&password);
            let login = Login { username: args.username.clone().unwrap_or_default(), password };
            let mut access = AccessOptions { login: Some(login.clone()), ..args.tls.access() };
            access.insecure_skip_tls_verify |= args.insecure;
            let remote = helm::remote(access);
            let host = args.host.strip_prefix("oci://").unwrap_or(&args.host);
            let client = remote.client_for(&RepositoryEntry::default())?;
            run_blocking(net::check_login(&client, host, &login))?;
            remote.home.change_credentials(|credentials| credentials.insert(host, &login))?;
            say!("Login Succeeded");
        }
        Registry::Logout { host } => {
            let host = host.strip_prefix("oci://").unwrap_or(host);
            if !helm::home().change_credentials(|credentials| credentials.remove_login(host))? {
                bail!("not logged in to {host}");
            }
            say!("Removing login credentials for {host}");
        }
    }
    Ok(Exit::Done)
}
