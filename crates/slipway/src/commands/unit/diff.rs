//! `slipway unit diff`: compares two units.

use std::path::PathBuf;

use slipway_unit::{OpenOptions, UnitFile, diff_units};

use super::{fail, text};
use crate::exit::Exit;
use crate::session::Session;
use crate::term::show;

/// Show what differs between two units
#[derive(Debug, clap::Args)]
pub struct DiffArgs {
    /// The older unit
    old: PathBuf,

    /// The newer unit
    new: PathBuf,

    /// End with 2 if there are differences
    #[arg(long)]
    exit_code: bool,
}

pub fn run(args: &DiffArgs, session: &Session) -> anyhow::Result<Exit> {
    let open = |path: &PathBuf| UnitFile::open(path, &OpenOptions::default()).map_err(fail);
    let found = diff_units(&open(&args.old)?, &open(&args.new)?).map_err(fail)?;
    show::show(session.output(), &found, |found| text::difference_text(found))?;
    Ok(if args.exit_code && !found.is_empty() { Exit::Changes } else { Exit::Done })
}
