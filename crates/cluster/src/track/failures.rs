//! Counts the failures of a workload's pods: each failure once, however often it is seen.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::status::text_at;

/// Waiting reasons that are failures; a restart makes a new one of them.
const WAITING: &[&str] = &[
    "CrashLoopBackOff",
    "ErrImagePull",
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
];
/// Reasons that only a change of the manifest can mend.
const PERMANENT: &[&str] = &["InvalidImageName", "ErrImageNeverPull"];

/// Returns true if a container that waits for this reason has failed.
pub(crate) fn is_failure(waiting_reason: &str) -> bool {
    WAITING.contains(&waiting_reason)
}

/// Every failure so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodFailures {
    /// Pod, container, reason, and the restart or occurrence.
    seen: BTreeSet<(String, String, String, i64)>,
    /// Restarts of pods that existed before the first look, which do not count.
    before: BTreeMap<(String, String), i64>,
    known_pods: BTreeSet<String>,
    /// The last waiting reason of each container, and the number of failed pulls of its image.
    pulls: BTreeMap<(String, String), (String, i64)>,
    last: String,
    permanent: Option<String>,
}

/// The crashes that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CrashCounting {
    Count,
    /// The controller itself counts them and gives up in the end.
    LeaveToController,
}

impl PodFailures {
    pub(crate) fn count(&self) -> usize {
        self.seen.len()
    }

    /// The last failure, for people.
    pub(crate) fn last_failure(&self) -> &str {
        &self.last
    }

    pub(crate) fn permanent_failure(&self) -> Option<&str> {
        self.permanent.as_deref()
    }

    fn add_failure(&mut self, key: (String, String, String, i64), told: impl FnOnce() -> String) {
        if self.seen.insert(key) {
            self.last = told();
        }
    }

    /// Counts the failures of a pod's containers. On the first look earlier restarts are left out.
    pub(crate) fn observe_pod(&mut self, pod: &Value, is_first_look: bool, crashes: CrashCounting) {
        let (uid, name) = (text_at(pod, "/metadata/uid").to_owned(), text_at(pod, "/metadata/name"));
        let is_new = self.known_pods.insert(uid.clone());
        let lists = ["initContainerStatuses", "containerStatuses"];
        let statuses = lists.iter().flat_map(|list| pod["status"][*list].as_array().into_iter().flatten());
        for status in statuses {
            let container = text_at(status, "/name").to_owned();
            let restarts = status["restartCount"].as_i64().unwrap_or(0);
            if is_new && is_first_look {
                self.before.insert((uid.clone(), container.clone()), restarts);
            }
            let waiting = &status["state"]["waiting"];
            let reason = text_at(waiting, "/reason");
            if !is_failure(reason) {
                continue;
            }
            let is_crash = reason == "CrashLoopBackOff";
            if is_crash && crashes == CrashCounting::LeaveToController {
                continue;
            }
            let told = || format!("pod {name}, container {container}: {}", waiting_text(waiting));
            if PERMANENT.contains(&reason) {
                self.permanent.get_or_insert_with(told);
            }
            if matches!(reason, "ErrImagePull" | "ImagePullBackOff") {
                let attempt = self.pull_attempt(&uid, &container, reason);
                // Backing off follows a failed pull, seen or not, and is no failure of its own.
                self.add_failure((uid.clone(), container.clone(), "ErrImagePull".to_owned(), attempt), told);
                continue;
            }
            // A restart that was not seen counts too.
            let floor = self.before.get(&(uid.clone(), container.clone())).copied().unwrap_or(1);
            let first = if is_crash { floor.max(1).min(restarts) } else { restarts };
            for restart in first.max(restarts.saturating_sub(1000))..=restarts {
                self.add_failure((uid.clone(), container.clone(), reason.to_owned(), restart), told);
            }
        }
    }

    /// The number of the failed attempt to pull an image: every return from backing off is a new one.
    fn pull_attempt(&mut self, uid: &str, container: &str, reason: &str) -> i64 {
        let (last, attempt) =
            self.pulls.entry((uid.to_owned(), container.to_owned())).or_insert_with(|| (String::new(), 1));
        if reason == "ErrImagePull" && last == "ImagePullBackOff" {
            *attempt += 1;
        }
        reason.clone_into(last);
        *attempt
    }

    /// Counts the failure an event about a pod reports: a failed probe or pull.
    pub(crate) fn observe_pod_event(
        &mut self,
        event: &Value,
        pod: &Value,
        windows: &BTreeMap<String, Duration>,
    ) {
        let message = text_at(event, "/message");
        let path = text_at(event, "/involvedObject/fieldPath");
        let Some(container) = path.split_once('{').and_then(|(_, rest)| rest.strip_suffix('}')) else {
            return;
        };
        if message.starts_with("Failed to pull image") {
            let (uid, name) = (text_at(pod, "/metadata/uid"), text_at(pod, "/metadata/name"));
            for occurrence in 1..=event_count(event).min(1000) {
                let key = (uid.to_owned(), container.to_owned(), "ErrImagePull".to_owned(), occurrence);
                self.add_failure(key, || {
                    format!("pod {name}, container {container}: {}", without_account_details(message))
                });
            }
            return;
        }
        let is_restart = message.contains("failed startup probe, will be restarted")
            || message.contains("failed liveness probe, will be restarted");
        let is_unready = message.contains("Readiness probe failed:");
        let is_failure = is_restart || (is_unready && !is_excused(event, pod, container, windows));
        if !is_failure {
            return;
        }
        let (uid, name) = (text_at(pod, "/metadata/uid"), text_at(pod, "/metadata/name"));
        let reason = if is_restart { "ProbeRestart" } else { "ReadinessProbe" };
        // The kubelet repeats an event by increasing its count.
        for occurrence in 1..=event_count(event).min(1000) {
            let key = (uid.to_owned(), container.to_owned(), reason.to_owned(), occurrence);
            self.add_failure(key, || {
                format!("pod {name}, container {container}: {}", without_account_details(message))
            });
        }
    }

    /// Counts the failure an event about the workload itself, or an owner of its pods, reports.
    pub(crate) fn observe_owner_event(&mut self, event: &Value) {
        let (reason, message) = (text_at(event, "/reason"), text_at(event, "/message"));
        let is_harmless = matches!(reason, "RecreatingFailedPod" | "FailedDelete")
            // The condition of a Job tells more than the event about one pod.
            || matches!(reason, "BackoffLimitExceeded" | "DeadlineExceeded")
            || message.contains("The POST operation against Pod could not be completed at this time");
        if !reason.contains("Failed") || is_harmless {
            return;
        }
        let uid = text_at(event, "/metadata/uid").to_owned();
        for occurrence in 1..=event_count(event).min(1000) {
            let key = (uid.clone(), String::new(), reason.to_owned(), occurrence);
            self.add_failure(key, || format!("{reason}: {}", without_account_details(message)));
        }
    }
}

fn event_count(event: &Value) -> i64 {
    event["series"]["count"].as_i64().or(event["count"].as_i64()).unwrap_or(1).max(1)
}

fn event_time(event: &Value) -> Option<Timestamp> {
    [
        "/series/lastObservedTime",
        "/lastTimestamp",
        "/eventTime",
        "/firstTimestamp",
        "/metadata/creationTimestamp",
    ]
    .iter()
    .find_map(|path| text_at(event, path).parse().ok())
}

/// Returns true if a readiness probe may still fail: the container has only just started.
fn is_excused(event: &Value, pod: &Value, container: &str, windows: &BTreeMap<String, Duration>) -> bool {
    let find = |list: &Value| -> Option<Value> {
        list.as_array()?.iter().find(|item| item["name"] == container).cloned()
    };
    let (Some(spec), Some(status)) =
        (find(&pod["spec"]["containers"]), find(&pod["status"]["containerStatuses"]))
    else {
        return true;
    };
    if status["started"] == false {
        return true;
    }
    let window = match windows.get(container) {
        Some(window) => *window,
        None if number_field(&spec["readinessProbe"], "failureThreshold", 3) == 1 => return false,
        None => probe_window(&spec),
    };
    let Ok(started) = text_at(&status, "/state/running/startedAt").parse::<Timestamp>() else { return true };
    let window = jiff::SignedDuration::try_from(window).unwrap_or(jiff::SignedDuration::MAX);
    match (event_time(event), started.checked_add(window)) {
        (Some(moment), Ok(end)) => moment <= end,
        _ => true,
    }
}

fn number_field(probe: &Value, field: &str, default: i64) -> i64 {
    probe[field].as_i64().unwrap_or(default).clamp(0, 1_000_000)
}

/// The time after its start in which failures of a container's readiness probe do not count.
pub(crate) fn probe_window(container: &Value) -> Duration {
    let probe = &container["readinessProbe"];
    let (period, delay, timeout) = (
        number_field(probe, "periodSeconds", 10),
        number_field(probe, "initialDelaySeconds", 0),
        number_field(probe, "timeoutSeconds", 1),
    );
    let thresholds = number_field(probe, "failureThreshold", 3) + number_field(probe, "successThreshold", 1);
    let startup = &container["startupProbe"];
    let before = if startup.is_object() {
        let startup_period = number_field(startup, "periodSeconds", 10);
        let startup_thresholds =
            number_field(startup, "failureThreshold", 3) + number_field(startup, "successThreshold", 1);
        let start = startup_period
            + number_field(startup, "initialDelaySeconds", 0)
            + (startup_thresholds - 1) * startup_period
            + number_field(startup, "timeoutSeconds", 1)
            + period;
        let ready = period + delay;
        if start > ready { period } else { ready - start }
    } else {
        period + delay
    };
    let window = before + timeout + (thresholds - 3) * period + period / 2 + timeout;
    Duration::from_secs(u64::try_from(window).unwrap_or(0))
}

/// Says why a container waits. Of a crash the kubelet only adds how long it waits until the next start.
pub(crate) fn waiting_text(waiting: &Value) -> String {
    let reason = text_at(waiting, "/reason");
    match waiting_message(waiting) {
        "" => reason.to_owned(),
        message => format!("{reason}: {message}"),
    }
}

/// The message a container waits with, where it says more than the reason.
pub(crate) fn waiting_message(waiting: &Value) -> &str {
    match text_at(waiting, "/reason") {
        "CrashLoopBackOff" => "",
        _ => without_account_details(text_at(waiting, "/message")),
    }
}

/// Leaves out the account details registries put into their messages.
pub(crate) fn without_account_details(message: &str) -> &str {
    const LIMIT: &str = "You have reached your pull rate limit";
    match message.find(LIMIT) {
        Some(at) => &message[..at + LIMIT.len()],
        None => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(uid: &str, reason: &str, restarts: i64) -> Value {
        json!({"metadata": {"uid": uid, "name": format!("web-{uid}")}, "status": {"containerStatuses": [
            {"name": "c", "restartCount": restarts, "state": {"waiting": {"reason": reason}}}]}})
    }

    #[test]
    fn failures_count_once() {
        let mut failures = PodFailures::default();
        let mut see = |pod: &Value, first| {
            failures.observe_pod(pod, first, CrashCounting::Count);
            failures.count()
        };
        assert_eq!(see(&pod("a", "ContainerCreating", 0), true), 0);
        assert_eq!(see(&pod("a", "CrashLoopBackOff", 1), false), 1);
        assert_eq!(see(&pod("a", "CrashLoopBackOff", 1), false), 1, "the same restart again");
        assert_eq!(see(&pod("a", "CrashLoopBackOff", 4), false), 4, "restarts in between count");
        assert_eq!(see(&pod("b", "ErrImagePull", 0), false), 5);
        assert_eq!(see(&pod("b", "ImagePullBackOff", 0), false), 5, "the same pull");
        assert_eq!(see(&pod("c", "ImagePullBackOff", 0), false), 6, "the pull failed unseen");
        assert_eq!(see(&pod("d", "CrashLoopBackOff", 57), true), 7, "the past is not counted");
        assert_eq!(see(&pod("d", "CrashLoopBackOff", 58), false), 8);
        assert_eq!(failures.last_failure(), "pod web-d, container c: CrashLoopBackOff");
        assert!(failures.permanent_failure().is_none());
        failures.observe_pod(&pod("e", "InvalidImageName", 0), false, CrashCounting::Count);
        assert!(failures.permanent_failure().is_some());
    }

    #[test]
    fn every_pull_that_fails_counts() {
        let mut failures = PodFailures::default();
        let mut see = |reason: &str| {
            failures.observe_pod(&pod("a", reason, 0), false, CrashCounting::Count);
            failures.count()
        };
        let seen = ["ErrImagePull", "ErrImagePull", "ImagePullBackOff", "ErrImagePull", "ImagePullBackOff"];
        assert_eq!(seen.map(&mut see), [1, 1, 1, 2, 2], "a new pull is a new failure, backing off is not");
        // The same two as the kubelet tells them, and one that nobody saw.
        let event = |count: i64| {
            json!({"reason": "Failed", "message": "Failed to pull image \"x\": not found", "count": count,
                "involvedObject": {"fieldPath": "spec.containers{c}"}})
        };
        let pod = pod("a", "ImagePullBackOff", 0);
        failures.observe_pod_event(&event(2), &pod, &BTreeMap::new());
        assert_eq!(failures.count(), 2);
        failures.observe_pod_event(&event(3), &pod, &BTreeMap::new());
        assert_eq!(failures.count(), 3);
    }

    #[test]
    fn crashes_of_jobs_are_left_to_them() {
        let mut failures = PodFailures::default();
        failures.observe_pod(&pod("a", "CrashLoopBackOff", 3), false, CrashCounting::LeaveToController);
        assert_eq!(failures.count(), 0);
        failures.observe_pod(&pod("a", "ErrImagePull", 3), false, CrashCounting::LeaveToController);
        assert_eq!(failures.count(), 1);
    }

    #[test]
    fn probes_have_a_window() {
        for (container, seconds) in [
            // 10 + 1 + (3+1-3)*10 + 5 + 1
            (json!({"readinessProbe": {}}), 27),
            (
                json!({"readinessProbe": {"periodSeconds": 2, "initialDelaySeconds": 5, "timeoutSeconds": 3}}),
                16,
            ),
            (json!({"readinessProbe": {"failureThreshold": 1}}), 7),
            // The startup probe takes longer than the delay: one period.
            (json!({"readinessProbe": {}, "startupProbe": {}}), 27),
            // 10+100 - (1 + (2-1)*1 + 1 + 10) = 97
            (
                json!({"readinessProbe": {"initialDelaySeconds": 100},
                    "startupProbe": {"periodSeconds": 1, "failureThreshold": 1, "timeoutSeconds": 1}}),
                114,
            ),
        ] {
            assert_eq!(probe_window(&container).as_secs(), seconds, "{container}");
        }
    }

    #[test]
    fn probe_events_count_after_the_window() {
        let pod = json!({"metadata": {"uid": "u", "name": "p"},
            "spec": {"containers": [{"name": "c", "readinessProbe": {}}]},
            "status": {"containerStatuses": [{"name": "c", "started": true,
                "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]}});
        let event = |time: &str, message: &str, count: i64| {
            json!({"message": message, "count": count, "lastTimestamp": time,
                "involvedObject": {"fieldPath": "spec.containers{c}"}})
        };
        let windows = BTreeMap::from([("c".to_owned(), Duration::from_secs(300))]);
        let count = |event: &Value, windows: &BTreeMap<String, Duration>| {
            let mut failures = PodFailures::default();
            failures.observe_pod_event(event, &pod, windows);
            failures.count()
        };
        let unready = "Readiness probe failed: HTTP 503";
        assert_eq!(count(&event("2026-01-01T00:00:20Z", unready, 1), &BTreeMap::new()), 0);
        assert_eq!(count(&event("2026-01-01T00:01:00Z", unready, 2), &BTreeMap::new()), 2);
        assert_eq!(count(&event("2026-01-01T00:01:00Z", unready, 2), &windows), 0);
        let killed = "Container c failed liveness probe, will be restarted";
        assert_eq!(count(&event("2026-01-01T00:00:01Z", killed, 1), &BTreeMap::new()), 1);
        assert_eq!(count(&event("2026-01-01T00:01:00Z", "Pulled", 1), &BTreeMap::new()), 0);
    }

    #[test]
    fn quota_is_a_failure_of_the_owner() {
        let mut failures = PodFailures::default();
        let event = |reason: &str, count: i64| json!({"metadata": {"uid": reason}, "reason": reason, "message": "exceeded quota", "count": count});
        failures.observe_owner_event(&event("FailedCreate", 2));
        failures.observe_owner_event(&event("FailedCreate", 3));
        failures.observe_owner_event(&event("FailedDelete", 3));
        failures.observe_owner_event(&event("ScalingReplicaSet", 3));
        assert_eq!((failures.count(), failures.last_failure()), (3, "FailedCreate: exceeded quota"));
        assert_eq!(
            without_account_details("x: You have reached your pull rate limit as 'jo': abc"),
            "x: You have reached your pull rate limit"
        );
    }
}
