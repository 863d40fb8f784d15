//! `slipway reference`: the source of `docs/reference/cli.md`.

use std::io::Write;

use crate::exit::Exit;
use crate::reference;

#[derive(Debug, clap::Args)]
pub struct Args {}

pub fn run(_: &Args) -> anyhow::Result<Exit> {
    std::io::stdout().lock().write_all(reference::markdown().as_bytes())?;
    Ok(Exit::Done)
}
