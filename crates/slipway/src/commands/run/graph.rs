//! `slipway run graph`.

use std::collections::HashMap;

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::Serialize;
use slipway_event::Redactor;
use slipway_graph::Direction;
use slipway_runbook::{Document, Step, plan};

use super::{connection, document};
use crate::cli::Output;
use crate::exit::Exit;
use crate::session::Session;
use crate::term::show;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The form of the drawing; mermaid unless given, or json with `-o json`
    #[arg(long, value_name = "FORM")]
    format: Option<Form>,

    #[command(flatten)]
    document: document::Flags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    Mermaid,
    Dot,
    Json,
}

pub fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let document = args.document.load(session)?.document;
    let usual = if session.output() == Output::Json { Form::Json } else { Form::Mermaid };
    let text = match args.format.unwrap_or(usual) {
        Form::Json => serde_json::to_string_pretty(&described(&document, session.redactor())?)? + "\n",
        form => session.redactor().redact(&draw(&document, form)?).into_owned(),
    };
    show::print(&text)?;
    Ok(Exit::Done)
}

/// A picture of the steps, numbered as they stand in the document.
fn draw(document: &Document, form: Form) -> anyhow::Result<String> {
    let graph = slipway_runbook::graph(document).map_err(connection::failed)?;
    let places: HashMap<&str, usize> =
        document.steps.iter().enumerate().map(|(place, step)| (step.name.as_str(), place)).collect();
    let drawing = graph
        .draw()
        .title(document.name.as_str())
        .direction(Direction::Down)
        .label(|node| label(node.value()))
        .faded(|node| is_skipped(node.value()))
        .ranked(|node| places.get(node.id().as_str()).copied().unwrap_or_default());
    Ok(if form == Form::Dot { drawing.dot() } else { drawing.mermaid() })
}

fn is_skipped(step: &Step) -> bool {
    step.when.as_ref().is_some_and(|when| !when.holds)
}

fn label(step: &Step) -> String {
    format!("{} ({}{})", step.name, step.action.kind(), if is_skipped(step) { ", skipped" } else { "" })
}

/// The steps of a runbook and what they need.
#[derive(Serialize, JsonSchema)]
pub struct RunbookGraph {
    name: String,
    nodes: Vec<RunbookGraphNode>,
    edges: Vec<GraphEdge>,
    /// Names by level.
    levels: Vec<Vec<String>>,
}

/// A step of the graph.
#[derive(Serialize, JsonSchema)]
struct RunbookGraphNode {
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    level: usize,
    /// True if its condition does not hold.
    skipped: bool,
}

/// A need: `to` comes after `from`.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RunbookGraphEdge")]
struct GraphEdge {
    from: String,
    to: String,
}

/// The steps for programs.
fn described(document: &Document, redactor: &Redactor) -> anyhow::Result<RunbookGraph> {
    let plan = plan::offline(document, redactor).map_err(connection::failed)?;
    let shown = |name: &str| redactor.redact(name).into_owned();
    let level = |name: &str| plan.step(name).map_or(0, |step| step.level);
    let nodes = document.steps.iter().map(|step| {
        let id = shown(&step.name);
        let (kind, level, skipped) = (step.action.kind(), level(&id), is_skipped(step));
        RunbookGraphNode { id, kind, level, skipped }
    });
    let edges = document.steps.iter().flat_map(|step| {
        step.needs.iter().map(|need| GraphEdge { from: shown(need), to: shown(&step.name) })
    });
    Ok(RunbookGraph { nodes: nodes.collect(), edges: edges.collect(), name: plan.name, levels: plan.levels })
}
