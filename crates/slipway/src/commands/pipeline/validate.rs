//! `slipway pipeline validate`: checks files without a cluster.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use slipway_problem::{Location, Problem, Problems};
use slipway_promotion::kinds::{Bundle, ChangeWindow, Pipeline, PolicyGate, PromotionTemplate};

use crate::commands::promotion::read_files;
use crate::exit::Exit;
use crate::session::Session;
use crate::term::show;

#[derive(Debug, clap::Args)]
#[command(after_help = "Every problem is reported at once, with its line; exit code 10 if there is one.")]
pub struct ValidateArgs {
    /// File or directory with pipelines, gates and windows; `-` for standard input
    #[arg(short = 'f', long = "file", required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// The numbers of valid objects of promotion in files.
#[derive(Serialize, JsonSchema)]
pub struct PromotionFileCounts {
    pipelines: usize,
    gates: usize,
    windows: usize,
    templates: usize,
    bundles: usize,
}

pub fn run(args: &ValidateArgs, session: &Session) -> anyhow::Result<Exit> {
    let read = read_files(&args.files)?;
    if read.objects.is_empty() && read.tests.is_empty() {
        let at = args.files.first().map(|path| path.display().to_string()).unwrap_or_default();
        let problem =
            Problem::error("there is nothing of promotion in these files").at(Location::new(at, 1, 1));
        return Err(Problems::from(problem).into());
    }
    let counts = PromotionFileCounts {
        pipelines: read.pipelines.len(),
        gates: read.gates.len(),
        windows: read.windows.len(),
        templates: read.templates.len(),
        bundles: read.bundles.len(),
    };
    show::show(session.output(), &counts, |_| {
        let mut text = String::new();
        let names = |kind: &str, names: Vec<&str>| -> String {
            names.iter().map(|name| format!("OK {kind}/{name}\n")).collect()
        };
        text.push_str(&names("Pipeline", read.pipelines.iter().map(Pipeline::name).collect()));
        text.push_str(&names("PolicyGate", read.gates.iter().map(PolicyGate::name).collect()));
        text.push_str(&names("ChangeWindow", read.windows.iter().map(ChangeWindow::name).collect()));
        text.push_str(&names(
            "PromotionTemplate",
            read.templates.iter().map(PromotionTemplate::name).collect(),
        ));
        text.push_str(&names("Bundle", read.bundles.iter().map(Bundle::name).collect()));
        text
    })?;
    Ok(Exit::Done)
}
