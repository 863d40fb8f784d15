//! The simulated fate of a pod, as its annotations `sim/*` ask for it.

use std::time::Duration;

use serde_json::Value;

use super::common::{annotation, text_at};

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
        let usual = if fate == PodFate::Flapping { TURN } else { RUN };
        PodPlan {
            fate,
            failures,
            delay: parse_span(annotation(pod, "sim/delay")).unwrap_or(START),
            duration: parse_span(annotation(pod, "sim/duration")).unwrap_or(usual),
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

/// Seconds, or a number with `s` or `ms`.
fn parse_span(text: Option<&str>) -> Option<Duration> {
    let text = text?.trim();
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 0.001),
        None => (text.strip_suffix('s').unwrap_or(text), 1.0),
    };
    let seconds = number.trim().parse::<f64>().ok()? * unit;
    Duration::try_from_secs_f64(seconds.clamp(0.0, 1e8)).ok()
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
    fn spans() {
        for (text, millis) in [("3", Some(3000)), ("200ms", Some(200)), ("1.5s", Some(1500)), ("x", None)] {
            assert_eq!(parse_span(Some(text)), millis.map(Duration::from_millis), "{text}");
        }
    }
}
