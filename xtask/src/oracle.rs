//! `cargo xtask oracle`: records anew what real Helm says to our own charts.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{peers, shell};

pub fn run() -> Result<()> {
    let helm = peers::helm()?;
    let tests = shell::root().join("crates/chart/tests");
    let cases = fs::read_to_string(tests.join("golden/cases.txt"))?;
    for case in cases.lines() {
        let (name, words) = case.split_once('\t').with_context(|| format!("`{case}` has no tab"))?;
        let mut command = Command::new(&helm);
        command.arg("template").args(words.split(' ')).current_dir(tests.join("fixtures"));
        let output = command.output()?;
        let answer = if output.status.success() {
            output.stdout
        } else {
            // Warnings may stand before the error.
            let said = String::from_utf8_lossy(&output.stderr);
            said[said.find("Error: ").unwrap_or(0)..].as_bytes().to_vec()
        };
        fs::write(tests.join("golden").join(format!("{name}.txt")), answer)?;
    }
    eprintln!("recorded {} answers; `git diff` shows what changed", cases.lines().count());
    Ok(())
}
