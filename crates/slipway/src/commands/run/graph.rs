//! `slipway run graph`.

use std::collections::HashMap;

use clap::ValueEnum;
use serde_json::{Value, json};
use slipway_event::Redactor;
use slipway_graph::Direction;
use slipway_runbook::{Document, Step, plan};

use super::{connection, document};
use crate::exit::Exit;
use crate::session::Session;
use crate::term::show;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The form of the drawing
    #[arg(long, value_name = "FORM", default_value = "mermaid")]
    format: Form,

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
    let text = match args.format {
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

/// The steps for programs.
fn described(document: &Document, redactor: &Redactor) -> anyhow::Result<Value> {
    let plan = plan::offline(document, redactor).map_err(connection::failed)?;
    let shown = |name: &str| redactor.redact(name).into_owned();
    let level = |name: &str| plan.step(name).map_or(0, |step| step.level);
    let nodes = document.steps.iter().map(|step| {
        let id = shown(&step.name);
        let (kind, level, skipped) = (step.action.kind(), level(&id), is_skipped(step));
        json!({"id": id, "type": kind, "level": level, "skipped": skipped})
    });
    let edges = document
        .steps
        .iter()
        .flat_map(|step| step.needs.iter().map(|need| json!({"from": shown(need), "to": shown(&step.name)})));
    Ok(json!({
        "name": plan.name,
        "nodes": nodes.collect::<Vec<_>>(),
        "edges": edges.collect::<Vec<_>>(),
        "levels": plan.levels,
    }))
}
