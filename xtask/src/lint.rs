//! `cargo xtask lint`: formatting, clippy and rustdoc without a complaint.

use anyhow::Result;

use crate::shell;

pub fn run() -> Result<()> {
    shell::run(&mut shell::cargo(&["fmt", "--all", "--check"]))?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    shell::run(&mut shell::cargo(&clippy))?;
    let mut doc = shell::cargo(&["doc", "--workspace", "--no-deps", "--locked"]);
    shell::run(doc.env("RUSTDOCFLAGS", "-D warnings"))
}
