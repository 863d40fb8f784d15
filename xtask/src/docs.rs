//! `cargo xtask docs`: the pages made from the program itself.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::shell;

/// A generated page and the command that prints it.
const PAGES: &[(&str, &[&str])] = &[
    ("docs/reference/cli.md", &["reference", "cli"]),
    ("docs/reference/exit-codes.md", &["reference", "exit-codes"]),
    ("docs/reference/config.schema.json", &["reference", "config-schema"]),
    ("docs/reference/graph.schema.json", &["reference", "graph-schema"]),
    ("docs/reference/runbook.schema.json", &["run", "schema"]),
    ("docs/reference/stack.schema.json", &["reference", "stack-schema"]),
    ("docs/reference/release.schema.json", &["reference", "release-schema"]),
];

/// Generated definitions and the group each is made for.
const DEFINITIONS: &[(&str, &str)] = &[
    ("crates/kro/crds/experimental.kro.run.yaml", "experimental.kro.run"),
    ("crates/kro/crds/graph.kardinal.io.yaml", "graph.kardinal.io"),
];

/// Writes every generated page.
pub fn write() -> Result<()> {
    for (path, text) in made()? {
        fs::write(shell::root().join(path), text).with_context(|| format!("write {path}"))?;
        eprintln!("wrote {path}");
    }
    Ok(())
}

/// Fails when a page is not what the program prints now.
pub fn check() -> Result<()> {
    let mut stale = Vec::new();
    for (path, text) in made()? {
        if fs::read_to_string(shell::root().join(path)).unwrap_or_default() != text {
            stale.push(path);
        }
    }
    if !stale.is_empty() {
        bail!("stale pages: {}\n  hint: run `cargo xtask docs` and commit the result", stale.join(", "));
    }
    eprintln!("generated pages are fresh");
    Ok(())
}

fn made() -> Result<Vec<(&'static str, String)>> {
    let print = |args: &[&str]| {
        let run = ["run", "--quiet", "--locked", "--package", "slipway", "--"];
        shell::output(shell::cargo(&run).args(args))
    };
    let define = |group: &str| {
        let run =
            ["run", "--quiet", "--locked", "--package", "slipway-kro", "--example", "definitions", "--"];
        shell::output(shell::cargo(&run).arg(group))
    };
    let pages = PAGES.iter().map(|(path, args)| Ok((*path, print(args)?)));
    pages.chain(DEFINITIONS.iter().map(|(path, group)| Ok((*path, define(group)?)))).collect()
}
