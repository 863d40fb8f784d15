//! `slipway unit inspect`: shows what a unit holds.

use slipway_unit::inspect_unit;

use super::flags::{UnitFlags, ledger};
use super::{fail, text};
use crate::exit::Exit;
use crate::session::Session;
use crate::term::show;

/// Show what a unit holds and what was done with it
#[derive(Debug, clap::Args)]
pub struct InspectArgs {
    #[command(flatten)]
    unit: UnitFlags,
}

pub fn run(args: &InspectArgs, session: &Session) -> anyhow::Result<Exit> {
    let unit = args.unit.open()?;
    let entries = ledger(&unit).entries().map_err(fail)?;
    show::show(session.output(), &inspect_unit(&unit, &entries), text::summary_text)?;
    Ok(Exit::Done)
}
