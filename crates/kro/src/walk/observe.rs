//! Looks at the objects of a node: whether they are ready, and what dependents may see.

use std::sync::Arc;

use serde_json::Value;
use slipway_cel::{Bindings, Value as CelValue};
use slipway_graph::NodeRef;

use super::Walk;
use super::evaluate::LiveObject;
use super::scope::{self, Mark};
use crate::api::NodeState;
use crate::compile::{BodyKind, Gate, Node};
use crate::expression::{EvaluationFailure, Expression};
use crate::flip::next_change;
use crate::memory::NodeMemory;
use crate::project::project;

/// What conditions say about one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Verdict {
    is_ready: bool,
    is_open: bool,
}

impl Walk<'_> {
    pub(super) fn observe(
        &self,
        at: NodeRef<'_, Node>,
        mut next: NodeMemory,
        live: &[LiveObject],
        done: &[NodeMemory],
    ) -> NodeMemory {
        let node = at.value();
        let output: &[Arc<Expression>] = match &node.gate {
            Gate::Output(clauses) => clauses,
            Gate::Open | Gate::Input(_) => &[],
        };
        let dependencies = scope::dependencies(node, done);
        let collection = Value::Array(live.iter().map(|live| live.value.clone()).collect());
        // A collection that is only read is one value; a repeated node has conditions for each object.
        let values: Vec<&Value> = match node.body.kind {
            BodyKind::Watch => vec![&collection],
            _ => live.iter().map(|live| &live.value).collect(),
        };
        let mut verdicts = Vec::with_capacity(values.len());
        for value in &values {
            let mut own = dependencies.clone();
            own.set(&node.id, CelValue::from_json(value));
            for clause in node.ready_when.iter().chain(output) {
                next.wake_at(next_change(clause, &own, self.now));
            }
            let verdict = all_hold(&node.ready_when, &own, self)
                .and_then(|is_ready| Ok(Verdict { is_ready, is_open: all_hold(output, &own, self)? }));
            match verdict {
                Ok(verdict) => verdicts.push(verdict),
                Err(failure) => return self.fail(next, failure.into()),
            }
        }
        let is_ready = verdicts.iter().all(|verdict| verdict.is_ready);
        let is_open = verdicts.iter().all(|verdict| verdict.is_open);
        if !is_open {
            return self.hold(at, next);
        }
        let view = self.view(node, live, &verdicts);
        if next.view.as_deref() != Some(&view) {
            next.view = Some(Arc::new(view));
        }
        if is_ready {
            next.enter(NodeState::Ready, "Ready", "", self.now);
        } else {
            next.enter(NodeState::NotReady, "NotReady", "`readyWhen` does not hold", self.now);
        }
        next
    }

    /// Withholds the output of a node. What was let out before stays with the dependents: it is remembered, or their
    /// objects tell.
    fn hold(&self, at: NodeRef<'_, Node>, mut next: NodeMemory) -> NodeMemory {
        let has_let_out = next.view.is_some()
            || at.dependents().any(|dependent| !self.owned_objects(dependent.value()).is_empty());
        if has_let_out {
            next.enter(NodeState::Held, "GateClosed", "`propagateWhen` does not hold any more", self.now);
        } else {
            next.enter(NodeState::Pending, "GateClosed", "`propagateWhen` does not hold yet", self.now);
        }
        next
    }

    /// What dependents see of a node.
    fn view(&self, node: &Node, live: &[LiveObject], verdicts: &[Verdict]) -> Value {
        let is_list = !node.repeats.is_empty() || node.body.kind == BodyKind::Watch;
        let marked = |index: usize, live: &LiveObject, value: Value| {
            if !self.compiled.asks_for_state {
                return value;
            }
            let ready = verdicts.get(index).or(verdicts.first()).is_none_or(|verdict| verdict.is_ready);
            scope::mark(value, Mark::from(ready), Mark::from(live.is_updated))
        };
        if is_list {
            let is_read = !node.exposed.is_empty();
            let items = live.iter().enumerate().filter(|_| is_read);
            return Value::Array(
                items.map(|(index, live)| marked(index, live, live.value.clone())).collect(),
            );
        }
        match live.first() {
            Some(first) => marked(0, first, project(&first.value, &node.exposed)),
            None => Value::Object(serde_json::Map::new()),
        }
    }

    /// Whether one object of a node is ready, other nodes aside.
    pub(super) fn is_object_ready(&self, node: &Node, value: &Value) -> bool {
        let own = Bindings::new().json(&node.id, value);
        all_hold(&node.ready_when, &own, self).unwrap_or(false)
    }
}

fn all_hold(
    clauses: &[Arc<Expression>],
    scope: &Bindings<'_>,
    walk: &Walk<'_>,
) -> Result<bool, EvaluationFailure> {
    for clause in clauses {
        if !clause.holds(scope, walk.now)? {
            return Ok(false);
        }
    }
    Ok(true)
}
