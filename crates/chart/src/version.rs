//! Versions and constraints as Helm compares them.

use slipway_go::semver::{Constraints, Version};

/// Whether the text is a version, loosely written ones (`1.2`, `v1`) included.
pub(crate) fn is_loose(text: &str) -> bool {
    Version::parse(text).is_ok()
}

/// Whether `version` lies in `constraint`; nothing that cannot be read satisfies anything.
pub(crate) fn is_satisfied(constraint: &str, version: &str) -> bool {
    match (Constraints::parse(constraint), Version::parse(version)) {
        (Ok(constraint), Ok(version)) => constraint.check(&version),
        _ => false,
    }
}
