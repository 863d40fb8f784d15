//! Reads the annotations that say how readiness and logs of an object are followed.

use slipway_manifest::diff::redact::SensitivePath;

use super::super::{FailMode, TrackingSettings};
use super::{Reader, SLIPWAY};

impl Reader<'_> {
    pub(super) fn tracking(&mut self) -> TrackingSettings {
        const MODE: &str = "werf.io/track-termination-mode";
        const FAIL: &str = "werf.io/fail-mode";
        let non_blocking = match self.get(MODE) {
            None | Some("WaitUntilResourceReady") => false,
            Some("NonBlocking") => true,
            Some(other) => {
                self.not_one_of(MODE, other, &["WaitUntilResourceReady", "NonBlocking"]);
                false
            }
        };
        let fail_mode = match self.get(FAIL) {
            None | Some("FailWholeDeployProcessImmediately" | "HopeUntilEndOfDeployProcess") => {
                FailMode::Fail
            }
            Some("IgnoreAndContinueDeployProcess") => FailMode::Ignore,
            Some(other) => {
                let words = [
                    "FailWholeDeployProcessImmediately",
                    "IgnoreAndContinueDeployProcess",
                    "HopeUntilEndOfDeployProcess",
                ];
                self.not_one_of(FAIL, other, &words);
                FailMode::Fail
            }
        };
        let mut tracking = TrackingSettings {
            non_blocking,
            fail_mode,
            failures_allowed_per_replica: self.count("werf.io/failures-allowed-per-replica"),
            no_activity_timeout: self.time("werf.io/no-activity-timeout").filter(|time| !time.is_zero()),
            ready_timeout: self.time(&format!("{SLIPWAY}ready-timeout")),
            log_regex: self.regex("werf.io/log-regex"),
            log_regex_skip: self.regex("werf.io/log-regex-skip"),
            skip_logs: self.flag("werf.io/skip-logs"),
            skip_logs_for: self.list("werf.io/skip-logs-for-containers").unwrap_or_default(),
            logs_only_for: self.list("werf.io/show-logs-only-for-containers").unwrap_or_default(),
            logs_replicas: self.count("werf.io/show-logs-only-for-number-of-replicas"),
            service_messages: self.flag("werf.io/show-service-messages"),
            ready_when: self.condition("ready-when"),
            failed_when: self.condition("failed-when"),
            ..TrackingSettings::default()
        };
        for (key, container) in self.keys_after("werf.io/ignore-readiness-probe-fails-for-") {
            if let Some(time) = self.time(key) {
                tracking.ignore_probe_failures.insert(container.to_owned(), time);
            }
        }
        for (key, container) in self.keys_after("werf.io/log-regex-for-") {
            if let Some(regex) = self.regex(key) {
                tracking.log_regex_for.insert(container.to_owned(), regex);
            }
        }
        for (key, container) in self.keys_after("werf.io/log-regex-skip-for-") {
            if let Some(regex) = self.regex(key) {
                tracking.log_regex_skip_for.insert(container.to_owned(), regex);
            }
        }
        self.flag("werf.io/sensitive");
        self.sensitive_paths();
        tracking
    }

    /// Checks the paths that are to be hidden; they are read again where they are hidden.
    fn sensitive_paths(&mut self) {
        const KEY: &str = "werf.io/sensitive-paths";
        for path in self.list(KEY).unwrap_or_default() {
            if SensitivePath::parse(&path).is_none() {
                self.expected(KEY, &path, "a path such as `$.spec.containers[*].env[*].value`");
            }
        }
    }
}
