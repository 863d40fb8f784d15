//! Promotions: our controller with a real Gitea, and with real Flux beside it.

use std::process::Command;

use anyhow::{Context, Result};

use super::Tally;
use crate::gitea::{Gitea, PASSWORD, USER};
use crate::{peers, shell};

/// Pull requests, merges, webhooks and rollbacks with a real Gitea.
pub fn run() -> Result<()> {
    let command = example("promotion")?;
    walk("promotion", command)
}

/// Real Flux syncs the repository: no promotion is verified before the cluster runs it. `RUNS` says how often.
pub fn run_with_flux() -> Result<()> {
    let [source, kustomize] = peers::flux()?;
    let mut command = example("promotion-flux")?;
    let definitions = std::env::join_paths([&source.definitions, &kustomize.definitions])?;
    command.command.env("FLUX_SOURCE_CONTROLLER", &source.binary).env("FLUX_DEFINITIONS", definitions);
    command.command.env("FLUX_KUSTOMIZE_CONTROLLER", &kustomize.binary);
    walk("promotion-flux", command)
}

/// The example with the Gitea it talks to.
struct Example {
    command: Command,
    _gitea: Gitea,
}

fn example(directory: &str) -> Result<Example> {
    let example = shell::example("conformance")?;
    let gitea = Gitea::start(&peers::cache()?.join(directory))?;
    let mut command = Command::new(example);
    command.args([&gitea.root, USER, PASSWORD]).env("GITEA_TOKEN", &gitea.token).env("NO_PROXY", "127.0.0.1");
    Ok(Example { command, _gitea: gitea })
}

fn walk(suite: &'static str, mut example: Example) -> Result<()> {
    let output = example.command.output().context("run the example")?;
    let mut tally = Tally::new(suite);
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
