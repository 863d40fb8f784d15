//! What is to become of a pod: the annotations `sim/*`.

use std::time::Duration;

use serde_json::Value;

use super::common::{annotation, text};

/// How a pod goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It runs, and finishes if its restart policy lets it.
    Run,
    /// Its containers exit with an error, again and again.
    Crash,
    /// Its containers are killed for want of memory.
    OutOfMemory,
    /// Its image cannot be pulled.
    ImagePull,
    /// It runs but is never ready.
    Unready,
    /// It is ready and unready in turns.
    Flapping,
    /// Its containers are being created for ever.
    Pending,
    /// Its node throws it out.
    Evicted,
}

#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) fate: Fate,
    /// How many attempts fail before one works; all when absent.
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

impl Plan {
    pub(super) fn of(pod: &Value) -> Plan {
        let number = |key: &str| annotation(pod, key).and_then(|t| t.trim().parse::<i64>().ok());
        let failures = number("sim/fail-count").or_else(|| number("sim/ready-after-restarts"));
        let fate = match annotation(pod, "sim/fail").unwrap_or("") {
            "true" | "crashloop" => Fate::Crash,
            "oom" => Fate::OutOfMemory,
            "imagepull" => Fate::ImagePull,
            "unready" => Fate::Unready,
            "flapping" => Fate::Flapping,
            "pending" => Fate::Pending,
            "evicted" => Fate::Evicted,
            _ if failures.is_some() => Fate::Crash,
            _ => Fate::Run,
        };
        let usual = if fate == Fate::Flapping { TURN } else { RUN };
        Plan {
            fate,
            failures,
            delay: span(annotation(pod, "sim/delay")).unwrap_or(START),
            duration: span(annotation(pod, "sim/duration")).unwrap_or(usual),
            exit_code: number("sim/exit-code"),
        }
    }

    /// Whether attempt number `attempt`, from zero, fails.
    pub(super) fn fails(&self, attempt: i64) -> bool {
        matches!(self.fate, Fate::Crash | Fate::OutOfMemory) && self.failures.is_none_or(|n| attempt < n)
    }
}

/// Whether a pod is meant to end by itself.
pub(super) fn ends(pod: &Value) -> bool {
    matches!(text(pod, "/spec/restartPolicy"), "Never" | "OnFailure")
}

/// Seconds, or a number with `s` or `ms`.
fn span(text: Option<&str>) -> Option<Duration> {
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
            (json!({}), Fate::Run, [false, false]),
            (json!({"sim/fail": "true"}), Fate::Crash, [true, true]),
            (json!({"sim/fail": "crashloop", "sim/fail-count": "1"}), Fate::Crash, [true, false]),
            (json!({"sim/fail-count": "1"}), Fate::Crash, [true, false]),
            (json!({"sim/ready-after-restarts": "1"}), Fate::Crash, [true, false]),
            (json!({"sim/fail": "oom"}), Fate::OutOfMemory, [true, true]),
            (json!({"sim/fail": "unready"}), Fate::Unready, [false, false]),
        ] {
            let plan = Plan::of(&json!({"metadata": {"annotations": annotations}}));
            assert_eq!(plan.fate, fate, "{annotations}");
            assert_eq!([plan.fails(0), plan.fails(1)], fails, "{annotations}");
        }
    }

    #[test]
    fn spans() {
        for (text, millis) in [("3", Some(3000)), ("200ms", Some(200)), ("1.5s", Some(1500)), ("x", None)] {
            assert_eq!(span(Some(text)), millis.map(Duration::from_millis), "{text}");
        }
    }
}
