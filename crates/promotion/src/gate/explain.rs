//! Gates for people to read: one line each, with the values, the thresholds and when it opens.

use std::fmt;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::evaluate::{GateEvaluator, expression_text};
use super::outcome::{EtaBasis, GateEta, GateOutcome, LeafValue};
use super::reconcile::gate_name;
use super::schedule::day_name;
use crate::kinds::{GatePhase, GateScope, PolicyGate};

/// The gates of one environment and what they come to.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    pub pipeline: String,
    pub environment: String,
    pub version: String,
    pub gates: Vec<GateLine>,
    pub reach: PromotionReach,
}

/// Whether a promotion has come to the gates yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromotionReach {
    Reached,
    /// An environment before is not verified; with its state.
    Waiting {
        environment: String,
        state: String,
    },
}

/// One gate for people to read.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GateLine {
    pub name: String,
    pub scope: GateScope,
    pub phase: GatePhase,
    /// The values, or what is wrong.
    pub detail: String,
    /// When it opens, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eta: Option<String>,
}

impl GateLine {
    /// The line of a gate that was just evaluated.
    pub fn new(name: &str, scope: GateScope, outcome: &GateOutcome, now: Timestamp) -> Self {
        let detail = match (&outcome.fault, outcome.phase) {
            (None, GatePhase::Pass | GatePhase::Block) if !outcome.values.is_empty() => outcome.detail(),
            _ => outcome.reason.clone(),
        };
        let eta = outcome.eta.as_ref().map(|eta| eta_text(eta, now));
        Self { name: name.to_owned(), scope, phase: outcome.phase, detail, eta }
    }

    /// The line of a gate as its status has it. The expression is only compiled, to tell thresholds.
    pub fn from_status(gate: &PolicyGate, evaluator: &GateEvaluator, now: Timestamp) -> Self {
        let status = &gate.status;
        let phase = status.phase.unwrap_or(GatePhase::Pending);
        let decided = matches!(phase, GatePhase::Pass | GatePhase::Block) && !status.values.is_empty();
        let detail =
            if decided { status_detail(gate, evaluator) } else { status.reason.clone().unwrap_or_default() };
        let eta = status.eta.filter(|at| *at > now).map(|at| {
            let basis = status.eta_basis.as_deref().unwrap_or_default();
            match basis.ends_with("verifiedAt") {
                true => format!("{} (based on {basis})", minutes_text(at, now)),
                false => moment_text(at, now),
            }
        });
        let scope = gate.spec.scope.unwrap_or_default();
        Self { name: gate_name(gate).to_owned(), scope, phase, detail, eta }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.phase, GatePhase::Pass | GatePhase::Overridden)
    }
}

/// The values of a status, with the thresholds its expression compares them with.
fn status_detail(gate: &PolicyGate, evaluator: &GateEvaluator) -> String {
    let compiled = evaluator.compile(expression_text(&gate.spec));
    let leaf = |(path, value): (&String, &serde_json::Value)| {
        let comparisons = match &*compiled {
            Ok(expression) => expression.program.leaves(),
            Err(_) => &[],
        };
        let of =
            comparisons.iter().filter(|leaf| leaf.text == *path).filter_map(|leaf| leaf.comparison.as_ref());
        LeafValue {
            path: path.clone(),
            value: Some(value.clone()),
            thresholds: of.map(|with| format!("{} {}", with.operator, with.literal)).collect(),
            note: None,
        }
        .to_string()
    };
    gate.status.values.iter().map(leaf).collect::<Vec<_>>().join(", ")
}

/// The word for a phase.
pub(crate) fn phase_word(phase: GatePhase) -> &'static str {
    match phase {
        GatePhase::Pass => "PASS",
        GatePhase::Block => "FAIL",
        GatePhase::Pending => "PENDING",
        GatePhase::Error => "ERROR",
        GatePhase::Overridden => "OVERRIDE",
    }
}

fn scope_word(scope: GateScope) -> &'static str {
    match scope {
        GateScope::Org => "[org]",
        GateScope::Team => "[team]",
        GateScope::System => "[system]",
        GateScope::Contract => "[contract]",
        GateScope::Group => "[group]",
    }
}

/// `~18 minutes (based on staging verifiedAt)`, or `Mon 00:00 UTC (in 1d 8h)`.
pub(crate) fn eta_text(eta: &GateEta, now: Timestamp) -> String {
    match &eta.basis {
        basis @ (EtaBasis::Soak { .. } | EtaBasis::Age | EtaBasis::Contract { .. }) => {
            format!("{} (based on {basis})", minutes_text(eta.at, now))
        }
        EtaBasis::Schedule | EtaBasis::Window { .. } | EtaBasis::Expiry { .. } | EtaBasis::Clock => {
            moment_text(eta.at, now)
        }
    }
}

fn minutes_text(at: Timestamp, now: Timestamp) -> String {
    let seconds = at.duration_since(now).as_secs().max(0);
    match (seconds + 59) / 60 {
        1 => "~1 minute".to_owned(),
        minutes if minutes <= 120 => format!("~{minutes} minutes"),
        minutes => format!("~{}", span_text(minutes * 60)),
    }
}

fn moment_text(at: Timestamp, now: Timestamp) -> String {
    let time = at.to_zoned(TimeZone::UTC);
    let seconds = at.duration_since(now).as_secs().max(0);
    let day = if seconds < 7 * 24 * 3600 { day_name(&time)[..3].to_owned() } else { time.date().to_string() };
    format!("{day} {:02}:{:02} UTC (in {})", time.hour(), time.minute(), span_text(seconds))
}

/// `Monday 00:00 UTC`; with the date where that is more than a week ahead.
pub(crate) fn window_text(at: Timestamp, now: Timestamp) -> String {
    let time = at.to_zoned(TimeZone::UTC);
    let far = at.duration_since(now).as_secs() >= 7 * 24 * 3600;
    let date = if far { format!(" {}", time.date()) } else { String::new() };
    format!("{}{date} {:02}:{:02} UTC", day_name(&time), time.hour(), time.minute())
}

/// The two largest parts of a time: `1d 8h`, `3h 5m`, `12m`.
pub(crate) fn span_text(seconds: i64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    let parts = [(days, 'd'), (hours, 'h'), (minutes, 'm')];
    let shown: Vec<String> = parts
        .iter()
        .skip_while(|(count, _)| *count == 0)
        .take(2)
        .filter(|(count, _)| *count > 0)
        .map(|(count, unit)| format!("{count}{unit}"))
        .collect();
    if shown.is_empty() { "less than a minute".to_owned() } else { shown.join(" ") }
}

/// Writes the lines of gates under their head, aligned, each with its ETA below its values.
pub(crate) fn write_gates(f: &mut fmt::Formatter<'_>, gates: &[GateLine]) -> fmt::Result {
    writeln!(f, "POLICY GATES:")?;
    let width = |shortest: usize, text: fn(&GateLine) -> usize| {
        gates.iter().map(|gate| text(gate) + 2).max().unwrap_or(0).max(shortest)
    };
    let name_width = width(0, |gate| gate.name.chars().count());
    let scope_width = width(8, |gate| scope_word(gate.scope).len());
    let phase_width = width(7, |gate| phase_word(gate.phase).len());
    if gates.is_empty() {
        writeln!(f, "  none")?;
    }
    for gate in gates {
        let line = format!(
            "  {:name_width$}{:scope_width$}{:phase_width$}{}",
            gate.name,
            scope_word(gate.scope),
            phase_word(gate.phase),
            gate.detail
        );
        writeln!(f, "{}", line.trim_end())?;
        if let Some(eta) = &gate.eta {
            let indent = 2 + name_width + scope_width + phase_width;
            writeln!(f, "{:indent$}ETA: {eta}", "")?;
        }
    }
    Ok(())
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "PROMOTION: {} / {}", self.pipeline, self.environment)?;
        writeln!(f, "  Bundle: {}\n", self.version)?;
        write_gates(f, &self.gates)?;
        let closed: Vec<&str> =
            self.gates.iter().filter(|gate| !gate.is_open()).map(|gate| gate.name.as_str()).collect();
        match &self.reach {
            PromotionReach::Waiting { environment, state } => {
                writeln!(f, "\nRESULT: NOT REACHED (waiting for {environment}: {state})")
            }
            PromotionReach::Reached if closed.is_empty() => writeln!(f, "\nRESULT: PASS"),
            PromotionReach::Reached => writeln!(f, "\nRESULT: BLOCKED by {}", closed.join(", ")),
        }
    }
}
