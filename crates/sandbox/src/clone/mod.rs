//! Copying a live cluster's objects into a sandbox, so that what is planned for it can be rehearsed.
//!
//! Reading ([`collect`]) and writing ([`Sandbox::import`]) are apart: the command reads in one process
//! and the sandbox it writes to may be another. [`from_client`] does both.

mod clean;
mod import;
mod read;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::sandbox::Sandbox;
pub use read::collect;

/// One object by name.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReference {
    pub api_version: String,
    pub kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
}

impl ObjectReference {
    pub fn new(api_version: &str, kind: &str, namespace: &str, name: &str) -> ObjectReference {
        ObjectReference {
            api_version: api_version.into(),
            kind: kind.into(),
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    pub(crate) fn of(object: &Value) -> ObjectReference {
        let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
        ObjectReference {
            api_version: text(&object["apiVersion"]),
            kind: text(&object["kind"]),
            namespace: text(&object["metadata"]["namespace"]),
            name: text(&object["metadata"]["name"]),
        }
    }
}

impl std::fmt::Display for ObjectReference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ", self.kind)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// The treatment of the values of Secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SecretHandling {
    /// Keys stay, values become placeholders.
    #[default]
    Replaced,
    Copied,
}

/// The selection of objects to copy.
#[derive(Debug, Clone, Default)]
pub struct CloneSelection {
    /// Only these namespaces; all but the system's own when empty. Cluster-scoped objects are copied
    /// only when no namespace is named.
    pub namespaces: Vec<String>,
    /// Only objects this label selector matches.
    pub labels: Option<String>,
    /// Only these kinds: `Deployment`, `deployments`, `deployments.apps` or a short name; all when empty.
    pub kinds: Vec<String>,
    /// Exactly these objects and what they need around them, instead of everything the other members
    /// select.
    pub objects: Option<Vec<ObjectReference>>,
    pub secrets: SecretHandling,
}

impl CloneSelection {
    /// A list of objects with their definitions, namespaces and surroundings: service accounts, quotas,
    /// limits and classes that decide whether their pods can run. Objects that do not exist are fine.
    pub fn of_objects(objects: impl IntoIterator<Item = ObjectReference>) -> CloneSelection {
        CloneSelection { objects: Some(objects.into_iter().collect()), ..CloneSelection::default() }
    }

    pub fn with_secrets(mut self, secrets: SecretHandling) -> CloneSelection {
        self.secrets = secrets;
        self
    }
}

/// The reason an object is not copied.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SkipReason {
    /// The simulated controller of its owner makes it anew.
    MadeAnew {
        owner: String,
    },
    Other(String),
}

impl<T: Into<String>> From<T> for SkipReason {
    fn from(text: T) -> SkipReason {
        SkipReason::Other(text.into())
    }
}

/// An object that was not copied, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SkippedObject {
    #[serde(flatten)]
    pub object: ObjectReference,
    pub reason: String,
    /// The owner whose simulated controller makes it anew, where that is the reason.
    #[serde(rename = "madeAnewBy", default, skip_serializing_if = "Option::is_none")]
    pub made_anew_by: Option<String>,
}

/// The objects copied, and those that were not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CloneReport {
    /// Number of objects of each kind in the sandbox.
    pub copied: BTreeMap<String, usize>,
    /// Objects that the sandbox creates by itself, or that could not be written.
    pub skipped: Vec<SkippedObject>,
    /// References that name nothing in the cluster.
    pub absent: Vec<ObjectReference>,
    /// Kinds that could not be read, and why.
    pub unreadable: BTreeMap<String, String>,
    /// Number of Secrets whose values were replaced.
    pub secrets_replaced: usize,
    /// Number of finalizers left out because nobody in the sandbox would ever remove them.
    pub finalizers_dropped: usize,
}

impl CloneReport {
    /// Number of objects copied.
    pub fn total_copied(&self) -> usize {
        self.copied.values().sum()
    }

    fn add_skipped(&mut self, object: ObjectReference, reason: SkipReason) {
        let (reason, made_anew_by) = match reason {
            SkipReason::MadeAnew { owner } => (format!("{owner} makes it anew"), Some(owner)),
            SkipReason::Other(reason) => (reason, None),
        };
        self.skipped.push(SkippedObject { object, reason, made_anew_by });
    }
}

/// Objects read from a cluster, cleaned of what is the cluster's own.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct CollectedObjects {
    pub objects: Vec<Value>,
    #[serde(default)]
    pub report: CloneReport,
}

/// The progress of reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CloneProgress {
    /// The cluster serves this many kinds that may hold something.
    Kinds(usize),
    /// All objects of one kind were read.
    Read { resource: String, objects: usize },
}

/// The reason nothing could be copied.
#[derive(Debug, thiserror::Error)]
pub enum CloneError {
    #[error("ask the cluster what it serves: {0}")]
    Discovery(#[source] Box<kube::Error>),
    #[error("the cluster serves no `{kind}`")]
    UnknownKind { kind: String, known: Vec<String> },
    #[error("read {what}: {why}")]
    Read {
        what: String,
        #[source]
        why: Box<kube::Error>,
    },
}

/// Copies what `selection` says from the cluster behind `source` into `sandbox`.
pub async fn from_client(
    sandbox: &Sandbox,
    source: kube::Client,
    selection: &CloneSelection,
) -> Result<CloneReport, CloneError> {
    let collected = collect(&source, selection, &mut |_| {}).await?;
    Ok(sandbox.import(collected))
}
