//! `slipway run validate`.

use serde_json::json;
use slipway_runbook::{Diagnostic, Diagnostics, check};

use super::document;
use crate::exit::{Exit, UsageError};
use crate::session::Session;
use crate::term::{report, show};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Look at the local manifests, charts and values files too
    #[arg(long)]
    check_files: bool,

    #[command(flatten)]
    document: document::Flags,
}

pub fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let mut read = args.document.read(session)?;
    if args.check_files {
        read.result = read.result.and_then(|loaded| {
            let mut found = check::files(&loaded.document, &args.document.base(), session.redactor());
            if !found.has_errors() {
                return Ok(loaded);
            }
            found.extend(loaded.warnings);
            Err(found)
        });
    }
    let (document, found) = match &read.result {
        Ok(loaded) => (Some(&loaded.document), &loaded.warnings),
        Err(found) => (None, found),
    };
    if session.output() != crate::cli::Output::Table {
        let list = |found: &mut dyn Iterator<Item = &Diagnostic>| found.map(placed).collect::<Vec<_>>();
        let value = json!({
            "file": read.name,
            "valid": document.is_some(),
            "name": document.map(|document| session.redactor().redact(&document.name)),
            "steps": document.map(|document| document.steps.len()),
            "errors": list(&mut found.errors()),
            "warnings": list(&mut found.warnings()),
        });
        show::show(session.output(), &value, |_| String::new())?;
        return Ok(if document.is_some() { Exit::Done } else { Exit::Usage });
    }
    match read.result {
        Ok(loaded) => {
            warn(loaded.warnings);
            show::print(&format!("{}: valid ({} steps)\n", read.name, loaded.document.steps.len()))?;
            Ok(Exit::Done)
        }
        Err(found) => Err(UsageError(found.into_problems()).into()),
    }
}

/// A finding with its place beside the message, as editors and linters want it.
fn placed(found: &Diagnostic) -> serde_json::Value {
    let mut value = json!(found);
    if let Some(at) = &found.problem.at {
        value["file"] = json!(at.file);
        value["line"] = json!(at.line);
        value["column"] = json!(at.column);
    }
    value
}

/// Shows warnings on standard error.
pub fn warn(found: Diagnostics) {
    for problem in found.into_problems().iter() {
        report::show(problem);
    }
}
