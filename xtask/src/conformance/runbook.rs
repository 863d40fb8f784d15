//! The runbooks of `conformance/runbooks.py` on a real API server: the scenarios of the specification that are
//! marked for one, the calls every kind of step makes as the server's audit log tells them, missing rights.
//!
//! Runs only when named: it builds Kubernetes from its modules the first time.

use std::fs;
use std::process::Command;

use anyhow::Result;

use super::built;
use crate::real::{Parts, Real};
use crate::shell;

pub fn run() -> Result<()> {
    let slipway = built()?;
    let work = shell::target().join("conformance/runbook");
    fs::create_dir_all(&work)?;
    let real = Real::start(&work.join("real"), Parts::All)?;
    let mut suite = Command::new("python3");
    suite.arg(shell::root().join("conformance/runbooks.py"));
    suite.arg(slipway).arg(real.kubeconfig()).arg(real.audit()).arg(work.join("files"));
    shell::run(suite.env("PATH", real.path()?))
}
