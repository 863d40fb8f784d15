//! The command tree. Each command's own flags live beside its code in `commands`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::Styles;
use clap::builder::styling::AnsiColor;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::commands;
use crate::config::ProgressInterval;

const STYLES: Styles = Styles::styled()
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
    after_help = "Data goes to standard output, everything else to standard error.\n\
                  Exit codes: 0 done, 1 failed, 2 changes pending, 3 only a new revision pending,\n\
                  10 invalid files, 11 nothing selected, 12 inputs or cluster changed since the plan,\n\
                  13 locked by somebody else, 14 not confirmed, 15 refused by policy or gate,\n\
                  16 a secret could not be had, 17 the required daemon is not reachable, 64 usage,\n\
                  130/143 interrupted."
)]
pub struct Cli {
    #[command(flatten)]
    pub globals: Globals,

    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Reads a command line. The tree of all commands is built only when it is needed: building it
    /// takes longer than rendering a small chart.
    pub fn read(words: &[OsString]) -> Result<Self, clap::Error> {
        if words.iter().any(|word| word == "render" || word == "template")
            && let Ok(Renders { globals, command: Rendering::Render(args) }) = Renders::try_parse_from(words)
        {
            return Ok(Self { globals, command: Command::Render(args) });
        }
        Self::try_parse_from(commands::package::flags::spelled(&spell_words_as_flags(words)))
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

/// The part of [`Cli`] that renders. What it cannot read, help included, is left to the whole.
#[derive(Debug, Parser)]
#[command(name = "slipway", disable_help_subcommand = true)]
struct Renders {
    #[command(flatten)]
    globals: Globals,

    #[command(subcommand)]
    command: Rendering,
}

#[derive(Debug, Subcommand)]
enum Rendering {
    #[command(alias = "template")]
    Render(Box<commands::render::Args>),
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
    #[arg(long, global = true, value_name = "NAME", alias = "kube-context")]
    pub context: Option<String>,

    /// Use the embedded cluster: the sandbox that runs, or one that keeps its objects between commands
    #[arg(long, global = true, conflicts_with_all = ["kubeconfig", "context"])]
    pub sandbox: bool,

    /// Namespace to work in
    #[arg(short, long, global = true, value_name = "NAME")]
    pub namespace: Option<String>,

    /// Form of what is shown
    #[arg(short, long, global = true, value_name = "FORM")]
    pub output: Option<Output>,

    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN")]
    pub color: Option<Color>,

    /// Say more; repeat for debug and trace
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

    /// Certificates of the API server to trust
    #[arg(long, global = true, value_name = "FILE", alias = "kube-ca", hide_short_help = true)]
    pub kube_ca_file: Option<PathBuf>,

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
    #[arg(long, global = true, value_name = "TOKEN", hide_short_help = true)]
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
    Render(Box<commands::render::Args>),
    /// Show what applying would change; writes nothing
    Plan(Box<commands::release::PlanArgs>),
    /// Take a release to the cluster: install it, or bring it up to date
    Apply(Box<commands::release::ApplyArgs>),
    /// Go back to an earlier revision
    Rollback(Box<commands::release::RollbackArgs>),
    /// Delete a release and everything that belongs to it
    #[command(alias = "uninstall")]
    Delete(Box<commands::release::DeleteArgs>),
    /// List releases
    #[command(alias = "ls")]
    List(commands::release::ListArgs),
    /// Show how a release stands
    Status(commands::release::StatusArgs),
    /// Show the revisions of a release
    History(commands::release::HistoryArgs),
    /// Show what a revision holds
    Get(commands::release::GetArgs),
    /// Show what differs between revisions, or between a revision and the cluster
    Diff(commands::release::DiffArgs),
    /// Show what the pods of a release say
    Logs(commands::release::LogsArgs),
    /// Run the tests of a release
    Test(commands::release::TestArgs),
    /// Look charts over for mistakes
    Lint(commands::lint::Args),
    /// Create, show, pack, fetch and publish charts
    Chart(Box<commands::chart::Args>),
    /// Chart repositories
    Repo(commands::repo::Args),
    /// Build, check and explain Kurel packages
    Package(commands::package::Args),
    /// Build and edit kustomizations
    Kustomize(commands::kustomize::Args),
    /// Bootstrap clusters from runbooks
    Run(commands::run::Args),
    /// Take many releases to their clusters as one graph
    Stack(Box<commands::stack::Args>),
    /// Release units: bundle, plan, apply, promote and verify one file
    Unit(Box<commands::unit::Args>),
    /// Pipelines of environments: what is where, why it waits, promote and rehearse
    Pipeline(Box<commands::pipeline::Args>),
    /// Versions on their way through a pipeline
    Bundle(Box<commands::bundle::Args>),
    /// Policy gates: list, test, simulate, explain and override them
    Gate(Box<commands::gate::Args>),
    /// References to secrets: test, find and check them
    Secrets(Box<commands::secrets::Args>),
    /// The controller of promotions: run, install and remove it
    Controller(Box<commands::controller::Args>),
    /// Carry out the steps of one shard for a controller in another cluster
    Agent(Box<commands::agent::Args>),
    /// What happened to promotions, and proof that nobody changed the record
    Audit(commands::audit::Args),
    /// Look at everything promotion needs and say what is wrong
    Doctor(commands::doctor::Args),
    /// Run the embedded Kubernetes API server
    Sandbox(commands::sandbox::Args),
    /// Show or run a graph of nodes and needs
    Graph(commands::graph::Args),
    /// Show the settings in force and where each comes from
    Config(commands::config::Args),
    /// Print a completion script for a shell
    Completions(commands::completions::Args),
    /// Write manual pages
    Man(commands::man::Args),
    /// Print a generated page of the reference
    #[command(hide = true)]
    Reference(commands::reference::Args),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the small tree reads, the whole tree reads alike.
    #[test]
    fn rendering_is_read_alike() {
        let lines = [
            "slipway render chart",
            "slipway template web chart -f values.yaml --set a=b,c=d --set-string e=1 -n ns",
            "slipway -n ns --output json render web chart --include-crds --kube-version 1.25 --api-versions a/v1,b/v1",
            "slipway render web chart -vv --color never --seed 7 --skip-tests --show-only templates/a.yaml",
            "slipway --sandbox render chart --dry-run=server --validate",
        ];
        for line in lines {
            let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
            let small = Renders::try_parse_from(&words).map(|read| {
                let Rendering::Render(args) = read.command;
                format!("{:?} {args:?}", read.globals)
            });
            let whole = Cli::try_parse_from(&words).map(|read| match read.command {
                Command::Render(args) => format!("{:?} {args:?}", read.globals),
                other => format!("{other:?}"),
            });
            assert_eq!(small.expect(line), whole.expect(line), "{line}");
        }
    }

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

    #[test]
    fn what_is_not_rendering_is_left_to_the_whole_tree() {
        for line in
            ["slipway render", "slipway render --help", "slipway lint render", "slipway template a b c"]
        {
            let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
            let whole = Cli::try_parse_from(&words)
                .map(|read| format!("{read:?}"))
                .map_err(|error| error.to_string());
            let read = Cli::read(&words).map(|read| format!("{read:?}")).map_err(|error| error.to_string());
            assert_eq!(read, whole, "{line}");
        }
    }
}
