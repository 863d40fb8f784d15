//! One file a command: its flags and what it calls.

pub mod agent;
pub mod audit;
pub mod bundle;
pub mod chart;
pub mod completions;
pub mod config;
pub mod controller;
pub mod doctor;
pub mod errors;
pub mod flags;
pub mod gate;
pub mod graph;
pub mod host;
pub mod inputs;
pub mod kustomize;
pub mod lint;
pub mod man;
mod metadata;
#[cfg(debug_assertions)]
pub mod outputs;
pub mod package;
pub mod pipeline;
pub mod policy;
pub mod promotion;
pub mod reference;
pub mod release;
pub mod render;
pub mod repo;
pub mod run;
pub mod sandbox;
pub mod schemas;
pub mod secrets;
pub mod stack;
pub mod unit;
pub mod validate;
pub mod words;

use crate::cli::Command;
use crate::exit::Exit;
use crate::session::Session;

/// Runs a command to its end.
pub fn run(command: Command, session: &Session) -> anyhow::Result<Exit> {
    match command {
        Command::Render(args) => render::run(&args, session),
        Command::Plan(args) => release::plan(&args, session),
        Command::Apply(args) => release::apply(&args, session),
        Command::Rollback(args) => release::rollback(&args, session),
        Command::Delete(args) => release::delete(&args, session),
        Command::List(args) => release::list(&args, session),
        Command::Status(args) => release::status(&args, session),
        Command::History(args) => release::history(&args, session),
        Command::Get(args) => release::get(&args, session),
        Command::Diff(args) => release::diff(&args, session),
        Command::Logs(args) => release::logs(&args, session),
        Command::Test(args) => release::test(&args, session),
        Command::Lint(args) => lint::run(&args, session),
        Command::Chart(args) => chart::run(&args, session),
        Command::Repo(args) => repo::run(&args, session),
        Command::Package(args) => package::run(&args, session),
        Command::Kustomize(args) => kustomize::run(&args),
        Command::Run(args) => run::run(&args, session),
        Command::Stack(args) => stack::run(&args, session),
        Command::Unit(args) => unit::run(&args, session),
        Command::Controller(args) => controller::run(&args, session),
        Command::Agent(args) => agent::run(&args, session),
        Command::Audit(args) => audit::run(&args, session),
        Command::Doctor(args) => doctor::run(&args, session),
        Command::Pipeline(args) => pipeline::run(&args, session),
        Command::Bundle(args) => bundle::run(&args, session),
        Command::Gate(args) => gate::run(&args, session),
        Command::Sandbox(args) => sandbox::run(&args, session),
        Command::Secrets(args) => secrets::run(&args, session),
        Command::Graph(args) => graph::run(&args, session),
        Command::Config(args) => config::run(&args, session),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
        Command::Reference(args) => reference::run(&args),
    }
}
