//! The command tree. Each command's own flags live beside its code in `commands`.

use std::path::PathBuf;

use clap::builder::Styles;
use clap::builder::styling::AnsiColor;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::commands;

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
                  Exit codes: 0 done, 1 failed, 2 changes pending, 3 only a revision pending, 64 usage,\n\
                  130/143 interrupted."
)]
pub struct Cli {
    #[command(flatten)]
    pub globals: Globals,

    #[command(subcommand)]
    pub command: Command,
}

/// Flags of every command. What is not given comes from the environment (`SLIPWAY_*`), then from the
/// configuration file, then from a default; `slipway config` shows which.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Global options")]
pub struct Globals {
    /// Kubeconfig file to use
    #[arg(long, global = true, value_name = "FILE")]
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

    /// Configuration file to use instead of the user's own
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
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
