//! `slipway plan|apply|rollback|delete|list|status|history|get|diff|test`: one release.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;
use slipway_cluster::helm::{Driver, Release, Scope};
use slipway_cluster::{Cluster, Retry};
use slipway_problem::{Location, Problem};
use slipway_release::inspect::{self, Row};
use slipway_release::plan::{self, Content, PruneOrder, Request};
use slipway_release::resource::transform::Extra;
use slipway_release::show::{self as plans, Change, View};
use slipway_release::{Failure, Report, Source, apply as engine};

use super::flags::ValueFlags;
use crate::cli::Output;
use crate::exit::{Exit, UsageError};
use crate::interrupt::Interrupt;
use crate::session::Session;
use crate::term::show;
use crate::term::style::{ADDED, BOLD, DIM, ERROR, REMOVED, WARNING, paint};
use crate::term::table::Table;

/// What a release is made of.
#[derive(Debug, clap::Args)]
pub struct SourceArgs {
    /// The release's name
    name: String,

    /// Chart, package, kustomization or manifests
    #[arg(value_name = "SOURCE", default_value = ".")]
    source: PathBuf,

    #[command(flatten)]
    values: ValueFlags,

    #[command(flatten)]
    planning: PlanningFlags,

    /// Do not check values against the chart's schema
    #[arg(long)]
    skip_schema_validation: bool,

    /// Notes of subcharts as well
    #[arg(long, alias = "show-subchart-notes")]
    render_subchart_notes: bool,

    /// Ignore crds/
    #[arg(long, alias = "no-install-crds")]
    skip_crds: bool,
}

/// How to plan.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Planning")]
pub struct PlanningFlags {
    /// Take over objects that belong to nobody or to another release
    #[arg(long, alias = "take-ownership")]
    force_adoption: bool,

    /// Leave fields changed with `kubectl edit` alone
    #[arg(long)]
    no_remove_manual_changes: bool,

    /// Do not wait for what nothing comes after
    #[arg(long)]
    no_final_tracking: bool,

    /// Annotation for all objects, kept in the release
    #[arg(long, value_name = "KEY=VALUE")]
    annotations: Vec<String>,

    /// Label for all objects, kept in the release
    #[arg(long, value_name = "KEY=VALUE")]
    labels: Vec<String>,

    /// Annotation for all objects, not kept in the release
    #[arg(long, value_name = "KEY=VALUE")]
    runtime_annotations: Vec<String>,

    /// Label for all objects, not kept in the release
    #[arg(long, value_name = "KEY=VALUE")]
    runtime_labels: Vec<String>,

    /// When removed objects are deleted
    #[arg(long, value_name = "WHEN", default_value = "after")]
    prune_order: Prune,

    /// Where releases are kept
    #[arg(long, value_name = "KIND", default_value = "secret")]
    release_storage: StorageKind,

    /// Leave hooks out
    #[arg(long)]
    no_hooks: bool,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Prune {
    Before,
    #[default]
    After,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum StorageKind {
    #[default]
    #[value(alias = "secrets")]
    Secret,
    #[value(alias = "configmaps")]
    Configmap,
}

impl From<StorageKind> for Driver {
    fn from(kind: StorageKind) -> Self {
        match kind {
            StorageKind::Secret => Driver::Secret,
            StorageKind::Configmap => Driver::ConfigMap,
        }
    }
}

/// How differences are shown.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Differences")]
pub struct DiffFlags {
    /// Lines around each change
    #[arg(long, value_name = "N", default_value_t = 3)]
    diff_context_lines: usize,

    /// Changes of owners and of tools' annotations too
    #[arg(long)]
    show_insignificant_diffs: bool,

    /// Values of secrets too
    #[arg(long)]
    show_sensitive_diffs: bool,

    /// Whole definitions of kinds
    #[arg(long)]
    show_verbose_crd_diffs: bool,
}

impl DiffFlags {
    fn options(&self) -> plans::Options {
        // A fresh salt: what stands for a value tells nothing about it in another run.
        let run = slipway_event::RunId::generate(&slipway_event::SystemClock);
        plans::Options {
            context: self.diff_context_lines,
            show_sensitive: self.show_sensitive_diffs,
            show_insignificant: self.show_insignificant_diffs,
            show_verbose_crds: self.show_verbose_crd_diffs,
            show_verbose: true,
            key: format!("{run}{:?}", std::time::SystemTime::now()).into_bytes(),
        }
    }
}

/// Show what applying would change; writes nothing
#[derive(Debug, clap::Args)]
pub struct PlanArgs {
    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    diff: DiffFlags,

    /// Exit with 2 if objects change, 3 if only a revision is made
    #[arg(long, alias = "detailed-exitcode")]
    exit_code: bool,

    /// Save the plan, for `apply --plan`
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Key to encrypt the saved plan with: 32 or 64 hexadecimal digits
    #[arg(long, value_name = "KEY", env = "SLIPWAY_SECRET_KEY", hide_env_values = true)]
    secret_key: Option<String>,

    /// Print the graph of operations: dot or mermaid
    #[arg(long, value_name = "FORM")]
    graph: Option<GraphForm>,

    /// Say which dependencies were found in the objects
    #[arg(long)]
    explain: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum GraphForm {
    Dot,
    Mermaid,
}

/// How to carry out.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Running")]
pub struct RunFlags {
    /// How long the whole may take: `5m`, `1h30m`
    #[arg(long, value_name = "TIME", value_parser = time)]
    timeout: Option<Duration>,

    /// How many changes are under way at once
    #[arg(long, value_name = "N", default_value_t = 30)]
    network_parallelism: usize,

    /// How many revisions are kept; 0 for all
    #[arg(long, value_name = "N", default_value_t = 10, alias = "history-max")]
    release_history_limit: u32,

    /// How long one object may take to become ready
    #[arg(long, value_name = "TIME", value_parser = time)]
    resource_readiness_timeout: Option<Duration>,

    /// How long something outside of the release may take to appear
    #[arg(long, value_name = "TIME", value_parser = time)]
    resource_creation_timeout: Option<Duration>,

    /// How long one object may take to go away
    #[arg(long, value_name = "TIME", value_parser = time)]
    resource_deletion_timeout: Option<Duration>,

    /// Write what was done to a file, as JSON
    #[arg(long, value_name = "FILE")]
    save_report_to: Option<PathBuf>,

    /// Waiting is what this command does; accepted for hands used to Helm
    #[arg(long, hide = true)]
    wait: bool,

    #[arg(long, hide = true)]
    wait_for_jobs: bool,
}

impl RunFlags {
    fn options(&self) -> engine::Options {
        engine::Options {
            parallelism: self.network_parallelism,
            timeout: self.timeout.filter(|time| !time.is_zero()),
            history_limit: self.release_history_limit,
            readiness_timeout: self.resource_readiness_timeout.filter(|time| !time.is_zero()),
            presence_timeout: self.resource_creation_timeout.filter(|time| !time.is_zero()),
            deletion_timeout: self.resource_deletion_timeout.filter(|time| !time.is_zero()),
            ..engine::Options::default()
        }
    }
}

fn time(text: &str) -> Result<Duration, String> {
    slipway_release::resource::text::duration(text)
        .ok_or_else(|| "expected a duration such as 1m30s".to_owned())
}

/// Take a release to the cluster: install it, or bring it up to date
#[derive(Debug, clap::Args)]
pub struct ApplyArgs {
    #[command(flatten)]
    source: SourceArgs,

    /// Carry out a saved plan of this release instead of planning anew
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,

    /// Key the plan was encrypted with
    #[arg(long, value_name = "KEY", env = "SLIPWAY_SECRET_KEY", hide_env_values = true)]
    secret_key: Option<String>,

    /// How old a saved plan may be
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "2h")]
    plan_lifetime: Duration,

    /// Carry a saved plan out although somebody changed objects since
    #[arg(long)]
    allow_drift: bool,

    #[command(flatten)]
    run: RunFlags,

    /// Roll back to the last good revision when it fails
    #[arg(long, alias = "atomic", alias = "rollback-on-failure")]
    auto_rollback: bool,

    /// Do not create the namespace
    #[arg(long)]
    no_create_namespace: bool,

    /// The namespace is created anyway; accepted for hands used to Helm
    #[arg(long, hide = true)]
    create_namespace: bool,

    /// This command installs as well; accepted for hands used to Helm
    #[arg(short, long, hide = true)]
    install: bool,

    /// Only show the plan
    #[arg(long)]
    dry_run: bool,

    /// Text for the revision's entry in the history
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    #[command(flatten)]
    diff: DiffFlags,
}

/// Go back to an earlier revision
#[derive(Debug, clap::Args)]
pub struct RollbackArgs {
    /// The release's name
    name: String,

    /// The revision; the last good one before unless given
    revision: Option<u32>,

    #[command(flatten)]
    planning: PlanningFlags,

    #[command(flatten)]
    run: RunFlags,

    /// Only show the plan
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    diff: DiffFlags,
}

/// Delete a release and everything that belongs to it
#[derive(Debug, clap::Args)]
pub struct DeleteArgs {
    /// The releases' names
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,

    #[command(flatten)]
    planning: PlanningFlags,

    #[command(flatten)]
    run: RunFlags,

    /// Delete the namespace as well
    #[arg(long)]
    delete_namespace: bool,

    /// Keep the revisions
    #[arg(long)]
    keep_history: bool,

    /// Only show the plan
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    diff: DiffFlags,
}

/// Run the tests of a release
#[derive(Debug, clap::Args)]
pub struct TestArgs {
    /// The release's name
    name: String,

    #[command(flatten)]
    run: RunFlags,
}

/// List releases
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// In all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,

    /// Only names
    #[arg(long)]
    short: bool,
}

/// Show how a release stands
#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    /// The release's name
    name: String,

    /// The revision; the last unless given
    #[arg(long)]
    revision: Option<u32>,
}

/// Show the revisions of a release
#[derive(Debug, clap::Args)]
pub struct HistoryArgs {
    /// The release's name
    name: String,

    /// How many at most
    #[arg(long, default_value_t = 256)]
    max: usize,
}

/// Show what a revision holds
#[derive(Debug, clap::Args)]
pub struct GetArgs {
    /// What to show
    what: What,

    /// The release's name
    name: String,

    /// The revision; the last unless given
    #[arg(long)]
    revision: Option<u32>,

    /// All values, the chart's own too
    #[arg(short, long)]
    all: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum What {
    Values,
    Manifest,
    Notes,
    Hooks,
    All,
}

/// Show what differs between revisions, or between a revision and the cluster
#[derive(Debug, clap::Args)]
pub struct ReleaseDiffArgs {
    /// The release's name
    name: String,

    /// One revision: what someone changed since; two: what differs between them
    #[arg(num_args = 0..=2)]
    revisions: Vec<u32>,

    #[command(flatten)]
    diff: DiffFlags,

    /// Exit with 2 if something differs
    #[arg(long)]
    exit_code: bool,
}

fn pairs(texts: &[String]) -> anyhow::Result<Vec<(String, String)>> {
    let read = |text: &String| {
        let pair = text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        pair.ok_or_else(|| {
            UsageError(
                Problem::error(format!("`{text}` is not KEY=VALUE"))
                    .at(Location::file("command line"))
                    .into(),
            )
            .into()
        })
    };
    texts.iter().map(read).collect()
}

impl PlanningFlags {
    fn options(&self) -> anyhow::Result<plan::Options> {
        Ok(plan::Options {
            force_adoption: self.force_adoption,
            keep_manual_changes: self.no_remove_manual_changes,
            no_final_tracking: self.no_final_tracking,
            extra: Extra { annotations: pairs(&self.annotations)?, labels: pairs(&self.labels)? },
            runtime: Extra {
                annotations: pairs(&self.runtime_annotations)?,
                labels: pairs(&self.runtime_labels)?,
            },
            prune_order: match self.prune_order {
                Prune::Before => PruneOrder::Before,
                Prune::After => PruneOrder::After,
            },
            driver: self.release_storage.into(),
            no_hooks: self.no_hooks,
            ..plan::Options::default()
        })
    }
}

impl SourceArgs {
    fn request(&self, namespace: &str) -> anyhow::Result<Request> {
        let options = plan::Options {
            no_install_crds: self.skip_crds,
            skip_schema_validation: self.skip_schema_validation,
            subchart_notes: self.render_subchart_notes,
            ..self.planning.options()?
        };
        let content = Content::Source {
            source: Source::detect(&self.source)?,
            values: Box::new(self.values.collect()?),
        };
        Ok(Request { name: self.name.clone(), namespace: namespace.to_owned(), content, options })
    }
}

/// A failure in the form every command reports: problems one by one.
fn fail(failure: Failure) -> anyhow::Error {
    match failure {
        Failure::Problems(problems) | Failure::Stale(problems) => problems.into(),
        other => other.into(),
    }
}

async fn connect(session: &Session) -> anyhow::Result<(Cluster, String)> {
    let connection = session.connect().await?;
    let cluster = reached(Cluster::new(connection.client), &connection.server).await?;
    Ok((cluster, connection.namespace))
}

/// The cluster, if it answers. Later a server may be away for a while; one that never answers is
/// reported at once.
pub async fn reached(cluster: Cluster, server: &str) -> anyhow::Result<Cluster> {
    let hasty = Retry { attempts: 3, patience: Duration::from_secs(2), ..Retry::default() };
    cluster.clone().with_retry(hasty).version().await.map_err(|error| {
        let problem = Problem::error(format!("cannot reach the cluster at {server}: {}", error.message));
        problem.hint("check --kubeconfig and --context; --sandbox needs no cluster")
    })?;
    Ok(cluster)
}

pub fn plan(args: &PlanArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on(async {
        let (cluster, namespace) = connect(session).await?;
        let request = args.source.request(&namespace)?;
        let plan = plan::plan(&cluster, &request, &session.events()).await.map_err(fail)?;
        if let Some(path) = &args.out {
            let bytes = slipway_release::saved::save(&plan, args.secret_key.as_deref()).map_err(fail)?;
            crate::files::replace(path, &bytes).with_context(|| format!("write {}", path.display()))?;
        }
        match args.graph {
            Some(GraphForm::Dot) => show::print(&plan.to_dot())?,
            Some(GraphForm::Mermaid) => show::print(&plan.to_mermaid())?,
            None => show::show(session.output(), &plan.view(&args.diff.options()), view_text)?,
        }
        if args.explain {
            for (who, whom, field) in &plan.references {
                anstream::eprintln!("{who} waits for {whom} {}", paint(DIM, format!("({field})")));
            }
        }
        Ok(match plan.exit_code() {
            2 if args.exit_code => Exit::Changes,
            3 if args.exit_code => Exit::Revision,
            _ => Exit::Done,
        })
    })
}

pub fn apply(args: &ApplyArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on(async {
        let (cluster, namespace) = connect(session).await?;
        if let Some(path) = &args.plan {
            return apply_saved(&cluster, path, args, session).await;
        }
        let mut request = args.source.request(&namespace)?;
        request.options.description.clone_from(&args.description);
        if args.dry_run {
            return dry_run(&cluster, &request, &args.diff, session).await;
        }
        let options = engine::Options {
            auto_rollback: args.auto_rollback,
            create_namespace: !args.no_create_namespace,
            ..args.run.options()
        };
        carry_out(&cluster, &request, &options, &args.run, session).await
    })
}

/// Carries a saved plan out, or says what moved since it was made.
async fn apply_saved(
    cluster: &Cluster,
    path: &std::path::Path,
    args: &ApplyArgs,
    session: &Session,
) -> anyhow::Result<Exit> {
    let bytes = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
    let saved = slipway_release::saved::load(&bytes, args.secret_key.as_deref()).map_err(fail)?;
    let age = jiff::Timestamp::now().duration_since(saved.created).unsigned_abs();
    let problem = if saved.request.name != args.source.name {
        Some(format!("the plan is for release `{}`", saved.request.name))
    } else if age > args.plan_lifetime {
        Some(format!("the plan is {} minutes old", age.as_secs() / 60))
    } else {
        None
    };
    if let Some(problem) = problem {
        return Err(Problem::error(problem).at(Location::file(path.display().to_string())).into());
    }
    let options = engine::Options {
        auto_rollback: args.auto_rollback,
        create_namespace: !args.no_create_namespace,
        ..args.run.options()
    };
    let interrupt = Interrupt::listen()?;
    let (events, token) = (session.events(), interrupt.token().clone());
    let check = |plan: &slipway_release::Plan| saved.check(plan, args.allow_drift);
    let result = engine::apply_checked(cluster, &saved.request, &options, &events, token, check).await;
    finish(result, &interrupt, &args.run, session)
}

pub fn rollback(args: &RollbackArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on(async {
        let (cluster, namespace) = connect(session).await?;
        let content = Content::Revision(args.revision);
        let request =
            Request { name: args.name.clone(), namespace, content, options: args.planning.options()? };
        if args.dry_run {
            return dry_run(&cluster, &request, &args.diff, session).await;
        }
        carry_out(&cluster, &request, &args.run.options(), &args.run, session).await
    })
}

pub fn delete(args: &DeleteArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on(async {
        let (cluster, namespace) = connect(session).await?;
        let mut exit = Exit::Done;
        for name in &args.names {
            let request = Request {
                name: name.clone(),
                namespace: namespace.clone(),
                content: Content::Nothing,
                options: plan::Options { keep_history: args.keep_history, ..args.planning.options()? },
            };
            let options = engine::Options { delete_namespace: args.delete_namespace, ..args.run.options() };
            let known =
                plan::situation(&cluster, name, &namespace, request.options.driver).await.map_err(fail)?;
            if known.history.releases.is_empty() {
                anstream::eprintln!("release {name} is not there: nothing to delete");
                continue;
            }
            exit = if args.dry_run {
                dry_run(&cluster, &request, &args.diff, session).await?
            } else {
                carry_out(&cluster, &request, &options, &args.run, session).await?
            };
            if exit != Exit::Done {
                break;
            }
        }
        Ok(exit)
    })
}

pub fn test(args: &TestArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on(async {
        let (cluster, namespace) = connect(session).await?;
        let options = plan::Options::default();
        let request = Request { name: args.name.clone(), namespace, content: Content::Tests, options };
        carry_out(&cluster, &request, &args.run.options(), &args.run, session).await
    })
}

async fn dry_run(
    cluster: &Cluster,
    request: &Request,
    diff: &DiffFlags,
    session: &Session,
) -> anyhow::Result<Exit> {
    let plan = plan::plan(cluster, request, &session.events()).await.map_err(fail)?;
    show::show(session.output(), &plan.view(&diff.options()), view_text)?;
    Ok(Exit::Done)
}

async fn carry_out(
    cluster: &Cluster,
    request: &Request,
    options: &engine::Options,
    flags: &RunFlags,
    session: &Session,
) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::listen()?;
    let result = engine::apply(cluster, request, options, &session.events(), interrupt.token().clone()).await;
    finish(result, &interrupt, flags, session)
}

/// Shows and saves what was done.
fn finish(
    result: Result<Report, Failure>,
    interrupt: &Interrupt,
    flags: &RunFlags,
    session: &Session,
) -> anyhow::Result<Exit> {
    let report = match &result {
        Ok(report) => Some(report),
        Err(failure) => failure.report(),
    };
    if let (Some(path), Some(report)) = (&flags.save_report_to, report) {
        let text = serde_json::to_vec_pretty(report)?;
        crate::files::replace(path, &text).with_context(|| format!("write {}", path.display()))?;
    }
    match result {
        Ok(report) => {
            show::show(session.output(), &report, report_text)?;
            Ok(Exit::Done)
        }
        Err(failure) => match interrupt.exit() {
            Some(exit) => {
                anstream::eprintln!("{failure}");
                Ok(exit)
            }
            None => Err(fail(failure)),
        },
    }
}

fn report_text(report: &Report) -> String {
    let Report { release, namespace, revision, status, .. } = report;
    let mut text = match status.as_str() {
        "skipped" => format!("release {release} in {namespace} is up to date (revision {revision})\n"),
        "uninstalled" => format!("release {release} in {namespace} is deleted\n"),
        "tested" => format!("the tests of release {release} in {namespace} succeeded\n"),
        _ => format!("release {release} in {namespace} is deployed (revision {revision})\n"),
    };
    let _ = writeln!(text, "{}", paint(DIM, &report.requests));
    if !report.notes.is_empty() && status != "uninstalled" {
        let _ = writeln!(text, "\n{}", report.notes);
    }
    text
}

fn view_text(view: &View) -> String {
    let mut text = String::new();
    if view.empty {
        return format!("release {} in {}: nothing to do\n", view.release, view.namespace);
    }
    for change in &view.changes {
        change_text(&mut text, change);
    }
    for kept in &view.kept {
        let _ = writeln!(text, "{} {}", paint(DIM, "keep"), kept.object);
    }
    if view.changes.is_empty() {
        let reason = view.reason.as_deref().unwrap_or("its content changed");
        let _ = writeln!(text, "no object changes, but revision {} is made: {reason}", view.revision);
    } else {
        let parts: Vec<String> =
            view.summary.iter().map(|(action, count)| format!("{count} to {action}")).collect();
        let _ = writeln!(text, "{}", parts.join(", "));
    }
    text
}

fn change_text(text: &mut String, change: &Change) {
    let style = match change.action.as_str() {
        "create" => ADDED,
        "delete" => REMOVED,
        "recreate" => ERROR,
        _ => WARNING,
    };
    let then: String = change.then.iter().map(|word| format!(", then {word}")).collect();
    let _ = writeln!(text, "{} {}{then}", paint(style, &change.action), paint(BOLD, &change.object));
    if let Some(reason) = &change.reason {
        let _ = writeln!(text, "  {}", paint(DIM, reason));
    }
    lines_text(text, &change.lines);
    text.push('\n');
}

fn lines_text(text: &mut String, lines: &[String]) {
    for line in lines {
        let painted = match line.as_bytes().first() {
            Some(b'+') => paint(ADDED, line),
            Some(b'-') => paint(REMOVED, line),
            _ => paint(DIM, line),
        };
        let _ = writeln!(text, "  {painted}");
    }
}

fn rows_text(rows: &[Row], with_place: bool) -> String {
    let heads: &[&str] = if with_place {
        &["NAME", "NAMESPACE", "REVISION", "UPDATED", "STATUS", "CHART", "APP VERSION"]
    } else {
        &["REVISION", "UPDATED", "STATUS", "CHART", "APP VERSION", "DESCRIPTION"]
    };
    let mut table = Table::new(heads);
    for row in rows {
        let common = [row.revision.to_string(), row.updated.clone(), row.status.clone(), row.chart.clone()];
        let cells: Vec<String> = if with_place {
            [row.name.clone(), row.namespace.clone()]
                .into_iter()
                .chain(common)
                .chain([row.app_version.clone()])
                .collect()
        } else {
            common.into_iter().chain([row.app_version.clone(), row.description.clone()]).collect()
        };
        table.row(cells);
    }
    table.render()
}

pub fn list(args: &ListArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on(async {
        let (cluster, namespace) = connect(session).await?;
        let scope = if args.all_namespaces { Scope::Everywhere } else { Scope::Namespace };
        let rows = inspect::list(&cluster, Driver::Secret, &namespace, scope).await.map_err(fail)?;
        if args.short {
            let names: String = rows.iter().map(|row| format!("{}\n", row.name)).collect();
            show::print(&names)?;
        } else {
            show::show(session.output(), &rows, |rows| rows_text(rows, true))?;
        }
        Ok(Exit::Done)
    })
}

pub fn history(args: &HistoryArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on(async {
        let (cluster, namespace) = connect(session).await?;
        let mut rows =
            inspect::history(&cluster, Driver::Secret, &namespace, &args.name).await.map_err(fail)?;
        let surplus = rows.len().saturating_sub(args.max);
        rows.drain(..surplus);
        show::show(session.output(), &rows, |rows| rows_text(rows, false))?;
        Ok(Exit::Done)
    })
}

/// How a release stands, as data.
#[derive(Serialize)]
struct StatusView {
    name: String,
    namespace: String,
    revision: u32,
    status: String,
    updated: String,
    description: String,
    chart: String,
    notes: String,
}

pub fn status(args: &StatusArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on(async {
        let (cluster, namespace) = connect(session).await?;
        let found = inspect::revision(&cluster, Driver::Secret, &namespace, &args.name, args.revision).await;
        let release = found.map_err(fail)?;
        let view = StatusView {
            name: release.name.clone(),
            namespace,
            revision: release.version,
            status: release.info.status.to_string(),
            updated: release.info.last_deployed.to_string(),
            description: release.info.description.clone(),
            chart: format!("{}-{}", release.chart.name(), release.chart.version()),
            notes: release.info.notes.clone(),
        };
        show::show(session.output(), &view, |view| {
            let mut text = format!(
                "NAME: {}\nLAST DEPLOYED: {}\nNAMESPACE: {}\nSTATUS: {}\nREVISION: {}\nCHART: {}\nDESCRIPTION: {}\n",
                view.name, view.updated, view.namespace, view.status, view.revision, view.chart, view.description
            );
            if !view.notes.is_empty() {
                let _ = writeln!(text, "NOTES:\n{}", view.notes);
            }
            text
        })?;
        Ok(Exit::Done)
    })
}

pub fn get(args: &GetArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on(async {
        let (cluster, namespace) = connect(session).await?;
        let found = inspect::revision(&cluster, Driver::Secret, &namespace, &args.name, args.revision).await;
        let release = found.map_err(fail)?;
        let hooks = |release: &Release| -> String {
            release.hooks.iter().map(|hook| format!("---\n{}", hook.manifest)).collect()
        };
        match args.what {
            What::Values => {
                let mut values = release.config.clone();
                if args.all {
                    let mut all = release.chart.values.clone();
                    overlay(&mut all, values);
                    values = all;
                }
                let output = if session.output() == Output::Json { Output::Json } else { Output::Yaml };
                show::show(output, &values, |_| String::new())?;
            }
            What::Manifest => show::print(&release.manifest)?,
            What::Notes => show::print(&format!("{}\n", release.info.notes))?,
            What::Hooks => show::print(&hooks(&release))?,
            What::All => {
                let output = if session.output() == Output::Json { Output::Json } else { Output::Yaml };
                show::show(output, &release, |_| String::new())?;
            }
        }
        Ok(Exit::Done)
    })
}

/// Lays one set of values over another.
fn overlay(
    base: &mut serde_json::Map<String, serde_json::Value>,
    over: serde_json::Map<String, serde_json::Value>,
) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(serde_json::Value::Object(base)), serde_json::Value::Object(over)) => overlay(base, over),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

pub fn diff(args: &ReleaseDiffArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on(async {
        let (cluster, namespace) = connect(session).await?;
        let options = args.diff.options();
        let differs = if let [old, new] = args.revisions[..] {
            let read = |revision| {
                inspect::revision(&cluster, Driver::Secret, &namespace, &args.name, Some(revision))
            };
            let (old, new) = (read(old).await.map_err(fail)?, read(new).await.map_err(fail)?);
            let found = inspect::diff(&old, &new, &options);
            show::show(session.output(), &found, |found| {
                let mut text = String::new();
                for difference in found {
                    let _ = writeln!(text, "{} {}", difference.action, paint(BOLD, &difference.object));
                    lines_text(&mut text, &difference.lines);
                }
                text
            })?;
            !found.is_empty()
        } else {
            let request = Request {
                name: args.name.clone(),
                namespace,
                content: Content::Revision(None),
                options: plan::Options::default(),
            };
            let wanted = args.revisions.first().copied();
            let found = inspect::drift(&cluster, &request, wanted, &options).await.map_err(fail)?;
            show::show(session.output(), &found, |found| {
                let mut text = String::new();
                for change in found {
                    change_text(&mut text, change);
                }
                if text.is_empty() { "nothing differs\n".to_owned() } else { text }
            })?;
            !found.is_empty()
        };
        Ok(if differs && args.exit_code { Exit::Changes } else { Exit::Done })
    })
}
