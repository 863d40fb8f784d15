//! `slipway secrets audit`: the lines of the audit file.

use std::path::PathBuf;

use anyhow::Context as _;
use jiff::Timestamp;
use slipway_problem::{Location, Problem};
use slipway_secrets::{AuditLine, read_audit};

use super::flags::ReferenceFlags;
use crate::exit::{Exit, UsageError};
use crate::session::Session;
use crate::term::table::Table;
use crate::term::{report, show};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only lines of this run
    #[arg(long, value_name = "ID")]
    run: Option<String>,

    /// Only lines since this time (`2026-01-31T12:00:00Z`)
    #[arg(long, value_name = "TIME")]
    since: Option<Timestamp>,

    /// Directory whose repository's configuration is used
    #[arg(long, value_name = "DIR", default_value = ".")]
    scope: PathBuf,

    #[command(flatten)]
    flags: ReferenceFlags,
}

pub fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let config = args.flags.config(&args.scope, session)?;
    let file = config.audit.and_then(|audit| audit.file).ok_or_else(|| {
        let problem = Problem::error("no audit file is configured");
        UsageError(problem.hint("set `secrets.audit.file` in slipway.yaml").into())
    })?;
    let log = read_audit(&file).context("read the audit")?;
    if log.damaged > 0 {
        let problem = Problem::warning(format!("{} lines cannot be read", log.damaged));
        report::show(&problem.at(Location::file(file.display().to_string())));
    }
    let fits = |line: &AuditLine| {
        args.run.as_ref().is_none_or(|run| line.run_id == *run)
            && args.since.is_none_or(|since| line.ts >= since)
    };
    let lines: Vec<AuditLine> = log.lines.into_iter().filter(fits).collect();
    show::show(session.output(), &lines, |lines| {
        let mut table = Table::new(&["time", "actor", "node", "reference", "version", "result", "purpose"]);
        for line in lines {
            table.row([
                line.ts.to_string(),
                line.actor.clone(),
                line.node_id.clone().unwrap_or_default(),
                line.reference.clone(),
                line.version.clone().unwrap_or_default(),
                line.result.to_string(),
                line.purpose.to_string(),
            ]);
        }
        table.render()
    })?;
    Ok(Exit::Done)
}
