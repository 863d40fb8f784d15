//! What is remembered of a Graph between walks. All of it can be derived anew from the cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use slipway_manifest::{Gvk, ObjectRef};

use crate::api::NodeState;
use crate::compile::SharedGraph;
use crate::names::Place;

#[derive(Default)]
pub(crate) struct GraphMemory {
    pub(crate) uid: String,
    /// The generation the nodes below were walked in.
    pub(crate) generation: i64,
    /// The last spec that compiled, kept only while the present one does not.
    pub(crate) fallback: Option<SharedGraph>,
    pub(crate) nodes: Vec<NodeMemory>,
    /// Every object that wakes the Graph.
    pub(crate) followed: BTreeSet<(Gvk, Place)>,
    /// When what was applied is next compared with what is there.
    pub(crate) resync: Option<Timestamp>,
    /// Whether the revision of the generation is stored.
    pub(crate) revision: RevisionState,
    /// Superseded revisions, while objects of theirs may be left.
    pub(crate) superseded: Option<Vec<Superseded>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RevisionState {
    #[default]
    Unknown,
    Stored {
        generation: i64,
    },
}

/// A spec that was replaced.
pub(crate) struct Superseded {
    pub(crate) name: String,
    /// `None` when it cannot be compiled any more.
    pub(crate) graph: Option<SharedGraph>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct NodeMemory {
    pub(crate) id: String,
    pub(crate) state: NodeState,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) since: Option<Timestamp>,
    /// What dependents see: the fields they read, as they last were let out.
    pub(crate) view: Option<Arc<Value>>,
    /// Hash of what was rendered from, when the last evaluation came to an end.
    pub(crate) input: Option<u64>,
    /// The objects it has, in the order of its collection.
    pub(crate) objects: Vec<NodeObject>,
    /// Whether `objects` is everything the node wants: only then others are surplus.
    pub(crate) is_complete: bool,
    /// When time alone makes another walk worthwhile.
    pub(crate) wake: Option<Timestamp>,
    /// When a body that depends on the present was last rendered.
    pub(crate) rendered: Option<Timestamp>,
    /// The failure stands while this object has this version.
    pub(crate) failed_on: Option<Box<(ObjectRef, u64)>>,
    pub(crate) failures: u32,
}

/// An object of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeObject {
    pub(crate) at: ObjectRef,
    /// Hash of what was to be applied.
    pub(crate) desired: u64,
    /// The version that equals what is wanted though it reads otherwise.
    pub(crate) equivalent: u64,
}

impl NodeObject {
    pub(crate) fn place(&self) -> Place {
        place_of(&self.at)
    }
}

pub(crate) fn place_of(at: &ObjectRef) -> Place {
    Place { namespace: at.namespace.clone().unwrap_or_default(), name: at.name.clone() }
}

impl NodeMemory {
    /// Enters a state; `since` moves only when it is another.
    pub(crate) fn enter(
        &mut self,
        state: NodeState,
        reason: &'static str,
        message: impl Into<String>,
        now: Timestamp,
    ) {
        if self.state != state || self.since.is_none() {
            self.since = Some(now);
        }
        self.state = state;
        self.reason = reason;
        self.message = message.into();
    }

    pub(crate) fn wake_at(&mut self, at: Option<Timestamp>) {
        self.wake = self.wake.into_iter().chain(at).min();
    }
}
