//! `cargo xtask soak`: hours of mixed work, and proof that nothing was lost.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::real::{Parts, Real};
use crate::{shell, stack};

const USAGE: &str = "usage: cargo xtask soak [--release-build] sandbox [--minutes N] | release [--kills N] [--seed N] [--real] | stack [--kills N] | runbook [--kills N] | output [--runs N]";

/// Soaks what it is told.
pub fn run(args: &[&str]) -> Result<()> {
    let (flags, args): (Vec<&str>, Vec<&str>) = args.iter().partition(|word| **word == "--release-build");
    let profile = if flags.is_empty() { shell::Profile::Debug } else { shell::Profile::Release };
    match args.as_slice() {
        ["sandbox"] => sandbox(profile, "1"),
        ["sandbox", "--minutes", minutes] => sandbox(profile, minutes),
        ["release", rest @ ..] => release(profile, rest),
        ["stack"] => stack::soak(profile, 20),
        ["stack", "--kills", kills] => stack::soak(profile, kills.parse()?),
        ["runbook"] => runbook(profile, "20"),
        ["runbook", "--kills", kills] => runbook(profile, kills),
        ["output"] => output(profile, "300"),
        ["output", "--runs", runs] => output(profile, runs),
        _ => bail!(USAGE),
    }
}

/// Commands whose streams are closed, full, blocked or cut off; each must end by its own result and be recorded.
fn output(profile: shell::Profile, runs: &str) -> Result<()> {
    let slipway = shell::slipway(profile)?;
    let work = shell::target().join("soak/output");
    let mut soak = Command::new("python3");
    soak.arg(shell::root().join("conformance/output.py")).arg(slipway).arg(work).arg(runs);
    shell::run(&mut soak)
}

/// Many clients and restarts of the sandbox by `kill -9`.
fn sandbox(profile: shell::Profile, minutes: &str) -> Result<()> {
    let slipway = shell::slipway(profile)?;
    let work = shell::target().join("soak");
    let mut soak = Command::new("python3");
    soak.arg(shell::root().join("conformance/soak.py")).arg(slipway).arg(work).arg(minutes);
    shell::run(&mut soak)
}

/// Kills `slipway run apply` with kill -9 at random moments, runs it again, and compares what is there with an
/// undisturbed run.
fn runbook(profile: shell::Profile, kills: &str) -> Result<()> {
    let slipway = shell::slipway(profile)?;
    let work = shell::target().join("soak/runbook");
    let mut soak = Command::new("python3");
    soak.arg(shell::root().join("conformance/runbook_kills.py")).arg(slipway).arg(work).arg(kills);
    shell::run(&mut soak)
}

/// `slipway apply` killed at random points, against the sandbox over TLS or a real control plane.
fn release(profile: shell::Profile, args: &[&str]) -> Result<()> {
    let (mut kills, mut seed, mut real) = ("20", None, false);
    let mut words = args.iter();
    while let Some(word) = words.next() {
        match (*word, words.as_slice().first()) {
            ("--real", _) => real = true,
            ("--kills", Some(number)) => {
                kills = number;
                words.next();
            }
            ("--seed", Some(number)) => {
                seed = Some(*number);
                words.next();
            }
            _ => bail!(USAGE),
        }
    }
    let slipway = shell::slipway(profile)?;
    let work = shell::target().join("soak-release");
    fs::create_dir_all(&work)?;
    let test = |kubeconfig: &Path| {
        let mut soak = Command::new("python3");
        soak.arg(shell::root().join("conformance/kill.py")).arg(&slipway).arg(work.join("runs"));
        soak.arg(kubeconfig).arg(kills);
        shell::run(soak.args(seed.iter().flat_map(|seed| ["--seed", seed])))
    };
    if real {
        let real = Real::start(&work.join("real"), Parts::All)?;
        return test(&real.kubeconfig());
    }
    let kubeconfig = work.join("kubeconfig");
    let command = |args: &[&str]| {
        let mut command = Command::new(&slipway);
        command.arg("sandbox").args(args).env("HOME", &work).env_remove("XDG_STATE_HOME");
        command
    };
    shell::run(command(&["up", "--detach", "--speed", "max", "--write-kubeconfig"]).arg(&kubeconfig))?;
    let tested = test(&kubeconfig);
    shell::run(&mut command(&["down"]))?;
    tested
}
