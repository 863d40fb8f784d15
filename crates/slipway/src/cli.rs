//! The command tree. Each command's own flags live beside its code in `commands`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::Styles;
use clap::builder::styling::AnsiColor;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, FromArgMatches as _, Parser, Subcommand, ValueEnum};

use crate::commands;
use crate::config::ProgressInterval;
use crate::deferred::Deferred;
use crate::help::{Usual, help_pages};

pub const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Takes Kubernetes packages from source to production
#[derive(Debug, Parser)]
#[command(
    name = "slipway",
    version,
    styles = STYLES,
    max_term_width = 100,
    propagate_version = false,
    disable_help_subcommand = true,
    after_long_help = "Data goes to standard output, everything else to standard error.\n\
                  Exit codes: 0 done, 1 failed, 2 changes pending, 3 only a new revision pending,\n\
                  10 invalid files, 11 nothing selected, 12 inputs or cluster changed since the plan,\n\
                  13 locked by somebody else, 14 not confirmed, 15 refused by policy or gate,\n\
                  16 a secret could not be had, 17 reserved, 64 usage,\n\
                  130/143 interrupted."
)]
struct Root {
    #[command(flatten)]
    globals: Globals,
}

/// A command line that was read.
#[derive(Debug)]
pub struct Cli {
    pub globals: Globals,
    pub command: Command,
}

impl Cli {
    /// Reads a command line.
    pub fn read(words: &[OsString]) -> Result<Self, clap::Error> {
        let words = commands::package::flags::spelled(&spell_words_as_flags(words));
        match Self::parse(Self::narrow_tree(&words), &words) {
            Ok(cli) => return Ok(cli),
            Err(error) if error.kind() == ErrorKind::DisplayVersion => return Err(error),
            // The narrow tree knows one command; what is wrong is told by the whole one.
            Err(_) => {}
        }
        Self::parse(Self::command(), &words).map_err(|error| match error.kind() {
            ErrorKind::DisplayHelp => help_pages().try_get_matches_from(&words).err().unwrap_or(error),
            _ => error,
        })
    }

    fn parse(mut tree: clap::Command, words: &[OsString]) -> Result<Self, clap::Error> {
        let mut matches = tree.try_get_matches_from_mut(words)?;
        let cli = Globals::from_arg_matches_mut(&mut matches)
            .and_then(|globals| Ok(Self { globals, command: Command::from_arg_matches_mut(&mut matches)? }));
        cli.map_err(|error| error.format(&mut tree))
    }

    /// The tree with the one command that seems to be asked for. Declaring the others, each with the flags of every command,
    /// takes longer than rendering a small chart.
    fn narrow_tree(words: &[OsString]) -> clap::Command {
        let commands = Command::augment_subcommands(clap::Command::default());
        let mut words = words.iter().skip(1).filter_map(|word| word.to_str());
        match words.find_map(|word| commands.find_subcommand(word)) {
            Some(command) => Root::command().subcommand_required(true).subcommand(command.clone()),
            None => Root::command(),
        }
    }
}

impl CommandFactory for Cli {
    fn command() -> clap::Command {
        let root = Root::command().subcommand_required(true).arg_required_else_help(true);
        Command::augment_subcommands(root)
    }

    fn command_for_update() -> clap::Command {
        Self::command()
    }
}

/// Rewrites `help COMMAND` and `version`, which users of other tools type as commands, as the flags they are here.
fn spell_words_as_flags(words: &[OsString]) -> Vec<OsString> {
    let (program, rest) = words.split_at(words.len().min(1));
    match rest.split_first() {
        Some((first, command)) if first == "help" => [program, command, &["--help".into()]].concat(),
        Some((first, [])) if first == "version" => [program, &["--version".into()]].concat(),
        _ => words.to_vec(),
    }
}

/// Flags of every command. What is not given comes from the environment (`SLIPWAY_*`), then from the
/// configuration file, then from a default; `slipway config` shows which.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Global options")]
pub struct Globals {
    /// Kubeconfig file to use
    #[arg(long, global = true, value_name = "FILE", alias = "kube-config")]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig to use
    #[arg(long, global = true, value_name = "NAME", alias = "kube-context", add = Usual)]
    pub context: Option<String>,

    /// Use the embedded cluster: the sandbox that runs, or one that keeps its objects between commands
    #[arg(long, global = true, conflicts_with_all = ["kubeconfig", "context"], add = Usual)]
    pub sandbox: bool,

    /// Namespace to work in
    #[arg(short, long, global = true, value_name = "NAME", add = Usual)]
    pub namespace: Option<String>,

    /// Form of what is shown
    #[arg(short, long, global = true, value_name = "FORM", add = Usual)]
    pub output: Option<Output>,

    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN")]
    pub color: Option<Color>,

    /// Say more: `-vv` shows every request to the cluster, `-vvv` what libraries log as well
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,

    /// Say only what went wrong
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,

    /// Form of progress and events on standard error
    #[arg(long, global = true, value_name = "FORM")]
    pub log_format: Option<LogFormat>,

    /// In a pipe, tell again what is under way after this time without a line; 0 for never
    #[arg(long, global = true, value_name = "TIME")]
    pub progress_interval: Option<ProgressInterval>,

    /// Configuration file to use instead of the user's own
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,

    #[command(flatten)]
    pub connection: ConnectionFlags,
}

/// Overrides of what the kubeconfig says of the cluster, under Helm's names and Nelm's.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Cluster connection")]
pub struct ConnectionFlags {
    /// Address of the API server
    #[arg(long, global = true, value_name = "URL", alias = "kube-api-server", hide_short_help = true)]
    pub kube_apiserver: Option<String>,

    /// User to act as
    #[arg(long, global = true, value_name = "NAME", alias = "kube-impersonate-user", hide_short_help = true)]
    pub kube_as_user: Option<String>,

    /// Group to act as; repeat for more
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        alias = "kube-impersonate-group",
        hide_short_help = true
    )]
    pub kube_as_group: Vec<String>,

    /// Unique id of the user to act as
    #[arg(long, global = true, value_name = "ID", hide_short_help = true)]
    pub kube_impersonate_uid: Option<String>,

    /// Certificates of the API server to trust
    #[arg(long, global = true, value_name = "FILE", alias = "kube-ca", hide_short_help = true)]
    pub kube_ca_file: Option<PathBuf>,

    /// Certificates of the API server to trust, as text
    #[arg(
        long,
        global = true,
        value_name = "PEM",
        conflicts_with = "kube_ca_file",
        allow_hyphen_values = true,
        hide_short_help = true
    )]
    pub kube_ca_data: Option<String>,

    /// Certificate to log in with
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub kube_cert: Option<PathBuf>,

    /// Certificate to log in with, as text
    #[arg(
        long,
        global = true,
        value_name = "PEM",
        conflicts_with = "kube_cert",
        allow_hyphen_values = true,
        hide_short_help = true
    )]
    pub kube_cert_data: Option<String>,

    /// Key of the certificate to log in with
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub kube_key: Option<PathBuf>,

    /// Key of the certificate to log in with, as text
    #[arg(
        long,
        global = true,
        value_name = "PEM",
        conflicts_with = "kube_key",
        allow_hyphen_values = true,
        hide_short_help = true
    )]
    pub kube_key_data: Option<String>,

    /// User name to log in with, for servers that take passwords
    #[arg(long, global = true, value_name = "NAME", hide_short_help = true)]
    pub kube_auth_username: Option<String>,

    /// Password to log in with
    #[arg(long, global = true, value_name = "TEXT", allow_hyphen_values = true, hide_short_help = true)]
    pub kube_auth_password: Option<String>,

    /// Cluster of the kubeconfig to use instead of the context's
    #[arg(long, global = true, value_name = "NAME", hide_short_help = true)]
    pub kube_context_cluster: Option<String>,

    /// User of the kubeconfig to use instead of the context's
    #[arg(long, global = true, value_name = "NAME", hide_short_help = true)]
    pub kube_context_user: Option<String>,

    /// Accept any certificate of the API server
    #[arg(long, global = true, alias = "no-verify-kube-tls", hide_short_help = true)]
    pub kube_insecure_skip_tls_verify: bool,

    /// Name the API server's certificate must have
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        alias = "kube-api-server-tls-name",
        hide_short_help = true
    )]
    pub kube_tls_server_name: Option<String>,

    /// Bearer token
    #[arg(long, global = true, value_name = "TOKEN", allow_hyphen_values = true, hide_short_help = true)]
    pub kube_token: Option<String>,

    /// File with a bearer token
    #[arg(long, global = true, value_name = "FILE", alias = "kube-token-path", hide_short_help = true)]
    pub kube_token_file: Option<PathBuf>,

    /// The kubeconfig itself, encoded in base64
    #[arg(long, global = true, value_name = "TEXT", conflicts_with_all = ["kubeconfig", "sandbox"], hide_short_help = true)]
    pub kube_config_base64: Option<String>,

    /// Proxy to reach the API server through
    #[arg(long, global = true, value_name = "URL", hide_short_help = true)]
    pub kube_proxy_url: Option<String>,

    #[arg(long, global = true, hide = true)]
    pub burst_limit: Option<i64>,

    #[arg(long, global = true, hide = true)]
    pub qps: Option<f32>,
}

/// How a command shows its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people
    #[default]
    Table,
    Json,
    Yaml,
}

/// When to colour the terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    Always,
    Never,
}

/// How progress is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// A live view on a terminal, plain lines elsewhere
    #[default]
    Text,
    /// One event a line
    Json,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Render a chart, package or kustomization to YAML
    #[command(alias = "template")]
    Render(Deferred<commands::render::Args>),
    /// Show what applying would change; writes nothing
    Plan(Deferred<commands::release::PlanArgs>),
    /// Take a release to the cluster: install it, or bring it up to date
    Apply(Deferred<commands::release::ApplyArgs>),
    /// Go back to an earlier revision
    Rollback(Deferred<commands::release::RollbackArgs>),
    /// Delete a release and everything that belongs to it
    #[command(alias = "uninstall")]
    Delete(Deferred<commands::release::DeleteArgs>),
    /// List releases
    #[command(alias = "ls")]
    List(Deferred<commands::release::ListArgs>),
    /// Show how a release stands
    Status(Deferred<commands::release::StatusArgs>),
    /// Show the revisions of a release
    History(Deferred<commands::release::HistoryArgs>),
    /// Show what a revision holds
    Get(Deferred<commands::release::GetArgs>),
    /// Show what differs between revisions, or between a revision and the cluster
    Diff(Deferred<commands::release::DiffArgs>),
    /// Show what the pods of a release say
    Logs(Deferred<commands::release::LogsArgs>),
    /// Run the tests of a release
    Test(Deferred<commands::release::TestArgs>),
    /// Look charts over for mistakes
    Lint(Deferred<commands::lint::Args>),
    /// Create, show, pack, fetch and publish charts
    Chart(Deferred<commands::chart::Args>),
    /// Chart repositories
    Repo(Deferred<commands::repo::Args>),
    /// Build, check and explain Kurel packages
    Package(Deferred<commands::package::Args>),
    /// Build and edit kustomizations
    Kustomize(Deferred<commands::kustomize::Args>),
    /// Bootstrap clusters from runbooks
    Run(Deferred<commands::run::Args>),
    /// Take many releases to their clusters as one graph
    Stack(Deferred<commands::stack::Args>),
    /// Release units: bundle, plan, apply, promote and verify one file
    Unit(Deferred<commands::unit::Args>),
    /// Pipelines of environments: what is where, why it waits, promote and rehearse
    Pipeline(Deferred<commands::pipeline::Args>),
    /// Versions on their way through a pipeline
    Bundle(Deferred<commands::bundle::Args>),
    /// Policy gates: list, test, simulate, explain and override them
    Gate(Deferred<commands::gate::Args>),
    /// References to secrets: test, find and check them
    Secrets(Deferred<commands::secrets::Args>),
    /// The controller of promotions: run, install and remove it
    Controller(Deferred<commands::controller::Args>),
    /// Carry out the steps of one shard for a controller in another cluster
    Agent(Deferred<commands::agent::Args>),
    /// What happened to promotions, and proof that nobody changed the record
    Audit(Deferred<commands::audit::Args>),
    /// Look at everything promotion needs and say what is wrong
    Doctor(Deferred<commands::doctor::Args>),
    /// Run the embedded Kubernetes API server
    Sandbox(Deferred<commands::sandbox::Args>),
    /// Show or run a graph of nodes and needs
    Graph(Deferred<commands::graph::Args>),
    /// Show the settings in force and where each comes from
    Config(Deferred<commands::config::Args>),
    /// Print a completion script for a shell
    Completions(Deferred<commands::completions::Args>),
    /// Write manual pages
    Man(Deferred<commands::man::Args>),
    /// Print a generated page of the reference
    #[command(hide = true)]
    Reference(Deferred<commands::reference::Args>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_and_version_may_be_words() {
        let read = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
            Cli::read(&words).expect_err(line).to_string()
        };
        assert_eq!(read("slipway version"), read("slipway --version"));
        assert_eq!(read("slipway help"), read("slipway --help"));
        assert_eq!(read("slipway help stack plan"), read("slipway stack plan --help"));
    }

    /// Finds what clap itself finds wrong with a tree, in every command.
    #[test]
    fn the_whole_tree_is_sound() {
        <Cli as CommandFactory>::command().debug_assert();
    }

    #[test]
    fn only_the_command_asked_for_declares_its_arguments() {
        let mut tree = <Cli as CommandFactory>::command();
        let count = |tree: &clap::Command, name: &str| {
            let command = tree.get_subcommands().find(|command| command.get_name() == name);
            command.map_or(0, |command| command.get_arguments().count() + command.get_subcommands().count())
        };
        for command in tree.get_subcommands() {
            assert_eq!(count(&tree, command.get_name()), 0, "{}", command.get_name());
        }
        tree.build();
        assert!(count(&tree, "apply") > 20);
    }
}
