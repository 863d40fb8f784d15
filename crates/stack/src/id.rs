//! A release's place in the world.

use std::fmt;

/// A release's place in the world; prints as `cluster/namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReleaseId {
    pub cluster: String,
    pub namespace: String,
    pub name: String,
}

impl ReleaseId {
    /// Names a release.
    pub fn new(cluster: impl Into<String>, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { cluster: cluster.into(), namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ReleaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.cluster, self.namespace, self.name)
    }
}
