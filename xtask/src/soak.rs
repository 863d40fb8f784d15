//! `cargo xtask soak`: hours of mixed work, and proof that nothing was lost.

use std::process::Command;

use anyhow::{Result, bail};

use crate::shell;

/// Soaks the sandbox for as long as it is told; a minute otherwise.
pub fn run(args: &[&str]) -> Result<()> {
    let minutes = match args {
        ["sandbox"] => "1",
        ["sandbox", "--minutes", minutes] => minutes,
        _ => bail!("usage: cargo xtask soak sandbox [--minutes N]"),
    };
    let slipway = shell::slipway(shell::Profile::Debug)?;
    let work = shell::target().join("soak");
    let mut soak = Command::new("python3");
    soak.arg(shell::root().join("conformance/soak.py")).arg(slipway).arg(work).arg(minutes);
    shell::run(&mut soak)
}
