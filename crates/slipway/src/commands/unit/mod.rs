//! Release units: one file from the bundle to production. One file a command.

pub mod apply;
mod bundle;
mod diff;
pub mod export;
mod flags;
mod inspect;
pub mod ledger;
mod plan;
mod replay;
pub mod resume;
mod rollback;
pub mod settings;
pub mod sign;
mod text;
pub mod transfer;
mod verify;

use slipway_problem::{Location, Problem, describe_io, read_hint};
use slipway_unit::UnitError;

use crate::charts;
use crate::exit::Exit;
use crate::session::Session;

/// Release units: bundle, plan, apply, promote and verify one file
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Make a unit: source, values, image digests and everything they render to, sealed in one file
    Bundle(Box<bundle::BundleArgs>),
    /// Show what a unit holds and what was done with it
    Inspect(inspect::InspectArgs),
    /// Show what differs between two units
    Diff(diff::DiffArgs),
    /// Show what applying a unit would change; writes nothing
    Plan(Box<plan::PlanArgs>),
    /// Deploy exactly what was bundled
    Apply(Box<apply::ApplyArgs>),
    /// Deploy a unit to an environment after it was verified in another
    Promote(Box<apply::PromoteArgs>),
    /// Check that what runs is what was sealed, and is well
    Verify(Box<verify::VerifyArgs>),
    /// Go on with a rollout that paused or was interrupted
    Resume(Box<resume::ResumeArgs>),
    /// Take a rollout back that is not finished
    Abort(Box<resume::AbortArgs>),
    /// Take a target back to what it ran before
    Rollback(Box<rollback::RollbackArgs>),
    /// Show a recorded apply, without a cluster
    Replay(replay::ReplayArgs),
    /// Sign a unit
    Sign(sign::SignArgs),
    /// Make a key to sign units with
    GenerateKey(sign::GenerateKeyArgs),
    /// Put a unit into an OCI registry
    Push(transfer::PushArgs),
    /// Get a unit from an OCI registry
    Pull(transfer::PullArgs),
    /// Write a unit as files for Flux, Argo CD or kustomize
    Export(export::ExportArgs),
    /// Bring the ledger beside a unit into the unit
    MergeLedger(ledger::MergeLedgerArgs),
}

pub fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Bundle(args) => bundle::run(args, session),
        Command::Inspect(args) => inspect::run(args, session),
        Command::Diff(args) => diff::run(args, session),
        Command::Plan(args) => plan::run(args, session),
        Command::Apply(args) => apply::run(args, session),
        Command::Promote(args) => apply::promote(args, session),
        Command::Verify(args) => verify::run(args, session),
        Command::Resume(args) => resume::run(args, session),
        Command::Abort(args) => resume::abort(args, session),
        Command::Rollback(args) => rollback::run(args, session),
        Command::Replay(args) => replay::run(args, session),
        Command::Sign(args) => sign::run(args, session),
        Command::GenerateKey(args) => sign::generate(args, session),
        Command::Push(args) => transfer::push(args, session),
        Command::Pull(args) => transfer::pull(args, session),
        Command::Export(args) => export::run(args, session),
        Command::MergeLedger(args) => ledger::run(args, session),
    }
}

/// The failure of a unit as the user is told, with its exit code.
fn fail(error: UnitError) -> anyhow::Error {
    match error {
        UnitError::Load(error) => charts::load_failure(error),
        UnitError::Release(failure) => (*failure).into(),
        UnitError::Io { doing: doing @ ("open" | "read"), path, source } => {
            Problem::error(format!("cannot {doing} the file: {}", describe_io(&source)))
                .at(Location::file(path.display().to_string()))
                .hint(read_hint(&source))
                .into()
        }
        error => error.into(),
    }
}
