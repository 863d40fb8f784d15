//! NotificationHook: tells another system of what happens to promotions.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::reference::{SecretRef, any_object_schema};
use super::resource::{KindSpec, Resource, is_false};
use super::supporting::AuditAction;

/// Tells another system of entries of the audit trail, each once.
pub type NotificationHook = Resource<NotificationHookSpec>;

impl KindSpec for NotificationHookSpec {
    type Status = NotificationHookStatus;
    const KIND: &'static str = "NotificationHook";
    const PLURAL: &'static str = "notificationhooks";
    const SHORT_NAMES: &'static [&'static str] = &["nhook"];
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NotificationHookSpec {
    pub webhook: NotificationWebhook,
    /// The actions that are told; all when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<AuditAction>,
    /// The labels of pipelines that are told of; all of the namespace when empty.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(schema_with = "any_object_schema")]
    pub pipeline_selector: Map<String, Value>,
    #[serde(default)]
    pub format: NotificationFormat,
    #[serde(default, skip_serializing_if = "is_false")]
    pub suspend: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NotificationWebhook {
    #[schemars(regex(pattern = r"^https?://.+"), length(max = 2048))]
    pub url: String,
    /// A Secret of the hook's namespace with `Authorization`, `token` or `hmacKey`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NotificationFormat {
    #[default]
    Generic,
    Slack,
    Teams,
    CloudEvents,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NotificationHookStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_sent_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_event: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_message: Option<String>,
    #[serde(skip_serializing_if = "super::pipeline::is_zero")]
    pub failures: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<Timestamp>,
    /// The place in each pipeline's trail up to which everything was told.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub told: BTreeMap<String, u64>,
    /// The hook knows where it began.
    #[serde(skip_serializing_if = "is_false")]
    pub started: bool,
    /// The last deliveries, newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deliveries: Vec<NotificationDelivery>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NotificationDelivery {
    pub event: String,
    pub at: Option<Timestamp>,
    /// The status of the answer; 0 where there was none.
    pub status: u16,
}
