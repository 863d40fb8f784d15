//! The status of a Graph: conditions and nodes, written only when they change.

use jiff::Timestamp;

use crate::api::{Condition, ConditionStatus, GraphStatus, NodeResource, NodeState, NodeStatus};
use crate::compile::{CompileError, CompiledGraph, Node};
use crate::memory::NodeMemory;
use crate::walk::{PruneOutcome, TeardownTrouble};

/// How many nodes a message names.
const NAMED: usize = 5;
/// How long a message may be, in characters.
const LONGEST_MESSAGE: usize = 1000;

/// A time as conditions write it.
pub(crate) fn time_text(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// What a walk has to say about its Graph.
pub(crate) struct Report<'r> {
    pub(crate) generation: i64,
    pub(crate) compiled: Result<(), &'r CompileError>,
    /// The spec that was walked; `None` when there is none that compiles.
    pub(crate) graph: Option<&'r CompiledGraph>,
    pub(crate) nodes: &'r [NodeMemory],
    pub(crate) prune: &'r PruneOutcome,
    pub(crate) now: Timestamp,
}

impl Report<'_> {
    /// The status, with times of transitions taken from the one before.
    pub(crate) fn status(&self, before: &GraphStatus) -> GraphStatus {
        let mut conditions = vec![];
        let (status, reason, message) = match self.compiled {
            Ok(()) => (ConditionStatus::True, "Compiled", String::new()),
            Err(error) => (ConditionStatus::False, error.fault().reason(), error.to_string()),
        };
        for kind in ["Compiled", "Accepted"] {
            conditions.push(self.condition(before, kind, status, reason, &message));
        }
        let (status, reason, message) = self.readiness();
        conditions.push(self.condition(before, "Ready", status, reason, &message));
        let blocked = self.prune.trouble.iter().filter_map(|trouble| match trouble {
            TeardownTrouble::Blocked(message) => Some(message.as_str()),
            TeardownTrouble::FinalizerSkipped(_) => None,
        });
        let blocked: Vec<&str> = blocked.collect();
        if !blocked.is_empty() {
            let message = blocked.join("; ");
            conditions.push(self.condition(
                before,
                "TeardownBlocked",
                ConditionStatus::True,
                "Blocked",
                &message,
            ));
        }
        let skipped = self.prune.trouble.iter().filter_map(|trouble| match trouble {
            TeardownTrouble::FinalizerSkipped(id) => Some(id.as_str()),
            TeardownTrouble::Blocked(_) => None,
        });
        let skipped: Vec<&str> = skipped.collect();
        if !skipped.is_empty() {
            let message = format!("nothing to finalize for {}", skipped.join(", "));
            conditions.push(self.condition(
                before,
                "FinalizerSkipped",
                ConditionStatus::True,
                "TargetMissing",
                &message,
            ));
        }
        let order = self.graph.map(|graph| graph.graph.ids().map(ToString::to_string).collect());
        GraphStatus {
            observed_generation: self.generation,
            conditions,
            topological_order: order.unwrap_or_default(),
            nodes: self.walked().map(node_status).collect(),
        }
    }

    /// The nodes that take part in normal operation.
    fn walked(&self) -> impl Iterator<Item = &NodeMemory> {
        let is_finalizer =
            |id: &str| self.graph.and_then(|graph| graph.graph.get(id)).is_some_and(Node::is_finalizer);
        self.nodes.iter().filter(move |memory| !is_finalizer(&memory.id))
    }

    fn condition(
        &self,
        before: &GraphStatus,
        kind: &str,
        status: ConditionStatus,
        reason: &str,
        message: &str,
    ) -> Condition {
        let same = before.conditions.iter().find(|known| known.kind == kind && known.status == status);
        Condition {
            kind: kind.to_owned(),
            status,
            reason: reason.to_owned(),
            message: shortened(message),
            observed_generation: self.generation,
            last_transition_time: match same {
                Some(known) => known.last_transition_time.clone(),
                None => time_text(self.now),
            },
        }
    }

    /// The heaviest state of all nodes, with the nodes that are in it.
    fn readiness(&self) -> (ConditionStatus, &'static str, String) {
        if self.graph.is_none() {
            return (ConditionStatus::False, "NotCompiled", "no revision compiles".to_owned());
        }
        let worst = self.walked().map(|memory| memory.state).max_by_key(|state| state.severity());
        let worst = worst.unwrap_or(NodeState::Ready);
        let (status, reason) = match worst {
            NodeState::Ready | NodeState::Excluded => return (ConditionStatus::True, "Ready", String::new()),
            NodeState::NotReady => (ConditionStatus::Unknown, "NotReady"),
            NodeState::Pending | NodeState::Held => (ConditionStatus::Unknown, "Pending"),
            NodeState::Blocked => (ConditionStatus::Unknown, "Blocked"),
            NodeState::Conflict => (ConditionStatus::False, "Conflict"),
            NodeState::Error => (ConditionStatus::False, "Error"),
            NodeState::SystemError => (ConditionStatus::False, "SystemError"),
        };
        let offending: Vec<&NodeMemory> =
            self.walked().filter(|memory| memory.state.severity() == worst.severity()).collect();
        let ids: Vec<&str> = offending.iter().take(NAMED).map(|memory| memory.id.as_str()).collect();
        let more = match offending.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let first = offending.iter().find(|memory| !memory.message.is_empty());
        let why = first.map(|memory| format!(": {}", memory.message)).unwrap_or_default();
        (status, reason, format!("{}{more}{why}", ids.join(", ")))
    }
}

fn shortened(message: &str) -> String {
    if message.chars().count() <= LONGEST_MESSAGE {
        return message.to_owned();
    }
    message.chars().take(LONGEST_MESSAGE).chain(['…']).collect()
}

fn node_status(memory: &NodeMemory) -> NodeStatus {
    let named = memory.objects.first().filter(|object| !object.at.name.is_empty());
    NodeStatus {
        id: memory.id.clone(),
        state: memory.state,
        reason: match memory.state {
            NodeState::Ready => String::new(),
            _ => memory.reason.to_owned(),
        },
        message: shortened(&memory.message),
        since: memory.since.map(time_text).unwrap_or_default(),
        resource: named.map(|object| NodeResource {
            api_version: object.at.gvk.api_version(),
            kind: object.at.gvk.kind.clone(),
            namespace: object.at.namespace.clone(),
            name: object.at.name.clone(),
        }),
    }
}
