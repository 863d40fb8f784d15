//! Pull requests: our providers and our Git against a real Gitea.

use std::process::Command;

use anyhow::{Context, Result};

use super::Tally;
use crate::gitea::{Gitea, PASSWORD, USER};
use crate::{peers, shell};

pub fn run() -> Result<()> {
    let example = shell::example("gitea")?;
    let gitea = Gitea::start(&peers::cache()?.join("scm"))?;
    let mut command = Command::new(&example);
    command.args([&gitea.root, USER, PASSWORD]).env("GITEA_TOKEN", &gitea.token).env("NO_PROXY", "127.0.0.1");
    let output = command.output().with_context(|| format!("run {}", example.display()))?;
    let mut tally = Tally::new("scm");
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        match line.split_once(": ") {
            Some((case, "ok")) => tally.count(case, true),
            _ => tally.count(line, false),
        }
    }
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        tally.count(&format!("{}: {}", output.status, said.trim_end()), false);
    }
    tally.finish()
}
