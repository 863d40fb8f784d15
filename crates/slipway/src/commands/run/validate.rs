//! `slipway run validate`.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;
use slipway_problem::Location;
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
        let value = RunbookValidation {
            file: &read.name,
            valid: document.is_some(),
            name: document.map(|document| session.redactor().redact(&document.name)),
            steps: document.map(|document| document.steps.len()),
            errors: found.errors().map(placed).collect(),
            warnings: found.warnings().map(placed).collect(),
        };
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

/// The findings about a runbook.
#[derive(Serialize, JsonSchema)]
pub struct RunbookValidation<'a> {
    file: &'a str,
    valid: bool,
    /// Absent, as its number of steps, where it cannot be read.
    name: Option<Cow<'a, str>>,
    steps: Option<usize>,
    errors: Vec<PlacedDiagnostic<'a>>,
    warnings: Vec<PlacedDiagnostic<'a>>,
}

/// A finding with its place beside the message, as editors and linters want it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RunbookFinding")]
struct PlacedDiagnostic<'a> {
    #[serde(flatten)]
    found: &'a Diagnostic,
    #[serde(flatten)]
    at: Option<&'a Location>,
}

fn placed(found: &Diagnostic) -> PlacedDiagnostic<'_> {
    PlacedDiagnostic { found, at: found.problem.at.as_ref() }
}

/// Shows warnings on standard error.
pub fn warn(found: Diagnostics) {
    for problem in found.into_problems().iter() {
        report::show(problem);
    }
}
