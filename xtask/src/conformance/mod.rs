//! `cargo xtask conformance`: the same questions to us and to the real programs.

use anyhow::{Context, Result, bail};

/// One comparison with a real program.
struct Suite {
    name: &'static str,
    run: fn() -> Result<()>,
}

const SUITES: &[Suite] = &[];

/// Runs the named suites, or all.
pub fn run(names: &[&str]) -> Result<()> {
    if let Some(unknown) = names.iter().find(|name| !SUITES.iter().any(|suite| suite.name == **name)) {
        let known: Vec<_> = SUITES.iter().map(|suite| suite.name).collect();
        bail!("there is no suite `{unknown}`; there are: {}", known.join(", "));
    }
    for suite in SUITES.iter().filter(|suite| names.is_empty() || names.contains(&suite.name)) {
        eprintln!("conformance: {}", suite.name);
        (suite.run)().with_context(|| format!("suite {}", suite.name))?;
    }
    Ok(())
}
