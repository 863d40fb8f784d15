//! Evaluates one node.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use slipway_cluster::{Error, ErrorClass};
use slipway_graph::NodeRef;
use slipway_manifest::ObjectRef;

use super::admit::Admission;
use super::{Walk, scope};
use crate::api::NodeState;
use crate::compile::{BodyKind, Gate, Node};
use crate::expression::EvaluationFailure;
use crate::flip::{LOOK_AGAIN, next_change};
use crate::memory::{NodeMemory, NodeObject, place_of};
use crate::project::{at_path, feed};

/// The first and the longest pause after trouble of the server's.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30 * 60);

/// Why a node has no objects to look at.
#[derive(Debug)]
pub(super) enum Stop {
    Excluded(String),
    Pending { reason: &'static str, message: String },
    Failed(NodeFailure),
}

/// What went wrong with a node.
#[derive(Debug)]
pub(super) struct NodeFailure {
    pub(super) state: NodeState,
    pub(super) reason: &'static str,
    pub(super) message: String,
    /// The object it went wrong with and its version; another one is worth another try.
    pub(super) object: Option<Box<(ObjectRef, u64)>>,
}

impl NodeFailure {
    pub(super) fn wrong(reason: &'static str, message: impl Into<String>) -> Self {
        Self { state: NodeState::Error, reason, message: message.into(), object: None }
    }

    pub(super) fn conflict(message: impl Into<String>, at: &ObjectRef, version: u64) -> Self {
        let object = Some(Box::new((at.clone(), version)));
        Self { state: NodeState::Conflict, reason: "Conflict", message: message.into(), object }
    }

    /// Names the object and the version of it that was refused.
    pub(super) fn on(mut self, at: &ObjectRef, version: u64) -> Self {
        self.object = Some(Box::new((at.clone(), version)));
        self
    }

    /// Sorts an answer of the server.
    pub(super) fn of(error: &Error) -> Self {
        let (state, reason) = match error.class {
            ErrorClass::Conflict | ErrorClass::AlreadyExists => (NodeState::Conflict, "Conflict"),
            ErrorClass::NoKind => (NodeState::SystemError, "NoSuchKind"),
            class if class.is_transient() => (NodeState::SystemError, "ServerTrouble"),
            ErrorClass::Forbidden | ErrorClass::Unauthorized => (NodeState::Error, "Forbidden"),
            ErrorClass::Immutable => (NodeState::Error, "Immutable"),
            ErrorClass::NotFound => (NodeState::Error, "NotFound"),
            _ => (NodeState::Error, "Refused"),
        };
        Self { state, reason, message: error.to_string(), object: None }
    }
}

impl From<NodeFailure> for Stop {
    fn from(failure: NodeFailure) -> Self {
        Self::Failed(failure)
    }
}

impl From<EvaluationFailure> for Stop {
    /// What is absent may still come.
    fn from(failure: EvaluationFailure) -> Self {
        match failure {
            EvaluationFailure::Missing(message) => Self::Pending { reason: "Waiting", message },
            other => Self::Failed(other.into()),
        }
    }
}

impl From<EvaluationFailure> for NodeFailure {
    /// What took too long is tried again; anything else is wrong.
    fn from(failure: EvaluationFailure) -> Self {
        match failure {
            EvaluationFailure::Late(message) => {
                Self { state: NodeState::SystemError, reason: "TimedOut", message, object: None }
            }
            EvaluationFailure::Missing(message) | EvaluationFailure::Wrong(message) => {
                Self::wrong("ExpressionError", message)
            }
        }
    }
}

/// An object of a node as it is now.
pub(super) struct LiveObject {
    pub(super) object: NodeObject,
    pub(super) value: Value,
    /// Whether it is as the node wants it.
    pub(super) is_updated: bool,
}

impl Walk<'_> {
    pub(super) async fn evaluate(
        &self,
        at: NodeRef<'_, Node>,
        before: &NodeMemory,
        done: &[NodeMemory],
    ) -> NodeMemory {
        let node = at.value();
        let mut next = before.clone();
        next.wake = None;
        next.wake_at(node.recheck_after.and_then(|after| self.now.checked_add(after).ok()));
        match self.admission(node, done) {
            Admission::Excluded(message) => return self.exclude(next, message),
            Admission::Blocked(message) => {
                next.enter(NodeState::Blocked, "Blocked", message, self.now);
                return next;
            }
            Admission::Failed(failure) => return self.fail(next, failure.into()),
            Admission::Wait { reason, message } => {
                next.wake_at(self.input_gate_change(node, done));
                return self.retain(at, next, done, reason, message);
            }
            Admission::Go => next.wake_at(self.input_gate_change(node, done)),
        }
        let input = self.input_hash(node, done);
        let next_render = before.rendered.and_then(|rendered| rendered.checked_add(LOOK_AGAIN).ok());
        let is_due = node.is_volatile && next_render.is_none_or(|due| self.now >= due);
        let is_same = before.input == Some(input) && !is_due && !self.is_resync;
        if node.is_volatile {
            next.wake_at(if is_due { self.now.checked_add(LOOK_AGAIN).ok() } else { next_render });
        }
        if is_same {
            match before.state {
                NodeState::SystemError if before.wake.is_some_and(|wake| self.now < wake) => {
                    next.wake = before.wake;
                    return next;
                }
                NodeState::Error | NodeState::Conflict if self.is_unchanged_failure(before) => {
                    return next;
                }
                NodeState::Error | NodeState::Conflict | NodeState::SystemError => {}
                _ => {
                    if let Some(live) = self.present_objects(node, before) {
                        return self.observe(at, next, &live, done);
                    }
                }
            }
        }
        next.input = Some(input);
        next.rendered = node.is_volatile.then_some(self.now);
        match self.resolve(node, before, done).await {
            Ok(resolved) => {
                next.failures = 0;
                next.failed_on = None;
                next.objects = resolved.live.iter().map(|live| live.object.clone()).collect();
                next.is_complete = resolved.withheld == 0;
                if resolved.withheld > 0 {
                    let message = format!("{} objects are held back by `propagateWhen`", resolved.withheld);
                    next.enter(NodeState::NotReady, "Paced", message, self.now);
                    // They are looked at again when another object of the node changes.
                    next.input = None;
                    return next;
                }
                self.observe(at, next, &resolved.live, done)
            }
            Err(Stop::Excluded(message)) => self.exclude(next, message),
            Err(Stop::Pending { reason, message }) => {
                next.input = None;
                self.retain(at, next, done, reason, message)
            }
            Err(Stop::Failed(failure)) => self.fail(next, failure),
        }
    }

    fn exclude(&self, mut next: NodeMemory, message: String) -> NodeMemory {
        next.enter(NodeState::Excluded, "Excluded", message, self.now);
        next.view = None;
        next.input = None;
        next.objects.clear();
        next.is_complete = true;
        next
    }

    pub(super) fn fail(&self, mut next: NodeMemory, failure: NodeFailure) -> NodeMemory {
        next.failed_on = failure.object;
        next.is_complete = false;
        if failure.state == NodeState::SystemError {
            let pause = FIRST_PAUSE.saturating_mul(1 << next.failures.min(11)).min(LONGEST_PAUSE);
            next.failures += 1;
            next.wake_at(self.now.checked_add(pause).ok());
        }
        next.enter(failure.state, failure.reason, failure.message, self.now);
        next
    }

    /// Leaves a node as it is, because what it depends on is not there or is held back. What it has in the cluster
    /// is looked at all the same: after a restart this is how a closed gate keeps what it let through.
    fn retain(
        &self,
        at: NodeRef<'_, Node>,
        mut next: NodeMemory,
        done: &[NodeMemory],
        reason: &'static str,
        message: String,
    ) -> NodeMemory {
        let node = at.value();
        let existing = self.existing_objects(node);
        if !existing.is_empty() {
            if next.objects.is_empty() {
                next.objects = existing.iter().map(|live| live.object.clone()).collect();
            }
            // What it wants now is not known, so nothing of it is surplus.
            next.is_complete = false;
            return self.observe(at, next, &existing, done);
        }
        let was_read = !matches!(node.body.kind, BodyKind::Template | BodyKind::Patch) && next.view.is_some();
        if reason == "Held" && was_read {
            return next;
        }
        next.enter(NodeState::Pending, reason, message, self.now);
        next
    }

    /// The objects a node has in the cluster, whatever it wants now.
    pub(super) fn existing_objects(&self, node: &Node) -> Vec<LiveObject> {
        let Some(gvk) = &node.body.gvk else { return Vec::new() };
        let Ok(feed) = self.feed(gvk) else { return Vec::new() };
        let places = self.owned_objects(node);
        let live = places.into_iter().filter_map(|place| match feed.get(&place) {
            crate::feed::Lookup::Found(value) => {
                let namespace = Some(place.namespace.as_str());
                let at = ObjectRef::new(gvk.clone(), namespace, place.name.clone());
                let object = NodeObject { at, desired: 0, equivalent: 0 };
                Some(LiveObject { object, value, is_updated: false })
            }
            _ => None,
        });
        live.collect()
    }

    /// The objects of the last evaluation, if every one of them is still there.
    fn present_objects(&self, node: &Node, before: &NodeMemory) -> Option<Vec<LiveObject>> {
        if !matches!(node.body.kind, BodyKind::Template | BodyKind::Patch) || !before.is_complete {
            return None;
        }
        let feed = self.feed(node.body.gvk.as_ref()?).ok()?;
        let read = |object: &NodeObject| match feed.get(&object.place()) {
            crate::feed::Lookup::Found(value) => {
                Some(LiveObject { object: object.clone(), value, is_updated: true })
            }
            _ => None,
        };
        before.objects.iter().map(read).collect()
    }

    fn is_unchanged_failure(&self, before: &NodeMemory) -> bool {
        let Some((at, version)) = before.failed_on.as_deref() else { return true };
        self.feed(&at.gvk).is_ok_and(|feed| feed.version(&place_of(at)) == *version)
    }

    /// A hash of everything a node is rendered from; what is absent differs from what is null.
    fn input_hash(&self, node: &Node, done: &[NodeMemory]) -> u64 {
        let mut hasher = DefaultHasher::new();
        node.hash.hash(&mut hasher);
        for read in &node.reads {
            let view =
                done.iter().find(|memory| memory.id == read.node).and_then(|memory| memory.view.as_deref());
            match view.and_then(|view| at_path(view, &read.path)) {
                Some(value) => feed(value, &mut hasher),
                None => 0xAB5E_u32.hash(&mut hasher),
            }
        }
        hasher.finish()
    }

    fn input_gate_change(&self, node: &Node, done: &[NodeMemory]) -> Option<Timestamp> {
        let Gate::Input(clauses) = &node.gate else { return None };
        let scope = scope::dependencies(node, done);
        clauses.iter().filter_map(|clause| next_change(clause, &scope, self.now)).min()
    }
}
