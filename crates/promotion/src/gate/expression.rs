//! A gate's expression, compiled: what it reads and how time moves it.

use std::collections::BTreeSet;

use slipway_cel::{CelError, CelErrorKind, Leaf, Program, Type};

use super::schedule::find_zone;
use super::schema::{Variable, gate_env};

/// A compiled expression.
#[derive(Debug)]
pub struct GateExpression {
    pub(crate) program: Program,
    pub(crate) uses: Vec<VariableUse>,
    pub(crate) time: TimeUse,
}

/// Why a text is no gate expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    #[error("{}", join(.0))]
    Compile(Vec<CelError>),
    /// It gives something else than true or false.
    #[error("expected bool, got {found}")]
    NotBool { found: String },
}

impl ExpressionError {
    /// The suggestions, where there are any.
    pub fn hints(&self) -> impl Iterator<Item = &str> {
        let errors: &[CelError] = match self {
            Self::Compile(errors) => errors,
            Self::NotBool { .. } => &[],
        };
        errors.iter().filter_map(|error| error.hint.as_deref())
    }
}

fn join(errors: &[CelError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// A variable an expression uses, with the fields it reads of it.
#[derive(Clone, Debug)]
pub(crate) struct VariableUse {
    pub(crate) variable: Variable,
    /// None if it reads the variable as a whole.
    fields: Option<BTreeSet<String>>,
}

impl VariableUse {
    pub(crate) fn reads(&self, field: &str) -> bool {
        self.fields.as_ref().is_none_or(|fields| fields.contains(field))
    }
}

/// The ways in which time alone changes the value of an expression.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TimeUse {
    pub(crate) grid: Option<Grid>,
    pub(crate) counters: Vec<Counter>,
    /// The change windows it reads.
    pub(crate) windows: Option<Names>,
    /// It reads the present itself.
    pub(crate) clock: bool,
    pub(crate) approvals: bool,
    pub(crate) metrics: bool,
}

/// The moments at which the calendar may change: each one includes those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Grid {
    Hours,
    /// Hours of all time zones begin at a quarter of an hour.
    Quarters,
    Minutes,
}

/// Some names, or all there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    Some(BTreeSet<String>),
    All,
}

impl Names {
    pub(crate) fn contains(&self, name: &str) -> bool {
        match self {
            Self::Some(names) => names.contains(name),
            Self::All => true,
        }
    }

    fn add(&mut self, name: Option<&String>) {
        match (&mut *self, name) {
            (Self::Some(names), Some(name)) => {
                names.insert(name.clone());
            }
            _ => *self = Self::All,
        }
    }
}

/// A number that grows with time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counter {
    pub(crate) source: CounterSource,
    /// The numbers it is compared with; none if it is used in another way.
    pub(crate) thresholds: Option<Vec<i64>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CounterSource {
    /// `bundle.upstreamSoakMinutes`
    Soak,
    /// `bundle.ageMinutes`
    Age,
    /// `upstream.<name>.soakMinutes`
    Upstream(Option<String>),
    /// `contracts[<name>].soakMinutes`
    Contract(Option<String>),
    /// `metricAgeSeconds.<name>`
    MetricAge(Option<String>),
}

impl GateExpression {
    /// Compiles an expression that must give a boolean; gives every error there is.
    pub fn compile(text: &str) -> Result<Self, ExpressionError> {
        let program = match gate_env().compile_as(text, &Type::Bool) {
            Ok(program) => program,
            Err(errors) => {
                let only_type = errors.iter().all(|error| error.kind == CelErrorKind::ResultType);
                return Err(match gate_env().compile(text) {
                    Ok(other) if only_type => ExpressionError::NotBool { found: other.ty().to_string() },
                    _ => ExpressionError::Compile(errors),
                });
            }
        };
        check_zones(text, &program)?;
        let uses = variable_uses(&program);
        let time = time_use(&program);
        Ok(Self { program, uses, time })
    }

    pub(crate) fn uses(&self, variable: Variable) -> bool {
        self.uses.iter().any(|one| one.variable == variable)
    }

    /// Returns true if it reads a field of a variable, or the variable as a whole.
    pub(crate) fn reads(&self, variable: Variable, field: &str) -> bool {
        self.uses.iter().any(|one| one.variable == variable && one.reads(field))
    }
}

/// Time zones are written as text; a wrong one is found before the gate is needed.
fn check_zones(text: &str, program: &Program) -> Result<(), ExpressionError> {
    let unknown = |leaf: &&Leaf| {
        leaf.variable == "schedule"
            && matches!(&leaf.path[..], [method, zone, ..] if method == "in" && find_zone(zone).is_none())
    };
    let errors: Vec<CelError> = program
        .leaves()
        .iter()
        .filter(unknown)
        .map(|leaf| {
            let zone = leaf.path.get(1).map_or("", String::as_str);
            let message = format!("unknown time zone '{zone}'");
            let error = leaf.error(text, CelErrorKind::Constant, message);
            CelError { hint: Some("zones have names such as `Europe/Berlin`".to_owned()), ..error }
        })
        .collect();
    if errors.is_empty() { Ok(()) } else { Err(ExpressionError::Compile(errors)) }
}

fn variable_uses(program: &Program) -> Vec<VariableUse> {
    let mut uses: Vec<VariableUse> = Vec::new();
    for reference in program.references() {
        let Some(variable) = Variable::find(&reference.variable) else { continue };
        let field = reference.path.first();
        match (uses.iter_mut().find(|one| one.variable == variable), field) {
            (Some(known), Some(field)) => {
                if let Some(fields) = &mut known.fields {
                    fields.insert(field.clone());
                }
            }
            (Some(known), None) => known.fields = None,
            (None, field) => {
                let fields = field.map(|field| BTreeSet::from([field.clone()]));
                uses.push(VariableUse { variable, fields });
            }
        }
    }
    uses
}

fn time_use(program: &Program) -> TimeUse {
    let mut time = TimeUse { clock: program.reads_clock(), ..TimeUse::default() };
    for leaf in program.leaves() {
        let Some(variable) = Variable::find(&leaf.variable) else { continue };
        let path: Vec<&str> = leaf.path.iter().map(String::as_str).collect();
        match variable {
            Variable::Schedule => {
                time.grid = time.grid.max(Some(schedule_grid(&path)));
                time.clock |= matches!(path[..], [] | ["now"] | ["in", _] | ["in", _, "now"]);
            }
            Variable::Bundle => match path[..] {
                [] => {
                    time.counters.push(Counter { source: CounterSource::Soak, thresholds: None });
                    time.counters.push(Counter { source: CounterSource::Age, thresholds: None });
                }
                ["upstreamSoakMinutes"] => time.counters.push(counter(CounterSource::Soak, leaf)),
                ["ageMinutes"] => time.counters.push(counter(CounterSource::Age, leaf)),
                _ => {}
            },
            Variable::Upstream | Variable::Contracts => {
                let name = path.first().map(|name| (*name).to_owned());
                let source = match variable {
                    Variable::Upstream => CounterSource::Upstream(name),
                    _ => CounterSource::Contract(name),
                };
                match path[..] {
                    [_, "soakMinutes"] => time.counters.push(counter(source, leaf)),
                    [] | [_] if !is_presence_test(leaf) => {
                        time.counters.push(Counter { source, thresholds: None });
                    }
                    _ => {}
                }
            }
            Variable::MetricAges => {
                let name = path.first().map(|name| (*name).to_owned());
                time.counters.push(counter(CounterSource::MetricAge(name), leaf));
            }
            Variable::Metrics | Variable::MetricResults => time.metrics = true,
            Variable::ChangeWindow => {
                let name = match path[..] {
                    ["isAllowed" | "isBlocked", _] => leaf.path.get(1),
                    _ => leaf.path.first(),
                };
                time.windows.get_or_insert(Names::Some(BTreeSet::new())).add(name);
            }
            Variable::ExternalApproval => time.approvals = true,
            Variable::Environment
            | Variable::Pipeline
            | Variable::PreviousBundle
            | Variable::Delegation
            | Variable::Group
            | Variable::TargetDrift => {}
        }
    }
    time
}

/// `has(upstream.staging)` does not look at the number.
fn is_presence_test(leaf: &Leaf) -> bool {
    leaf.text.starts_with("has(")
}

fn schedule_grid(path: &[&str]) -> Grid {
    match path {
        ["isWeekend" | "hour" | "dayOfWeek" | "date"] => Grid::Hours,
        ["in", _, "isWeekend" | "hour" | "dayOfWeek" | "date"] => Grid::Quarters,
        _ => Grid::Minutes,
    }
}

fn counter(source: CounterSource, leaf: &Leaf) -> Counter {
    let threshold = leaf.comparison.as_ref().and_then(|with| with.whole);
    Counter { source, thresholds: threshold.map(|threshold| vec![threshold]) }
}
