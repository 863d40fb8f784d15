//! `slipway stack`: many releases as one graph.

mod clusters;
mod flags;
mod follow;
pub mod launch;
pub mod plan;
pub mod runs;
pub mod survey;

use std::fmt::Write as _;

use clap::{Subcommand, ValueEnum};
use schemars::JsonSchema;
use serde::Serialize;
use slipway_problem::Problem;
use slipway_stack::explain::{self, Field};
use slipway_stack::{CompiledStack, Error, Git, compile};

use crate::cli::Output;
use crate::exit::Exit;
use crate::session::Session;
use crate::term::failure::FailureForm;
use crate::term::style::{BOLD, DIM, WARNING, paint};
use crate::term::table::Table;
use crate::term::{report, show};
use flags::{RootFlags, SelectFlags};

/// Take many releases to their clusters as one graph
///
/// A stack is every release declared under a directory, in `stack.yaml` and `release.yaml` files that
/// inherit from the directories above. Without a command the plan is shown.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(
    after_help = "Exit codes beside the usual: 10 wrong files or selectors, 11 nothing selected, 12 inputs changed since the run was \
                  planned, 13 another run holds the lock, 14 not confirmed."
)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    plan: plan::PlanArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show which releases would be applied, in which order and why
    Plan(Box<plan::PlanArgs>),
    /// Apply the releases, each after those it needs
    Apply(Box<launch::LaunchArgs>),
    /// Delete the releases, each before those it needs
    Delete(Box<launch::LaunchArgs>),
    /// Draw the releases and what they need
    Graph(GraphArgs),
    /// Say which layer set which value of a release
    Explain(ExplainArgs),
    /// Show how a run stands
    Status(runs::StatusArgs),
    /// List the runs of a stack
    Runs(runs::RunsArgs),
}

#[derive(Debug, clap::Args)]
struct GraphArgs {
    /// Language of the drawing; dot unless given, or json with `-o json`
    #[arg(long, value_name = "FORM")]
    format: Option<Drawing>,

    #[command(flatten)]
    root: RootFlags,

    #[command(flatten)]
    select: SelectFlags,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Drawing {
    Dot,
    Mermaid,
    Json,
}

#[derive(Debug, clap::Args)]
struct ExplainArgs {
    /// The release: its name, `namespace/name` or id
    #[arg(value_name = "RELEASE")]
    name: String,

    /// Only this field (`namespace`, `set`, `set.image.tag`)
    field: Option<String>,

    /// Also say why it is selected
    #[arg(long)]
    why: bool,

    #[command(flatten)]
    root: RootFlags,

    #[command(flatten)]
    select: SelectFlags,
}

pub fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let done = match &args.command {
        None => plan::run(&args.plan, session),
        Some(Command::Plan(args)) => plan::run(args, session),
        Some(Command::Apply(args)) => launch::run(args, slipway_stack::Command::Apply, session),
        Some(Command::Delete(args)) => launch::run(args, slipway_stack::Command::Delete, session),
        Some(Command::Graph(args)) => graph(args, session),
        Some(Command::Explain(args)) => explain(args, session),
        Some(Command::Status(args)) => runs::status(args, session),
        Some(Command::Runs(args)) => runs::runs(args, session),
    };
    let Err(failure) = done else { return done };
    if let Some(Error::Empty { notices, git_only, .. }) = failure.downcast_ref() {
        notices.iter().for_each(|notice| say!("{notice}"));
        if *git_only && session.failure_form() == FailureForm::Text {
            say!("{failure}");
            return Ok(Exit::of(&failure));
        }
    }
    Err(failure)
}

/// Compiles, and says on standard error what is worth saying.
fn compiled(
    root: &RootFlags,
    select: &SelectFlags,
    command: slipway_stack::Command,
) -> Result<CompiledStack, Error> {
    let compiled = compile(&flags::request(root, select, command), &Git::default())?;
    for warning in &compiled.warnings {
        report::show(warning);
    }
    for notice in &compiled.notices {
        say!("{} {notice}", paint(WARNING, "notice:"));
    }
    Ok(compiled)
}

fn graph(args: &GraphArgs, session: &Session) -> anyhow::Result<Exit> {
    let compiled = compiled(&args.root, &args.select, slipway_stack::Command::Apply)?;
    let usual = if session.output() == Output::Json { Drawing::Json } else { Drawing::Dot };
    let text = compiled.plan.draw(|drawing| match args.format.unwrap_or(usual) {
        Drawing::Dot => drawing.dot(),
        Drawing::Mermaid => drawing.mermaid(),
        Drawing::Json => format!("{:#}\n", drawing.json()),
    })?;
    show::print(&text)?;
    Ok(Exit::Done)
}

/// Everything a release of a stack inherits, and why it is selected.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseExplanation<'a> {
    id: &'a str,
    /// `file:line:column` of its declaration.
    declared_at: String,
    profile: Option<&'a str>,
    fields: &'a [Field],
    /// Absent as the next two where it is not selected.
    needs: Option<&'a [String]>,
    external_needs: &'a [&'a str],
    selected_by: Option<&'a [String]>,
    effective_input_hash: Option<&'a str>,
}

fn explain(args: &ExplainArgs, session: &Session) -> anyhow::Result<Exit> {
    let compiled = compiled(&args.root, &args.select, slipway_stack::Command::Apply)?;
    let release = compiled.stack.find(&args.name).map_err(Error::from)?;
    let fields = explain::explain(&compiled.stack, release, args.field.as_deref()).map_err(Error::from)?;
    let id = release.id.to_string();
    let declaration = &compiled.stack.tree.releases[release.declaration];
    let node = compiled.plan.node(&id);
    if args.why && node.is_none() {
        return Err(Error::from(Problem::error(format!("{id} is not selected"))).into());
    }
    let external: Vec<&str> =
        node.into_iter().flat_map(|node| node.external_needs.iter().map(|need| need.id.as_str())).collect();
    let value = ReleaseExplanation {
        id: &id,
        declared_at: declaration.at.to_string(),
        profile: compiled.stack.profile.as_deref(),
        fields: &fields,
        needs: node.map(|node| &node.needs[..]),
        external_needs: &external,
        selected_by: node.map(|node| &node.selected_by[..]),
        effective_input_hash: node.map(|node| node.effective_input_hash.as_str()),
    };
    show::show(session.output(), &value, |_| {
        let mut text =
            format!("{} {}\n", paint(BOLD, &id), paint(DIM, format!("declared at {}", declaration.at)));
        text.push_str(&fields_table(&fields));
        if let Some(node) = node.filter(|_| args.field.is_none() || args.why) {
            let _ = writeln!(text, "SELECTED BY  {}", node.selected_by.join(", "));
            let _ = writeln!(text, "INPUT HASH   {}", node.effective_input_hash);
            if !external.is_empty() {
                let _ = writeln!(text, "NEEDS (external)  {}", external.join(", "));
            }
        }
        text
    })?;
    Ok(Exit::Done)
}

fn fields_table(fields: &[Field]) -> String {
    let plain = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut table = Table::new(&["field", "value", "from", "at"]);
    for field in fields {
        if field.said.is_empty() {
            let shown = if field.value.is_null() { "-".to_owned() } else { plain(&field.value) };
            table.row([field.field.clone(), shown, "built in".to_owned(), String::new()]);
        }
        for said in field.said.iter().rev() {
            let from = if said.counts { said.layer.clone() } else { format!("{} (overridden)", said.layer) };
            table.row([field.field.clone(), plain(&said.value), from, said.at.to_string()]);
        }
    }
    table.render()
}
