//! Checks gates before they are used: expressions, types, and mistakes that only show later.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Deserialize;

use super::context::{BundleContext, GateContext};
use super::evaluate::{GateEvaluator, expression_text};
use super::expression::{ExpressionError, GateExpression};
use super::outcome::GateOutcome;
use super::schema::Variable;
use super::simulate::{AttributeError, set_attribute};
use super::when::{WhenError, parse_when};
use crate::kinds::{GateType, PolicyGate};

/// Something a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateFinding {
    pub severity: FindingSeverity,
    pub message: String,
    /// The place within the expression, as people count.
    pub line: Option<u32>,
    pub column: Option<u32>,
    pub hint: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingSeverity {
    Error,
    Warning,
}

impl GateFinding {
    fn error(message: impl Into<String>) -> Self {
        Self {
            severity: FindingSeverity::Error,
            message: message.into(),
            line: None,
            column: None,
            hint: None,
        }
    }

    fn warning(message: impl Into<String>, hint: &str) -> Self {
        Self { severity: FindingSeverity::Warning, hint: Some(hint.to_owned()), ..Self::error(message) }
    }
}

/// Checks the expression of a gate; gives everything there is to say.
pub fn check_gate(evaluator: &GateEvaluator, gate: &PolicyGate) -> Vec<GateFinding> {
    match &*evaluator.compile(expression_text(&gate.spec)) {
        Ok(expression) => warnings(gate, expression),
        Err(ExpressionError::Compile(errors)) => errors
            .iter()
            .map(|error| GateFinding {
                line: Some(error.line),
                column: Some(error.column),
                hint: error.hint.clone(),
                ..GateFinding::error(error.message.clone())
            })
            .collect(),
        Err(error @ ExpressionError::NotBool { .. }) => vec![GateFinding::error(error.to_string())],
    }
}

fn warnings(gate: &PolicyGate, expression: &GateExpression) -> Vec<GateFinding> {
    let mut found = Vec::new();
    let soak =
        expression.reads(Variable::Bundle, "upstreamSoakMinutes") || expression.uses(Variable::Upstream);
    if gate.gate_type() == GateType::Gate && soak && !expression.reads(Variable::Bundle, "isRollback") {
        found.push(GateFinding::warning(
            "a rollback starts at its environment and has no soak time: this gate holds every rollback",
            "let rollbacks through: `bundle.isRollback || …`",
        ));
    }
    let unprovided = [
        Variable::Metrics,
        Variable::Upstream,
        Variable::PreviousBundle,
        Variable::ChangeWindow,
        Variable::ExternalApproval,
        Variable::Delegation,
        Variable::Contracts,
        Variable::TargetDrift,
    ];
    if gate.gate_type() == GateType::SkipPermission
        && let Some(variable) = unprovided.into_iter().find(|variable| expression.uses(*variable))
    {
        found.push(GateFinding::warning(
            format!("`{}` is not known when a skip is decided: this permission never holds", variable.name()),
            "permissions may read `bundle`, `environment` and `schedule`",
        ));
    }
    found
}

/// A case of a gate: what is given, and what is expected.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GateTest {
    pub name: String,
    /// The gate, by name.
    pub gate: String,
    #[serde(default)]
    pub environment: Option<String>,
    /// The moment, as `gate simulate --time` takes it.
    #[serde(default)]
    pub time: Option<String>,
    /// Attributes by path.
    #[serde(default)]
    pub set: BTreeMap<String, serde_json::Value>,
    pub expect: GateExpectation,
}

/// The expected result of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GateExpectation {
    Pass,
    Block,
    Error,
}

/// The result of a case.
#[derive(Clone, Debug, PartialEq)]
pub struct GateTestResult {
    pub name: String,
    pub verdict: GateTestVerdict,
}

#[derive(Clone, Debug, PartialEq)]
pub enum GateTestVerdict {
    Ok,
    /// The gate says something else.
    Unexpected(Box<GateOutcome>),
    /// The case itself is wrong.
    Invalid(GateTestProblem),
}

/// What is wrong with a case.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GateTestProblem {
    #[error("there is no gate `{0}`")]
    UnknownGate(String),
    #[error(transparent)]
    Time(#[from] WhenError),
    #[error(transparent)]
    Attribute(#[from] AttributeError),
}

/// Runs cases against gates.
pub fn run_tests(
    evaluator: &GateEvaluator,
    gates: &[PolicyGate],
    tests: &[GateTest],
    now: Timestamp,
) -> Vec<GateTestResult> {
    let run = |test: &GateTest| GateTestResult {
        name: test.name.clone(),
        verdict: run_test(evaluator, gates, test, now).unwrap_or_else(GateTestVerdict::Invalid),
    };
    tests.iter().map(run).collect()
}

fn run_test(
    evaluator: &GateEvaluator,
    gates: &[PolicyGate],
    test: &GateTest,
    now: Timestamp,
) -> Result<GateTestVerdict, GateTestProblem> {
    let gate = gates.iter().find(|gate| gate.name() == test.gate);
    let gate = gate.ok_or_else(|| GateTestProblem::UnknownGate(test.gate.clone()))?;
    let now = match &test.time {
        Some(text) => parse_when(text, now, &TimeZone::UTC)?,
        None => now,
    };
    let environment = test.environment.as_deref().unwrap_or("prod");
    let mut context = GateContext::new(BundleContext::default(), environment, now);
    for (path, value) in &test.set {
        let value = match value {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        set_attribute(&mut context, path, &value)?;
    }
    let outcome = evaluator.evaluate_now(&gate.spec, &context);
    let found = match (&outcome.fault, outcome.ready) {
        (Some(_), _) => GateExpectation::Error,
        (None, true) => GateExpectation::Pass,
        (None, false) => GateExpectation::Block,
    };
    Ok(if found == test.expect {
        GateTestVerdict::Ok
    } else {
        GateTestVerdict::Unexpected(Box::new(outcome))
    })
}
