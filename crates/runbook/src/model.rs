//! A runbook after every rule was checked.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Map, Value};
use slipway_problem::Location;
use slipway_source::{ChartReference, RepositoryLogin, SourceReference};

pub use crate::steps::Action;

/// A whole document.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    pub name: String,
    pub state: Option<State>,
    pub steps: Vec<Step>,
    /// The document as JSON, for its hash.
    pub json: Value,
}

impl Document {
    /// Names every namespace a step works in, or the record is kept in.
    pub fn namespaces(&self) -> BTreeSet<&str> {
        let record = self.state.iter().map(|state| state.namespace.as_str());
        let steps = self.steps.iter().filter_map(|step| step.action.as_step().namespace());
        record.chain(steps).collect()
    }
}

/// The place the record of what was done is kept in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub namespace: String,
    pub name: String,
    /// True if other credentials for the same source leave a step's input the same.
    pub ignore_auth: bool,
}

/// One node of the graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub name: String,
    pub at: Location,
    pub needs: Vec<String>,
    pub when: Option<When>,
    pub timeout: Duration,
    pub retries: u32,
    pub retry_delay: Duration,
    pub on_error: OnError,
    pub action: Action,
    /// The action's block as JSON, for the step's hash.
    pub block: Value,
}

/// The condition of a step and what came out of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct When {
    /// As it is shown: without the values of secret variables.
    pub expression: String,
    pub holds: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    #[default]
    Fail,
    Continue,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Helm {
    pub chart: ChartSource,
    pub release: String,
    pub namespace: String,
    pub create_namespace: bool,
    pub atomic: bool,
    pub wait: bool,
    pub skip_if_installed: bool,
    pub values: Map<String, Value>,
    pub values_from: Vec<ValuesSource>,
}

/// The origin of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChartSource {
    Repo { url: String, name: String, version: Option<String>, auth: Option<Auth> },
    Oci { reference: String, version: Option<String>, auth: Option<Auth> },
    Path(String),
}

impl ChartSource {
    /// The chart by its path, or as a fetcher is asked for it.
    pub(crate) fn reference(&self) -> SourceReference {
        let (name, repository, version, auth) = match self {
            Self::Repo { url, name, version, auth } => (name, Some(url.clone()), version, auth),
            Self::Oci { reference, version, auth } => (reference, None, version, auth),
            Self::Path(path) => return SourceReference::Path(path.into()),
        };
        let login = auth
            .as_ref()
            .map(|auth| RepositoryLogin { username: auth.username.clone(), password: auth.password.clone() });
        let version = version.clone();
        SourceReference::Chart(ChartReference { name: name.clone(), repository, version, login })
    }
}

impl ChartSource {
    /// The credentials it is fetched with.
    pub(crate) fn auth(&self) -> Option<&Auth> {
        match self {
            Self::Repo { auth, .. } | Self::Oci { auth, .. } => auth.as_ref(),
            Self::Path(_) => None,
        }
    }

    /// The same with other credentials.
    pub(crate) fn with_auth(mut self, credentials: Auth) -> Self {
        match &mut self {
            Self::Repo { auth, .. } | Self::Oci { auth, .. } => *auth = Some(credentials),
            Self::Path(_) => {}
        }
        self
    }
}

/// Credentials; never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Auth {
    pub username: String,
    pub password: String,
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Auth(***)")
    }
}

impl std::fmt::Display for ChartSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Repo { name, version, .. } => {
                write!(f, "{name}@{}", version.as_deref().unwrap_or("latest"))
            }
            Self::Oci { reference, version: Some(version), .. } => write!(f, "{reference}:{version}"),
            Self::Oci { reference, .. } => f.write_str(reference),
            Self::Path(path) => f.write_str(path),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValuesSource {
    File(String),
    Url(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Apply {
    pub manifests: Vec<ManifestSource>,
    pub namespace: Option<String>,
    pub create_namespace: bool,
    pub skip_if_exists: bool,
    pub server_side: bool,
    /// In the grammar of [`Wait::until`], without `delete`.
    pub wait_for: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManifestSource {
    Inline { text: String, at: Location },
    File(String),
    Url(String),
    Kustomize(String),
}

/// The treatment of something to be deleted that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbsentObject {
    Ignored,
    Refused,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delete {
    Manifests { manifests: Vec<ManifestSource>, namespace: Option<String>, absence: AbsentObject },
    Resource { selection: Selection, absence: AbsentObject },
    Release { release: String, namespace: String, absence: AbsentObject },
}

/// Objects named on the command line's way: a type, or a type and a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    pub kind: String,
    pub name: Option<String>,
    /// None means the namespace `default`.
    pub namespace: Option<String>,
    pub all_namespaces: bool,
    pub selector: Option<String>,
    pub field_selector: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Patch {
    pub kind: String,
    pub name: String,
    pub namespace: String,
    pub how: PatchType,
    pub body: Value,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PatchType {
    #[default]
    Strategic,
    Merge,
    Json,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// `condition=…`, `jsonpath=…` or `delete`.
    pub until: String,
    pub on: Selection,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollout {
    pub what: RolloutVerb,
    pub kind: WorkloadKind,
    pub name: String,
    pub namespace: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutVerb {
    Restart,
    Status,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadKind {
    Deployment,
    DaemonSet,
    StatefulSet,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    pub image: String,
    pub command: Vec<String>,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
    pub namespace: String,
    pub create_namespace: bool,
    pub service_account: Option<String>,
    pub skip_if_succeeded: bool,
}
