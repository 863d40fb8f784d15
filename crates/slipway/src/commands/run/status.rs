//! `slipway run status`.

use std::fmt::Write as _;

use slipway_problem::Problem;
use slipway_runbook::Document;
use slipway_runbook::plan::{self, Known, Status};
use slipway_runbook::state::{NodeStatus, node_word, run_word};

use super::connection::{self, Ground};
use super::document;
use crate::cli::Output;
use crate::commands::secrets::resolution::ReferenceMode;
use crate::exit::{Exit, UsageError};
use crate::session::Session;
use crate::term::show;
use crate::term::table::Table;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    document: document::Flags,
}

pub fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let document = args.document.load(session)?.document;
    if document.state.is_none() {
        let problem = Problem::error("the runbook keeps no record").hint("add `state: {}` to keep one");
        return Err(UsageError(problem.into()).into());
    }
    let status = session.block_on(async {
        let references = args.document.resolver(ReferenceMode::Show, "run status", session);
        let ground = Ground::open(session, args.document.base(), references).await?.for_looking();
        plan::status(&document, ground.place()).await.map_err(connection::failed)
    })?;
    let Some(status) = status else { return Ok(Exit::Usage) };
    match session.output() {
        Output::Table => show::print(&text(&document, &status))?,
        output => show::show(output, &status, |_| String::new())?,
    }
    Ok(Exit::Done)
}

fn text(document: &Document, status: &Status) -> String {
    let Some(Known { record, spec_changed, resumable_steps, changed_steps }) = &status.known else {
        return format!("no record yet: Secret {} does not exist\n", status.secret);
    };
    let mut out = String::new();
    let run = run_word(record.run_status);
    let _ = writeln!(out, "spec:    {}", record.spec_name);
    let _ = writeln!(out, "record:  {} (version {})", status.secret, record.khook_version);
    let _ = writeln!(out, "run:     {}, started {}, updated {}", run, record.started_at, record.updated_at);
    let _ = writeln!(
        out,
        "{}\n",
        match (spec_changed, resumable_steps.len()) {
            (false, count) => format!("the runbook is unchanged: {count} step(s) will be left out"),
            (true, 0) => "the runbook changed: every step will run".to_owned(),
            (true, count) => format!("the runbook changed: {count} step(s) will still be left out"),
        }
    );
    let mut table = Table::new(&["step", "type", "status", "attempts", "finished", "detail"]);
    for entry in &record.steps {
        let detail = if !document.steps.iter().any(|step| step.name == entry.name) {
            "no longer in the spec".to_owned()
        } else if changed_steps.contains(&entry.name) && entry.status == Some(NodeStatus::Succeeded) {
            "input changed — will re-run".to_owned()
        } else {
            let said = entry.error.as_ref().or(entry.skip_reason.as_ref());
            said.and_then(|text| text.lines().next()).unwrap_or_default().to_owned()
        };
        table.row([
            entry.name.clone(),
            entry.kind.clone(),
            entry.status.map_or("-", node_word).to_owned(),
            entry.attempts.map(|attempts| attempts.to_string()).unwrap_or_default(),
            entry.finished_at.clone().unwrap_or_default(),
            detail,
        ]);
    }
    out + &table.render()
}
