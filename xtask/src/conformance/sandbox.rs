//! The request scripts of `conformance/*suite.py`, put to a real API server and to the sandbox, and objects
//! of every kind changed in one place after the other (`conformance/api/mutations.py`).
//!
//! Runs only when named: it builds Kubernetes from its modules the first time.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use super::built;
use crate::real::{Parts, Real};
use crate::{peers, shell};

pub fn run() -> Result<()> {
    let yaml = peers::python_package("pyyaml")?;
    let slipway = built()?;
    let work = shell::target().join("conformance");
    fs::create_dir_all(&work)?;
    let real = Real::start(&work.join("real"), Parts::All)?;
    let kubeconfig = work.join("sandbox.kubeconfig");
    let sandbox = |args: &[&str]| {
        let mut command = Command::new(&slipway);
        command.arg("sandbox").args(args).env("HOME", &work).env_remove("XDG_STATE_HOME");
        command
    };
    let compared =
        shell::run(sandbox(&["up", "--detach", "--write-kubeconfig"]).arg(&kubeconfig)).and_then(|()| {
            let path = real.path()?;
            let compare = |suite: &str| {
                let mut compare = Command::new("python3");
                compare.arg(shell::root().join("conformance/api").join(suite));
                compare.arg("--a").arg(real.kubeconfig()).arg("--b").arg(&kubeconfig);
                // A real cluster takes its time; what differs by that alone does not differ twice.
                compare.args(["--retries", "2"]);
                shell::run(compare.env("PATH", &path).env("PYTHONPATH", &yaml))
            };
            // All run, so that one report shows everything that differs.
            [
                "compare.py",
                "kinds_and_verbs.py",
                "corner_cases.py",
                "invalid_members.py",
                "admission_and_lifecycle.py",
                "requests_in_all_forms.py",
                "mutations.py",
            ]
            .map(compare)
            .into_iter()
            .collect::<Result<()>>()
        });
    let stopped = shell::run(&mut sandbox(&["down"]));
    compared.context("some answers differ")?;
    stopped
}
