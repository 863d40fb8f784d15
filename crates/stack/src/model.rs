//! The content of `stack.yaml` and `release.yaml`, each value with its place.

use std::time::Duration;

use serde_json::Value;
use slipway_problem::Location;

/// A value and where it is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Located<T> {
    pub value: T,
    pub at: Location,
}

/// One `stack.yaml`.
#[derive(Clone, Debug, Default)]
pub struct StackFile {
    /// Its directory, relative to the root with `/`; empty for the root itself.
    pub dir: String,
    /// Its path, relative to the root.
    pub path: String,
    pub name: Option<Located<String>>,
    pub default_profile: Option<Located<String>>,
    pub defaults: Settings,
    /// In the order of the file.
    pub profiles: Vec<(String, Settings)>,
    pub runner: Runner,
    pub releases: Vec<Declaration>,
}

impl StackFile {
    /// The settings the profile called `name` lays over the defaults.
    pub fn profile(&self, name: &str) -> Option<&Settings> {
        self.profiles.iter().find(|(known, _)| known == name).map(|(_, settings)| settings)
    }
}

/// The root's settings for runs, unless the command line says otherwise.
#[derive(Clone, Debug, Default)]
pub struct Runner {
    pub concurrency: Option<u64>,
    /// Limits of single clusters; an empty name is for every cluster without one.
    pub per_cluster: Vec<(String, u64)>,
}

/// Settings a release may inherit: `defaults`, a profile's overlay, or the release's own words.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub cluster: Option<Located<String>>,
    pub kubeconfig: Option<Located<String>>,
    pub context: Option<Located<String>>,
    pub namespace: Option<Located<String>>,
    pub values: Vec<Located<String>>,
    /// In the order of the file; null deletes what was inherited.
    pub set: Vec<(String, Located<Value>)>,
    pub tags: Vec<Located<String>>,
    pub atomic: Option<Located<bool>>,
    pub wait: Option<Located<bool>>,
    pub create_namespace: Option<Located<bool>>,
    pub apply_timeout: Option<Located<Duration>>,
    pub delete_timeout: Option<Located<Duration>>,
    /// True if inherited values files are dropped here.
    pub reset_values: bool,
    /// True if inherited tags are dropped here.
    pub reset_tags: bool,
}

/// One release as declared, before it inherits anything.
#[derive(Clone, Debug)]
pub struct Declaration {
    /// The directory of the declaring file, relative to the root.
    pub dir: String,
    /// The declaring file, relative to the root.
    pub path: String,
    /// Its place in `releases:`; none in a `release.yaml`.
    pub index: Option<usize>,
    pub at: Location,
    pub name: Located<String>,
    pub chart: Located<String>,
    pub chart_version: Option<Located<String>>,
    pub needs: Vec<Located<String>>,
    pub own: Settings,
}

impl Declaration {
    /// The place as messages name it: `b/stack.yaml#releases[2]`.
    pub fn place(&self) -> String {
        match self.index {
            Some(index) => format!("{}#releases[{index}]", self.path),
            None => self.path.clone(),
        }
    }
}
