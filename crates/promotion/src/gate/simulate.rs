//! Gates tried under other conditions: another time, other labels, other measurements.

use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::context::{GateContext, MetricContext, UpstreamContext};
use super::evaluate::GateEvaluator;
use super::explain::window_text;
use super::outcome::GateOutcome;
use crate::kinds::{ApprovalMode, GatePhase, GateScope, MetricResult, NoDataBehavior, PolicyGate};

/// The openings of single gates that are tried before giving up on one common to all.
const TRIED: usize = 200;

/// The result of trying gates.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulation {
    pub now: Timestamp,
    pub gates: Vec<SimulatedGate>,
    /// The first moment at which all gates are open, where time alone opens them.
    pub next_window: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SimulatedGate {
    pub name: String,
    pub scope: GateScope,
    pub message: String,
    pub outcome: GateOutcome,
}

impl Simulation {
    pub fn is_open(&self) -> bool {
        self.gates.iter().all(|gate| gate.outcome.ready)
    }

    pub fn blocking(&self) -> impl Iterator<Item = &SimulatedGate> {
        self.gates.iter().filter(|gate| !gate.outcome.ready)
    }
}

/// Evaluates gates in a context, by the evaluator the controller uses.
pub fn simulate(
    evaluator: &GateEvaluator,
    gates: &[(GateScope, &PolicyGate)],
    context: &GateContext,
) -> Simulation {
    let simulated = |(scope, gate): &(GateScope, &PolicyGate)| SimulatedGate {
        name: gate.name().to_owned(),
        scope: *scope,
        message: gate.spec.message.clone(),
        outcome: evaluator.evaluate(&gate.spec, context),
    };
    let results: Vec<SimulatedGate> = gates.iter().map(simulated).collect();
    let next_window = common_opening(evaluator, gates, context);
    Simulation { now: context.now, gates: results, next_window }
}

/// The first moment after now at which all gates are open.
///
/// No gate opens before the moment it is told to, so the latest of these is the earliest that can be common to all.
fn common_opening(
    evaluator: &GateEvaluator,
    gates: &[(GateScope, &PolicyGate)],
    context: &GateContext,
) -> Option<Timestamp> {
    let mut at = context.clone();
    for _ in 0..TRIED {
        let outcomes = gates.iter().map(|(_, gate)| evaluator.evaluate(&gate.spec, &at));
        let closed: Vec<GateOutcome> = outcomes.filter(|outcome| !outcome.ready).collect();
        if closed.is_empty() {
            return (at.now > context.now).then_some(at.now);
        }
        let openings = closed.iter().map(|outcome| outcome.eta.as_ref().map(|eta| eta.at));
        at.now = openings.collect::<Option<Vec<_>>>()?.into_iter().max()?;
    }
    None
}

impl fmt::Display for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_open() {
            writeln!(f, "RESULT: PASS")?;
        } else {
            let names: Vec<&str> = self.blocking().map(|gate| gate.name.as_str()).collect();
            writeln!(f, "RESULT: BLOCKED")?;
            writeln!(f, "Blocked by: {}", names.join(", "))?;
            for gate in self.blocking().filter(|gate| !gate.message.is_empty()) {
                writeln!(f, "Message: \"{}\"", gate.message)?;
            }
            if let Some(at) = self.next_window {
                writeln!(f, "Next window: {}", window_text(at, self.now))?;
            }
        }
        if !self.gates.is_empty() {
            writeln!(f)?;
        }
        for gate in &self.gates {
            let word = match gate.outcome.phase {
                GatePhase::Pass | GatePhase::Overridden => "PASS",
                GatePhase::Block | GatePhase::Pending => "BLOCK",
                GatePhase::Error => "ERROR",
            };
            let detail = if gate.outcome.fault.is_none() {
                gate.outcome.detail()
            } else {
                gate.outcome.reason.clone()
            };
            let detail = if detail.is_empty() { gate.outcome.reason.clone() } else { detail };
            writeln!(f, "{}: {word} ({detail})", gate.name)?;
        }
        Ok(())
    }
}

/// Why an attribute of a simulation cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttributeError {
    #[error("`{0}` cannot be set")]
    Unknown(String),
    #[error("`{path}` takes {expected}, not `{value}`")]
    Value { path: String, value: String, expected: &'static str },
}

/// Sets an attribute as expressions name it: `bundle.labels.hotfix`, `metrics.success-rate`, `bundle.upstreamSoakMinutes`.
pub fn set_attribute(context: &mut GateContext, path: &str, value: &str) -> Result<(), AttributeError> {
    let wrong = |expected| AttributeError::Value { path: path.to_owned(), value: value.to_owned(), expected };
    let truth = || value.parse::<bool>().map_err(|_| wrong("true or false"));
    let whole = || value.parse::<i64>().map_err(|_| wrong("a whole number"));
    let moment = || value.parse::<Timestamp>().map_err(|_| wrong("a time such as 2026-04-11T15:00:00Z"));
    let text = value.to_owned();
    let now = context.now;
    let bundle = &mut context.bundle;
    match path.split('.').collect::<Vec<_>>()[..] {
        ["bundle", "version"] => bundle.version = text,
        ["bundle", "name"] => bundle.name = text,
        ["bundle", "isRollback"] => bundle.is_rollback = truth()?,
        ["bundle", "isEmergency"] => bundle.is_emergency = truth()?,
        ["bundle", "ageMinutes"] => bundle.created_at = Some(minutes_before(now, whole()?)),
        ["bundle", "provenance", "author"] => bundle.author = text,
        ["bundle", "provenance", "commitSHA"] => bundle.commit_sha = text,
        ["bundle", "provenance", "ciRunURL"] => bundle.ci_run_url = text,
        ["bundle", "provenance", "rollbackOf"] => bundle.rollback_of = text,
        ["bundle", "provenance", "buildTimestamp"] => bundle.build_timestamp = Some(moment()?),
        ["bundle", "intent", "target" | "targetEnvironment"] => bundle.target = text,
        ["bundle", "intent", "from"] => bundle.from = text,
        ["bundle", "upstreamSoakMinutes"] => set_soak(context, whole()?),
        ["bundle", "labels", ..] => {
            bundle.labels.insert(rest(path, 2), text);
        }
        ["bundle", "annotations", ..] => {
            bundle.annotations.insert(rest(path, 2), text);
        }
        ["environment", "approval"] => {
            context.environment.approval = match value {
                "auto" => ApprovalMode::Auto,
                "pr-review" => ApprovalMode::PrReview,
                _ => return Err(wrong("auto or pr-review")),
            };
        }
        ["environment", "region"] => context.environment.region = text,
        ["environment", "labels", ..] => {
            context.environment.labels.insert(rest(path, 2), text);
        }
        ["pipeline", "labels", ..] => {
            context.pipeline.labels.insert(rest(path, 2), text);
        }
        ["metrics", ..] => {
            let number = value.parse().map_err(|_| wrong("a number"))?;
            set_metric(context, &rest(path, 1), number);
        }
        ["upstream", name, "soakMinutes"] => {
            let since = minutes_before(now, whole()?);
            context.upstream.entry(name.to_owned()).or_default().verified_at = Some(since);
        }
        ["previousBundle", "version"] => context.previous.get_or_insert_default().version = text,
        ["delegation", "status"] => context.delegation.status = text,
        ["targetDrift", "unreconciled"] => context.drift.unreconciled = truth()?,
        _ => return Err(AttributeError::Unknown(path.to_owned())),
    }
    Ok(())
}

fn rest(path: &str, parts: usize) -> String {
    path.splitn(parts + 1, '.').nth(parts).unwrap_or_default().to_owned()
}

fn minutes_before(now: Timestamp, minutes: i64) -> Timestamp {
    now.saturating_sub(SignedDuration::from_mins(minutes.max(0))).unwrap_or(Timestamp::MIN)
}

/// Lets every environment directly before be verified so many minutes ago.
fn set_soak(context: &mut GateContext, minutes: i64) {
    let since = minutes_before(context.now, minutes);
    if !context.upstream.values().any(|upstream| upstream.direct) {
        let upstream = UpstreamContext { direct: true, ..UpstreamContext::default() };
        context.upstream.insert("upstream".to_owned(), upstream);
    }
    for upstream in context.upstream.values_mut().filter(|upstream| upstream.direct) {
        upstream.verified_at = Some(since);
    }
}

/// Lets a measurement have a value.
fn set_metric(context: &mut GateContext, name: &str, value: f64) {
    let measured = MetricContext {
        value: Some(value),
        result: Some(MetricResult::Pass),
        measured_at: Some(context.now),
        interval: Duration::from_secs(u64::from(u32::MAX)),
        no_data: NoDataBehavior::Hold,
        assumed: false,
    };
    context.metrics.insert(name.to_owned(), measured);
}
