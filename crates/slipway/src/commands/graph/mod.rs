//! `slipway graph FILE`: the kernel on its own, with a small YAML of nodes and needs.

pub mod file;
mod shell;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::Serialize;
use slipway_event::{Event, Events, NodeKind, NodeName};
use slipway_graph::{Graph, JournalError, NodePolicy, OnFailure, Policy, Run, RunningNodes, Schedule};
use slipway_journal::FileJournal;
use slipway_problem::Problem;

use crate::exit::{Exit, UsageError};
use crate::files;
use crate::interrupt::Interrupt;
use crate::session::Session;
use crate::term::show;
use crate::term::table::Table;
use file::Job;
pub use file::schema;

/// Show a graph of nodes and needs, or run it
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
The file names nodes, what each needs and, to run it, a shell command:

  nodes:
    build: {run: make}
    test:  {run: make test, needs: [build], timeout: 5m, retries: 2}")]
pub struct Args {
    /// The file; `-` for standard input
    file: PathBuf,

    /// What to show
    #[arg(long, value_name = "FORM", default_value = "waves")]
    show: Form,

    /// Leave out needs that follow from others
    #[arg(long)]
    reduce: bool,

    /// Show what runs last first, as a teardown would
    #[arg(long)]
    reverse: bool,

    /// Only this node and all it needs; repeat for more
    #[arg(long, value_name = "NODE")]
    only: Vec<String>,

    /// Run the nodes' commands
    #[arg(long)]
    run: bool,

    /// How many commands run at once
    #[arg(long, requires = "run", value_name = "N", default_value = "4")]
    concurrency: NonZeroUsize,

    /// Start a node only when all of the waves before its own are done
    #[arg(long, requires = "run")]
    by_wave: bool,

    /// Go on with what does not need a failed node
    #[arg(long, requires = "run")]
    keep_going: bool,

    /// Record the run here, and go on where an interrupted run of the same file stopped
    #[arg(long, requires = "run", value_name = "FILE")]
    journal: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    Waves,
    Dot,
    Mermaid,
    Json,
}

pub fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let text = files::read_text(&args.file)?;
    let graph = select(file::load(&text)?, args)?;
    if args.run {
        return session.block_on(execute(args, &graph, session));
    }
    match args.show {
        Form::Waves => show::show(session.output(), &waves_view(&graph), |_| waves_table(&graph))?,
        Form::Dot => show::print(&graph.draw().dot())?,
        Form::Mermaid => show::print(&graph.draw().mermaid())?,
        Form::Json => show::print(&(serde_json::to_string_pretty(&graph.draw().json())? + "\n"))?,
    }
    Ok(Exit::Done)
}

/// Cuts and turns the graph as the flags say.
fn select(graph: Graph<Job>, args: &Args) -> anyhow::Result<Graph<Job>> {
    let unknown: Vec<Problem> = args
        .only
        .iter()
        .filter(|name| graph.node(name).is_none())
        .map(|name| {
            let problem = Problem::error(format!("there is no node `{name}` to show"))
                .did_you_mean(name, graph.ids().map(slipway_graph::Id::as_str));
            match problem.hint {
                Some(_) => problem,
                None => problem.hint("without --only the graph shows every node"),
            }
        })
        .collect();
    if !unknown.is_empty() {
        return Err(UsageError(unknown.into_iter().collect()).into());
    }
    let mut graph = graph;
    if !args.only.is_empty() {
        let mut kept: std::collections::BTreeSet<String> = args.only.iter().cloned().collect();
        kept.extend(graph.ancestors(&args.only).iter().map(|node| node.id().to_string()));
        graph = graph.select(slipway_graph::KeptEdges::Induced, |node| kept.contains(node.id().as_str()));
    }
    if args.reduce {
        graph = graph.reduced();
    }
    if args.reverse {
        graph = graph.reversed();
    }
    Ok(graph)
}

/// The nodes of a graph, wave by wave.
#[derive(Serialize, JsonSchema)]
pub struct WavesView<'a> {
    waves: Vec<Vec<WaveNode<'a>>>,
}

/// A node of a wave.
#[derive(Serialize, JsonSchema)]
struct WaveNode<'a> {
    id: &'a str,
    needs: Vec<&'a str>,
}

fn waves_view(graph: &Graph<Job>) -> WavesView<'_> {
    let waves = graph.waves().map(|wave| {
        wave.map(|node| WaveNode {
            id: node.id().as_str(),
            needs: node.needs().map(|need| need.id().as_str()).collect(),
        })
        .collect()
    });
    WavesView { waves: waves.collect() }
}

fn waves_table(graph: &Graph<Job>) -> String {
    let mut table = Table::new(&["wave", "node", "needs"]);
    for (index, wave) in graph.waves().enumerate() {
        for node in wave {
            let needs: Vec<&str> = node.needs().map(|need| need.id().as_str()).collect();
            table.row([(index + 1).to_string(), node.id().to_string(), needs.join(",")]);
        }
    }
    table.render()
}

async fn execute(args: &Args, graph: &Graph<Job>, session: &Session) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::listen()?;
    let events = session.events();
    let on_failure =
        if args.keep_going { OnFailure::Continue } else { OnFailure::FailFast(RunningNodes::Finish) };
    let policy = Policy {
        schedule: if args.by_wave { Schedule::ByWave } else { Schedule::Eager },
        concurrency: Some(args.concurrency),
        on_cancel: RunningNodes::Finish,
        node: NodePolicy { on_failure, ..NodePolicy::default() },
        ..Policy::default()
    };
    let journal = match &args.journal {
        Some(path) => Some(open_journal(path).await?),
        None => None,
    };
    let handle = journal.as_ref().map(FileJournal::handle).transpose()?;
    let worker = shell::Shell { events: events.clone(), journal: handle };
    let title = format!("run {}", args.file.display());
    let run = Run::new(graph, &worker)
        .policy(policy)
        .cancel(interrupt.token().clone())
        .observe(|event| events.observe(&title, |id| NodeName::new(NodeKind::Command, id), &event));
    let report = match journal {
        Some(journal) => {
            let input = file::fingerprint(graph);
            if journal.graph().is_some_and(|bound| bound == graph.fingerprint(&input)) {
                announce(&journal, &events);
            }
            run.journal(journal, input).run().await?
        }
        None => run.run().await?,
    };
    if let Some(error) = &report.journal_error {
        return Err(
            anyhow::Error::new(error.clone()).context("the run stopped because it could not be recorded")
        );
    }
    Ok(match interrupt.exit() {
        Some(exit) => exit,
        None if report.is_success() => Exit::Done,
        None => Exit::Failed,
    })
}

/// Commands of a killed run are killed a moment after it; until then they keep its journal.
const SETTLE: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(20);

async fn open_journal(path: &Path) -> Result<FileJournal, JournalError> {
    let until = Instant::now() + SETTLE;
    loop {
        match FileJournal::open(path) {
            Err(JournalError::Locked { .. }) if Instant::now() < until => {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            opened => return opened,
        }
    }
}

/// Says what an earlier run left behind.
fn announce(journal: &FileJournal, events: &Events) {
    if let Some(torn) = journal.torn() {
        let message =
            format!("the last line of the journal was cut short by a crash; dropped {} bytes", torn.bytes);
        let hint = "what it recorded counts as not done";
        events.send(Event::Warning { problem: Problem::warning(message).at(torn.at.clone()).hint(hint) });
    }
    let interrupted: Vec<String> = journal.interrupted().iter().map(|id| format!("`{id}`")).collect();
    if !interrupted.is_empty() {
        let nodes = if interrupted.len() == 1 { "this node" } else { "these nodes" };
        let message = format!("an earlier run died while {nodes} ran: {}", interrupted.join(", "));
        let hint = "it starts again from its beginning; check what it left half done";
        events.send(Event::Warning { problem: Problem::warning(message).hint(hint) });
    }
}
