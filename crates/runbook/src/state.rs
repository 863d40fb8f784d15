//! The record of what was done, kept in a Secret: what a run that follows may leave out.
//!
//! It holds names, digests, statuses and masked errors; never a value, a manifest or a variable.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use slipway_cluster::{Cluster, ErrorClass, WriteOptions};
use slipway_manifest::{Gvk, ObjectRef, object};

use crate::context::{MANAGER, OWNER_LABEL};
use crate::model::State;

const API_VERSION: &str = "khook.io/state.v1";
const KEY: &str = "record.json";
/// The longest error that is kept.
const LONGEST_ERROR: usize = 2048;
/// How often a write that met another one is tried again.
const CONFLICTS: usize = 5;

/// How a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    Running,
    Ok,
    Failed,
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepStatus {
    Ok,
    Failed,
    Skipped,
}

impl StepStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// What is known of one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_hash: Option<String>,
    /// Absent until it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<StepStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
}

impl Entry {
    /// A step that has not ended.
    pub(crate) fn seeded(name: &str, kind: &str, input_hash: Option<String>) -> Self {
        Self {
            name: name.to_owned(),
            kind: kind.to_owned(),
            input_hash,
            status: None,
            attempts: None,
            duration_ms: None,
            error: None,
            skip_reason: None,
            finished_at: None,
        }
    }

    /// Whether a run that follows may leave the step out.
    pub(crate) fn proves(&self, input_hash: Option<&str>) -> bool {
        self.status == Some(StepStatus::Ok)
            && input_hash.is_some()
            && self.input_hash.as_deref() == input_hash
    }
}

/// The whole record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    pub api_version: String,
    pub spec_name: String,
    pub spec_hash: String,
    #[serde(default)]
    pub khook_version: String,
    pub run_status: RunState,
    pub started_at: String,
    pub updated_at: String,
    pub steps: Vec<Entry>,
}

impl Record {
    pub(crate) fn new(spec_name: &str, spec_hash: String, now: &str, steps: Vec<Entry>) -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            spec_name: spec_name.to_owned(),
            spec_hash,
            khook_version: env!("CARGO_PKG_VERSION").to_owned(),
            run_status: RunState::Running,
            started_at: now.to_owned(),
            updated_at: now.to_owned(),
            steps,
        }
    }

    pub fn step(&self, name: &str) -> Option<&Entry> {
        self.steps.iter().find(|entry| entry.name == name)
    }

    pub(crate) fn step_mut(&mut self, name: &str) -> Option<&mut Entry> {
        self.steps.iter_mut().find(|entry| entry.name == name)
    }

    /// Whether both say the same about every step and the run.
    pub(crate) fn says_the_same(&self, other: &Self) -> bool {
        self.spec_hash == other.spec_hash
            && self.run_status == other.run_status
            && self.spec_name == other.spec_name
            && self.steps == other.steps
    }
}

/// An error as it may be kept: cut at a character.
pub(crate) fn shortened(error: &str) -> String {
    if error.len() <= LONGEST_ERROR {
        return error.to_owned();
    }
    let mut end = LONGEST_ERROR;
    while !error.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…(truncated)", &error[..end])
}

/// Why the record cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StateError {
    #[error("the record {place} exists and is not managed by khook")]
    Foreign { place: String },
    #[error("the record {place} cannot be read: {why}")]
    Corrupt { place: String, why: String },
    #[error("cannot {action} the record {place}: {error}")]
    Api { place: String, action: &'static str, error: Box<slipway_cluster::Error> },
}

impl StateError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Foreign { .. } => Some("set state.name, or delete that Secret"),
            Self::Corrupt { .. } => Some("delete the Secret; every step then runs again"),
            Self::Api { error, .. } if error.class == ErrorClass::NotFound => {
                Some("state.namespace must exist before the first step runs")
            }
            Self::Api { error, .. } if error.class == ErrorClass::Forbidden => {
                Some("the record needs get, create, update and delete of Secrets in its namespace")
            }
            Self::Api { .. } => None,
        }
    }
}

/// The Secret a record lives in.
#[derive(Debug)]
pub struct Store {
    cluster: Cluster,
    at: ObjectRef,
    /// What was last read or written; none when there is no Secret.
    version: tokio::sync::Mutex<Option<String>>,
}

impl Store {
    pub fn new(cluster: &Cluster, state: &State) -> Self {
        let at = ObjectRef::new(Gvk::new("", "v1", "Secret"), Some(&state.namespace), state.name.as_str());
        Self { cluster: cluster.clone(), at, version: tokio::sync::Mutex::new(None) }
    }

    /// `namespace/name`.
    pub fn place(&self) -> String {
        format!("{}/{}", self.at.namespace.as_deref().unwrap_or_default(), self.at.name)
    }

    fn api(&self, action: &'static str, error: slipway_cluster::Error) -> StateError {
        StateError::Api { place: self.place(), action, error: Box::new(error) }
    }

    /// Reads the record. One of a version nobody knows counts as none.
    pub async fn load(&self) -> Result<Option<Record>, StateError> {
        let mut version = self.version.lock().await;
        let live = self.cluster.get(&self.at).await.map_err(|error| self.api("read", error))?;
        let Some(live) = live else {
            *version = None;
            return Ok(None);
        };
        self.check_owner(&live)?;
        *version = live["metadata"]["resourceVersion"].as_str().map(str::to_owned);
        let corrupt = |why: String| StateError::Corrupt { place: self.place(), why };
        let text = live["data"][KEY].as_str().ok_or_else(|| corrupt(format!("it has no `{KEY}`")))?;
        let bytes = STANDARD.decode(text).map_err(|error| corrupt(error.to_string()))?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|error| corrupt(error.to_string()))?;
        if value["apiVersion"] != API_VERSION {
            return Ok(None);
        }
        serde_json::from_value(value).map(Some).map_err(|error| corrupt(error.to_string()))
    }

    fn check_owner(&self, live: &Value) -> Result<(), StateError> {
        if object::label(live, OWNER_LABEL) == Some(MANAGER) {
            Ok(())
        } else {
            Err(StateError::Foreign { place: self.place() })
        }
    }

    /// Writes the record. Whoever wrote in between loses, unless the Secret is somebody else's now.
    pub async fn write(&self, record: &Record) -> Result<(), StateError> {
        let mut version = self.version.lock().await;
        let options = WriteOptions::manager(MANAGER);
        let mut tries = 0;
        loop {
            let body = self.secret(record, version.as_deref());
            let sent = match *version {
                Some(_) => self.cluster.replace(&self.at, &body, &options).await,
                None => self.cluster.create(&self.at, &body, &options).await,
            };
            let error = match sent {
                Ok(live) => {
                    *version = live["metadata"]["resourceVersion"].as_str().map(str::to_owned);
                    return Ok(());
                }
                Err(error) => error,
            };
            let met = matches!(error.class, ErrorClass::Conflict | ErrorClass::AlreadyExists)
                || (error.class == ErrorClass::NotFound && version.is_some());
            if !met || tries >= CONFLICTS {
                return Err(self.api("write", error));
            }
            tries += 1;
            let live = self.cluster.get(&self.at).await.map_err(|error| self.api("read", error))?;
            *version = match &live {
                Some(live) => {
                    self.check_owner(live)?;
                    live["metadata"]["resourceVersion"].as_str().map(str::to_owned)
                }
                None => None,
            };
        }
    }

    fn secret(&self, record: &Record, version: Option<&str>) -> Value {
        let text = serde_json::to_string(record).unwrap_or_default();
        let mut secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {
                "name": self.at.name, "namespace": self.at.namespace,
                "labels": {OWNER_LABEL: MANAGER},
                "annotations": {
                    "khook.io/run-status": record.run_status,
                    "khook.io/updated-at": record.updated_at,
                },
            },
            "data": {KEY: STANDARD.encode(text)},
        });
        if let Some(version) = version {
            secret["metadata"]["resourceVersion"] = version.into();
        }
        secret
    }

    /// Deletes the record if it is ours.
    pub async fn remove(&self) -> Result<(), StateError> {
        let live = self.cluster.get(&self.at).await.map_err(|error| self.api("read", error))?;
        let Some(live) = live else { return Ok(()) };
        self.check_owner(&live)?;
        let deleted = self.cluster.delete(&self.at, &slipway_cluster::Delete::default()).await;
        deleted.map(drop).map_err(|error| self.api("delete", error))
    }
}
