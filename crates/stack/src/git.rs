//! Changes as Git tells them, with their mistakes as problems of a selection.

use std::path::Path;

use slipway_git::RangeError;
pub use slipway_git::{Changes, Git, Head, ignores_work_tree};
use slipway_problem::Problem;

/// The files a range changed.
pub(crate) fn changes(git: &Git, root: &Path, range: &str) -> Result<Changes, Problem> {
    git.changes(root, range).map_err(|error| match error {
        RangeError::NoWorkTree { root } => {
            let message = format!("--git-range requires a git work tree (root {})", root.display());
            Problem::error(message).code("ST040")
        }
        error => {
            let problem = Problem::error(format!("git range \"{range}\": {error}")).code("ST040");
            match error {
                RangeError::NotARange => problem.hint("write `origin/main...HEAD`, or one revision"),
                _ => problem,
            }
        }
    })
}
