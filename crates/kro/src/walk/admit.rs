//! Whether a node may be evaluated, given how its dependencies stand.

use super::Walk;
use crate::api::NodeState;
use crate::compile::{Gate, Node};
use crate::expression::EvaluationFailure;
use crate::memory::NodeMemory;
use crate::walk::{WalkMode, scope};

/// What dependencies and input gates say about a node.
pub(super) enum Admission {
    Go,
    Excluded(String),
    Blocked(String),
    /// Something is not there, or is held back: what exists stays as it is.
    Wait {
        reason: &'static str,
        message: String,
    },
    Failed(EvaluationFailure),
}

impl Walk<'_> {
    pub(super) fn admission(&self, node: &Node, done: &[NodeMemory]) -> Admission {
        // What is only read may still be read by a finalizer.
        if self.mode == WalkMode::Teardown && node.body.kind.role().is_some() {
            return Admission::Wait { reason: "Teardown", message: "the Graph is being removed".to_owned() };
        }
        let mut blocked = None;
        let mut pending = None;
        for id in node.hard_dependencies() {
            let Some(dependency) = done.iter().find(|memory| memory.id == id) else { continue };
            match dependency.state {
                NodeState::Excluded => return Admission::Excluded(format!("`{id}` is excluded")),
                state if state.is_failure() => {
                    blocked = blocked.or(Some(format!("`{id}` is in state {state:?}")));
                }
                NodeState::Held => {
                    pending = pending.or(Some(("Held", format!("`{id}` holds its output back"))));
                }
                NodeState::Pending => pending = pending.or(Some(("Waiting", format!("`{id}` is pending")))),
                _ if dependency.view.is_none() => {
                    pending = pending.or(Some(("Waiting", format!("`{id}` has let nothing out yet"))));
                }
                _ => {}
            }
        }
        if let Some(message) = blocked {
            return Admission::Blocked(message);
        }
        if let Some((reason, message)) = pending {
            return Admission::Wait { reason, message };
        }
        self.input_gate(node, done)
    }

    /// A gate on the input that paces the node's own changes is asked for each object instead.
    fn input_gate(&self, node: &Node, done: &[NodeMemory]) -> Admission {
        let Gate::Input(clauses) = &node.gate else { return Admission::Go };
        let own = scope::with_dependencies(serde_json::json!({}), node, done);
        let mut scope = scope::dependencies(node, done);
        scope.set(&node.id, slipway_cel::Value::from_json(&own));
        for clause in clauses {
            if is_pacing(node, clause) {
                continue;
            }
            match clause.holds(&scope, self.now) {
                Ok(true) => {}
                Ok(false) => {
                    return Admission::Wait {
                        reason: "GateClosed",
                        message: format!("`{}` does not hold", clause.source),
                    };
                }
                Err(failure) => return Admission::Failed(failure),
            }
        }
        Admission::Go
    }
}

/// Whether a clause of a repeated node is about its own objects.
pub(super) fn is_pacing(node: &Node, clause: &crate::expression::Expression) -> bool {
    !node.repeats.is_empty()
        && clause.program.references().iter().any(|reference| reference.variable == node.id)
}
