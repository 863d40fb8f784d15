//! `cargo xtask test`: what the README promises.

use anyhow::Result;

use crate::{docs, shell};

/// Runs every test of the workspace, then checks that the generated pages are fresh.
pub fn run() -> Result<()> {
    shell::run(&mut shell::cargo(&["test", "--workspace", "--locked", "--no-fail-fast"]))?;
    docs::check()
}
