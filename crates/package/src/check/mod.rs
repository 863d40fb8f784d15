//! Checks of the finished objects: within the package only, never against a cluster.

mod names;
mod objects;
mod pods;
mod references;

pub(crate) use names::{TIMEOUT, WAIT};
use slipway_problem::Problems;

use crate::build::{Build, Inputs};

/// Runs every check.
pub(crate) fn check(build: &Build, inputs: &Inputs, problems: &mut Problems) {
    names::check(build, problems);
    objects::check(build, inputs, problems);
    pods::check(build, problems);
    references::check(build, problems);
}
