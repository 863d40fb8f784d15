//! Reasons a job ends for: completions, back-off limit, deadline, pod failure policy.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::Value;

use super::common::*;
use super::job_indexes::parse_indexes;

/// The reason a job ends for, with the conditions and texts of a real cluster.
pub(super) struct JobEnd {
    pub(super) first: &'static str,
    pub(super) last: &'static str,
    pub(super) reason: &'static str,
    pub(super) message: Cow<'static, str>,
}

pub(super) const REACHED: JobEnd = JobEnd {
    first: "SuccessCriteriaMet",
    last: "Complete",
    reason: "CompletionsReached",
    message: Cow::Borrowed("Reached expected number of succeeded pods"),
};

pub(super) const BACK_OFF: JobEnd = JobEnd {
    first: "FailureTarget",
    last: "Failed",
    reason: "BackoffLimitExceeded",
    message: Cow::Borrowed("Job has reached the specified backoff limit"),
};

pub(super) const DEADLINE: JobEnd = JobEnd {
    first: "FailureTarget",
    last: "Failed",
    reason: "DeadlineExceeded",
    message: Cow::Borrowed("Job was active longer than specified deadline"),
};

pub(super) const FAILED_INDEXES: JobEnd = JobEnd {
    first: "FailureTarget",
    last: "Failed",
    reason: "FailedIndexes",
    message: Cow::Borrowed("Job has failed indexes"),
};

pub(super) const TOO_MANY_INDEXES: JobEnd = JobEnd {
    first: "FailureTarget",
    last: "Failed",
    reason: "MaxFailedIndexesExceeded",
    message: Cow::Borrowed("Job has exceeded the specified maximal number of failed indexes"),
};

const SUCCESS_POLICY: &str = "SuccessPolicy";

fn by_success(message: String) -> JobEnd {
    JobEnd { first: REACHED.first, last: REACHED.last, reason: SUCCESS_POLICY, message: message.into() }
}

/// The end that a condition set earlier stands for.
pub(super) fn met_before(condition: &Value) -> JobEnd {
    if condition["reason"] == SUCCESS_POLICY {
        by_success(text_at(condition, "/message").to_owned())
    } else {
        REACHED
    }
}

/// Returns the end by the first rule of the job's success policy that the completed indexes satisfy.
pub(super) fn matched_success(job: &Value, completed: &BTreeSet<i64>) -> Option<JobEnd> {
    let last = int_at(job, "/spec/completions") - 1;
    let rules = list_at(job, "/spec/successPolicy/rules");
    let met = rules.iter().position(|rule| {
        let named = rule["succeededIndexes"].as_str().map(|text| parse_indexes(text, last));
        let count = match &named {
            Some(named) => completed.intersection(named).count(),
            None => completed.len(),
        };
        let enough = rule["succeededCount"].as_i64().and_then(|count| usize::try_from(count).ok());
        enough.or(named.map(|named| named.len())).is_some_and(|enough| count >= enough)
    })?;
    Some(by_success(format!("Matched rules at index {met}")))
}

/// A job that one of its own rules ends.
pub(super) fn by_policy(message: String) -> JobEnd {
    JobEnd { first: "FailureTarget", last: "Failed", reason: "PodFailurePolicy", message: message.into() }
}

/// Returns the action of the job's policy on a failed pod, and its reason in the words of a real cluster.
pub(super) fn failure_action(job: &Value, pod: &Value) -> Option<(String, String)> {
    let place = format!("{}/{}", text_at(pod, "/metadata/namespace"), name_of(pod));
    for (index, rule) in list_at(job, "/spec/podFailurePolicy/rules").iter().enumerate() {
        let action = text_at(rule, "/action").to_owned();
        let codes = &rule["onExitCodes"];
        let statuses = list_at(pod, "/status/containerStatuses").iter();
        for status in statuses.chain(list_at(pod, "/status/initContainerStatuses")) {
            let Some(code) = status["state"]["terminated"]["exitCode"].as_i64().filter(|code| *code != 0)
            else {
                continue;
            };
            let named = text_at(codes, "/containerName");
            if codes.is_null() || !(named.is_empty() || status["name"] == named) {
                continue;
            }
            let listed = list_at(codes, "/values").iter().any(|value| value.as_i64() == Some(code));
            if listed == (codes["operator"] == "In") {
                let who = text_at(status, "/name");
                return Some((
                    action.clone(),
                    format!(
                        "Container {who} for pod {place} failed with exit code {code} matching {action} rule at index {index}"
                    ),
                ));
            }
        }
        for wanted in list_at(rule, "/onPodConditions") {
            let kind = text_at(wanted, "/type");
            let state = if wanted["status"].is_string() { text_at(wanted, "/status") } else { "True" };
            if condition(pod, kind).is_some_and(|found| found["status"] == state) {
                return Some((
                    action,
                    format!(
                        "Pod {place} has condition {kind} matching {} rule at index {index}",
                        text_at(rule, "/action")
                    ),
                ));
            }
        }
    }
    None
}
