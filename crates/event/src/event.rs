//! Events of engines, and their stable JSON form.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use slipway_graph::NodeTotals;
use slipway_manifest::ObjectRef;
use slipway_problem::Problem;

use crate::{NodeId, NodeName, RunId, Scope};

/// The version of the JSON form. It grows when a reader of the old form could misread the new one;
/// new event types and new optional fields do not count, readers skip what they do not know.
pub const FORMAT_VERSION: u32 = 1;

/// One event as every sink sees it: stamped, ordered and free of secrets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Record {
    /// The version of this form, [`FORMAT_VERSION`].
    pub v: u32,
    pub run: RunId,
    /// Counts from 1 within a run without gaps.
    pub seq: u64,
    pub time: Timestamp,
    /// The path from the run down to whose event this is; empty for the run's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scope: Vec<Scope>,
    #[serde(flatten)]
    pub event: Event,
}

/// The objects a plan changes, counted by what is done to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PlannedChanges {
    pub create: usize,
    pub recreate: usize,
    pub update: usize,
    /// Sent to the server, which says whether something changes.
    pub apply: usize,
    pub delete: usize,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type")]
pub enum Event {
    /// A plan was made: what a run of it would do is settled.
    #[serde(rename = "plan.made")]
    PlanMade {
        /// The command it is for, for example `apply web`.
        title: String,
        /// The number of nodes it has.
        nodes: usize,
        /// The objects a release would change; none of a plan that consists of releases or steps.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        changes: Option<PlannedChanges>,
    },
    /// Somebody else holds a lock, and the run waits for it.
    #[serde(rename = "lock.waiting")]
    LockWaiting {
        lock: String,
        /// The holder, where it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        holder: Option<String>,
    },
    /// A lock was taken from a holder that did not give it back.
    #[serde(rename = "lock.taken-over")]
    LockTakenOver {
        lock: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        holder: Option<String>,
    },
    /// A person was asked before anything was written.
    #[serde(rename = "prompt.answered")]
    PromptAnswered { question: String, answer: PromptAnswer },
    /// A run begins.
    #[serde(rename = "run.started")]
    RunStarted {
        /// The command of the user, for example `apply web`.
        title: String,
        /// The number of nodes the graph has.
        nodes: usize,
    },
    /// A run is over; nothing follows but its summary.
    #[serde(rename = "run.finished", rename_all = "camelCase")]
    RunFinished { status: RunOutcome, duration_ms: u64 },
    /// A node's worker starts.
    #[serde(rename = "node.started")]
    NodeStarted {
        #[serde(flatten)]
        node: NodeName,
        /// Counts from 1; goes on counting when a run is resumed.
        attempt: u32,
    },
    /// An attempt failed and another will follow.
    #[serde(rename = "node.retrying", rename_all = "camelCase")]
    NodeRetrying {
        #[serde(flatten)]
        node: NodeName,
        attempt: u32,
        error: String,
        delay_ms: u64,
    },
    /// A node is done, one way or another.
    #[serde(rename = "node.finished", rename_all = "camelCase")]
    NodeFinished {
        #[serde(flatten)]
        node: NodeName,
        status: NodeOutcome,
        /// The reason why it was skipped, blocked or cancelled; the error when it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        duration_ms: u64,
    },
    /// Something became of a Kubernetes object.
    #[serde(rename = "object")]
    Object {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<NodeId>,
        object: ObjectRef,
        state: ObjectState,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// The replicas of a workload, where they are known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replicas: Option<ReplicaCounts>,
    },
    /// A line a node's work or a workload wrote.
    #[serde(rename = "log")]
    Log {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<NodeId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        object: Option<ObjectRef>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        container: Option<String>,
        stream: LogStream,
        line: String,
    },
    /// The state of something that takes time.
    #[serde(rename = "progress")]
    Progress {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<NodeId>,
        message: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        done: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        total: Option<u64>,
    },
    /// Something the user should know that does not stop the run.
    #[serde(rename = "warning")]
    Warning { problem: Problem },
    /// The number of nodes for each end.
    #[serde(rename = "summary")]
    Summary { totals: NodeTotals },
}

/// The answer to a question before a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PromptAnswer {
    Agreed,
    Refused,
    /// Nobody was there to answer.
    Unanswered,
}

/// The outcome of a run: how it ended. `journal::RunStatus` says where one stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RunOutcome {
    Succeeded,
    Failed,
    Cancelled,
}

/// The outcome of a node: how it ended. `journal::NodeStatus` says where one stands.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum NodeOutcome {
    Succeeded,
    Failed,
    /// Its worker found nothing to do.
    Skipped,
    /// Something it needs failed.
    Blocked,
    /// It was stopped while it ran.
    Cancelled,
    /// An earlier, interrupted run had done it.
    Resumed,
    /// The run ended before its turn came.
    #[serde(rename = "not-started")]
    NotStarted,
}

/// The change of an object, or the state it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ObjectState {
    Unchanged,
    Created,
    Updated,
    Recreated,
    Deleted,
    /// Applied, not ready yet.
    Waiting,
    Ready,
    Failed,
}

/// The replicas of a workload that are ready, and those it should have. Prints as `1/3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ReplicaCounts {
    pub ready: u64,
    pub desired: u64,
}

impl std::fmt::Display for ReplicaCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.ready, self.desired)
    }
}

/// The stream a log line came from; Kubernetes does not tell them apart, so `stdout` by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogStream {
    #[default]
    Stdout,
    Stderr,
}

impl Event {
    /// Hands every free text of the event to `edit`: the place where secrets are masked.
    ///
    /// Enumerations, counters and times cannot carry a secret and stay as they are, so the JSON form
    /// keeps its shape whatever the texts become.
    pub(crate) fn edit_texts(&mut self, edit: &mut dyn FnMut(&mut String)) {
        fn edit_object(object: &mut ObjectRef, edit: &mut dyn FnMut(&mut String)) {
            object.namespace.iter_mut().for_each(&mut *edit);
            for text in
                [&mut object.gvk.group, &mut object.gvk.version, &mut object.gvk.kind, &mut object.name]
            {
                edit(text);
            }
        }
        fn edit_id(node: &mut Option<NodeId>, edit: &mut dyn FnMut(&mut String)) {
            node.iter_mut().for_each(|node| edit(node.text_mut()));
        }
        match self {
            Self::PlanMade { title, .. } | Self::RunStarted { title, .. } => edit(title),
            Self::LockWaiting { lock, holder } | Self::LockTakenOver { lock, holder } => {
                edit(lock);
                holder.iter_mut().for_each(edit);
            }
            Self::PromptAnswered { question, .. } => edit(question),
            Self::RunFinished { .. } | Self::Summary { .. } => {}
            Self::NodeStarted { node, .. } => node.edit_texts(edit),
            Self::NodeRetrying { node, error, .. } => {
                node.edit_texts(edit);
                edit(error);
            }
            Self::NodeFinished { node, reason, .. } => {
                node.edit_texts(edit);
                reason.iter_mut().for_each(edit);
            }
            Self::Object { node, object, message, .. } => {
                edit_id(node, edit);
                message.iter_mut().for_each(&mut *edit);
                edit_object(object, edit);
            }
            Self::Log { node, object, container, line, .. } => {
                edit_id(node, edit);
                container.iter_mut().for_each(&mut *edit);
                object.iter_mut().for_each(|object| edit_object(object, edit));
                edit(line);
            }
            Self::Progress { node, message, .. } => {
                edit_id(node, edit);
                edit(message);
            }
            Self::Warning { problem } => {
                edit(&mut problem.message);
                problem.excerpt.iter_mut().chain(&mut problem.hint).for_each(&mut *edit);
                if let Some(at) = &mut problem.at {
                    let mut file = at.file.to_string();
                    edit(&mut file);
                    at.file = file.into();
                }
            }
        }
    }
}
