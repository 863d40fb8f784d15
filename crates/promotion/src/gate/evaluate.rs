//! Evaluates gates: compiles each expression once, and closes the gate whatever goes wrong.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use slipway_cel::{EvalError, EvalErrorKind, Leaf, Trace, Value};

use super::bind::{bind, camel_case};
use super::context::{GateContext, WindowContext};
use super::expression::{ExpressionError, GateExpression};
use super::outcome::{GateEta, GateFault, GateOutcome, LeafValue};
use super::schema::Variable;
use super::solve;
use crate::kinds::{GatePhase, PolicyGateSpec};

/// The number of expressions that are kept compiled.
const KEPT: usize = 4096;
/// The expression of an external gate that has none of its own.
const EXTERNAL_EXPRESSION: &str = "externalApproval.self.approved";

type Compiled = Arc<Result<GateExpression, ExpressionError>>;

/// Evaluates gates of all pipelines.
#[derive(Debug, Default)]
pub struct GateEvaluator {
    compiled: Mutex<HashMap<String, Compiled>>,
}

impl GateEvaluator {
    pub fn new() -> Self {
        Self::default()
    }

    /// The compiled form of an expression; compiled at most once.
    pub(crate) fn compile(&self, text: &str) -> Compiled {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = compiled.get(text) {
            return known.clone();
        }
        let made = Arc::new(GateExpression::compile(text));
        if compiled.len() >= KEPT {
            compiled.retain(|_, kept| Arc::strong_count(kept) > 1);
        }
        if compiled.len() < KEPT {
            compiled.insert(text.to_owned(), made.clone());
        }
        made
    }

    /// Checks an expression without evaluating it.
    pub fn check(&self, gate: &PolicyGateSpec) -> Result<(), ExpressionError> {
        match &*self.compile(expression_text(gate)) {
            Ok(_) => Ok(()),
            Err(error) => Err(error.clone()),
        }
    }

    /// Evaluates a gate and finds when its result changes by time alone.
    pub fn evaluate(&self, gate: &PolicyGateSpec, context: &GateContext) -> GateOutcome {
        let compiled = self.compile(expression_text(gate));
        let mut outcome = outcome(gate, &compiled, context);
        let Ok(expression) = &*compiled else { return outcome };
        if let Some(flip) = solve::next_flip(expression, context) {
            outcome.next = Some(flip.at);
            outcome.eta = (!outcome.ready).then_some(GateEta { at: flip.at, basis: flip.basis });
        }
        outcome
    }

    /// Evaluates a gate at the moment of its context, without a look ahead.
    pub fn evaluate_now(&self, gate: &PolicyGateSpec, context: &GateContext) -> GateOutcome {
        outcome(gate, &self.compile(expression_text(gate)), context)
    }
}

/// The expression of a gate; an external one may leave it out.
pub(crate) fn expression_text(gate: &PolicyGateSpec) -> &str {
    let text = gate.expression.as_str();
    if text.trim().is_empty() && gate.external.is_some() { EXTERNAL_EXPRESSION } else { text }
}

fn outcome(gate: &PolicyGateSpec, compiled: &Compiled, context: &GateContext) -> GateOutcome {
    let expression = match &**compiled {
        Ok(expression) => expression,
        Err(error @ ExpressionError::NotBool { .. }) => {
            return GateOutcome::closed(GateFault::Eval { message: error.to_string(), hint: None });
        }
        Err(error) => return GateOutcome::closed(GateFault::Compile(error.clone())),
    };
    if let Some(fault) = unavailable_part(expression, context) {
        return GateOutcome::closed(fault);
    }
    let bindings = bind(context, &expression.uses, context.now);
    let trace = expression.program.trace(&bindings);
    let values = leaf_values(expression, &trace, context);
    let detail = || values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let (phase, reason, fault) = match &trace.result {
        Ok(Value::Bool(true)) => {
            let detail = detail();
            (GatePhase::Pass, if detail.is_empty() { "always true".to_owned() } else { detail }, None)
        }
        Ok(Value::Bool(false)) => (GatePhase::Block, blocked_reason(&gate.message, detail()), None),
        Ok(other) => {
            let message = format!("expected bool, got {}", other.type_name());
            let fault = GateFault::Eval { message, hint: None };
            (fault.phase(), fault.to_string(), Some(fault))
        }
        Err(error) => {
            let fault = eval_fault(expression, error, context);
            (fault.phase(), fault.to_string(), Some(fault))
        }
    };
    GateOutcome { ready: phase == GatePhase::Pass, phase, reason, fault, values, eta: None, next: None }
}

fn blocked_reason(message: &str, detail: String) -> String {
    match (message.is_empty(), detail.is_empty()) {
        (true, true) => "always false".to_owned(),
        (true, false) => detail,
        (false, true) => message.to_owned(),
        (false, false) => format!("{message} ({detail})"),
    }
}

/// A part that could not be read closes the gates that read it, and only those.
fn unavailable_part(expression: &GateExpression, context: &GateContext) -> Option<GateFault> {
    context.unavailable.iter().find_map(|(part, why)| {
        let reads = expression.program.references().iter().any(|reference| {
            Variable::find(&reference.variable).is_some_and(|variable| part.holds(variable, &reference.path))
        });
        reads.then(|| GateFault::ContextUnavailable { part: *part, why: why.clone() })
    })
}

fn eval_fault(expression: &GateExpression, error: &EvalError, context: &GateContext) -> GateFault {
    if matches!(error.kind, EvalErrorKind::CostLimit | EvalErrorKind::Canceled) {
        return GateFault::Eval { message: "cost limit".to_owned(), hint: None };
    }
    if let (EvalErrorKind::NoSuchKey { key, .. }, Some(leaf)) =
        (&error.kind, expression.program.leaf_of(error))
        && let Some(fault) = missing_key(key, leaf, context)
    {
        return fault;
    }
    GateFault::Eval { message: error.to_string(), hint: error.hint() }
}

/// The reason an entry of a map of the context is missing.
fn missing_key(key: &str, leaf: &Leaf, context: &GateContext) -> Option<GateFault> {
    let is_it = |name: &String| name == key || camel_case(name).as_deref() == Some(key);
    match Variable::find(&leaf.variable)? {
        Variable::Metrics | Variable::MetricResults | Variable::MetricAges => {
            let known = context.metrics.iter().find(|(name, _)| is_it(name));
            let (metric, why) = match known {
                Some((name, metric)) => {
                    (name.clone(), metric.read(context.now).err().unwrap_or("no result yet"))
                }
                None => (key.to_owned(), "there is no such MetricCheck in reach"),
            };
            Some(GateFault::MetricNoData { metric, why: why.to_owned() })
        }
        Variable::ExternalApproval if leaf.path.first().is_some_and(|name| name == key) => {
            let failed = context.approval_errors.iter().find(|(name, _)| is_it(name));
            let from = if key == "self" { "the external system".to_owned() } else { format!("`{key}`") };
            Some(match failed {
                Some((_, why)) => GateFault::ExternalError { from, why: why.clone() },
                None => GateFault::ExternalPending { from },
            })
        }
        Variable::ChangeWindow => {
            let message = match context.windows.get(key) {
                Some(WindowContext::Broken(why)) => format!("change window {key} cannot be used: {why}"),
                _ => format!("no such key: {key}: there is no ChangeWindow of that name"),
            };
            Some(GateFault::Eval { message, hint: None })
        }
        _ => None,
    }
}

/// The leaves that were read, each once, with all it was compared with.
fn leaf_values(expression: &GateExpression, trace: &Trace<'_>, context: &GateContext) -> Vec<LeafValue> {
    let mut values: Vec<LeafValue> = Vec::new();
    for read in &trace.reads {
        let Some(leaf) = expression.program.leaves().get(read.leaf) else { continue };
        let threshold = leaf.comparison.as_ref().map(|with| format!("{} {}", with.operator, with.literal));
        if let Some(known) = values.iter_mut().find(|known| known.path == leaf.text) {
            known.thresholds.extend(threshold.filter(|text| !known.thresholds.contains(text)));
            continue;
        }
        values.push(LeafValue {
            path: leaf.text.clone(),
            value: read
                .value
                .as_ref()
                .map(|value| value.to_json().unwrap_or_else(|| value.to_string().into())),
            thresholds: threshold.into_iter().collect(),
            note: note(leaf, context),
        });
    }
    values
}

fn note(leaf: &Leaf, context: &GateContext) -> Option<&'static str> {
    if Variable::find(&leaf.variable)? != Variable::Metrics {
        return None;
    }
    let name = leaf.path.first()?;
    let metric = context.metrics.get(name).or_else(|| {
        let mut all = context.metrics.iter();
        all.find(|(known, _)| camel_case(known).as_ref() == Some(name)).map(|(_, metric)| metric)
    })?;
    metric.assumed.then_some("no data, which counts as a pass")
}
