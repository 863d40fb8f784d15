//! The stages of a release, in the order they pass.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A stretch of a plan: all of one is over before the next begins.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// The new revision is recorded.
    Init,
    PrePreUninstall,
    /// Definitions and namespaces.
    PrePreInstall,
    /// Hooks before.
    PreInstall,
    PreUninstall,
    /// Everything else; webhook configurations last, once all of it is ready.
    Install,
    Uninstall,
    /// Hooks after.
    PostInstall,
    PostUninstall,
    /// Definitions and namespaces go.
    PostPostUninstall,
    /// The revision is recorded as done.
    Final,
}

impl Stage {
    /// The stage in which what succeeded in this one is cleaned up.
    pub fn cleanup_stage(self) -> Stage {
        match self {
            Self::PrePreInstall | Self::PreInstall => Self::PreUninstall,
            Self::Install => Self::Uninstall,
            Self::PostInstall => Self::PostUninstall,
            other => other,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::PrePreUninstall => "pre-pre-uninstall",
            Self::PrePreInstall => "pre-pre-install",
            Self::PreInstall => "pre-install",
            Self::PreUninstall => "pre-uninstall",
            Self::Install => "install",
            Self::Uninstall => "uninstall",
            Self::PostInstall => "post-install",
            Self::PostUninstall => "post-uninstall",
            Self::PostPostUninstall => "post-post-uninstall",
            Self::Final => "final",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
