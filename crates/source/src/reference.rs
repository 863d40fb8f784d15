//! References: a source as users write it, here or elsewhere.

use std::fmt;
use std::path::{Path, PathBuf};

/// A source as a user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceReference {
    /// A file or directory on this machine.
    Path(PathBuf),
    /// A chart of a repository, a registry or an address.
    Chart(ChartReference),
}

impl SourceReference {
    /// Tells a path from a chart that is kept elsewhere: an address and anything with a repository is elsewhere, and
    /// so is `REPO/NAME` where there is no such path.
    pub fn parse(text: &str, repository: Option<&str>, version: Option<&str>) -> Self {
        let path = Path::new(text);
        let has_slash = text.contains('/') && !text.starts_with(['.', '/']);
        let is_elsewhere = text.contains("://") || repository.is_some() || has_slash && !path.exists();
        if !is_elsewhere {
            return Self::Path(path.to_owned());
        }
        Self::Chart(ChartReference {
            name: text.to_owned(),
            repository: repository.map(str::to_owned),
            version: version.map(str::to_owned),
            login: None,
        })
    }
}

/// A chart that is not on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChartReference {
    /// `REPO/NAME`, `oci://…`, an address, or a name in [`ChartReference::repository`].
    pub name: String,
    /// The address of the repository.
    pub repository: Option<String>,
    /// A version or a constraint; the newest release if none.
    pub version: Option<String>,
    pub login: Option<RepositoryLogin>,
}

impl fmt::Display for ChartReference {
    /// Prints `name@version` of a repository's chart, and a registry's as it is named there.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = shown_address(&self.name);
        match (&self.repository, &self.version) {
            (Some(_), version) => write!(f, "{name}@{}", version.as_deref().unwrap_or("latest")),
            (None, Some(version)) => write!(f, "{name}:{version}"),
            (None, None) => f.write_str(&name),
        }
    }
}

/// A user of a repository or registry.
#[derive(Clone, PartialEq, Eq)]
pub struct RepositoryLogin {
    pub username: String,
    pub password: String,
}

impl fmt::Debug for RepositoryLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RepositoryLogin").field("username", &self.username).finish_non_exhaustive()
    }
}

/// An address as it may be printed: without a user and a password.
pub fn shown_address(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    match authority.rfind('@') {
        Some(end) => format!("{scheme}://{}", &rest[end + 1..]),
        None => url.to_owned(),
    }
}
