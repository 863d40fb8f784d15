//! `cargo xtask soak`: hours of mixed work, and proof that nothing was lost.

use std::process::Command;

use anyhow::{Result, bail};

use crate::shell;

/// Soaks the sandbox for as long as it is told, a minute otherwise; or kills runs of a runbook.
pub fn run(args: &[&str]) -> Result<()> {
    let minutes = match args {
        ["sandbox"] => "1",
        ["sandbox", "--minutes", minutes] => minutes,
        ["runbook"] => return runbook("20"),
        ["runbook", "--kills", kills] => return runbook(kills),
        _ => bail!("usage: cargo xtask soak sandbox [--minutes N] | runbook [--kills N]"),
    };
    let slipway = shell::slipway(shell::Profile::Debug)?;
    let work = shell::target().join("soak");
    let mut soak = Command::new("python3");
    soak.arg(shell::root().join("conformance/soak.py")).arg(slipway).arg(work).arg(minutes);
    shell::run(&mut soak)
}

/// Kills `slipway run apply` with kill -9 at random moments, runs it again, and compares what is there with an
/// undisturbed run.
fn runbook(kills: &str) -> Result<()> {
    let slipway = shell::slipway(shell::Profile::Debug)?;
    let work = shell::target().join("soak/runbook");
    let mut soak = Command::new("python3");
    soak.arg(shell::root().join("conformance/runbook_kills.py")).arg(slipway).arg(work).arg(kills);
    shell::run(&mut soak)
}
