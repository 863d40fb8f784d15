//! The simulated fate of a pod, as its annotations `sim/*` ask for it.

use std::time::Duration;

use serde_json::Value;

use super::common::{annotation, text_at};
use crate::setting::parse_duration;

/// The course of a simulated pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PodFate {
    /// It runs, and finishes if its restart policy lets it.
    Run,
    /// Its containers exit with an error, again and again.
    Crash,
    /// Its containers run out of memory and are killed.
    OutOfMemory,
    /// Its image cannot be pulled.
    ImagePull,
    /// It runs but is never ready.
    Unready,
    /// It is ready and unready in turns.
    Flapping,
    /// Its containers are being created for ever.
    Pending,
    /// Its node evicts it.
    Evicted,
}

#[derive(Debug, Clone)]
pub(super) struct PodPlan {
    pub(super) fate: PodFate,
    /// Number of attempts that fail before one works; all when absent.
    pub(super) failures: Option<i64>,
    /// From being bound to running.
    pub(super) delay: Duration,
    /// From running to the end, or between turns of a flapping pod.
    pub(super) duration: Duration,
    pub(super) exit_code: Option<i64>,
}

const START: Duration = Duration::from_millis(500);
const RUN: Duration = Duration::from_secs(1);
const TURN: Duration = Duration::from_secs(10);
/// Three years: more than any clock here will see.
const LONGEST: Duration = Duration::from_secs(100_000_000);

impl PodPlan {
    pub(super) fn of(pod: &Value) -> PodPlan {
        let number = |key: &str| annotation(pod, key).and_then(|t| t.trim().parse::<i64>().ok());
        let failures = number("sim/fail-count").or_else(|| number("sim/ready-after-restarts"));
        let fate = match annotation(pod, "sim/fail").unwrap_or("") {
            "true" | "crashloop" => PodFate::Crash,
            "oom" => PodFate::OutOfMemory,
            "imagepull" => PodFate::ImagePull,
            "unready" => PodFate::Unready,
            "flapping" => PodFate::Flapping,
            "pending" => PodFate::Pending,
            "evicted" => PodFate::Evicted,
            _ if failures.is_some() => PodFate::Crash,
            _ => PodFate::Run,
        };
        let time = |key: &str| annotation(pod, key).and_then(|text| parse_duration(text).ok());
        let usual = if fate == PodFate::Flapping { TURN } else { RUN };
        PodPlan {
            fate,
            failures,
            delay: time("sim/delay").unwrap_or(START).min(LONGEST),
            duration: time("sim/duration").unwrap_or(usual).min(LONGEST),
            exit_code: number("sim/exit-code"),
        }
    }

    /// Returns true if attempt number `attempt`, from zero, fails.
    pub(super) fn attempt_fails(&self, attempt: i64) -> bool {
        matches!(self.fate, PodFate::Crash | PodFate::OutOfMemory)
            && self.failures.is_none_or(|n| attempt < n)
    }
}

/// Returns true if a pod ends by itself.
pub(super) fn ends_by_itself(pod: &Value) -> bool {
    matches!(text_at(pod, "/spec/restartPolicy"), "Never" | "OnFailure")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn annotations_choose_the_fate() {
        for (annotations, fate, fails) in [
            (json!({}), PodFate::Run, [false, false]),
            (json!({"sim/fail": "true"}), PodFate::Crash, [true, true]),
            (json!({"sim/fail": "crashloop", "sim/fail-count": "1"}), PodFate::Crash, [true, false]),
            (json!({"sim/fail-count": "1"}), PodFate::Crash, [true, false]),
            (json!({"sim/ready-after-restarts": "1"}), PodFate::Crash, [true, false]),
            (json!({"sim/fail": "oom"}), PodFate::OutOfMemory, [true, true]),
            (json!({"sim/fail": "unready"}), PodFate::Unready, [false, false]),
        ] {
            let plan = PodPlan::of(&json!({"metadata": {"annotations": annotations}}));
            assert_eq!(plan.fate, fate, "{annotations}");
            assert_eq!([plan.attempt_fails(0), plan.attempt_fails(1)], fails, "{annotations}");
        }
    }

    #[test]
    fn a_pod_starts_after_any_time_that_can_be_written() {
        for (text, delay) in [
            ("3", Duration::from_secs(3)),
            ("200ms", Duration::from_millis(200)),
            ("1.5s", Duration::from_millis(1500)),
            ("10m", Duration::from_secs(600)),
            ("24h", Duration::from_secs(86_400)),
            ("1h30m", Duration::from_secs(5400)),
            ("2d", Duration::from_secs(172_800)),
            ("999999999999", LONGEST),
            ("soon", START),
            ("-3s", START),
        ] {
            let plan = PodPlan::of(&json!({"metadata": {"annotations": {"sim/delay": text}}}));
            assert_eq!(plan.delay, delay, "{text}");
        }
    }
}
