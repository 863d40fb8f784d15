//! `slipway unit replay`: shows a recorded apply.

use slipway_unit::read_apply;

use super::flags::{UnitFlags, ledger};
use super::{fail, text};
use crate::cli::Output;
use crate::exit::Exit;
use crate::session::Session;
use crate::term::show;

/// Show a recorded apply, without a cluster
#[derive(Debug, clap::Args)]
pub struct ReplayArgs {
    #[command(flatten)]
    unit: UnitFlags,

    /// The apply by its name, or by its number from 1; the last one if not given
    #[arg(long = "apply", value_name = "APPLY", help_heading = None::<&'static str>)]
    apply: Option<String>,
}

pub fn run(args: &ReplayArgs, session: &Session) -> anyhow::Result<Exit> {
    let unit = args.unit.open()?;
    let recorded = read_apply(&ledger(&unit), args.apply.as_deref()).map_err(fail)?;
    if session.output() == Output::Table {
        show::print(&text::replay_text(&recorded))?;
    } else {
        show::show(session.output(), &recorded.records, |_| String::new())?;
    }
    Ok(Exit::Done)
}
