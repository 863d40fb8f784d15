//! Reasons a job ends for: completions, back-off limit, deadline, pod failure policy.

use std::borrow::Cow;

use serde_json::Value;

use super::common::*;

/// Why a job ends, and in which words.
pub(super) struct End {
    pub(super) first: &'static str,
    pub(super) last: &'static str,
    pub(super) reason: &'static str,
    pub(super) message: Cow<'static, str>,
}

pub(super) const REACHED: End = End {
    first: "SuccessCriteriaMet",
    last: "Complete",
    reason: "CompletionsReached",
    message: Cow::Borrowed("Reached expected number of succeeded pods"),
};

pub(super) const BACK_OFF: End = End {
    first: "FailureTarget",
    last: "Failed",
    reason: "BackoffLimitExceeded",
    message: Cow::Borrowed("Job has reached the specified backoff limit"),
};

pub(super) const DEADLINE: End = End {
    first: "FailureTarget",
    last: "Failed",
    reason: "DeadlineExceeded",
    message: Cow::Borrowed("Job was active longer than specified deadline"),
};

/// A job that one of its own rules ends.
pub(super) fn by_policy(message: String) -> End {
    End { first: "FailureTarget", last: "Failed", reason: "PodFailurePolicy", message: message.into() }
}

/// What the job's policy says about a failed pod: the action, and why in the words a real cluster uses.
pub(super) fn judged(job: &Value, pod: &Value) -> Option<(String, String)> {
    let place = format!("{}/{}", text(pod, "/metadata/namespace"), name(pod));
    for (index, rule) in list(job, "/spec/podFailurePolicy/rules").iter().enumerate() {
        let action = text(rule, "/action").to_owned();
        let codes = &rule["onExitCodes"];
        let statuses = list(pod, "/status/containerStatuses").iter();
        for status in statuses.chain(list(pod, "/status/initContainerStatuses")) {
            let Some(code) = status["state"]["terminated"]["exitCode"].as_i64().filter(|code| *code != 0)
            else {
                continue;
            };
            let named = text(codes, "/containerName");
            if codes.is_null() || !(named.is_empty() || status["name"] == named) {
                continue;
            }
            let listed = list(codes, "/values").iter().any(|value| value.as_i64() == Some(code));
            if listed == (codes["operator"] == "In") {
                let who = text(status, "/name");
                return Some((
                    action.clone(),
                    format!(
                        "Container {who} for pod {place} failed with exit code {code} matching {action} rule at index {index}"
                    ),
                ));
            }
        }
        for wanted in list(rule, "/onPodConditions") {
            let kind = text(wanted, "/type");
            let state = if wanted["status"].is_string() { text(wanted, "/status") } else { "True" };
            if condition(pod, kind).is_some_and(|found| found["status"] == state) {
                return Some((
                    action,
                    format!(
                        "Pod {place} has condition {kind} matching {} rule at index {index}",
                        text(rule, "/action")
                    ),
                ));
            }
        }
    }
    None
}
