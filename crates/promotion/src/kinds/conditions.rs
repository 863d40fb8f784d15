//! Conditions of a status: a list with one entry a type.

use jiff::Timestamp;
use schemars::{Schema, SchemaGenerator};
pub use slipway_kro::api::{Condition, ConditionStatus};

/// A condition to set, without the moment it came about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCondition<'a> {
    pub kind: &'a str,
    pub status: ConditionStatus,
    pub reason: &'a str,
    pub message: String,
    pub observed_generation: i64,
}

/// Sets a condition. The moment of the last transition is kept unless the status changes.
pub fn set_condition(conditions: &mut Vec<Condition>, new: NewCondition<'_>, now: Timestamp) {
    let known = conditions.iter_mut().find(|known| known.kind == new.kind);
    let since = known.as_ref().filter(|known| known.status == new.status);
    let last_transition_time =
        since.map_or_else(|| now.to_string(), |known| known.last_transition_time.clone());
    let condition = Condition {
        kind: new.kind.to_owned(),
        status: new.status,
        reason: new.reason.to_owned(),
        message: new.message,
        observed_generation: new.observed_generation,
        last_transition_time,
    };
    match known {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
}

/// Removes a condition that no longer says anything.
pub fn remove_condition(conditions: &mut Vec<Condition>, kind: &str) {
    conditions.retain(|condition| condition.kind != kind);
}

/// Finds a condition by its type.
pub fn find_condition<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

/// The schema of a list of conditions.
pub(crate) fn conditions_schema(_: &mut SchemaGenerator) -> Schema {
    slipway_kro::conditions_schema().try_into().unwrap_or_default()
}
