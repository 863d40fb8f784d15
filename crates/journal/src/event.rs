//! One line of a run's log.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::digest;

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum EventType {
    RunStarted,
    RunResumed,
    NodeQueued,
    NodeRunning,
    NodePhase,
    NodeFailed,
    NodeRetryScheduled,
    NodeSucceeded,
    NodeBlocked,
    NodeSkipped,
    NodeCanceled,
    NodeRecovered,
    NodeSecretResolved,
    RunConcurrency,
    RunCompleted,
    RunInterrupted,
    /// A type of a later version; it changes nothing.
    #[serde(other)]
    Unknown,
}

/// A line of `events.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunEvent {
    pub seq: u64,
    pub ts: Timestamp,
    pub run_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    #[serde(rename = "type")]
    pub kind: EventType,
    #[serde(default)]
    pub attempt: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorRecord>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub fields: Map<String, Value>,
    /// The digest of the line before, so that no line can change or go unnoticed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prev_digest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// The failure of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ErrorRecord {
    pub class: String,
    pub message: String,
    pub digest: String,
}

/// A line stays below the size a single write puts down whole.
const LONGEST: usize = 16 << 10;

impl RunEvent {
    pub fn new(kind: EventType, node: Option<&str>, attempt: u32) -> Self {
        Self {
            seq: 0,
            ts: Timestamp::UNIX_EPOCH,
            run_id: String::new(),
            node_id: node.map(str::to_owned),
            kind,
            attempt,
            message: None,
            error: None,
            fields: Map::new(),
            prev_digest: None,
            digest: None,
        }
    }

    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(cut(message.into()));
        self
    }

    pub fn error(mut self, mut error: ErrorRecord) -> Self {
        error.message = cut(error.message);
        self.error = Some(error);
        self
    }

    pub fn field(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(key.to_owned(), value.into());
        self
    }

    /// Tells that it must be on disk before anything else happens.
    pub fn is_boundary(&self) -> bool {
        !matches!(
            self.kind,
            // A node that never started is planned whether its line survives or not.
            EventType::NodeQueued
                | EventType::NodePhase
                | EventType::NodeRetryScheduled
                | EventType::NodeBlocked
                | EventType::NodeSkipped
                | EventType::RunConcurrency
        )
    }

    pub fn seal(&mut self) {
        self.digest = None;
        self.digest = Some(self.computed());
    }

    /// Tells that it is what was written; lines without a digest are trusted.
    pub fn is_whole(&self) -> bool {
        let Some(digest) = &self.digest else { return true };
        let mut bare = self.clone();
        bare.digest = None;
        bare.computed() == *digest
    }

    fn computed(&self) -> String {
        digest::json(&serde_json::to_value(self).unwrap_or_default())
    }
}

fn cut(text: String) -> String {
    if text.len() <= LONGEST {
        return text;
    }
    let end = text.floor_char_boundary(LONGEST);
    format!("{}…[truncated {} bytes]", &text[..end], text.len() - end)
}
