//! `cargo xtask ci`: what `.ci/run` calls after the tests.

use anyhow::Result;

use crate::{bench, conformance, lint};

pub fn run() -> Result<()> {
    lint::run()?;
    bench::run(&["--short"])?;
    conformance::run(&[])
}
