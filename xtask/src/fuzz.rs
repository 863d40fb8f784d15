//! `cargo xtask fuzz`: any bytes at all, for as long as it is told.

use anyhow::Result;

use crate::shell;

pub fn run(args: &[&str]) -> Result<()> {
    let fuzz = ["run", "--quiet", "--release", "--locked", "--package", "slipway-fuzz", "--"];
    shell::run(shell::cargo(&fuzz).args(args))
}
