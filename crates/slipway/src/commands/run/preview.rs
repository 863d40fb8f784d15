//! `slipway run plan` and `slipway run diff`.

use std::fmt::Write as _;

use slipway_problem::Problem;
use slipway_runbook::RunbookPlan;
use slipway_runbook::plan::{self, Show};
use slipway_runbook::{DiffStatus, Difference};
use slipway_secrets::Purpose;

use super::connection::{self, Ground};
use super::document;
use crate::cli::Output;
use crate::commands::secrets::resolution::ReferenceMode;
use crate::exit::{Exit, UsageError};
use crate::help::Usual;
use crate::session::Session;
use crate::term::show;
use crate::term::style::{ADDED, BOLD, REMOVED, paint};

#[derive(Debug, clap::Args)]
pub struct PlanArgs {
    /// Say only what needs no cluster
    #[arg(long)]
    offline: bool,

    /// Show what would change, line by line
    #[arg(long)]
    diff: bool,

    /// Fetch the secrets that steps refer to, instead of naming them
    #[arg(long)]
    check_secrets: bool,

    #[command(flatten)]
    document: document::Flags,
}

#[derive(Debug, clap::Args)]
pub struct DiffArgs {
    /// Exit with 3 if anything would change
    #[arg(long, add = Usual)]
    exit_code: bool,

    /// Fetch the secrets that steps refer to, instead of naming them
    #[arg(long)]
    check_secrets: bool,

    #[command(flatten)]
    document: document::Flags,
}

pub fn plan(args: &PlanArgs, session: &Session) -> anyhow::Result<Exit> {
    if args.offline && args.diff {
        let problem = Problem::error("--diff needs a cluster, so it cannot go with --offline");
        return Err(UsageError(problem.into()).into());
    }
    let show = if args.diff { Show::Differences } else { Show::Actions };
    let plan = make(
        &args.document,
        session,
        show,
        if args.offline { Reach::Nothing } else { reach(args.check_secrets) },
    )?;
    match session.output() {
        Output::Table => show::print(&text(&plan, Some(show)))?,
        output => show::show(output, &plan, |_| String::new())?,
    }
    Ok(Exit::Done)
}

pub fn diff(args: &DiffArgs, session: &Session) -> anyhow::Result<Exit> {
    let mut plan = make(&args.document, session, Show::Differences, reach(args.check_secrets))?;
    let changes = plan.has_changes();
    plan.steps.retain(|step| step.diff().is_some_and(|diff| diff.status != DiffStatus::None));
    match session.output() {
        Output::Table => {
            let mut out = String::new();
            for step in &plan.steps {
                let _ = writeln!(out, "{} [{}]", paint(BOLD, &step.name), step.kind);
                write_diff(&mut out, step.diff(), "  ");
            }
            if plan.steps.is_empty() {
                out.push_str("diff: no changes\n");
            }
            show::print(&out)?;
        }
        output => show::show(output, &plan, |_| String::new())?,
    }
    Ok(if args.exit_code && changes { Exit::Changes } else { Exit::Done })
}

/// The parts of the world a plan may ask.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Nothing,
    Cluster,
    ClusterAndSecrets,
}

fn reach(check_secrets: bool) -> Reach {
    if check_secrets { Reach::ClusterAndSecrets } else { Reach::Cluster }
}

fn make(flags: &document::Flags, session: &Session, show: Show, reach: Reach) -> anyhow::Result<RunbookPlan> {
    let loaded = flags.load(session)?;
    super::validate::warn(loaded.warnings);
    let document = loaded.document;
    if reach == Reach::Nothing {
        return plan::offline(&document, session.redactor()).map_err(connection::failed);
    }
    let mode = match reach {
        Reach::ClusterAndSecrets => ReferenceMode::Fetch(Purpose::PlanCheck),
        Reach::Nothing | Reach::Cluster => ReferenceMode::Show,
    };
    let references = flags.resolver(mode, "run plan", session);
    session.block_on_reading(async {
        let ground = Ground::open(session, flags.base(), references).await?.for_looking();
        let context = ground.context.clone();
        plan::plan(&document, ground.place(), show, context.as_deref()).await.map_err(|error| match error {
            slipway_runbook::RunError::Cluster(error) => {
                Problem::error(error.to_string()).hint("--offline shows what needs no cluster").into()
            }
            error => connection::failed(error),
        })
    })
}

/// A plan for people.
pub fn text(plan: &RunbookPlan, show: Option<Show>) -> String {
    let mut out = String::new();
    if let Some(cluster) = &plan.cluster {
        let context = cluster.context.as_ref().map(|name| format!(" (context {name})")).unwrap_or_default();
        let _ = writeln!(out, "cluster: {}{context}", cluster.version);
    }
    let _ = writeln!(out, "{}: {} step(s) in {} level(s)\n", plan.name, plan.steps.len(), plan.levels.len());
    let width = plan.steps.iter().map(|step| step.name.chars().count()).max().unwrap_or(0);
    let kinds = plan.steps.iter().map(|step| step.kind.len()).max().unwrap_or(0) + 2;
    let mut level = usize::MAX;
    for step in &plan.steps {
        if step.level != level {
            level = step.level;
            let _ = writeln!(out, "{}", paint(BOLD, format!("level {}", level + 1)));
        }
        let needs = if step.needs.is_empty() {
            String::new()
        } else {
            format!("  (needs: {})", step.needs.join(", "))
        };
        let kind = format!("[{}]", step.kind);
        let _ = writeln!(out, "  - {:width$}  {kind:kinds$} {}{needs}", step.name, step.summary);
        if let Some(seen) = &step.seen {
            let _ = writeln!(out, "      plan: {} — {}", seen.action.as_str(), seen.detail);
        }
        if show == Some(Show::Differences) {
            write_diff(&mut out, step.diff(), "      ");
        }
    }
    if !plan.counts.is_empty() {
        let _ = writeln!(out, "\nPlan: {}", plan.summary());
    }
    out
}

fn write_diff(out: &mut String, diff: Option<&Difference>, indent: &str) {
    let Some(diff) = diff else { return };
    if let Some(text) = &diff.text {
        for line in text.lines() {
            let line = match line.as_bytes().first() {
                Some(b'+') => paint(ADDED, line),
                Some(b'-') => paint(REMOVED, line),
                _ => line.to_owned(),
            };
            let _ = writeln!(out, "{indent}{line}");
        }
    }
    match (&diff.reason, diff.status) {
        (Some(reason), DiffStatus::Changed) => {
            let _ = writeln!(out, "{indent}note: {reason}");
        }
        (Some(reason), _) => {
            let _ = writeln!(out, "{indent}diff: unavailable — {reason}");
        }
        (None, DiffStatus::None) => {
            let _ = writeln!(out, "{indent}diff: no changes");
        }
        (None, _) => {}
    }
}
