//! `slipway unit merge-ledger`: brings a ledger beside a unit into it.

use std::path::PathBuf;

use slipway_unit::merge_ledger;

use super::fail;
use super::flags::UnitFlags;
use crate::exit::Exit;

/// Bring the ledger beside a unit into the unit
#[derive(Debug, clap::Args)]
pub struct MergeLedgerArgs {
    #[command(flatten)]
    unit: UnitFlags,

    /// The ledger beside it
    ledger: PathBuf,
}

pub fn run(args: &MergeLedgerArgs) -> anyhow::Result<Exit> {
    let merged = merge_ledger(&args.unit.open()?, &args.ledger).map_err(fail)?;
    say!("{} entries added, {} known already", merged.added, merged.already_known);
    Ok(Exit::Done)
}
