//! `slipway reference`: the source of the generated pages under `docs/reference`.

use clap::ValueEnum;

#[cfg(debug_assertions)]
use super::outputs;
use super::{errors, graph, schemas};
use crate::exit::Exit;
use crate::term::{failure, show};
use crate::{config, reference};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which page
    page: Page,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Page {
    /// Every command, as Markdown
    Cli,
    /// Every flag of every command, with other spellings that are taken, for programs
    Flags,
    /// The table of exit codes, as Markdown
    ExitCodes,
    /// The catalogue of codes of problems, as Markdown
    Errors,
    /// JSON Schema of what standard error says of a failure to programs
    FailureSchema,
    /// JSON Schema of the configuration file
    ConfigSchema,
    /// JSON Schema of graph files
    GraphSchema,
    /// JSON Schema of stack.yaml
    StackSchema,
    /// JSON Schema of release.yaml
    ReleaseSchema,
    /// JSON Schema of policy files
    PolicySchema,
    /// JSON Schema of what commands print with -o json
    #[cfg(debug_assertions)]
    OutputSchema,
    /// The table of what commands print with -o json, as Markdown
    #[cfg(debug_assertions)]
    Data,
    /// JSON Schema of settings of release units
    UnitSchema,
    /// JSON Schema of image maps of release units
    ImageMapSchema,
    /// JSON Schema of the file `pipeline init -f` reads
    PipelineInitSchema,
    /// JSON Schema of cases of gates
    GateTestsSchema,
    /// JSON Schema of tokens.yaml of the controller
    TokensSchema,
}

pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let text = match args.page {
        Page::Cli => reference::markdown(),
        Page::Flags => reference::flag_list(),
        Page::ExitCodes => Exit::markdown(),
        Page::Errors => errors::markdown(),
        Page::FailureSchema => serde_json::to_string_pretty(&failure::schema())? + "\n",
        Page::ConfigSchema => serde_json::to_string_pretty(&config::schema())? + "\n",
        Page::StackSchema => serde_json::to_string_pretty(&slipway_stack::stack_schema())? + "\n",
        Page::ReleaseSchema => serde_json::to_string_pretty(&slipway_stack::release_schema())? + "\n",
        Page::PolicySchema => serde_json::to_string_pretty(&slipway_policy::policy_schema())? + "\n",
        #[cfg(debug_assertions)]
        Page::Data => outputs::markdown(),
        #[cfg(debug_assertions)]
        Page::OutputSchema => serde_json::to_string_pretty(&outputs::output_schema())? + "\n",
        Page::UnitSchema => serde_json::to_string_pretty(&slipway_unit::settings_schema())? + "\n",
        Page::ImageMapSchema => serde_json::to_string_pretty(&slipway_unit::image_map_schema())? + "\n",
        Page::PipelineInitSchema => serde_json::to_string_pretty(&schemas::pipeline_init_schema())? + "\n",
        Page::GateTestsSchema => serde_json::to_string_pretty(&schemas::gate_tests_schema())? + "\n",
        Page::TokensSchema => serde_json::to_string_pretty(&slipway_controller::tokens_schema())? + "\n",
        Page::GraphSchema => serde_json::to_string_pretty(&graph::schema())? + "\n",
    };
    show::data(text)?;
    Ok(Exit::Done)
}
