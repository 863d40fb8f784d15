//! `slipway audit`: what happened to promotions, and proof that nobody changed the record.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use slipway_promotion::audit::{list_events, verify_chain};
use slipway_promotion::kinds::{AuditAction, AuditEvent, AuditOutcome};

use crate::commands::promotion::{connect, explain};
use crate::exit::Exit;
use crate::session::Session;
use crate::term::show;
use crate::term::table::Table;

/// What happened to promotions, and proof that nobody changed the record
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Count what happened, by action, outcome and actor
    Summary(SummaryArgs),
    /// Check the chain of hashes of every pipeline
    Verify(VerifyArgs),
    /// Show what happened, newest first
    Timeline(TimelineArgs),
}

/// The entries a command is about.
#[derive(Debug, clap::Args)]
struct EntryFlags {
    /// Pipeline; all of the namespace unless given
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,

    /// Look at all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,

    /// Only entries of the last time, as in `30d` or `12h`
    #[arg(long, value_name = "TIME", value_parser = time)]
    since: Option<Duration>,
}

#[derive(Debug, clap::Args)]
struct SummaryArgs {
    #[command(flatten)]
    entries: EntryFlags,
}

#[derive(Debug, clap::Args)]
struct VerifyArgs {
    /// Pipeline; all of the namespace unless given
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,

    /// Look at all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
}

#[derive(Debug, clap::Args)]
struct TimelineArgs {
    /// Only entries of this actor
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,

    /// Only this action, as in `PRMerged`
    #[arg(long, value_name = "ACTION")]
    action: Option<String>,

    /// Only this environment
    #[arg(long, value_name = "NAME")]
    env: Option<String>,

    /// Most entries to show
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,

    #[command(flatten)]
    entries: EntryFlags,
}

fn time(text: &str) -> Result<Duration, String> {
    slipway_go::time::Duration::parse_days(text)
        .ok_or_else(|| format!("`{text}` is no time such as `30d` or `12h`"))
}

pub fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Summary(args) => {
            let events = read(session, &args.entries)?;
            let mut counts: BTreeMap<(String, String, String), u64> = BTreeMap::new();
            for event in &events {
                let action = text(&json!(event.spec.action));
                let outcome = text(&json!(event.spec.outcome));
                *counts.entry((action, outcome, event.spec.actor.clone())).or_default() += 1;
            }
            let rows: Vec<AuditCount> = counts
                .into_iter()
                .map(|((action, outcome, actor), count)| AuditCount { action, outcome, actor, count })
                .collect();
            show_rows(session, &rows, &["action", "outcome", "actor", "count"])?;
            Ok(Exit::Done)
        }
        Command::Verify(args) => verify(args, session),
        Command::Timeline(args) => {
            let is =
                |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
            let events = read(session, &args.entries)?;
            let rows: Vec<AuditRow<'_>> = events
                .iter()
                .rev()
                .filter(|event| {
                    is(&args.actor, &event.spec.actor)
                        && is(&args.action, &text(&json!(event.spec.action)))
                        && is(&args.env, &event.spec.environment)
                })
                .take(args.limit)
                .map(row)
                .collect();
            let columns =
                ["time", "pipeline", "bundle", "environment", "action", "actor", "outcome", "message"];
            show_rows(session, &rows, &columns)?;
            Ok(Exit::Done)
        }
    }
}

fn read(session: &Session, flags: &EntryFlags) -> anyhow::Result<Vec<AuditEvent>> {
    session.block_on_reading(async {
        let place = connect(session).await?;
        let namespace = (!flags.all_namespaces).then_some(place.namespace.as_str());
        let listed = list_events(&place.cluster, namespace, flags.pipeline.as_deref()).await;
        let mut events = listed.map_err(explain)?;
        let begin = flags.since.and_then(|time| Timestamp::now().checked_sub(time).ok());
        events.retain(|event| begin.is_none_or(|begin| event.spec.timestamp >= begin));
        Ok(events)
    })
}

fn verify(args: &VerifyArgs, session: &Session) -> anyhow::Result<Exit> {
    let flags =
        EntryFlags { pipeline: args.pipeline.clone(), all_namespaces: args.all_namespaces, since: None };
    let reports = verify_chain(&read(session, &flags)?);
    let rows: Vec<AuditChain<'_>> = reports
        .iter()
        .map(|report| {
            let faults: Vec<String> = report.faults.iter().map(ToString::to_string).collect();
            AuditChain {
                namespace: &report.namespace,
                pipeline: &report.pipeline,
                entries: report.entries,
                result: if faults.is_empty() { "intact" } else { "broken" },
                head: report.head.as_deref(),
                faults,
            }
        })
        .collect();
    show_rows(session, &rows, &["namespace", "pipeline", "entries", "result", "head", "faults"])?;
    let is_intact = reports.iter().all(|report| report.faults.is_empty());
    Ok(if is_intact { Exit::Done } else { Exit::Failed })
}

/// The number of entries of one kind.
#[derive(Serialize, JsonSchema)]
pub struct AuditCount {
    action: String,
    outcome: String,
    actor: String,
    count: u64,
}

/// The chain of a pipeline and whether it is intact.
#[derive(Serialize, JsonSchema)]
pub struct AuditChain<'a> {
    namespace: &'a str,
    pipeline: &'a str,
    entries: usize,
    /// `intact` or `broken`.
    result: &'static str,
    /// The hash of the last entry.
    head: Option<&'a str>,
    faults: Vec<String>,
}

/// An entry of the audit trail.
#[derive(Serialize, JsonSchema)]
pub struct AuditRow<'a> {
    time: Timestamp,
    namespace: &'a str,
    pipeline: &'a str,
    bundle: &'a str,
    environment: &'a str,
    action: AuditAction,
    actor: &'a str,
    outcome: AuditOutcome,
    message: &'a str,
    hash: Option<&'a str>,
}

fn row(event: &AuditEvent) -> AuditRow<'_> {
    let spec = &event.spec;
    AuditRow {
        time: spec.timestamp,
        namespace: event.namespace(),
        pipeline: &spec.pipeline_name,
        bundle: &spec.bundle_name,
        environment: &spec.environment,
        action: spec.action,
        actor: &spec.actor,
        outcome: spec.outcome,
        message: &spec.message,
        hash: spec.hash.as_deref(),
    }
}

/// Shows rows; of a table these columns.
fn show_rows<T: Serialize>(session: &Session, rows: &[T], columns: &[&str]) -> anyhow::Result<()> {
    let values = rows.iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>()?;
    show::show(session.output(), &rows, |_| table(&values, columns))
}

fn table(rows: &[Value], columns: &[&str]) -> String {
    let heads: Vec<String> = columns.iter().map(|column| column.to_uppercase()).collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = Table::new(&heads);
    for row in rows {
        table.row(columns.iter().map(|column| text(&row[*column])));
    }
    table.render()
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join("; "),
        other => other.to_string(),
    }
}
