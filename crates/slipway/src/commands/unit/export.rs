//! `slipway unit export`: writes a unit as files for GitOps.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use std::sync::Arc;

use schemars::JsonSchema;
use secrecy::SecretString;
use serde::Serialize;
use slipway_event::SystemClock;
use slipway_git::{
    BranchName, CacheOptions, CommitIdentity, Git, GitCredential, RepositoryAddress, RepositoryCache,
    TransportPolicy, TreePath,
};
use slipway_problem::Problem;
use slipway_scm::{ConnectOptions, ProviderKind, RemoteRepository, ScmConnections, ScmCredential};
use slipway_unit::{
    ExportFiles, ExportFormat, ExportOptions, ExportSecrets, PublishOutcome, PublishRequest, SecretStoreName,
    UnitFile, export_unit, publish_export, write_export,
};

use super::fail;
use super::flags::{UnitFlags, now};
use crate::config;
use crate::exit::{Exit, UsageError};
use crate::interrupt::Interrupt;
use crate::session::Session;
use crate::term::show;

/// Write a unit as files for Flux, Argo CD or kustomize
///
/// The same unit gives the same files: exporting twice changes nothing. Values keep references to secrets.
#[derive(Debug, clap::Args)]
pub struct ExportArgs {
    #[command(flatten)]
    unit: UnitFlags,

    #[command(flatten)]
    export: ExportFlags,

    /// Directory to write to
    #[arg(long, value_name = "DIR", required_unless_present = "git", help_heading = "Export")]
    to_dir: Option<PathBuf>,

    #[command(flatten)]
    publish: PublishFlags,
}

/// A branch and pull request instead of a directory.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Publishing")]
struct PublishFlags {
    /// Repository to put the export into, below --path
    #[arg(long, value_name = "URL", conflicts_with = "to_dir")]
    git: Option<String>,

    /// Branch to put it on
    #[arg(long, value_name = "NAME", requires = "git")]
    branch: Option<String>,

    /// Branch it is for
    #[arg(long, value_name = "NAME", default_value = "main")]
    base: String,

    /// Open a pull request
    #[arg(long, requires = "git")]
    pr: bool,

    /// Server of the repository: github, gitlab, gitea, bitbucket or azure; known for public servers
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,

    /// Token for the repository and its server
    #[arg(long, value_name = "TEXT", env = "SLIPWAY_GIT_TOKEN", hide_env_values = true)]
    git_token: Option<String>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Export")]
pub struct ExportFlags {
    /// Form of the export
    #[arg(long, value_name = "FORM")]
    format: Option<Format>,

    /// Fetch secrets in the cluster with ExternalSecret objects
    #[arg(long)]
    external_secrets: bool,

    /// Store of a provider's secrets: PROVIDER=[KIND/]NAME; may be repeated
    #[arg(long, value_name = "PROVIDER=STORE")]
    secret_store: Vec<String>,

    /// Repository the export is read from: the GitRepository of Flux, or the address for Argo CD
    #[arg(long, value_name = "NAME|URL")]
    repository: Option<String>,

    /// Place of the export inside of the repository
    #[arg(long, value_name = "PATH", default_value = "", hide_default_value = true)]
    path: String,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    /// The packed chart and its values
    Values,
    /// The rendered objects
    Rendered,
    /// An Application of Argo CD
    Argocd,
    /// A HelmRelease of Flux
    Flux,
    /// A kustomization of the rendered objects
    Kustomize,
}

impl ExportFlags {
    pub fn options(&self) -> anyhow::Result<ExportOptions> {
        let Some(format) = self.format else {
            let problem = Problem::error("the form of the export is not given");
            return Err(UsageError(
                problem.hint("add --format values|rendered|argocd|flux|kustomize").into(),
            )
            .into());
        };
        let mut stores = BTreeMap::new();
        for text in &self.secret_store {
            let Some((provider, store)) = text.split_once('=') else {
                let problem = Problem::error(format!("`{text}` is not PROVIDER=STORE"));
                return Err(UsageError(problem.into()).into());
            };
            stores.insert(provider.to_owned(), SecretStoreName::parse(store));
        }
        Ok(ExportOptions {
            format: match format {
                Format::Values => ExportFormat::Values,
                Format::Rendered => ExportFormat::Rendered,
                Format::Argocd => ExportFormat::ArgoCd,
                Format::Flux => ExportFormat::Flux,
                Format::Kustomize => ExportFormat::Kustomize,
            },
            secrets: if self.external_secrets {
                ExportSecrets::ExternalSecrets(stores)
            } else {
                ExportSecrets::References
            },
            repository: self.repository.clone(),
            directory: self.path.clone(),
        })
    }
}

/// The place an export went to.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ExportView<'a> {
    /// Files were written to a directory.
    Written { directory: &'a Path, files: usize, changed: usize },
    /// The branch it is for has exactly these files.
    Unchanged { branch: &'a str },
    /// A commit is on a branch.
    Pushed { branch: &'a str, commit: String, pull_request: Option<&'a str> },
}

pub fn run(args: &ExportArgs, session: &Session) -> anyhow::Result<Exit> {
    let unit = args.unit.open()?;
    let files = export_unit(&unit, &args.export.options()?).map_err(fail)?;
    let Some(directory) = &args.to_dir else { return publish(&unit, &files, args, session) };
    let changed = write_export(&files, directory).map_err(fail)?;
    if !session.is_quiet() {
        say!("{} files in {}, {changed} changed", files.len(), directory.display());
    }
    let written = ExportView::Written { directory, files: files.len(), changed };
    show::show(session.output(), &written, |_| String::new())?;
    Ok(Exit::Done)
}

/// Puts an export on a branch, and opens a pull request if that is wanted.
fn publish(
    unit: &UnitFile,
    files: &ExportFiles,
    args: &ExportArgs,
    session: &Session,
) -> anyhow::Result<Exit> {
    let flags = &args.publish;
    let address =
        RepositoryAddress::parse(flags.git.as_deref().unwrap_or_default(), TransportPolicy::NetworkAndFiles)?;
    let token = flags.git_token.as_ref().map(|token| {
        session.redactor().register(token);
        ScmCredential::Token(SecretString::from(token.clone()))
    });
    let kind = flags.provider.as_deref().and_then(ProviderKind::parse);
    let credential = match &token {
        Some(token) => token
            .for_git(kind.or_else(|| ProviderKind::of_host(address.host())).unwrap_or(ProviderKind::None)),
        None => GitCredential::Anonymous,
    };
    let scratch = tempfile::tempdir()?;
    let stop = Interrupt::listen()?.token().clone();
    let clock = Arc::new(SystemClock);
    let cache = RepositoryCache::open(
        scratch.path(),
        CacheOptions::default(),
        Arc::new(Git::default()),
        clock.clone(),
        stop,
    )?;
    let provider = match (flags.pr, token) {
        (true, Some(token)) => {
            let remote = RemoteRepository::new(&address, kind, None)?;
            let connections = ScmConnections::new(clock, session.redactor().clone());
            Some(connections.connect(remote, token, &ConnectOptions::default())?)
        }
        (true, None) => return Err(UsageError(Problem::error("--pr needs --git-token").into()).into()),
        (false, _) => None,
    };
    let short = unit.digest().trim_start_matches("sha256:").get(..12).unwrap_or_default();
    let branch = flags.branch.clone().unwrap_or_else(|| format!("unit/{}-{short}", unit.release_name()));
    let name = config::user_name();
    let repository = cache.repository(address, credential);
    let request = PublishRequest {
        repository: &repository,
        base: BranchName::parse(&flags.base)?,
        branch: BranchName::parse(&branch)?,
        directory: TreePath::parse(&args.export.path)?,
        author: CommitIdentity::new(&name, &format!("{name}@{}", config::machine_name())),
        time: now(),
        summary: format!("Deploys `{}` {} as one unit.", unit.release_name(), unit.rows().chart.version),
        provider: provider.as_deref(),
    };
    let published = session.block_on(async { Ok(publish_export(unit, files, &request).await?) })?;
    let view = match &published {
        PublishOutcome::Unchanged => {
            say!("{} has exactly these files", flags.base);
            ExportView::Unchanged { branch: &flags.base }
        }
        PublishOutcome::Pushed { commit, pull_request } => {
            say!("pushed {} to {branch}", commit.short());
            let pull_request = pull_request.as_deref();
            ExportView::Pushed { branch: &branch, commit: commit.to_string(), pull_request }
        }
    };
    show::show(session.output(), &view, |view| match view {
        ExportView::Pushed { pull_request: Some(url), .. } => format!("{url}\n"),
        _ => String::new(),
    })?;
    Ok(Exit::Done)
}
