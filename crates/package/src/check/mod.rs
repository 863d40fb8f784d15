//! Checks of the finished objects: within the package only, never against a cluster.

mod names;
mod objects;
mod pods;
mod references;

pub(crate) use names::{TIMEOUT, WAIT};
use slipway_problem::Problems;

use crate::build::{BuildInputs, PackageBuild};

/// Runs every check.
pub(crate) fn check_build(build: &PackageBuild, inputs: &BuildInputs, problems: &mut Problems) {
    names::check_names(build, problems);
    objects::check_objects(build, inputs, problems);
    pods::check_pods(build, problems);
    references::check_references(build, problems);
}
