//! Real kubectl and real Helm against the sandbox: every command people use, and charts from end to end.
//!
//! Runs only when named: it builds kubectl from its module the first time.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};

use super::built;
use crate::{peers, shell};

static CHARTS: OnceLock<PathBuf> = OnceLock::new();

/// Charts to install besides our own: a directory of charts, unpacked or archived.
pub fn install_from(charts: PathBuf) -> Result<()> {
    if !charts.is_dir() {
        bail!("{} is no directory", charts.display());
    }
    CHARTS.get_or_init(|| charts);
    Ok(())
}

pub fn run() -> Result<()> {
    let (kubectl, helm) = (peers::kubectl()?, peers::helm()?);
    let slipway = built()?;
    let work = shell::target().join("conformance/kubectl");
    if work.exists() {
        fs::remove_dir_all(&work)?;
    }
    fs::create_dir_all(&work)?;
    let kubeconfig = work.join("kubeconfig");
    let sandbox = |args: &[&str]| {
        let mut command = Command::new(&slipway);
        command.arg("sandbox").args(args).env("HOME", &work).env_remove("XDG_STATE_HOME");
        command
    };
    let up = ["up", "--detach", "--speed", "max", "--write-kubeconfig"];
    let checked = shell::run(sandbox(&up).arg(&kubeconfig)).and_then(|()| {
        let mut path: Vec<PathBuf> =
            [&kubectl, &helm].iter().filter_map(|program| program.parent().map(Into::into)).collect();
        path.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
        let mut check = Command::new("python3");
        check.arg(shell::root().join("conformance/kubectl.py")).arg(shell::root().join("examples/charts"));
        check.args(CHARTS.get()).current_dir(&work).env("HOME", &work).env("KUBECONFIG", &kubeconfig);
        shell::run(check.env("PATH", env::join_paths(path)?))
    });
    let stopped = shell::run(&mut sandbox(&["down"]));
    checked.context("some command does not work")?;
    stopped
}
