//! Counting what goes wrong with a workload's pods: each failure once, however often it is seen.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

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
/// Reasons that nothing but a change of the manifest can mend.
const PERMANENT: &[&str] = &["InvalidImageName", "ErrImageNeverPull"];

/// Every failure so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failures {
    /// Pod, container, reason, and the restart or occurrence.
    seen: BTreeSet<(String, String, String, i64)>,
    /// Restarts of pods that were there before we looked, which are not ours to count.
    before: BTreeMap<(String, String), i64>,
    known_pods: BTreeSet<String>,
    /// What containers were last seen waiting for, and how many pulls of their image failed so far.
    pulls: BTreeMap<(String, String), (String, i64)>,
    last: String,
    permanent: Option<String>,
}

/// Which crashes count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crashes {
    Count,
    /// The controller itself counts them and gives up in the end.
    LeaveToController,
}

fn text<'v>(value: &'v Value, path: &str) -> &'v str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

impl Failures {
    pub(crate) fn count(&self) -> usize {
        self.seen.len()
    }

    /// The last failure, for people.
    pub(crate) fn last(&self) -> &str {
        &self.last
    }

    pub(crate) fn permanent(&self) -> Option<&str> {
        self.permanent.as_deref()
    }

    fn add(&mut self, key: (String, String, String, i64), told: impl FnOnce() -> String) {
        if self.seen.insert(key) {
            self.last = told();
        }
    }

    /// Takes note of a pod's containers. On the first look restarts of the past are left out.
    pub(crate) fn observe_pod(&mut self, pod: &Value, is_first_look: bool, crashes: Crashes) {
        let (uid, name) = (text(pod, "/metadata/uid").to_owned(), text(pod, "/metadata/name"));
        let is_new = self.known_pods.insert(uid.clone());
        let lists = ["initContainerStatuses", "containerStatuses"];
        let statuses = lists.iter().flat_map(|list| pod["status"][*list].as_array().into_iter().flatten());
        for status in statuses {
            let container = text(status, "/name").to_owned();
            let restarts = status["restartCount"].as_i64().unwrap_or(0);
            if is_new && is_first_look {
                self.before.insert((uid.clone(), container.clone()), restarts);
            }
            let waiting = &status["state"]["waiting"];
            let reason = text(waiting, "/reason");
            if !WAITING.contains(&reason) {
                continue;
            }
            let is_crash = reason == "CrashLoopBackOff";
            if is_crash && crashes == Crashes::LeaveToController {
                continue;
            }
            let told = || {
                let message = guard(text(waiting, "/message"));
                let message = if message.is_empty() { String::new() } else { format!(": {message}") };
                format!("pod {name}, container {container}: {reason}{message}")
            };
            if PERMANENT.contains(&reason) {
                self.permanent.get_or_insert_with(told);
            }
            if matches!(reason, "ErrImagePull" | "ImagePullBackOff") {
                let attempt = self.pull_attempt(&uid, &container, reason);
                // Backing off is what follows a pull that failed, seen or not, and no failure of its own.
                self.add((uid.clone(), container.clone(), "ErrImagePull".to_owned(), attempt), told);
                continue;
            }
            // A restart not seen is a failure all the same.
            let floor = self.before.get(&(uid.clone(), container.clone())).copied().unwrap_or(1);
            let first = if is_crash { floor.max(1).min(restarts) } else { restarts };
            for restart in first.max(restarts.saturating_sub(1000))..=restarts {
                self.add((uid.clone(), container.clone(), reason.to_owned(), restart), told);
            }
        }
    }

    /// Which attempt to pull an image it is that failed: every return from backing off is a new one.
    fn pull_attempt(&mut self, uid: &str, container: &str, reason: &str) -> i64 {
        let (last, attempt) =
            self.pulls.entry((uid.to_owned(), container.to_owned())).or_insert_with(|| (String::new(), 1));
        if reason == "ErrImagePull" && last == "ImagePullBackOff" {
            *attempt += 1;
        }
        reason.clone_into(last);
        *attempt
    }

    /// Takes note of an event about a pod: probes and pulls that failed.
    pub(crate) fn observe_pod_event(
        &mut self,
        event: &Value,
        pod: &Value,
        windows: &BTreeMap<String, Duration>,
    ) {
        let message = text(event, "/message");
        let path = text(event, "/involvedObject/fieldPath");
        let Some(container) = path.split_once('{').and_then(|(_, rest)| rest.strip_suffix('}')) else {
            return;
        };
        if message.starts_with("Failed to pull image") {
            let (uid, name) = (text(pod, "/metadata/uid"), text(pod, "/metadata/name"));
            for occurrence in 1..=occurrences(event).min(1000) {
                let key = (uid.to_owned(), container.to_owned(), "ErrImagePull".to_owned(), occurrence);
                self.add(key, || format!("pod {name}, container {container}: {}", guard(message)));
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
        let (uid, name) = (text(pod, "/metadata/uid"), text(pod, "/metadata/name"));
        let reason = if is_restart { "ProbeRestart" } else { "ReadinessProbe" };
        // The kubelet repeats itself by counting up one event.
        for occurrence in 1..=occurrences(event).min(1000) {
            let key = (uid.to_owned(), container.to_owned(), reason.to_owned(), occurrence);
            self.add(key, || format!("pod {name}, container {container}: {}", guard(message)));
        }
    }

    /// Takes note of an event about the workload itself or what it makes pods with.
    pub(crate) fn observe_owner_event(&mut self, event: &Value) {
        let (reason, message) = (text(event, "/reason"), text(event, "/message"));
        let is_harmless = matches!(reason, "RecreatingFailedPod" | "FailedDelete")
            // The Job's own end tells more than the death of one pod.
            || matches!(reason, "BackoffLimitExceeded" | "DeadlineExceeded")
            || message.contains("The POST operation against Pod could not be completed at this time");
        if !reason.contains("Failed") || is_harmless {
            return;
        }
        let uid = text(event, "/metadata/uid").to_owned();
        for occurrence in 1..=occurrences(event).min(1000) {
            let key = (uid.clone(), String::new(), reason.to_owned(), occurrence);
            self.add(key, || format!("{reason}: {}", guard(message)));
        }
    }
}

fn occurrences(event: &Value) -> i64 {
    event["series"]["count"].as_i64().or(event["count"].as_i64()).unwrap_or(1).max(1)
}

fn moment(event: &Value) -> Option<Timestamp> {
    [
        "/series/lastObservedTime",
        "/lastTimestamp",
        "/eventTime",
        "/firstTimestamp",
        "/metadata/creationTimestamp",
    ]
    .iter()
    .find_map(|path| text(event, path).parse().ok())
}

/// Whether a readiness probe may still fail: the container has only just started.
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
        None if number(&spec["readinessProbe"], "failureThreshold", 3) == 1 => return false,
        None => probe_window(&spec),
    };
    let Ok(started) = text(&status, "/state/running/startedAt").parse::<Timestamp>() else { return true };
    let window = jiff::SignedDuration::try_from(window).unwrap_or(jiff::SignedDuration::MAX);
    match (moment(event), started.checked_add(window)) {
        (Some(moment), Ok(end)) => moment <= end,
        _ => true,
    }
}

fn number(probe: &Value, field: &str, default: i64) -> i64 {
    probe[field].as_i64().unwrap_or(default).clamp(0, 1_000_000)
}

/// How long after its start a container's readiness probe may fail without it meaning anything.
pub(crate) fn probe_window(container: &Value) -> Duration {
    let probe = &container["readinessProbe"];
    let (period, delay, timeout) = (
        number(probe, "periodSeconds", 10),
        number(probe, "initialDelaySeconds", 0),
        number(probe, "timeoutSeconds", 1),
    );
    let thresholds = number(probe, "failureThreshold", 3) + number(probe, "successThreshold", 1);
    let startup = &container["startupProbe"];
    let before = if startup.is_object() {
        let startup_period = number(startup, "periodSeconds", 10);
        let startup_thresholds =
            number(startup, "failureThreshold", 3) + number(startup, "successThreshold", 1);
        let start = startup_period
            + number(startup, "initialDelaySeconds", 0)
            + (startup_thresholds - 1) * startup_period
            + number(startup, "timeoutSeconds", 1)
            + period;
        let ready = period + delay;
        if start > ready { period } else { ready - start }
    } else {
        period + delay
    };
    let window = before + timeout + (thresholds - 3) * period + period / 2 + timeout;
    Duration::from_secs(u64::try_from(window).unwrap_or(0))
}

/// Leaves out what registries tell about accounts.
pub(crate) fn guard(message: &str) -> &str {
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
        let mut failures = Failures::default();
        let mut see = |pod: &Value, first| {
            failures.observe_pod(pod, first, Crashes::Count);
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
        assert_eq!(failures.last(), "pod web-d, container c: CrashLoopBackOff");
        assert!(failures.permanent().is_none());
        failures.observe_pod(&pod("e", "InvalidImageName", 0), false, Crashes::Count);
        assert!(failures.permanent().is_some());
    }

    #[test]
    fn every_pull_that_fails_counts() {
        let mut failures = Failures::default();
        let mut see = |reason: &str| {
            failures.observe_pod(&pod("a", reason, 0), false, Crashes::Count);
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
        let mut failures = Failures::default();
        failures.observe_pod(&pod("a", "CrashLoopBackOff", 3), false, Crashes::LeaveToController);
        assert_eq!(failures.count(), 0);
        failures.observe_pod(&pod("a", "ErrImagePull", 3), false, Crashes::LeaveToController);
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
            let mut failures = Failures::default();
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
        let mut failures = Failures::default();
        let event = |reason: &str, count: i64| json!({"metadata": {"uid": reason}, "reason": reason, "message": "exceeded quota", "count": count});
        failures.observe_owner_event(&event("FailedCreate", 2));
        failures.observe_owner_event(&event("FailedCreate", 3));
        failures.observe_owner_event(&event("FailedDelete", 3));
        failures.observe_owner_event(&event("ScalingReplicaSet", 3));
        assert_eq!((failures.count(), failures.last()), (3, "FailedCreate: exceeded quota"));
        assert_eq!(
            guard("x: You have reached your pull rate limit as 'jo': abc"),
            "x: You have reached your pull rate limit"
        );
    }
}
