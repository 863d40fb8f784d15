//! Promotions: our controller with a real Gitea, and with real Flux beside it.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};

use super::Tally;
use crate::gitea::{Gitea, PASSWORD, USER};
use crate::{peers, shell};

/// Pull requests, merges, webhooks and rollbacks with a real Gitea, and a controller that is killed at every change. `PART` plays
/// one part alone, `KILLS` says how often it is killed at random.
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

/// Counts the cases the example tells of, and shows each with its time: some take minutes.
fn walk(suite: &'static str, mut example: Example) -> Result<()> {
    let began = Instant::now();
    let command = example.command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("run the example")?;
    let mut errors = child.stderr.take().context("the example has no standard error")?;
    let errors = thread::spawn(move || {
        let mut said = String::new();
        let _ = errors.read_to_string(&mut said);
        said
    });
    let mut tally = Tally::new(suite);
    for line in BufReader::new(child.stdout.take().context("the example has no standard output")?).lines() {
        let line = line?;
        eprintln!("  {:6.1} s  {line}", began.elapsed().as_secs_f64());
        match line.rsplit_once(": ") {
            Some((case, "ok")) => tally.count(case, true),
            _ => tally.count(&line, false),
        }
    }
    let status = child.wait()?;
    if !status.success() {
        let said = errors.join().unwrap_or_default();
        tally.count(&format!("{status}: {}", said.trim_end()), false);
    }
    tally.finish()
}
