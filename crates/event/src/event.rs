//! What engines say, and its stable JSON form.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use slipway_manifest::ObjectRef;
use slipway_problem::Problem;

use crate::{RunId, Scope};

/// The version of the JSON form. It grows when a reader of the old form could misread the new one;
/// new event types and new optional fields do not count, readers skip what they do not know.
pub const FORMAT_VERSION: u32 = 1;

/// One event as every sink sees it: stamped, ordered and free of secrets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Event {
    /// A run begins.
    #[serde(rename = "run.started")]
    RunStarted {
        /// What the user asked for, for example `apply web`.
        title: String,
        /// How many nodes the graph has.
        nodes: usize,
    },
    /// A run is over; nothing follows but its summary.
    #[serde(rename = "run.finished", rename_all = "camelCase")]
    RunFinished { status: RunStatus, duration_ms: u64 },
    /// A node's worker starts.
    #[serde(rename = "node.started")]
    NodeStarted {
        node: String,
        /// Counts from 1; goes on counting when a run is resumed.
        attempt: u32,
    },
    /// An attempt failed and another will follow.
    #[serde(rename = "node.retrying", rename_all = "camelCase")]
    NodeRetrying { node: String, attempt: u32, error: String, delay_ms: u64 },
    /// A node is done, one way or another.
    #[serde(rename = "node.finished", rename_all = "camelCase")]
    NodeFinished {
        node: String,
        status: NodeStatus,
        /// Why it was skipped, blocked or cancelled; what went wrong when it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        duration_ms: u64,
    },
    /// Something became of a Kubernetes object.
    #[serde(rename = "object")]
    Object {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<String>,
        object: ObjectRef,
        state: ObjectState,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// A line a node's work or a workload wrote.
    #[serde(rename = "log")]
    Log {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        object: Option<ObjectRef>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        container: Option<String>,
        stream: LogStream,
        line: String,
    },
    /// How far something is.
    #[serde(rename = "progress")]
    Progress {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<String>,
        message: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        done: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        total: Option<u64>,
    },
    /// Something the user should know that does not stop the run.
    #[serde(rename = "warning")]
    Warning { problem: Problem },
    /// How many nodes ended how.
    #[serde(rename = "summary")]
    Summary { totals: Totals },
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunStatus {
    Succeeded,
    Failed,
    Cancelled,
}

/// How a node ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeStatus {
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

/// How many nodes ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    pub succeeded: u64,
    pub failed: u64,
    pub skipped: u64,
    pub blocked: u64,
    pub cancelled: u64,
    pub resumed: u64,
    pub not_started: u64,
}

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// Which of its two mouths a workload wrote to; Kubernetes logs do not tell, so `stdout` by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
        match self {
            Self::RunStarted { title, .. } => edit(title),
            Self::RunFinished { .. } | Self::Summary { .. } => {}
            Self::NodeStarted { node, .. } => edit(node),
            Self::NodeRetrying { node, error, .. } => {
                edit(node);
                edit(error);
            }
            Self::NodeFinished { node, reason, .. } => {
                edit(node);
                reason.iter_mut().for_each(edit);
            }
            Self::Object { node, object, message, .. } => {
                node.iter_mut().chain(message).for_each(&mut *edit);
                edit_object(object, edit);
            }
            Self::Log { node, object, container, line, .. } => {
                node.iter_mut().chain(container).for_each(&mut *edit);
                object.iter_mut().for_each(|object| edit_object(object, edit));
                edit(line);
            }
            Self::Progress { node, message, .. } => {
                node.iter_mut().for_each(&mut *edit);
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
