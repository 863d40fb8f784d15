//! The controller's chart on a real cluster: real Helm installs it beside kro's definitions, a real Gitea is promoted through, and
//! everything there is to operate is operated.

use anyhow::Result;

use super::{built, compare_by_script_with};
use crate::gitea::{Gitea, USER};
use crate::real::{Parts, Real};
use crate::{peers, shell};

/// Installs, enforces, promotes, operates and uninstalls.
pub fn run() -> Result<()> {
    let slipway = built()?;
    let gitea = Gitea::start(&peers::cache()?.join("controller-gitea"))?;
    let real = Real::start(&shell::target().join("conformance/controller"), Parts::All)?;
    let programs = [
        slipway,
        peers::helm()?,
        peers::kubectl()?,
        real.kubeconfig(),
        shell::root().join("deploy/chart"),
        peers::kro_definitions()?,
        peers::docker_registry()?,
    ];
    let variables =
        [("GITEA_ROOT", gitea.root.as_str()), ("GITEA_USER", USER), ("GITEA_TOKEN", &gitea.token)];
    compare_by_script_with("controller", "controller/suite.py", &programs, Some("jsonschema"), &variables)
}
