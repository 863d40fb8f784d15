//! Identities of objects (group, version, kind, namespace and name) and their comparison.

use std::fmt;

use crate::schema;

/// Group, version and kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Gvk {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
}

impl Gvk {
    pub(crate) fn new(api_version: &str, kind: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned() }
    }

    /// Returns true if a pattern covers this kind; empty parts of the pattern mean any.
    pub(crate) fn is_selected_by(&self, pattern: &Gvk) -> bool {
        (pattern.group.is_empty() || pattern.group == self.group)
            && (pattern.version.is_empty() || pattern.version == self.version)
            && (pattern.kind.is_empty() || pattern.kind == self.kind)
    }

    pub(crate) fn is_cluster_scoped(&self) -> bool {
        schema::is_cluster_scoped(self)
    }
}

impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.group.as_str(), self.version.as_str()) {
            ("", "") => f.write_str(&self.kind),
            ("", version) => write!(f, "{version} {}", self.kind),
            (group, version) => write!(f, "{group}/{version} {}", self.kind),
        }
    }
}

/// The full identity of one object at one moment of a build.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ResourceId {
    pub(crate) gvk: Gvk,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// The namespace an absent one stands for in every comparison.
pub(crate) const DEFAULT_NAMESPACE: &str = "default";

impl ResourceId {
    /// The namespace used in comparisons: none for cluster-scoped kinds, `default` for absent ones.
    pub(crate) fn effective_namespace(&self) -> &str {
        if self.gvk.is_cluster_scoped() {
            ""
        } else if self.namespace.is_empty() {
            DEFAULT_NAMESPACE
        } else {
            &self.namespace
        }
    }

    pub(crate) fn same_namespace(&self, other: &ResourceId) -> bool {
        self.effective_namespace() == other.effective_namespace()
    }

    /// Returns true if both name the same object.
    pub(crate) fn same_as(&self, other: &ResourceId) -> bool {
        self.name == other.name && self.gvk == other.gvk && self.same_namespace(other)
    }

    /// A form that is equal exactly when [`Id::same_as`] holds.
    pub(crate) fn key(&self) -> ResourceId {
        ResourceId {
            gvk: self.gvk.clone(),
            namespace: self.effective_namespace().to_owned(),
            name: self.name.clone(),
        }
    }
}

impl fmt::Display for ResourceId {
    /// Prints `apps/v1 Deployment namespace/name`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{} {}", self.gvk, self.name)
        } else {
            write!(f, "{} {}/{}", self.gvk, self.namespace, self.name)
        }
    }
}
