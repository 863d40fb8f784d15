//! The outcome of an evaluation: open or not, why, what was read, and when that may change.

use std::fmt;

use jiff::Timestamp;
use serde_json::{Map, Value as Json};

use super::context::ContextPart;
use super::expression::ExpressionError;
use crate::kinds::GatePhase;

/// The result of evaluating a gate.
#[derive(Clone, Debug, PartialEq)]
pub struct GateOutcome {
    pub ready: bool,
    pub phase: GatePhase,
    /// For people: the values, or what is wrong.
    pub reason: String,
    /// What is wrong, where the expression gave neither true nor false or was not asked.
    pub fault: Option<GateFault>,
    /// The values the result depends on, in the order they were read.
    pub values: Vec<LeafValue>,
    /// When a closed gate opens by itself.
    pub eta: Option<GateEta>,
    /// The next moment at which time alone changes the result.
    pub next: Option<Timestamp>,
}

/// Why a gate is closed without its expression saying so.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GateFault {
    #[error("CompileError: {0}")]
    Compile(ExpressionError),
    #[error("EvalError: {message}")]
    Eval { message: String, hint: Option<String> },
    #[error("ContextUnavailable: {}: {why}", .part.name())]
    ContextUnavailable { part: ContextPart, why: String },
    #[error("MetricNoData: {metric}: {why}")]
    MetricNoData { metric: String, why: String },
    #[error("ExternalPending: no answer from {from} yet")]
    ExternalPending { from: String },
    #[error("ExternalError: {from}: {why}")]
    ExternalError { from: String, why: String },
    #[error("BundleMissing: bundle {0} does not exist")]
    BundleMissing(String),
    #[error("UpstreamNotVerified: waiting for {}", .0.join(", "))]
    UpstreamNotVerified(Vec<String>),
    #[error("PipelinePaused: {0}")]
    PipelinePaused(String),
}

impl GateFault {
    /// The phase of a gate with this fault.
    pub fn phase(&self) -> GatePhase {
        match self {
            Self::Compile(_)
            | Self::Eval { .. }
            | Self::ContextUnavailable { .. }
            | Self::MetricNoData { .. }
            | Self::ExternalError { .. } => GatePhase::Error,
            Self::ExternalPending { .. } | Self::BundleMissing(_) | Self::UpstreamNotVerified(_) => {
                GatePhase::Pending
            }
            Self::PipelinePaused(_) => GatePhase::Block,
        }
    }
}

/// A value an expression read.
#[derive(Clone, Debug, PartialEq)]
pub struct LeafValue {
    /// As the expression has it: `bundle.upstreamSoakMinutes`.
    pub path: String,
    /// None if reading it failed.
    pub value: Option<Json>,
    /// The comparisons with constants: `>= 30`.
    pub thresholds: Vec<String>,
    /// Something to know about the value.
    pub note: Option<&'static str>,
}

/// Longer values are cut.
const LONGEST: usize = 80;

impl fmt::Display for LeafValue {
    /// Prints `bundle.upstreamSoakMinutes = 12 (threshold: >= 30)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = ", self.path)?;
        match &self.value {
            None => f.write_str("absent")?,
            Some(value) => {
                let text = value.to_string();
                match text.char_indices().nth(LONGEST) {
                    Some((end, _)) => write!(f, "{}…", &text[..end])?,
                    None => f.write_str(&text)?,
                }
            }
        }
        if !self.thresholds.is_empty() {
            write!(f, " (threshold: {})", self.thresholds.join(", "))?;
        }
        match self.note {
            Some(note) => write!(f, " ({note})"),
            None => Ok(()),
        }
    }
}

/// The moment a gate opens, everything but time staying as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateEta {
    pub at: Timestamp,
    pub basis: EtaBasis,
}

/// Whatever makes a gate open at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EtaBasis {
    /// Soak time in an environment.
    Soak {
        environment: String,
    },
    /// The age of the bundle.
    Age,
    Schedule,
    Window {
        name: String,
    },
    /// An answer or a measurement expires.
    Expiry {
        name: String,
    },
    Contract {
        name: String,
    },
    /// The expression compares the present with something.
    Clock,
}

impl fmt::Display for EtaBasis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Soak { environment } => write!(f, "{environment} verifiedAt"),
            Self::Age => f.write_str("the bundle's creation"),
            Self::Schedule => f.write_str("the schedule"),
            Self::Window { name } => write!(f, "change window {name}"),
            Self::Expiry { name } => write!(f, "the expiry of {name}"),
            Self::Contract { name } => write!(f, "{name} verifiedAt"),
            Self::Clock => f.write_str("the clock"),
        }
    }
}

impl GateOutcome {
    /// A gate that is closed for a reason other than its expression.
    pub fn closed(fault: GateFault) -> Self {
        Self {
            ready: false,
            phase: fault.phase(),
            reason: fault.to_string(),
            fault: Some(fault),
            values: Vec::new(),
            eta: None,
            next: None,
        }
    }

    /// A gate that is open although nobody asked its expression.
    pub(crate) fn overridden(reason: String, until: Option<Timestamp>) -> Self {
        Self {
            ready: true,
            phase: GatePhase::Overridden,
            reason,
            fault: None,
            values: Vec::new(),
            eta: None,
            next: until,
        }
    }

    /// The values as a status keeps them.
    pub fn value_map(&self) -> Map<String, Json> {
        let value = |leaf: &LeafValue| (leaf.path.clone(), leaf.value.clone().unwrap_or(Json::Null));
        self.values.iter().map(value).collect()
    }

    /// The values for people: `a = 1, b = 2`.
    pub fn detail(&self) -> String {
        self.values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }
}
