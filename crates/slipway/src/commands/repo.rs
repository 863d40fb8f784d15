//! `slipway repo`: the chart repositories the user knows, shared with Helm.

use std::borrow::Cow;
use std::io::Read as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use schemars::JsonSchema;
use serde::Serialize;
use slipway_chart::Notices;
use slipway_chart::net::{AccessOptions, NetworkLimits, NetworkOptions, RemoteCharts, run_blocking};
use slipway_chart::repo::{RepositoryEntry, RepositoryIndex};
use slipway_event::without_credentials;
use slipway_problem::Problem;

use super::flags::TlsFlags;
use super::release::flags::time;
use crate::cli::Output;
use crate::exit::Exit;
use crate::files;
use crate::helm;
use crate::session::Session;
use crate::term::table::{Table, without_heads};
use crate::term::{output, show};

/// Chart repositories; the same files as Helm's, so both see the same
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Add a repository
    Add(Box<Add>),
    /// List the known repositories
    #[command(visible_alias = "ls")]
    List {
        /// Without the line of headings
        #[arg(long)]
        no_headers: bool,
    },
    /// Forget repositories
    #[command(visible_alias = "rm")]
    Remove {
        /// Names of repositories
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
    },
    /// Fetch the indexes of all repositories, or of those named
    #[command(visible_alias = "up")]
    Update {
        /// Names of repositories; all of them unless given
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        /// Fail if an index cannot be fetched
        #[arg(long)]
        fail_on_repo_update_fail: bool,
        #[command(flatten)]
        limit: IndexLimit,
    },
    /// Write index.yaml for a directory of packed charts
    Index {
        /// Directory with the packed charts
        #[arg(value_name = "DIR")]
        directory: PathBuf,
        /// Address the charts will be at
        #[arg(long, value_name = "URL", default_value = "", hide_default_value = true)]
        url: String,
        /// Index whose charts are kept
        #[arg(long, value_name = "FILE")]
        merge: Option<PathBuf>,
        /// Write JSON, which reads faster
        #[arg(long)]
        json: bool,
    },
}

/// Time limit for an index.
#[derive(Clone, Copy, Debug, clap::Args)]
struct IndexLimit {
    /// Time limit for fetching an index
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "2m")]
    timeout: Duration,
}

impl IndexLimit {
    /// The way to repositories, within the limit.
    fn remote(self) -> RemoteCharts {
        let network = helm::network();
        let limits = NetworkLimits { total: self.timeout, ..network.limits };
        helm::remote(AccessOptions::default()).with_network(NetworkOptions { limits, ..network })
    }
}

#[derive(Debug, clap::Args)]
struct Add {
    /// Name of your choice, which comes before the charts: `NAME/CHART`
    name: String,
    /// Address of the directory that has the index.yaml
    url: String,
    /// Replace a repository of that name
    #[arg(long)]
    force_update: bool,
    /// User name
    #[arg(long, value_name = "NAME")]
    username: Option<String>,
    /// Password
    #[arg(long, value_name = "TEXT")]
    password: Option<String>,
    /// Read the password from standard input
    #[arg(long, conflicts_with = "password")]
    password_stdin: bool,
    /// Send the login to other hosts as well
    #[arg(long)]
    pass_credentials: bool,
    /// Accepted for Helm's sake
    #[arg(long, hide = true)]
    allow_deprecated_repos: bool,
    /// Accepted for Helm's sake
    #[arg(long, hide = true)]
    no_update: bool,
    #[command(flatten)]
    limit: IndexLimit,
    #[command(flatten)]
    tls: TlsFlags,
}

pub fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Add(add) => self::add(add, session)?,
        Command::List { no_headers } => list(*no_headers, session)?,
        Command::Remove { names } => remove(names, session)?,
        Command::Update { names, fail_on_repo_update_fail, limit } => {
            update(names, *fail_on_repo_update_fail, *limit, session)?;
        }
        Command::Index { directory, url, merge, json } => {
            let mut index = RepositoryIndex::of_directory(directory, url, &now())?;
            if let Some(path) = merge.as_ref().filter(|path| path.exists()) {
                let bytes = files::read(path)?;
                index.merge_index(RepositoryIndex::parse(
                    &bytes,
                    &path.display().to_string(),
                    &mut Notices::new(),
                )?);
            }
            let text = if *json { index.to_json_text() } else { index.to_yaml() };
            files::replace(&directory.join("index.yaml"), text.as_bytes())?;
        }
    }
    Ok(Exit::Done)
}

fn now() -> String {
    jiff::Timestamp::now().to_string()
}

/// A repository that was asked to be added.
#[derive(Serialize, JsonSchema)]
pub struct AddedRepository<'a> {
    name: &'a str,
    url: Cow<'a, str>,
    /// False where it was known with the same settings.
    added: bool,
}

/// A repository of the list.
#[derive(Serialize, JsonSchema)]
pub struct RepositoryRow<'a> {
    name: &'a str,
    url: Cow<'a, str>,
}

/// Repositories that were removed.
#[derive(Serialize, JsonSchema)]
pub struct RemovedRepositories<'a> {
    removed: &'a [String],
}

/// A repository whose index was asked for.
#[derive(Serialize, JsonSchema)]
pub struct UpdatedRepository<'a> {
    name: &'a str,
    url: Cow<'a, str>,
    updated: bool,
    /// The reason it was not.
    error: Option<String>,
}

fn add(args: &Add, session: &Session) -> anyhow::Result<()> {
    let name = &args.name;
    if name.contains('/') {
        bail!("repository name ({name}) contains '/', please specify a different name without '/'");
    }
    let password = if args.password_stdin { Some(password_from_stdin()?) } else { args.password.clone() };
    password.iter().for_each(output::hide);
    let path = |path: &Option<PathBuf>| -> anyhow::Result<String> {
        Ok(match path {
            Some(path) => std::path::absolute(path)?.display().to_string(),
            None => String::new(),
        })
    };
    let repository = RepositoryEntry {
        name: name.clone(),
        url: args.url.clone(),
        username: args.username.clone().unwrap_or_default(),
        password: password.unwrap_or_default(),
        cert_file: path(&args.tls.cert_file)?,
        key_file: path(&args.tls.key_file)?,
        ca_file: path(&args.tls.ca_file)?,
        insecure_skip_tls_verify: args.tls.insecure_skip_tls_verify,
        pass_credentials_all: args.pass_credentials,
    };
    let remote = args.limit.remote();
    if let Some(known) = remote.home.read_repositories()?.get(name).filter(|_| !args.force_update) {
        if *known == repository {
            let known = AddedRepository { name, url: without_credentials(&args.url), added: false };
            return show::show(session.output(), &known, |known| {
                format!("{:?} already exists with the same configuration, skipping\n", known.name)
            });
        }
        bail!("repository name ({name}) already exists, please specify a different name");
    }
    run_blocking(remote.update_index(&repository))?;
    remote.home.change_repositories(|repositories| {
        repositories.set_repository(repository);
        Ok(())
    })?;
    let added = AddedRepository { name, url: without_credentials(&args.url), added: true };
    show::show(session.output(), &added, |added| {
        format!("{:?} has been added to your repositories\n", added.name)
    })
}

/// The first line of standard input.
pub fn password_from_stdin() -> anyhow::Result<String> {
    let mut text = String::new();
    std::io::stdin().lock().take(1 << 16).read_to_string(&mut text).context("read standard input")?;
    let password = text.trim_end_matches(['\r', '\n']).to_owned();
    output::hide(&password);
    Ok(password)
}

fn list(no_headers: bool, session: &Session) -> anyhow::Result<()> {
    let repositories = helm::home().read_repositories()?.repositories;
    if repositories.is_empty() && session.output() == Output::Table {
        bail!("no repositories to show");
    }
    let data: Vec<_> = repositories
        .iter()
        .map(|one| RepositoryRow { name: &one.name, url: without_credentials(&one.url) })
        .collect();
    show::show(session.output(), &data, |_| {
        let mut table = Table::new(&["name", "url"]);
        for one in &repositories {
            table.row([one.name.clone(), without_credentials(&one.url).into_owned()]);
        }
        let text = table.render();
        if no_headers { without_heads(&text) } else { text }
    })
}

fn remove(names: &[String], session: &Session) -> anyhow::Result<()> {
    let home = helm::home();
    for name in names {
        let found = home.change_repositories(|repositories| Ok(repositories.remove_repository(name)))?;
        if !found {
            bail!(
                Problem::error(format!("no repo named {name:?} found"))
                    .hint("`slipway repo list` shows those there are")
            );
        }
        home.forget_index(name)?;
        if session.output() == Output::Table {
            show::print(&format!("{name:?} has been removed from your repositories\n"))?;
        }
    }
    show::show(session.output(), &RemovedRepositories { removed: names }, |_| String::new())
}

fn update(names: &[String], must: bool, limit: IndexLimit, session: &Session) -> anyhow::Result<()> {
    // Helm's words, as they come; programs get one document at the end.
    let tell = |text: &str| match session.output() {
        Output::Table => show::print(text),
        Output::Json | Output::Yaml => Ok(()),
    };
    let remote = limit.remote();
    let known = remote.home.read_repositories()?.repositories;
    if known.is_empty() {
        bail!(
            Problem::error("no repositories found. You must add one before updating")
                .hint("`slipway repo add NAME URL` adds one")
        );
    }
    if let Some(unknown) = names.iter().find(|name| !known.iter().any(|one| one.name == **name)) {
        bail!(
            Problem::error(format!("no repositories found matching '{unknown}'.  Nothing will be updated"))
                .hint("`slipway repo list` shows those there are")
        );
    }
    tell("Hang tight while we grab the latest from your chart repositories...\n")?;
    let chosen: Vec<&RepositoryEntry> =
        known.iter().filter(|one| names.is_empty() || names.contains(&one.name)).collect();
    let (mut failed, mut rows) = (Vec::new(), Vec::new());
    // Each has a thread of its own: repositories differ much in size and distance.
    let results: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = chosen
            .iter()
            .map(|one| {
                let remote = &remote;
                scope.spawn(move || run_blocking(remote.update_index(one)).map(drop))
            })
            .collect();
        workers.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
    });
    for (one, result) in chosen.iter().zip(results) {
        let address = without_credentials(&one.url);
        let error = match result {
            Ok(Ok(())) => {
                tell(&format!("...Successfully got an update from the {:?} chart repository\n", one.name))?;
                None
            }
            Ok(Err(error)) => {
                tell(&format!(
                    "...Unable to get an update from the {:?} chart repository ({address}):\n\t{error}\n",
                    one.name
                ))?;
                Some(error.to_string())
            }
            Err(_) => Some("the update ended before its time".to_owned()),
        };
        if error.is_some() {
            failed.push(address.clone());
        }
        rows.push(UpdatedRepository { name: &one.name, url: address, updated: error.is_none(), error });
    }
    if must && !failed.is_empty() {
        bail!("Failed to update the following repositories: {failed:?}");
    }
    show::show(session.output(), &rows, |_| "Update Complete. ⎈Happy Helming!⎈\n".to_owned())
}
