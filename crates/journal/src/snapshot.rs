//! A run as one document in khook's layout: names, hashes, statuses and masked errors, never a value.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::record_store::{RecordDocument, RecordStore, StoreError};
use crate::resume;
use crate::summary::{NodeStatus, RunStatus};

/// The version of the layout. A document of another one counts as none.
const API_VERSION: &str = "khook.io/state.v1";
/// The longest error that is kept.
const LONGEST_ERROR: usize = 2048;

/// Statuses in the words of khook.
pub mod words {
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    use super::{NodeStatus, RunStatus};

    /// The words for the end of a node, as [`node_word`] returns them.
    #[derive(Clone, Copy, Debug, schemars::JsonSchema)]
    #[schemars(rename_all = "lowercase")]
    pub enum NodeWord {
        Ok,
        Failed,
        Skipped,
        Running,
    }

    /// The words for where a run stands, as [`run_word`] returns them.
    #[derive(Clone, Copy, Debug, schemars::JsonSchema)]
    #[schemars(rename_all = "lowercase")]
    pub enum RunWord {
        Running,
        Ok,
        Failed,
    }

    /// Returns the word for the end of a node.
    pub fn node_word(status: NodeStatus) -> &'static str {
        match status {
            NodeStatus::Succeeded => "ok",
            NodeStatus::Failed | NodeStatus::Canceled => "failed",
            NodeStatus::Skipped | NodeStatus::Blocked => "skipped",
            NodeStatus::Planned | NodeStatus::Queued | NodeStatus::Running | NodeStatus::Retrying => {
                "running"
            }
        }
    }

    /// Returns the word for where a run stands.
    pub fn run_word(status: RunStatus) -> &'static str {
        match status {
            RunStatus::Running => "running",
            RunStatus::Succeeded => "ok",
            RunStatus::Failed | RunStatus::Canceled | RunStatus::Interrupted => "failed",
        }
    }

    /// Writes the status of a node that ended.
    pub fn serialize_node<S: Serializer>(status: &NodeStatus, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(node_word(*status))
    }

    /// The status of a node that may not have ended.
    pub(super) mod optional_node {
        use super::*;

        pub(in super::super) fn serialize<S: Serializer>(
            status: &Option<NodeStatus>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            match status {
                Some(status) => serialize_node(status, serializer),
                None => serializer.serialize_none(),
            }
        }

        pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<NodeStatus>, D::Error> {
            let word = Option::<String>::deserialize(deserializer)?;
            let known = [NodeStatus::Succeeded, NodeStatus::Failed, NodeStatus::Skipped];
            let unknown = |word: &str| de::Error::unknown_variant(word, &["ok", "failed", "skipped"]);
            word.map(|word| {
                known.into_iter().find(|status| node_word(*status) == word).ok_or_else(|| unknown(&word))
            })
            .transpose()
        }
    }

    /// The status of a run.
    pub(super) mod run {
        use super::*;

        pub(in super::super) fn serialize<S: Serializer>(
            status: &RunStatus,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            serializer.serialize_str(run_word(*status))
        }

        pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<RunStatus, D::Error> {
            let word = String::deserialize(deserializer)?;
            let known = [RunStatus::Running, RunStatus::Succeeded, RunStatus::Failed];
            known
                .into_iter()
                .find(|status| run_word(*status) == word)
                .ok_or_else(|| de::Error::unknown_variant(&word, &["running", "ok", "failed"]))
        }
    }
}

/// A node of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSnapshot {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_hash: Option<String>,
    /// Absent until it ended.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "words::optional_node")]
    #[schemars(with = "Option<words::NodeWord>")]
    pub status: Option<NodeStatus>,
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

impl NodeSnapshot {
    /// Makes the entry of a node that has not ended.
    pub fn new(name: &str, kind: &str, input_hash: Option<String>) -> Self {
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

    /// Tells that a run that follows may leave the node out.
    pub fn proves(&self, input_hash: Option<&str>) -> bool {
        self.status.is_some_and(|status| resume::is_proven(status, self.input_hash.as_deref(), input_hash))
    }

    /// Keeps an error, cut at a character where it is too long.
    pub fn set_error(&mut self, error: Option<&str>) {
        self.error = error.map(|error| {
            if error.len() <= LONGEST_ERROR {
                return error.to_owned();
            }
            format!("{}…(truncated)", &error[..error.floor_char_boundary(LONGEST_ERROR)])
        });
    }
}

/// A run and its nodes, as far as a run that follows has to know them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunSnapshot {
    pub api_version: String,
    pub spec_name: String,
    pub spec_hash: String,
    #[serde(default)]
    pub khook_version: String,
    #[serde(with = "words::run")]
    #[schemars(with = "words::RunWord")]
    pub run_status: RunStatus,
    pub started_at: String,
    pub updated_at: String,
    pub steps: Vec<NodeSnapshot>,
}

impl RunSnapshot {
    /// Starts the snapshot of a run that is under way; `tool_version` is the writer's.
    pub fn new(
        spec_name: &str,
        spec_hash: String,
        tool_version: &str,
        now: &str,
        steps: Vec<NodeSnapshot>,
    ) -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            spec_name: spec_name.to_owned(),
            spec_hash,
            khook_version: tool_version.to_owned(),
            run_status: RunStatus::Running,
            started_at: now.to_owned(),
            updated_at: now.to_owned(),
            steps,
        }
    }

    pub fn step(&self, name: &str) -> Option<&NodeSnapshot> {
        self.steps.iter().find(|entry| entry.name == name)
    }

    pub fn step_mut(&mut self, name: &str) -> Option<&mut NodeSnapshot> {
        self.steps.iter_mut().find(|entry| entry.name == name)
    }

    /// Tells that both say the same about every node and the run, whenever they were written.
    pub fn says_the_same(&self, other: &Self) -> bool {
        self.spec_hash == other.spec_hash
            && self.run_status == other.run_status
            && self.spec_name == other.spec_name
            && self.steps == other.steps
    }

    /// Reads a snapshot from its store; one of a version nobody knows counts as none.
    pub async fn load(store: &dyn RecordStore) -> Result<Option<Self>, StoreError> {
        let Some(content) = store.load().await? else { return Ok(None) };
        let corrupt =
            |error: serde_json::Error| StoreError::Corrupt { place: store.place(), why: error.to_string() };
        let value: Value = serde_json::from_slice(&content).map_err(corrupt)?;
        if value["apiVersion"] != API_VERSION {
            return Ok(None);
        }
        serde_json::from_value(value).map(Some).map_err(corrupt)
    }

    /// Writes the snapshot to its store.
    pub async fn save(&self, store: &dyn RecordStore) -> Result<(), StoreError> {
        let content = serde_json::to_vec(self).unwrap_or_default();
        let annotations = [
            ("khook.io/run-status", words::run_word(self.run_status)),
            ("khook.io/updated-at", self.updated_at.as_str()),
        ];
        let annotations = annotations.map(|(key, value)| (key.to_owned(), value.to_owned()));
        store.save(&RecordDocument { content, annotations: annotations.into() }).await
    }
}
