//! The result of a measurement, or of its absence.

use jiff::Timestamp;

use super::condition::{ConditionError, MetricCondition};
use crate::kinds::{MetricCheckSpec, MetricResult, MetricResultStatus, NoDataBehavior};

/// The conditions of a check.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricConditions {
    success: Option<MetricCondition>,
    failure: Option<MetricCondition>,
}

impl MetricConditions {
    /// Reads the conditions of a check; gives every problem there is.
    pub fn parse(spec: &MetricCheckSpec) -> Result<Self, Vec<ConditionError>> {
        let parse = |text: &Option<String>| text.as_deref().map(str::parse::<MetricCondition>).transpose();
        match (parse(&spec.success_condition), parse(&spec.failure_condition)) {
            (Ok(success), Ok(failure)) => Ok(Self { success, failure }),
            (success, failure) => Err(success.err().into_iter().chain(failure.err()).collect()),
        }
    }

    /// A value that meets the failure condition fails, whatever else it meets. Without a success condition every other passes.
    fn judge(&self, value: f64) -> MetricResult {
        if self.failure.is_some_and(|condition| condition.holds(value)) {
            MetricResult::Fail
        } else if self.success.is_none_or(|condition| condition.holds(value)) {
            MetricResult::Pass
        } else {
            MetricResult::Inconclusive
        }
    }
}

/// The result after a query: `answer` is the value, or why there is none.
pub fn judge_answer(
    spec: &MetricCheckSpec,
    conditions: &MetricConditions,
    answer: Result<f64, String>,
    before: &MetricResultStatus,
    now: Timestamp,
) -> MetricResultStatus {
    match answer {
        Ok(value) => judge_value(spec, conditions, value, before, now),
        Err(why) => judge_absence(spec.no_data_behavior, conditions, &why, before, now),
    }
}

fn judge_value(
    spec: &MetricCheckSpec,
    conditions: &MetricConditions,
    value: f64,
    before: &MetricResultStatus,
    now: Timestamp,
) -> MetricResultStatus {
    let mut result = conditions.judge(value);
    let successes = if result == MetricResult::Pass { before.successes.saturating_add(1) } else { 0 };
    let needed = spec.successes.unwrap_or(1);
    let mut reason = match (result, &conditions.success, &conditions.failure) {
        (MetricResult::Fail, _, Some(condition)) => format!("{value} is {condition}: failure"),
        (MetricResult::Pass, Some(condition), _) => format!("{value} is {condition}"),
        (MetricResult::Inconclusive, Some(condition), _) => format!("{value} is not {condition}"),
        _ => format!("{value}"),
    };
    if result == MetricResult::Pass && successes < needed {
        result = MetricResult::Inconclusive;
        reason = format!("{reason}: {successes} of {needed} in a row");
    }
    MetricResultStatus {
        last_value: Some(value.to_string()),
        value: Some(value),
        result: Some(result),
        reason: Some(reason),
        last_evaluated_at: Some(now),
        measured_at: Some(now),
        stale: false,
        assumed: false,
        successes,
    }
}

fn judge_absence(
    behavior: NoDataBehavior,
    conditions: &MetricConditions,
    why: &str,
    before: &MetricResultStatus,
    now: Timestamp,
) -> MetricResultStatus {
    match behavior {
        NoDataBehavior::Hold => MetricResultStatus {
            result: before.result.or(Some(MetricResult::Inconclusive)),
            reason: Some(format!("{why}; the result before stands")),
            last_evaluated_at: Some(now),
            stale: true,
            successes: 0,
            ..before.clone()
        },
        NoDataBehavior::Pass => MetricResultStatus {
            last_value: None,
            // Gates compare numbers: the one that is just good enough stands for a pass.
            value: conditions.success.map(|condition| condition.nearest()),
            result: Some(MetricResult::Pass),
            reason: Some(format!("{why}; counts as a pass")),
            last_evaluated_at: Some(now),
            measured_at: Some(now),
            stale: false,
            assumed: true,
            successes: before.successes,
        },
        NoDataBehavior::Fail => MetricResultStatus {
            result: Some(MetricResult::Fail),
            reason: Some(format!("{why}; counts as a failure")),
            last_evaluated_at: Some(now),
            ..MetricResultStatus::default()
        },
    }
}
