//! Versions and constraints as Helm compares them.

use slipway_go::semver::{Constraints, Version};

/// Returns true if the text is a version, loosely written ones (`1.2`, `v1`) included.
pub(crate) fn is_loose(text: &str) -> bool {
    Version::parse(text).is_ok()
}

/// Returns true if `version` satisfies `constraint`; false if either cannot be read.
pub(crate) fn is_satisfied(constraint: &str, version: &str) -> bool {
    match (Constraints::parse(constraint), Version::parse(version)) {
        (Ok(constraint), Ok(version)) => constraint.check(&version),
        _ => false,
    }
}
