//! `cargo xtask ci`: what `.ci/run` calls after the tests.

use anyhow::Result;

use crate::{bench, conformance, lint, soak};

pub fn run() -> Result<()> {
    lint::run()?;
    bench::run(&["--short"])?;
    soak::run(&["sandbox", "--minutes", "0.25"])?;
    conformance::run(&[])
}
