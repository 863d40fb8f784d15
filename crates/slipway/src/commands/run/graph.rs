//! `slipway run graph`.

use clap::ValueEnum;
use slipway_graph::{Graph, NodeRef};
use slipway_runbook::{Document, Step};

use super::document;
use crate::exit::Exit;
use crate::session::Session;
use crate::term::show;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    document: document::Flags,

    /// The form of the drawing
    #[arg(long, value_name = "FORM", default_value = "mermaid")]
    format: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    Mermaid,
    Dot,
    Json,
}

pub fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let loaded = args.document.load(session)?;
    let graph = graph(&loaded.document)?;
    let drawing = graph.draw().label(label);
    let text = match args.format {
        Form::Mermaid => drawing.mermaid(),
        Form::Dot => drawing.dot(),
        Form::Json => serde_json::to_string_pretty(&drawing.json())? + "\n",
    };
    show::print(&text)?;
    Ok(Exit::Done)
}

fn label(node: NodeRef<'_, &Step>) -> String {
    let step = node.value();
    let skipped = step.when.as_ref().is_some_and(|when| !when.holds);
    format!("{} ({}{})", step.name, step.action.kind(), if skipped { ", skipped" } else { "" })
}

/// The steps as a graph.
fn graph(document: &Document) -> anyhow::Result<Graph<&Step>> {
    let mut builder = Graph::builder();
    for step in &document.steps {
        builder.add(step.name.as_str(), step, step.needs.iter().map(String::as_str));
    }
    Ok(builder.build()?)
}
