//! Reasons a job ends for: completions, back-off limit, deadline, pod failure policy.

use std::borrow::Cow;

use serde_json::Value;

use super::common::*;

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
