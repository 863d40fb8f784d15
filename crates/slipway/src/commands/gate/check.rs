//! `slipway gate test`: checks gates and runs their cases.

use std::path::PathBuf;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use slipway_promotion::gate::{GateEvaluator, GateTestVerdict, run_tests};
use slipway_promotion::kinds::PolicyGate;

use crate::commands::promotion::read_files;
use crate::exit::Exit;
use crate::session::Session;
use crate::term::show;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "A document with a list `tests` holds cases:\n  tests:\n  - name: closed on Saturdays\n    \
                        gate: no-weekend\n    time: Saturday 3pm\n    expect: block      # pass, block or error\n    \
                        set: {bundle.labels.hotfix: false}\n\n\
                        Exit codes: 0 all is well, 1 a case says something else, 10 a file is wrong."
)]
pub struct TestArgs {
    /// Files or directories with gates and cases
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// The gates of files and the results of their cases.
#[derive(Serialize, JsonSchema)]
pub struct GateTestReport<'a> {
    gates: &'a [&'a str],
    tests: &'a [GateTestRow],
}

/// A case and what came of it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "GateTestResult")]
struct GateTestRow {
    name: String,
    /// `ok`, `unexpected` or `invalid`.
    verdict: &'static str,
    /// Empty where all is well.
    detail: String,
}

pub fn run(args: &TestArgs, session: &Session) -> anyhow::Result<Exit> {
    let read = read_files(&args.files)?;
    let results = run_tests(&GateEvaluator::new(), &read.gates, &read.tests, Timestamp::now());
    let shown: Vec<_> = results
        .iter()
        .map(|result| {
            let (verdict, detail) = match &result.verdict {
                GateTestVerdict::Ok => ("ok", String::new()),
                GateTestVerdict::Unexpected(outcome) => {
                    ("unexpected", format!("{:?}: {}", outcome.phase, outcome.reason))
                }
                GateTestVerdict::Invalid(why) => ("invalid", why.to_string()),
            };
            GateTestRow { name: result.name.clone(), verdict, detail }
        })
        .collect();
    let gates: Vec<&str> = read.gates.iter().map(PolicyGate::name).collect();
    let report = GateTestReport { gates: &gates, tests: &shown };
    show::show(session.output(), &report, |_| {
        let mut text: String = gates.iter().map(|name| format!("OK {name}\n")).collect();
        for case in &shown {
            let word = if case.verdict == "ok" { "PASS" } else { "FAIL" };
            let detail = if case.detail.is_empty() { String::new() } else { format!(": {}", case.detail) };
            text.push_str(&format!("{word} {}{detail}\n", case.name));
        }
        text
    })?;
    let is_good = results.iter().all(|result| result.verdict == GateTestVerdict::Ok);
    Ok(if is_good { Exit::Done } else { Exit::Failed })
}
