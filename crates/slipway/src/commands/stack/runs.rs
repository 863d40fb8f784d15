//! `slipway stack status` and `slipway stack runs`: what is on disk of runs, without touching it.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use slipway_event::SystemClock;
use slipway_journal::{RunEvent, Summary};
use slipway_problem::{Location, Problem, describe_io, read_hint};
use slipway_stack::record::{Prune, RunProcess, RunStatus, RunStore, StoredRun};
use slipway_stack::{Error, duration};

use super::flags::RootFlags;
use crate::cli::Output;
use crate::commands::release::flags::time;
use crate::config;
use crate::exit::Exit;
use crate::session::Session;
use crate::term;
use crate::term::table::Table;

/// How often a run that is followed is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);

#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    /// The run; the most recent one unless given
    #[arg(long, value_name = "ID")]
    run_id: Option<String>,

    /// Follow the run to its end and exit as it does
    #[arg(long)]
    follow: bool,

    /// How many of the last events to show
    #[arg(long, value_name = "N", default_value = "0")]
    tail: usize,

    #[command(flatten)]
    root: RootFlags,
}

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct RunsArgs {
    #[command(subcommand)]
    command: Option<RunsCommand>,

    /// How many to list
    #[arg(long, value_name = "N", default_value = "20")]
    limit: NonZeroUsize,

    #[command(flatten)]
    root: RootFlags,
}

#[derive(Debug, clap::Subcommand)]
enum RunsCommand {
    /// Remove old runs; never the last one, nor one without an end
    Prune(PruneArgs),
}

#[derive(Debug, clap::Args)]
struct PruneArgs {
    /// How many of the newest to keep whatever their age
    #[arg(long, value_name = "N", default_value = "50")]
    keep: usize,

    /// Only those that ended longer ago than this (`30d`, `12h`)
    #[arg(long, value_name = "AGE", value_parser = age)]
    older_than: Option<Duration>,

    #[command(flatten)]
    root: RootFlags,
}

/// A duration that may count days.
fn age(text: &str) -> Result<Duration, String> {
    time(text).map_err(|_| "expected an age such as 30d or 12h".to_owned())
}

/// The runs that were removed.
#[derive(Serialize, JsonSchema)]
pub struct PrunedRuns<'a> {
    removed: &'a [String],
}

fn prune(args: &PruneArgs, session: &Session) -> anyhow::Result<Exit> {
    let wanted = Prune { keep: args.keep, older_than: args.older_than };
    let removed = store(&args.root.root)?.prune(&wanted, is_alive)?;
    term::show::show(session.output(), &PrunedRuns { removed: &removed }, |_| {
        let runs = if removed.len() == 1 { "run" } else { "runs" };
        let list: String = removed.iter().map(|id| format!("{id}\n")).collect();
        format!("{list}removed {} {runs}\n", removed.len())
    })?;
    Ok(Exit::Done)
}

/// The directory of a stack's root, without links.
pub fn directory(root: &Path) -> anyhow::Result<std::path::PathBuf> {
    let directory = if root.is_file() { root.parent().unwrap_or(root) } else { root };
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    directory.canonicalize().map_err(|error| {
        let problem = Problem::error(format!("cannot open the root of the stack: {}", describe_io(&error)));
        problem.at(Location::file(root.display().to_string())).hint(read_hint(&error)).into()
    })
}

pub fn store(root: &Path) -> anyhow::Result<RunStore> {
    Ok(RunStore::new(&directory(root)?, Arc::new(SystemClock)))
}

/// Tells that a process of this machine lives; nobody can tell of another one's.
pub fn is_alive(process: &RunProcess) -> bool {
    if process.host != config::machine_name() {
        return true;
    }
    #[cfg(unix)]
    {
        let pid = i32::try_from(process.pid).ok().and_then(rustix::process::Pid::from_raw);
        pid.is_some_and(|pid| {
            !matches!(rustix::process::test_kill_process(pid), Err(rustix::io::Errno::SRCH))
        })
    }
    #[cfg(not(unix))]
    {
        true
    }
}

pub fn runs(args: &RunsArgs, session: &Session) -> anyhow::Result<Exit> {
    if let Some(RunsCommand::Prune(args)) = &args.command {
        return prune(args, session);
    }
    let store = store(&args.root.root)?;
    for problem in &store.damaged() {
        term::report::show(problem);
    }
    let listed = store.list(args.limit.get(), is_alive);
    for run in listed.iter().filter(|run| run.problem.is_some()) {
        let (_, damage) = store.inspect(&run.run_id)?;
        damage.iter().for_each(term::report::show);
    }
    term::show::show(session.output(), &listed, |listed| {
        let mut table = Table::new(&[
            "run", "status", "command", "profile", "planned", "ok", "failed", "blocked", "skipped",
            "updated", "age",
        ]);
        for run in listed {
            let age = run.updated_at.map(|at| {
                let seconds = jiff::Timestamp::now().duration_since(at).as_secs();
                duration::show(Duration::from_secs(u64::try_from(seconds).unwrap_or_default()))
            });
            table.row([
                run.run_id.clone(),
                run.status.to_string(),
                run.command.to_string(),
                run.profile.clone().unwrap_or_else(|| "-".to_owned()),
                run.totals.planned().to_string(),
                run.totals.succeeded.to_string(),
                run.totals.failed.to_string(),
                run.totals.blocked.to_string(),
                run.totals.skipped.to_string(),
                run.updated_at.map(|at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()).unwrap_or_default(),
                age.unwrap_or_default(),
            ]);
        }
        table.render()
    })?;
    Ok(Exit::Done)
}

pub fn status(args: &StatusArgs, session: &Session) -> anyhow::Result<Exit> {
    let store = store(&args.root.root)?;
    let run_id = match &args.run_id {
        Some(run_id) => run_id.clone(),
        None => store
            .newest()
            .ok_or_else(|| Error::from(Problem::error("there are no runs of this stack").code("ST053")))?,
    };
    if args.follow {
        let mut stored = store.open(&run_id)?;
        let mut shown = 0;
        loop {
            for event in &stored.events[shown.min(stored.events.len())..] {
                term::show::line(event)?;
            }
            shown = stored.events.len();
            if term::output::is_closed() {
                return Ok(Exit::Done);
            }
            let state = stored.state(is_alive);
            if state != RunStatus::Running {
                return Ok(match state {
                    RunStatus::Succeeded => Exit::Done,
                    RunStatus::Canceled => Exit::Interrupted,
                    _ => Exit::Failed,
                });
            }
            std::thread::sleep(LOOK_EVERY);
            stored = store.open(&run_id)?;
        }
    }
    show_tail(&store, &run_id, args.tail, session)
}

/// A run and the last events of its log.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StackRunView<'a> {
    #[serde(flatten)]
    summary: &'a Summary,
    /// As many as `--tail` asks for.
    last_events: &'a [RunEvent],
}

/// Shows how a run stands.
pub fn show(store: &RunStore, run_id: &str, session: &Session) -> anyhow::Result<Exit> {
    show_tail(store, run_id, 0, session)
}

fn show_tail(store: &RunStore, run_id: &str, tail: usize, session: &Session) -> anyhow::Result<Exit> {
    // A log that is damaged still shows what came before.
    let (stored, damage) = store.inspect(run_id)?;
    let state = stored.state(is_alive);
    let last = &stored.events[stored.events.len().saturating_sub(tail)..];
    if session.output() != Output::Table {
        let summary = Summary { status: state, ..stored.summary };
        let value = StackRunView { summary: &summary, last_events: last };
        term::show::show(session.output(), &value, |_| String::new())?;
    } else {
        let mut text = table(&stored, state);
        for event in last {
            text += &(serde_json::to_string(event)? + "\n");
        }
        term::show::print(&text)?;
    }
    match damage {
        Some(problem) => Err(Error::from(problem).into()),
        None => Ok(Exit::Done),
    }
}

/// One row a release, in the order of execution, and what it comes to.
fn table(stored: &StoredRun, state: RunStatus) -> String {
    let mut table = Table::new(&["id", "result", "duration", "chart", "notes"]);
    for id in &stored.plan.order {
        let (Some(node), Some(planned)) = (stored.summary.nodes.get(id), stored.plan.node(id)) else {
            continue;
        };
        let took = node.duration_ms.map(|took| duration::show(Duration::from_millis(took)));
        let mut notes: Vec<String> =
            node.revision.map(|revision| format!("revision {revision}")).into_iter().collect();
        notes.extend(node.changed.filter(|changed| !changed).map(|_| "unchanged".to_owned()));
        if let (Some(class), Some(error)) = (&node.last_error_class, &node.last_error) {
            notes.push(format!("{class}: {}", error.lines().next().unwrap_or_default()));
        } else if let Some(note) = &node.note {
            notes.push(note.clone());
        }
        let notes: String = notes.join(", ").chars().take(120).collect();
        let result = node.status.to_string().to_uppercase();
        table.row([id.clone(), result, took.unwrap_or_else(|| "-".to_owned()), planned.chart.clone(), notes]);
    }
    let totals = stored.summary.totals;
    let took = match (stored.summary.started_at, stored.summary.ended_at) {
        (Some(started), Some(ended)) => {
            let took = u64::try_from(ended.duration_since(started).as_millis()).unwrap_or_default();
            format!(" in {}", duration::show(Duration::from_millis(took)))
        }
        _ => String::new(),
    };
    format!(
        "{}run {}: {state}, {} succeeded, {} failed, {} blocked, {} skipped{took}\n",
        table.render(),
        stored.plan.run_id,
        totals.succeeded,
        totals.failed,
        totals.blocked,
        totals.skipped,
    )
}
