//! ChangeWindow: times in which nothing may be promoted.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::conditions::{Condition, conditions_schema};
use super::resource::{KindScope, KindSpec, Resource};

/// A time in which nothing may be promoted.
pub type ChangeWindow = Resource<ChangeWindowSpec>;

impl KindSpec for ChangeWindowSpec {
    type Status = ChangeWindowStatus;
    const KIND: &'static str = "ChangeWindow";
    const PLURAL: &'static str = "changewindows";
    const SCOPE: KindScope = KindScope::Cluster;
    const SHORT_NAMES: &'static [&'static str] = &["cw"];
}

/// A single blackout, or the hours of a week in which changes are allowed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangeWindowSpec {
    #[serde(rename = "type")]
    pub kind: WindowType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<WindowSchedule>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The pipelines it holds, with globs; all when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pipelines: Vec<String>,
    /// The environments it holds, with globs; all when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environments: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WindowType {
    /// Active from `start` to `end`.
    #[default]
    Blackout,
    /// Active outside of the allowed hours.
    Recurring,
}

/// The hours of a week in which changes are allowed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WindowSchedule {
    /// A name of the IANA database; `UTC` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_days: Vec<WeekDay>,
    /// `09:00-17:00`; may pass midnight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^([01][0-9]|2[0-3]):[0-5][0-9]-(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$"))]
    pub allowed_hours: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum WeekDay {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ChangeWindowStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    pub active: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_transition_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
}
