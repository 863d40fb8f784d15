//! The request scripts of `conformance/diffsuite.py` and `moresuite.py`, put to a real API server and to the sandbox.
//!
//! Runs only when named: it builds Kubernetes from its modules the first time and uses fixed ports.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::built;
use crate::{peers, shell};

pub fn run() -> Result<()> {
    let kubernetes = peers::kubernetes()?;
    let helm = peers::helm()?;
    let yaml = peers::python_package("pyyaml")?;
    let slipway = built()?;
    let work = shell::target().join("conformance");
    fs::create_dir_all(&work)?;

    let mut path = OsString::from(&kubernetes);
    for more in
        [helm.parent().map(Path::as_os_str), std::env::var_os("PATH").as_deref()].into_iter().flatten()
    {
        path.push(":");
        path.push(more);
    }
    let scripts = shell::root().join("conformance");
    let real = work.join("real");
    let script = |name: &str| {
        let mut command = Command::new("bash");
        command.arg(scripts.join("realcluster").join(name)).env("PATH", &path);
        command.env("RC_DIR", &real).env("K8SBIN", &kubernetes);
        command
    };
    let etcd = peers::etcd()?;
    shell::run(script("up.sh").env("ETCD", &etcd))?;
    let kubeconfig = work.join("sandbox.kubeconfig");
    let sandbox = |args: &[&str]| {
        let mut command = Command::new(&slipway);
        command.arg("sandbox").args(args).env("HOME", &work).env_remove("XDG_STATE_HOME");
        command
    };
    let compared =
        shell::run(sandbox(&["up", "--detach", "--write-kubeconfig"]).arg(&kubeconfig)).and_then(|()| {
            let compare = |suite: &str| {
                let mut compare = Command::new("python3");
                compare.arg(scripts.join(suite)).arg("--a").arg(real.join("kubeconfig"));
                compare.arg("--b").arg(&kubeconfig).env("PATH", &path).env("PYTHONPATH", &yaml);
                shell::run(&mut compare)
            };
            // Both run, so that one report shows everything that differs.
            compare("diffsuite.py").and(compare("moresuite.py"))
        });
    let stopped = shell::run(&mut sandbox(&["down"]));
    shell::run(&mut script("down.sh"))?;
    compared.context("some answers differ")?;
    stopped
}
