//! Reads the annotations that say how readiness and logs of an object are followed.

use slipway_manifest::diff::redact::SensitivePath;

use super::super::{FailMode, TrackingSettings};
use super::{AnnotationReader, SLIPWAY};

impl AnnotationReader<'_> {
    pub(super) fn read_tracking(&mut self) -> TrackingSettings {
        const MODE: &str = "werf.io/track-termination-mode";
        const FAIL: &str = "werf.io/fail-mode";
        let non_blocking = match self.get(MODE) {
            None | Some("WaitUntilResourceReady") => false,
            Some("NonBlocking") => true,
            Some(other) => {
                self.report_not_one_of(MODE, other, &["WaitUntilResourceReady", "NonBlocking"]);
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
                self.report_not_one_of(FAIL, other, &words);
                FailMode::Fail
            }
        };
        let mut tracking = TrackingSettings {
            non_blocking,
            fail_mode,
            failures_allowed_per_replica: self.read_count("werf.io/failures-allowed-per-replica"),
            no_activity_timeout: self
                .read_duration("werf.io/no-activity-timeout")
                .filter(|time| !time.is_zero()),
            ready_timeout: self.read_duration(&format!("{SLIPWAY}ready-timeout")),
            log_regex: self.read_regex("werf.io/log-regex"),
            log_regex_skip: self.read_regex("werf.io/log-regex-skip"),
            skip_logs: self.read_flag("werf.io/skip-logs"),
            skip_logs_for: self.read_list("werf.io/skip-logs-for-containers").unwrap_or_default(),
            logs_only_for: self.read_list("werf.io/show-logs-only-for-containers").unwrap_or_default(),
            logs_replicas: self.read_count("werf.io/show-logs-only-for-number-of-replicas"),
            service_messages: self.read_flag("werf.io/show-service-messages"),
            ready_when: self.read_condition("ready-when"),
            failed_when: self.read_condition("failed-when"),
            ..TrackingSettings::default()
        };
        for (key, container) in self.keys_after("werf.io/ignore-readiness-probe-fails-for-") {
            if let Some(time) = self.read_duration(key) {
                tracking.ignore_probe_failures.insert(container.to_owned(), time);
            }
        }
        for (key, container) in self.keys_after("werf.io/log-regex-for-") {
            if let Some(regex) = self.read_regex(key) {
                tracking.log_regex_for.insert(container.to_owned(), regex);
            }
        }
        for (key, container) in self.keys_after("werf.io/log-regex-skip-for-") {
            if let Some(regex) = self.read_regex(key) {
                tracking.log_regex_skip_for.insert(container.to_owned(), regex);
            }
        }
        self.read_flag("werf.io/sensitive");
        self.check_sensitive_paths();
        tracking
    }

    /// Checks the paths that are to be hidden; they are read again where they are hidden.
    fn check_sensitive_paths(&mut self) {
        const KEY: &str = "werf.io/sensitive-paths";
        for path in self.read_list(KEY).unwrap_or_default() {
            if SensitivePath::parse(&path).is_none() {
                self.report_unexpected(KEY, &path, "a path such as `$.spec.containers[*].env[*].value`");
            }
        }
    }
}
