//! The surroundings of a run, handed in by whoever starts it: this crate reads no environment itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};

/// Variables and the home directory of the user. A variable that is empty counts as not set.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: BTreeMap<String, SecretString>,
    home: Option<PathBuf>,
}

impl Environment {
    /// Takes the variables and the home directory.
    pub fn new(variables: impl IntoIterator<Item = (String, String)>, home: Option<PathBuf>) -> Self {
        let variables = variables.into_iter().filter(|(_, value)| !value.is_empty());
        Self { variables: variables.map(|(name, value)| (name, value.into())).collect(), home }
    }

    /// A variable that may be a credential.
    pub fn secret(&self, name: &str) -> Option<&SecretString> {
        self.variables.get(name)
    }

    /// A variable that is a plain setting: an address, a region, a path.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.secret(name).map(ExposeSecret::expose_secret)
    }

    /// The first of several variables that is set.
    pub fn first(&self, names: &[&str]) -> Option<&SecretString> {
        names.iter().find_map(|name| self.secret(name))
    }

    /// A path below the home directory.
    pub fn in_home(&self, path: &str) -> Option<PathBuf> {
        self.home.as_deref().map(|home| home.join(path))
    }

    pub fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// Every variable.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&str, &SecretString)> {
        self.variables.iter().map(|(name, value)| (name.as_str(), value))
    }
}
