//! Release units on real programs: a registry, a control plane with its controllers, Helm, and public charts.

use std::process::Command;

use anyhow::{Result, bail};

use super::{built, compare_by_script};
use crate::real::{Parts, Real};
use crate::{charts, peers, shell};

/// Push, pull, tags and indexes with a real registry.
pub fn run_registry() -> Result<()> {
    compare_by_script("unit-registry", "unit_registry.py", &[built()?, peers::docker_registry()?], None)
}

/// The registry, then the scenarios on a real cluster, whose releases real Helm reads. `KILLS` says how many canaries and
/// how many blue-green rollouts are killed.
pub fn run() -> Result<()> {
    run_registry()?;
    let real = Real::start(&shell::target().join("conformance/unit"), Parts::All)?;
    let programs = [built()?, peers::helm()?, real.kubeconfig(), peers::gateway_definitions()?];
    compare_by_script("unit", "units.py", &programs, Some("pyyaml"))
}

/// Binds every image of the charts in the directories `SLIPWAY_CORPUS` lists, and prints what came of it.
pub fn run_images() -> Result<()> {
    let corpus = charts::corpus();
    if corpus.is_empty() {
        bail!("set SLIPWAY_CORPUS to a directory of charts");
    }
    shell::run(Command::new(shell::example("image_bindings")?).args(corpus))
}
