//! Policy gates: expressions over the state of a promotion that must be true before it goes on.
//!
//! A [`GateContext`] holds everything an expression may read. [`GateEvaluator`] compiles expressions once and evaluates them;
//! whatever goes wrong closes the gate ([`GateFault`]). An outcome tells the values it depends on and when time alone will
//! change it (`solve`). [`GateReconciler`] gathers contexts from the cluster and keeps the status of gates. The same evaluator
//! decides on skips ([`decide_skip`]), simulates ([`simulate`]) and checks files ([`check_gate`]).

mod bind;
mod check;
mod context;
mod evaluate;
mod explain;
mod expression;
mod external;
pub mod freeze;
mod fresh;
mod gather;
mod outcome;
mod overrides;
mod reconcile;
mod replay;
mod schedule;
mod schema;
mod simulate;
mod skip;
mod solve;
mod when;

pub use check::{
    FindingSeverity, GateExpectation, GateFinding, GateTest, GateTestProblem, GateTestResult,
    GateTestVerdict, check_gate, run_tests,
};
pub use context::{
    ApprovalContext, BundleContext, ContextPart, ContractContext, DelegationContext, DriftContext,
    EnvironmentContext, GateContext, GroupContext, MetricContext, PipelineContext, PreviousBundle,
    PullRequestContext, UpstreamContext, WindowContext,
};
pub use evaluate::GateEvaluator;
pub use explain::{Explanation, GateLine, PromotionReach};
pub(crate) use explain::{span_text, window_text, write_gates};
pub use expression::{ExpressionError, GateExpression};
pub use external::{PushError, parse_answer, store_answer};
pub use fresh::{is_fresh, is_open};
pub(crate) use gather::{current_values, read_contract};
pub use outcome::{EtaBasis, GateEta, GateFault, GateOutcome, LeafValue};
pub use overrides::{OverrideSubject, find_override};
pub use reconcile::GateReconciler;
pub(crate) use reconcile::gate_name;
pub use replay::{ReplayedPromotion, past_context, replay_history};
pub(crate) use schedule::find_zone;
pub use simulate::{AttributeError, SimulatedGate, Simulation, set_attribute, simulate};
pub use skip::{SkipDecision, SkipPermission, decide_skip};
pub use when::{WhenError, parse_when};
