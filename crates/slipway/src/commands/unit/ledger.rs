//! `slipway unit merge-ledger`: brings a ledger beside a unit into it.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use slipway_unit::merge_ledger;

use super::fail;
use super::flags::UnitFlags;
use crate::exit::Exit;
use crate::session::Session;
use crate::term::show;

/// Bring the ledger beside a unit into the unit
#[derive(Debug, clap::Args)]
pub struct MergeLedgerArgs {
    #[command(flatten)]
    unit: UnitFlags,

    /// The ledger beside it
    ledger: PathBuf,
}

/// A ledger that was brought into a unit.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MergedEntries {
    added: usize,
    already_known: usize,
}

pub fn run(args: &MergeLedgerArgs, session: &Session) -> anyhow::Result<Exit> {
    let merged = merge_ledger(&args.unit.open()?, &args.ledger).map_err(fail)?;
    say!("{} entries added, {} known already", merged.added, merged.already_known);
    let view = MergedEntries { added: merged.added, already_known: merged.already_known };
    show::show(session.output(), &view, |_| String::new())?;
    Ok(Exit::Done)
}
